//! The built-in video engine as a vendor: jobs in memory, work on blocking threads, limited by pixels.

use std::future::ready;
use std::io;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use mediary_engine::video::{
    BackgroundMusic, RenderObserver, RenderedVideo, Stereo, VideoError, footage_bytes, render,
};
use tokio::sync::Notify;

use super::budget::{EngineBudget, EngineShare};
use super::jobs::{IsJobWanted, JobState, Jobs, catch_engine_panic, internal_failure};
use super::threads::EngineThreads;
use super::video_job::{Inputs, pictures, plan, size};
use crate::domain::ids::UserId;
use crate::domain::image::{ImageFormat, PictureSource};
use crate::domain::task::{TaskFailure, TaskResults, VendorKey, VendorReference};
use crate::domain::video::{Clip, Creation, VideoFormat, VideoJob, VideoPrompt, VideoWork};
use crate::media::input::Pixels;
use crate::media::store::{MediaArea, MediaStore};
use crate::vendors::{
    JobProgress, SubmissionCall, SubmissionRecovery, SubmissionReply, Vendor, VendorError, VendorErrorKind, VendorJob,
};

/// Resource limits of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoEngineOptions {
    /// Thousands of pixels processed at a time; a pixel stands for about 16 bytes. One account has at most half.
    /// A larger job counts as half, and never runs together with another such job.
    pub kilopixels_max: u32,
    /// Maximum number of jobs that wait or run.
    pub jobs_max: usize,
    /// Number of remembered ended jobs.
    pub ended_max: usize,
}

impl Default for VideoEngineOptions {
    /// Returns a budget of about 1.3 GB: enough for one video of any size, or several small ones. While the largest
    /// video is rendered, the other jobs may need half as much in addition.
    fn default() -> Self {
        Self { kilopixels_max: 80_000, jobs_max: 10_000, ended_max: 10_000 }
    }
}

/// Bytes that one pixel of the budget stands for.
const PIXEL_BYTES: u64 = 16;
/// Pixels of the budget for each pixel of a frame, on each core: the frame, another one to blend, the encoder's state
/// of both, and the frames of a video being extended.
const FRAME_COST: u64 = 6;
/// Pixels of the budget for each pixel of a frame and each input picture: its copies in the size of the frame.
const PICTURE_COST: u64 = 3;

/// Generates background music from prompt, seed and number of samples.
pub type Music = Arc<dyn Fn(&str, u32, usize) -> Vec<Stereo> + Send + Sync>;

/// The built-in video vendor. Cheap to clone.
#[derive(Clone)]
pub struct LocalVideo {
    engine: Arc<VideoEngine>,
}

struct VideoEngine {
    store: MediaStore,
    options: VideoEngineOptions,
    music: Option<Music>,
    budget: EngineBudget,
    threads: EngineThreads,
    jobs: Jobs<Creation>,
}

impl LocalVideo {
    /// Returns an engine that reads inputs from `store` and stores results there. Without `music`, videos have none.
    /// Jobs for which `is_wanted` returns `false` are not started, or stopped at the next frame.
    #[must_use]
    pub fn new(store: MediaStore, options: VideoEngineOptions, music: Option<Music>, is_wanted: IsJobWanted) -> Self {
        let budget = EngineBudget::new(options.kilopixels_max.into());
        let threads = EngineThreads::default();
        let jobs = Jobs::new(options.jobs_max, options.ended_max, is_wanted);
        Self { engine: Arc::new(VideoEngine { store, options, music, budget, threads, jobs }) }
    }

    /// Starts a job. Must be called within a tokio runtime, which runs the work.
    fn start(&self, job: VendorJob) -> Result<SubmissionReply, VendorError> {
        let key = job.key.clone();
        let account = job.account;
        let work = job.into_video_work()?;

        if work.has_missing_inputs() {
            return Err(VendorError::new(VendorErrorKind::Refused, "an input is missing"));
        }
        if self.engine.jobs.admit(&key, account, "video")? {
            tokio::spawn(Arc::clone(&self.engine).run(key.clone(), account, work));
        }
        Ok(SubmissionReply::Accepted(key))
    }
}

