//! Pictures outside the log: how clients send them, and the files that hold them.

pub mod field;
pub mod input;
pub mod store;
