//! Request pipeline before every handler: authentication, rate limit, existence of the resources in the path,
//! authorization.
//! Handlers take a [`Call`], which only this module can create.

use std::future::Future;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::HeaderMap;
use actix_web::http::{Method, StatusCode};
use actix_web::web::{Bytes, Data};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, rt};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde_json::Value;
use tracing::Instrument;

use crate::domain::policy::Action;
use crate::domain::publisher::PublisherProfile;
use crate::environment::FailPoint;
use crate::http::api::estimate;
use crate::http::auth::account::account_of;
use crate::http::auth::authorize::{self, Identity};
use crate::http::idempotency::{self, IdempotencyOutcome, IdempotentContext, IdempotentRequest};
use crate::http::limits::rate_limit::{self, RateClass};
use crate::http::middleware::request_log::decode_segment;
use crate::http::request::body::json_shape::JsonShape;
use crate::http::request::body::{self, BodyLimit, BodySpec, JsonBody, RequestBody};
use crate::http::request::fields::FieldError;
use crate::http::request::log_position::{self, WantedPosition};
use crate::http::resource;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem, error_code_of};
use crate::http::router::PathParams;
use crate::http::server::AppState;
use crate::telemetry::metrics::RequestMeter;
use crate::telemetry::trace;

mod body_state;
mod request_context;

/// Delay of a 429, after its resources are released. A client that ignores `Retry-After` sends its next request later,
/// and takes less of the processor from others.
const RATE_LIMITED_DELAY: Duration = Duration::from_millis(25);

/// Request authorized for `ACTION` (an [`Action`] as a number): a proof of permission in the handler's signature.
pub struct Call<const ACTION: u8>(RequestContext);

/// Authorized request, for any action.
pub struct RequestContext {
    pub(in crate::http) request: HttpRequest,
    shared: Data<AppState>,
    identity: Identity,
    path_params: PathParams,
    /// Publisher that the request is about; it exists.
    publisher: Option<Box<PublisherProfile>>,
    body: BodyState,
    body_spec: BodySpec,
    /// Present for requests with an idempotency key.
    idempotent: Option<Box<IdempotentContext>>,
}

/// Request matched to a route, before authorization.
pub struct RoutedRequest {
    pub request: HttpRequest,
    pub shared: Data<AppState>,
    pub path_params: PathParams,
}