impl Vendor for LocalVideo {
    fn name(&self) -> &'static str {
        "local-video"
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
            Some(JobState::Waiting) => {
                JobProgress::Queued { queue_position: self.engine.jobs.queue_position(reference) }
            }
            Some(JobState::Running { permille }) => JobProgress::Running { permille: Some(permille) },
            Some(JobState::Ended(Ok(creation))) => JobProgress::Done(TaskResults::Video(creation)),
            Some(JobState::Ended(Err(failure))) => JobProgress::Failed(failure),
        };
        ready(Ok(progress)).boxed()
    }

    fn progress_notify(&self) -> Arc<Notify> {
        self.engine.jobs.progress_notify()
    }
}

impl VideoEngine {
    /// Waits for a share of the budget, runs the job, and records its outcome.
    async fn run(self: Arc<Self>, key: VendorKey, account: Option<UserId>, work: VideoWork) {
        let work = Arc::new(work);
        let _permit = tokio::select! {
            biased;
            () = self.jobs.wait_until_unwanted(&key) => return self.jobs.forget(&key),
            permit = self.acquire_budget(account, &work) => permit,
        };

        if self.jobs.is_abandoned(&key) {
            return self.jobs.forget(&key);
        }
        self.jobs.mark_running(&key);

        let engine = Arc::clone(&self);
        let job_key = key.clone();
        let work = move || catch_engine_panic("video", || engine.threads.run(|| engine.render(&job_key, &work)));
        let result = tokio::task::spawn_blocking(work).await;

        match result {
            Ok(Ok(None)) => self.jobs.forget(&key),
            Ok(Ok(Some(creation))) => self.jobs.end(key, Ok(creation)),
            Ok(Err(failure)) => self.jobs.end(key, Err(failure)),
            Err(_) => {
                let engine_stopped = TaskFailure::new("engine_stopped", "the engine stopped before the job ended");
                self.jobs.end(key, Err(engine_stopped));
            }
        }
    }

    /// Waits for the share of the budget that the job needs.
    async fn acquire_budget(self: &Arc<Self>, account: Option<UserId>, work: &Arc<VideoWork>) -> EngineShare {
        let is_extension = matches!(work.job, VideoJob::Extend(_));
        let decode_bytes = if is_extension { self.decode_bytes(account, work).await } else { 0 };
        self.budget.acquire(account, self.cost(work, decode_bytes).into()).await
    }

    /// Returns the bytes needed to decode the video being extended. Reading it needs a share of the budget too, which
    /// is released before the next is acquired, so that jobs cannot deadlock.
    async fn decode_bytes(self: &Arc<Self>, account: Option<UserId>, work: &Arc<VideoWork>) -> u64 {
        let _permit = self.budget.acquire(account, self.cost(work, 0).into()).await;
        let engine = Arc::clone(self);
        let work = Arc::clone(work);
        let footage_size = move || {
            let VideoJob::Extend(job) = &work.job else { return None };
            footage_bytes(&engine.store.read_clip(MediaArea::Input, job.video.stored.as_ref()?).ok()?)
        };
        // An unreadable video fails with a specific error when the job runs.
        tokio::task::spawn_blocking(footage_size).await.ok().flatten().unwrap_or(0)
    }

    /// Returns the cost of a job in thousands of pixels, at most the whole budget; `decode_bytes` is the number of
    /// bytes needed to decode an input video.
    fn cost(&self, work: &VideoWork, decode_bytes: u64) -> u32 {
        let cores = EngineThreads::per_job() as u64;
        let frames = size(work).area() as u64 * FRAME_COST * cores;
        let inputs = pictures(work).map(|picture| {
            (u64::from(picture.width) * u64::from(picture.height)).saturating_add(picture.bytes.div_ceil(PIXEL_BYTES))
        });
        let prepared = size(work).area() as u64 * PICTURE_COST * (1 + pictures(work).count() as u64);
        let footage_file = match &work.job {
            VideoJob::Extend(job) => job.video.stored.map_or(0, |clip| clip.bytes.div_ceil(PIXEL_BYTES)),
            _ => 0,
        };

        let footage = footage_file.saturating_add(decode_bytes.div_ceil(PIXEL_BYTES));
        let pixels = inputs.fold(frames.saturating_add(prepared).saturating_add(footage), u64::saturating_add);
        u32::try_from(pixels.div_ceil(1000)).unwrap_or(u32::MAX).clamp(1, self.options.kilopixels_max)
    }

