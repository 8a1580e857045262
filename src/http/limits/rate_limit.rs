//! Rate limits of one caller, by kind of request, and their headers (`RateLimit` and `RateLimit-Policy`,
//! draft-ietf-httpapi-ratelimit-headers).
//!
//! The state is in memory and lost at a restart. Daily quotas are not lost: they are computed from the recorded tasks.

use std::fmt::Write;

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};

use crate::domain::policy::Action;
use crate::domain::value::{Timestamp, named_values};
use crate::http::api::sign_in::FormerAccounts;
use crate::http::auth::account::client_address;
use crate::http::auth::authorize::Identity;
use crate::http::response::error::{Code, Problem};
use crate::quota::subscriber_network;

mod client_ip;
mod rate;
mod rate_store;

pub use client_ip::{ForwardedHeader, TrustedProxies};
pub use rate::Rate;
pub use rate_store::Caller;
use rate_store::RateStore;

pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Paths of health and readiness probes.
const PROBES: [&str; 2] = ["/health", "/ready"];

const SECOND_MICROS: i64 = 1_000_000;

named_values! {
    /// Class of requests with a common rate limit, by the name of the policy.
    RateClass {
        Reading = "reads",
        Changing = "changes",
        Submitting = "submissions",
    }
}

impl RateClass {
    /// Returns the class of requests for an action at a path; `None` for probes, which are never limited. `only_reads`
    /// is `true` for a method that changes nothing.
    #[must_use]
    pub fn classify(action: Action, path: &str, only_reads: bool) -> Option<Self> {
        match action {
            Action::ReadServiceState if PROBES.contains(&path) => None,
            action if action.is_submission() => Some(Self::Submitting),
            action if only_reads || !action.is_write() => Some(Self::Reading),
            _ => Some(Self::Changing),
        }
    }
}

/// Rate limits by class; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default)]
pub struct RateLimits {
    pub reading: Option<Rate>,
    pub changing: Option<Rate>,
    pub submitting: Option<Rate>,
}

/// Rate limiters of all classes.
pub struct RateLimiters {
    proxies: TrustedProxies,
    limiters: Vec<ClassLimiter>,
}

/// Limit of one class, and the state of its callers.
struct ClassLimiter {
    class: RateClass,
    rate: Rate,
    store: RateStore,
}

impl RateLimiters {
    /// Creates the limiters with no requests counted.
    #[must_use]
    pub fn new(rates: &RateLimits, proxies: TrustedProxies) -> Self {
        let RateLimits { reading, changing, submitting } = *rates;
        let rates =
            [(RateClass::Reading, reading), (RateClass::Changing, changing), (RateClass::Submitting, submitting)];
        let limiter = |(class, rate): (RateClass, Option<Rate>)| {
            Some(ClassLimiter { class, rate: rate?, store: RateStore::default() })
        };
        Self { proxies, limiters: rates.into_iter().filter_map(limiter).collect() }
    }

    /// Returns `true` if no class has a limit.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.limiters.is_empty()
    }

    /// Counts a request and sets the rate limit headers of its response.
    ///
    /// # Errors
    /// 429 if the caller exceeds the limit.
    pub fn check(
        &self,
        class: Option<RateClass>,
        identity: &Identity,
        request: &HttpRequest,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let limiter = self.limiters.iter().find(|limiter| Some(limiter.class) == class);
        let Some(ClassLimiter { class, rate, store }) = limiter else { return Ok(()) };

        let decision = store.check(rate, self.caller(identity, request), now.micros());

        let limit = rate.burst();
        let window = ceil_seconds(rate.window());
        report_rate_limit(
            request,
            RateLimitStatus {
                policy: class.as_str(),
                limit,
                window,
                remaining: decision.remaining,
                reset_after: decision.reset_after,
            },
        );

        let Some(wait) = decision.retry_after else { return Ok(()) };
        let wait = ceil_seconds(wait);
        let detail = format!("rate limit for {} exceeded; retry in {wait} s", class.as_str());
        Err(Problem::new(Code::RateLimited, detail).retry_after(u32::try_from(wait).unwrap_or(u32::MAX)))
    }

    /// Returns the caller that a request is counted for.
    pub fn caller(&self, identity: &Identity, request: &HttpRequest) -> Caller {
        match identity {
            // A person who erases an account and signs in again keeps the limits of the first account.
            Identity::User { profile, .. } => {
                Caller::User(FormerAccounts::from_request(request).first().copied().unwrap_or(profile.id))
            }
            Identity::Token { id, .. } => Caller::Token(*id),
            Identity::Anonymous => Caller::from_address(client_address(request, &self.proxies)),
        }
    }

    /// Returns the owner of a caller's idempotency keys. Anonymous callers are distinguished by address.
    pub fn key_owner(&self, identity: &Identity, request: &HttpRequest) -> String {
        match identity.actor() {
            Some(actor) => actor.to_string(),
            None => format!("anonymous/{}", subscriber_network(client_address(request, &self.proxies))),
        }
    }
}