/// Request extension with the path of the matched route, for the log.
#[derive(Debug, Clone, Copy)]
pub struct MatchedRoute(pub &'static str);

enum BodyState {
    Unread(Payload),
    Buffered(RequestBody),
    /// Parsed body, with its original bytes.
    Parsed(JsonBody, Bytes),
    Consumed,
}

type RouteHandler = Box<dyn Fn(RequestContext) -> LocalBoxFuture<'static, Result<ApiResponse, Problem>>>;

/// Row of the route table.
pub struct ApiEndpoint {
    pub method: Method,
    /// Path with parameters such as `{publisherId}` and `{nodeId}`.
    pub path: &'static str,
    /// Id of the operation in the `OpenAPI` document, declared in `openapi/`.
    pub operation_id: &'static str,
    pub action: Action,
    pub body_limit: BodyLimit,
    handler: RouteHandler,
}

impl ApiEndpoint {
    /// Creates a row; its action is the one in the handler's signature.
    pub fn new<const ACTION: u8, F>(
        method: Method,
        path: &'static str,
        operation_id: &'static str,
        limit: BodyLimit,
        handler: impl Fn(Call<ACTION>) -> F + 'static,
    ) -> Self
    where
        F: Future<Output = Result<ApiResponse, Problem>> + 'static,
    {
        let action = Action::ALL[usize::from(ACTION)];
        let handler: RouteHandler = Box::new(move |context| handler(Call(context)).boxed_local());
        Self { method, path, operation_id, action, body_limit: limit, handler }
    }

    /// Handles a request. A panic in the handler becomes a 500 and leaves the connection open.
    pub fn serve(self: Rc<Self>, routed: RoutedRequest, payload: Payload) -> LocalBoxFuture<'static, HttpResponse> {
        let request = routed.request.clone();
        let shared = routed.shared.clone();
        request.extensions_mut().insert(MatchedRoute(self.path));
        let meter = shared.services.metrics.start_request(static_method_name(request.method()), self.path);

        // Routes without a body skip the steps that wait for one, which keeps the future of their requests small.
        if self.body_limit == BodyLimit::None {
            let work = Rc::clone(&self).run_without_body(routed, payload);
            return self.complete(request, shared, meter, work).boxed_local();
        }
        let work = Rc::clone(&self).run_with_body(routed, payload);
        self.complete(request, shared, meter, work).boxed_local()
    }

    /// Turns the result into a response, even after a panic, and adds what every response has.
    async fn complete(
        self: Rc<Self>,
        request: HttpRequest,
        shared: Data<AppState>,
        meter: RequestMeter,
        work: impl Future<Output = Result<HttpResponse, Problem>>,
    ) -> HttpResponse {
        let result = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| Err(self.panic_error()));
        let mut response = result.unwrap_or_else(|problem| self.error_response(problem, request.path()));

        rate_limit::set_rate_limit_headers(&request, &mut response);
        log_position::set_header(&shared.services, &mut response);
        let is_rate_limited = response.status() == StatusCode::TOO_MANY_REQUESTS;
        if let Some(code) = error_code_of(&response).filter(|_| is_rate_limited) {
            meter.count_rate_limited(code.as_str());
        }

        meter.finish(response.status().as_u16());
        if is_rate_limited {
            // Boxed to keep the future of all other requests small.
            Box::pin(rt::time::sleep(RATE_LIMITED_DELAY)).await;
        }
        response
    }

    fn panic_error(&self) -> Problem {
        Problem::internal(format!("the handler of {} panicked", self.path))
    }

    /// Runs the pipeline for a route without a body.
    async fn run_without_body(
        self: Rc<Self>,
        routed: RoutedRequest,
        payload: Payload,
    ) -> Result<HttpResponse, Problem> {
        let wanted = self.sync_with_cluster_rate_limited(&routed).await?;
        let identity = rate_limit(
            self.rate_class(&routed),
            &routed.request,
            &routed.shared,
            authenticate_by_header(&routed).await,
        )?;
        wait_if_latest(wanted, &routed.shared).await?;
        Ok(self.handle(self.authorize(routed, identity, BodyState::Unread(payload))?).await)
    }

    /// Runs the pipeline for a route that may have a body.
    async fn run_with_body(self: Rc<Self>, routed: RoutedRequest, payload: Payload) -> Result<HttpResponse, Problem> {
        let wanted = self.sync_with_cluster_rate_limited(&routed).await?;
        let authenticated = self.authenticate(&routed.request, payload, &routed.shared).await;
        let (identity, body) = match authenticated {
            Ok((identity, body)) => (Ok(identity), body),
            Err(problem) => (Err(problem), BodyState::Consumed),
        };

        let identity = rate_limit(self.rate_class(&routed), &routed.request, &routed.shared, identity)?;
        wait_if_latest(wanted, &routed.shared).await?;
        let context = self.authorize(routed, identity, body)?;

        let key = if self.accepts_idempotency_key(context.headers()) {
            idempotency::parse_key(context.headers())?
        } else {
            None
        };
        // An estimate changes nothing, so its key stays unused.
        match key.filter(|_| !estimate::is_estimate(self.action, context.query_string())) {
            Some(key) => self.handle_idempotent(context, &key).await,
            None => Ok(self.handle(context).await),
        }
    }

    /// Like [`ApiEndpoint::sync_with_cluster`]; a rejected request counts towards the rate limit of its address.
    async fn sync_with_cluster_rate_limited(&self, routed: &RoutedRequest) -> Result<Option<WantedPosition>, Problem> {
        match self.sync_with_cluster(&routed.request, &routed.shared).await {
            Ok(wanted) => Ok(wanted),
            Err(problem) => {
                let class = self.rate_class(routed);
                // Fails in any case: with 429 if the limit is exceeded, otherwise with `problem`.
                rate_limit(class, &routed.request, &routed.shared, Err(problem)).map(|_: Identity| None)
            }
        }
    }

    /// Checks that a node of a cluster is not cut off, since access may have been revoked meanwhile, and waits for the
    /// position that the client knows. Probes are exempt.
    async fn sync_with_cluster(
        &self,
        request: &HttpRequest,
        shared: &AppState,
    ) -> Result<Option<WantedPosition>, Problem> {
        let Some(cluster) = shared.services.cluster.as_ref().filter(|_| self.action != Action::ReadServiceState) else {
            return Ok(None);
        };
        (cluster.freshness)().map_err(|reason| Problem::new(Code::NotReady, reason).retry_after(5))?;

        let wanted = WantedPosition::from_headers(request.headers())?;
        if let Some(position @ WantedPosition::At(_)) = wanted {
            Box::pin(position.wait(&shared.services)).await?;
        }
        Ok(wanted)
    }

    async fn handle(&self, context: RequestContext) -> HttpResponse {
        let request = context.request.clone();
        if self.writes()
            && let Err(disk_full) = context.services().space.check()
        {
            return Problem::disk_full(disk_full).to_response(request.path());
        }

        context.services().environment.hit(FailPoint::Handler, request.path());
        match (self.handler)(context).await {
            Ok(response) => response.into_response(&request),
            Err(problem) => self.error_response(problem, request.path()),
        }
    }

    /// Returns the response for an error of a request to `path`.
    fn error_response(&self, problem: Problem, path: &str) -> HttpResponse {
        let is_param = |pattern: &str, name: &str| {
            pattern.strip_prefix('{').and_then(|pattern| pattern.strip_suffix('}')).is_some_and(|param| param == name)
        };
        let path_param = |name: &str| {
            let mut segments = self.path.split('/').zip(path.split('/'));
            segments.find(|(pattern, _)| is_param(pattern, name)).map(|(_, segment)| decode_segment(segment))
        };
        problem.with_missing_id(path_param).to_response(path)
    }

    /// Returns the rate limit class of a request. An estimate is a read, so that clients can ask for the price of each
    /// submission.
    fn rate_class(&self, routed: &RoutedRequest) -> Option<RateClass> {
        if estimate::is_estimate(self.action, routed.request.query_string()) {
            return Some(RateClass::Reading);
        }
        RateClass::classify(self.action, self.path, self.method == Method::GET)
    }

    fn body_spec(&self, headers: &HeaderMap) -> BodySpec {
        let is_bare = self.body_limit == BodyLimit::None;
        let shape = if is_bare { &JsonShape::Whole } else { JsonShape::for_route(&self.method, self.path) };
        BodySpec { limit: self.body_limit.for_headers(headers), shape }
    }

    /// Returns `true` if requests write, which requires free disk space.
    fn writes(&self) -> bool {
        self.method != Method::GET && self.action.is_write()
    }

    /// Returns `true` if the pipeline handles idempotency keys. Other routes ignore the header, except streamed
    /// uploads, whose handlers read it.
    fn accepts_idempotency_key(&self, headers: &HeaderMap) -> bool {
        let limit = self.body_limit.for_headers(headers);
        matches!(self.method, Method::POST | Method::PUT) && limit.accepts_idempotency_key()
    }

    /// Like [`ApiEndpoint::handle`], but a repeated request is not executed again. Once begun, the request runs to its
    /// end even if the client disconnects, so that its response is there for the retry.
    async fn handle_idempotent(
        self: Rc<Self>,
        mut context: RequestContext,
        key: &str,
    ) -> Result<HttpResponse, Problem> {
        let body = context.buffer_body().await?;
        let owner = context.shared.rate_limiters.key_owner(&context.identity, &context.request);
        let idempotent_request = IdempotentRequest::new(&owner, key, &context.request, body).await?;
        let shared = context.shared.clone();

        let (in_flight, idempotent_context) =
            match shared.services.idempotency_keys.start(idempotent_request, &shared.services).await? {
                IdempotencyOutcome::Replay(response) => return Ok(response),
                IdempotencyOutcome::Run(in_flight, idempotent_context) => (in_flight, idempotent_context),
            };

        context.idempotent = Some(idempotent_context);

        let route = Rc::clone(&self);
        let path = context.request.path().to_owned();
        let work = async move {
            let response = route.handle(context).await;
            shared.services.environment.hit(FailPoint::BeforeResponseStored, &path);
            in_flight.finish(response, &shared.services).await
        };

        rt::spawn(trace::in_current_span(work.in_current_span())).await.map_err(|_| self.panic_error())
    }

    /// Authenticates the caller. Publishing accepts a personal access token in the body if the header is absent
    /// (contract 3).
    async fn authenticate(
        &self,
        request: &HttpRequest,
        payload: Payload,
        shared: &Data<AppState>,
    ) -> Result<(Identity, BodyState), Problem> {
        let services = &shared.services;
        if let Some(secret) = authorize::presented_token(request.headers())? {
            let identity = authorize::authenticate(secret, services, Some(request)).await?;
            return Ok((identity, BodyState::Unread(payload)));
        }

        if self.action != Action::PublishVersion {
            return Ok((Identity::Anonymous, BodyState::Unread(payload)));
        }

        // The token may be in the body, so read the body before authorization.
        let payer = (&shared.body_budget, account_of(&Identity::Anonymous, request, &shared.services.options.proxies));
        let body = body::receive(request.headers(), payload, self.body_spec(request.headers()), payer).await?;
        let bytes = body.bytes().clone();
        if bytes.is_empty() {
            return Err(authorize::missing_credentials());
        }

        let json = body.json().await?;
        let identity = match json.get("personal_access_token") {
            Some(Value::String(secret)) => authorize::authenticate_publisher_token(secret.trim(), services)?,
            None | Some(Value::Null) => Identity::Anonymous,
            Some(_) => {
                return Err(Problem::invalid(vec![FieldError::new("/personal_access_token", "must be a string")]));
            }
        };
        Ok((identity, BodyState::Parsed(json, bytes)))
    }

    /// Authorizes the request. Errors take precedence in the order 401, 404, 403; a missing role comes before a ban.
    fn authorize(&self, routed: RoutedRequest, identity: Identity, body: BodyState) -> Result<RequestContext, Problem> {
        if let Some(actor) = identity.actor() {
            routed.request.extensions_mut().insert(actor);
        }
        let publisher = self.authorized_publisher(&routed, &identity)?;
        let RoutedRequest { request, shared, path_params } = routed;
        let body_spec = self.body_spec(request.headers());
        Ok(RequestContext { request, shared, path_params, identity, publisher, body, body_spec, idempotent: None })
    }

    /// Returns the publisher that the request is about, after the permission checks.
    fn authorized_publisher(
        &self,
        routed: &RoutedRequest,
        identity: &Identity,
    ) -> Result<Option<Box<PublisherProfile>>, Problem> {
        if *identity == Identity::Anonymous && !self.action.allows(identity.role(None)) {
            return Err(authorize::missing_credentials());
        }

        let models = routed.shared.services.models.read();
        let segment = |name: &str| routed.path_params.get(name).map(str::to_owned);
        let publisher = resource::find_publisher(self.action, segment, &models)?;

        // Reads with elevated permissions are still reads: bans do not apply.
        let permit = if self.method == Method::GET { authorize::permit_read } else { authorize::permit };
        permit(self.action, identity, publisher)?;
        Ok(publisher.cloned().map(Box::new))
    }
}

