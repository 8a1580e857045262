//! The gate before every handler: who is asking, does what the path names exist, may they do it. A handler is only ever
//! called with a [`Call`], and only the gate can make one.

use std::future::Future;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::http::header::{AcceptEncoding, HeaderMap};
use actix_web::web::{Bytes, Data};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, rt};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde_json::Value;
use tracing::Instrument;

use super::answer::Answer;
use super::authorize::{self, Identity};
use super::body::{self, Body, BodyLimit, Json};
use super::chunks::Chunks;
use super::error::{Code, Problem};
use super::idempotency::{self, Asked, Begun, Keyed};
use super::paths::Segments;
use super::query::Query;
use super::server::{Services, Shared};
use super::subject;
use crate::actors::{Actor, Circumstances};
use crate::clock::Place;
use crate::domain::ids::{NodeId, NodeKey, RequestId};
use crate::domain::policy::Action;
use crate::domain::publisher::PublisherProfile;
use crate::domain::user::UserProfile;

/// A request that may do `ACTION` (a [`Action`] as a number): the proof of permission that stands in a handler's signature.
pub struct Call<const ACTION: u8>(Admitted);

/// A request that was let through, whatever it was let through for.
pub struct Admitted {
    request: HttpRequest,
    shared: Data<Shared>,
    identity: Identity,
    segments: Segments,
    /// The publisher that the request is about; it exists.
    publisher: Option<Box<PublisherProfile>>,
    body: Incoming,
    limit: BodyLimit,
    /// Of a request with an idempotency key.
    keyed: Option<Box<Keyed>>,
}

