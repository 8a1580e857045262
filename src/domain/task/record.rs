//! Decides commands on an existing task and applies its events.

use super::{
    Submission, TaskCommand, TaskEvent, TaskFailure, TaskRecord, TaskRejection, TaskResults, TaskStage, TaskStatus,
    TaskWork,
};
use crate::domain::value::Timestamp;

/// Returns the events of a submission. A task with all its inputs is queued immediately.
pub(super) fn submission_events(submission: Submission) -> Vec<TaskEvent> {
    let queued_event = (submission.work.has_queueing_status() && !submission.work.has_missing_inputs())
        .then_some(TaskEvent::TaskQueued);
    std::iter::once(TaskEvent::TaskSubmitted(submission)).chain(queued_event).collect()
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

    pub(super) fn decide(&self, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        match (&self.stage, command) {
            (TaskStage::Completed { .. } | TaskStage::Failed { .. }, TaskCommand::Cancel) => Ok(Vec::new()),
            (_, TaskCommand::Cancel) => Ok(vec![TaskEvent::TaskCancelled]),
            (TaskStage::Completed { .. } | TaskStage::Failed { .. }, _) => self.reject_stage(),
            (_, TaskCommand::Fail { failure }) => Ok(vec![TaskEvent::TaskFailed { failure }]),
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

    fn is_streamed(&self) -> bool {
        matches!(self.submission.work, TaskWork::Music(_))
    }

    fn decide_stream(&self, command: TaskCommand) -> Result<Vec<TaskEvent>, TaskRejection> {
        match (&self.stage, command) {
            (TaskStage::Waiting { .. }, TaskCommand::RecordWorkStarted) => Ok(vec![TaskEvent::WorkBegan]),
            (TaskStage::Streaming, TaskCommand::RecordWorkStarted) => Ok(Vec::new()),
            // A vendor generates the music. Its submission follows the usual stages but is never repeated.
            (TaskStage::Waiting { attempts: 0 }, TaskCommand::StartSubmission { key, .. }) => {
                Ok(vec![TaskEvent::SubmissionStarted { attempt: 1, key }])
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
                Ok(self.queued_after(TaskEvent::InputsFetched { inputs }, work.has_missing_inputs()))
            }
            TaskCommand::RecordFootage { clip } if work.has_missing_footage() => {
                let mut work = work.clone();
                work.set_footage(&clip);
                Ok(self.queued_after(TaskEvent::FootageFetched { clip }, work.has_missing_inputs()))
            }
            TaskCommand::StartSubmission { key, .. } if !work.has_missing_inputs() => {
                Ok(vec![TaskEvent::SubmissionStarted { attempt: attempts.saturating_add(1), key }])
            }
            _ => self.reject_stage(),
        }
    }

    /// Returns `fetched_event` and, if no input is missing any more, the event that queues the task.
    fn queued_after(&self, fetched_event: TaskEvent, has_missing_inputs: bool) -> Vec<TaskEvent> {
        let queued_event =
            (self.submission.work.has_queueing_status() && !has_missing_inputs).then_some(TaskEvent::TaskQueued);
        std::iter::once(fetched_event).chain(queued_event).collect()
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
            TaskCommand::RecordUnknownOutcome { reason, repeatable } => {
                let failure = TaskFailure::new("outcome_unknown", reason.as_str());
                let failed_event = (!repeatable).then_some(TaskEvent::TaskFailed { failure });
                Ok(std::iter::once(TaskEvent::OutcomeUnknown { reason }).chain(failed_event).collect())
            }
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

    pub(super) fn evolve(&mut self, event: &TaskEvent, at: Timestamp) {
        self.stage = match (&self.stage, event) {
            (TaskStage::Completed { .. } | TaskStage::Failed { .. }, _) => return,
            (_, TaskEvent::TaskFailed { failure }) => TaskStage::Failed { failure: failure.clone() },
            (_, TaskEvent::TaskCancelled) => TaskStage::Failed { failure: TaskFailure::cancelled() },
            (
                TaskStage::Waiting { .. } | TaskStage::Submitting { .. },
                TaskEvent::SubmissionStarted { attempt, key },
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

        self.status = self.status_after(event);
        self.updated_at = at;
    }

    /// Returns the status after an event; a resubmission does not set it back.
    fn status_after(&self, event: &TaskEvent) -> TaskStatus {
        let changed = event.status_change(self.submission.work.gateway());
        changed.map_or(self.status, |status| status.max(self.status))
    }
}

#[cfg(test)]
mod tests;
