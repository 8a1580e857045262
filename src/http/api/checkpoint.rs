//! Signed checkpoint of the log, to be kept outside of the service.

use actix_web::web;

use crate::domain::policy::Action;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;

/// `GET /admin/checkpoint`: position and hash of the last acknowledged event, signed with the key of the log.
pub async fn checkpoint(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let services = call.services();
    let sign = services.operations.checkpoint.clone();
    let at = services.environment.now();
    let signed = web::block(move || sign(at)).await.map_err(Problem::internal)?;
    ApiResponse::ok(&signed)
}
