//! Files of a music stream, written while it is sent, so that the music can be heard again until its files expire.

use std::io;

use tokio::task::spawn_blocking;

use crate::disk_space::{DataDirPart, SpaceClaim};
use crate::domain::music::{MusicFile, MusicFormat, SoundFileIndex};
use crate::http::server::Services;
use crate::media::incoming_file::IncomingFile;
use crate::media::store::MediaStore;

/// Maximum number of files of a stream; music with more is not stored.
const FILES_MAX: u16 = 4;
/// Maximum size of the files of a stream together, in bytes; longer music is not stored.
const BYTES_MAX: u64 = 256 << 20;

/// Recording of a stream. Music that cannot be recorded is still sent; its task then has no files.
pub struct MusicRecording {
    store: MediaStore,
    space: SpaceClaim,
    files: Vec<IncomingFile>,
    bytes: u64,
}

impl MusicRecording {
    /// Starts a recording; `None` if the disk is full.
    pub fn start(services: &Services) -> Option<Self> {
        // The size of the music is unknown: space is claimed as it is written.
        let space = services.space.claim(DataDirPart::Media, "music", 0).ok()?;
        Some(Self { store: services.media.store.clone(), space, files: Vec::new(), bytes: 0 })
    }

    /// Appends sound to a file; `None` if the recording cannot continue.
    pub async fn append(self, index: SoundFileIndex, data: Vec<u8>) -> Option<Self> {
        let mut recording = self;
        run_blocking(move || recording.write(index, &data).map(|()| recording)).await
    }

    /// Makes the files durable; `None` if they cannot be stored.
    pub async fn finish(self) -> Option<Vec<MusicFile>> {
        run_blocking(move || self.store_files()).await
    }

    fn write(&mut self, index: SoundFileIndex, data: &[u8]) -> io::Result<()> {
        self.bytes += data.len() as u64;
        if index.streams > FILES_MAX || self.bytes > BYTES_MAX {
            return Err(io::Error::other("more files or bytes than are stored"));
        }
        self.space.consume(data.len() as u64).map_err(io::Error::other)?;

        while self.files.len() <= usize::from(index.stream) {
            self.files.push(self.store.create_result()?);
        }
        match self.files.get_mut(usize::from(index.stream)) {
            Some(file) => file.write(data),
            None => Ok(()),
        }
    }

    fn store_files(self) -> io::Result<Vec<MusicFile>> {
        let store_file = |file: &IncomingFile| {
            let format = MusicFormat::detect(file.head()).ok_or_else(|| io::Error::other("unknown audio format"))?;
            self.store.put_music(file, format)
        };
        self.files.iter().map(store_file).collect()
    }
}

/// Runs `work` on a blocking thread; logs a failure and returns `None`.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Option<T> {
    let result = spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    result.inspect_err(|error| tracing::warn!(%error, "music not stored")).ok()
}
