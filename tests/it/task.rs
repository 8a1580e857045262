//! Tasks of every kind: listed, followed, and their files when their time is over.

mod list;
mod live;
mod retention;
mod stream;