    /// Renders and stores the video; `None` if it is no longer wanted.
    fn render(&self, key: &VendorKey, work: &VideoWork) -> Result<Option<Creation>, TaskFailure> {
        let seed = work.seed.get();
        let prompt = match &work.job {
            VideoJob::StartEnd(job) | VideoJob::Reference(job) => job.prompt.as_ref().map_or("", VideoPrompt::as_str),
            VideoJob::Extend(_) | VideoJob::Multiframe(_) => "",
        };

        let background_music = self.music.as_ref().map(|music| move |samples| music(prompt, seed, samples));
        let running_job = RunningJob { engine: self, key };
        let plan = plan(work, &running_job, background_music.as_ref().map(|music| music as BackgroundMusic<'_>))?;
        let has_watermark = plan.watermark.is_some();

        match render(plan, &running_job) {
            Ok(rendered) => running_job.store(&rendered, has_watermark).map(Some),
            Err(VideoError::Cancelled) => Ok(None),
            Err(VideoError::Input { code, reason }) => Err(TaskFailure::new(code, &reason)),
            Err(VideoError::Internal(cause)) => {
                Err(internal_failure("engine_failed", "the video engine failed on this job", &cause))
            }
        }
    }
}

/// A running job: reads inputs, stores results, and reports progress while the job is wanted and polled.
struct RunningJob<'a> {
    engine: &'a VideoEngine,
    key: &'a VendorKey,
}

impl RunningJob<'_> {
    fn store(&self, rendered: &RenderedVideo, has_watermark: bool) -> Result<Creation, TaskFailure> {
        let unwritable = |error| internal_failure("result_unwritable", "cannot store the result", &error);
        let video = self
            .retry_while_exhausted(|| self.engine.store.put_clip(MediaArea::Result, &rendered.bytes, VideoFormat::Mp4))
            .map_err(unwritable)?;

        let [width, height] =
            [rendered.size.width, rendered.size.height].map(|side| u32::try_from(side).unwrap_or(u32::MAX));
        let cover = || self.engine.store.put(MediaArea::Result, &rendered.cover, ImageFormat::Jpeg, width, height);
        let cover = self.retry_while_exhausted(cover).map_err(unwritable)?;

        Ok(Creation { video, cover: Some(cover), watermarked: has_watermark.then_some(video), vendor_id: None })
    }

    /// Retries while the disk is full or too many files are open.
    fn retry_while_exhausted<R>(&self, attempt: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        self.engine.jobs.retry_while_exhausted(self.key, attempt)
    }
}

impl Inputs for RunningJob<'_> {
    type Failure = TaskFailure;

    fn picture(&self, source: &PictureSource, name: &str) -> Result<Pixels, TaskFailure> {
        let stored =
            source.stored().ok_or_else(|| TaskFailure::new("input_unreadable", &format!("{name} is missing")))?;
        let bytes = self
            .retry_while_exhausted(|| self.engine.store.read(MediaArea::Input, stored))
            .map_err(|error| internal_failure("input_unreadable", "cannot read the input picture", &error))?;

        let decoded = self.engine.jobs.decode(self.key, self.engine.store.decoders(), &bytes);
        let decoded = decoded.map_err(|reason| TaskFailure::new("input_undecodable", &format!("{name} {reason}")))?;
        Ok(decoded.pixels)
    }

    fn footage(&self, clip: Option<&Clip>) -> Result<Vec<u8>, TaskFailure> {
        let clip = clip.ok_or_else(|| TaskFailure::new("input_unreadable", "video_url is missing"))?;
        if clip.format != VideoFormat::Mp4 {
            return Err(TaskFailure::new("video_unsupported", "the video is not an MP4 file"));
        }
        self.retry_while_exhausted(|| self.engine.store.read_clip(MediaArea::Input, clip))
            .map_err(|error| internal_failure("input_unreadable", "cannot read the video", &error))
    }
}

