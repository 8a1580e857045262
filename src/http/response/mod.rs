//! Building blocks of responses: JSON, errors, pages and event streams.

pub(super) mod api_response;
pub(super) mod error;
pub(super) mod page_builder;
pub(super) mod page_cache;
pub(super) mod rejection;
pub(super) mod response_body;
pub(super) mod sse;
