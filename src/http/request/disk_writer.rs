//! Streams a request body to a file, within the disk reserve and the daily quota of bytes.
//!
//! Hashing and writing run on threads of lower priority: a client sends as fast as they write, so uploads get only the
//! CPU time that other requests leave.

use std::io;

use actix_web::web::BytesMut;

use crate::disk_space::{DataDirPart, DiskSpace, SpaceClaim};
use crate::http::pipeline::RequestContext;
use crate::http::response::error::Problem;
use crate::media::incoming_file::IncomingFile;
use crate::priority::BackgroundThreads;
use crate::quota::Account;

/// Size of a write to disk, in bytes.
const WRITE_BYTES: usize = 256 * 1024;

/// Location of an upload, and names of its disk space for error messages.
#[derive(Debug, Clone, Copy)]
pub struct UploadPurpose {
    /// Part of the data directory that the file is written to.
    pub part: DataDirPart,
    /// Name for an upload of announced length.
    pub whole: &'static str,
    /// Name for an upload of unknown length, whose space is claimed as it arrives.
    pub rest: &'static str,
}

/// Upload in progress.
pub struct DiskWriter<'c> {
    call: &'c RequestContext,
    account: Account,
    /// `true` if the daily quota was charged in advance.
    is_charged: bool,
    reservation: SpaceClaim,
    buffer: BytesMut,
    /// `None` while a chunk is being written.
    file: Option<IncomingFile>,
}

impl<'c> DiskWriter<'c> {
    /// Begins an upload. An announced length is charged and reserved first, so that a client does not send a body that
    /// would be rejected.
    ///
    /// # Errors
    /// 429 if the account has fewer bytes left today; 507 if the disk is full.
    pub async fn start(
        call: &'c RequestContext,
        account: Account,
        announced: Option<usize>,
        purpose: UploadPurpose,
        create: impl FnOnce() -> io::Result<IncomingFile> + Send + 'static,
    ) -> Result<Self, Problem> {
        let space = &call.services().space;
        call.charge_bytes(account, announced.unwrap_or(0))?;

        let label = if announced.is_some() { purpose.whole } else { purpose.rest };
        let reservation =
            space.claim(purpose.part, label, announced.unwrap_or(0) as u64).map_err(Problem::disk_full)?;

        let file = Some(write_in_background(&call.shared().upload_writers, space, create).await?);
        let buffer = BytesMut::with_capacity(WRITE_BYTES);
        Ok(Self { call, account, is_charged: announced.is_some(), reservation, buffer, file })
    }

    /// Appends a chunk.
    ///
    /// # Errors
    /// Same as [`DiskWriter::start`].
    pub async fn write(&mut self, chunk: &[u8]) -> Result<(), Problem> {
        self.buffer.extend_from_slice(chunk);
        if self.buffer.len() >= WRITE_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Writes the buffered bytes and returns the file, which is not synced.
    ///
    /// # Errors
    /// Same as [`DiskWriter::start`].
    pub async fn finish(mut self) -> Result<IncomingFile, Problem> {
        if !self.buffer.is_empty() {
            self.flush().await?;
        }
        self.file.ok_or_else(lost_file)
    }

    /// Writes the buffered bytes, after charging them unless the length was announced.
    async fn flush(&mut self) -> Result<(), Problem> {
        self.reservation.consume(self.buffer.len() as u64).map_err(Problem::disk_full)?;
        if !self.is_charged {
            self.call.charge_bytes(self.account, self.buffer.len())?;
        }

        let bytes = self.buffer.split().freeze();
        let mut file = self.file.take().ok_or_else(lost_file)?;
        let write = move || file.write(&bytes).map(|()| file);
        let space = &self.call.services().space;
        self.file = Some(write_in_background(&self.call.shared().upload_writers, space, write).await?);
        Ok(())
    }
}

fn lost_file() -> Problem {
    Problem::internal("an upload continued after a failed write")
}

async fn write_in_background<T: Send + 'static>(
    writers: &BackgroundThreads,
    space: &DiskSpace,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    writers.run(work).await.map_err(Problem::internal)?.map_err(|error| Problem::from_io_error(&error, space))
}
