//! Reviews: stars that users give nodes.

use super::answer::Answer;
use super::error::Problem;
use super::gate::Call;
use super::node_change::with_view;
use crate::domain::node::{NodeCommand, Stars};
use crate::domain::policy::Action;

/// `POST /nodes/{node_id}/reviews?star=`: 1 to 5 stars; a later review of the same user takes the place of the earlier one.
pub async fn give(call: Call<{ Action::ReviewNode as u8 }>) -> Result<Answer, Problem> {
    let node = call.known_node()?;
    let mut query = call.query()?;
    let stars = query.required("star", |text| Stars::new(text.parse().unwrap_or_default()));
    query.finish()?;
    let stars = stars.ok_or_else(|| Problem::internal("a review without stars was let through"))?;
    let command = NodeCommand::Review { user: call.user()?.id, stars };
    call.services().dispatch.node(&node, command, call.why()).await?;
    with_view(&call, &node, |view| Answer::ok(view))
}
