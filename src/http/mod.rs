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
//! A handler takes a `gate::Call`, which exists only after the gate has authorized the action in the handler's own
//! signature. It sends commands to `Dispatch` and reads the read models.

mod account;
mod account_pool;
mod admin;
mod answer;
pub mod as_of;
mod audit;
mod audit_stream;
mod authorize;
mod body;
mod bulk;
mod checkpoint;
mod chunks;
mod conditional;
mod connection;
mod console;
mod credits;
mod daily_quotas;
mod delivery;
mod erase;
mod error;
mod fields;
mod file;
mod foreign;
mod frame;
mod front;
mod gate;
mod health;
mod hint;
pub mod host;
mod idempotency;
mod image;
mod install;
mod joined;
mod limits;
mod media;
mod member;
mod metrics;
mod moderation;
mod music;
mod node;
mod node_body;
mod node_change;
mod node_query;
pub mod openapi;
mod paths;
mod payload;
mod personal;
mod publisher;
mod query;
mod range;
mod ready;
mod refusal;
mod review;
pub mod routes;
pub mod server;
mod sign_in;
mod sse;
pub mod starting;
pub mod state;
mod stream_access;
mod subject;
mod submissions;
mod task;
mod token;
mod traced;
mod translation;
mod upload;
mod uploads;
mod user;
mod version;
mod version_body;
mod version_list;
mod video;
mod waiting;
mod webhook_secret;

/// Parser of the music form, public for fuzzing.
pub use music::form::read as read_music_form;
