//! The poller: submits the tasks of one gateway to its vendor, polls their progress, and stores the results.
//!
//! The recorded stage alone determines the next step (`step`), so a restart resumes every unfinished task. A call to a
//! vendor is recorded before it is made (ADR 13). A circuit breaker guards the vendor: tasks wait while it is open,
//! and none fails because of it before its deadline.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::CommandContext;
use super::aggregate::CommandOutcome;
use super::error::CommandError;
use super::input_fetcher::{InputFailure, InputFetcher};
use super::reactor::{Reactor, Reschedule, WorkerSlots};
use super::system::Dispatch;
use super::task_progress::TaskProgress;
use super::vendor_webhooks::VendorWebhooks;
use crate::domain::ids::TaskId;
use crate::domain::task::{
    JobFilter, RecordedVendor, Task, TaskCommand, TaskFailure, TaskRecord, TaskRejection, TaskStatus, VendorKey,
    VendorReference,
};
use crate::domain::value::Text;
use crate::environment::{Environment, FailPoint, VendorStep};
use crate::events::stream::Position;
use crate::projections::ReadModels;
use crate::projections::task::TaskEntry;
use crate::vendors::{
    JobProgress, ResultFetchError, SubmissionRecovery, Submitted, Vendor, VendorError, VendorErrorKind, VendorJob,
};

pub mod backoff;
mod blocked;
pub mod breaker;
mod options;
mod queue;
mod step;
pub(in crate::actors) mod vendor_guard;

pub use options::PollerOptions;
pub use step::LANES;
pub use vendor_guard::VendorState;

use backoff::add_jitter;
use blocked::BlockedReason;
use breaker::Admission;
use queue::TaskTurns;
use step::{PollerStep, attempts, next_step, removed_vendor_step};
use vendor_guard::VendorGuard;

/// Longest time during which an input with a temporary fetch error is retried, counted from the submission of the task.
const INPUT_RETRY_WINDOW: Duration = Duration::from_mins(2);
/// Shortest and longest pause between such retries; in between, the pause is the age of the task.
const INPUT_RETRY_DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The same for an input whose host name has no address: three attempts.
const NAME_RETRY_WINDOW: Duration = Duration::from_secs(12);
/// Pause between such retries.
const NAME_RETRY_DELAY: Duration = Duration::from_secs(6);
/// Pause of a task whose outcome could not be recorded.
const RECORD_RETRY_DELAY: Duration = Duration::from_secs(5);
/// Pause of a task whose vendor is not configured; only a restart with other settings helps.
const REMOVED_VENDOR_DELAY: Duration = Duration::from_mins(5);
/// Number of fetches after which invalid results fail the task.
const MALFORMED_RESULTS_MAX: u32 = 4;

/// Reactor that processes the tasks of one gateway at one vendor.
#[derive(Clone)]
pub struct Poller {
    dispatch: Dispatch,
    models: ReadModels,
    environment: Environment,
    vendor: Arc<dyn Vendor>,
    /// Identity of the vendor, recorded with each submission; not recorded if `None`.
    identity: Option<RecordedVendor>,
    /// Jobs that the vendor takes.
    jobs: Arc<JobFilter>,
    inputs: InputFetcher,
    options: PollerOptions,
    guard: VendorGuard,
    task_progress: TaskProgress,
    webhooks: Option<VendorWebhooks>,
    changes: tokio::sync::watch::Receiver<Position>,
    account_turns: Arc<Mutex<TaskTurns>>,
}

impl Poller {
    /// Returns a poller of `vendor`.
    #[must_use]
    pub fn new(
        dispatch: Dispatch,
        models: ReadModels,
        environment: Environment,
        vendor: Arc<dyn Vendor>,
        inputs: InputFetcher,
        options: PollerOptions,
    ) -> Self {
        let changes = models.task_changes();
        let guard = VendorGuard::new(vendor.name(), options.breaker, options.retry, environment.clone());
        let task_progress = TaskProgress::default();
        let webhooks = None;
        let account_turns = Arc::default();

        Self {
            dispatch,
            models,
            environment,
            vendor,
            identity: None,
            jobs: Arc::default(),
            inputs,
            options,
            guard,
            task_progress,
            webhooks,
            changes,
            account_turns,
        }
    }

    /// Reports the progress of its tasks to `task_progress`.
    #[must_use]
    pub fn with_task_progress(self, task_progress: TaskProgress) -> Self {
        Self { task_progress, ..self }
    }

    /// Records this identity of the vendor with each submission. Tasks of other vendors are left alone.
    #[must_use]
    pub fn with_identity(self, identity: RecordedVendor) -> Self {
        Self { identity: Some(identity), ..self }
    }

