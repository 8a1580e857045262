//! The built-in image engine as a vendor: jobs in memory, work on blocking threads, limited by pixels.
//!
//! At most [`ImageEngineOptions::jobs_max`] jobs wait or run; with more, the vendor is busy. The last
//! [`ImageEngineOptions::ended_max`] ended jobs are remembered.

use std::future::ready;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use mediary_engine::{ResultFormat, encode};
use tokio::sync::Notify;

use super::budget::EngineBudget;
use super::image_job::ReadyImageJob;
use super::jobs::{IsJobWanted, JobState, Jobs, catch_engine_panic, internal_failure};
use super::threads::EngineThreads;
use crate::domain::ids::UserId;
use crate::domain::image::{ImageFormat, OUTPUT_PIXELS_MAX, Picture};
use crate::domain::task::{TaskFailure, VendorKey, VendorReference};
use crate::media::input::DecodedPicture;
use crate::media::store::{MediaArea, MediaStore};
use crate::vendors::{
    JobProgress, SubmissionCall, SubmissionRecovery, SubmissionReply, Vendor, VendorError, VendorErrorKind, VendorJob,
};

/// Resource limits of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageEngineOptions {
    /// Thousands of pixels processed at a time, inputs and outputs together. A pixel stands for about 16 bytes;
    /// the bytes of input files are counted as pixels too. One account has at most half. A larger job counts as half,
    /// and never runs together with another such job.
    pub kilopixels_max: u32,
    /// Maximum number of jobs that wait or run.
    pub jobs_max: usize,
    /// Number of remembered ended jobs.
    pub ended_max: usize,
}

impl Default for ImageEngineOptions {
    /// Returns a budget of about 800 MB: enough for any single job, or several small ones. While the largest job runs,
    /// the others may need half as much in addition.
    fn default() -> Self {
        Self { kilopixels_max: 2 * kilopixels(OUTPUT_PIXELS_MAX), jobs_max: 10_000, ended_max: 10_000 }
    }
}

/// Bytes that one pixel of the budget stands for.
const PIXEL_BYTES: u64 = 16;
/// Minimum cost of a job: even the smallest needs a thread and a core.
const JOB_KILOPIXELS_MIN: u32 = 2_000;

/// The built-in image vendor. Cheap to clone.
#[derive(Clone)]
pub struct LocalImage {
    engine: Arc<ImageEngine>,
}

struct ImageEngine {
    store: MediaStore,
    options: ImageEngineOptions,
    budget: EngineBudget,
    threads: EngineThreads,
    jobs: Jobs<Picture>,
}

type Outcome = Result<Picture, TaskFailure>;

impl LocalImage {
    /// Returns an engine that reads inputs from `store` and stores results there. Jobs for which `is_wanted` returns
    /// `false` are not started.
    #[must_use]
    pub fn new(store: MediaStore, options: ImageEngineOptions, is_wanted: IsJobWanted) -> Self {
        let budget = EngineBudget::new(options.kilopixels_max.into());
        let jobs = Jobs::new(options.jobs_max, options.ended_max, is_wanted);
        let engine = ImageEngine { store, options, budget, threads: EngineThreads::default(), jobs };
        Self { engine: Arc::new(engine) }
    }

    /// Starts a job. Must be called within a tokio runtime, which runs the work.
    fn start(&self, job: VendorJob) -> Result<SubmissionReply, VendorError> {
        let key = job.key.clone();
        let account = job.account;
        let work = ReadyImageJob::from_work(job.into_image_work()?)
            .map_err(|reason| VendorError::new(VendorErrorKind::Refused, reason))?;
        if self.engine.jobs.admit(&key, account, "image")? {
            tokio::spawn(Arc::clone(&self.engine).run(key.clone(), account, work));
        }
        Ok(SubmissionReply::Accepted(key))
    }
}

impl Vendor for LocalImage {
    fn name(&self) -> &'static str {
        "local-image"
    }

    fn recovery(&self) -> SubmissionRecovery {
        SubmissionRecovery::Key
    }

    fn prepare(&self, job: VendorJob) -> BoxFuture<'_, Result<SubmissionCall<'_>, VendorError>> {
        ready(Ok(async move { self.start(job) }.boxed())).boxed()
    }

    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<JobProgress, VendorError>> {
        let progress = match self.engine.jobs.state(reference) {
            None => JobProgress::Forgotten,
            Some(JobState::Waiting | JobState::Running { .. }) => JobProgress::Running { permille: None },
            Some(JobState::Ended(Ok(picture))) => JobProgress::Done(vec![picture].into()),
            Some(JobState::Ended(Err(failure))) => JobProgress::Failed(failure),
        };
        ready(Ok(progress)).boxed()
    }

    fn progress_notify(&self) -> Arc<Notify> {
        self.engine.jobs.progress_notify()
    }
}

