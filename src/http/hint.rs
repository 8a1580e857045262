//! Hints of vendors that a task has moved.

use super::answer::Answer;
use super::error::Problem;
use super::gate::Call;
use crate::domain::policy::Action;

/// `POST /hints/{hint}`: the vendor is asked about the task the sooner. The path is the credential, and what stands in the body is
/// not even read: what the vendor has to say is learned from the answer to that question.
pub async fn take(call: Call<{ Action::HintTask as u8 }>) -> Result<Answer, Problem> {
    if call.services().hints.take(&call.segment("hint")) {
        Ok(Answer::text("OK"))
    } else {
        Err(Problem::not_found("task"))
    }
}