/// State of one limit for the response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitStatus {
    pub policy: &'static str,
    /// Maximum number of requests in a window.
    pub limit: i64,
    /// Length of the window in seconds.
    pub window: i64,
    /// Requests that are available now.
    pub remaining: i64,
    /// Microseconds until `limit` requests are available again.
    pub reset_after: i64,
}

/// Request extension with the limits to report in the response.
struct ReportedRateLimits(Vec<RateLimitStatus>);

/// Adds a limit to the headers of the response.
pub fn report_rate_limit(request: &HttpRequest, status: RateLimitStatus) {
    let mut extensions = request.extensions_mut();
    match extensions.get_mut::<ReportedRateLimits>() {
        Some(ReportedRateLimits(statuses)) => statuses.push(status),
        None => drop(extensions.insert(ReportedRateLimits(vec![status]))),
    }
}

/// Sets the headers from the limits added with [`report_rate_limit`].
pub fn set_rate_limit_headers(request: &HttpRequest, response: &mut HttpResponse) {
    let Some(ReportedRateLimits(statuses)) = request.extensions_mut().remove::<ReportedRateLimits>() else { return };

    let mut limits = String::new();
    let mut policies = String::new();

    for RateLimitStatus { policy, limit, window, remaining, reset_after } in statuses {
        let comma = if limits.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(limits, "{comma}\"{policy}\";r={remaining};t={}", ceil_seconds(reset_after));
        let _ = write!(policies, "{comma}\"{policy}\";q={limit};w={window}");
    }

    for (name, value) in [(RATE_LIMIT, limits), (RATE_LIMIT_POLICY, policies)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
}

/// Converts microseconds to seconds, rounded up.
fn ceil_seconds(micros: i64) -> i64 {
    micros.saturating_add(SECOND_MICROS - 1) / SECOND_MICROS
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    /// Creates limiters that allow this rate of reads, and any rate of other requests.
    fn limits(per_minute: u32, burst: u32) -> RateLimiters {
        let rates = RateLimits { reading: Rate::new(per_minute, burst), ..RateLimits::default() };
        RateLimiters::new(&rates, TrustedProxies { networks: Vec::new(), header: ForwardedHeader::XForwardedFor })
    }

    /// Checks a read at a second; returns its error code and the headers of its response.
    fn send(limits: &RateLimiters, second: i64) -> (Option<Code>, [String; 3]) {
        let request = TestRequest::default().peer_addr("192.0.2.1:9".parse().unwrap()).to_http_request();
        let now = Timestamp::from_micros(second * SECOND_MICROS);
        let error = limits.check(Some(RateClass::Reading), &Identity::Anonymous, &request, now).err();
        let mut response =
            error.as_ref().map_or_else(|| HttpResponse::Ok().finish(), |problem| problem.to_response("/"));
        set_rate_limit_headers(&request, &mut response);
        let header = |name: &str| response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        (error.map(|problem| problem.code()), ["ratelimit", "ratelimit-policy", "retry-after"].map(header))
    }

    #[test]
    fn responses_report_the_remaining_requests_and_rejections_the_delay() {
        let limits = limits(30, 2);
        let headers = |remaining: i64, reset_after: i64, retry: &str| {
            [format!("\"reads\";r={remaining};t={reset_after}"), "\"reads\";q=2;w=4".to_owned(), retry.to_owned()]
        };
        assert_eq!(send(&limits, 10), (None, headers(1, 2, "")));
        assert_eq!(send(&limits, 10), (None, headers(0, 4, "")));
        assert_eq!(send(&limits, 10), (Some(Code::RateLimited), headers(0, 4, "2")));
        assert_eq!(send(&limits, 12), (None, headers(0, 4, "")));
        assert_eq!(send(&limits, 60), (None, headers(1, 2, "")));
    }

    #[test]
    fn without_a_limit_nothing_is_counted_or_reported() {
        let no_headers = (None, [String::new(), String::new(), String::new()]);
        assert!((0..100).all(|_| send(&limits(0, 1), 0) == no_headers));
    }

    #[test]
    fn probes_are_exempt_and_safe_methods_count_as_reads() {
        let class = |action, only_reads| RateClass::classify(action, "/path", only_reads);
        for probe in ["/health", "/ready"] {
            assert_eq!(RateClass::classify(Action::ReadServiceState, probe, true), None);
        }
        assert_eq!(RateClass::classify(Action::ReadServiceState, "/metrics", true), Some(RateClass::Reading));
        assert_eq!(class(Action::ReadRegistry, false), Some(RateClass::Reading));
        assert_eq!(class(Action::CreateNode, true), Some(RateClass::Reading));
        assert_eq!(class(Action::CreateNode, false), Some(RateClass::Changing));
        assert_eq!(class(Action::SubmitVideoTask, false), Some(RateClass::Submitting));
    }
}
