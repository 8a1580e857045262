//! Error responses: `application/problem+json` (RFC 9457; contract 2). One table defines code, status and title.

use std::fmt;

use actix_web::http::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;

use crate::actors::error::CommandError;
use crate::disk_space::DiskSpace;
use crate::domain::budget::BudgetPeriod;
use crate::domain::value::Reason;
use crate::http::api::budget::BudgetView;
use crate::http::middleware::request_log::redact_path;
use crate::http::request::fields::FieldError;
use crate::http::response::api_response::{COMPRESSION_MIN_BYTES, identity_encoding};
use crate::projections::ReadError;
use crate::projections::budget::BudgetExceeded;

/// Defines the error codes.
macro_rules! codes {
    ($($variant:ident = $code:literal, $status:literal, $title:literal;)+) => {
        /// Stable, machine-readable error code, with one HTTP status each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $($variant),+ }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code),+ }
            }

            /// Returns the HTTP status.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status),+ }
            }

            /// Returns the title, which is the same for every occurrence.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }
        }
    };
}

codes! {
    MalformedRequest    = "malformed_request",      400, "Malformed request";
    InvalidInput        = "invalid_input",          400, "Invalid input";
    MalformedBody       = "malformed_body",         400, "Malformed body";
    InvalidArchive      = "invalid_archive",        400, "Invalid archive";
    Unauthorized        = "unauthorized",           401, "Authentication required";
    BudgetExceeded      = "budget_exceeded",        402, "Budget exceeded";
    Forbidden           = "forbidden",              403, "Forbidden";
    Banned              = "banned",                 403, "Banned";
    UploadLinkInvalid   = "upload_link_invalid",    403, "Invalid upload link";
    UploadLinkExpired   = "upload_link_expired",    403, "Upload link expired";
    ApprovalRequired    = "approval_required",      403, "Account not approved";
    NotFound            = "not_found",              404, "Not found";
    MethodNotAllowed    = "method_not_allowed",     405, "Method not allowed";
    NotAcceptable       = "not_acceptable",         406, "Not acceptable";
    RequestTimeout      = "request_timeout",        408, "Request timeout";
    AlreadyExists       = "already_exists",         409, "Already exists";
    Conflict            = "conflict",               409, "Conflict with the current state";
    IdempotencyKeyInUse = "idempotency_key_in_use", 409, "Idempotency key in use";
    PayloadTooLarge     = "payload_too_large",      413, "Payload too large";
    UnsupportedMedia    = "unsupported_media_type", 415, "Unsupported media type";
    RangeNotSatisfiable = "range_not_satisfiable",  416, "Range not satisfiable";
    MisdirectedRequest  = "misdirected_request",    421, "Misdirected request";
    IdempotencyKeyReused = "idempotency_key_reused", 422, "Idempotency key reused";
    RateLimited         = "rate_limited",           429, "Rate limit exceeded";
    QuotaExceeded       = "quota_exceeded",         429, "Daily quota exceeded";
    TooManySubmissions  = "too_many_submissions",   429, "Too many unfinished tasks";
    TooManyStreams      = "too_many_streams",       429, "Too many open streams";
    TooManyTransfers    = "too_many_transfers",     429, "Too many uploads or downloads";
    TooManyCallbacks    = "too_many_callbacks",     429, "Too many pending webhooks";
    HeadersTooLarge     = "headers_too_large",      431, "Request headers too large";
    Internal            = "internal_error",         500, "Internal error";
    Overloaded          = "overloaded",             503, "Service overloaded";
    ReadOnly            = "read_only",              503, "Service is read-only";
    NotReady            = "not_ready",              503, "Service not ready";
    IssuerUnavailable   = "issuer_unavailable",     503, "Token issuer unavailable";
    InsufficientStorage = "insufficient_storage",   507, "Insufficient storage";
}

/// `Retry-After` in seconds while the disk is full: an operator must free space.
const DISK_FULL_RETRY_SECONDS: u32 = 30;

