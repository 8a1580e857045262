//! Price of a submission that is checked but not made (contract 11): `?estimate=true`.

use serde::Serialize;

use crate::domain::policy::Action;
use crate::domain::video::PriceItem;
use crate::http::pipeline::RequestContext;
use crate::http::request::query::Query;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;

/// Name of the query parameter.
pub const ESTIMATE: &str = "estimate";

/// Price of a submission.
#[derive(Serialize)]
struct EstimateView<'p> {
    credits: u32,
    breakdown: &'p [PriceItem],
}

impl RequestContext {
    /// Returns `true` if the request asks only for the price of its submission.
    ///
    /// # Errors
    /// If the parameter is neither true nor false.
    pub fn is_estimate(&self) -> Result<bool, Problem> {
        let mut query = self.query()?;
        let is_estimate = query.flag(ESTIMATE);
        query.finish()?;
        Ok(is_estimate.unwrap_or(false))
    }
}

/// Returns `true` if a submission with this query asks only for its price, and so neither uses an idempotency key nor
/// counts in a quota.
#[must_use]
pub fn is_estimate(action: Action, query: &str) -> bool {
    action.is_submission() && Query::parse(query).is_ok_and(|mut query| query.flag(ESTIMATE) == Some(true))
}

/// Returns the response with a price.
///
/// # Errors
/// An internal error if it cannot be serialized.
pub fn estimate_response(breakdown: &[PriceItem]) -> Result<ApiResponse, Problem> {
    ApiResponse::ok(&EstimateView { credits: PriceItem::sum(breakdown), breakdown })
}
