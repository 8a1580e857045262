//! Media tasks: from the submission to a result or a reason, through a vendor that may be asked only once.

use serde::{Deserialize, Serialize};

use super::decider::Decider;
use super::event::{Event, part_of_event};
use super::ids::{StreamKind, TaskId, UserId};
use super::image::Picture;
use super::music::MusicStream;
use super::value::{CallbackUrl, Text, Timestamp};
use super::video::{Clip, Creation};

mod failure;
mod kind;
mod record;
mod status;
mod work;

pub use failure::Failure;
pub use kind::{Gateway, TaskKind};
pub use status::{ImageStatus, TaskStatus, VideoState};
pub use work::{Results, Work};

/// A job as it was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    pub task: TaskId,
    /// Who submitted it; nobody known, where a gateway takes jobs of anybody (contract 3).
    pub owner: Option<UserId>,
    pub work: Work,
    pub webhook: Option<CallbackUrl>,
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
    /// The vendor has it.
    InProgress { attempt: u32, key: VendorKey, reference: VendorReference },
    /// It is made and sent at once, while its client listens; no vendor is asked after it, and it is never made again.
    Streaming,
    /// The results are in our store, or were sent to the end.
    Completed { results: Results },
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
    /// Everything is here that it is made from, and it waits for a slot.
    TaskQueued,
    /// The video that was given as a URL is in our store.
    FootageFetched { clip: Clip },
    /// It is being made: a vendor that had queued it says so, or a stream has begun.
    WorkBegan,
    /// The video is stored.
    VideoCompleted { creation: Creation },
    /// The stream was sent to its end.
    StreamCompleted { stream: MusicStream },
}

part_of_event!(TaskEvent as Task {
    TaskSubmitted, InputsFetched, SubmissionStarted, VendorAccepted, VendorRefused, SubmissionUndelivered, OutcomeUnknown,
    VendorForgot, TaskCompleted, TaskFailed, TaskCancelled, TaskQueued, FootageFetched, WorkBegan, VideoCompleted,
    StreamCompleted,
});

impl TaskEvent {
    /// The status that the event brings to a task of this gateway, if it changes the status: what callbacks tell of.
    #[must_use]
    pub const fn status_change(&self, gateway: Gateway) -> Option<TaskStatus> {
        match self {
            Self::TaskSubmitted(_) => Some(TaskStatus::Created),
            Self::TaskQueued => Some(TaskStatus::Queueing),
            // Vendors of videos queue what they take, and say when they begin.
            Self::VendorAccepted { .. } if matches!(gateway, Gateway::Video) => None,
            Self::VendorAccepted { .. } | Self::WorkBegan => Some(TaskStatus::InProgress),
            Self::TaskCompleted { .. } | Self::VideoCompleted { .. } | Self::StreamCompleted { .. } => {
                Some(TaskStatus::Completed)
            }
            Self::TaskFailed { .. } | Self::TaskCancelled => Some(TaskStatus::Failed),
            Self::InputsFetched { .. }
            | Self::FootageFetched { .. }
            | Self::SubmissionStarted { .. }
            | Self::VendorRefused { .. }
            | Self::SubmissionUndelivered { .. }
            | Self::OutcomeUnknown { .. }
            | Self::VendorForgot => None,
        }
    }

    /// What was made, if the task ends well with this event.
    #[must_use]
    pub fn results(&self) -> Option<Results> {
        match self {
            Self::TaskCompleted { results } => Some(Results::Pictures(results.clone())),
            Self::VideoCompleted { creation } => Some(Results::Video(creation.clone())),
            Self::StreamCompleted { stream } => Some(Results::Music(stream.clone())),
            _ => None,
        }
    }

    /// The event that these results are there.
    #[must_use]
    pub fn completed(results: Results) -> Self {
        match results {
            Results::Pictures(results) => Self::TaskCompleted { results },
            Results::Video(creation) => Self::VideoCompleted { creation },
            Results::Music(stream) => Self::StreamCompleted { stream },
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
    /// The video that was given as a URL is in our store.
    RecordFootage { clip: Clip },
    /// Announces the call to the vendor. From `Submitting`, only where the vendor honours `key` (contract 5): the caller
    /// says so with `repeatable`.
    StartSubmission { key: VendorKey, repeatable: bool },
    /// The vendor took the job.
    RecordAcceptance { reference: VendorReference },
    /// The vendor has begun to work on what it had queued, or a stream begins. Said again, it changes nothing.
    RecordBegun,
    /// The vendor refused the job: the task fails.
    RecordRefusal { failure: Failure },
    /// The call surely began nothing: the task waits for the next one.
    RecordUndelivered { reason: Text<1000> },
    /// The call ended without an answer. Where a repetition is safe the task waits for it, else it fails.
    RecordUnknown { reason: Text<1000>, repeatable: bool },
    /// The vendor forgot the job: it may be submitted again.
    RecordForgotten,
    /// The results are stored, or were sent to the end.
    Complete { results: Results },
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
            (Self::Absent, TaskCommand::Submit(submission)) => Ok(record::submitted(submission)),
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

#[cfg(test)]
mod tests;
