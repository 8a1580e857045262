//! Media tasks, from submission to result or failure. A vendor may be called only once unless it honours idempotency
//! keys.

use serde::{Deserialize, Serialize};

use super::budget::BudgetSubject;
use super::decider::Decider;
use super::event_enum::event_enum;
use super::ids::{PublisherId, StreamKind, TaskId, TokenId, UserId};
use super::image::Picture;
use super::music::MusicStream;
use super::value::{CallbackUrl, Text, Timestamp};
use super::video::{Clip, Creation};

mod failure;
mod job_filter;
mod kind;
mod prompt_report;
mod status;
mod vendor;
mod work;

pub use failure::TaskFailure;
pub use job_filter::{FilterableParameter, JobFilter};
pub use kind::{Gateway, TaskKind};
pub use prompt_report::PromptReport;
pub use status::{ImageStatus, TaskStatus, VideoState};
pub use vendor::{RecordedVendor, TaskVendor, VendorPrice};
pub use work::{TaskResults, TaskWork};

/// A submitted job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    pub task: TaskId,
    /// Owner; `None` if submitted anonymously (contract 3).
    pub owner: Option<UserId>,
    pub work: TaskWork,
    pub webhook: Option<CallbackUrl>,
    /// Payers besides the owner, if any.
    pub payers: Option<Box<Payers>>,
}

/// Payers of a submission besides its owner: their budgets count it too.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Payers {
    /// Token that authenticated the submission.
    pub token: Option<TokenId>,
    /// Erased accounts of the owner that have a budget.
    pub former_accounts: Vec<UserId>,
    /// Publishers with a budget, of which the owner was a member at that time.
    pub publishers: Vec<PublisherId>,
}

impl Payers {
    /// Returns the payers as a submission contains them, if any.
    #[must_use]
    pub fn into_option(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Returns the subjects whose budgets count the submission.
    pub fn budget_subjects(&self) -> impl Iterator<Item = BudgetSubject> {
        let former_accounts = self.former_accounts.iter().copied().map(BudgetSubject::User);
        let publishers = self.publishers.iter().cloned().map(BudgetSubject::Publisher);
        self.token.map(BudgetSubject::Token).into_iter().chain(former_accounts).chain(publishers)
    }
}

impl Submission {
    /// Returns the subjects whose budgets count the submission.
    pub fn budget_subjects(&self) -> impl Iterator<Item = BudgetSubject> {
        let owner = self.owner.map(BudgetSubject::User);
        owner.into_iter().chain(self.payers.iter().flat_map(|payers| payers.budget_subjects()))
    }
}

/// The vendor's id of the job, for polling.
pub type VendorReference = Text<200>;
/// Idempotency key of a submission to the vendor.
pub type VendorKey = Text<200>;

/// Stage of a task. Data exists only in the stages in which it is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskStage {
    /// No vendor has the job: it was not submitted yet, or the vendor lost it.
    Waiting { attempts: u32 },
    /// A vendor call is about to start, or has started and its outcome is not recorded. `attempt` counts from 1.
    Submitting { attempt: u32, key: VendorKey },
    /// A vendor accepted the job.
    InProgress { attempt: u32, key: VendorKey, reference: VendorReference },
    /// The music is generated while the client reads it. It is not polled and never generated again.
    Streaming,
    /// The results are in the media store or were streamed completely.
    Completed { results: TaskResults },
    /// The task ended without a result.
    Failed { failure: TaskFailure },
}

impl TaskStage {
    /// Returns `true` if a vendor has, or may have, the job: it then uses one of the vendor's slots.
    #[must_use]
    pub const fn is_at_vendor(&self) -> bool {
        matches!(self, Self::Submitting { .. } | Self::InProgress { .. })
    }
}

/// A task that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    pub submission: Submission,
    pub stage: TaskStage,
    /// Status shown to the owner; a resubmission does not set it back.
    pub status: TaskStatus,
    /// Vendor that has the job, may have it, or had it when the task ended. `None` if no vendor can have it; any vendor
    /// may then be called.
    pub vendor: Option<TaskVendor>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// State of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Task {
    /// No task has this id.
    #[default]
    Absent,
    /// The task was submitted.
    Present(Box<TaskRecord>),
}

impl TaskRecord {
    /// Returns the results; `None` until the task is completed.
    #[must_use]
    pub fn results(&self) -> Option<&TaskResults> {
        if let TaskStage::Completed { results } = &self.stage { Some(results) } else { None }
    }

