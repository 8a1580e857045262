//! HTTP layer: routes, authorization, JSON formats and errors. With `app`, the only module that uses actix-web.
//!
//! ```text
//! connection ─▶ frame ─▶ compression ─▶ CORS ─▶ foreign ─▶ routes ─▶ gate ─▶ handler
//!                 └──▶ (no Origin, no Accept-Encoding) ──▶───┘
//!
//! frame     request id, log line, errors of the framework
//! foreign   rejects cross-origin writes
//! gate      authentication, existence of the resources, authorization
//! ```
//!
//! A handler takes a `pipeline::Call`, which exists only after the gate has authorized the action in the handler's own
//! signature. It sends commands to `Dispatch` and reads the read models.

mod account;
mod account_pool;
mod admin;
pub mod allowed_hosts;
mod api_response;
pub mod as_of;
mod audit;
mod audit_stream;
mod authorize;
mod body;
mod body_chunks;
mod bulk;
mod checkpoint;
mod conditional;
mod connection;
mod console;
mod credits;
mod csrf;
mod daily_quotas;
mod delivery;
mod erase;
mod error;
mod fields;
mod file;
mod health;
mod idempotency;
mod image;
mod install;
mod media;
mod member;
mod metrics;
mod middleware_stack;
mod moderation;
mod music;
mod node;
mod node_body;
mod node_change;
mod node_query;
pub mod openapi;
mod page_builder;
mod page_cache;
mod personal_fields;
mod pipeline;
mod prefer_wait;
mod publisher;
mod query;
mod range;
mod rate_limit;
mod rejection;
mod request_log;
mod request_trace;
mod resource;
mod response_body;
mod review;
mod router;
pub mod routes;
pub mod server;
mod sign_in;
mod sse;
pub mod startup_server;
pub mod state;
mod stream_access;
mod task;
mod task_quota;
mod token;
mod translation;
mod upload;
mod upload_limiter;
mod user;
mod vendor_webhook;
mod version;
mod version_body;
mod version_list;
mod video;
mod webhook_secret;

/// Parser of the music form, public for fuzzing.
pub use music::form::read as read_music_form;
