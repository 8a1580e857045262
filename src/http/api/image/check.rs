//! Checks of an image submission: fields first, then pictures; stores the pictures once all checks pass.

use serde_json::Value;

use super::jobs::{ImageBody, ParsedImageSubmission};
use crate::disk_space::DiskSpace;
use crate::domain::ids::TaskId;
use crate::domain::image::{ImageJob, ImageWork, UpscaleJob};
use crate::domain::task::TaskKind;
use crate::domain::value::CallbackUrl;
use crate::domain::video::Credits;
use crate::http::api::input_file::InputFiles;
use crate::http::api::submitted_picture::{CheckedPicture, LoadedPicture, PictureChecker};
use crate::http::request::fields::{self, Fields};
use crate::http::response::error::Problem;
use crate::media::decoders::{PictureDecoders, read_picture_info};
use crate::media::input::{PictureInfo, PictureInput};
use crate::media::store::MediaStore;

/// Submission that passed all checks; nothing is stored yet.
pub(super) struct CheckedImageSubmission {
    job: ImageJob,
    image: CheckedPicture,
    reference: Option<CheckedPicture>,
    is_random: bool,
    webhook: Option<CallbackUrl>,
}

/// Checks the fields, then the pictures. The main picture is decoded only if its result would be small enough. Blocks.
pub(super) fn check<T: ImageBody>(
    body: &Value,
    decoders: &PictureDecoders,
    files: &InputFiles,
) -> Result<CheckedImageSubmission, Problem> {
    let checker = PictureChecker::new(decoders, files);
    let submission = fields::read(body, |fields| {
        let submission = T::read_fields(fields)?.into_submission(fields);
        let ParsedImageSubmission { job, image, reference, is_random, webhook } = submission;
        let reference =
            reference.map(|(field, picture)| check_picture(fields, field, picture, &checker, |_, _| Some(())));
        let image =
            check_picture(fields, "image", image?, &checker, |fields, measured| check_output(fields, &job, measured))?;

        // An invalid picture was reported already.
        let reference = match reference {
            None => None,
            Some(reference) => Some(reference?),
        };

        Some(CheckedImageSubmission { job, image, reference, is_random, webhook })
    });
    checker.finish(submission)
}

/// Decodes an inline or uploaded picture if its header passes `check_measured`. A picture at another URL is checked when
/// it is fetched.
fn check_picture(
    fields: &mut Fields<'_, '_>,
    field: &'static str,
    picture: PictureInput,
    checker: &PictureChecker<'_>,
    check_measured: impl FnOnce(&mut Fields<'_, '_>, &PictureInfo) -> Option<()>,
) -> Option<CheckedPicture> {
    let add_error = |fields: &mut Fields<'_, '_>, reason| fields.add_error(field, reason);

    let content = match checker.load(picture).map_err(|reason| add_error(fields, reason)).ok()? {
        LoadedPicture::Content(content) => content,
        LoadedPicture::Remote(url) => return Some(CheckedPicture::Remote(url)),
    };
    let measured = read_picture_info(content.bytes()).map_err(|reason| add_error(fields, reason)).ok()?;
    check_measured(fields, &measured)?;

    checker.inspect(&format!("/{field}"), content).map_err(|reason| add_error(fields, reason)).ok()
}

/// Checks the size of the result. Reports the picture if no factor fits, else the factor.
fn check_output(fields: &mut Fields<'_, '_>, job: &ImageJob, measured: &PictureInfo) -> Option<()> {
    let PictureInfo { width, height, .. } = *measured;
    let reason = match job.check_output_size(width, height) {
        Ok(()) => return Some(()),
        Err(reason) => reason,
    };
    // The default factor is the smallest.
    let fits_smallest_factor = ImageJob::Upscale(UpscaleJob::default()).check_output_size(width, height).is_ok();
    let field = if fits_smallest_factor { "scale_factor" } else { "image" };
    fields.add_error(field, format!("makes the result too large: {reason}"));
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
