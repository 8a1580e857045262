//! Request pipeline before every handler: authentication, existence of the resources in the path, authorization.
//! Handlers take a [`Call`], which only this module can create.

use std::future::Future;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use actix_web::dev::Payload;
use actix_web::http::{Method, StatusCode};
use actix_web::web::{Bytes, Data};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, rt};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde_json::Value;
use tracing::Instrument;

use super::account::account_of;
use super::answer::Answer;
use super::authorize::{self, Identity};
use super::body::shape::Shape;
use super::body::{self, Body, BodyLimit, Expected, Json};
use super::error::{Problem, code_in};
use super::fields::Fault;
use super::idempotency::{self, Asked, Begun, Keyed};
use super::limits::{self, Kind};
use super::paths::Segments;
use super::server::Shared;
use super::subject;
use crate::clock::Place;
use crate::domain::policy::Action;
use crate::domain::publisher::PublisherProfile;
use crate::telemetry::metrics::Meter;
use crate::telemetry::trace;

mod admitted;
mod incoming;

/// Request authorized for `ACTION` (an [`Action`] as a number): a proof of permission in the handler's signature.
pub struct Call<const ACTION: u8>(Admitted);

/// Authorized request, for any action.
pub struct Admitted {
    pub(super) request: HttpRequest,
    shared: Data<Shared>,
    identity: Identity,
    segments: Segments,
    /// Publisher that the request is about; it exists.
    publisher: Option<Box<PublisherProfile>>,
    body: Incoming,
    expected: Expected,
    /// Present for requests with an idempotency key.
    keyed: Option<Box<Keyed>>,
}

/// Request matched to a route, before authorization.
pub struct Asking {
    pub request: HttpRequest,
    pub shared: Data<Shared>,
    pub segments: Segments,
}

