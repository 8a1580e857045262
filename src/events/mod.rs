//! What happened: the log, its stored shapes, and what it promises.

pub mod envelope;
pub mod log;
pub mod stream;
