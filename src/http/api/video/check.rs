//! Checks of a video submission: fields, price, pictures; stores the files once all checks pass.

use std::convert::Infallible;

use serde_json::Value;

use super::jobs::{ParsedVideoSubmission, VideoBody, VideoPictureField, VideoToExtend};
use crate::disk_space::DiskSpace;
use crate::domain::task::PromptReport;
use crate::domain::value::CallbackUrl;
use crate::domain::video::{PriceItem, Seed, Tariff, VideoFormat, VideoJob, VideoWork};
use crate::http::api::input_file::InputFiles;
use crate::http::api::submitted_picture::{CheckedPicture, LoadedPicture, PictureChecker, storing_error};
use crate::http::request::fields::{self, BodyContext, Fields};
use crate::http::response::error::Problem;
use crate::media::decoders::PictureDecoders;
use crate::media::store::MediaStore;
use crate::media::uploaded_files::{InputFormat, UploadedFile};

/// Reports which words of a prompt the built-in engine understands.
type PromptReporter = fn(&str) -> PromptReport;

/// Submission that passed all checks; nothing is stored yet.
pub(super) struct CheckedVideoSubmission {
    job: VideoJob<CheckedPicture>,
    images: Vec<CheckedPicture>,
    seed: Option<Seed>,
    payload: Option<String>,
    meta_data: Option<String>,
    pub callback: Option<CallbackUrl>,
    /// Parts of the price.
    pub breakdown: Vec<PriceItem>,
    footage: Option<UploadedFootage>,
}

/// Uploaded file that is the video to extend.
struct UploadedFootage {
    file: UploadedFile,
    format: VideoFormat,
    /// URL of the stored input, for the vendor.
    url: CallbackUrl,
}

/// Checks the fields, the price, then the pictures. With `strict_reporter`, a video from text alone must have a prompt
/// that the built-in engine understands. Blocks.
pub(super) fn check<T: VideoBody>(
    body: &Value,
    context: BodyContext,
    video: &VideoToExtend,
    tariff: &Tariff,
    decoders: &PictureDecoders,
    files: &InputFiles,
    strict_reporter: Option<PromptReporter>,
) -> Result<CheckedVideoSubmission, Problem> {
    let checker = PictureChecker::new(decoders, files);
    let check_field = |fields: &mut Fields<'_, '_>, field| check_picture(fields, field, &checker);

    let submission = fields::read_in(context, body, |fields| {
        let submission = T::read_fields(fields)?.into_submission(fields, video)?;
        let ParsedVideoSubmission { job, images, seed, payload, meta_data, callback } = submission;
        let breakdown = find_breakdown(fields, &job, tariff);
        let footage = find_footage(fields, &job, files);
        if let Some(report) = strict_reporter.filter(|_| images.is_empty()) {
            require_understood_prompt(fields, &job, report);
        }

        // Check all pictures before failing, so that every invalid one is reported.
        let images: Vec<_> = images.into_iter().map(|field| check_field(fields, field)).collect();
        let Ok(job) = job.try_map_pictures(&mut |field| Ok::<_, Infallible>(check_field(fields, field)));
        let images = images.into_iter().collect::<Option<Vec<_>>>()?;
        let job = job.try_map_pictures(&mut |input| input.ok_or(())).ok()?;
        Some(CheckedVideoSubmission { job, images, seed, payload, meta_data, callback, breakdown: breakdown?, footage })
    });

    checker.finish(submission)
}

/// Returns the parts of the price; adds an error if the tariff has none.
fn find_breakdown(
    fields: &mut Fields<'_, '_>,
    job: &VideoJob<VideoPictureField>,
    tariff: &Tariff,
) -> Option<Vec<PriceItem>> {
    let breakdown = tariff.breakdown(job);
    if breakdown.is_none() {
        let offered: Vec<_> = tariff.resolutions_for(job).collect();
        let model = job.model();
        if offered.is_empty() {
            fields.add_error("model", format!("is not available: {model} has no price"));
        } else {
            fields.add_error("resolution", format!("must be one of {} with {model}", offered.join(" ")));
        }
    }
    breakdown
}

/// Adds an error if the built-in engine understands no word of the prompt of a video from text alone.
fn require_understood_prompt(fields: &mut Fields<'_, '_>, job: &VideoJob<VideoPictureField>, report: PromptReporter) {
    let (VideoJob::StartEnd(job) | VideoJob::Reference(job)) = job else { return };
    let Some(prompt) = &job.prompt else { return };

    let PromptReport { understood, ignored } = report(prompt.as_str());
    if understood.is_empty() {
        let ignored = if ignored.is_empty() { String::new() } else { format!(" (ignored: {})", ignored.join(", ")) };
        fields.add_error(
            "prompt",
            format!(
                "has no word that the built-in engine understands{ignored}; name a place, weather, light or a camera \
                 move, or give a picture"
            ),
        );
    }
}

/// Returns the uploaded file that a job extends; `None` for other jobs. A video at another URL is checked when it is
/// fetched.
fn find_footage(
    fields: &mut Fields<'_, '_>,
    job: &VideoJob<VideoPictureField>,
    files: &InputFiles,
) -> Option<UploadedFootage> {
    let VideoJob::Extend(job) = job else { return None };
    let file = files.find(&job.video.url).map_err(|reason| fields.add_error("video_url", reason)).ok()??;

    match file.format {
        InputFormat::Video(format) => Some(UploadedFootage { file, format, url: files.input_url(&file, format)? }),
        InputFormat::Picture(format) => {
            fields.add_error("video_url", format!("must be a video; the file is {}", format.media_type()));
            None
        }
    }
}

/// Decodes an inline or uploaded picture. A picture at another URL is checked when it is fetched.
fn check_picture(
    fields: &mut Fields<'_, '_>,
    VideoPictureField { pointer, input }: VideoPictureField,
    checker: &PictureChecker<'_>,
) -> Option<CheckedPicture> {
    let picture = checker.load(input).and_then(|picture| match picture {
        LoadedPicture::Content(content) => checker.inspect(&pointer, content),
        LoadedPicture::Remote(url) => Ok(CheckedPicture::Remote(url)),
    });
    picture.map_err(|reason| fields.add_error_at(&pointer, reason)).ok()
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
        let mut store_input = |picture: CheckedPicture| picture.store_in(store, space);
        let images = self.images.into_iter().map(&mut store_input).collect::<Result<_, _>>()?;
        let job = self.job.try_map_pictures(&mut store_input)?;

        let store_document =
            |text: Option<String>| text.map(|text| store.put_document(&text)).transpose().map_err(to_problem);
        let payload = store_document(self.payload)?;
        let meta_data = store_document(self.meta_data)?;

        let seed = self.seed.unwrap_or(Seed::from_random(default_seed));
        let credits = PriceItem::sum(&self.breakdown);
        let mut work = VideoWork { job, images, seed, payload, meta_data, credits };

        if let Some(UploadedFootage { file, format, url }) = self.footage {
            let stored = store.put_uploaded_clip(&file, format);
            let clip = stored.map_err(|error| storing_error(&error, store, &file, "/video_url", space))?;
            work.set_footage(&clip);
            // The URL of the upload may expire before the vendor fetches the video.
            work.set_footage_url(url);
        }
        Ok(work)
    }
}
