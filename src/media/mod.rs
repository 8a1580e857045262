//! Files outside of the log: pictures, videos, archives of node versions, and their stores.

pub mod archive;
pub mod content_check;
pub mod decoders;
pub mod file_ticket;
mod hash_directories;
pub mod incoming_file;
pub mod input;
pub mod part_files;
pub mod picture_input;
pub mod store;
pub mod thumbnail;
pub mod uploaded_files;
