//! The zips of node versions: the links by which they come, where they are kept, and what is looked at before they are.

pub mod check;
mod directory;
mod path;
pub mod store;
pub mod ticket;
