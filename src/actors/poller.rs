//! The poller: submits the tasks of one gateway to its vendors, polls their progress, and stores the results.
//!
//! The recorded stage alone determines the next step (`step`), so a restart resumes every unfinished task. A call to a
//! vendor is recorded before it is made (ADR 13). A task moves to another vendor of the pool only if the previous one
//! has certainly not accepted it. A circuit breaker guards each vendor. While it is open, tasks that no other vendor
//! takes wait; they fail only at their deadline.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::CommandContext;
use super::aggregate::CommandOutcome;
use super::error::CommandError;
use super::input_fetcher::{InputFailure, InputFetcher};
use super::reactor::{Reactor, ReactorOptions, Reschedule, WorkerSlots};
use super::system::Dispatch;
use super::task_progress::TaskProgress;
use super::vendor_cancellations::VendorCancellations;
use super::vendor_webhooks::VendorWebhooks;
use crate::domain::ids::TaskId;
use crate::domain::task::{
    Task, TaskCommand, TaskFailure, TaskRecord, TaskRejection, TaskStatus, VendorKey, VendorReference,
};
use crate::domain::value::Text;
use crate::environment::{Environment, FailPoint, VendorStep};
use crate::events::stream::Position;
use crate::projections::task::TaskEntry;
use crate::projections::{ReadError, ReadModels};
use crate::vendors::{
    JobProgress, ResultFetchError, SubmissionRecovery, SubmissionReply, VendorError, VendorErrorKind, VendorJob,
};

pub mod backoff;
mod blocked;
pub mod breaker;
mod extension;
mod options;
mod pool;
mod queue;
mod step;
pub(in crate::actors) mod vendor_guard;

pub use options::{PollerOptions, PoolVendorOptions};
pub use pool::PoolVendor;
pub(in crate::actors) use pool::pick_by_weight;
pub use vendor_guard::{VendorDescription, VendorState};

use backoff::add_jitter;
use blocked::BlockedReason;
use breaker::Admission;
use extension::VideoMaker;
use pool::{PoolMember, TaskHolder, VendorPool};
use queue::{DueTask, DueVendor, TaskQueue, TaskTurns};
use step::{PollerStep, RemovedVendorStep, next_step, removed_vendor_step, unknown_at_deadline};

/// Age of a task up to which fetching an input is retried after a temporary error.
const INPUT_RETRY_WINDOW: Duration = Duration::from_mins(2);
/// Lower bound of the pause between such retries, which is otherwise the age of the task.
const INPUT_RETRY_DELAY_MIN: Duration = Duration::from_secs(1);
/// Maximum pause between such retries.
const INPUT_RETRY_DELAY_MAX: Duration = Duration::from_secs(30);
/// Age of a task up to which an input is retried whose host name has no address. Allows three attempts.
const NAME_RETRY_WINDOW: Duration = Duration::from_secs(12);
/// Pause between such retries.
const NAME_RETRY_DELAY: Duration = Duration::from_secs(6);
/// Pause of a task whose outcome could not be recorded.
const RECORD_RETRY_DELAY: Duration = Duration::from_secs(5);
/// Pause of a task whose vendor is not configured; only a restart with other settings helps.
const REMOVED_VENDOR_DELAY: Duration = Duration::from_mins(5);
/// Number of fetches after which invalid results fail the task.
const MALFORMED_RESULTS_MAX: u32 = 4;

/// Reactor that processes the tasks of one gateway at its vendors.
#[derive(Clone)]
pub struct Poller {
    dispatch: Dispatch,
    models: ReadModels,
    environment: Environment,
    pool: VendorPool,
    inputs: InputFetcher,
    options: PollerOptions,
    task_progress: TaskProgress,
    webhooks: Option<VendorWebhooks>,
    cancellations: VendorCancellations,
    changes: tokio::sync::watch::Receiver<Position>,
    account_turns: Arc<Mutex<TaskTurns>>,
}

