//! Middleware around every request: log line, trace, host check, CSRF, CORS and compression.

pub mod allowed_hosts;
pub(super) mod cors;
pub(super) mod csrf;
pub(super) mod request_log;
pub(super) mod request_trace;
pub(super) mod stack;
