//! Media tasks: from the submission to a picture or a reason, through a vendor that may be asked only once.

use serde::{Deserialize, Serialize};

use super::decider::Decider;
use super::event::{Event, part_of_event};
use super::ids::{StreamKind, TaskId, UserId};
use super::image::{ImageWork, Picture};
use super::value::{CallbackUrl, Text, Timestamp, named_values};

mod kind;

pub use kind::TaskKind;

named_values! {
    /// The states of an image task (contract 5); the last two are terminal.
    TaskStatus {
        Created = "CREATED",
        InProgress = "IN_PROGRESS",
        Completed = "COMPLETED",
        Failed = "FAILED",
    }
}

/// What is to be made, and from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A job of the image gateway.
    Image(ImageWork),
}

impl Work {
    /// Where it was submitted.
    #[must_use]
    pub const fn kind(&self) -> TaskKind {
        let Self::Image(work) = self;
        TaskKind::of_image(&work.job)
    }

    /// The pictures that it is made from, as far as they are in our store.
    pub fn inputs(&self) -> impl Iterator<Item = &Picture> {
        let Self::Image(work) = self;
        work.sources().filter_map(super::image::Source::kept)
    }

    /// Whether the webhook is told of the end only, instead of every change of status.
    #[must_use]
    pub const fn tells_only_the_end(&self) -> bool {
        let Self::Image(work) = self;
        work.job.tells_only_the_end()
    }

    /// Whether inputs must be fetched before a vendor can be asked.
    #[must_use]
    pub fn lacks_inputs(&self) -> bool {
        let Self::Image(work) = self;
        work.remote().next().is_some()
    }

    fn take_in(&mut self, pictures: &[Picture]) {
        let Self::Image(work) = self;
        work.take_in(pictures);
    }
}

/// A job as it was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    pub task: TaskId,
    pub owner: UserId,
    pub work: Work,
    pub webhook: Option<CallbackUrl>,
}

/// Why a task failed: a stable code and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: Text<64>,
    pub message: Text<1000>,
}

impl Failure {
    /// What a cancelled task failed of.
    #[must_use]
    pub fn cancelled() -> Self {
        let message = "cancelled by its owner";
        Self { code: Text::recorded("cancelled".to_owned()), message: Text::recorded(message.to_owned()) }
    }
}

/// How the vendor names the job, for polling.
pub type VendorReference = Text<200>;
/// What makes a repeated submission recognisable to the vendor.
pub type VendorKey = Text<200>;

/// Where a task stands. Facts live only in the stages where they are true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// No vendor has it: none was asked yet, or the one that had taken it does not know it any more.
    Waiting { attempts: u32 },
    /// A vendor is about to be asked, or was and the answer is not recorded, or it forgot what it had taken. `attempt`
    /// counts from 1.
    Submitting { attempt: u32, key: VendorKey },
    /// The vendor works on it.
    InProgress { attempt: u32, key: VendorKey, reference: VendorReference },
    /// The results are in our store.
    Completed { results: Vec<Picture> },
    /// It ended without a result.
    Failed { failure: Failure },
}

/// A task that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    pub submission: Submission,
    pub stage: Stage,
    /// The status as its owner sees it: resubmission does not set it back.
    pub status: TaskStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl TaskRecord {
    /// The results; empty until the task is completed.
    #[must_use]
    pub fn results(&self) -> &[Picture] {
        if let Stage::Completed { results } = &self.stage { results } else { &[] }
    }

    /// Whether the task has ended for good.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.status, TaskStatus::Completed | TaskStatus::Failed)
    }
}

/// A task's life.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Task {
    /// No task has this id.
    #[default]
    Absent,
    /// The task was submitted.
    Present(Box<TaskRecord>),
}

/// Why a command on a task was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskRejection {
    /// The id is taken.
    AlreadyExists,
    /// No task has this id.
    NotFound,
    /// The task is in another stage; whoever asked acted on old knowledge.
    WrongStage { status: TaskStatus },
}

/// What happened to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent {
    /// The job was checked and accepted.
    TaskSubmitted(Submission),
    /// The inputs that were given as URLs are in our store, in the order in which the work names them.
    InputsFetched { inputs: Vec<Picture> },
    /// A vendor is about to be asked: recorded before the call.
    SubmissionStarted { attempt: u32, key: VendorKey },
    /// The vendor took the job.
    VendorAccepted { reference: VendorReference },
    /// The vendor refused the job.
    VendorRefused { failure: Failure },
    /// The call surely did not arrive, or the vendor had no place for it: it may be made again.
    SubmissionUndelivered { reason: Text<1000> },
    /// The call to the vendor ended without an answer.
    OutcomeUnknown { reason: Text<1000> },
    /// The vendor no longer knows a job that it had taken.
    VendorForgot,
    /// The results are stored.
    TaskCompleted { results: Vec<Picture> },
    /// The task ended without a result.
    TaskFailed { failure: Failure },
    /// Whoever owns the task wants no result any more.
    TaskCancelled,
}

