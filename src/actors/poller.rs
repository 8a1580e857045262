//! The poller: submits the tasks of one gateway to its vendor, polls their progress, and stores the results.
//!
//! The recorded stage alone determines the next step (`step`), so a restart resumes every unfinished task. A call to a
//! vendor is recorded before it is made (DESIGN 4). A circuit breaker guards the vendor: tasks wait while it is open,
//! and none fails because of it before its deadline.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::CommandContext;
use super::aggregate::Outcome;
use super::error::CommandError;
use super::hints::Hints;
use super::inputs::{InputFailure, Inputs};
use super::live::Live;
use super::reactor::{Hands, Next, Reactor};
use super::system::Dispatch;
use crate::clock::{Place, Surroundings, VendorStep};
use crate::domain::ids::TaskId;
use crate::domain::task::{
    Failure, Task, TaskCommand, TaskRecord, TaskRejection, TaskStatus, VendorKey, VendorReference,
};
use crate::domain::value::Text;
use crate::events::stream::Position;
use crate::projections::ReadModels;
use crate::projections::task::TaskEntry;
use crate::vendors::{ErrorKind, Job, Progress, Recovery, Unfetched, Vendor, VendorError};

pub mod breaker;
pub(in crate::actors) mod gate;
mod hindered;
mod options;
pub mod pace;
mod queue;
mod step;

pub use gate::VendorState;
pub use options::PollerOptions;
pub use step::LANES;

use breaker::Admission;
use gate::Gate;
use hindered::Cause;
use pace::at_least;
use queue::TaskTurns;
use step::{Step, attempts, next_step};

/// Longest time during which an input with a temporary fetch error is retried, counted from the submission of the task.
const INPUT_PATIENCE: Duration = Duration::from_mins(2);
/// Shortest and longest pause between such retries; in between, the pause is the age of the task.
const INPUT_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Pause of a task whose outcome could not be recorded.
const RECORD_PAUSE: Duration = Duration::from_secs(5);
/// Number of fetches after which invalid results fail the task.
const ODD_RESULTS_MAX: u32 = 4;

/// Reactor that processes the tasks of one gateway at one vendor.
#[derive(Clone)]
pub struct Poller {
    dispatch: Dispatch,
    models: ReadModels,
    surroundings: Surroundings,
    vendor: Arc<dyn Vendor>,
    inputs: Inputs,
    options: PollerOptions,
    gate: Gate,
    live: Live,
    hints: Option<Hints>,
    changes: tokio::sync::watch::Receiver<Position>,
    turns: Arc<Mutex<TaskTurns>>,
}

impl Poller {
    /// Returns a poller of `vendor`.
    #[must_use]
    pub fn new(
        dispatch: Dispatch,
        models: ReadModels,
        surroundings: Surroundings,
        vendor: Arc<dyn Vendor>,
        inputs: Inputs,
        options: PollerOptions,
    ) -> Self {
        let changes = models.task_changes();
        let gate = Gate::new(vendor.name(), options.breaker, options.retry, surroundings.clone());
        let live = Live::default();
        let hints = None;
        let turns = Arc::default();

        Self { dispatch, models, surroundings, vendor, inputs, options, gate, live, hints, changes, turns }
    }

    /// Reports the progress of its tasks to `live`.
    #[must_use]
    pub fn with_live(self, live: Live) -> Self {
        Self { live, ..self }
    }

    /// Polls a task immediately after a webhook of the vendor.
    #[must_use]
    pub fn with_hints(self, hints: Hints) -> Self {
        Self { hints: Some(hints), ..self }
    }

    /// Returns the observable state of the vendor.
    #[must_use]
    pub fn state(&self) -> VendorState {
        self.gate.state()
    }

    async fn fetch(&self, task: TaskId, entry: &TaskEntry) -> Next {
        match self.inputs.fetch(entry.record.submission.owner, &entry.record.submission.work).await {
            Ok(taken_in) => self.then(task, entry, taken_in).await,
            Err(InputFailure::Final(failure)) => self.then(task, entry, TaskCommand::Fail { failure }).await,
            Err(InputFailure::Passing(failure)) => {
                let waited = self.surroundings.now().since(entry.record.created_at);
                if waited >= INPUT_PATIENCE {
                    return self.then(task, entry, TaskCommand::Fail { failure }).await;
                }
                tracing::info!(%task, reason = failure.message.as_str(), "an input cannot be had yet, it is tried again");
                self.hindered(task, entry, Cause::Shown(failure), waited.clamp(INPUT_PAUSES.0, INPUT_PAUSES.1))
            }
            Err(InputFailure::Ours(reason)) => {
                tracing::warn!(%task, reason, "inputs cannot be taken in");
                self.hindered(task, entry, Cause::OurInputs, RECORD_PAUSE)
            }
        }
    }

