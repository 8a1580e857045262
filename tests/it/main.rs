//! The tests from outside, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod actors;
mod admin;
mod bulk;
mod crash;
mod delivery;
mod demo;
mod errors;
mod golden;
mod habits;
mod health;
mod journal;
mod large;
mod log_contract;
mod media;
mod node;
mod program;
mod publisher;
mod routes;
mod samples;
mod sled_log;
mod support;
mod sync;
mod tidy;
mod upscaler;
mod user;
mod version;
