//! Error responses: `application/problem+json` (RFC 9457; contract 2). One table defines each code, for
//! `docs/errors.md` and the OpenAPI document too.

use std::fmt;

use actix_web::http::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;

use crate::actors::error::CommandError;
use crate::disk_space::DiskSpace;
use crate::domain::budget::BudgetPeriod;
use crate::domain::value::Reason;
use crate::file_tree::is_unavailable;
use crate::http::api::budget::BudgetView;
use crate::http::middleware::request_log::redact_path;
use crate::http::request::fields::FieldError;
use crate::http::response::api_response::{COMPRESSION_MIN_BYTES, identity_encoding};
use crate::projections::ReadError;
use crate::projections::budget::BudgetExceeded;

/// Defines the error codes.
macro_rules! codes {
    ($($variant:ident = $code:literal, $status:literal, $title:literal, meaning: $meaning:literal, action: $action:literal;)+) => {
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

            /// Returns the sentence that explains the code, as Markdown.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),+ }
            }

            /// Returns the sentence that tells the client what to do, as Markdown.
            #[must_use]
            pub const fn action(self) -> &'static str {
                match self { $(Self::$variant => $action),+ }
            }
        }
    };
}

codes! {
    MalformedRequest = "malformed_request", 400, "Malformed request",
        meaning: "The path or query is not UTF-8, the body is truncated, or `Idempotency-Key` is not 1 to 255 visible ASCII characters.",
        action: "Fix the request.";
    InvalidInput = "invalid_input", 400, "Invalid input",
        meaning: "Fields or parameters are missing, have the wrong type, are out of range or contradict each other.",
        action: "Fix the fields in `errors`, which says what is allowed.";
    MalformedBody = "malformed_body", 400, "Malformed body",
        meaning: "The body is missing, is not JSON or a readable form, is nested deeper than 64 levels, or has more than 100,000 elements.",
        action: "Fix the body; `detail` has the line and column.";
    InvalidArchive = "invalid_archive", 400, "Invalid archive",
        meaning: "The upload is not a zip, or has paths outside the archive, links, encrypted entries, duplicate names, or too many or too large entries.",
        action: "Upload another archive; the link stays valid.";
    Unauthorized = "unauthorized", 401, "Authentication required",
        meaning: "The token is missing, malformed, unknown or revoked.",
        action: "Send a valid token, or none where none is needed.";
    BudgetExceeded = "budget_exceeded", 402, "Budget exceeded",
        meaning: "The task costs more than is left of a budget; no task was created.",
        action: "Wait for `resets_at`, or ask an administrator for more.";
    Forbidden = "forbidden", 403, "Forbidden",
        meaning: "The caller lacks the permission that `detail` names, or a web page of another origin sent the request.",
        action: "Ask an administrator or the owner.";
    Banned = "banned", 403, "Banned",
        meaning: "The user, publisher or node is banned; `detail` has the reason.",
        action: "Ask an administrator to lift the ban.";
    UploadLinkInvalid = "upload_link_invalid", 403, "Invalid upload link",
        meaning: "The service did not issue the link, the link was changed, or its user lost access.",
        action: "Request another link.";
    UploadLinkExpired = "upload_link_expired", 403, "Upload link expired",
        meaning: "The link of an archive is older than 15 minutes, or the link of an input file older than the `expires_at` of the file.",
        action: "Request another link.";
    ApprovalRequired = "approval_required", 403, "Account not approved",
        meaning: "`auth.require_approval` is on and the account is not approved.",
        action: "Ask an administrator to set `isApproved`.";
    NotFound = "not_found", 404, "Not found",
        meaning: "The path or resource does not exist, or not for this caller.",
        action: "Check the path and the id; for a misspelled path, `detail` lists similar ones.";
    MethodNotAllowed = "method_not_allowed", 405, "Method not allowed",
        meaning: "The path exists, but not for this method.",
        action: "Use a method in `Allow`.";
    NotAcceptable = "not_acceptable", 406, "Not acceptable",
        meaning: "`Accept-Encoding` excludes every available encoding; `Accept` never causes an error.",
        action: "Accept more encodings.";
    RequestTimeout = "request_timeout", 408, "Request timeout",
        meaning: "The body arrived slower than 1 KiB/s with 10 s of tolerance, or an archive took longer than 15 minutes or an input file longer than an hour.",
        action: "Retry.";
    AlreadyExists = "already_exists", 409, "Already exists",
        meaning: "The id or version number is in use, or was: deleted ones are never reused.",
        action: "Choose another one.";
    Conflict = "conflict", 409, "Conflict with the current state",
        meaning: "The current state does not allow the change; `detail` names it.",
        action: "Retry if there is a `Retry-After`; else change the state first.";
    IdempotencyKeyInUse = "idempotency_key_in_use", 409, "Idempotency key in use",
        meaning: "The first request with this key is still running.",
        action: "Retry to get its response.";
    PayloadTooLarge = "payload_too_large", 413, "Payload too large",
        meaning: "The body exceeds the limit of the route, or all fields together exceed that of one change.",
        action: "Send less.";
    UnsupportedMedia = "unsupported_media_type", 415, "Unsupported media type",
        meaning: "The route does not accept the content type, or the body is compressed.",
        action: "Send a content type that `detail` names, uncompressed.";
    RangeNotSatisfiable = "range_not_satisfiable", 416, "Range not satisfiable",
        meaning: "The requested `Range` starts after the end of the file.",
        action: "Use the length in `Content-Range`.";
    MisdirectedRequest = "misdirected_request", 421, "Misdirected request",
        meaning: "The service does not serve the host in `Host` or in the request target.",
        action: "Use another host, or ask the operator to add it to `allowed_hosts`.";
    IdempotencyKeyReused = "idempotency_key_reused", 422, "Idempotency key reused",
        meaning: "The key was used in the last 24 hours with another method, path, query, body or literal `Content-Type`.",
        action: "Use a new key.";
    RateLimited = "rate_limited", 429, "Rate limit exceeded",
        meaning: "The caller sent too many requests of this kind.",
        action: "Wait; `RateLimit-Policy` has the limits and `RateLimit` what is left.";
    QuotaExceeded = "quota_exceeded", 429, "Daily quota exceeded",
        meaning: "A daily limit of the account or publisher is used up: tasks, credits, stored bytes, nodes, versions or publishers.",
        action: "Wait until midnight UTC at the latest; `detail` and `RateLimit` show what is left.";
    TooManySubmissions = "too_many_submissions", 429, "Too many unfinished tasks",
        meaning: "The caller has `limits.submissions_per_caller` unfinished tasks.",
        action: "Wait for one to end.";
    TooManyStreams = "too_many_streams", 429, "Too many open streams",
        meaning: "The account has the maximum number of event streams or music streams open.",
        action: "Close one.";
    TooManyTransfers = "too_many_transfers", 429, "Too many uploads or downloads",
        meaning: "The account has the maximum number of uploads or downloads in progress, or of uploaded files.",
        action: "Wait until one ends or expires.";
    TooManyCallbacks = "too_many_callbacks", 429, "Too many pending webhooks",
        meaning: "The account, or a webhook of the publisher, has `callbacks.pending_per_account` pending deliveries, or a \
                  delivery was redelivered ten times today.",
        action: "Fix the receiver, or do without the webhook: submit without a URL, disable the webhook of the publisher. \
                 Redeliver again the next day (UTC).";
    HeadersTooLarge = "headers_too_large", 431, "Request headers too large",
        meaning: "Request line and headers together exceed 32 KiB.",
        action: "Send less.";
    Internal = "internal_error", 500, "Internal error",
        meaning: "The service failed; its log has the cause under the request id.",
        action: "Report it to the operator.";
    Overloaded = "overloaded", 503, "Service overloaded",
        meaning: "A queue or all slots (of uploads, event streams, music) are full, or the circuit breaker of the music vendor is open.",
        action: "Retry.";
    OutcomeUnknown = "outcome_unknown", 503, "Outcome unknown",
        meaning: "The shared log of the cluster did not confirm the change in time; it may still take effect.",
        action: "Retry with the same `Idempotency-Key`; without one, check first whether the change is there.";
    ReadOnly = "read_only", 503, "Service is read-only",
        meaning: "A disk write failed, the log is damaged, or the encryption key of the user to change is missing; reads stay available.",
        action: "Tell the operator; `detail` says which case it is.";
    NotReady = "not_ready", 503, "Service not ready",
        meaning: "The service is starting, or cannot accept changes; `detail` says why.",
        action: "Retry.";
    Behind = "behind", 503, "Position not reached",
        meaning: "This service did not get to the `X-Log-Position` of the request within 2 s.",
        action: "Retry.";
    IssuerUnavailable = "issuer_unavailable", 503, "Token issuer unavailable",
        meaning: "The keys of the issuer in `auth.oidc` are not yet known and cannot be fetched.",
        action: "Retry.";
    InsufficientStorage = "insufficient_storage", 507, "Insufficient storage",
        meaning: "The disk is too full, or too many files are open; reads stay available.",
        action: "Tell the operator; changes are accepted again when there is room.";
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
    /// One message for each error, including those without a field.
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

    /// Adds the id to the message of [`Problem::not_found`]. `path_param` returns a parameter of the path, by its name.
    #[must_use]
    pub fn with_missing_id(mut self, path_param: impl Fn(&str) -> Option<String>) -> Self {
        let Some((resource, rest)) = self.detail.split_once(" not found").filter(|_| self.code == Code::NotFound)
        else {
            return self;
        };

        // The last word of the resource is part of the name of its parameter: `nodeId`, `task_id`, `version`.
        let word = resource.rsplit(' ').next().unwrap_or(resource);
        let names = [format!("{word}Id"), format!("{word}_id"), word.to_owned(), "id".to_owned()];
        let id = names.iter().find_map(|name| path_param(name));
        let kind = path_param("kind").filter(|_| resource == "resource").map(|kind| format!("{kind}/"));
        let id = id.map(|id| shown_id(&format!("{}{id}", kind.unwrap_or_default())));
        let id = id.map(|id| format!(" {id}")).unwrap_or_default();

        let node = path_param("nodeId").filter(|_| resource == "node version");
        let of_node = node.map(|node| format!(" of {}", shown_id(&node))).unwrap_or_default();
        self.detail = format!("{resource}{id}{of_node} not found{rest}");
        self
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

    /// Creates the error for a file that cannot be stored: 507 if the disk is full, else as
    /// [`Problem::from_read_error`].
    #[must_use]
    pub fn from_io_error(error: &std::io::Error, space: &DiskSpace) -> Self {
        space.to_disk_full(error).map_or_else(|| Self::from_read_error(error), Self::disk_full)
    }

    /// Creates the error for a file that cannot be read: 503 if it is in a bucket that cannot be used, else 500.
    #[must_use]
    pub fn from_read_error(error: &std::io::Error) -> Self {
        if is_unavailable(error) { Self::files_unavailable() } else { Self::internal(error) }
    }

    /// Creates the 503 for files in a bucket that cannot be used.
    #[must_use]
    pub fn files_unavailable() -> Self {
        Self::new(Code::NotReady, "the bucket with the files of this cluster cannot be used; try again").retry_after(5)
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
            CommandError::Overtaken | CommandError::Overloaded => Self::overloaded(),
            CommandError::Full { reason } => Self::disk_full(reason),
            CommandError::Claimed => {
                let detail = "another node executes the first request with this key; retry to get its response";
                Self::new(Code::IdempotencyKeyInUse, detail).retry_after(1)
            }
            CommandError::Unreachable { .. } => {
                Self::new(Code::NotReady, "the shared log cannot be reached, and nothing was changed").retry_after(5)
            }
            CommandError::OutcomeUnknown { .. } => {
                let detail = "the shared log did not confirm the change in time; it may still take effect";
                Self::new(Code::OutcomeUnknown, detail).retry_after(5)
            }
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

/// Maximum length of an id in an error, in characters.
const SHOWN_ID_CHARS: usize = 100;

/// Returns an id as errors show it: the beginning of a long one, with control characters escaped.
fn shown_id(id: &str) -> String {
    let shown = id.chars().take(SHOWN_ID_CHARS).flat_map(char::escape_debug).collect();
    if id.chars().nth(SHOWN_ID_CHARS).is_some() { format!("{shown}…") } else { shown }
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
    fn a_missing_resource_is_named_by_the_parameters_of_the_path() {
        let named = |problem: Problem, params: &[(&str, &str)]| {
            let param = |name: &str| params.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            problem.with_missing_id(param).detail
        };
        let version = || Problem::not_found("node version");
        assert_eq!(named(Problem::not_found("node"), &[("nodeId", "face-tools")]), "node face-tools not found");
        assert_eq!(named(Problem::not_found("task"), &[("task_id", "1\n")]), "task 1\\n not found");
        assert_eq!(named(Problem::not_found("user"), &[]), "user not found");
        assert_eq!(named(Problem::not_found("path"), &[("nodeId", "a")]), "path not found");
        assert_eq!(named(version(), &[("nodeId", "a"), ("version", "9.9.9")]), "node version 9.9.9 of a not found");
        assert_eq!(named(version(), &[("nodeId", "a")]), "node version of a not found");

        let resource = Problem::not_found("resource");
        assert_eq!(named(resource, &[("kind", "node"), ("id", "a")]), "resource node/a not found");

        let erased = Problem::new(Code::NotFound, "user not found: it was erased");
        assert_eq!(named(erased, &[("userId", "7")]), "user 7 not found: it was erased");

        let long = named(Problem::not_found("node"), &[("nodeId", &"x".repeat(200))]);
        assert!(long.contains('…') && long.chars().count() < 120, "{long}");
        assert_eq!(named(Problem::new(Code::Conflict, "x not found"), &[("id", "7")]), "x not found");
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