/// Content type of every error.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Error response. The detail is written for clients and contains no internals.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    code: Code,
    detail: String,
    field_errors: Vec<FieldError>,
    /// One message for each error, also for those without a field.
    messages: Vec<String>,
    header: Option<Box<(HeaderName, HeaderValue)>>,
    /// Budget that a submission would exceed.
    budget: Option<Box<BudgetView>>,
}

/// JSON body of an error.
#[derive(Serialize)]
struct ProblemJson<'p> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'p str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instance: &'p str,
    error: &'static str,
    message: &'p str,
    details: &'p [String],
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'p [FieldError],
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    budget: Option<&'p BudgetView>,
}

impl Problem {
    /// Creates an error with a message for the client.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), field_errors: Vec::new(), messages: Vec::new(), header: None, budget: None }
    }

    /// Creates the error for invalid fields.
    #[must_use]
    pub fn invalid(field_errors: Vec<FieldError>) -> Self {
        let messages = field_errors.iter().map(FieldError::to_string).collect();
        Self { field_errors, ..Self::from_messages(Code::InvalidInput, messages, 0) }
    }

    /// Creates the error for several messages, and `more` that are only counted.
    #[must_use]
    pub fn from_messages(code: Code, messages: Vec<String>, more: usize) -> Self {
        let first: Vec<_> = messages.iter().take(3).map(String::as_str).collect();
        let more = messages.len() - first.len() + more;
        let detail = if more > 0 { format!("{}; and {more} more", first.join("; ")) } else { first.join("; ") };
        Self { messages, ..Self::new(code, detail) }
    }

    /// Creates a 404.
    #[must_use]
    pub fn not_found(resource: &str) -> Self {
        Self::new(Code::NotFound, format!("{resource} not found"))
    }

    /// Creates the 404 for an unknown path; `suggestions` are similar paths.
    #[must_use]
    pub fn unknown_path(method: &Method, suggestions: &[&str]) -> Self {
        if suggestions.is_empty() {
            return Self::not_found("path");
        }
        Self::new(Code::NotFound, format!("path not found; {method} is available at {}", suggestions.join(", ")))
    }

    /// Creates the 403 for a banned resource. Only an administrator can lift the ban.
    #[must_use]
    pub fn banned(subject: &str, reason: Option<&Reason>) -> Self {
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        Self::new(
            Code::Banned,
            format!("this {subject} is banned and must be unbanned by an administrator first{reason}"),
        )
    }

    /// Creates a 401 with a challenge.
    #[must_use]
    pub fn unauthorized(detail: &str, challenge: &'static str) -> Self {
        Self::new(Code::Unauthorized, detail).with_header(WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
    }

    /// Creates a 500. The reason is logged and not sent to the client.
    pub fn internal(reason: impl fmt::Display) -> Self {
        tracing::error!(%reason, "internal error");
        Self::new(Code::Internal, "internal error; the log of the service has the cause under the request id")
    }

    /// Creates a 503 for a busy service; nothing was changed.
    #[must_use]
    pub fn overloaded() -> Self {
        Self::new(Code::Overloaded, "the service is overloaded and did nothing; try again soon").retry_after(1)
    }

    /// Creates the 402 for a submission that would exceed a budget; nothing was done.
    #[must_use]
    pub fn budget_exceeded(exceeded: &BudgetExceeded) -> Self {
        let BudgetExceeded { subject, limit, used, credits, .. } = exceeded;
        let period = match limit.period {
            BudgetPeriod::Day => " a day",
            BudgetPeriod::Month => " a month",
            BudgetPeriod::Total => "",
        };
        let left = limit.credits.saturating_sub(used.total());
        let detail = format!(
            "the budget of {} {} is {} credits{period}, of which {left} are left; this task costs {credits}",
            subject.kind(),
            subject.id(),
            limit.credits
        );
        let budget = Some(Box::new(BudgetView::from_refusal(exceeded)));
        Self { budget, ..Self::new(Code::BudgetExceeded, detail) }
    }

    /// Creates the 507 for a full disk; nothing was changed. `reason` is written for operators and names no file.
    #[must_use]
    pub fn disk_full(reason: impl fmt::Display) -> Self {
        let detail =
            format!("{reason}; nothing was changed, reads continue, and changes are accepted again once there is room");
        Self::new(Code::InsufficientStorage, detail).retry_after(DISK_FULL_RETRY_SECONDS)
    }

    /// Creates the error for a failed file operation: 507 if the disk is full, else 500.
    #[must_use]
    pub fn from_io_error(error: &std::io::Error, space: &DiskSpace) -> Self {
        space.to_disk_full(error).map_or_else(|| Self::internal(error), Self::disk_full)
    }

    /// Creates a 405; `allow` lists the allowed methods.
    #[must_use]
    pub fn method_not_allowed(allow: &str) -> Self {
        let problem = Self::new(Code::MethodNotAllowed, format!("this path allows {allow}"));
        match HeaderValue::from_str(allow) {
            Ok(allow) => problem.with_header(ALLOW, allow),
            Err(_) => problem,
        }
    }

    /// Creates the error for a bare status of the framework: the first code with that status.
    #[must_use]
    pub fn from_status(status: StatusCode) -> Self {
        let fallback = if status.is_client_error() { Code::MalformedRequest } else { Code::Internal };
        let code = Code::ALL.iter().copied().find(|code| code.status() == status.as_u16()).unwrap_or(fallback);
        Self::new(code, code.title())
    }

    /// Adds `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        self.with_header(RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// Sets the extra header, replacing an earlier one.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some(Box::new((name, value)));
        self
    }

    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// Serializes the error as JSON in one line; `path` is that of the request.
    #[must_use]
    pub fn to_json(&self, path: &str) -> String {
        let json = ProblemJson {
            r#type: format!("urn:mediary:error:{}", self.code.as_str()),
            title: self.code.title(),
            status: self.code.status(),
            detail: &self.detail,
            instance: redact_path(path),
            error: self.code.as_str(),
            message: &self.detail,
            details: &self.messages,
            errors: &self.field_errors,
            budget: self.budget.as_deref(),
        };
        serde_json::to_string(&json).unwrap_or_default()
    }

    /// Builds the response; `path` is that of the request.
    #[must_use]
    pub fn to_response(&self, path: &str) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        response.content_type(PROBLEM_JSON);
        if let Some(header) = &self.header {
            response.insert_header(*header.clone());
        }

        let body = self.to_json(path);
        if body.len() < COMPRESSION_MIN_BYTES {
            response.insert_header(identity_encoding());
        }

        let mut response = response.body(body);
        response.extensions_mut().insert(self.code);
        response
    }
}