    /// Returns `true` if the task has ended.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        self.status.is_terminal()
    }

    /// Returns `true` if the task waits although an earlier submission has an unknown outcome: its vendor may have a
    /// job, and only that vendor may get the submission again, with the same key.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.stage, TaskStage::Waiting { .. }) && self.vendor.as_ref().is_some_and(|vendor| vendor.is_in_doubt)
    }

    /// Returns `true` if the task stays charged although it failed: its client ended a stream, and keeps what was sent.
    #[must_use]
    pub fn is_charged_although_failed(&self) -> bool {
        self.is_streamed() && matches!(&self.stage, TaskStage::Failed { failure } if failure.is_by_client())
    }

    fn is_streamed(&self) -> bool {
        matches!(self.submission.work, TaskWork::Music(_))
    }

    /// Returns `true` if the job may be submitted to this vendor: no other one has it, or may have it.
    fn may_be_submitted_to(&self, vendor: Option<&RecordedVendor>) -> bool {
        let earlier = self.vendor.as_ref().and_then(|earlier| earlier.recorded.as_ref());
        earlier.zip(vendor).is_none_or(|(earlier, vendor)| earlier.is_same_vendor(vendor))
    }
}

/// Commands of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskCommand {
    /// Accepts a job.
    Submit(Submission),
    /// Records that the inputs given as URLs are stored.
    RecordInputs { inputs: Vec<Picture> },
    /// Records that the video given as a URL is stored.
    RecordFootage { clip: Clip },
    /// Announces the vendor call. While a vendor may have the job, allowed only for this vendor and if `repeatable`: it
    /// honours `key` (contract 5).
    StartSubmission { key: VendorKey, repeatable: bool, vendor: Option<RecordedVendor> },
    /// Records that the vendor accepted the job.
    RecordAcceptance { reference: VendorReference },
    /// Records that the vendor's response to the submission was the result, which is stored.
    RecordFinished { reference: VendorReference, results: TaskResults },
    /// Records that work on a queued job, or a stream, began. Idempotent.
    RecordWorkStarted,
    /// Records that the vendor refused the job; the task fails.
    RecordRefusal { failure: TaskFailure },
    /// Records that the call had no effect; the task waits for the next one.
    RecordUndelivered { reason: Text<1000> },
    /// Records a call without a response. If `repeatable`, the task waits for another call; otherwise it fails. Also
    /// ends a task that waits although an earlier call had no response.
    RecordUnknownOutcome { reason: Text<1000>, repeatable: bool },
    /// Records that the vendor lost the job; it may be submitted again.
    RecordLostJob,
    /// Completes the task: the results are stored or were streamed completely.
    Complete { results: TaskResults },
    /// Ends the task without a result.
    Fail { failure: TaskFailure },
    /// Cancels the task. Idempotent: a task that has ended stays unchanged, without an error (contract 5).
    Cancel,
}

event_enum! {
    /// Events of a task.
    TaskEvent {
        /// The job was validated and accepted.
        TaskSubmitted(Submission),
        /// The inputs given as URLs were stored, in the order in which the work lists them.
        InputsFetched { inputs: Vec<Picture> },
        /// A vendor call is about to start; recorded before the call. Tasks of earlier releases do not name the vendor.
        SubmissionStarted { attempt: u32, key: VendorKey, vendor: Option<RecordedVendor> },
        /// The vendor accepted the job.
        VendorAccepted { reference: VendorReference },
        /// The vendor refused the job.
        VendorRefused { failure: TaskFailure },
        /// The call certainly did not arrive, or the vendor had no capacity; it can be repeated.
        SubmissionUndelivered { reason: Text<1000> },
        /// The vendor call ended without a response.
        OutcomeUnknown { reason: Text<1000> },
        /// The vendor lost a job that it had accepted.
        VendorForgot,
        /// The results are stored.
        TaskCompleted { results: Vec<Picture> },
        /// The task ended without a result.
        TaskFailed { failure: TaskFailure },
        /// The task was cancelled on request.
        TaskCancelled,
        /// All inputs are present, and the task waits for a slot.
        TaskQueued,
        /// The video given as a URL was stored.
        FootageFetched { clip: Clip },
        /// Work began: a vendor started a queued job, or a stream started.
        WorkBegan,
        /// The video is stored.
        VideoCompleted { creation: Creation },
        /// The stream was sent completely.
        StreamCompleted { stream: MusicStream },
    }
}