    /// Fails all other jobs instead of submitting them.
    #[must_use]
    pub fn with_jobs(self, jobs: JobFilter) -> Self {
        Self { jobs: Arc::new(jobs), ..self }
    }

    /// Polls a task immediately after a webhook of the vendor.
    #[must_use]
    pub fn with_webhooks(self, webhooks: VendorWebhooks) -> Self {
        Self { webhooks: Some(webhooks), ..self }
    }

    /// Returns the observable state of the vendor.
    #[must_use]
    pub fn vendor_state(&self) -> VendorState {
        self.guard.state()
    }

    async fn fetch_inputs(&self, task: TaskId, entry: &TaskEntry) -> Reschedule {
        match self.inputs.fetch(entry.record.submission.owner, &entry.record.submission.work).await {
            Ok(command) => self.record_and_continue(task, entry, command).await,
            Err(InputFailure::Permanent(failure)) => {
                self.record_and_continue(task, entry, TaskCommand::Fail { failure }).await
            }
            Err(InputFailure::Transient(failure)) => {
                let elapsed = self.environment.now().since(entry.record.created_at);
                let delay = elapsed.clamp(INPUT_RETRY_DELAYS.0, INPUT_RETRY_DELAYS.1);
                self.retry_inputs(task, entry, failure, (INPUT_RETRY_WINDOW, delay)).await
            }
            Err(InputFailure::Unresolved(failure)) => {
                self.retry_inputs(task, entry, failure, (NAME_RETRY_WINDOW, NAME_RETRY_DELAY)).await
            }
            Err(InputFailure::Internal(reason)) => {
                tracing::warn!(%task, reason, "inputs not stored, will retry");
                self.block(task, entry, BlockedReason::InputStorageFailed, RECORD_RETRY_DELAY)
            }
        }
    }

    /// Waits for the next attempt; fails the task if it is older than `window`.
    async fn retry_inputs(
        &self,
        task: TaskId,
        entry: &TaskEntry,
        failure: TaskFailure,
        (window, delay): (Duration, Duration),
    ) -> Reschedule {
        if self.environment.now().since(entry.record.created_at) >= window {
            return self.record_and_continue(task, entry, TaskCommand::Fail { failure }).await;
        }
        tracing::info!(%task, reason = failure.message.as_str(), "input fetch failed, will retry");
        self.block(task, entry, BlockedReason::InputUnavailable(failure), delay)
    }

    async fn submit(&self, task: TaskId, entry: &TaskEntry) -> Reschedule {
        let work = &entry.record.submission.work;
        let is_first = entry.record.vendor.is_none();
        let is_served = self.jobs.takes(work) && self.vendor.serves(work);
        if is_first && !is_served {
            let failure = TaskFailure::new("vendor_refused", "no vendor of this service takes this job");
            return self.record_and_continue(task, entry, TaskCommand::Fail { failure }).await;
        }

        if let Err((reason, delay)) = self.check_admission().await {
            return self.block(task, entry, reason, delay);
        }

        let recovery = self.vendor.recovery();
        let key = VendorKey::from_recorded(task.to_string());
        let repeatable = recovery == SubmissionRecovery::Key;
        self.hit_fail_point(VendorStep::BeforeIntent, task);
        let start = TaskCommand::StartSubmission { key: key.clone(), repeatable, vendor: self.identity.clone() };
        if self.record(task, entry, start).await.is_err() {
            return self.block(task, entry, BlockedReason::RecordingFailed, RECORD_RETRY_DELAY);
        }
        self.hit_fail_point(VendorStep::IntentRecorded, task);

        let result = self.vendor.submit(VendorJob::from_submission(entry.record.submission.clone(), key)).await;
        self.hit_fail_point(VendorStep::Responded, task);

        match result {
            Ok(submitted) => {
                self.guard.record_success();
                let command = match submitted {
                    Submitted::Accepted(reference) => TaskCommand::RecordAcceptance { reference },
                    Submitted::Finished { reference, results } => TaskCommand::RecordFinished { reference, results },
                };
                let next = self.record_and_continue(task, entry, command).await;
                self.hit_fail_point(VendorStep::AcceptanceRecorded, task);
                next
            }
            Err(error) => self.handle_submission_failure(task, entry, error).await,
        }
    }

