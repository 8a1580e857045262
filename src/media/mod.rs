//! Files outside of the log: pictures, videos, archives of node versions, and their stores.

pub mod archive;
pub mod contents;
pub mod decoders;
pub mod field;
pub mod input;
pub mod store;