impl TaskEvent {
    /// Returns the status that the event gives to a task of this gateway, if it changes. Webhooks report these changes.
    #[must_use]
    pub const fn status_change(&self, gateway: Gateway) -> Option<TaskStatus> {
        match self {
            Self::TaskSubmitted(_) => Some(TaskStatus::Created),
            Self::TaskQueued => Some(TaskStatus::Queueing),
            // A video vendor queues the jobs that it accepts, and reports later when work begins.
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

    /// Returns the results if the event completes the task.
    #[must_use]
    pub fn results(&self) -> Option<TaskResults> {
        match self {
            Self::TaskCompleted { results } => Some(TaskResults::Pictures(results.clone())),
            Self::VideoCompleted { creation } => Some(TaskResults::Video(creation.clone())),
            Self::StreamCompleted { stream } => Some(TaskResults::Music(stream.clone())),
            _ => None,
        }
    }

    /// Creates the event that completes a task with these results.
    #[must_use]
    pub fn from_results(results: TaskResults) -> Self {
        match results {
            TaskResults::Pictures(results) => Self::TaskCompleted { results },
            TaskResults::Video(creation) => Self::VideoCompleted { creation },
            TaskResults::Music(stream) => Self::StreamCompleted { stream },
        }
    }

    /// Returns the failure if the event ends the task without a result.
    #[must_use]
    pub fn failure(&self) -> Option<TaskFailure> {
        match self {
            Self::TaskFailed { failure } => Some(failure.clone()),
            Self::TaskCancelled => Some(TaskFailure::cancelled()),
            _ => None,
        }
    }
}

/// Reason why a command on a task was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskRejection {
    /// The id is taken.
    AlreadyExists,
    /// No task has this id.
    NotFound,
    /// The command does not fit the stage; the caller used outdated state.
    WrongStage { status: TaskStatus },
}

impl Decider for Task {
    const KIND: StreamKind = StreamKind::Task;
    type State = Self;
    type Command = TaskCommand;
    type Event = TaskEvent;
    type Rejection = TaskRejection;

    fn decide(state: &Self, command: TaskCommand, _now: Timestamp) -> Result<Vec<TaskEvent>, TaskRejection> {
        match (state, command) {
            (Self::Absent, TaskCommand::Submit(submission)) => Ok(submission_events(submission)),
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
                    stage: TaskStage::Waiting { attempts: 0 },
                    status: TaskStatus::Created,
                    vendor: None,
                    created_at: at,
                    updated_at: at,
                }));
            }
            (Self::Present(task), event) => task.evolve(event, at),
            (Self::Absent, _) => {}
        }
    }
}

/// Returns the events of a submission. A task with all its inputs is queued immediately.
fn submission_events(submission: Submission) -> Vec<TaskEvent> {
    let queued = queued_event(&submission.work);
    std::iter::once(TaskEvent::TaskSubmitted(submission)).chain(queued).collect()
}

/// Returns the event that queues a task, if its gateway reports queueing and no input is missing.
fn queued_event(work: &TaskWork) -> Option<TaskEvent> {
    (work.has_queueing_status() && !work.has_missing_inputs()).then_some(TaskEvent::TaskQueued)
}

/// Returns the events of a call without a response that ends the task.
fn unknown_outcome_events(reason: Text<1000>) -> Vec<TaskEvent> {
    let failure = TaskFailure::unknown_outcome(&reason);
    vec![TaskEvent::OutcomeUnknown { reason }, TaskEvent::TaskFailed { failure }]
}

/// Decisions on a task that exists.
impl TaskRecord {
    fn decide(&self, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        match (&self.stage, command) {
            (TaskStage::Completed { .. } | TaskStage::Failed { .. }, TaskCommand::Cancel) => Ok(Vec::new()),
            (_, TaskCommand::Cancel) => Ok(vec![TaskEvent::TaskCancelled]),
            (TaskStage::Completed { .. } | TaskStage::Failed { .. }, _) => self.reject_stage(),
            (_, TaskCommand::Fail { failure }) => Ok(vec![TaskEvent::TaskFailed { failure }]),
            (_, TaskCommand::StartSubmission { vendor, .. }) if !self.may_be_submitted_to(vendor.as_ref()) => {
                self.reject_stage()
            }
            (TaskStage::Waiting { .. } | TaskStage::Streaming, command) if self.is_streamed() => {
                self.decide_stream(command)
            }
            (TaskStage::Waiting { attempts }, command) => self.decide_waiting(*attempts, command),
            (TaskStage::Submitting { attempt, .. }, command) => self.decide_submitting(*attempt, command),
            (TaskStage::InProgress { .. }, command) => self.decide_in_progress(command),
            (TaskStage::Streaming, _) => self.reject_stage(),
        }
    }

