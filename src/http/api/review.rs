//! Star reviews of nodes by users.

use serde::Serialize;

use crate::domain::node::{NodeCommand, Stars};
use crate::domain::policy::Action;
use crate::http::api::node_change::reply_with_node;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;

/// `POST /nodes/{nodeId}/reviews?star=`: 1 to 5 stars; replaces an earlier review of the same user.
pub async fn submit(call: Call<{ Action::ReviewNode as u8 }>) -> Result<ApiResponse, Problem> {
    let node = call.existing_node()?;
    let mut query = call.query()?;
    // Text that is not a number counts as 0, which is out of range.
    let stars = query.required("star", |text| Stars::new(text.parse().unwrap_or_default()));
    query.finish()?;
    let stars = stars.ok_or_else(|| Problem::internal("a review without stars was accepted"))?;
    let command = NodeCommand::Review { user: call.user()?.id, stars };
    call.services().dispatch.node(&node, command, call.command_context()).await?;
    reply_with_node(&call, &node, |view| ApiResponse::ok(view))
}

/// Review of the caller.
#[derive(Serialize)]
struct OwnReview {
    #[serde(skip_serializing_if = "Option::is_none")]
    star: Option<u8>,
}

/// `GET /nodes/{nodeId}/reviews/mine`: the caller's stars; an empty object without a review.
pub async fn show_own(call: Call<{ Action::ReadOwnAccount as u8 }>) -> Result<ApiResponse, Problem> {
    let node = call.existing_node()?;
    let user = call.user()?.id;
    let models = call.services().models.read();
    let stars = models.nodes.get(&node).and_then(|node| node.reviews.stars_of(user));
    ApiResponse::ok(&OwnReview { star: stars.map(Stars::get) })
}
