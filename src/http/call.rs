//! What a handler may ask of the request that it was given, besides who asks and what for.

use actix_web::HttpMessage;
use actix_web::http::Method;
use actix_web::http::header::{AcceptEncoding, HeaderMap};

use super::error::Problem;
use super::gate::Admitted;
use super::query::Query;
use crate::domain::ids::{NodeId, NodeKey};

impl Admitted {
    /// The node of the path, whatever its case there.
    ///
    /// # Errors
    /// 404, when there is no such node.
    pub fn known_node(&self) -> Result<NodeKey, Problem> {
        let key = NodeId::parse(&self.segment("node_id")).ok().map(|id| id.key());
        let known = key.filter(|key| self.services().models.read().nodes.get(key).is_some());
        known.ok_or_else(|| Problem::not_found("node"))
    }

    /// The query parameters.
    ///
    /// # Errors
    /// When they do not decode.
    pub fn query(&self) -> Result<Query, Problem> {
        Query::parse(self.request.query_string())
    }

    /// The query as it came.
    #[must_use]
    pub fn query_string(&self) -> &str {
        self.request.query_string()
    }

    /// The request headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    /// In which codings the caller takes content; `None` when it does not say.
    #[must_use]
    pub fn accepted_codings(&self) -> Option<AcceptEncoding> {
        self.request.get_header()
    }

    /// The request method.
    #[must_use]
    pub fn method(&self) -> &Method {
        self.request.method()
    }

    /// A URL that the service hands out, for a path that begins with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.services().options.public_url)
    }
}
