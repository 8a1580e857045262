//! What is served: routes, permission, wire shapes and errors. The only part that knows actix-web, besides `app`.
//!
//! ```text
//! connection ─▶ frame (request id, log, last resort for errors) ─▶ compression ─▶ CORS ─▶ routes ─▶ gate ─▶ handler
//!                                                                                (who, may they, does it exist)
//! ```
//!
//! A handler is given a `gate::Call`, which exists only after the gate let the request through for the action that the
//! handler's own signature names; it asks `Dispatch` and answers from the read models.

mod admin;
mod answer;
mod authorize;
mod body;
mod bulk;
mod conditional;
mod error;
mod fields;
mod frame;
mod gate;
mod health;
mod joined;
mod media;
mod node;
mod node_create;
mod node_query;
mod publisher;
mod query;
mod range;
pub mod routes;
pub mod server;
mod submissions;
mod token;
mod upscaler;
mod user;
mod version;