impl ImageEngine {
    /// Waits for a share of the budget, runs the job, and records its outcome.
    async fn run(self: Arc<Self>, key: VendorKey, account: Option<UserId>, job: ReadyImageJob) {
        let _permit = tokio::select! {
            biased;
            () = self.jobs.wait_until_unwanted(&key) => return self.jobs.forget(&key),
            permit = self.budget.acquire(account, self.cost(&job).into()) => permit,
        };

        let engine = Arc::clone(&self);
        let job_key = key.clone();
        let work = move || catch_engine_panic("image", || engine.threads.run(|| engine.render(&job_key, &job)));
        let result = tokio::task::spawn_blocking(work).await;
        let engine_stopped = |_| Err(TaskFailure::new("engine_stopped", "the engine stopped before the job ended"));
        self.jobs.end(key, result.unwrap_or_else(engine_stopped));
    }

    /// Returns the cost of a job, at most the whole budget: the pixels of its pictures and of the result, and
    /// the files, which may be far larger.
    fn cost(&self, work: &ReadyImageJob) -> u32 {
        let scale = u64::from(work.job.scale());
        let pixels = |picture: &Picture, factor: u64| {
            (u64::from(picture.width) * u64::from(picture.height))
                .saturating_mul(factor)
                .saturating_add(picture.bytes.div_ceil(PIXEL_BYTES))
        };
        let reference = work.reference.as_ref().map_or(0, |picture| pixels(picture, 1));
        kilopixels(pixels(&work.image, 1 + scale * scale).saturating_add(reference))
            .max(JOB_KILOPIXELS_MIN)
            .min(self.options.kilopixels_max)
    }

    /// Reads the pictures, computes the result and stores it. Blocks.
    fn render(&self, key: &VendorKey, work: &ReadyImageJob) -> Outcome {
        let picture = self.read(key, &work.image, "image")?;
        let reference = work.reference.as_ref().map(|stored| self.read(key, stored, "reference")).transpose()?;
        let (width, height) = picture.dimensions();

        work.job
            .check_output_size(width, height)
            .map_err(|reason| TaskFailure::new("output_too_large", &format!("image {reason}")))?;

        let result = work.render(picture, reference.as_ref());
        drop(reference);

        let (width, height) = result.dimensions();
        let preferred = if work.image.format == ImageFormat::Jpeg { ResultFormat::Jpeg } else { ResultFormat::Png };
        let (bytes, format) = encode(&result, preferred)
            .map_err(|error| internal_failure("result_unwritable", "cannot encode the result", &error))?;
        drop(result);

        let format = match format {
            ResultFormat::Jpeg => ImageFormat::Jpeg,
            ResultFormat::Png => ImageFormat::Png,
        };

        self.jobs
            .retry_while_exhausted(key, || self.store.put(MediaArea::Result, &bytes, format, width, height))
            .map_err(|error| internal_failure("result_unwritable", "cannot store the result", &error))
    }

    /// Reads and decodes a picture; `name` is its field, for messages. Blocks.
    fn read(&self, key: &VendorKey, picture: &Picture, name: &str) -> Result<DecodedPicture, TaskFailure> {
        let bytes = self
            .jobs
            .retry_while_exhausted(key, || self.store.read(MediaArea::Input, picture))
            .map_err(|error| internal_failure("input_unreadable", "cannot read the input picture", &error))?;
        let decoded = self.jobs.decode(key, self.store.decoders(), &bytes);
        decoded.map_err(|reason| TaskFailure::new("input_undecodable", &format!("{name} {reason}")))
    }
}