    async fn submit(&self, task: TaskId, entry: &TaskEntry) -> Next {
        if let Err((cause, rest)) = self.may_submit().await {
            return self.hindered(task, entry, cause, rest);
        }

        let recovery = self.vendor.recovery();
        let key = VendorKey::recorded(task.to_string());
        let repeatable = recovery == Recovery::Key;
        self.at(VendorStep::BeforeIntent, task);
        if self.record(task, entry, TaskCommand::StartSubmission { key: key.clone(), repeatable }).await.is_err() {
            return self.hindered(task, entry, Cause::Unrecorded, RECORD_PAUSE);
        }
        self.at(VendorStep::IntentRecorded, task);

        let answer = self.vendor.submit(Job::of(entry.record.submission.clone(), key)).await;
        self.at(VendorStep::Answered, task);

        match answer {
            Ok(reference) => {
                self.gate.succeeded();
                let next = self.then(task, entry, TaskCommand::RecordAcceptance { reference }).await;
                self.at(VendorStep::AcceptanceRecorded, task);
                next
            }
            Err(error) => self.submission_failed(task, entry, error).await,
        }
    }

    /// Asks the breaker. A probe is a health check, so that a failing vendor is not given a job.
    async fn may_submit(&self) -> Result<(), (Cause, Duration)> {
        match self.gate.admission() {
            Admission::Go => Ok(()),
            Admission::Wait(wait) => Err((Cause::Gate, self.gate.wait(wait))),
            Admission::Probe => match self.vendor.lives().await {
                Ok(()) => {
                    self.gate.succeeded();
                    Ok(())
                }
                Err(error) => {
                    self.gate.failed(&error);
                    Err((Cause::Vendor(error.kind), self.gate.wait(self.options.retry.min)))
                }
            },
        }
    }

    async fn submission_failed(&self, task: TaskId, entry: &TaskEntry, error: VendorError) -> Next {
        self.gate.failed(&error);
        let pause = self.gate.pause_after(&error, attempts(&entry.record.stage).saturating_add(1));
        let kind = error.kind;
        let message = Text::recorded(error.message);
        let command = match kind {
            ErrorKind::Refused => {
                let failure = Failure::new("vendor_refused", message.as_str());
                return self.then(task, entry, TaskCommand::RecordRefusal { failure }).await;
            }
            ErrorKind::Unreached | ErrorKind::Busy | ErrorKind::Unserved => {
                TaskCommand::RecordUndelivered { reason: message }
            }
            ErrorKind::Unknown => {
                let repeatable = self.vendor.recovery() != Recovery::Nothing;
                TaskCommand::RecordUnknown { reason: message, repeatable }
            }
        };

        // Pause even if this was not recorded, so that the submission is not repeated immediately.
        if let Err(error) = self.record(task, entry, command).await {
            tracing::warn!(%task, %error, "could not record what became of a submission");
        }

        self.hindered(task, entry, Cause::Vendor(kind), pause)
    }

    /// Asks the vendor whether it received a submission whose outcome is unknown.
    async fn search(&self, task: TaskId, entry: &TaskEntry, key: VendorKey) -> Next {
        if let Admission::Wait(wait) = self.gate.admission() {
            return self.hindered(task, entry, Cause::Gate, self.gate.wait(wait));
        }

        match self.vendor.find(Job::of(entry.record.submission.clone(), key)).await {
            Ok(Some(reference)) => {
                self.gate.succeeded();
                self.then(task, entry, TaskCommand::RecordAcceptance { reference }).await
            }
            Ok(None) => {
                self.gate.succeeded();
                let left = self.options.search_settles.saturating_sub(self.age_of_stage(&entry.record));
                if !left.is_zero() {
                    self.live.free(task);
                    return Next::After(at_least(left, self.surroundings.ratio()));
                }
                let reason = "the vendor was searched, and does not have the job";
                let undelivered = TaskCommand::RecordUndelivered { reason: Text::recorded(reason.to_owned()) };
                self.then(task, entry, undelivered).await
            }
            Err(error) => self.poll_failed(task, entry, &error),
        }
    }

