//! The one way out: nothing else in the house opens a connection. The rules, in the order in which they are applied:
//!
//! 1. The URL is http or https, has a host, and carries no user name or password (`client`).
//! 2. A host that is an address, in whatever notation, is held against the address rules before anything is sent;
//!    the URL parser has turned `2130706433` and `0x7f.1` into `127.0.0.1` by then (`client`, `address`).
//! 3. A host that is a name is resolved for this one attempt, and only the addresses that the rules permit are dialled.
//!    Connections are never kept, so that no attempt escapes this check (`client`, `resolver`).
//! 4. No proxy from the environment, no redirect that is followed unseen: neither can lead to a place that was not checked
//!    (`client`); where redirects are followed, each is a new exchange under all of these rules (`fetch`).
//! 5. The address that answered is held against the rules once more (`client`).
//! 6. Connecting, the whole exchange, and what is read of an answer are limited (`client`).
//! 7. What is told of a failure names neither the URL nor an address that a name was resolved to: the owner of a task
//!    reads it, and must not learn the network of the service from it (`client`, `callback`).

pub mod address;
pub mod api;
pub mod callback;
pub mod client;
pub mod collector;
pub mod document;
pub mod feed;
pub mod fetch;
pub mod lines;
mod resolver;
pub mod signature;
pub mod vendor;

pub use client::install_tls;