fn kilopixels(pixels: u64) -> u32 {
    u32::try_from(pixels.div_ceil(1000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::jobs::BUSY_PAUSE;
    use super::*;
    use crate::domain::ids::TaskId;
    use crate::domain::image::{ImageJob, ImageWork, PictureSource, SignedStrength, UpscaleJob};
    use crate::domain::task::{TaskResults, TaskWork};
    use crate::domain::value::{Digest, Text};

    struct ImageEngineFixture {
        _root: tempfile::TempDir,
        store: MediaStore,
        vendor: LocalImage,
        input: Picture,
    }

    fn fixture(options: ImageEngineOptions) -> ImageEngineFixture {
        let root = tempfile::tempdir().unwrap();
        let store = MediaStore::open(root.path()).unwrap();
        let pixels = ::image::RgbImage::from_fn(16, 16, |x, y| {
            ::image::Rgb([10 * x, 10 * y, 90].map(|value| value.to_le_bytes()[0]))
        });
        let mut bytes = Cursor::new(Vec::new());
        pixels.write_to(&mut bytes, ::image::ImageFormat::Png).unwrap();
        let input = store.put(MediaArea::Input, bytes.get_ref(), ImageFormat::Png, 16, 16).unwrap();
        ImageEngineFixture {
            _root: root,
            vendor: LocalImage::new(store.clone(), options, Arc::new(|_| true)),
            store,
            input,
        }
    }

    fn image_work(input: Picture) -> ImageWork {
        let job =
            ImageJob::Upscale(UpscaleJob { creativity: SignedStrength::new(5).unwrap(), ..UpscaleJob::default() });
        ImageWork { job, image: PictureSource::Stored(input), reference: None, seed: None, credits: 0 }
    }

    fn job(key: &str, input: Picture) -> VendorJob {
        let task = TaskId(uuid::Uuid::nil());
        let key = Text::from_recorded(key.to_owned());
        VendorJob { task, account: None, key, work: TaskWork::Image(image_work(input)) }
    }

    async fn wait_for_end(vendor: &LocalImage, reference: &VendorReference) -> JobProgress {
        loop {
            match vendor.poll(reference).await.unwrap() {
                JobProgress::Running { .. } => vendor.progress_notify().notified().await,
                end => return end,
            }
        }
    }

    #[tokio::test]
    async fn a_job_ends_with_a_picture_in_the_store() {
        let fixture = fixture(ImageEngineOptions::default());
        let reference = fixture.vendor.submit(job("a", fixture.input)).await.unwrap().into_reference();
        let result = wait_for_end(&fixture.vendor, &reference).await;
        let JobProgress::Done(TaskResults::Pictures(pictures)) = &result else {
            panic!("the job is not done: {result:?}")
        };
        assert_eq!((pictures.len(), pictures[0].width, pictures[0].height), (1, 32, 32));
        let bytes = fixture.store.read(MediaArea::Result, &pictures[0]).unwrap();
        assert_eq!(fixture.store.decoders().inspect(&bytes).unwrap().format, ImageFormat::Png);
        // A second poll returns the same.
        assert_eq!(fixture.vendor.poll(&reference).await.unwrap(), result);
    }

    #[tokio::test]
    async fn a_known_key_is_the_same_job_and_the_same_work_gives_the_same_file() {
        let fixture = fixture(ImageEngineOptions::default());
        let first = fixture.vendor.submit(job("a", fixture.input)).await.unwrap().into_reference();
        assert_eq!(fixture.vendor.submit(job("a", fixture.input)).await.unwrap().into_reference(), first);
        assert_eq!(fixture.vendor.engine.jobs.count(), 1);
        let second = fixture.vendor.submit(job("b", fixture.input)).await.unwrap().into_reference();
        assert_eq!(wait_for_end(&fixture.vendor, &first).await, wait_for_end(&fixture.vendor, &second).await);
    }

    #[tokio::test]
    async fn an_unwanted_job_is_not_started() {
        let fixture = fixture(ImageEngineOptions::default());
        let vendor =
            LocalImage::new(fixture.store.clone(), ImageEngineOptions::default(), Arc::new(|job| job.as_str() != "a"));
        let [unwanted, wanted] = [
            vendor.submit(job("a", fixture.input)).await.unwrap().into_reference(),
            vendor.submit(job("b", fixture.input)).await.unwrap().into_reference(),
        ];
        assert!(matches!(wait_for_end(&vendor, &wanted).await, JobProgress::Done(_)));
        assert_eq!(wait_for_end(&vendor, &unwanted).await, JobProgress::Forgotten);
    }

    #[tokio::test]
    async fn a_restart_forgets_all_jobs() {
        let fixture = fixture(ImageEngineOptions::default());
        let reference = fixture.vendor.submit(job("a", fixture.input)).await.unwrap().into_reference();
        let restarted = LocalImage::new(fixture.store.clone(), ImageEngineOptions::default(), Arc::new(|_| true));
        assert_eq!(restarted.poll(&reference).await.unwrap(), JobProgress::Forgotten);
    }

    #[tokio::test]
    async fn an_unreadable_picture_fails_the_job_with_a_reason() {
        let fixture = fixture(ImageEngineOptions::default());
        let missing_picture = Picture { digest: Digest([7; 32]), ..fixture.input };
        let broken_picture = fixture.store.put(MediaArea::Input, b"no picture", ImageFormat::Png, 16, 16).unwrap();
        // The failure shown to owners does not contain the message of the operating system.
        for (key, input, code, message) in [
            ("a", missing_picture, "input_unreadable", "cannot read the input picture"),
            ("b", broken_picture, "input_undecodable", "image must be a PNG, JPEG, WebP, GIF, BMP or TIFF picture"),
        ] {
            let reference = fixture.vendor.submit(job(key, input)).await.unwrap().into_reference();
            let failure = TaskFailure::new(code, message);
            assert_eq!(wait_for_end(&fixture.vendor, &reference).await, JobProgress::Failed(failure));
        }
    }

    #[test]
    fn the_cost_counts_the_pixels_of_both_pictures_and_the_bytes_of_the_file() {
        let cost = |fixture: &ImageEngineFixture, side: u32, bytes: u64| {
            let input = Picture { width: side, height: side, bytes, ..fixture.input };
            fixture
                .vendor
                .engine
                .cost(&ReadyImageJob::from_work(image_work(input)).unwrap_or_else(|reason| panic!("{reason}")))
        };
        let default_fixture = fixture(ImageEngineOptions::default());
        assert_eq!(cost(&default_fixture, 16, 700), JOB_KILOPIXELS_MIN);
        assert_eq!([cost(&default_fixture, 16, 50_000_000), cost(&default_fixture, 1000, 16_000_000)], [3_127, 6_000]);

        let small = fixture(ImageEngineOptions { kilopixels_max: 5_000, ..ImageEngineOptions::default() });
        assert_eq!(cost(&small, 1000, 16_000_000), 5_000);
    }

    #[tokio::test]
    async fn a_job_with_too_large_a_result_is_rejected() {
        let fixture = fixture(ImageEngineOptions::default());
        let large = Picture { width: 10_000, height: 10_000, ..fixture.input };
        assert_eq!(fixture.vendor.submit(job("a", large)).await.unwrap_err().kind, VendorErrorKind::Refused);
    }

    #[tokio::test]
    async fn a_full_engine_is_busy_until_a_job_has_ended() {
        let fixture = fixture(ImageEngineOptions { jobs_max: 1, ..ImageEngineOptions::default() });
        let first = fixture.vendor.submit(job("a", fixture.input)).await.unwrap().into_reference();
        let busy = fixture.vendor.submit(job("b", fixture.input)).await.unwrap_err();
        assert_eq!((busy.kind, busy.retry_after), (VendorErrorKind::Busy, Some(BUSY_PAUSE)));
        wait_for_end(&fixture.vendor, &first).await;
        assert!(fixture.vendor.submit(job("b", fixture.input)).await.is_ok());
    }

    #[tokio::test]
    async fn a_job_larger_than_the_budget_runs_alone_and_all_end() {
        let fixture = fixture(ImageEngineOptions { kilopixels_max: 1, ..ImageEngineOptions::default() });
        let mut references = Vec::new();
        for key in ["a", "b", "c"] {
            references.push(fixture.vendor.submit(job(key, fixture.input)).await.unwrap().into_reference());
        }
        for reference in references {
            assert!(matches!(wait_for_end(&fixture.vendor, &reference).await, JobProgress::Done(_)));
        }
    }

    #[tokio::test]
    async fn a_backlog_of_one_account_delays_another_by_one_job() {
        // Given jobs that run alone: several of one account, then one of another
        let fixture = fixture(ImageEngineOptions { kilopixels_max: 1, ..ImageEngineOptions::default() });
        let bob = Some(UserId(uuid::Uuid::from_u128(2)));
        let mut references = Vec::new();
        for (key, account) in [("a", None), ("b", None), ("c", None), ("d", bob)] {
            references.push(
                fixture.vendor.submit(VendorJob { account, ..job(key, fixture.input) }).await.unwrap().into_reference(),
            );
        }
        let [_, _, last, other] = &references[..] else { panic!("four jobs") };

        // Then the job of the other account, submitted last, ends no later than the backlog
        wait_for_end(&fixture.vendor, last).await;
        assert!(matches!(fixture.vendor.poll(other).await.unwrap(), JobProgress::Done(_)));
    }

    #[tokio::test]
    async fn only_the_most_recently_ended_jobs_are_remembered() {
        let fixture = fixture(ImageEngineOptions { ended_max: 1, ..ImageEngineOptions::default() });
        let first = fixture.vendor.submit(job("a", fixture.input)).await.unwrap().into_reference();
        wait_for_end(&fixture.vendor, &first).await;
        let second = fixture.vendor.submit(job("b", fixture.input)).await.unwrap().into_reference();
        wait_for_end(&fixture.vendor, &second).await;
        assert_eq!(fixture.vendor.poll(&first).await.unwrap(), JobProgress::Forgotten);
    }
}
