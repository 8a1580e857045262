//! Requests to the API of JetStream.

use async_nats::jetstream::Context;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::{Error, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub enum NatsApiError {
    /// The servers have answered, and refuse.
    #[error("{0}")]
    Refused(Error),
    /// No usable answer.
    #[error("no answer of JetStream: {0}")]
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
    context: &Context,
    subject: String,
    body: &impl Serialize,
) -> Result<T, NatsApiError> {
    match context.request(subject, body).await {
        Ok(Response::Ok(answer)) => Ok(answer),
        Ok(Response::Err { error }) => Err(NatsApiError::Refused(error)),
        Err(error) => Err(NatsApiError::Unanswered(error.to_string())),
    }
}
