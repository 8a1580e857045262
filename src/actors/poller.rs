//! The poller: brings image tasks to a vendor, asks how they are, and takes the results home.
//!
//! What is to be done next follows from the recorded stage alone (`next_step`), so a restart resumes every unfinished
//! task, and a call to a vendor is announced in the log before it is made (DESIGN 4).

use std::sync::Arc;
use std::time::Duration;

use super::Circumstances;
use super::aggregate::Outcome;
use super::error::CommandError;
use super::inputs::{InputFailure, Inputs};
use super::reactor::{Next, Reactor};
use super::system::Dispatch;
use crate::clock::Surroundings;
use crate::domain::ids::TaskId;
use crate::domain::task::{
    Failure, Stage, Task, TaskCommand, TaskRecord, TaskRejection, VendorKey, VendorReference, Work,
};
use crate::domain::value::{Text, Timestamp};
use crate::events::stream::Position;
use crate::projections::ReadModels;
use crate::projections::task::TaskEntry;
use crate::vendors::{ErrorKind, Job, Progress, Vendor, VendorError};

/// The lane of tasks whose inputs are fetched.
const INPUT_LANE: &str = "inputs";
/// How long an input is tried to be had whose server is in trouble, from the submission of the task.
const INPUT_PATIENCE: Duration = Duration::from_mins(2);
/// The shortest and the longest rest before it is tried again: as long as the task has waited so far.
const INPUT_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long a task rests between two questions to a vendor that gives no hints.
const POLL_PAUSE: Duration = Duration::from_secs(2);
/// How long a task rests after something went wrong that may be better soon.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// The longest rest before a call is made again that did not arrive; until then each rest is twice the one before.
const RETRY_PAUSE_MAX: Duration = Duration::from_mins(5);

/// The reactor that works off image tasks at one vendor.
#[derive(Clone)]
pub struct ImagePoller {
    dispatch: Dispatch,
    models: ReadModels,
    surroundings: Surroundings,
    vendor: Arc<dyn Vendor>,
    inputs: Inputs,
    /// How long a task may take from its submission.
    deadline: Duration,
    changes: tokio::sync::watch::Receiver<Position>,
}

/// What is to be done next for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Fetch the inputs that were given as URLs.
    Fetch,
    /// Bring it to the vendor.
    Submit,
    /// A call to the vendor was announced, its outcome was not recorded, and a repetition would be a second job.
    GiveUpUnknown,
    /// Ask the vendor how it is.
    Poll { reference: VendorReference },
    /// It took too long.
    Expire,
    /// It has ended.
    Nothing,
}

fn next_step(record: &TaskRecord, now: Timestamp, deadline: Duration, vendor_honours_keys: bool) -> Step {
    match &record.stage {
        Stage::Completed { .. } | Stage::Failed { .. } => Step::Nothing,
        // Asked once more even when its time is up: it may have been done while nobody looked.
        Stage::InProgress { reference, .. } => Step::Poll { reference: reference.clone() },
        _ if now.since(record.created_at) >= deadline => Step::Expire,
        Stage::Waiting { .. } if record.submission.work.lacks_inputs() => Step::Fetch,
        Stage::Waiting { .. } => Step::Submit,
        Stage::Submitting { .. } if vendor_honours_keys => Step::Submit,
        Stage::Submitting { .. } => Step::GiveUpUnknown,
    }
}

/// How long a task rests whose call did not arrive.
fn retry_pause(before: &Stage) -> Duration {
    let (Stage::Waiting { attempts: made } | Stage::Submitting { attempt: made, .. }) = before else {
        return RETRY_PAUSE;
    };
    RETRY_PAUSE.saturating_mul(1 << (*made).min(6)).min(RETRY_PAUSE_MAX)
}

impl ImagePoller {
    /// A poller of `vendor`; `deadline` ends a task as failed.
    #[must_use]
    pub fn new(
        dispatch: Dispatch,
        models: ReadModels,
        surroundings: Surroundings,
        vendor: Arc<dyn Vendor>,
        inputs: Inputs,
        deadline: Duration,
    ) -> Self {
        let changes = models.task_changes();
        Self { dispatch, models, surroundings, vendor, inputs, deadline, changes }
    }

    async fn fetch(&self, task: TaskId, entry: &TaskEntry) -> Next {
        let Work::Image(work) = &entry.record.submission.work;
        match self.inputs.fetch(work).await {
            Ok(inputs) => self.then(task, entry, TaskCommand::RecordInputs { inputs }).await,
            Err(InputFailure::Final(failure)) => self.then(task, entry, TaskCommand::Fail { failure }).await,
            Err(InputFailure::Passing(failure)) => {
                let waited = self.surroundings.now().since(entry.record.created_at);
                if waited >= INPUT_PATIENCE {
                    return self.then(task, entry, TaskCommand::Fail { failure }).await;
                }
                Next::After(waited.clamp(INPUT_PAUSES.0, INPUT_PAUSES.1))
            }
            Err(InputFailure::Ours(reason)) => {
                tracing::warn!(%task, reason, "inputs cannot be taken in");
                Next::After(RETRY_PAUSE)
            }
        }
    }

    async fn submit(&self, task: TaskId, entry: &TaskEntry) -> Next {
        let (key, repeatable) = (VendorKey::recorded(task.to_string()), self.vendor.honours_keys());
        if self.record(task, entry, TaskCommand::StartSubmission { key: key.clone(), repeatable }).await.is_err() {
            return Next::After(RETRY_PAUSE);
        }
        let work: Work = entry.record.submission.work.clone();
        match self.vendor.submit(Job { task, key, work }).await {
            Ok(reference) => self.then(task, entry, TaskCommand::RecordAcceptance { reference }).await,
            Err(error) => self.submission_failed(task, entry, error, repeatable).await,
        }
    }

