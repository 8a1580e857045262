//! Poller against a scripted vendor.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mediary::actors::CommandContext;
use mediary::actors::input_fetcher::InputFetcher;
use mediary::actors::poller::{Poller, PollerOptions, PoolVendor, PoolVendorOptions};
use mediary::actors::reactor::{Duty, ReactorOptions, spawn_supervised};
use mediary::actors::router::RouterOptions;
use mediary::actors::system::{ActorOptions, Actors};
use mediary::domain::ids::{TaskId, UserId};
use mediary::domain::image::{ImageFormat, ImageJob, ImageWork, Picture, PictureSource, UpscaleJob};
use mediary::domain::task::{
    Gateway, RecordedVendor, Submission, TaskCommand, TaskFailure, TaskRecord, TaskStatus, TaskWork, VendorKey,
    VendorPrice, VendorReference,
};
use mediary::domain::value::{Digest, Text};
use mediary::environment::Environment;
use mediary::events::log::EventLog;
use mediary::events::memory_log::MemoryLog;
use mediary::events::stream::{StreamId, Version};
use mediary::media::store::MediaStore;
use mediary::outbound::address::AddressRules;
use mediary::outbound::client::{ClientLimits, OutboundClient};
use mediary::outbound::fetch::Fetcher;
use mediary::projections::ReadModels;
use mediary::projections::read_models::Models;
use mediary::telemetry::metrics::Metrics;
use mediary::vendors::{
    JobProgress, SubmissionCall, SubmissionRecovery, SubmissionReply, Vendor, VendorError, VendorErrorKind, VendorJob,
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use crate::support::eventually::{eventually, eventually_on};

/// Vendor with prepared answers to submissions, which reports every job as done.
struct FakeVendor {
    /// Results of the next preparations: an error, or `None` for success. Later ones succeed.
    preparations: Mutex<VecDeque<Option<VendorErrorKind>>>,
    /// Each preparation waits for a permit.
    preparation_permits: Semaphore,
    begun_preparations: AtomicUsize,
    replies: Mutex<VecDeque<Option<VendorErrorKind>>>,
    honours_keys: bool,
    /// `true` if the response to a submission is the result.
    finishes_at_once: bool,
    keys: Mutex<Vec<VendorKey>>,
    polls: Mutex<VecDeque<JobProgress>>,
    progress_notify: Arc<Notify>,
}

impl FakeVendor {
    fn reply(&self, key: VendorKey) -> Result<SubmissionReply, VendorError> {
        self.keys.lock().push(key.clone());
        match self.replies.lock().pop_front().flatten() {
            None if self.finishes_at_once => {
                Ok(SubmissionReply::Finished { reference: key, results: vec![picture()].into() })
            }
            None => Ok(SubmissionReply::Accepted(key)),
            Some(kind) => Err(scripted_error(kind)),
        }
    }
}

impl Vendor for FakeVendor {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn recovery(&self) -> SubmissionRecovery {
        if self.honours_keys { SubmissionRecovery::Key } else { SubmissionRecovery::Nothing }
    }

    fn prepare(&self, job: VendorJob) -> BoxFuture<'_, Result<SubmissionCall<'_>, VendorError>> {
        async move {
            self.begun_preparations.fetch_add(1, Ordering::Relaxed);
            self.preparation_permits.acquire().await.expect("the semaphore is never closed").forget();
            if let Some(kind) = self.preparations.lock().pop_front().flatten() {
                return Err(scripted_error(kind));
            }
            Ok(async move { self.reply(job.key) }.boxed())
        }
        .boxed()
    }

    fn poll(&self, _: &VendorReference) -> BoxFuture<'_, Result<JobProgress, VendorError>> {
        let progress = self.polls.lock().pop_front().unwrap_or_else(|| JobProgress::Done(vec![picture()].into()));
        std::future::ready(Ok(progress)).boxed()
    }

    fn progress_notify(&self) -> Arc<Notify> {
        Arc::clone(&self.progress_notify)
    }
}

fn scripted_error(kind: VendorErrorKind) -> VendorError {
    let mut error = VendorError::new(kind, "as the test wants");
    error.retry_after = Some(Duration::from_millis(1));
    error
}

fn picture() -> Picture {
    Picture { digest: Digest([1; 32]), format: ImageFormat::Png, bytes: 10, width: 8, height: 8 }
}

/// Poller that works on one task.
struct PollerFixture {
    log: Arc<MemoryLog>,
    models: ReadModels,
    actors: Actors,
    vendor: Arc<FakeVendor>,
    task: TaskId,
    _store_dir: TempDir,
}

async fn start_fixture(
    honours_keys: bool,
    replies: &[Option<VendorErrorKind>],
    polls: &[JobProgress],
) -> PollerFixture {
    start_with_vendor(FakeVendor {
        replies: Mutex::new(replies.iter().copied().collect()),
        honours_keys,
        polls: Mutex::new(polls.iter().cloned().collect()),
        ..FakeVendor::default()
    })
    .await
}

