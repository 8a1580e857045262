//! Checks of an image submission: fields first, then pictures; stores the pictures once all checks pass.

use std::cell::Cell;

use serde_json::Value;

use super::jobs::{ImageBody, ParsedImageSubmission};
use crate::disk_space::DiskSpace;
use crate::domain::ids::TaskId;
use crate::domain::image::{ImageJob, ImageWork, PictureSource, UpscaleJob};
use crate::domain::task::TaskKind;
use crate::domain::value::{CallbackUrl, InvalidValue};
use crate::domain::video::Credits;
use crate::http::api::input_file::InputFiles;
use crate::http::request::fields::{self, Fields};
use crate::http::response::error::Problem;
use crate::media::decoders::{PictureDecodeError, PictureDecoders, read_picture_info};
use crate::media::input::{PictureInfo, PictureInput};
use crate::media::store::{MediaArea, MediaStore};

/// Submission that passed all checks; nothing is stored yet.
pub(super) struct CheckedImageSubmission {
    job: ImageJob,
    image: CheckedImageInput,
    reference: Option<CheckedImageInput>,
    is_random: bool,
    webhook: Option<CallbackUrl>,
}

/// Checked picture, or the URL of one still to be fetched.
enum CheckedImageInput {
    Inline { bytes: Vec<u8>, info: PictureInfo },
    Remote(CallbackUrl),
}

/// Checks the fields, then the pictures. The main picture is decoded only if its result would be small enough. Blocks.
pub(super) fn check<T: ImageBody>(
    body: &Value,
    decoders: &PictureDecoders,
    files: &InputFiles,
) -> Result<CheckedImageSubmission, Problem> {
    let is_busy = Cell::new(false);
    let inspect = |bytes: &[u8]| inspect(decoders, bytes, &is_busy);
    let checked = fields::read(body, |fields| {
        let submission = T::read_fields(fields)?.into_submission(fields);
        let ParsedImageSubmission { job, image, reference, is_random, webhook } = submission;
        let reference =
            reference.map(|(field, picture)| check_picture(fields, field, picture, files, inspect, |_, _| Some(())));
        let image = check_picture(fields, "image", image?, files, inspect, |fields, measured| {
            check_output(fields, &job, measured)
        })?;

        // An invalid picture was reported already.
        let reference = match reference {
            None => None,
            Some(reference) => Some(reference?),
        };

        Some(CheckedImageSubmission { job, image, reference, is_random, webhook })
    });
    if is_busy.get() { Err(Problem::overloaded()) } else { checked }
}

/// Decodes a picture. If the memory for that is exhausted, `is_busy` is set and the client may retry the whole
/// submission.
pub(in crate::http) fn inspect(
    decoders: &PictureDecoders,
    bytes: &[u8],
    is_busy: &Cell<bool>,
) -> Result<PictureInfo, InvalidValue> {
    decoders.inspect(bytes).map_err(|error| match error {
        PictureDecodeError::Invalid(reason) => reason,
        PictureDecodeError::Busy => {
            is_busy.set(true);
            InvalidValue::new("was not checked: the service is overloaded")
        }
    })
}

/// Decodes an inline or uploaded picture if its header passes `check_measured`. A picture at another URL is checked when
/// it is fetched.
fn check_picture(
    fields: &mut Fields<'_, '_>,
    field: &'static str,
    picture: PictureInput,
    files: &InputFiles,
    inspect: impl Fn(&[u8]) -> Result<PictureInfo, InvalidValue>,
    check_measured: impl FnOnce(&mut Fields<'_, '_>, &PictureInfo) -> Option<()>,
) -> Option<CheckedImageInput> {
    let bytes = match picture {
        PictureInput::Url(url) => match files.read_picture(&url) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Some(CheckedImageInput::Remote(url)),
            Err(reason) => {
                fields.add_error(field, reason);
                return None;
            }
        },
        PictureInput::Bytes(bytes) => bytes,
    };

    let ok_or_add_error = |fields: &mut Fields<'_, '_>, inspected: Result<PictureInfo, InvalidValue>| {
        inspected.map_err(|reason| fields.add_error(field, reason)).ok()
    };

    let measured = ok_or_add_error(fields, read_picture_info(&bytes))?;
    check_measured(fields, &measured)?;

    let inspected = ok_or_add_error(fields, inspect(&bytes))?;
    Some(CheckedImageInput::Inline { bytes, info: inspected })
}

/// Checks the size of the result. Reports the picture if no factor fits, else the factor.
fn check_output(fields: &mut Fields<'_, '_>, job: &ImageJob, measured: &PictureInfo) -> Option<()> {
    let PictureInfo { width, height, .. } = *measured;
    let reason = match job.check_output_size(width, height) {
        Ok(()) => return Some(()),
        Err(reason) => reason,
    };
    let fits = ImageJob::Upscale(UpscaleJob::default()).check_output_size(width, height).is_ok();
    fields.add_error(if fits { "scale_factor" } else { "image" }, format!("makes the result too large: {reason}"));
    None
}

/// Returns the random seed of a task, derived from its id.
pub fn derive_seed(task: TaskId) -> u32 {
    let (high, low) = task.0.as_u64_pair();
    #[expect(clippy::cast_possible_truncation, reason = "the lower half of each is as random as the upper")]
    let seed = high as u32 ^ low as u32;
    seed
}

impl CheckedImageSubmission {
    /// Returns the kind of the task.
    pub(super) fn kind(&self) -> TaskKind {
        TaskKind::from_image_job(&self.job)
    }

    /// Writes the pictures to the store. Blocks.
    pub(super) fn store_in(
        self,
        store: &MediaStore,
        space: &DiskSpace,
        seed: u32,
        credits: Credits,
    ) -> Result<(ImageWork, Option<CallbackUrl>), Problem> {
        let Self { job, image, reference, is_random, webhook } = self;
        let image = image.store_in(store, space)?;
        let reference = reference.map(|picture| picture.store_in(store, space)).transpose()?;
        Ok((ImageWork { job, image, reference, seed: is_random.then_some(seed), credits }, webhook))
    }
}

impl CheckedImageInput {
    fn store_in(self, store: &MediaStore, space: &DiskSpace) -> Result<PictureSource, Problem> {
        match self {
            Self::Remote(url) => Ok(PictureSource::Remote(url)),
            Self::Inline { bytes, info: PictureInfo { format, width, height } } => {
                let stored = store.put(MediaArea::Input, &bytes, format, width, height);
                stored.map(PictureSource::Stored).map_err(|error| Problem::from_io_error(&error, space))
            }
        }
    }
}
