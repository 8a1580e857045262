//! `X-Log-Position`: lets a request to a cluster node see everything that the client has seen on another node.
//!
//! In a response, the header is a log position that includes all events the response was built from. A request with
//! this position waits until its node has reached it; a request with `latest` waits until its node has every event that
//! any node had acknowledged before.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;

use crate::audit::Position;
use crate::http::response::error::{Code, Problem};
use crate::http::server::Services;

/// Maximum wait.
const POSITION_WAIT_MAX: Duration = Duration::from_secs(2);
const LATEST: &str = "latest";

pub const X_LOG_POSITION: HeaderName = HeaderName::from_static("x-log-position");

/// Events that a request must see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedPosition {
    /// All events up to this position.
    At(Position),
    /// All events that any node had acknowledged before the request.
    Latest,
}

impl WantedPosition {
    /// Reads the header.
    ///
    /// # Errors
    /// If the header is neither one position nor `latest`.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let mut values = headers.get_all(X_LOG_POSITION);
        let Some(first) = values.next() else { return Ok(None) };
        let wanted = match first.to_str().ok().filter(|_| values.next().is_none()) {
            Some(LATEST) => Some(Self::Latest),
            text => text.and_then(|text| text.parse().ok()).map(|position| Self::At(Position(position))),
        };
        let invalid = || {
            let sent = String::from_utf8_lossy(first.as_bytes());
            let detail = format!("X-Log-Position must be one header, a position or `{LATEST}`, not {sent:?}");
            Problem::new(Code::MalformedRequest, detail)
        };
        wanted.map(Some).ok_or_else(invalid)
    }

    /// Waits until this node has the wanted events, for at most 2 s.
    ///
    /// # Errors
    /// If this node does not have them by then, or is stopping.
    pub async fn wait(self, services: &Services) -> Result<(), Problem> {
        let reached = timeout(POSITION_WAIT_MAX, self.wait_without_limit(services)).await;
        let behind = |reason: &str| Problem::new(Code::Behind, reason).retry_after(1);
        match reached {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(behind(&reason)),
            Err(_) => {
                let seconds = POSITION_WAIT_MAX.as_secs();
                let position = services.models.read().position;
                Err(behind(&format!("this node did not catch up within {seconds} s; it is at position {position}")))
            }
        }
    }

    async fn wait_without_limit(self, services: &Services) -> Result<(), String> {
        match self {
            Self::At(wanted) => {
                let mut positions = services.models.changes();
                let reached = positions.wait_for(|position| *position >= wanted).await;
                reached.map(drop).map_err(|_| "this node is stopping".to_owned())
            }
            Self::Latest => match &services.cluster {
                Some(cluster) => cluster.barrier.pass().await.map_err(|failure| failure.to_string()),
                None => Ok(()),
            },
        }
    }
}

/// Sets the header to the current position, which includes all events the response was built from; only in a cluster.
pub fn set_header(services: &Services, response: &mut HttpResponse) {
    if services.cluster.is_some() {
        let position = HeaderValue::from(services.models.read().position.0);
        response.headers_mut().insert(X_LOG_POSITION, position);
    }
}
