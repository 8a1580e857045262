//! Webhooks of vendors about the progress of a task.

use crate::domain::policy::Action;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;

/// `POST /vendor-webhooks/{vendor_ticket}`: polls the vendor about the task sooner. The path is the credential. The
/// body is not read, because it is not authenticated: the state comes from the poll.
pub async fn receive(call: Call<{ Action::ReceiveVendorWebhook as u8 }>) -> Result<ApiResponse, Problem> {
    if call.services().media.vendor_webhooks.accept(&call.path_param("vendor_ticket")) {
        Ok(ApiResponse::text("OK"))
    } else {
        Err(Problem::not_found("task"))
    }
}