impl Poller {
    /// Returns a poller of `vendors`, in order of configuration.
    #[must_use]
    pub fn new(
        dispatch: Dispatch,
        models: ReadModels,
        environment: Environment,
        vendors: Vec<PoolVendor>,
        inputs: InputFetcher,
        options: PollerOptions,
    ) -> Self {
        let changes = models.task_changes();
        let pool = VendorPool::new(options.gateway, vendors, &environment);
        let task_progress = TaskProgress::default();
        let cancellations = VendorCancellations::default();
        let webhooks = None;
        let account_turns = Arc::default();

        Self {
            dispatch,
            models,
            environment,
            pool,
            inputs,
            options,
            task_progress,
            webhooks,
            cancellations,
            changes,
            account_turns,
        }
    }

    /// Reports the progress of its tasks to `task_progress`.
    #[must_use]
    pub fn with_task_progress(self, task_progress: TaskProgress) -> Self {
        Self { task_progress, ..self }
    }

    /// Polls a task immediately after a webhook of the vendor.
    #[must_use]
    pub fn with_webhooks(self, webhooks: VendorWebhooks) -> Self {
        Self { webhooks: Some(webhooks), ..self }
    }

    /// Passes on cancellations of tasks that a vendor accepted after they were cancelled.
    #[must_use]
    pub fn with_cancellations(self, cancellations: VendorCancellations) -> Self {
        Self { cancellations, ..self }
    }

    /// Returns the observable states of the vendors.
    #[must_use]
    pub fn vendor_states(&self) -> Vec<VendorState> {
        self.pool.members().iter().map(|member| member.guard.state()).collect()
    }

    /// Returns `true` if the nodes of a cluster may share its tasks: all vendors are built-in engines, of which each
    /// node has its own, and no slots are counted over all nodes.
    #[must_use]
    pub fn is_shareable(&self) -> bool {
        let is_own_engine = |member: &PoolMember| member.identity.is_built_in() && member.options.slots.is_none();
        self.pool.members().iter().all(is_own_engine)
    }

    /// Returns the options of its reactor: each vendor has its own lanes for submissions and for polls.
    #[must_use]
    pub fn reactor_options(&self) -> ReactorOptions {
        let concurrencies = || self.pool.members().iter().map(|member| member.options.concurrency);
        let lane = concurrencies().max().unwrap_or(1);
        // The lanes of inputs and of steps without a vendor come in addition.
        ReactorOptions { concurrency: 2 * lane + 2 * concurrencies().sum::<usize>(), lane }
    }

