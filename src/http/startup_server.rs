//! HTTP server during startup: live but not ready. Replaying a long log takes minutes, in which probes must still get a
//! response.

use std::io;
use std::net::TcpListener;

use actix_web::dev::ServerHandle;
use actix_web::http::KeepAlive;
use actix_web::http::header::HeaderValue;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use tokio::task::JoinHandle;

use crate::environment::Environment;
use crate::http::middleware::request_log::{X_REQUEST_ID, redact_path, request_id};
use crate::http::response::error::{Code, Problem};
use crate::telemetry::metrics::OPENMETRICS;

/// `Retry-After`, in seconds.
const RETRY_AFTER_SECONDS: u32 = 2;
/// Grace period for responses in progress when the startup ends, in seconds.
const GRACE_SECONDS: u64 = 1;

/// Metrics during startup.
const NOT_READY: &str = "# TYPE mediary_ready gauge\nmediary_ready 0\n# EOF\n";

/// HTTP server during startup.
pub struct StartupServer {
    handle: ServerHandle,
    server_task: JoinHandle<io::Result<()>>,
}

impl StartupServer {
    /// Serves on a listener until [`StartupServer::stop`]. Connections not accepted by then wait for the next server on
    /// the listener.
    ///
    /// # Errors
    /// If the listener cannot be used.
    pub fn serve(listener: TcpListener, environment: &Environment) -> io::Result<Self> {
        let environment = environment.clone();
        let server = HttpServer::new(move || {
            let environment = environment.clone();
            App::new().default_service(web::to(move |request: HttpRequest| {
                let response = respond(&request, &environment);
                async move { response }
            }))
        });

        // A kept-alive connection would still reach this server after the startup.
        let server =
            server.workers(1).keep_alive(KeepAlive::Disabled).shutdown_timeout(GRACE_SECONDS).disable_signals();
        let server = server.listen(listener)?.run();
        Ok(Self { handle: server.handle(), server_task: actix_web::rt::spawn(server) })
    }

    /// Stops accepting connections and waits for the server to end.
    pub async fn stop(self) {
        self.handle.stop(true).await;
        if let Err(error) = self.server_task.await.map_err(io::Error::other).flatten() {
            tracing::warn!(%error, "startup probe server failed");
        }
    }
}

fn respond(request: &HttpRequest, environment: &Environment) -> HttpResponse {
    let mut response = match request.path() {
        "/health" => HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("OK"),
        // Scrapers must see a starting service, not an unreachable one.
        "/metrics" => HttpResponse::Ok().content_type(OPENMETRICS).body(NOT_READY),
        path => {
            Problem::new(Code::NotReady, "the service is starting").retry_after(RETRY_AFTER_SECONDS).to_response(path)
        }
    };

    let id = request_id(request.headers(), environment);
    tracing::debug!(request = id.as_str(), path = redact_path(request.path()), "answered during startup");
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
    response
}
