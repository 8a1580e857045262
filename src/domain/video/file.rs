//! Video files in the media store.

use serde::{Deserialize, Serialize};

use crate::domain::image::Picture;
use crate::domain::value::{Digest, Text, named_values};

named_values! {
    /// Containers of input and output videos, by file extension.
    VideoFormat {
        Mp4 = "mp4",
        Webm = "webm",
    }
}

impl VideoFormat {
    /// Returns the media type for `Content-Type`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Mp4 => "video/mp4",
            Self::Webm => "video/webm",
        }
    }

    /// Detects the container from the first bytes of a file, without checking the rest.
    #[must_use]
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some(Self::Mp4),
            [0x1A, 0x45, 0xDF, 0xA3, ..] => Some(Self::Webm),
            _ => None,
        }
    }
}

/// A video in the media store, named by the hash of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Clip {
    pub digest: Digest,
    pub format: VideoFormat,
    /// File size in bytes.
    pub bytes: u64,
}

impl Clip {
    /// Maximum bytes of an input video, which is fetched from a URL.
    pub const BYTES_MAX: usize = 100 << 20;

    /// Returns the name under which the file is stored and served.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.digest, self.format.as_str())
    }
}

/// The vendor's id of a video that it generated.
pub type VendorCreationId = Text<200>;

/// The result of a video job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Creation {
    /// The requested video, with a watermark if one was requested.
    pub video: Clip,
    /// A still picture of the video.
    pub cover: Option<Picture>,
    /// The watermarked version, if there is one.
    pub watermarked: Option<Clip>,
    /// The vendor's id, needed to extend a video of a remote vendor.
    pub vendor_id: Option<VendorCreationId>,
}

impl Creation {
    /// Returns the files of the creation, each once.
    #[must_use]
    pub fn files(&self) -> Vec<Digest> {
        let video = self.video.digest;
        let cover = self.cover.map(|cover| cover.digest);
        let watermarked = self.watermarked.map(|clip| clip.digest);
        let others = cover.into_iter().chain(watermarked).filter(|digest| *digest != video);
        std::iter::once(video).chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_detected_by_their_first_bytes() {
        assert_eq!(VideoFormat::detect(b"\0\0\0\x20ftypisom"), Some(VideoFormat::Mp4));
        assert_eq!(VideoFormat::detect(b"\x1A\x45\xDF\xA3\x9F"), Some(VideoFormat::Webm));
        for other in [&b""[..], b"ftypisom", b"\0\0\0\x20moov", b"RIFF....AVI "] {
            assert_eq!(VideoFormat::detect(other), None);
        }
    }
}
