//! Files outside the log: pictures as clients send them, archives of node versions, and where both are kept.

pub mod archive;
pub mod contents;
pub mod decoders;
pub mod field;
pub mod input;
pub mod store;