    async fn submission_failed(&self, task: TaskId, entry: &TaskEntry, error: VendorError, repeatable: bool) -> Next {
        let message = Text::recorded(error.message);
        match error.kind {
            ErrorKind::Refused => {
                let failure = Failure { code: Text::recorded("vendor_refused".to_owned()), message };
                self.then(task, entry, TaskCommand::RecordRefusal { failure }).await
            }
            ErrorKind::Unreached | ErrorKind::Busy => {
                let pause = error.retry_after.unwrap_or_else(|| retry_pause(&entry.record.stage));
                match self.record(task, entry, TaskCommand::RecordUndelivered { reason: message }).await {
                    Ok(_) => Next::After(pause),
                    Err(error) => {
                        tracing::warn!(%task, %error, "could not record that a submission did not arrive");
                        Next::After(RETRY_PAUSE)
                    }
                }
            }
            ErrorKind::Unknown => {
                let unknown = TaskCommand::RecordUnknown { reason: message, repeatable };
                // Recorded or not: not again at once.
                if let Err(error) = self.record(task, entry, unknown).await {
                    tracing::warn!(%task, %error, "could not record that an outcome is unknown");
                }
                Next::After(RETRY_PAUSE)
            }
        }
    }

    async fn poll(&self, task: TaskId, entry: &TaskEntry, reference: &VendorReference) -> Next {
        match self.vendor.poll(reference).await {
            Ok(Progress::Running) | Err(_) if self.is_late(&entry.record) => self.expire(task, entry).await,
            Ok(Progress::Running) => Next::After(POLL_PAUSE),
            Ok(Progress::Done(results)) => self.then(task, entry, TaskCommand::Complete { results }).await,
            Ok(Progress::Failed(failure)) => self.then(task, entry, TaskCommand::Fail { failure }).await,
            Ok(Progress::Forgotten) => self.then(task, entry, TaskCommand::RecordForgotten).await,
            Err(error) => {
                tracing::warn!(vendor = self.vendor.name(), %task, error = error.message, "poll failed");
                Next::After(error.retry_after.unwrap_or(RETRY_PAUSE))
            }
        }
    }

    fn is_late(&self, record: &TaskRecord) -> bool {
        self.surroundings.now().since(record.created_at) >= self.deadline
    }

    async fn expire(&self, task: TaskId, entry: &TaskEntry) -> Next {
        let message = format!("not finished within {} seconds", self.deadline.as_secs());
        let (code, message) = (Text::recorded("deadline_exceeded".to_owned()), Text::recorded(message));
        self.then(task, entry, TaskCommand::Fail { failure: Failure { code, message } }).await
    }

    /// Records and goes on at once; after a failure to record, later.
    async fn then(&self, task: TaskId, entry: &TaskEntry, command: TaskCommand) -> Next {
        match self.record(task, entry, command).await {
            // The task has moved on meanwhile: look again.
            Ok(_) | Err(CommandError::Rejected(TaskRejection::WrongStage { .. })) => Next::WhenDue,
            Err(error) => {
                tracing::warn!(%task, %error, "could not record what became of a task");
                Next::After(RETRY_PAUSE)
            }
        }
    }

    async fn record(&self, task: TaskId, entry: &TaskEntry, command: TaskCommand) -> Outcome<Task> {
        let (causation, at) = (Some(entry.last_event), self.surroundings.now());
        self.dispatch.task(task, command, Circumstances::of_system(causation, at)).await
    }
}

impl Reactor for ImagePoller {
    type Key = TaskId;
    type Work = (TaskId, TaskEntry);
    const NAME: &'static str = "image-poller";

    fn due(&self, take: &mut dyn FnMut(&TaskId, &str) -> bool) -> Vec<(TaskId, Self::Work)> {
        let models = self.models.read();
        // Servers of inputs that are slow do not keep the vendor waiting.
        let lane = |entry: &TaskEntry| {
            if entry.record.submission.work.lacks_inputs() { INPUT_LANE } else { self.vendor.name() }
        };
        let unfinished = models.tasks.unfinished().filter(|(id, entry)| take(id, lane(entry)));
        unfinished.map(|(id, entry)| (id, (id, entry.clone()))).collect()
    }

    async fn act(&self, (task, entry): Self::Work) -> Next {
        match next_step(&entry.record, self.surroundings.now(), self.deadline, self.vendor.honours_keys()) {
            Step::Nothing => Next::WhenDue,
            Step::Fetch => self.fetch(task, &entry).await,
            Step::Submit => self.submit(task, &entry).await,
            Step::Poll { reference } => self.poll(task, &entry, &reference).await,
            Step::GiveUpUnknown => {
                let reason =
                    "the service stopped while it submitted the task, and the vendor cannot tell whether it arrived";
                let unknown =
                    TaskCommand::RecordUnknown { reason: Text::recorded(reason.to_owned()), repeatable: false };
                self.then(task, &entry, unknown).await
            }
            Step::Expire => self.expire(task, &entry).await,
        }
    }

    async fn changed(&mut self) -> bool {
        let moved = self.vendor.moved();
        tokio::select! {
            _ = self.changes.changed() => false,
            () = moved.notified() => true,
        }
    }
}
