//! The log for those who ask who changed what, when and why: events as JSON, histories, states as they were.

pub mod record;
