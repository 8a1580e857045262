//! Decides commands on an existing task and applies its events.

use super::{Failure, Results, Stage, Submission, TaskCommand, TaskEvent, TaskRecord, TaskRejection, TaskStatus};
use crate::domain::value::Timestamp;

/// Returns the events of a submission. A task with all its inputs is queued immediately.
pub(super) fn submitted(submission: Submission) -> Vec<TaskEvent> {
    let queued = (submission.work.queues() && !submission.work.lacks_inputs()).then_some(TaskEvent::TaskQueued);
    std::iter::once(TaskEvent::TaskSubmitted(submission)).chain(queued).collect()
}

impl TaskRecord {
    /// Returns the results; `None` until the task is completed.
    #[must_use]
    pub fn results(&self) -> Option<&Results> {
        if let Stage::Completed { results } = &self.stage { Some(results) } else { None }
    }

    /// Returns `true` if the task has ended.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        self.status.is_terminal()
    }

    pub(super) fn decide(&self, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        match (&self.stage, command) {
            (Stage::Completed { .. } | Stage::Failed { .. }, TaskCommand::Cancel) => Ok(Vec::new()),
            (_, TaskCommand::Cancel) => Ok(vec![TaskEvent::TaskCancelled]),
            (Stage::Completed { .. } | Stage::Failed { .. }, _) => self.refuse(),
            (_, TaskCommand::Fail { failure }) => Ok(vec![TaskEvent::TaskFailed { failure }]),
            (Stage::Waiting { .. } | Stage::Streaming, command) if self.is_streamed() => self.decide_stream(command),
            (Stage::Waiting { attempts }, command) => self.decide_waiting(*attempts, command),
            (Stage::Submitting { attempt, .. }, command) => self.decide_submitting(*attempt, command),
            (Stage::InProgress { .. }, command) => self.decide_in_progress(command),
            (Stage::Streaming, _) => self.refuse(),
        }
    }

    fn refuse(&self) -> Result<Vec<TaskEvent>, TaskRejection> {
        Err(TaskRejection::WrongStage { status: self.status })
    }

    fn is_streamed(&self) -> bool {
        matches!(self.submission.work, super::Work::Music(_))
    }

    fn decide_stream(&self, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        match (&self.stage, command) {
            (Stage::Waiting { .. }, TaskCommand::RecordBegun) => Ok(vec![TaskEvent::WorkBegan]),
            (Stage::Streaming, TaskCommand::RecordBegun) => Ok(Vec::new()),
            // A vendor generates the music. Its submission follows the usual stages but is never repeated.
            (Stage::Waiting { attempts: 0 }, TaskCommand::StartSubmission { key, .. }) => {
                Ok(vec![TaskEvent::SubmissionStarted { attempt: 1, key }])
            }
            (Stage::Streaming, TaskCommand::Complete { results: results @ Results::Music(_) }) => {
                Ok(vec![TaskEvent::completed(results)])
            }
            _ => self.refuse(),
        }
    }

    fn decide_waiting(&self, attempts: u32, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        let work = &self.submission.work;
        match command {
            TaskCommand::RecordInputs { inputs } if work.lacks_inputs() => {
                let mut work = work.clone();
                work.take_in(&inputs);
                Ok(self.queued_after(TaskEvent::InputsFetched { inputs }, work.lacks_inputs()))
            }
            TaskCommand::RecordFootage { clip } if work.lacks_footage() => {
                let mut work = work.clone();
                work.take_in_footage(&clip);
                Ok(self.queued_after(TaskEvent::FootageFetched { clip }, work.lacks_inputs()))
            }
            TaskCommand::StartSubmission { key, .. } if !work.lacks_inputs() => {
                Ok(vec![TaskEvent::SubmissionStarted { attempt: attempts.saturating_add(1), key }])
            }
            _ => self.refuse(),
        }
    }

    /// Returns `fetched` and, if no input is missing any more, the event that queues the task.
    fn queued_after(&self, fetched: TaskEvent, lacks_more: bool) -> Vec<TaskEvent> {
        let queued = (self.submission.work.queues() && !lacks_more).then_some(TaskEvent::TaskQueued);
        std::iter::once(fetched).chain(queued).collect()
    }

    fn decide_submitting(&self, attempt: u32, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        match command {
            // A stream is requested only once, because its client is waiting for that response.
            TaskCommand::StartSubmission { key, repeatable: true } if !self.is_streamed() => {
                Ok(vec![TaskEvent::SubmissionStarted { attempt: attempt.saturating_add(1), key }])
            }
            TaskCommand::RecordAcceptance { reference } => Ok(vec![TaskEvent::VendorAccepted { reference }]),
            TaskCommand::RecordRefusal { failure } => {
                Ok(vec![TaskEvent::VendorRefused { failure: failure.clone() }, TaskEvent::TaskFailed { failure }])
            }
            TaskCommand::RecordUndelivered { reason } => Ok(vec![TaskEvent::SubmissionUndelivered { reason }]),
            TaskCommand::RecordUnknown { reason, repeatable } => {
                let failure = Failure::new("outcome_unknown", reason.as_str());
                let ended = (!repeatable).then_some(TaskEvent::TaskFailed { failure });
                Ok(std::iter::once(TaskEvent::OutcomeUnknown { reason }).chain(ended).collect())
            }
            _ => self.refuse(),
        }
    }

    fn decide_in_progress(&self, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        let began = (self.status != TaskStatus::InProgress).then_some(TaskEvent::WorkBegan);
        match command {
            TaskCommand::RecordForgotten => Ok(vec![TaskEvent::VendorForgot]),
            TaskCommand::RecordBegun => Ok(began.into_iter().collect()),
            // A completed job was in progress, even if no status read observed it.
            TaskCommand::Complete { results } => Ok(began.into_iter().chain([TaskEvent::completed(results)]).collect()),
            _ => self.refuse(),
        }
    }

    pub(super) fn evolve(&mut self, event: &TaskEvent, at: Timestamp) {
        self.stage = match (&self.stage, event) {
            (Stage::Completed { .. } | Stage::Failed { .. }, _) => return,
            (_, TaskEvent::TaskFailed { failure }) => Stage::Failed { failure: failure.clone() },
            (_, TaskEvent::TaskCancelled) => Stage::Failed { failure: Failure::cancelled() },
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
            (stage @ Stage::Waiting { .. }, TaskEvent::InputsFetched { inputs }) => {
                self.submission.work.take_in(inputs);
                stage.clone()
            }
            (stage @ Stage::Waiting { .. }, TaskEvent::FootageFetched { clip }) => {
                self.submission.work.take_in_footage(clip);
                stage.clone()
            }
            (stage @ Stage::Waiting { .. }, TaskEvent::TaskQueued)
            | (stage @ Stage::InProgress { .. }, TaskEvent::WorkBegan)
            | (stage @ Stage::Submitting { .. }, TaskEvent::VendorRefused { .. } | TaskEvent::OutcomeUnknown { .. }) => {
                stage.clone()
            }
            (Stage::Waiting { .. }, TaskEvent::WorkBegan) => Stage::Streaming,
            (Stage::InProgress { .. } | Stage::Streaming, event) => match event.results() {
                Some(results) => Stage::Completed { results },
                None => return,
            },
            _ => return,
        };

        self.status = self.status_after(event);
        self.updated_at = at;
    }

    /// Returns the status after an event; a resubmission does not set it back.
    fn status_after(&self, event: &TaskEvent) -> TaskStatus {
        let told = event.status_change(self.submission.work.gateway());
        told.map_or(self.status, |status| status.max(self.status))
    }
}

#[cfg(test)]
mod tests;
