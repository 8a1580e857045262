//! The gate before every handler: who is asking, does what the path names exist, may they do it. A handler is only ever
//! called with a [`Call`], and only the gate can make one.

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

/// A request that may do `ACTION` (a [`Action`] as a number): the proof of permission that stands in a handler's signature.
pub struct Call<const ACTION: u8>(Admitted);

/// A request that was let through, whatever it was let through for.
pub struct Admitted {
    pub(super) request: HttpRequest,
    shared: Data<Shared>,
    identity: Identity,
    segments: Segments,
    /// The publisher that the request is about; it exists.
    publisher: Option<Box<PublisherProfile>>,
    body: Incoming,
    expected: Expected,
    /// Of a request with an idempotency key.
    keyed: Option<Box<Keyed>>,
}

/// A request that has come as far as its route.
pub struct Asking {
    pub request: HttpRequest,
    pub shared: Data<Shared>,
    pub segments: Segments,
}

/// Notes for the log which route a request has taken.
#[derive(Debug, Clone, Copy)]
pub struct Routed(pub &'static str);

enum Incoming {
    Waiting(Payload),
    Received(Body),
    /// With the bytes that it was read from.
    Parsed(Json, Bytes),
    Taken,
}

type Handler = Box<dyn Fn(Admitted) -> LocalBoxFuture<'static, Result<Answer, Problem>>>;

/// One row of the route table.
pub struct Route {
    pub method: Method,
    /// With `{publisher_id}`, `{node_id}` and so on, where they stand.
    pub path: &'static str,
    pub action: Action,
    pub limit: BodyLimit,
    handler: Handler,
}

impl Route {
    /// A row; its action is the one in the handler's signature.
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

    /// Answers a request, whatever happens: a panic in the handler becomes a 500, and the connection lives.
    pub fn answer(self: Rc<Self>, asking: Asking, payload: Payload) -> LocalBoxFuture<'static, HttpResponse> {
        let request = asking.request.clone();
        request.extensions_mut().insert(Routed(self.path));
        let meter = asking.shared.services.metrics.request(static_name(request.method()), self.path);
        // What only reads waits for nothing before its handler: its future is kept small.
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

    /// Of a route that takes no body.
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

    /// What requests are to the limits.
    fn kind(&self) -> Option<Kind> {
        Kind::of(self.action, self.path, self.method == Method::GET)
    }

    fn expected(&self) -> Expected {
        let is_bare = self.limit == BodyLimit::None;
        let shape = if is_bare { &Shape::Whole } else { Shape::of_route(&self.method, self.path) };
        Expected { limit: self.limit, shape }
    }

    /// Whether requests change something, for which there must be room.
    fn writes(&self) -> bool {
        self.method != Method::GET && self.action.writes()
    }

    /// Whether requests may have an idempotency key; on others it has no meaning.
    fn takes_keys(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT) && self.limit.takes_keys()
    }

    /// As [`Route::handle`], but a request that comes again is not carried out again. Once begun it goes on when the caller
    /// goes away, so that its answer is there when they come back.
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
        let (route, path) = (Rc::clone(&self), admitted.request.path().to_owned());
        let work = async move {
            let response = route.handle(admitted).await;
            shared.services.surroundings.reach(Place::Answer, &path);
            turn.end(response, &shared.services).await
        };
        rt::spawn(trace::carried(work.in_current_span())).await.map_err(|_| self.panicked())
    }

    /// Who is asking. Publishing takes a personal access token in the body where no header is given (contract 3).
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
        // The token that says who is asking stands in the body.
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

    /// Lets a request through if the caller may: 401 before 404 before 403, and what nobody of this standing may do before
    /// bans.
    fn admit(&self, asking: Asking, identity: Identity, body: Incoming) -> Result<Admitted, Problem> {
        if let Some(actor) = identity.actor() {
            asking.request.extensions_mut().insert(actor);
        }
        let publisher = self.permitted(&asking, &identity)?;
        let Asking { request, shared, segments } = asking;
        Ok(Admitted { request, shared, segments, identity, publisher, body, expected: self.expected(), keyed: None })
    }

    /// The publisher that the request is about, of a caller who may.
    fn permitted(&self, asking: &Asking, identity: &Identity) -> Result<Option<Box<PublisherProfile>>, Problem> {
        if *identity == Identity::Anonymous && !self.action.allows(identity.standing(None)) {
            return Err(authorize::no_credentials());
        }
        let models = asking.shared.services.models.read();
        let segment = |name: &str| asking.segments.get(name).map(str::to_owned);
        let publisher = subject::publisher(self.action, segment, &models)?;
        // What only owners and administrators may read is still only read.
        let permit = if self.method == Method::GET { authorize::permit_reading } else { authorize::permit };
        permit(self.action, identity, publisher)?;
        Ok(publisher.cloned().map(Box::new))
    }
}

/// Who is asking, by the header alone.
async fn bearer(asking: &Asking) -> Result<Identity, Problem> {
    match authorize::bearer(asking.request.headers())? {
        Some(secret) => authorize::identify(secret, &asking.shared.services, Some(&asking.request)).await,
        None => Ok(Identity::Anonymous),
    }
}

/// Who is asking, if not too often. Whoever presents what nobody knows is counted by address.
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

/// The name of a method that a route can have.
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
