//! Mediary: a node registry and media generation gateway in which every change is an event.
//!
//! The modules in dependency order; `ARCHITECTURE.md` has the picture.

pub mod clock;
pub mod data_dir;
pub mod domain;
pub mod events;
pub mod projections;
pub mod actors;