    async fn fetch_inputs(&self, task: TaskId, entry: &TaskEntry) -> Reschedule {
        match self.inputs.fetch(entry.record.submission.owner, &entry.record.submission.work).await {
            Ok(command) => self.record_and_continue(task, entry, command).await,
            Err(InputFailure::Permanent(failure)) => {
                self.record_and_continue(task, entry, TaskCommand::Fail { failure }).await
            }
            Err(InputFailure::Transient(failure)) => {
                let elapsed = self.environment.now().since(entry.record.created_at);
                let delay = elapsed.clamp(INPUT_RETRY_DELAY_MIN, INPUT_RETRY_DELAY_MAX);
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

    async fn submit(&self, member: &PoolMember, task: TaskId, entry: &TaskEntry) -> Reschedule {
        if entry.record.vendor.is_none() {
            match self.can_take(member, &entry.record.submission.work).await {
                Ok(true) => {}
                Ok(false) => {
                    member.mark_unserved(task);
                    return Reschedule::WhenDue;
                }
                Err(error) => return self.retry_read(task, &error),
            }
        }

        if let Err((reason, delay)) = self.check_admission(member).await {
            return self.pause_or_move(task, entry, reason, delay);
        }

        // Inputs are uploaded before the intent is recorded, so a stop of the service meanwhile leaves no unknown
        // outcome.
        let key = VendorKey::from_recorded(task.to_string());
        let job = VendorJob::from_submission(entry.record.submission.clone(), key.clone());
        let call = match member.vendor.prepare(job).await {
            Ok(call) => call,
            Err(error) => return self.handle_preparation_failure(member, task, entry, error).await,
        };

        let repeatable = member.vendor.recovery() == SubmissionRecovery::Key;
        self.hit_fail_point(VendorStep::BeforeIntent, task);
        let vendor = Some(member.identity.clone());
        let start = TaskCommand::StartSubmission { key, repeatable, vendor };
        if self.record(task, entry, start).await.is_err() {
            return self.block(task, entry, BlockedReason::RecordingFailed, RECORD_RETRY_DELAY);
        }
        self.hit_fail_point(VendorStep::IntentRecorded, task);

        let result = call.await;
        self.hit_fail_point(VendorStep::Responded, task);

        match result {
            Ok(submitted) => {
                member.guard.record_success();
                self.pool.forget(task);
                self.record_taken(member, task, entry, submitted).await
            }
            Err(error) => self.handle_submission_failure(member, task, entry, error).await,
        }
    }

    /// Waits because the vendor that made the video to extend could not be determined.
    fn retry_read(&self, task: TaskId, error: &ReadError) -> Reschedule {
        tracing::warn!(%task, %error, "video maker lookup failed, will retry");
        Reschedule::After(add_jitter(RECORD_RETRY_DELAY, self.environment.random_f64()))
    }

    /// Records that a vendor took a job. If the task was cancelled in the meantime, the job is cancelled at the vendor.
    async fn record_taken(
        &self,
        member: &PoolMember,
        task: TaskId,
        entry: &TaskEntry,
        submitted: SubmissionReply,
    ) -> Reschedule {
        let (reference, command) = match submitted {
            SubmissionReply::Accepted(reference) => {
                (Some(reference.clone()), TaskCommand::RecordAcceptance { reference })
            }
            SubmissionReply::Finished { reference, results } => {
                (None, TaskCommand::RecordFinished { reference, results })
            }
        };

        self.record_outcome(task, entry, command).await;
        self.hit_fail_point(VendorStep::AcceptanceRecorded, task);

        if let Some(reference) = reference.filter(|_| self.has_ended(task)) {
            self.cancellations.push(task, member.identity.clone(), reference);
        }
        Reschedule::WhenDue
    }

    /// Asks the breaker for admission. A probe is a health check, so that a failing vendor gets no job.
    async fn check_admission(&self, member: &PoolMember) -> Result<(), (BlockedReason, Duration)> {
        let guard = &member.guard;
        match guard.admit() {
            Admission::Allow => Ok(()),
            Admission::Wait(wait) => Err((BlockedReason::CircuitOpen, guard.admission_delay(wait))),
            Admission::Probe => match member.vendor.health_check().await {
                Ok(()) => {
                    guard.record_success();
                    Ok(())
                }
                Err(error) => {
                    guard.record_failure(&error);
                    Err((BlockedReason::VendorError(error.kind), guard.admission_delay(member.options.retry.min)))
                }
            },
        }
    }

    /// Waits for the next attempt or another vendor, or fails the task: no submission was sent.
    async fn handle_preparation_failure(
        &self,
        member: &PoolMember,
        task: TaskId,
        entry: &TaskEntry,
        error: VendorError,
    ) -> Reschedule {
        member.guard.record_failure(&error);
        if error.kind == VendorErrorKind::Refused {
            let failure = TaskFailure::new("vendor_refused", &error.message);
            return self.record_and_continue(task, entry, TaskCommand::Fail { failure }).await;
        }

        let delay = member.record_refusal(task, &error);
        self.pause_or_move(task, entry, BlockedReason::VendorError(error.kind), delay)
    }

    /// Blocks a task that was not submitted. If no vendor can have it, the queue is searched again at once: it chooses
    /// another vendor, or blocks the task for this pause.
    fn pause_or_move(&self, task: TaskId, entry: &TaskEntry, reason: BlockedReason, delay: Duration) -> Reschedule {
        let pause = self.block(task, entry, reason, delay);
        if entry.record.vendor.is_none() { Reschedule::WhenDue } else { pause }
    }

    async fn handle_submission_failure(
        &self,
        member: &PoolMember,
        task: TaskId,
        entry: &TaskEntry,
        error: VendorError,
    ) -> Reschedule {
        member.guard.record_failure(&error);
        if error.kind == VendorErrorKind::Refused {
            let failure = TaskFailure::new("vendor_refused", &error.message);
            self.record_outcome(task, entry, TaskCommand::RecordRefusal { failure }).await;
            return Reschedule::WhenDue;
        }

        let delay = member.record_refusal(task, &error);
        let kind = error.kind;
        let reason = Text::from_recorded(error.message);
        let command = if kind.is_repeatable() {
            TaskCommand::RecordUndelivered { reason }
        } else {
            // The next step then searches for the submission, or repeats it with the same key.
            let repeatable = member.vendor.recovery() != SubmissionRecovery::Nothing;
            TaskCommand::RecordUnknownOutcome { reason, repeatable }
        };

        self.record_outcome(task, entry, command).await;
        let pause = self.block(task, entry, BlockedReason::VendorError(kind), delay);
        // The next search chooses another vendor, or blocks the task until the first one may be called again.
        if kind.is_repeatable() { Reschedule::WhenDue } else { pause }
    }

    /// Asks the vendor whether it received a submission whose outcome is unknown.
    async fn search_submission(
        &self,
        member: &PoolMember,
        task: TaskId,
        entry: &TaskEntry,
        key: VendorKey,
    ) -> Reschedule {
        if let Admission::Wait(wait) = member.guard.admit() {
            return self.block(task, entry, BlockedReason::CircuitOpen, member.guard.admission_delay(wait));
        }

        match member.vendor.find(VendorJob::from_submission(entry.record.submission.clone(), key)).await {
            Ok(Some(reference)) => {
                member.guard.record_success();
                self.record_and_continue(task, entry, TaskCommand::RecordAcceptance { reference }).await
            }
            Ok(None) => {
                member.guard.record_success();
                let remaining = member.options.search_grace_period.saturating_sub(self.age_of_stage(&entry.record));
                if !remaining.is_zero() {
                    self.task_progress.unblock(task);
                    return Reschedule::After(add_jitter(remaining, self.environment.random_f64()));
                }
                let reason = "the vendor has no job with the key of this submission";
                let command = TaskCommand::RecordUndelivered { reason: Text::from_recorded(reason.to_owned()) };
                self.record_and_continue(task, entry, command).await
            }
            Err(error) => self.handle_poll_failure(member, task, entry, &error),
        }
    }

    async fn poll(
        &self,
        member: &PoolMember,
        task: TaskId,
        entry: &TaskEntry,
        reference: &VendorReference,
    ) -> Reschedule {
        let past_deadline = self.is_past_deadline(&entry.record);

        if let Admission::Wait(wait) = member.guard.admit() {
            if past_deadline {
                return self.fail_expired(task, entry).await;
            }
            return self.block(task, entry, BlockedReason::CircuitOpen, member.guard.admission_delay(wait));
        }

        let progress = member.vendor.poll(reference).await;
        self.hit_fail_point(VendorStep::Polled, task);
        if let Ok(progress) = &progress {
            member.guard.record_success();
            self.task_progress.record(task, progress);
        }

        match progress {
            Ok(JobProgress::Queued { .. } | JobProgress::Running { .. } | JobProgress::Lost) | Err(_)
                if past_deadline =>
            {
                self.fail_expired(task, entry).await
            }
            Ok(JobProgress::Queued { .. }) => self.schedule_next_poll(member, task, entry),
            Ok(JobProgress::Running { .. }) if entry.record.status == TaskStatus::InProgress => {
                self.schedule_next_poll(member, task, entry)
            }
            Ok(JobProgress::Running { .. }) => match self.record(task, entry, TaskCommand::RecordWorkStarted).await {
                Ok(_) => self.schedule_next_poll(member, task, entry),
                Err(_) => self.block(task, entry, BlockedReason::RecordingFailed, RECORD_RETRY_DELAY),
            },
            Ok(JobProgress::Done(results)) => {
                self.record_final(member, task, entry, TaskCommand::Complete { results }).await
            }
            Ok(JobProgress::Failed(failure)) => {
                self.record_final(member, task, entry, TaskCommand::Fail { failure }).await
            }
            // A remote vendor accepted the job: another submission might be charged again.
            Ok(JobProgress::Forgotten) if is_at_remote_vendor(&entry.record) => {
                self.handle_lost_job(member, task, entry).await
            }
            Ok(JobProgress::Forgotten) => self.record_final(member, task, entry, TaskCommand::RecordLostJob).await,
            Ok(JobProgress::FetchFailed(fetch_error)) => {
                self.handle_fetch_failure(member, task, entry, fetch_error, past_deadline).await
            }
            Ok(JobProgress::Lost) => self.handle_lost_job(member, task, entry).await,
            Err(error) => self.handle_poll_failure(member, task, entry, &error),
        }
    }

    /// Schedules the next poll of a task that the vendor has not finished.
    fn schedule_next_poll(&self, member: &PoolMember, task: TaskId, entry: &TaskEntry) -> Reschedule {
        member.guard.reset_failures(task);
        self.task_progress.unblock(task);
        let age = self.environment.now().since(entry.record.created_at);
        Reschedule::After(member.options.poll.poll_interval(age, self.environment.random_f64()))
    }

    fn handle_poll_failure(
        &self,
        member: &PoolMember,
        task: TaskId,
        entry: &TaskEntry,
        error: &VendorError,
    ) -> Reschedule {
        member.guard.record_failure(error);
        tracing::warn!(vendor = member.vendor.name(), %task, error = error.message, "vendor poll failed");
        let delay = member.guard.retry_delay(error, member.guard.count_failure(task));
        self.block(task, entry, BlockedReason::VendorError(error.kind), delay)
    }

    async fn handle_fetch_failure(
        &self,
        member: &PoolMember,
        task: TaskId,
        entry: &TaskEntry,
        fetch_error: ResultFetchError,
        past_deadline: bool,
    ) -> Reschedule {
        let failures = member.guard.count_failure(task);
        let (failure, is_final) = match fetch_error {
            ResultFetchError::Transient(failure) => (failure, past_deadline),
            ResultFetchError::Malformed(failure) => (failure, past_deadline || failures >= MALFORMED_RESULTS_MAX),
        };
        tracing::warn!(%task, reason = failure.message.as_str(), "result fetch failed");
        if is_final {
            return self.record_final(member, task, entry, TaskCommand::Fail { failure }).await;
        }
        self.block(task, entry, BlockedReason::ResultsUnavailable(failure), member.guard.backoff_after(failures))
    }

    /// Waits, because a vendor may not list a task right after accepting it; later fails the task, which is never
    /// submitted again.
    async fn handle_lost_job(&self, member: &PoolMember, task: TaskId, entry: &TaskEntry) -> Reschedule {
        if self.age_of_stage(&entry.record) < member.options.lost_after {
            let failures = member.guard.count_failure(task);
            return self.block(task, entry, BlockedReason::UnknownToVendor, member.guard.backoff_after(failures));
        }
        let message = "the vendor accepted the task but no longer knows it; it was not submitted again";
        let failure = TaskFailure::new("vendor_lost", message);
        self.record_final(member, task, entry, TaskCommand::Fail { failure }).await
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
        let failure = TaskFailure::new("deadline_exceeded", &message);
        let next = self.record_and_continue(task, entry, TaskCommand::Fail { failure }).await;

        // The job still runs at the vendor, although its result is no longer needed.
        if self.has_ended(task) {
            self.cancellations.push_job_of(task, entry.record.vendor.as_ref());
        }
        next
    }

    fn has_ended(&self, task: TaskId) -> bool {
        self.models.read().tasks.get(task).is_none_or(|entry| entry.record.is_terminal())
    }

    /// Records the last command of a job, after which the vendor is not polled again.
    async fn record_final(
        &self,
        member: &PoolMember,
        task: TaskId,
        entry: &TaskEntry,
        command: TaskCommand,
    ) -> Reschedule {
        member.guard.reset_failures(task);
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

    /// Records the outcome of a submission. Only the caller knows it, so the command is repeated until it is recorded
    /// or rejected: without it, an accepted job would end as an unknown outcome.
    async fn record_outcome(&self, task: TaskId, entry: &TaskEntry, command: TaskCommand) {
        loop {
            match self.record(task, entry, command.clone()).await {
                Ok(_) | Err(CommandError::Rejected(_)) => return self.task_progress.unblock(task),
                Err(error @ CommandError::TooLarge { .. }) => {
                    tracing::error!(%task, %error, "submission outcome not recorded");
                    return;
                }
                Err(error) => {
                    tracing::warn!(%task, %error, "submission outcome not recorded, will retry");
                    self.block(task, entry, BlockedReason::RecordingFailed, RECORD_RETRY_DELAY);
                    tokio::time::sleep(RECORD_RETRY_DELAY).await;
                }
            }
        }
    }

    async fn record(&self, task: TaskId, entry: &TaskEntry, command: TaskCommand) -> CommandOutcome<Task> {
        let causation = Some(entry.last_event);
        let at = self.environment.now();
        self.dispatch.task(task, command, CommandContext::from_system(causation, at)).await
    }

    fn hit_fail_point(&self, step: VendorStep, task: TaskId) {
        self.environment.hit(FailPoint::Vendor(step), &task.to_string());
    }

    async fn run_next_step(&self, due: &DueTask) -> Reschedule {
        let DueTask { id: task, entry, choice } = due;
        match choice {
            DueVendor::Member(member) => match self.pool.members().get(*member) {
                Some(member) => self.run_vendor_step(member, *task, entry).await,
                None => Reschedule::WhenDue,
            },
            DueVendor::NotNeeded => self.run_step_without_vendor(*task, entry).await,
            DueVendor::Removed => self.run_removed_vendor_step(*task, entry).await,
            DueVendor::Blocked(obstacle) => self.block(*task, entry, obstacle.reason.clone(), obstacle.delay),
            DueVendor::Unserved => self.run_unserved_step(*task, entry).await,
        }
    }

    /// Runs the next step of a task that a vendor has, may have, or is to get.
    async fn run_vendor_step(&self, member: &PoolMember, task: TaskId, entry: &TaskEntry) -> Reschedule {
        let deadline = self.options.deadline_of(&entry.record);
        match next_step(&entry.record, self.environment.now(), deadline, member.vendor.recovery()) {
            PollerStep::Submit => self.submit(member, task, entry).await,
            PollerStep::Search { key } => self.search_submission(member, task, entry, key).await,
            PollerStep::Poll { reference } => self.poll(member, task, entry, &reference).await,
            PollerStep::GiveUpUnknown { reason } => self.give_up_unknown(task, entry, reason).await,
            PollerStep::Expire => self.fail_expired(task, entry).await,
            PollerStep::Nothing | PollerStep::Fetch => Reschedule::WhenDue,
        }
    }

    /// Runs the next step of a task that needs no vendor.
    async fn run_step_without_vendor(&self, task: TaskId, entry: &TaskEntry) -> Reschedule {
        if self.is_past_deadline(&entry.record) {
            return match unknown_at_deadline(&entry.record) {
                Some(reason) => self.give_up_unknown(task, entry, reason).await,
                None => self.fail_expired(task, entry).await,
            };
        }
        self.fetch_inputs(task, entry).await
    }

    /// Fails a task that no vendor takes. An extension waits for the maker of its video to be configured again.
    async fn run_unserved_step(&self, task: TaskId, entry: &TaskEntry) -> Reschedule {
        match self.video_maker(&entry.record.submission.work).await {
            Ok(VideoMaker::Removed) => self.block(task, entry, BlockedReason::VideoMakerRemoved, REMOVED_VENDOR_DELAY),
            Ok(VideoMaker::None | VideoMaker::Member(_)) => {
                let failure = TaskFailure::new("vendor_refused", "no vendor of this service takes this job");
                self.record_and_continue(task, entry, TaskCommand::Fail { failure }).await
            }
            Err(error) => self.retry_read(task, &error),
        }
    }

    /// Runs the next step of a task whose vendor is no longer configured.
    async fn run_removed_vendor_step(&self, task: TaskId, entry: &TaskEntry) -> Reschedule {
        let TaskHolder::Removed(vendor) = self.pool.holder_of(&entry.record) else { return Reschedule::WhenDue };
        let deadline = self.options.deadline_of(&entry.record);
        match removed_vendor_step(&entry.record, vendor, self.environment.now(), deadline) {
            RemovedVendorStep::RecordLostJob => self.record_and_continue(task, entry, TaskCommand::RecordLostJob).await,
            RemovedVendorStep::RecordUndelivered => {
                let reason = "the built-in engine that had the job is no longer in use";
                let command = TaskCommand::RecordUndelivered { reason: Text::from_recorded(reason.to_owned()) };
                self.record_and_continue(task, entry, command).await
            }
            RemovedVendorStep::GiveUpUnknown { reason } => self.give_up_unknown(task, entry, reason).await,
            RemovedVendorStep::Expire => self.fail_expired(task, entry).await,
            RemovedVendorStep::AwaitVendor => {
                self.block(task, entry, BlockedReason::VendorRemoved, REMOVED_VENDOR_DELAY)
            }
        }
    }

    async fn give_up_unknown(&self, task: TaskId, entry: &TaskEntry, reason: &str) -> Reschedule {
        let reason = Text::from_recorded(reason.to_owned());
        let command = TaskCommand::RecordUnknownOutcome { reason, repeatable: false };
        self.record_and_continue(task, entry, command).await
    }
}

impl Reactor for Poller {
    type Key = TaskId;
    type Work = DueTask;
    const NAME: &'static str = "poller";

    fn due(&self, slots: &mut WorkerSlots<TaskId>) -> Vec<(TaskId, DueTask)> {
        let models = self.models.read();
        let now = self.environment.now();
        let queue = TaskQueue { tasks: &models.tasks, pool: &self.pool, options: &self.options, now };
        let due = queue.due(&mut self.account_turns.lock(), slots, || self.environment.random_f64());
        due.into_iter().map(|task| (task.id, task)).collect()
    }

    async fn act(&self, due: DueTask) -> Reschedule {
        let next = self.run_next_step(&due).await;
        if self.has_ended(due.id) {
            self.pool.forget(due.id);
        }
        match next {
            Reschedule::After(delay) => Reschedule::After(self.limit_to_deadline(&due.entry.record, delay)),
            next @ Reschedule::WhenDue => next,
        }
    }

    async fn changed(&mut self) -> Vec<String> {
        let webhook = async {
            match &self.webhooks {
                Some(webhooks) => webhooks.wait_for_webhook().await,
                None => std::future::pending().await,
            }
        };

        tokio::select! {
            _ = self.changes.changed() => Vec::new(),
            () = webhook => Vec::new(),
            lanes = self.pool.wait_for_change() => lanes,
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