    /// Asks the breaker. A probe is a health check, so that a failing vendor is not given a job.
    async fn check_admission(&self) -> Result<(), (BlockedReason, Duration)> {
        match self.guard.admission() {
            Admission::Allow => Ok(()),
            Admission::Wait(wait) => Err((BlockedReason::CircuitOpen, self.guard.admission_delay(wait))),
            Admission::Probe => match self.vendor.health_check().await {
                Ok(()) => {
                    self.guard.record_success();
                    Ok(())
                }
                Err(error) => {
                    self.guard.record_failure(&error);
                    Err((BlockedReason::VendorError(error.kind), self.guard.admission_delay(self.options.retry.min)))
                }
            },
        }
    }

    async fn handle_submission_failure(&self, task: TaskId, entry: &TaskEntry, error: VendorError) -> Reschedule {
        self.guard.record_failure(&error);
        let delay = self.guard.retry_delay(&error, attempts(&entry.record.stage).saturating_add(1));
        let kind = error.kind;
        let message = Text::from_recorded(error.message);
        let command = match kind {
            VendorErrorKind::Refused => {
                let failure = TaskFailure::new("vendor_refused", message.as_str());
                return self.record_and_continue(task, entry, TaskCommand::RecordRefusal { failure }).await;
            }
            VendorErrorKind::Unreached | VendorErrorKind::Busy | VendorErrorKind::Unserved => {
                TaskCommand::RecordUndelivered { reason: message }
            }
            VendorErrorKind::Unknown => {
                let repeatable = self.vendor.recovery() != SubmissionRecovery::Nothing;
                TaskCommand::RecordUnknownOutcome { reason: message, repeatable }
            }
        };

        // Pause even if this was not recorded, so that the submission is not repeated immediately.
        if let Err(error) = self.record(task, entry, command).await {
            tracing::warn!(%task, %error, "submission outcome not recorded");
        }

        self.block(task, entry, BlockedReason::VendorError(kind), delay)
    }

    /// Asks the vendor whether it received a submission whose outcome is unknown.
    async fn search_submission(&self, task: TaskId, entry: &TaskEntry, key: VendorKey) -> Reschedule {
        if let Admission::Wait(wait) = self.guard.admission() {
            return self.block(task, entry, BlockedReason::CircuitOpen, self.guard.admission_delay(wait));
        }

        match self.vendor.find(VendorJob::from_submission(entry.record.submission.clone(), key)).await {
            Ok(Some(reference)) => {
                self.guard.record_success();
                self.record_and_continue(task, entry, TaskCommand::RecordAcceptance { reference }).await
            }
            Ok(None) => {
                self.guard.record_success();
                let remaining = self.options.search_grace_period.saturating_sub(self.age_of_stage(&entry.record));
                if !remaining.is_zero() {
                    self.task_progress.unblock(task);
                    return Reschedule::After(add_jitter(remaining, self.environment.random_f64()));
                }
                let reason = "the vendor was searched and does not have the job";
                let command = TaskCommand::RecordUndelivered { reason: Text::from_recorded(reason.to_owned()) };
                self.record_and_continue(task, entry, command).await
            }
            Err(error) => self.handle_poll_failure(task, entry, &error),
        }
    }

    async fn poll(&self, task: TaskId, entry: &TaskEntry, reference: &VendorReference) -> Reschedule {
        let past_deadline = self.is_past_deadline(&entry.record);

        if let Admission::Wait(wait) = self.guard.admission() {
            if past_deadline {
                return self.fail_expired(task, entry).await;
            }
            return self.block(task, entry, BlockedReason::CircuitOpen, self.guard.admission_delay(wait));
        }

        let progress = self.vendor.poll(reference).await;
        self.hit_fail_point(VendorStep::Polled, task);
        if let Ok(progress) = &progress {
            self.guard.record_success();
            self.task_progress.record(task, progress);
        }

        match progress {
            Ok(JobProgress::Queued { .. } | JobProgress::Running { .. } | JobProgress::Lost) | Err(_)
                if past_deadline =>
            {
                self.fail_expired(task, entry).await
            }
            Ok(JobProgress::Queued { .. }) => self.schedule_next_poll(task, entry),
            Ok(JobProgress::Running { .. }) if entry.record.status == TaskStatus::InProgress => {
                self.schedule_next_poll(task, entry)
            }
            Ok(JobProgress::Running { .. }) => match self.record(task, entry, TaskCommand::RecordWorkStarted).await {
                Ok(_) => self.schedule_next_poll(task, entry),
                Err(_) => self.block(task, entry, BlockedReason::RecordingFailed, RECORD_RETRY_DELAY),
            },
            Ok(JobProgress::Done(results)) => self.record_final(task, entry, TaskCommand::Complete { results }).await,
            Ok(JobProgress::Failed(failure)) => self.record_final(task, entry, TaskCommand::Fail { failure }).await,
            // A remote vendor accepted the job: another submission might be charged again.
            Ok(JobProgress::Forgotten) if is_at_remote_vendor(&entry.record) => self.handle_lost_job(task, entry).await,
            Ok(JobProgress::Forgotten) => self.record_final(task, entry, TaskCommand::RecordLostJob).await,
            Ok(JobProgress::FetchFailed(fetch_error)) => {
                self.handle_fetch_failure(task, entry, fetch_error, past_deadline).await
            }
            Ok(JobProgress::Lost) => self.handle_lost_job(task, entry).await,
            Err(error) => self.handle_poll_failure(task, entry, &error),
        }
    }

