//! Pure business rules, without I/O, clock or random numbers.
//!
//! Each aggregate reads from top to bottom in one file: state, commands, events, rejections, decide, evolve. Times, ids
//! and random numbers arrive as arguments or in the command, so that every rule is deterministic.

pub mod bearer_secret;
pub mod budget;
pub mod claim;
pub mod decider;
pub mod delivery;
pub mod event;
mod event_enum;
pub mod field_set;
pub mod ids;
pub mod image;
pub mod music;
pub mod network;
pub mod node;
pub mod parameter;
pub mod personal;
pub mod policy;
pub mod publisher;
mod shared;
pub mod task;
pub mod token;
pub mod user;
pub mod value;
pub mod version;
pub mod video;
pub mod webhook;
pub mod webhook_secret;
