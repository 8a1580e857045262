//! HTTP server during startup: live but not ready. Replaying a long log takes minutes, in which probes must still get a
//! response.

use std::io;
use std::net::TcpListener;

use actix_web::dev::ServerHandle;
use actix_web::http::KeepAlive;
use actix_web::http::header::HeaderValue;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use tokio::task::JoinHandle;

use super::error::{Code, Problem};
use super::frame::{X_REQUEST_ID, name, shown_path};
use crate::clock::Surroundings;
use crate::telemetry::metrics::OPENMETRICS;

/// `Retry-After`, in seconds.
const LATER: u32 = 2;
/// Grace period for responses in progress when the startup ends, in seconds.
const GRACE_SECONDS: u64 = 1;

/// Metrics during startup.
const NOT_READY: &str = "# TYPE mediary_ready gauge\nmediary_ready 0\n# EOF\n";

/// HTTP server during startup.
pub struct Starting {
    handle: ServerHandle,
    serving: JoinHandle<io::Result<()>>,
}

impl Starting {
    /// Serves on a listener until [`Starting::stop`]. Connections not accepted by then wait for the next server on the
    /// listener.
    ///
    /// # Errors
    /// If the listener cannot be used.
    pub fn serve(listener: TcpListener, surroundings: &Surroundings) -> io::Result<Self> {
        let surroundings = surroundings.clone();
        let server = HttpServer::new(move || {
            let surroundings = surroundings.clone();
            App::new().default_service(web::to(move |request: HttpRequest| {
                let answer = answer(&request, &surroundings);
                async move { answer }
            }))
        });

        // This server would keep serving kept-alive connections after the startup.
        let server =
            server.workers(1).keep_alive(KeepAlive::Disabled).shutdown_timeout(GRACE_SECONDS).disable_signals();
        let server = server.listen(listener)?.run();
        Ok(Self { handle: server.handle(), serving: actix_web::rt::spawn(server) })
    }

    /// Stops accepting connections and waits for the server to end.
    pub async fn stop(self) {
        self.handle.stop(true).await;
        if let Err(error) = self.serving.await.map_err(io::Error::other).flatten() {
            tracing::warn!(%error, "probes were not answered during the start");
        }
    }
}

fn answer(request: &HttpRequest, surroundings: &Surroundings) -> HttpResponse {
    let mut response = match request.path() {
        "/health" => HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("OK"),
        // Scrapers must see a starting service, not an unreachable one.
        "/metrics" => HttpResponse::Ok().content_type(OPENMETRICS).body(NOT_READY),
        path => Problem::new(Code::NotReady, "the service is starting").retry_after(LATER).respond(path),
    };

    let id = name(request.headers(), surroundings);
    tracing::debug!(request = id.as_str(), path = shown_path(request.path()), "answered during the start");
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
    response
}