    /// Schedules the next poll of a task that the vendor has not finished.
    fn schedule_next_poll(&self, task: TaskId, entry: &TaskEntry) -> Reschedule {
        self.guard.reset_failures(task);
        self.task_progress.unblock(task);
        let age = self.environment.now().since(entry.record.created_at);
        Reschedule::After(self.options.poll.poll_interval(age, self.environment.random_f64()))
    }

    fn handle_poll_failure(&self, task: TaskId, entry: &TaskEntry, error: &VendorError) -> Reschedule {
        self.guard.record_failure(error);
        tracing::warn!(vendor = self.vendor.name(), %task, error = error.message, "vendor poll failed");
        let delay = self.guard.retry_delay(error, self.guard.count_failure(task));
        self.block(task, entry, BlockedReason::VendorError(error.kind), delay)
    }

    async fn handle_fetch_failure(
        &self,
        task: TaskId,
        entry: &TaskEntry,
        fetch_error: ResultFetchError,
        past_deadline: bool,
    ) -> Reschedule {
        let failures = self.guard.count_failure(task);
        let (failure, is_final) = match fetch_error {
            ResultFetchError::Transient(failure) => (failure, past_deadline),
            ResultFetchError::Malformed(failure) => (failure, past_deadline || failures >= MALFORMED_RESULTS_MAX),
        };
        tracing::warn!(%task, reason = failure.message.as_str(), "result fetch failed");
        if is_final {
            return self.record_final(task, entry, TaskCommand::Fail { failure }).await;
        }
        self.block(task, entry, BlockedReason::ResultsUnavailable(failure), self.guard.backoff_after(failures))
    }

    /// A vendor may not list a task right after accepting it. The task is never submitted again.
    async fn handle_lost_job(&self, task: TaskId, entry: &TaskEntry) -> Reschedule {
        if self.age_of_stage(&entry.record) < self.options.lost_after {
            let failures = self.guard.count_failure(task);
            return self.block(task, entry, BlockedReason::UnknownToVendor, self.guard.backoff_after(failures));
        }
        let message = "the vendor accepted the task but no longer knows it; it was not submitted again";
        let failure = TaskFailure::new("vendor_lost", message);
        self.record_final(task, entry, TaskCommand::Fail { failure }).await
    }

    fn is_past_deadline(&self, record: &TaskRecord) -> bool {
        self.environment.now().since(record.created_at) >= self.options.deadline_of(record)
    }

    fn age_of_stage(&self, record: &TaskRecord) -> Duration {
        self.environment.now().since(record.updated_at)
    }

    async fn fail_expired(&self, task: TaskId, entry: &TaskEntry) -> Reschedule {
        let mut message = format!("not finished within {} seconds", self.options.deadline_of(&entry.record).as_secs());
        // The log does not contain the reason of the wait, so the failure includes it.
        if let Some(blocker) = self.task_progress.blocker(task) {
            let _ = write!(message, "; last blocked by: {}", blocker.reason.message);
        }
        self.record_final(task, entry, TaskCommand::Fail { failure: TaskFailure::new("deadline_exceeded", &message) })
            .await
    }

    /// Records the last command of a job, after which the vendor is not polled again.
    async fn record_final(&self, task: TaskId, entry: &TaskEntry, command: TaskCommand) -> Reschedule {
        self.guard.reset_failures(task);
        self.record_and_continue(task, entry, command).await
    }

    /// Records a command and continues immediately, or after a pause if recording fails.
    async fn record_and_continue(&self, task: TaskId, entry: &TaskEntry, command: TaskCommand) -> Reschedule {
        match self.record(task, entry, command).await {
            // The task has advanced, possibly by another command: its new stage decides what is due.
            Ok(_) | Err(CommandError::Rejected(TaskRejection::WrongStage { .. })) => {
                self.task_progress.unblock(task);
                Reschedule::WhenDue
            }
            Err(error) => {
                tracing::warn!(%task, %error, "task outcome not recorded, will retry");
                self.block(task, entry, BlockedReason::RecordingFailed, RECORD_RETRY_DELAY)
            }
        }
    }

