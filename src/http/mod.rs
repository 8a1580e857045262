//! HTTP layer: routes, authorization, JSON formats and errors. Only this module and `app` use actix-web.
//!
//! ```text
//! connection ─▶ request log ─▶ compression ─▶ CORS ─▶ CSRF ─▶ router ─▶ pipeline ─▶ handler
//!
//! request log  request id, log line, checks of host and size, errors of the framework (`middleware::request_log`)
//! CSRF         rejects cross-origin writes (`middleware::csrf`)
//! pipeline     authentication, rate limits, existence of the resources, authorization
//! handler      `api`, one module for each noun
//! ```
//!
//! A handler takes a `pipeline::Call<ACTION>`, which only the pipeline can create, after it has authorized that action.
//! Handlers send commands to `Dispatch` and read the read models.

pub mod api;
mod auth;
mod connection;
mod console;
mod idempotency;
pub mod job_body;
mod limits;
pub mod middleware;
pub mod openapi;
mod pipeline;
pub mod prompt_reports;
pub mod request;
mod resource;
mod response;
mod router;
pub mod routes;
pub mod server;
pub mod startup_server;

pub use response::error::Code as ErrorCode;

/// Parser of the music form, public for fuzzing.
pub use api::music::form::read as read_music_form;
