//! Sending of groups.

use std::time::Duration;

use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::{Error, ErrorCode};
use bytes::Bytes;

use super::connection::NatsRequestFailure;
use super::stream::NatsStream;
use crate::events::shared::engine::SendResult;

/// Sends a group once and waits for the acknowledgement of the stream.
pub async fn publish(stream: &NatsStream, group: Bytes, limit: Duration) -> SendResult {
    let connection = &stream.connection;
    match connection.request(stream.subject.clone(), group, limit).await {
        Ok(reply) => interpret(&reply, &stream.name),
        Err(NatsRequestFailure::NotDelivered(reason)) => SendResult::NotStored { reason },
        Err(failure) => {
            if matches!(failure, NatsRequestFailure::TimedOut(_)) {
                // The server may be cut off from the leader.
                connection.reconnect().await;
            }
            SendResult::Unknown { reason: format!("the group was not acknowledged: {failure}") }
        }
    }
}

/// Interprets the acknowledgement of the stream.
fn interpret(reply: &[u8], stream: &str) -> SendResult {
    match serde_json::from_slice(reply) {
        Ok(Response::<PublishAck>::Ok(ack)) if ack.stream == stream => SendResult::Stored { sequence: ack.sequence },
        Ok(Response::Ok(ack)) => {
            SendResult::NotStored { reason: format!("stream {} has taken the subject of {stream}", ack.stream) }
        }
        Ok(Response::Err { error }) => refusal(&error),
        Err(error) => {
            SendResult::Unknown { reason: format!("the acknowledgement of the stream is not readable: {error}") }
        }
    }
}

/// Servers refuse before they replicate a message, except for failed writes.
fn refusal(error: &Error) -> SendResult {
    let reason = error.to_string();
    match error.error_code() {
        ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED => SendResult::Full { reason },
        ErrorCode::STREAM_STORE_FAILED if reason.contains("maximum") => SendResult::Full { reason },
        // The other servers may have stored the message.
        ErrorCode::STREAM_STORE_FAILED => SendResult::Unknown { reason },
        _ => SendResult::NotStored { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interpret_text(text: &str) -> SendResult {
        interpret(text.as_bytes(), "MDY_1")
    }

    fn refused(code: u32, description: &str) -> SendResult {
        interpret_text(&format!(
            r#"{{"error":{{"code":503,"err_code":{code},"description":"{description}"}},"stream":"MDY_1","seq":0}}"#
        ))
    }

    #[test]
    fn only_an_acknowledgement_of_the_stream_means_stored() {
        assert_eq!(interpret_text(r#"{"stream":"MDY_1","seq":7}"#), SendResult::Stored { sequence: 7 });
        assert!(matches!(interpret_text(r#"{"stream":"OTHER","seq":7}"#), SendResult::NotStored { .. }));
        assert!(matches!(interpret_text("+OK"), SendResult::Unknown { .. }));
    }

    #[test]
    fn a_lack_of_space_is_distinguished_from_other_refusals() {
        for code in [10002, 10023, 10047] {
            assert!(matches!(refused(code, "insufficient resources"), SendResult::Full { .. }), "{code}");
        }
        assert!(matches!(refused(10077, "maximum bytes exceeded"), SendResult::Full { .. }));
        assert!(matches!(refused(10054, "message size exceeds maximum allowed"), SendResult::NotStored { .. }));
    }

    #[test]
    fn a_failed_write_of_one_server_may_have_succeeded_on_others() {
        assert!(matches!(refused(10077, "no space left on device"), SendResult::Unknown { .. }));
    }
}