    fn reject_stage(&self) -> Result<Vec<TaskEvent>, TaskRejection> {
        Err(TaskRejection::WrongStage { status: self.status })
    }

    fn decide_stream(&self, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        match (&self.stage, command) {
            (TaskStage::Waiting { .. }, TaskCommand::RecordWorkStarted) => Ok(vec![TaskEvent::WorkBegan]),
            (TaskStage::Streaming, TaskCommand::RecordWorkStarted) => Ok(Vec::new()),
            // A vendor generates the music. Its submission follows the usual stages, but only a vendor that certainly
            // did not take it is followed by another one.
            (TaskStage::Waiting { attempts }, TaskCommand::StartSubmission { key, vendor, .. }) => {
                Ok(vec![TaskEvent::SubmissionStarted { attempt: attempts.saturating_add(1), key, vendor }])
            }
            (TaskStage::Streaming, TaskCommand::Complete { results: results @ TaskResults::Music(_) }) => {
                Ok(vec![TaskEvent::from_results(results)])
            }
            _ => self.reject_stage(),
        }
    }

    fn decide_waiting(&self, attempts: u32, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        let work = &self.submission.work;
        match command {
            TaskCommand::RecordInputs { inputs } if work.has_missing_inputs() => {
                let mut work = work.clone();
                work.set_fetched_pictures(&inputs);
                Ok(std::iter::once(TaskEvent::InputsFetched { inputs }).chain(queued_event(&work)).collect())
            }
            TaskCommand::RecordFootage { clip } if work.has_missing_footage() => {
                let mut work = work.clone();
                work.set_footage(&clip);
                Ok(std::iter::once(TaskEvent::FootageFetched { clip }).chain(queued_event(&work)).collect())
            }
            TaskCommand::StartSubmission { repeatable: false, .. } if self.is_in_doubt() => self.reject_stage(),
            TaskCommand::RecordUnknownOutcome { reason, repeatable: false } if self.is_in_doubt() => {
                Ok(vec![TaskEvent::TaskFailed { failure: TaskFailure::unknown_outcome(&reason) }])
            }
            TaskCommand::StartSubmission { key, vendor, .. } if !work.has_missing_inputs() => {
                Ok(vec![TaskEvent::SubmissionStarted { attempt: attempts.saturating_add(1), key, vendor }])
            }
            _ => self.reject_stage(),
        }
    }

    fn decide_submitting(&self, attempt: u32, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        match command {
            // A stream is requested only once, because its client is waiting for that response.
            TaskCommand::StartSubmission { key, repeatable: true, vendor } if !self.is_streamed() => {
                Ok(vec![TaskEvent::SubmissionStarted { attempt: attempt.saturating_add(1), key, vendor }])
            }
            TaskCommand::RecordAcceptance { reference } => Ok(vec![TaskEvent::VendorAccepted { reference }]),
            TaskCommand::RecordFinished { reference, results } => {
                let accepted = TaskEvent::VendorAccepted { reference };
                let begins_later = accepted.status_change(self.submission.work.gateway()).is_none();
                let work_began = begins_later.then_some(TaskEvent::WorkBegan);
                Ok([accepted].into_iter().chain(work_began).chain([TaskEvent::from_results(results)]).collect())
            }
            TaskCommand::RecordRefusal { failure } => {
                Ok(vec![TaskEvent::VendorRefused { failure: failure.clone() }, TaskEvent::TaskFailed { failure }])
            }
            TaskCommand::RecordUndelivered { reason } => Ok(vec![TaskEvent::SubmissionUndelivered { reason }]),
            TaskCommand::RecordUnknownOutcome { reason, repeatable: true } => {
                Ok(vec![TaskEvent::OutcomeUnknown { reason }])
            }
            TaskCommand::RecordUnknownOutcome { reason, repeatable: false } => Ok(unknown_outcome_events(reason)),
            _ => self.reject_stage(),
        }
    }