part_of_event!(TaskEvent as Task {
    TaskSubmitted, InputsFetched, SubmissionStarted, VendorAccepted, VendorRefused, SubmissionUndelivered, OutcomeUnknown,
    VendorForgot, TaskCompleted, TaskFailed, TaskCancelled,
});

impl TaskEvent {
    /// The status that the event brings, if it changes the status: what callbacks tell of.
    #[must_use]
    pub fn status_change(&self) -> Option<TaskStatus> {
        match self {
            Self::TaskSubmitted(_) => Some(TaskStatus::Created),
            Self::VendorAccepted { .. } => Some(TaskStatus::InProgress),
            Self::TaskCompleted { .. } => Some(TaskStatus::Completed),
            Self::TaskFailed { .. } | Self::TaskCancelled => Some(TaskStatus::Failed),
            Self::InputsFetched { .. }
            | Self::SubmissionStarted { .. }
            | Self::VendorRefused { .. }
            | Self::SubmissionUndelivered { .. }
            | Self::OutcomeUnknown { .. }
            | Self::VendorForgot => None,
        }
    }

    /// Why the task ends with this event, if it ends without a result.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        match self {
            Self::TaskFailed { failure } => Some(failure.clone()),
            Self::TaskCancelled => Some(Failure::cancelled()),
            _ => None,
        }
    }
}

/// What can be asked of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskCommand {
    /// Accepts a job.
    Submit(Submission),
    /// The inputs that were given as URLs are in our store.
    RecordInputs { inputs: Vec<Picture> },
    /// Announces the call to the vendor. From `Submitting`, only where the vendor honours `key` (contract 5): the caller
    /// says so with `repeatable`.
    StartSubmission { key: VendorKey, repeatable: bool },
    /// The vendor took the job.
    RecordAcceptance { reference: VendorReference },
    /// The vendor refused the job: the task fails.
    RecordRefusal { failure: Failure },
    /// The call surely began nothing: the task waits for the next one.
    RecordUndelivered { reason: Text<1000> },
    /// The call ended without an answer. Where a repetition is safe the task waits for it, else it fails.
    RecordUnknown { reason: Text<1000>, repeatable: bool },
    /// The vendor forgot the job: it may be submitted again.
    RecordForgotten,
    /// The results are stored.
    Complete { results: Vec<Picture> },
    /// The task cannot be done.
    Fail { failure: Failure },
    /// Its owner wants no result any more. A task that has ended stays as it is, and that is no refusal (contract 5: the
    /// cancellation is idempotent).
    Cancel,
}

impl Decider for Task {
    const KIND: StreamKind = StreamKind::Task;
    type State = Self;
    type Command = TaskCommand;
    type Event = TaskEvent;
    type Rejection = TaskRejection;

    fn decide(state: &Self, command: TaskCommand, _now: Timestamp) -> Result<Vec<TaskEvent>, TaskRejection> {
        match (state, command) {
            (Self::Absent, TaskCommand::Submit(submission)) => Ok(vec![TaskEvent::TaskSubmitted(submission)]),
            (Self::Present(_), TaskCommand::Submit(_)) => Err(TaskRejection::AlreadyExists),
            (Self::Absent, _) => Err(TaskRejection::NotFound),
            (Self::Present(task), command) => task.decide(command),
        }
    }

    fn evolve(state: &mut Self, event: &TaskEvent, at: Timestamp) {
        match (&mut *state, event) {
            (Self::Absent, TaskEvent::TaskSubmitted(submission)) => {
                *state = Self::Present(Box::new(TaskRecord {
                    submission: submission.clone(),
                    stage: Stage::Waiting { attempts: 0 },
                    status: TaskStatus::Created,
                    created_at: at,
                    updated_at: at,
                }));
            }
            (Self::Present(task), event) => task.evolve(event, at),
            (Self::Absent, _) => {}
        }
    }

    fn narrow(event: &Event) -> Option<&TaskEvent> {
        if let Event::Task(event) = event { Some(event) } else { None }
    }
}

