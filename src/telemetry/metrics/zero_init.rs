//! Pre-registered counters: every series that is known in advance exists from the start with 0, because `rate` and
//! `increase` miss an increment that creates its series.

use std::borrow::Cow;
use std::sync::Arc;

use super::MetricFamilies;

/// Calls to a vendor. `result` is the status read that returns results, including their download.
pub const VENDOR_CALLS: [&str; 5] = ["submit", "poll", "find", "cancel", "result"];

/// Outcomes of a call, in this order: success, rejection of the job, no connection, overload, rejection of this service
/// (credentials, credit or address), no usable response, failed download of results.
pub const CALL_OUTCOMES: [&str; 7] = ["ok", "refused", "unreached", "busy", "unserved", "unknown", "unfetched"];

/// Outcomes of spans.
const SPAN_OUTCOMES: [&str; 3] = ["sent", "lost", "dropped"];

/// Outcomes of fetching the token issuer's keys.
pub(super) const ISSUER_OUTCOMES: [&str; 2] = ["ok", "failed"];

/// Label values of the counters known in advance.
#[derive(Debug, Clone, Default)]
pub struct KnownSeries {
    /// Method and path of each route, for its responses with status 500.
    pub routes: Vec<(&'static str, &'static str)>,
    /// Error codes of 429 responses.
    pub refusals: Vec<&'static str>,
    /// Names of events.
    pub events: Vec<&'static str>,
    /// Kinds of tasks.
    pub task_kinds: Vec<&'static str>,
    /// Failure codes of tasks.
    pub failure_codes: Vec<&'static str>,
    /// Names of vendors.
    pub vendors: Vec<Arc<str>>,
}

impl KnownSeries {
    pub(super) fn init_at_zero(&self, families: &MetricFamilies) {
        for (method, route) in &self.routes {
            let labels = [("method", *method), ("route", *route)];
            drop(families.requests.get_or_create(&(labels, super::StatusLabel { status: 500 })));
        }

        for code in &self.refusals {
            drop(families.rate_limited.get_or_create(&[("code", *code)]));
        }

        for outcome in SPAN_OUTCOMES {
            drop(families.spans.get_or_create(&[("outcome", outcome)]));
        }

        for outcome in ISSUER_OUTCOMES {
            drop(families.issuer_fetches.get_or_create(&[("outcome", outcome)]));
        }

        for event in &self.events {
            drop(families.events.get_or_create(&[("event", *event)]));
        }

        for kind in &self.task_kinds {
            for code in self.failure_codes.iter().chain(&[super::OTHER_CODE]) {
                drop(families.failures.get_or_create(&[("kind", *kind), ("code", *code)]));
            }
        }

        for vendor in &self.vendors {
            for (call, outcome) in possible_outcomes() {
                let labels =
                    [("vendor", Cow::Owned(vendor.to_string())), ("call", call.into()), ("outcome", outcome.into())];
                drop(families.vendor_calls.get_or_create(&labels));
            }
        }
    }
}

/// Returns pairs of a call and a possible outcome.
fn possible_outcomes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_possible = |call: &str, outcome: &str| match outcome {
        "ok" => true,
        "unfetched" => call == "result",
        _ => call != "result",
    };
    VENDOR_CALLS.into_iter().flat_map(move |call| {
        CALL_OUTCOMES.into_iter().filter(move |outcome| is_possible(call, outcome)).map(move |outcome| (call, outcome))
    })
}