impl RenderObserver for RunningJob<'_> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts to integers saturate")]
    fn report_progress(&self, fraction: f32) {
        self.engine.jobs.advance(self.key, (fraction.min(1.0) * 1000.0) as u16);
    }

    fn is_cancelled(&self) -> bool {
        self.engine.jobs.is_abandoned(self.key)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::domain::ids::TaskId;
    use crate::domain::task::TaskWork;
    use crate::domain::value::{CallbackUrl, Text};
    use crate::domain::video::{
        ExtendJob, ExtendModel, ExtendResolution, Footage, GenerateJob, Seed, VideoModel, VideoSeconds,
    };

    const FOOTAGE: &[u8] = include_bytes!("../../../fuzz/seeds/video/reordered_aac.mp4");

    fn work_of(job: VideoJob) -> VideoWork {
        VideoWork { job, images: Vec::new(), seed: Seed::from_random(1), payload: None, meta_data: None, credits: 0 }
    }

    #[tokio::test]
    async fn an_unwanted_video_is_stopped_while_it_is_rendered() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = Arc::new(AtomicBool::new(true));
        let wanted_flag = Arc::clone(&wanted);
        let is_wanted: IsJobWanted = Arc::new(move |_| wanted_flag.load(Ordering::Relaxed));
        let vendor =
            LocalVideo::new(MediaStore::open(dir.path()).unwrap(), VideoEngineOptions::default(), None, is_wanted);

        // Given a video that is being rendered
        let work = TaskWork::Video(work_of(VideoJob::StartEnd(GenerateJob::new(VideoModel::Vq1))));
        let job = VendorJob {
            task: TaskId(uuid::Uuid::nil()),
            account: None,
            key: Text::from_recorded("a".to_owned()),
            work,
        };
        let reference = vendor.submit(job).await.unwrap().into_reference();

        while !matches!(vendor.poll(&reference).await.unwrap(), JobProgress::Running { .. }) {
            vendor.progress_notify().notified().await;
        }

        // When it is no longer wanted, then the job stops and is forgotten
        wanted.store(false, Ordering::Relaxed);
        while matches!(vendor.poll(&reference).await.unwrap(), JobProgress::Running { .. }) {
            vendor.progress_notify().notified().await;
        }
        assert_eq!(vendor.poll(&reference).await.unwrap(), JobProgress::Forgotten);
    }

    #[tokio::test]
    async fn extending_a_video_costs_the_memory_to_decode_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = MediaStore::open(dir.path()).unwrap();
        let footage = store.put_clip(MediaArea::Input, FOOTAGE, VideoFormat::Mp4).unwrap();
        let work = |footage| VideoWork {
            job: VideoJob::Extend(ExtendJob {
                model: ExtendModel::Vq2Pro,
                resolution: ExtendResolution::P540,
                seconds: VideoSeconds::DEFAULT,
                prompt: None,
                video: Footage {
                    creation: None,
                    url: CallbackUrl::from_recorded("https://media.example/x.mp4".to_owned()),
                    stored: footage,
                    vendor_id: None,
                },
            }),
            ..work_of(VideoJob::StartEnd(GenerateJob::new(VideoModel::Vq1)))
        };

        let engine = LocalVideo::new(store, VideoEngineOptions::default(), None, Arc::new(|_| true)).engine;
        let available = engine.budget.available();

        // 29 to 42 frames of 64 by 48 pixels: 25 waiting ones, and at least three reference frames.
        let bytes = engine.decode_bytes(None, &Arc::new(work(Some(footage)))).await;
        assert!((29 * 64 * 48 * 3 / 2..42 * 64 * 48 * 3 / 2).contains(&bytes), "{bytes}");
        assert_eq!(engine.decode_bytes(None, &Arc::new(work(None))).await, 0);
        assert_eq!(engine.budget.available(), available, "the share is released");

        // Rounded up to thousands, like the total.
        let large = 1 << 29;
        let difference = engine.cost(&work(None), large) - engine.cost(&work(None), 0);
        assert!(difference.abs_diff(u32::try_from(large / PIXEL_BYTES / 1000).unwrap()) <= 1, "{difference}");
        assert_eq!(engine.cost(&work(None), u64::MAX), engine.options.kilopixels_max);
    }
}
