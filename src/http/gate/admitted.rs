//! What a handler can learn of the request that was let through.

use actix_web::HttpMessage;
use actix_web::http::Method;
use actix_web::http::header::{AcceptEncoding, HeaderMap};
use actix_web::web::Data;

use super::Admitted;
use crate::actors::{Actor, Circumstances};
use crate::domain::ids::{NodeId, NodeKey, RequestId};
use crate::domain::policy::Action;
use crate::domain::publisher::PublisherProfile;
use crate::domain::user::UserProfile;
use crate::http::authorize::{self, Identity};
use crate::http::error::{Code, Problem};
use crate::http::query::Query;
use crate::http::server::{Services, Shared};

impl Admitted {
    /// What the service is made of. Chance is to be taken from here: in a request with an idempotency key it follows from
    /// the key.
    #[must_use]
    pub fn services(&self) -> &Services {
        self.keyed.as_ref().map_or(&self.shared.services, |keyed| keyed.services())
    }

    /// What the requests share.
    #[must_use]
    pub fn shared(&self) -> &Data<Shared> {
        &self.shared
    }

    /// Who is asking.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The user who is asking.
    ///
    /// # Errors
    /// 403, when it is no user; the policy lets none but users through to where this is asked.
    pub fn user(&self) -> Result<&UserProfile, Problem> {
        self.identity.user().ok_or_else(|| Problem::new(Code::Forbidden, "only a user may do this"))
    }

    /// Whether the caller might change something else of a publisher: the answer to a question, not a permission.
    #[must_use]
    pub fn could(&self, action: Action, publisher: &PublisherProfile) -> bool {
        authorize::permit(action, &self.identity, Some(publisher)).is_ok()
    }

    /// The publisher that the request is about.
    ///
    /// # Errors
    /// A fault of ours, when the route's path names no publisher.
    pub fn publisher(&self) -> Result<&PublisherProfile, Problem> {
        self.publisher.as_deref().ok_or_else(|| Problem::internal("the path names no publisher"))
    }

    /// A part of the path, decoded; empty when the route's path does not have it.
    #[must_use]
    pub fn segment(&self, name: &str) -> String {
        self.segments.get(name).unwrap_or_default().to_owned()
    }

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

    /// Notes for the log on whose behalf the request is carried out, where no header says it.
    pub fn acts_for(&self, actor: Actor) {
        self.request.extensions_mut().insert(actor);
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

    /// The circumstances of the next command of this request; each command needs its own.
    #[must_use]
    pub fn why(&self) -> Circumstances {
        Circumstances {
            actor: self.identity.actor().unwrap_or(Actor::Anonymous),
            request: self.request.extensions().get::<RequestId>().cloned(),
            causation: None,
            at: self.keyed.as_ref().map_or_else(|| self.services().surroundings.now(), |keyed| keyed.at()),
            claim: self.keyed.as_ref().map(|keyed| keyed.next_claim()),
        }
    }
}
