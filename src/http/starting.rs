//! What is answered while the service starts: that it lives, and that it cannot work yet. A start that reads a long log takes minutes,
//! in which whoever probes the service must not take it for hung.

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

/// When to come back, in seconds.
const LATER: u32 = 2;
/// How long an answer that is being written may take when the start is done, in seconds.
const GRACE_SECONDS: u64 = 1;

/// All that is measured during a start.
const NOT_READY: &str = "# TYPE mediary_ready gauge\nmediary_ready 0\n# EOF\n";

/// The small server of a start.
pub struct Starting {
    handle: ServerHandle,
    serving: JoinHandle<io::Result<()>>,
}

impl Starting {
    /// Answers on a listener until it is told to stop; what is not accepted then waits for the next one who listens.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub fn serve(listener: TcpListener, surroundings: &Surroundings) -> io::Result<Self> {
        let surroundings = surroundings.clone();
        let server = HttpServer::new(move || {
            let surroundings = surroundings.clone();
            App::new().default_service(web::to(move |request: HttpRequest| {
                let answer = answer(&request, &surroundings);
                async move { answer }
            }))
        });
        // A connection that were kept would go on being answered by this one.
        let server =
            server.workers(1).keep_alive(KeepAlive::Disabled).shutdown_timeout(GRACE_SECONDS).disable_signals();
        let server = server.listen(listener)?.run();
        Ok(Self { handle: server.handle(), serving: actix_web::rt::spawn(server) })
    }

    /// Accepts nothing more, and gives the listener back.
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
        // Whoever watches it is to see that it starts, not that it is away.
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
