//! Webhooks of vendors about the progress of a task.

use super::answer::Answer;
use super::error::Problem;
use super::gate::Call;
use crate::domain::policy::Action;

/// `POST /hints/{hint}`: polls the vendor about the task sooner. The path is the credential. The body is not read,
/// because it is not authenticated: the state comes from the poll.
pub async fn take(call: Call<{ Action::HintTask as u8 }>) -> Result<Answer, Problem> {
    if call.services().hints.take(&call.segment("hint")) {
        Ok(Answer::text("OK"))
    } else {
        Err(Problem::not_found("task"))
    }
}
