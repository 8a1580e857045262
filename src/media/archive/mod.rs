//! Archives of node versions: upload links, storage, and checks before storing.

pub mod check;
mod directory;
mod path;
pub mod store;
pub mod upload_token;