    async fn record(&self, task: TaskId, entry: &TaskEntry, command: TaskCommand) -> CommandOutcome<Task> {
        let causation = Some(entry.last_event);
        let at = self.environment.now();
        self.dispatch.task(task, command, CommandContext::from_system(causation, at)).await
    }

    /// Returns the vendor that has, or may have, the task, if it is another one than that of this poller.
    fn removed_vendor_of<'r>(&self, record: &'r TaskRecord) -> Option<&'r RecordedVendor> {
        let recorded = record.vendor.as_ref()?.recorded.as_ref()?;
        let is_own = self.identity.as_ref().is_none_or(|identity| identity.is_same_vendor(recorded));
        (!is_own).then_some(recorded)
    }

    fn hit_fail_point(&self, step: VendorStep, task: TaskId) {
        self.environment.hit(FailPoint::Vendor(step), &task.to_string());
    }

    async fn run_next_step(&self, task: TaskId, entry: &TaskEntry) -> Reschedule {
        let now = self.environment.now();
        let deadline = self.options.deadline_of(&entry.record);

        let step = match self.removed_vendor_of(&entry.record) {
            Some(vendor) => removed_vendor_step(&entry.record, vendor, now, deadline),
            None => next_step(&entry.record, now, deadline, self.vendor.recovery()),
        };

        match step {
            PollerStep::Nothing => Reschedule::WhenDue,
            PollerStep::Fetch => self.fetch_inputs(task, entry).await,
            PollerStep::Submit => self.submit(task, entry).await,
            PollerStep::Search { key } => self.search_submission(task, entry, key).await,
            PollerStep::Poll { reference } => self.poll(task, entry, &reference).await,
            PollerStep::GiveUpUnknown { reason } => {
                let command = TaskCommand::RecordUnknownOutcome {
                    reason: Text::from_recorded(reason.to_owned()),
                    repeatable: false,
                };
                self.record_final(task, entry, command).await
            }
            PollerStep::Expire => self.fail_expired(task, entry).await,
            PollerStep::Forget => self.record_final(task, entry, TaskCommand::RecordLostJob).await,
            PollerStep::Release => {
                let reason = "the built-in engine that had the job is no longer in use";
                let command = TaskCommand::RecordUndelivered { reason: Text::from_recorded(reason.to_owned()) };
                self.record_final(task, entry, command).await
            }
            PollerStep::AwaitVendor => self.block(task, entry, BlockedReason::VendorRemoved, REMOVED_VENDOR_DELAY),
        }
    }
}

impl Reactor for Poller {
    type Key = TaskId;
    type Work = (TaskId, TaskEntry);
    const NAME: &'static str = "poller";

    fn due(&self, slots: &mut WorkerSlots<TaskId>) -> Vec<(TaskId, Self::Work)> {
        let now = self.environment.now();
        let due = queue::due(&self.models.read().tasks, &self.options, now, &mut self.account_turns.lock(), slots);
        due.into_iter().map(|(task, entry)| (task, (task, entry))).collect()
    }

    async fn act(&self, (task, entry): Self::Work) -> Reschedule {
        match self.run_next_step(task, &entry).await {
            Reschedule::After(delay) => Reschedule::After(self.limit_to_deadline(&entry.record, delay)),
            next @ Reschedule::WhenDue => next,
        }
    }

    async fn changed(&mut self) -> bool {
        let progressed = self.vendor.progress_notify();
        let webhook = async {
            match &self.webhooks {
                Some(webhooks) => webhooks.received().await,
                None => std::future::pending().await,
            }
        };

        tokio::select! {
            _ = self.changes.changed() => false,
            () = webhook => false,
            () = progressed.notified() => true,
            () = self.guard.wait_until_closed() => true,
        }
    }

    fn take_woken(&self) -> Vec<TaskId> {
        let Some(webhooks) = &self.webhooks else { return Vec::new() };
        let models = self.models.read();
        // Tasks that are not in memory have ended; any poller may drop their webhooks.
        let is_own =
            |task: &TaskId| models.tasks.gateway_of(*task).is_none_or(|gateway| gateway == self.options.gateway);
        webhooks.drain(is_own)
    }
}

/// Returns `true` if the task was submitted to a remote vendor.
fn is_at_remote_vendor(record: &TaskRecord) -> bool {
    let recorded = record.vendor.as_ref().and_then(|vendor| vendor.recorded.as_ref());
    recorded.is_some_and(|vendor| !vendor.is_built_in())
}
