//! Tasks of every kind: listed, followed, and their files when their time is over.

pub mod hindrance;
mod list;
mod live;
mod page;
mod request;
mod retention;
mod stream;