    async fn poll(&self, task: TaskId, entry: &TaskEntry, reference: &VendorReference) -> Next {
        let late = self.is_late(&entry.record);

        if let Admission::Wait(wait) = self.gate.admission() {
            if late {
                return self.expire(task, entry).await;
            }
            return self.hindered(task, entry, Cause::Gate, self.gate.wait(wait));
        }

        let progress = self.vendor.poll(reference).await;
        self.at(VendorStep::Polled, task);
        if let Ok(progress) = &progress {
            self.gate.succeeded();
            self.live.note(task, progress);
        }

        match progress {
            Ok(Progress::Queued { .. } | Progress::Running { .. } | Progress::Lost) | Err(_) if late => {
                self.expire(task, entry).await
            }
            Ok(Progress::Queued { .. }) => self.wait_for(task, entry),
            Ok(Progress::Running { .. }) if entry.record.status == TaskStatus::InProgress => self.wait_for(task, entry),
            Ok(Progress::Running { .. }) => match self.record(task, entry, TaskCommand::RecordBegun).await {
                Ok(_) => self.wait_for(task, entry),
                Err(_) => self.hindered(task, entry, Cause::Unrecorded, RECORD_PAUSE),
            },
            Ok(Progress::Done(results)) => self.end(task, entry, TaskCommand::Complete { results }).await,
            Ok(Progress::Failed(failure)) => self.end(task, entry, TaskCommand::Fail { failure }).await,
            Ok(Progress::Forgotten) => self.end(task, entry, TaskCommand::RecordForgotten).await,
            Ok(Progress::Unfetched(unfetched)) => self.unfetched(task, entry, unfetched, late).await,
            Ok(Progress::Lost) => self.lost(task, entry).await,
            Err(error) => self.poll_failed(task, entry, &error),
        }
    }

    /// Schedules the next poll of a task that the vendor has not finished.
    fn wait_for(&self, task: TaskId, entry: &TaskEntry) -> Next {
        self.gate.forget_failures(task);
        self.live.free(task);
        let age = self.surroundings.now().since(entry.record.created_at);
        Next::After(self.options.poll.at_age(age, self.surroundings.ratio()))
    }

    fn poll_failed(&self, task: TaskId, entry: &TaskEntry, error: &VendorError) -> Next {
        self.gate.failed(error);
        tracing::warn!(vendor = self.vendor.name(), %task, error = error.message, "the vendor was asked in vain");
        let pause = self.gate.pause_after(error, self.gate.one_failure_more(task));
        self.hindered(task, entry, Cause::Vendor(error.kind), pause)
    }

    async fn unfetched(&self, task: TaskId, entry: &TaskEntry, unfetched: Unfetched, late: bool) -> Next {
        let failures = self.gate.one_failure_more(task);
        let (failure, given_up) = match unfetched {
            Unfetched::Passing(failure) => (failure, late),
            Unfetched::Odd(failure) => (failure, late || failures >= ODD_RESULTS_MAX),
        };
        tracing::warn!(%task, reason = failure.message.as_str(), "results could not be brought home");
        if given_up {
            return self.end(task, entry, TaskCommand::Fail { failure }).await;
        }
        self.hindered(task, entry, Cause::Results(failure), self.gate.pause(failures))
    }

    /// A vendor may not list a task right after accepting it. The task is never submitted again.
    async fn lost(&self, task: TaskId, entry: &TaskEntry) -> Next {
        if self.age_of_stage(&entry.record) < self.options.lost_after {
            let failures = self.gate.one_failure_more(task);
            return self.hindered(task, entry, Cause::Unknown, self.gate.pause(failures));
        }
        let message = "the vendor took the task and does not know it any more; it was not submitted again";
        let failure = Failure::new("vendor_lost", message);
        self.end(task, entry, TaskCommand::Fail { failure }).await
    }

    fn is_late(&self, record: &TaskRecord) -> bool {
        self.surroundings.now().since(record.created_at) >= self.options.deadline_of(record)
    }

