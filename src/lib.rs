//! Mediary: a node registry and media generation gateway in which every change is an event.
//!
//! The modules in dependency order; `ARCHITECTURE.md` has the picture.

pub mod client_thread;
pub mod data_dir;
pub mod disk_space;
pub mod domain;
pub mod environment;
pub mod fairness;
pub mod pluralize;
pub mod priority;
pub mod quota;
pub mod telemetry;

pub mod file_tree;

pub mod pii;

pub mod events;
pub mod media;
pub mod outbound;

pub mod oidc;
pub mod projections;
pub mod vendors;

pub mod audit;
pub mod cluster;

pub mod verification;

pub mod backup;

pub mod actors;
pub mod http;

pub mod config;

pub mod app;
pub mod cli;