impl Default for FakeVendor {
    fn default() -> Self {
        Self {
            preparations: Mutex::default(),
            preparation_permits: Semaphore::new(Semaphore::MAX_PERMITS),
            begun_preparations: AtomicUsize::default(),
            replies: Mutex::default(),
            honours_keys: false,
            finishes_at_once: false,
            keys: Mutex::default(),
            polls: Mutex::default(),
            progress_notify: Arc::default(),
        }
    }
}

async fn start_with_vendor(vendor: FakeVendor) -> PollerFixture {
    let environment = Environment::system();
    let log = Arc::new(MemoryLog::default());
    let models = ReadModels::new(log.clone(), Models::default());
    let options = ActorOptions {
        writer_queue: 64,
        router: RouterOptions { queue: 64, mailbox: 4, idle: Duration::from_mins(1) },
    };
    let actors = Actors::start(log.clone(), models.clone(), environment.clone(), options, Metrics::default()).await;
    let store = tempfile::tempdir().unwrap();
    let rules = AddressRules { allow_private: true, allow: Vec::new() };
    let fetcher = Fetcher::new(OutboundClient::new(rules, ClientLimits::default()).unwrap(), 1 << 20);
    let inputs = InputFetcher::new(fetcher, MediaStore::open(store.path()).unwrap());
    let vendor = Arc::new(vendor);
    let identity = RecordedVendor {
        name: Text::from_recorded("scripted".to_owned()),
        profile: Text::from_recorded(RecordedVendor::BUILT_IN_PROFILE.to_owned()),
        profile_hash: None,
        price: VendorPrice::default(),
    };
    let vendors = vec![PoolVendor::new(vendor.clone(), identity, PoolVendorOptions::built_in())];
    let dispatch = actors.dispatch.clone();
    let options = PollerOptions::new(Gateway::Image, Duration::from_hours(1));
    let poller = Poller::new(dispatch, models.clone(), environment.clone(), vendors, inputs, options);
    spawn_supervised(poller, ReactorOptions { concurrency: 4, lane: 4 }, Duty::always(), environment);
    let mut fixture =
        PollerFixture { log, models, actors, vendor, task: TaskId(Uuid::from_u128(7)), _store_dir: store };
    fixture.submit().await;
    fixture
}

impl PollerFixture {
    async fn submit(&mut self) {
        let job = ImageJob::Upscale(UpscaleJob::default());
        let work = TaskWork::Image(ImageWork {
            job,
            image: PictureSource::Stored(picture()),
            reference: None,
            seed: None,
            credits: 0,
        });
        let submission =
            Submission { task: self.task, owner: Some(UserId(Uuid::nil())), work, webhook: None, payers: None };
        self.send_command(TaskCommand::Submit(submission)).await;
    }

    async fn send_command(&self, command: TaskCommand) {
        let context = CommandContext::from_system(None, Environment::system().now());
        self.actors.dispatch.task(self.task, command, context).await.expect("the command is accepted");
    }

    /// Waits until the task has this status.
    async fn reaches(&self, status: TaskStatus) -> TaskRecord {
        eventually_on(self.models.task_changes(), format!("the task is {status:?}"), async || {
            let record = self.models.task(self.task).await.expect("readable").expect("known");
            (record.status == status).then_some(record)
        })
        .await
    }

    /// Returns the types of the task's events.
    fn history(&self) -> Vec<&'static str> {
        let recorded = self.log.read_stream(&StreamId::from(&self.task), Version(0)).unwrap();
        recorded.iter().map(|recorded| recorded.event.name()).collect()
    }
}

#[actix_web::test]
async fn an_undelivered_submission_is_resent_with_the_same_key() {
    for kind in [VendorErrorKind::Unreached, VendorErrorKind::Busy] {
        let fixture = start_fixture(false, &[Some(kind), Some(kind)], &[]).await;
        fixture.reaches(TaskStatus::Completed).await;
        let retried_events = ["SubmissionStarted", "SubmissionUndelivered"];
        let expected = [
            &["TaskSubmitted"],
            &retried_events[..],
            &retried_events,
            &["SubmissionStarted", "VendorAccepted", "TaskCompleted"],
        ]
        .concat();
        assert_eq!(fixture.history(), expected);
        let keys = fixture.vendor.keys.lock().clone();
        assert_eq!((keys.len(), keys[0] == keys[1] && keys[1] == keys[2]), (3, true));
    }
}

#[actix_web::test]
async fn a_preparation_that_fails_is_not_a_submission() {
    // Given uploads that fail twice
    let kinds = [VendorErrorKind::Unreached, VendorErrorKind::InputUnreadable].map(Some);
    let vendor = FakeVendor { preparations: Mutex::new(kinds.into()), ..FakeVendor::default() };
    let fixture = start_with_vendor(vendor).await;

    // Then nothing is recorded of them, and the third attempt is the first submission
    fixture.reaches(TaskStatus::Completed).await;
    assert_eq!(fixture.history(), ["TaskSubmitted", "SubmissionStarted", "VendorAccepted", "TaskCompleted"]);
    assert_eq!(fixture.vendor.keys.lock().len(), 1);

    // And a job that cannot be expressed fails without one
    let vendor =
        FakeVendor { preparations: Mutex::new([Some(VendorErrorKind::Refused)].into()), ..FakeVendor::default() };
    let fixture = start_with_vendor(vendor).await;
    fixture.reaches(TaskStatus::Failed).await;
    assert_eq!(fixture.history(), ["TaskSubmitted", "TaskFailed"]);
}

