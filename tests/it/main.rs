//! The tests from outside, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod actors;
mod admin;
mod archive;
mod archive_check;
mod ban;
mod bulk;
mod crash;
mod damage;
mod delivery;
mod demo;
mod errors;
mod golden;
mod habits;
mod health;
mod idempotency;
mod install;
mod journal;
mod large;
mod lists;
mod log_contract;
mod media;
mod member;
mod model;
mod moderation;
mod node;
mod node_change;
mod openapi;
mod program;
mod publisher;
mod review;
mod rights;
mod routes;
mod samples;
mod sled_log;
mod snapshot;
mod support;
mod sync;
mod tidy;
mod token;
mod translation;
mod upscaler;
mod user;
mod version;
mod version_list;
