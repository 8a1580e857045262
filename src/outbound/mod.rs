//! Outbound connections. No other module opens one. These rules apply, in order:
//!
//! 1. The URL is http or https, has a host, and contains no user name or password (`client`).
//! 2. A host that is an IP address, in any notation, is checked against the address rules before anything is sent; the
//!    URL parser has normalized `2130706433` and `0x7f.1` to `127.0.0.1` (`client`, `address`).
//! 3. A host name is resolved for each attempt, and only permitted addresses are used. Connections are not reused, so
//!    no attempt skips this check; only polls of a vendor, the trace export and the bucket of a cluster reuse them,
//!    because the operator chose these hosts (`client`, `resolver`).
//! 4. No proxy of the environment is used and no redirect is followed automatically, because either could lead to an
//!    unchecked address (`client`). `fetch` follows redirects as separate exchanges under all of these rules.
//! 5. The actual peer address is checked again (`client`).
//! 6. The time to connect, the total time and the bytes read are limited (`client`).
//! 7. Failure messages contain neither the URL nor a resolved address: the owner of a task reads them and must not
//!    learn about the network of the service (`client`, `callback`).

pub mod address;
pub mod api_client;
pub mod bucket_client;
pub mod callback;
pub mod client;
pub mod document;
pub mod fetch;
pub mod ndjson;
mod resolver;
pub mod signature;
pub mod span_exporter;
pub mod sse;
pub mod upload_body;
pub mod vendor_client;

pub use client::install_tls;
