//! What may be counted, as far as it is known before it happens. Whoever watches a counter grow (`rate`, `increase`) sees nothing
//! of a first time that makes the counter: so each of these is there from the start, with 0.

use super::Counted;

/// What is asked of a vendor: `result` is the question that is answered with results, with bringing them home.
pub const VENDOR_CALLS: [&str; 4] = ["submit", "poll", "find", "result"];

/// What may come of it: an answer of use; a refusal; not reached; too much to do; not served; no answer, or none of use; results that
/// could not be brought home.
pub const CALL_OUTCOMES: [&str; 7] = ["ok", "refused", "unreached", "busy", "unserved", "unknown", "unfetched"];

/// What became of spans.
const SPANS: [&str; 3] = ["sent", "lost", "dropped"];

/// What came of asking the issuer of tokens for its keys: they were had, or not.
pub(super) const ISSUER_OUTCOMES: [&str; 2] = ["ok", "failed"];

/// What may be counted.
#[derive(Debug, Clone, Default)]
pub struct Foreseen {
    /// Method and path of each route: an inner failure of each is foreseen.
    pub routes: Vec<(&'static str, &'static str)>,
    /// Codes of errors that are answered 429.
    pub refusals: Vec<&'static str>,
    /// Names of events.
    pub events: Vec<&'static str>,
    /// Kinds of tasks.
    pub kinds: Vec<&'static str>,
    /// Codes by which tasks fail.
    pub codes: Vec<&'static str>,
    /// Names of vendors.
    pub vendors: Vec<&'static str>,
}

impl Foreseen {
    pub(super) fn begin(&self, counted: &Counted) {
        for (method, route) in &self.routes {
            let labels = [("method", *method), ("route", *route)];
            drop(counted.requests.get_or_create(&(labels, super::StatusLabel { status: 500 })));
        }
        for code in &self.refusals {
            drop(counted.refused.get_or_create(&[("code", *code)]));
        }
        for outcome in SPANS {
            drop(counted.spans.get_or_create(&[("outcome", outcome)]));
        }
        for outcome in ISSUER_OUTCOMES {
            drop(counted.issuer.get_or_create(&[("outcome", outcome)]));
        }
        for event in &self.events {
            drop(counted.events.get_or_create(&[("event", *event)]));
        }
        for kind in &self.kinds {
            for code in self.codes.iter().chain(&[super::OTHER]) {
                drop(counted.failures.get_or_create(&[("kind", *kind), ("code", *code)]));
            }
        }
        for vendor in &self.vendors {
            for (call, outcome) in outcomes() {
                drop(counted.calls.get_or_create(&[("vendor", *vendor), ("call", call), ("outcome", outcome)]));
            }
        }
    }
}

/// What may come of each call.
fn outcomes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let may_be = |call: &str, outcome: &str| match outcome {
        "ok" => true,
        "unfetched" => call == "result",
        _ => call != "result",
    };
    VENDOR_CALLS.into_iter().flat_map(move |call| {
        CALL_OUTCOMES.into_iter().filter(move |outcome| may_be(call, outcome)).map(move |outcome| (call, outcome))
    })
}
