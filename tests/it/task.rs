//! Tasks of every kind: lists, streams, and retention of their files.

pub mod blocked;
mod list;
mod live;
mod page;
mod request;
mod retention;
mod stream;
