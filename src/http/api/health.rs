//! Health and readiness probes, and the public webhook key.

use crate::domain::policy::Action;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::http::server::ReadinessFailure;

/// Seconds after which a client should check again whether the service is ready.
const READY_RETRY_AFTER: u32 = 5;

/// `GET /health`: 200 while the process responds.
pub async fn health(_call: Call<{ Action::ReadServiceState as u8 }>) -> Result<ApiResponse, Problem> {
    Ok(ApiResponse::text("OK"))
}

/// `GET /ready`: 200 while the service can work. Callers get only the kind of problem; the details are logged once for
/// the operator, not for each request.
pub async fn ready(call: Call<{ Action::ReadServiceState as u8 }>) -> Result<ApiResponse, Problem> {
    match (call.services().operations.readiness)() {
        Ok(()) => Ok(ApiResponse::text("OK")),
        Err(ReadinessFailure { public_message, .. }) => {
            Err(Problem::new(Code::NotReady, public_message).retry_after(READY_RETRY_AFTER))
        }
    }
}

/// `GET /.well-known/webhook-key`: the public key of the webhook signatures (contract 8).
pub async fn webhook_key(call: Call<{ Action::ReadServiceState as u8 }>) -> Result<ApiResponse, Problem> {
    Ok(ApiResponse::text(call.services().operations.webhook_key.clone()))
}
