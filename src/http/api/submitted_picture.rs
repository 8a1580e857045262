//! Pictures of a submission: checked one after the other, and stored once the whole submission is accepted.
//!
//! The content of an uploaded file is in memory only while it is checked; storing it creates a hard link.

use std::cell::Cell;
use std::io::{self, ErrorKind};

use crate::disk_space::DiskSpace;
use crate::domain::image::PictureSource;
use crate::domain::value::{CallbackUrl, InvalidValue};
use crate::http::api::input_file::{InputFiles, UploadReadError, UploadedPicture};
use crate::http::request::fields::FieldError;
use crate::http::response::error::Problem;
use crate::media::decoders::{PictureDecodeError, PictureDecoders};
use crate::media::input::{PictureInfo, PictureInput};
use crate::media::store::{MediaArea, MediaStore};
use crate::media::uploaded_files::UploadedFile;

/// Checks of the pictures of a submission. If memory for one is exhausted, the client may retry the whole submission.
pub struct PictureChecker<'s> {
    decoders: &'s PictureDecoders,
    files: &'s InputFiles,
    is_busy: Cell<bool>,
}

/// Content of a picture, or the URL of one still to be fetched.
pub enum LoadedPicture {
    Content(PictureContent),
    Remote(CallbackUrl),
}

/// Content of a picture that is not checked yet.
pub enum PictureContent {
    Inline(Vec<u8>),
    Uploaded(UploadedPicture),
}

/// Checked picture, or the URL of one still to be fetched.
pub enum CheckedPicture {
    Inline {
        bytes: Vec<u8>,
        info: PictureInfo,
    },
    Uploaded {
        file: UploadedFile,
        info: PictureInfo,
        /// JSON pointer of the field.
        pointer: String,
    },
    Remote(CallbackUrl),
}

impl PictureContent {
    /// Returns the bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline(bytes) => bytes,
            Self::Uploaded(picture) => picture.bytes(),
        }
    }
}

impl<'s> PictureChecker<'s> {
    /// Creates a checker for one submission.
    #[must_use]
    pub fn new(decoders: &'s PictureDecoders, files: &'s InputFiles) -> Self {
        Self { decoders, files, is_busy: Cell::new(false) }
    }

    /// Reads a picture, unless it is still to be fetched. Blocks.
    ///
    /// # Errors
    /// If its URL names a file that is not a picture of the caller, or the memory for it is exhausted.
    pub fn load(&self, picture: PictureInput) -> Result<LoadedPicture, InvalidValue> {
        let url = match picture {
            PictureInput::Bytes(bytes) => return Ok(LoadedPicture::Content(PictureContent::Inline(bytes))),
            PictureInput::Url(url) => url,
        };
        match self.files.read_picture(&url) {
            Ok(Some(picture)) => Ok(LoadedPicture::Content(PictureContent::Uploaded(picture))),
            Ok(None) => Ok(LoadedPicture::Remote(url)),
            Err(UploadReadError::Invalid(reason)) => Err(reason),
            Err(UploadReadError::Busy) => Err(self.busy_error()),
        }
    }

    /// Decodes a picture of the field at `pointer`. Blocks.
    ///
    /// # Errors
    /// If it cannot be decoded, or the memory for that is exhausted.
    pub fn inspect(&self, pointer: &str, content: PictureContent) -> Result<CheckedPicture, InvalidValue> {
        let info = self.decoders.inspect(content.bytes()).map_err(|error| match error {
            PictureDecodeError::Invalid(reason) => reason,
            PictureDecodeError::Busy => self.busy_error(),
        })?;
        Ok(match content {
            PictureContent::Inline(bytes) => CheckedPicture::Inline { bytes, info },
            PictureContent::Uploaded(picture) => {
                CheckedPicture::Uploaded { file: picture.file(), info, pointer: pointer.to_owned() }
            }
        })
    }

    fn busy_error(&self) -> InvalidValue {
        self.is_busy.set(true);
        InvalidValue::new("was not checked: the service is overloaded")
    }

    /// Returns the result of the submission's checks.
    ///
    /// # Errors
    /// 503 if memory was exhausted, or the bucket that has an uploaded file cannot be used.
    pub fn finish<T>(&self, checked: Result<T, Problem>) -> Result<T, Problem> {
        if self.files.are_unavailable() {
            return Err(Problem::files_unavailable());
        }
        if self.is_busy.get() { Err(Problem::overloaded()) } else { checked }
    }
}

impl CheckedPicture {
    /// Returns format and size; those of a picture that is still to be fetched are not known.
    #[must_use]
    pub fn info(&self) -> Option<PictureInfo> {
        match self {
            Self::Inline { info, .. } | Self::Uploaded { info, .. } => Some(*info),
            Self::Remote(_) => None,
        }
    }

    /// Stores the picture. Blocks.
    ///
    /// # Errors
    /// If it cannot be written, or an uploaded file has been removed.
    pub fn store_in(self, store: &MediaStore, space: &DiskSpace) -> Result<PictureSource, Problem> {
        match self {
            Self::Remote(url) => Ok(PictureSource::Remote(url)),
            Self::Inline { bytes, info: PictureInfo { format, width, height } } => {
                let stored = store.put(MediaArea::Input, &bytes, format, width, height);
                stored.map(PictureSource::Stored).map_err(|error| Problem::from_io_error(&error, space))
            }
            Self::Uploaded { file, info, pointer } => {
                let stored = store.put_uploaded_picture(&file, &info);
                stored.map(PictureSource::Stored).map_err(|error| storing_error(&error, store, &file, pointer, space))
            }
        }
    }
}

/// Returns the error for an uploaded file that could not be stored as an input.
pub fn storing_error(
    error: &io::Error,
    store: &MediaStore,
    file: &UploadedFile,
    pointer: impl Into<String>,
    space: &DiskSpace,
) -> Problem {
    // A sweep or an erasure may have removed the file since it was found.
    let is_removed = error.kind() == ErrorKind::NotFound && !store.uploads().path_of(file).exists();
    if !is_removed {
        return Problem::from_io_error(error, space);
    }
    Problem::invalid(vec![FieldError::new(pointer, "names a file that has just been removed; upload it again")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    use crate::domain::ids::{FileId, UserId};
    use crate::domain::image::ImageFormat;
    use crate::domain::value::Timestamp;
    use crate::http::response::error::Code;

    #[test]
    fn a_file_that_is_removed_before_it_is_stored_is_an_error_of_its_field() {
        // Given a checked picture from an uploaded file, which is then removed
        let root = tempfile::tempdir().unwrap();
        let store = MediaStore::open(root.path()).unwrap();
        let mut upload = store.uploads().create_upload().unwrap();
        upload.write(b"\x89PNG\r\n\x1a\n").unwrap();
        let (id, owner) = (FileId(Uuid::from_u128(1)), UserId(Uuid::from_u128(2)));
        let (now, later) = (Timestamp::from_micros(0), Timestamp::from_micros(1));
        let file = store.uploads().commit_upload(&upload, id, owner, later, now).unwrap().file;
        let info = PictureInfo { format: ImageFormat::Png, width: 1, height: 1 };
        let picture = CheckedPicture::Uploaded { file, info, pointer: "/images/1".to_owned() };
        store.uploads().remove_all_of(owner).unwrap();

        // When it is stored, then the client can correct the field
        let problem = picture.store_in(&store, &DiskSpace::default()).expect_err("no file");
        assert_eq!(problem.code(), Code::InvalidInput);
        assert!(problem.to_string().starts_with("/images/1 names a file that has just been removed"), "{problem}");
    }
}
