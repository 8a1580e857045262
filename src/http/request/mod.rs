//! Parsing of requests: body, fields, query, ranges and preconditions.

pub mod as_of;
pub(super) mod body;
pub(super) mod body_chunks;
pub(super) mod conditional;
pub(super) mod disk_writer;
pub(super) mod fields;
pub(super) mod form;
pub(super) mod json_object;
pub(super) mod json_value;
pub(super) mod log_position;
pub(super) mod prefer_wait;
pub(super) mod query;
pub(super) mod range;
