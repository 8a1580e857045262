//! What is served: routes, permission, wire shapes and errors. The only part that knows actix-web, besides `app`.
//!
//! ```text
//! connection ─▶ frame (request id, log, last resort for errors) ─▶ compression ─▶ CORS ─▶ foreign ─▶ routes ─▶ gate ─▶ handler
//!                      └──▶ (for who names no origin and no coding) ──▶────┘     (who, may they, does it exist)
//! ```
//!
//! A handler is given a `gate::Call`, which exists only after the gate let the request through for the action that the
//! handler's own signature names; it asks `Dispatch` and answers from the read models.

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

/// The reader of the music form, for whoever throws anything at it.
pub use music::form::read as read_music_form;
