//! Checks of a video submission: fields, price, pictures; stores the files once all checks pass.

use std::cell::Cell;
use std::convert::Infallible;

use serde_json::Value;

use super::inspect;
use super::jobs::{ParsedVideoSubmission, VideoBody, VideoPictureField, VideoToExtend};
use crate::disk_space::DiskSpace;
use crate::domain::image::PictureSource;
use crate::domain::value::{CallbackUrl, InvalidValue};
use crate::domain::video::{Credits, Seed, Tariff, VideoJob, VideoWork};
use crate::http::request::fields::{self, BodyContext, Fields};
use crate::http::response::error::Problem;
use crate::media::decoders::PictureDecoders;
use crate::media::input::{PictureInfo, PictureInput};
use crate::media::store::{MediaArea, MediaStore};

/// Submission that passed all checks; nothing is stored yet.
pub(super) struct CheckedVideoSubmission {
    job: VideoJob<CheckedVideoInput>,
    images: Vec<CheckedVideoInput>,
    seed: Option<Seed>,
    payload: Option<String>,
    meta_data: Option<String>,
    pub callback: Option<CallbackUrl>,
    credits: Credits,
}

/// Checked picture, or the URL of one still to be fetched.
enum CheckedVideoInput {
    Inline { bytes: Vec<u8>, info: PictureInfo },
    Remote(CallbackUrl),
}

/// Checks the fields, the price, then the pictures. Blocks.
pub(super) fn check<T: VideoBody>(
    body: &Value,
    context: BodyContext,
    video: &VideoToExtend,
    tariff: &Tariff,
    decoders: &PictureDecoders,
) -> Result<CheckedVideoSubmission, Problem> {
    let is_busy = Cell::new(false);
    let check_field =
        |fields: &mut Fields<'_, '_>, field| check_picture(fields, field, |bytes| inspect(decoders, bytes, &is_busy));

    let checked = fields::read_in(context, body, |fields| {
        let submission = T::read_fields(fields)?.into_submission(fields, video)?;
        let ParsedVideoSubmission { job, images, seed, payload, meta_data, callback } = submission;
        let credits = price(fields, &job, tariff);

        // Check all pictures before failing, so that every invalid one is reported.
        let images: Vec<_> = images.into_iter().map(|field| check_field(fields, field)).collect();
        let Ok(job) = job.try_map_pictures(&mut |field| Ok::<_, Infallible>(check_field(fields, field)));
        let images = images.into_iter().collect::<Option<Vec<_>>>()?;
        let job = job.try_map_pictures(&mut |input| input.ok_or(())).ok()?;
        Some(CheckedVideoSubmission { job, images, seed, payload, meta_data, callback, credits: credits? })
    });

    if is_busy.get() { Err(Problem::overloaded()) } else { checked }
}

/// Returns the price; adds an error if the tariff has none.
fn price(fields: &mut Fields<'_, '_>, job: &VideoJob<VideoPictureField>, tariff: &Tariff) -> Option<Credits> {
    let credits = tariff.credits(job);
    if credits.is_none() {
        let offered: Vec<_> = tariff.resolutions_for(job).collect();
        let model = job.model();
        if offered.is_empty() {
            fields.add_error("model", format!("is not available: {model} has no price"));
        } else {
            fields.add_error("resolution", format!("must be one of {} with {model}", offered.join(" ")));
        }
    }
    credits
}

/// Decodes an inline picture. A picture at a URL is checked when it is fetched.
fn check_picture(
    fields: &mut Fields<'_, '_>,
    VideoPictureField { pointer, input }: VideoPictureField,
    inspect: impl FnOnce(&[u8]) -> Result<PictureInfo, InvalidValue>,
) -> Option<CheckedVideoInput> {
    match input {
        PictureInput::Url(url) => Some(CheckedVideoInput::Remote(url)),
        PictureInput::Bytes(bytes) => match inspect(&bytes) {
            Ok(inspected) => Some(CheckedVideoInput::Inline { bytes, info: inspected }),
            Err(reason) => {
                fields.add_error_at(&pointer, reason);
                None
            }
        },
    }
}

impl CheckedVideoSubmission {
    /// Stores pictures and texts. `default_seed` is the seed if the client gave none. Blocks.
    pub(super) fn store_in(
        self,
        store: &MediaStore,
        space: &DiskSpace,
        default_seed: u32,
    ) -> Result<VideoWork, Problem> {
        let to_problem = |error: std::io::Error| Problem::from_io_error(&error, space);
        let mut store_input = |input: CheckedVideoInput| input.store_in(store).map_err(to_problem);
        let images = self.images.into_iter().map(&mut store_input).collect::<Result<_, _>>()?;

        let job = self.job.try_map_pictures(&mut store_input)?;
        let document =
            |text: Option<String>| text.map(|text| store.put_document(&text)).transpose().map_err(to_problem);
        let payload = document(self.payload)?;
        let meta_data = document(self.meta_data)?;
        let seed = self.seed.unwrap_or(Seed::from_random(default_seed));
        Ok(VideoWork { job, images, seed, payload, meta_data, credits: self.credits })
    }
}

impl CheckedVideoInput {
    fn store_in(self, store: &MediaStore) -> std::io::Result<PictureSource> {
        match self {
            Self::Remote(url) => Ok(PictureSource::Remote(url)),
            Self::Inline { bytes, info: PictureInfo { format, width, height } } => {
                store.put(MediaArea::Input, &bytes, format, width, height).map(PictureSource::Stored)
            }
        }
    }
}
