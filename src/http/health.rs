//! Whether the service lives, whether it can work, and the key by which its callbacks are known.

use super::answer::Answer;
use super::error::{Code, Problem};
use super::gate::Call;
use super::server::Unready;
use crate::domain::policy::Action;

/// `GET /health`: the process answers.
pub async fn health(_call: Call<{ Action::ReadServiceState as u8 }>) -> Result<Answer, Problem> {
    Ok(Answer::text("OK"))
}

/// `GET /ready`: the service can do its work. Anybody is told what is the matter; where and what exactly is for its operator, in the log,
/// once and not for each who asks.
pub async fn ready(call: Call<{ Action::ReadServiceState as u8 }>) -> Result<Answer, Problem> {
    match (call.services().readiness)() {
        Ok(()) => Ok(Answer::text("OK")),
        Err(Unready { told, .. }) => {
            Err(Problem::new(Code::NotReady, format!("the service cannot do its work now: {told}")).retry_after(5))
        }
    }
}

/// `GET /.well-known/webhook-key`: the public key with which callbacks are signed (contract 8).
pub async fn webhook_key(call: Call<{ Action::ReadServiceState as u8 }>) -> Result<Answer, Problem> {
    Ok(Answer::text(call.services().webhook_key.clone()))
}