impl TaskRecord {
    fn decide(&self, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        match (&self.stage, command) {
            (Stage::Waiting { .. }, TaskCommand::RecordInputs { inputs }) if self.submission.work.lacks_inputs() => {
                Ok(vec![TaskEvent::InputsFetched { inputs }])
            }
            (Stage::Waiting { .. }, TaskCommand::StartSubmission { .. }) if self.submission.work.lacks_inputs() => {
                Err(TaskRejection::WrongStage { status: self.status })
            }
            (Stage::Waiting { attempts }, TaskCommand::StartSubmission { key, .. })
            | (Stage::Submitting { attempt: attempts, .. }, TaskCommand::StartSubmission { key, repeatable: true }) => {
                Ok(vec![TaskEvent::SubmissionStarted { attempt: attempts.saturating_add(1), key }])
            }
            (Stage::Submitting { .. }, TaskCommand::RecordAcceptance { reference }) => {
                Ok(vec![TaskEvent::VendorAccepted { reference }])
            }
            (Stage::Submitting { .. }, TaskCommand::RecordRefusal { failure }) => {
                Ok(vec![TaskEvent::VendorRefused { failure: failure.clone() }, TaskEvent::TaskFailed { failure }])
            }
            (Stage::Submitting { .. }, TaskCommand::RecordUndelivered { reason }) => {
                Ok(vec![TaskEvent::SubmissionUndelivered { reason }])
            }
            (Stage::Submitting { .. }, TaskCommand::RecordUnknown { reason, repeatable }) => {
                let failure = Failure { code: Text::recorded("outcome_unknown".to_owned()), message: reason.clone() };
                let ended = (!repeatable).then_some(TaskEvent::TaskFailed { failure });
                Ok(std::iter::once(TaskEvent::OutcomeUnknown { reason }).chain(ended).collect())
            }
            (Stage::InProgress { .. }, TaskCommand::RecordForgotten) => Ok(vec![TaskEvent::VendorForgot]),
            (Stage::InProgress { .. }, TaskCommand::Complete { results }) => {
                Ok(vec![TaskEvent::TaskCompleted { results }])
            }
            (
                Stage::Waiting { .. } | Stage::Submitting { .. } | Stage::InProgress { .. },
                TaskCommand::Fail { failure },
            ) => Ok(vec![TaskEvent::TaskFailed { failure }]),
            (Stage::Completed { .. } | Stage::Failed { .. }, TaskCommand::Cancel) => Ok(Vec::new()),
            (_, TaskCommand::Cancel) => Ok(vec![TaskEvent::TaskCancelled]),
            _ => Err(TaskRejection::WrongStage { status: self.status }),
        }
    }

    fn evolve(&mut self, event: &TaskEvent, at: Timestamp) {
        self.stage = match (&self.stage, event) {
            (Stage::Waiting { .. } | Stage::Submitting { .. }, TaskEvent::SubmissionStarted { attempt, key }) => {
                Stage::Submitting { attempt: *attempt, key: key.clone() }
            }
            (Stage::Submitting { attempt, key }, TaskEvent::VendorAccepted { reference }) => {
                Stage::InProgress { attempt: *attempt, key: key.clone(), reference: reference.clone() }
            }
            (Stage::InProgress { attempt, .. }, TaskEvent::VendorForgot)
            | (Stage::Submitting { attempt, .. }, TaskEvent::SubmissionUndelivered { .. }) => {
                Stage::Waiting { attempts: *attempt }
            }
            (Stage::Waiting { attempts }, TaskEvent::InputsFetched { inputs }) => {
                self.submission.work.take_in(inputs);
                Stage::Waiting { attempts: *attempts }
            }
            (
                Stage::Submitting { attempt, key },
                TaskEvent::VendorRefused { .. } | TaskEvent::OutcomeUnknown { .. },
            ) => Stage::Submitting { attempt: *attempt, key: key.clone() },
            (Stage::InProgress { .. }, TaskEvent::TaskCompleted { results }) => {
                Stage::Completed { results: results.clone() }
            }
            (
                Stage::Waiting { .. } | Stage::Submitting { .. } | Stage::InProgress { .. },
                TaskEvent::TaskFailed { failure },
            ) => Stage::Failed { failure: failure.clone() },
            (Stage::Waiting { .. } | Stage::Submitting { .. } | Stage::InProgress { .. }, TaskEvent::TaskCancelled) => {
                Stage::Failed { failure: Failure::cancelled() }
            }
            _ => return,
        };
        self.status = event.status_change().unwrap_or(self.status);
        self.updated_at = at;
    }
}

#[cfg(test)]
mod tests;