/// A request that has come as far as its route.
pub struct Asking {
    pub request: HttpRequest,
    pub shared: Data<Shared>,
    pub segments: Segments,
}

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
        // What only reads waits for nothing before its handler: its future is kept small.
        if self.limit == BodyLimit::None {
            let worked = Rc::clone(&self).pass_bare(asking, payload);
            return self.guarded(request, worked).boxed_local();
        }
        let worked = Rc::clone(&self).pass(asking, payload);
        self.guarded(request, worked).boxed_local()
    }

    async fn guarded(
        self: Rc<Self>,
        request: HttpRequest,
        work: impl Future<Output = Result<HttpResponse, Problem>>,
    ) -> HttpResponse {
        let answered = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| Err(self.panicked()));
        answered.unwrap_or_else(|problem| problem.respond(request.path()))
    }

    fn panicked(&self) -> Problem {
        Problem::internal(format!("the handler of {} panicked", self.path))
    }

    /// Of a route that takes no body.
    async fn pass_bare(self: Rc<Self>, asking: Asking, payload: Payload) -> Result<HttpResponse, Problem> {
        let identity = match authorize::bearer(asking.request.headers())? {
            Some(secret) => authorize::identify(secret, &asking.shared.services)?,
            None => Identity::Anonymous,
        };
        Ok(self.handle(self.admit(asking, identity, Incoming::Waiting(payload))?).await)
    }

    async fn pass(self: Rc<Self>, asking: Asking, payload: Payload) -> Result<HttpResponse, Problem> {
        let (identity, body) = self.identify(&asking.request, payload, &asking.shared).await?;
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

    /// Whether requests change something, for which there must be room.
    fn writes(&self) -> bool {
        self.method != Method::GET && self.action.writes()
    }

    /// Whether requests may have an idempotency key; on others it has no meaning.
    fn takes_keys(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT) && self.limit.received_whole()
    }

    /// As [`Route::handle`], but a request that comes again is not carried out again. Once begun it goes on when the caller
    /// goes away, so that its answer is there when they come back.
    async fn handle_once(self: Rc<Self>, mut admitted: Admitted, key: &str) -> Result<HttpResponse, Problem> {
        let body = admitted.received().await?;
        let asked = Asked::new(admitted.identity.actor(), key, &admitted.request, body).await?;
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
        rt::spawn(work.in_current_span()).await.map_err(|_| self.panicked())
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
            return Ok((authorize::identify(secret, services)?, Incoming::Waiting(payload)));
        }
        if self.action != Action::PublishVersion {
            return Ok((Identity::Anonymous, Incoming::Waiting(payload)));
        }
        let body = body::receive(request.headers(), payload, self.limit, &shared.bodies).await?;
        let bytes = body.bytes().clone();
        if bytes.is_empty() {
            return Err(authorize::no_credentials());
        }
        let json = body.json().await?;
        let identity = match json.get("personal_access_token").and_then(Value::as_str) {
            Some(secret) => authorize::identify_publisher_token(secret.trim(), services)?,
            None => Identity::Anonymous,
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
        Ok(Admitted { request, shared, segments, identity, publisher, body, limit: self.limit, keyed: None })
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

impl<const ACTION: u8> Deref for Call<ACTION> {
    type Target = Admitted;

    fn deref(&self) -> &Admitted {
        &self.0
    }
}

impl<const ACTION: u8> Call<ACTION> {
    /// The body as it came, read now.
    ///
    /// # Errors
    /// When it is not JSON by its type, too large or too slow; see [`body::receive`].
    pub async fn body(&mut self) -> Result<Body, Problem> {
        let Admitted { request, shared, body, limit, .. } = &mut self.0;
        match std::mem::replace(body, Incoming::Taken) {
            Incoming::Waiting(payload) => body::receive(request.headers(), payload, *limit, &shared.bodies).await,
            Incoming::Received(body) => Ok(body),
            Incoming::Parsed(..) | Incoming::Taken => Err(Problem::internal("a handler read the body twice")),
        }
    }

    /// The body as it comes.
    ///
    /// # Errors
    /// When it is compressed or announces that it is too large; see [`Chunks`].
    pub fn chunks(&mut self) -> Result<Chunks, Problem> {
        let Admitted { request, body, limit, .. } = &mut self.0;
        match std::mem::replace(body, Incoming::Taken) {
            Incoming::Waiting(payload) => Chunks::new(request.headers(), payload, *limit),
            Incoming::Received(_) | Incoming::Parsed(..) | Incoming::Taken => {
                Err(Problem::internal("a handler read the body twice"))
            }
        }
    }

    /// The body as JSON, read now.
    ///
    /// # Errors
    /// As [`Call::body`], and when it is no JSON.
    pub async fn json(&mut self) -> Result<Json, Problem> {
        match std::mem::replace(&mut self.0.body, Incoming::Taken) {
            Incoming::Parsed(json, _) => Ok(json),
            waiting => {
                self.0.body = waiting;
                self.body().await?.json().await
            }
        }
    }
}

impl Admitted {
    /// The bytes of the body, which is received now if it was not before, and stays there for the handler.
    async fn received(&mut self) -> Result<Bytes, Problem> {
        self.body = match std::mem::replace(&mut self.body, Incoming::Taken) {
            Incoming::Waiting(payload) => Incoming::Received(
                body::receive(self.request.headers(), payload, self.limit, &self.shared.bodies).await?,
            ),
            there => there,
        };
        match &self.body {
            Incoming::Received(body) => Ok(body.bytes().clone()),
            Incoming::Parsed(_, bytes) => Ok(bytes.clone()),
            Incoming::Waiting(_) | Incoming::Taken => Err(Problem::internal("the body was taken before its time")),
        }
    }

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
            // The policy lets no anonymous caller through to a command.
            actor: self.identity.actor().unwrap_or(Actor::System),
            request: self.request.extensions().get::<RequestId>().cloned(),
            causation: None,
            at: self.keyed.as_ref().map_or_else(|| self.services().surroundings.now(), |keyed| keyed.at()),
            claim: self.keyed.as_ref().map(|keyed| keyed.next_claim()),
        }
    }
}
