//! Archives of node versions: upload links, storage, checks before storing, and packing and unpacking for commands.

pub mod check;
pub mod compare;
pub mod contents;
mod directory;
pub mod pack;
mod path;
pub mod store;
pub mod unpack;
pub mod upload_token;