/// Returns the code of an error response.
#[must_use]
pub fn error_code_of(response: &HttpResponse) -> Option<Code> {
    response.extensions().get::<Code>().copied()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        self.to_response("")
    }
}

impl<R: Into<Self>> From<CommandError<R>> for Problem {
    fn from(error: CommandError<R>) -> Self {
        match error {
            CommandError::Rejected(rejection) => rejection.into(),
            CommandError::BudgetExceeded(exceeded) => Self::budget_exceeded(&exceeded),
            CommandError::TooLarge { .. } => {
                Self::new(Code::PayloadTooLarge, "all fields together exceed the maximum size of one change")
            }
            CommandError::Overloaded => Self::overloaded(),
            CommandError::Full { reason } => Self::disk_full(reason),
            CommandError::ReadOnly { .. } => {
                Self::new(Code::ReadOnly, "the service is read-only until the operator has repaired it").retry_after(60)
            }
            CommandError::Failed { reason } => Self::internal(reason),
            CommandError::Interrupted => Self::internal("an actor died while it executed the command"),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(failure: ReadError) -> Self {
        Self::internal(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::node::NodeRejection;

    #[test]
    fn codes_are_unique_error_statuses() {
        for code in Code::ALL {
            assert!((400..600).contains(&code.status()), "{code:?}");
            assert_eq!(Code::ALL.iter().filter(|other| other.as_str() == code.as_str()).count(), 1);
        }
    }

    #[test]
    fn exactly_the_error_codes_are_documented_with_their_status() {
        let explained = include_str!("../../../docs/errors.md").split("\n## `").skip(1);
        let mut explained: Vec<_> = explained.filter_map(|section| section.split_once("`\n\n")).collect();
        for code in Code::ALL {
            let index = explained.iter().position(|(name, _)| *name == code.as_str());
            let (_, text) = explained.remove(index.unwrap_or_else(|| panic!("docs/errors.md does not tell {code:?}")));
            assert!(text.starts_with(&code.status().to_string()), "{code:?} has another status");
        }
        assert!(explained.is_empty(), "docs/errors.md tells of codes that are not there: {explained:?}");
    }

    #[test]
    fn temporary_codes_are_in_the_retry_table() {
        let page = include_str!("../../../docs/errors.md");
        let table = page.split("| Temporary: retry later").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
        let codes: Vec<_> = table.split('`').skip(1).step_by(2).collect();
        for code in Code::ALL.iter().filter(|code| matches!(code.status(), 408 | 429 | 500..)) {
            assert!(codes.contains(&code.as_str()), "docs/errors.md does not say who must act on {code:?}");
        }
    }

    #[test]
    fn framework_statuses_map_to_codes() {
        assert_eq!(Problem::from_status(StatusCode::NOT_FOUND).code(), Code::NotFound);
        assert_eq!(Problem::from_status(StatusCode::IM_A_TEAPOT).code(), Code::MalformedRequest);
        assert_eq!(Problem::from_status(StatusCode::BAD_GATEWAY).code(), Code::Internal);
    }

    #[test]
    fn internal_errors_hide_their_cause() {
        let problem = Problem::from(CommandError::<NodeRejection>::Failed { reason: "/secret/path".to_owned() });
        assert_eq!(problem.code(), Code::Internal);
        assert!(!problem.to_string().contains("secret"));
    }

    #[test]
    fn unexecuted_commands_have_retry_after() {
        for (error, code) in [
            (CommandError::Overloaded, Code::Overloaded),
            (CommandError::ReadOnly { reason: "disk full".to_owned() }, Code::ReadOnly),
        ] {
            let problem = Problem::from(CommandError::<NodeRejection>::clone(&error));
            let response = problem.to_response("/nodes");
            assert_eq!((problem.code(), response.status().as_u16()), (code, 503));
            assert!(response.headers().contains_key(RETRY_AFTER));
            assert!(!problem.to_string().contains("disk"));
        }
        let full = CommandError::Full { reason: "disk full: 1 MiB free".to_owned() };
        let problem = Problem::from(CommandError::<NodeRejection>::clone(&full));
        let response = problem.to_response("/nodes");
        assert_eq!((problem.code(), response.status().as_u16()), (Code::InsufficientStorage, 507));
        assert!(response.headers().contains_key(RETRY_AFTER));
        assert!(problem.to_string().starts_with("disk full: 1 MiB free; nothing was changed"));
        assert_eq!(Problem::from(CommandError::<NodeRejection>::Interrupted).code(), Code::Internal);
    }

    #[test]
    fn a_full_disk_is_507_and_not_500() {
        let code = |kind: std::io::ErrorKind| Problem::from_io_error(&kind.into(), &DiskSpace::default()).code();
        let full = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::Other].map(code);
        assert_eq!(full, [Code::InsufficientStorage, Code::Internal]);
    }

    #[test]
    fn the_detail_lists_the_first_errors_and_counts_the_rest() {
        let errors = (0..5).map(|n| FieldError::new(format!("/{n}"), "is bad")).collect();
        assert_eq!(Problem::invalid(errors).to_string(), "/0 is bad; /1 is bad; /2 is bad; and 2 more");
    }
}