/// Request extension with the path of the matched route, for the log.
#[derive(Debug, Clone, Copy)]
pub struct Routed(pub &'static str);

enum Incoming {
    Waiting(Payload),
    Received(Body),
    /// Parsed body, with its original bytes.
    Parsed(Json, Bytes),
    Taken,
}

type Handler = Box<dyn Fn(Admitted) -> LocalBoxFuture<'static, Result<Answer, Problem>>>;

/// Row of the route table.
pub struct Route {
    pub method: Method,
    /// Path with parameters such as `{publisher_id}` and `{node_id}`.
    pub path: &'static str,
    pub action: Action,
    pub limit: BodyLimit,
    handler: Handler,
}

impl Route {
    /// Creates a row; its action is the one in the handler's signature.
    pub fn new<const ACTION: u8, F>(
        method: Method,
        path: &'static str,
        limit: BodyLimit,
        handler: impl Fn(Call<ACTION>) -> F + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Answer, Problem>> + 'static,
    {
        let action = Action::ALL[usize::from(ACTION)];
        let handler: Handler = Box::new(move |admitted| handler(Call(admitted)).boxed_local());
        Self { method, path, action, limit, handler }
    }

    /// Handles a request. A panic in the handler becomes a 500 and leaves the connection open.
    pub fn answer(self: Rc<Self>, asking: Asking, payload: Payload) -> LocalBoxFuture<'static, HttpResponse> {
        let request = asking.request.clone();
        request.extensions_mut().insert(Routed(self.path));
        let meter = asking.shared.services.metrics.request(static_name(request.method()), self.path);

        // Requests without a body skip the waiting steps, which keeps their future small.
        if self.limit == BodyLimit::None {
            let worked = Rc::clone(&self).pass_bare(asking, payload);
            return self.guarded(request, meter, worked).boxed_local();
        }
        let worked = Rc::clone(&self).pass(asking, payload);
        self.guarded(request, meter, worked).boxed_local()
    }

    async fn guarded(
        self: Rc<Self>,
        request: HttpRequest,
        meter: Meter,
        work: impl Future<Output = Result<HttpResponse, Problem>>,
    ) -> HttpResponse {
        let answered = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| Err(self.panicked()));
        let mut response = answered.unwrap_or_else(|problem| problem.respond(request.path()));

        limits::tell(&request, &mut response);
        if let Some(code) = code_in(&response).filter(|_| response.status() == StatusCode::TOO_MANY_REQUESTS) {
            meter.refused(code.as_str());
        }

        meter.answer(response.status().as_u16());
        response
    }

    fn panicked(&self) -> Problem {
        Problem::internal(format!("the handler of {} panicked", self.path))
    }

    /// Runs the pipeline for a route without a body.
    async fn pass_bare(self: Rc<Self>, asking: Asking, payload: Payload) -> Result<HttpResponse, Problem> {
        let identity = counted(self.kind(), &asking.request, &asking.shared, bearer(&asking).await)?;
        Ok(self.handle(self.admit(asking, identity, Incoming::Waiting(payload))?).await)
    }

    async fn pass(self: Rc<Self>, asking: Asking, payload: Payload) -> Result<HttpResponse, Problem> {
        let identified = self.identify(&asking.request, payload, &asking.shared).await;
        let (identity, body) = match identified {
            Ok((identity, body)) => (Ok(identity), body),
            Err(problem) => (Err(problem), Incoming::Taken),
        };

        let identity = counted(self.kind(), &asking.request, &asking.shared, identity)?;
        let admitted = self.admit(asking, identity, body)?;

        let key = if self.takes_keys() { idempotency::key_in(admitted.headers())? } else { None };
        match key {
            Some(key) => self.handle_once(admitted, &key).await,
            None => Ok(self.handle(admitted).await),
        }
    }

    async fn handle(&self, admitted: Admitted) -> HttpResponse {
        let request = admitted.request.clone();
        if self.writes()
            && let Err(shortage) = admitted.services().space.check()
        {
            return Problem::no_room(shortage).respond(request.path());
        }

        admitted.services().surroundings.reach(Place::Handler, request.path());
        match (self.handler)(admitted).await {
            Ok(answer) => answer.respond(&request),
            Err(problem) => problem.respond(request.path()),
        }
    }

    /// Returns the rate limit class of the requests.
    fn kind(&self) -> Option<Kind> {
        Kind::of(self.action, self.path, self.method == Method::GET)
    }

    fn expected(&self) -> Expected {
        let is_bare = self.limit == BodyLimit::None;
        let shape = if is_bare { &Shape::Whole } else { Shape::of_route(&self.method, self.path) };
        Expected { limit: self.limit, shape }
    }

    /// Returns `true` if requests write, which requires free disk space.
    fn writes(&self) -> bool {
        self.method != Method::GET && self.action.writes()
    }

    /// Returns `true` if requests accept an idempotency key. Other routes ignore the header.
    fn takes_keys(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT) && self.limit.takes_keys()
    }

    /// Like [`Route::handle`], but a repeated request is not executed again. Once begun, the request runs to its end
    /// even if the client disconnects, so that its response is there for the retry.
    async fn handle_once(self: Rc<Self>, mut admitted: Admitted, key: &str) -> Result<HttpResponse, Problem> {
        let body = admitted.received().await?;
        let owner = admitted.shared.limits.key_owner(&admitted.identity, &admitted.request);
        let asked = Asked::new(&owner, key, &admitted.request, body).await?;
        let shared = admitted.shared.clone();

        let (turn, keyed) = match shared.services.keys.begin(asked, &shared.services).await? {
            Begun::Replay(response) => return Ok(response),
            Begun::Run(turn, keyed) => (turn, keyed),
        };

        admitted.keyed = Some(keyed);

        let route = Rc::clone(&self);
        let path = admitted.request.path().to_owned();
        let work = async move {
            let response = route.handle(admitted).await;
            shared.services.surroundings.reach(Place::Answer, &path);
            turn.end(response, &shared.services).await
        };

        rt::spawn(trace::carried(work.in_current_span())).await.map_err(|_| self.panicked())
    }

    /// Authenticates the caller. Publishing accepts a personal access token in the body if the header is absent
    /// (contract 3).
    async fn identify(
        &self,
        request: &HttpRequest,
        payload: Payload,
        shared: &Data<Shared>,
    ) -> Result<(Identity, Incoming), Problem> {
        let services = &shared.services;
        if let Some(secret) = authorize::bearer(request.headers())? {
            let identity = authorize::identify(secret, services, Some(request)).await?;
            return Ok((identity, Incoming::Waiting(payload)));
        }

        if self.action != Action::PublishVersion {
            return Ok((Identity::Anonymous, Incoming::Waiting(payload)));
        }
        // The token is in the body, so read the body before authorization.
        let payer = (&shared.bodies, account_of(&Identity::Anonymous, request, &shared.services.options.proxies));
        let body = body::receive(request.headers(), payload, self.expected(), payer).await?;
        let bytes = body.bytes().clone();
        if bytes.is_empty() {
            return Err(authorize::no_credentials());
        }

        let json = body.json().await?;
        let identity = match json.get("personal_access_token") {
            Some(Value::String(secret)) => authorize::identify_publisher_token(secret.trim(), services)?,
            None | Some(Value::Null) => Identity::Anonymous,
            Some(_) => return Err(Problem::invalid(vec![Fault::new("/personal_access_token", "must be a string")])),
        };
        Ok((identity, Incoming::Parsed(json, bytes)))
    }

    /// Authorizes the request. Errors take precedence in the order 401, 404, 403; a missing role comes before a ban.
    fn admit(&self, asking: Asking, identity: Identity, body: Incoming) -> Result<Admitted, Problem> {
        if let Some(actor) = identity.actor() {
            asking.request.extensions_mut().insert(actor);
        }
        let publisher = self.permitted(&asking, &identity)?;
        let Asking { request, shared, segments } = asking;
        Ok(Admitted { request, shared, segments, identity, publisher, body, expected: self.expected(), keyed: None })
    }

    /// Returns the publisher that the request is about, after the permission checks.
    fn permitted(&self, asking: &Asking, identity: &Identity) -> Result<Option<Box<PublisherProfile>>, Problem> {
        if *identity == Identity::Anonymous && !self.action.allows(identity.standing(None)) {
            return Err(authorize::no_credentials());
        }
        let models = asking.shared.services.models.read();
        let segment = |name: &str| asking.segments.get(name).map(str::to_owned);
        let publisher = subject::publisher(self.action, segment, &models)?;
        // Reads with elevated permissions are still reads: bans do not apply.
        let permit = if self.method == Method::GET { authorize::permit_reading } else { authorize::permit };
        permit(self.action, identity, publisher)?;
        Ok(publisher.cloned().map(Box::new))
    }
}

/// Authenticates the caller by the header alone.
async fn bearer(asking: &Asking) -> Result<Identity, Problem> {
    match authorize::bearer(asking.request.headers())? {
        Some(secret) => authorize::identify(secret, &asking.shared.services, Some(&asking.request)).await,
        None => Ok(Identity::Anonymous),
    }
}

/// Applies the rate limit and returns the identity. Callers with invalid credentials are counted by address.
fn counted(
    kind: Option<Kind>,
    request: &HttpRequest,
    shared: &Shared,
    identity: Result<Identity, Problem>,
) -> Result<Identity, Problem> {
    if shared.limits.are_off() {
        return identity;
    }
    let who = identity.as_ref().unwrap_or(&Identity::Anonymous);
    shared.limits.count(kind, who, request, shared.services.surroundings.now())?;
    identity
}

/// Returns the name of a method as a static string; `other` for methods without routes.
pub(super) fn static_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

impl<const ACTION: u8> Deref for Call<ACTION> {
    type Target = Admitted;

    fn deref(&self) -> &Admitted {
        &self.0
    }
}
