//! Accessors of an authorized request.

use actix_web::HttpMessage;
use actix_web::http::Method;
use actix_web::http::header::{AcceptEncoding, HeaderMap};
use actix_web::web::Data;

use super::RequestContext;
use crate::actors::{Actor, CommandContext};
use crate::domain::budget::BudgetSubject;
use crate::domain::ids::{NodeId, NodeKey, RequestId};
use crate::domain::policy::Action;
use crate::domain::publisher::PublisherProfile;
use crate::domain::task::Payers;
use crate::domain::user::UserProfile;
use crate::http::api::sign_in::FormerAccounts;
use crate::http::auth::authorize::{self, Identity};
use crate::http::request::query::Query;
use crate::http::response::error::{Code, Problem};
use crate::http::server::{AppState, Services};

impl RequestContext {
    /// Returns the dependencies of the handler. Random numbers must come from here: with an idempotency key they are
    /// derived from the key.
    #[must_use]
    pub fn services(&self) -> &Services {
        self.idempotent.as_ref().map_or(&self.shared.services, |idempotent| idempotent.services())
    }

    /// Returns the state shared by all workers.
    #[must_use]
    pub fn shared(&self) -> &Data<AppState> {
        &self.shared
    }

    /// Returns the identity of the caller.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the user that sent the request.
    ///
    /// # Errors
    /// 403 if the caller is not a user; the permission table admits only users to the routes that call this.
    pub fn user(&self) -> Result<&UserProfile, Problem> {
        self.identity.user().ok_or_else(|| Problem::new(Code::Forbidden, "only users may do this"))
    }

    /// Returns the payers of a submission besides its owner: its token, and the former accounts and publishers that
    /// have a budget.
    #[must_use]
    pub fn payers(&self) -> Option<Box<Payers>> {
        let user = self.identity.user()?;
        let models = self.services().models.read();

        let has_budget = |subject: BudgetSubject| models.budgets.get(&subject).is_some();
        let mut former_accounts = FormerAccounts::from_request(&self.request);
        former_accounts.retain(|account| has_budget(BudgetSubject::User(*account)));
        let mut publishers: Vec<_> = models.publishers.for_member(user.id).map(|profile| profile.id.clone()).collect();
        publishers.retain(|publisher| has_budget(BudgetSubject::Publisher(publisher.clone())));
        Payers { token: self.identity.user_token(), former_accounts, publishers }.into_option()
    }

    /// Returns the subjects whose budgets count the submissions of the caller.
    #[must_use]
    pub fn budget_subjects(&self) -> Vec<BudgetSubject> {
        let owner = self.identity.user().map(|user| BudgetSubject::User(user.id));
        let payers = self.payers();
        owner.into_iter().chain(payers.iter().flat_map(|payers| payers.budget_subjects())).collect()
    }

    /// Returns `true` if the caller could perform another action on a publisher. Informational, not a permission check.
    #[must_use]
    pub fn can_perform(&self, action: Action, publisher: &PublisherProfile) -> bool {
        authorize::permit(action, &self.identity, Some(publisher)).is_ok()
    }

    /// Returns the publisher that the path names.
    ///
    /// # Errors
    /// An internal error if the path names no publisher.
    pub fn publisher(&self) -> Result<&PublisherProfile, Problem> {
        self.publisher.as_deref().ok_or_else(|| Problem::internal("the path names no publisher"))
    }

    /// Returns a decoded path parameter; empty if the route has none of that name.
    #[must_use]
    pub fn path_param(&self, name: &str) -> String {
        self.path_params.get(name).unwrap_or_default().to_owned()
    }

    /// Returns the key of the node in the path; upper and lower case are equivalent.
    ///
    /// # Errors
    /// 404 if the node does not exist.
    pub fn existing_node(&self) -> Result<NodeKey, Problem> {
        let key = NodeId::parse(&self.path_param("nodeId")).ok().map(|id| id.key());
        let existing = key.filter(|key| self.services().models.read().nodes.get(key).is_some());
        existing.ok_or_else(|| Problem::not_found("node"))
    }

    /// Parses the query parameters.
    ///
    /// # Errors
    /// If a parameter cannot be decoded.
    pub fn query(&self) -> Result<Query, Problem> {
        Query::parse(self.request.query_string())
    }

    /// Returns the raw query.
    #[must_use]
    pub fn query_string(&self) -> &str {
        self.request.query_string()
    }

    /// Sets the actor for the log line, for requests without an `Authorization` header.
    pub fn set_actor(&self, actor: Actor) {
        self.request.extensions_mut().insert(actor);
    }

    /// Returns the request headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    /// Returns the accepted content codings; `None` if the client sends no `Accept-Encoding`.
    #[must_use]
    pub fn accepted_codings(&self) -> Option<AcceptEncoding> {
        self.request.get_header()
    }

    /// Returns the request method.
    #[must_use]
    pub fn method(&self) -> &Method {
        self.request.method()
    }

    /// Returns a public URL for a path that begins with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.services().options.public_url)
    }

    /// Returns the metadata of the next command of this request. Each command needs its own.
    #[must_use]
    pub fn command_context(&self) -> CommandContext {
        CommandContext {
            actor: self.identity.actor().unwrap_or(Actor::Anonymous),
            request: self.request.extensions().get::<RequestId>().cloned(),
            causation: None,
            at: self
                .idempotent
                .as_ref()
                .map_or_else(|| self.services().environment.now(), |idempotent| idempotent.started_at()),
            claim: self.idempotent.as_ref().map(|idempotent| idempotent.next_claim()),
        }
    }
}