/// Authenticates the caller by the header alone.
async fn authenticate_by_header(routed: &RoutedRequest) -> Result<Identity, Problem> {
    match authorize::presented_token(routed.request.headers())? {
        Some(secret) => authorize::authenticate(secret, &routed.shared.services, Some(&routed.request)).await,
        None => Ok(Identity::Anonymous),
    }
}

/// Waits for `X-Log-Position: latest`. Called after the rate limit, because each wait may send a group to the engine of
/// the cluster.
async fn wait_if_latest(wanted: Option<WantedPosition>, shared: &AppState) -> Result<(), Problem> {
    match wanted {
        Some(WantedPosition::Latest) => Box::pin(WantedPosition::Latest.wait(&shared.services)).await,
        _ => Ok(()),
    }
}

/// Applies the rate limit and returns the identity. Callers with invalid credentials are counted by address.
fn rate_limit(
    class: Option<RateClass>,
    request: &HttpRequest,
    shared: &AppState,
    identity: Result<Identity, Problem>,
) -> Result<Identity, Problem> {
    if shared.rate_limiters.is_disabled() {
        return identity;
    }
    let caller = identity.as_ref().unwrap_or(&Identity::Anonymous);
    shared.rate_limiters.check(class, caller, request, shared.services.environment.now())?;
    identity
}

/// Returns the name of a method as a static string; `other` for methods without routes.
pub(in crate::http) fn static_method_name(method: &Method) -> &'static str {
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
    type Target = RequestContext;

    fn deref(&self) -> &RequestContext {
        &self.0
    }
}
