//! What is true and what may happen: pure rules without input, output, clock or chance.
//!
//! Every aggregate is one file that reads in order: rejections, state, events, commands, decide, evolve, tests.
//! Times, identifiers and random numbers arrive inside the command, so that a rule gives the same answer for ever.

pub mod claim;
pub mod decider;
pub mod delivery;
pub mod event;
pub mod field_set;
pub mod ids;
pub mod image;
mod labels;
pub mod music;
pub mod network;
pub mod node;
pub mod parameter;
pub mod personal;
pub mod policy;
pub mod publisher;
pub mod secret;
mod shared;
pub mod task;
pub mod token;
pub mod user;
pub mod value;
pub mod version;
pub mod video;
pub mod webhook_secret;
