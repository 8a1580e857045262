//! Requests to the API of JetStream.

use std::time::Duration;

use async_nats::jetstream::response::Response;
use async_nats::jetstream::{Error, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connection::NatsConnection;

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub enum NatsApiError {
    /// The servers have answered, and refuse.
    #[error("{0}")]
    Refused(Error),
    /// No usable response.
    #[error("no response from JetStream: {0}")]
    Unanswered(String),
}

impl NatsApiError {
    /// `true` if the servers have answered that there is no such stream.
    pub fn is_stream_not_found(&self) -> bool {
        matches!(self, Self::Refused(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
    }
}

/// Sends a request to a subject below the prefix of the API.
pub async fn request<T: DeserializeOwned>(
    connection: &NatsConnection,
    subject: &str,
    body: &impl Serialize,
    limit: Duration,
) -> Result<T, NatsApiError> {
    let unanswered = |reason: &dyn std::fmt::Display| NatsApiError::Unanswered(reason.to_string());
    let body = serde_json::to_vec(body).map_err(|error| unanswered(&error))?;
    let response = connection.request(format!("$JS.API.{subject}"), body.into(), limit).await;
    let response = response.map_err(|failure| unanswered(&failure))?;
    match serde_json::from_slice(&response) {
        Ok(Response::Ok(response)) => Ok(response),
        Ok(Response::Err { error }) => Err(NatsApiError::Refused(error)),
        Err(error) => Err(unanswered(&error)),
    }
}
