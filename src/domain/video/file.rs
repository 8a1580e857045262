//! Video files, as they are kept outside the log.

use serde::{Deserialize, Serialize};

use crate::domain::image::Picture;
use crate::domain::value::{Digest, Text, named_values};

named_values! {
    /// The containers that videos come in and go out as, by file extension.
    VideoFormat {
        Mp4 = "mp4",
        Webm = "webm",
    }
}

impl VideoFormat {
    /// The media type for Content-Type.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Mp4 => "video/mp4",
            Self::Webm => "video/webm",
        }
    }

    /// The container that a file has by its first bytes; what is in it is for a decoder to see.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some(Self::Mp4),
            [0x1A, 0x45, 0xDF, 0xA3, ..] => Some(Self::Webm),
            _ => None,
        }
    }
}

/// A video kept outside the log, by the hash of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Clip {
    pub digest: Digest,
    pub format: VideoFormat,
    /// Length of the file in bytes.
    pub bytes: u64,
}

impl Clip {
    /// Most bytes of a video that a caller names by its URL.
    pub const BYTES_MAX: usize = 100 << 20;

    /// The name under which the file is stored and served.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.digest, self.format.as_str())
    }
}

/// How a vendor names a video that it made.
pub type VendorCreation = Text<200>;

/// What comes of a video job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Creation {
    /// As it was asked for: with a watermark where one was.
    pub video: Clip,
    /// A picture of it.
    pub cover: Option<Picture>,
    /// The one with a watermark, where there is one.
    pub watermarked: Option<Clip>,
    /// Of a remote vendor: what it is asked by to go on with the video.
    pub at_vendor: Option<VendorCreation>,
}

impl Creation {
    /// The files that it is.
    #[must_use]
    pub fn files(&self) -> Vec<Digest> {
        let others = self.cover.map(|cover| cover.digest).into_iter();
        let others = others.chain(self.watermarked.map(|clip| clip.digest)).filter(|file| *file != self.video.digest);
        std::iter::once(self.video.digest).chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_known_by_their_first_bytes() {
        assert_eq!(VideoFormat::of_bytes(b"\0\0\0\x20ftypisom"), Some(VideoFormat::Mp4));
        assert_eq!(VideoFormat::of_bytes(b"\x1A\x45\xDF\xA3\x9F"), Some(VideoFormat::Webm));
        for other in [&b""[..], b"ftypisom", b"\0\0\0\x20moov", b"RIFF....AVI "] {
            assert_eq!(VideoFormat::of_bytes(other), None);
        }
    }
}