#[actix_web::test]
async fn a_task_that_is_cancelled_while_it_is_prepared_is_not_submitted() {
    // Given a task whose upload does not end
    let vendor = FakeVendor { preparation_permits: Semaphore::new(0), ..FakeVendor::default() };
    let fixture = start_with_vendor(vendor).await;
    let has_begun = async || fixture.vendor.begun_preparations.load(Ordering::Relaxed) == 1;
    eventually("the upload has begun", has_begun).await;

    // When it is cancelled, and then the upload ends
    fixture.send_command(TaskCommand::Cancel).await;
    fixture.reaches(TaskStatus::Failed).await;
    fixture.vendor.preparation_permits.add_permits(1);
    eventually("the upload has ended", async || fixture.vendor.preparation_permits.available_permits() == 0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;

    // Then nothing is sent
    assert_eq!(fixture.vendor.keys.lock().len(), 0);
    assert_eq!(fixture.history(), ["TaskSubmitted", "TaskCancelled"]);
}

#[actix_web::test]
async fn an_unknown_outcome_fails_the_task_if_a_retry_could_duplicate_it() {
    let fixture = start_fixture(false, &[Some(VendorErrorKind::Unknown)], &[]).await;
    let record = fixture.reaches(TaskStatus::Failed).await;
    assert_eq!(fixture.history(), ["TaskSubmitted", "SubmissionStarted", "OutcomeUnknown", "TaskFailed"]);
    assert_eq!(fixture.vendor.keys.lock().len(), 1);
    let mediary::domain::task::TaskStage::Failed { failure } = record.stage else { panic!("the task failed") };
    assert_eq!(failure.code.as_str(), "outcome_unknown");
}

#[actix_web::test]
async fn a_vendor_rejection_fails_the_task_with_its_message() {
    let fixture = start_fixture(true, &[Some(VendorErrorKind::Refused)], &[]).await;
    let record = fixture.reaches(TaskStatus::Failed).await;
    assert_eq!(fixture.history(), ["TaskSubmitted", "SubmissionStarted", "VendorRefused", "TaskFailed"]);
    let mediary::domain::task::TaskStage::Failed { failure } = record.stage else { panic!("the task failed") };
    let expected = TaskFailure {
        code: Text::from_recorded("vendor_refused".into()),
        message: Text::from_recorded("as the test wants".into()),
    };
    assert_eq!(failure, expected);
}

#[actix_web::test]
async fn a_vendor_whose_response_is_the_result_is_not_polled() {
    // Given a vendor that has no capacity at first, and then finishes at once
    let fixture = start_with_vendor(FakeVendor {
        replies: Mutex::new([Some(VendorErrorKind::Busy)].into()),
        finishes_at_once: true,
        polls: Mutex::new([JobProgress::Lost].into()),
        ..FakeVendor::default()
    })
    .await;

    // Then acceptance and result are recorded together, without a poll
    let record = fixture.reaches(TaskStatus::Completed).await;
    assert_eq!(record.results(), Some(&vec![picture()].into()));
    assert_eq!(fixture.vendor.polls.lock().len(), 1);
    assert_eq!(fixture.history()[3..], ["SubmissionStarted", "VendorAccepted", "TaskCompleted"]);
}

#[actix_web::test]
async fn a_job_lost_by_the_vendor_is_resubmitted() {
    let fixture = start_fixture(true, &[], &[JobProgress::Forgotten]).await;
    fixture.reaches(TaskStatus::Completed).await;
    let expected = [
        "TaskSubmitted",
        "SubmissionStarted",
        "VendorAccepted",
        "VendorForgot",
        "SubmissionStarted",
        "VendorAccepted",
        "TaskCompleted",
    ];
    assert_eq!(fixture.history(), expected);
}

#[actix_web::test]
async fn a_cancelled_task_fails_and_its_result_is_discarded() {
    // Given a task in progress at the vendor
    let running = vec![JobProgress::Running { permille: None }; 1000];
    let fixture = start_fixture(true, &[], &running).await;
    fixture.reaches(TaskStatus::InProgress).await;

    // When it is cancelled twice, and then the vendor has a result
    fixture.send_command(TaskCommand::Cancel).await;
    fixture.send_command(TaskCommand::Cancel).await;
    fixture.vendor.polls.lock().clear();
    fixture.vendor.progress_notify.notify_one();

    // Then it has failed as cancelled, once
    let record = fixture.reaches(TaskStatus::Failed).await;
    let mediary::domain::task::TaskStage::Failed { failure } = record.stage else { panic!("the task failed") };
    assert_eq!(failure, TaskFailure::cancelled());
    assert_eq!(fixture.history(), ["TaskSubmitted", "SubmissionStarted", "VendorAccepted", "TaskCancelled"]);
}