    fn age_of_stage(&self, record: &TaskRecord) -> Duration {
        self.surroundings.now().since(record.updated_at)
    }

    async fn expire(&self, task: TaskId, entry: &TaskEntry) -> Next {
        let mut message = format!("not finished within {} seconds", self.options.deadline_of(&entry.record).as_secs());
        // The log does not contain the reason of the wait, so the failure includes it.
        if let Some(hindrance) = self.live.hindrance(task) {
            let _ = write!(message, "; what kept it last: {}", hindrance.reason.message);
        }
        self.end(task, entry, TaskCommand::Fail { failure: Failure::new("deadline_exceeded", &message) }).await
    }

    /// Records the last command of a job, after which the vendor is not polled again.
    async fn end(&self, task: TaskId, entry: &TaskEntry, command: TaskCommand) -> Next {
        self.gate.forget_failures(task);
        self.then(task, entry, command).await
    }

    /// Records a command and continues immediately, or after a pause if recording fails.
    async fn then(&self, task: TaskId, entry: &TaskEntry, command: TaskCommand) -> Next {
        match self.record(task, entry, command).await {
            // The task has advanced, possibly concurrently: look at it again.
            Ok(_) | Err(CommandError::Rejected(TaskRejection::WrongStage { .. })) => {
                self.live.free(task);
                Next::WhenDue
            }
            Err(error) => {
                tracing::warn!(%task, %error, "could not record what became of a task");
                self.hindered(task, entry, Cause::Unrecorded, RECORD_PAUSE)
            }
        }
    }

    async fn record(&self, task: TaskId, entry: &TaskEntry, command: TaskCommand) -> Outcome<Task> {
        let causation = Some(entry.last_event);
        let at = self.surroundings.now();
        self.dispatch.task(task, command, CommandContext::from_system(causation, at)).await
    }

    fn at(&self, step: VendorStep, task: TaskId) {
        self.surroundings.reach(Place::Vendor(step), &task.to_string());
    }

    async fn act_on(&self, task: TaskId, entry: &TaskEntry) -> Next {
        let now = self.surroundings.now();
        let deadline = self.options.deadline_of(&entry.record);

        match next_step(&entry.record, now, deadline, self.vendor.recovery()) {
            Step::Nothing => Next::WhenDue,
            Step::Fetch => self.fetch(task, entry).await,
            Step::Submit => self.submit(task, entry).await,
            Step::Search { key } => self.search(task, entry, key).await,
            Step::Poll { reference } => self.poll(task, entry, &reference).await,
            Step::GiveUpUnknown { reason } => {
                let unknown =
                    TaskCommand::RecordUnknown { reason: Text::recorded(reason.to_owned()), repeatable: false };
                self.end(task, entry, unknown).await
            }
            Step::Expire => self.expire(task, entry).await,
        }
    }
}

impl Reactor for Poller {
    type Key = TaskId;
    type Work = (TaskId, TaskEntry);
    const NAME: &'static str = "poller";

    fn due(&self, hands: &mut Hands<TaskId>) -> Vec<(TaskId, Self::Work)> {
        let now = self.surroundings.now();
        let due = queue::due(&self.models.read().tasks, &self.options, now, &mut self.turns.lock(), hands);
        due.into_iter().map(|(task, entry)| (task, (task, entry))).collect()
    }

    async fn act(&self, (task, entry): Self::Work) -> Next {
        match self.act_on(task, &entry).await {
            Next::After(rest) => Next::After(self.until_deadline(&entry.record, rest)),
            next @ Next::WhenDue => next,
        }
    }

    async fn changed(&mut self) -> bool {
        let moved = self.vendor.moved();
        let hint = async {
            match &self.hints {
                Some(hints) => hints.come().await,
                None => std::future::pending().await,
            }
        };

        tokio::select! {
            _ = self.changes.changed() => false,
            () = hint => false,
            () = moved.notified() => true,
            () = self.gate.closed() => true,
        }
    }

    fn hinted(&self) -> Vec<TaskId> {
        let Some(hints) = &self.hints else { return Vec::new() };
        let models = self.models.read();
        // Tasks that are not in memory have ended; any poller may drop their hints.
        let is_own = |task: &TaskId| models.tasks.gateway_of(*task).is_none_or(|it| it == self.options.gateway);
        hints.drain(is_own)
    }
}