    fn decide_in_progress(&self, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        let work_began = (self.status != TaskStatus::InProgress).then_some(TaskEvent::WorkBegan);
        match command {
            TaskCommand::RecordLostJob => Ok(vec![TaskEvent::VendorForgot]),
            TaskCommand::RecordWorkStarted => Ok(work_began.into_iter().collect()),
            // A completed job was in progress, even if no status read observed it.
            TaskCommand::Complete { results } => {
                Ok(work_began.into_iter().chain([TaskEvent::from_results(results)]).collect())
            }
            _ => self.reject_stage(),
        }
    }
}

/// Effects of events.
impl TaskRecord {
    fn evolve(&mut self, event: &TaskEvent, at: Timestamp) {
        self.stage = match (&self.stage, event) {
            (TaskStage::Completed { .. } | TaskStage::Failed { .. }, _) => return,
            (_, TaskEvent::TaskFailed { failure }) => TaskStage::Failed { failure: failure.clone() },
            (_, TaskEvent::TaskCancelled) => TaskStage::Failed { failure: TaskFailure::cancelled() },
            (
                TaskStage::Waiting { .. } | TaskStage::Submitting { .. },
                TaskEvent::SubmissionStarted { attempt, key, .. },
            ) => TaskStage::Submitting { attempt: *attempt, key: key.clone() },
            (TaskStage::Submitting { attempt, key }, TaskEvent::VendorAccepted { reference }) => {
                TaskStage::InProgress { attempt: *attempt, key: key.clone(), reference: reference.clone() }
            }
            (TaskStage::InProgress { attempt, .. }, TaskEvent::VendorForgot)
            | (TaskStage::Submitting { attempt, .. }, TaskEvent::SubmissionUndelivered { .. }) => {
                TaskStage::Waiting { attempts: *attempt }
            }
            (stage @ TaskStage::Waiting { .. }, TaskEvent::InputsFetched { inputs }) => {
                self.submission.work.set_fetched_pictures(inputs);
                stage.clone()
            }
            (stage @ TaskStage::Waiting { .. }, TaskEvent::FootageFetched { clip }) => {
                self.submission.work.set_footage(clip);
                stage.clone()
            }
            (stage @ TaskStage::Waiting { .. }, TaskEvent::TaskQueued)
            | (stage @ TaskStage::InProgress { .. }, TaskEvent::WorkBegan)
            | (
                stage @ TaskStage::Submitting { .. },
                TaskEvent::VendorRefused { .. } | TaskEvent::OutcomeUnknown { .. },
            ) => stage.clone(),
            (TaskStage::Waiting { .. }, TaskEvent::WorkBegan) => TaskStage::Streaming,
            (TaskStage::InProgress { .. } | TaskStage::Streaming, event) => match event.results() {
                Some(results) => TaskStage::Completed { results },
                None => return,
            },
            _ => return,
        };

        self.assign_vendor(event);
        self.status = self.status_after(event);
        self.updated_at = at;
    }

    /// Follows which vendor has, or may have, the job.
    fn assign_vendor(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::SubmissionStarted { vendor, .. } => {
                // The previous submission has no recorded end, so its outcome is unknown, except at a built-in engine,
                // which keeps no jobs.
                let is_built_in =
                    |vendor: &TaskVendor| vendor.recorded.as_ref().is_some_and(RecordedVendor::is_built_in);
                let is_in_doubt = self.vendor.as_ref().is_some_and(|previous| !is_built_in(previous));
                self.vendor = Some(TaskVendor { recorded: vendor.clone(), reference: None, is_in_doubt });
            }
            TaskEvent::VendorAccepted { reference } => {
                if let Some(vendor) = &mut self.vendor {
                    vendor.reference = Some(reference.clone());
                }
            }
            // This call did not arrive, but an earlier one may have.
            TaskEvent::SubmissionUndelivered { .. }
                if self.vendor.as_ref().is_some_and(|vendor| vendor.is_in_doubt) => {}
            TaskEvent::SubmissionUndelivered { .. } | TaskEvent::VendorForgot => self.vendor = None,
            _ => {}
        }
    }

    /// Returns the status after an event; a resubmission does not set it back.
    fn status_after(&self, event: &TaskEvent) -> TaskStatus {
        let changed = event.status_change(self.submission.work.gateway());
        changed.map_or(self.status, |status| status.max(self.status))
    }
}

#[cfg(test)]
mod tests;
