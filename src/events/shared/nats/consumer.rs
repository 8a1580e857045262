//! JetStream push consumer of one follower. It exists only in the memory of one server, and messages are not
//! acknowledged: a follower that misses one creates another consumer.

use std::time::Duration;

use async_nats::jetstream::consumer::push;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, Info, IntoConsumerConfig};
use async_nats::jetstream::stream::DeleteStatus;
use async_nats::{Message, StatusCode, Subject, Subscriber};
use futures_util::StreamExt;
use serde_json::json;
use tokio::runtime::Handle;

use super::api::{self, NatsApiError};
use super::stream::NatsStream;

/// Interval between two heartbeats of an idle consumer.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// Time without a subscriber after which servers delete the consumer.
const INACTIVE_THRESHOLD: Duration = Duration::from_secs(5);

/// Message that a consumer delivers.
pub enum NatsDelivery {
    /// A group, its sequence in the stream, and its number among the messages of this consumer.
    Group { sequence: u64, number: u64, group: Vec<u8> },
    /// The consumer has no more messages, or waits for a message to `reply` before it sends more (flow control).
    Heartbeat { reply: Option<Subject> },
    /// A message that is none of these.
    Malformed { reason: String },
}

/// A consumer. Dropping it deletes it at the servers.
pub struct NatsConsumer {
    stream: NatsStream,
    name: String,
    /// Name of the server whose copy of the stream it reads.
    pub server: String,
    messages: Subscriber,
}

impl NatsConsumer {
    /// Creates a consumer of the groups after a sequence.
    pub async fn create(stream: NatsStream, after: u64) -> Result<Self, NatsApiError> {
        let connection = stream.connection.clone();
        let inbox = connection.client.new_inbox();
        // Subscribe first: the consumer sends as soon as it exists.
        let subscribed = connection.client.subscribe(inbox.clone()).await;
        let messages = subscribed.map_err(|error| NatsApiError::Unanswered(error.to_string()))?;

        let config = push::Config {
            deliver_subject: inbox,
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: after + 1 },
            ack_policy: AckPolicy::None,
            flow_control: true,
            idle_heartbeat: HEARTBEAT_INTERVAL,
            num_replicas: 1,
            memory_storage: true,
            inactive_threshold: INACTIVE_THRESHOLD,
            ..push::Config::default()
        };
        let body = json!({ "stream_name": stream.name, "config": config.into_consumer_config(), "action": "create" });
        let subject = format!("CONSUMER.CREATE.{}", stream.name);
        let info: Info = api::request(&connection, &subject, &body, connection.request_timeout).await?;

        let server = info.cluster.and_then(|cluster| cluster.leader).unwrap_or_default();
        Ok(Self { stream, name: info.name, server, messages })
    }

    /// Returns the next delivery; `None` if the client has ended.
    pub async fn next(&mut self) -> Option<NatsDelivery> {
        self.messages.next().await.map(parse_delivery)
    }
}

impl Drop for NatsConsumer {
    fn drop(&mut self) {
        let connection = self.stream.connection.clone();
        let subject = format!("CONSUMER.DELETE.{}.{}", self.stream.name, self.name);
        // If this fails, the servers delete it after `INACTIVE_THRESHOLD`.
        let delete = async move {
            let _ = api::request::<DeleteStatus>(&connection, &subject, &json!({}), connection.request_timeout).await;
        };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(delete);
        }
    }
}

fn parse_delivery(message: Message) -> NatsDelivery {
    match message.status {
        None => match parse_sequences(message.reply.as_deref().unwrap_or_default()) {
            Some((sequence, number)) => NatsDelivery::Group { sequence, number, group: message.payload.into() },
            None => NatsDelivery::Malformed { reason: format!("a message with the reply subject {:?}", message.reply) },
        },
        Some(StatusCode::IDLE_HEARTBEAT) => {
            // A stalled consumer repeats its flow control request in a header, in case the first one was lost.
            let stalled = message.headers.as_ref().and_then(|headers| headers.get("Nats-Consumer-Stalled"));
            let reply = message.reply.or_else(|| stalled.map(|subject| Subject::from(subject.as_str())));
            NatsDelivery::Heartbeat { reply }
        }
        Some(status) => NatsDelivery::Malformed { reason: format!("status {status}") },
    }
}

/// Returns the sequences of a message in the stream and in the consumer. The reply subject is
/// `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>.<time>.<pending>`; newer servers add the
/// domain and the account before the stream, and may add a token at the end.
fn parse_sequences(reply: &str) -> Option<(u64, u64)> {
    let tokens: Vec<_> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    let index = if tokens.len() >= 9 { 5 } else { 3 };
    let number = |index: usize| tokens.get(index)?.parse().ok();
    Some((number(index)?, number(index + 1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequences_are_found_in_both_forms_of_the_reply_subject() {
        assert_eq!(parse_sequences("$JS.ACK.MDY_1.cons.1.42.7.1700000000000000000.0"), Some((42, 7)));
        assert_eq!(parse_sequences("$JS.ACK._.hash.MDY_1.cons.1.42.7.1700000000000000000.0"), Some((42, 7)));
        assert_eq!(parse_sequences("$JS.ACK._.hash.MDY_1.cons.1.42.7.1700000000000000000.0.token"), Some((42, 7)));
        assert_eq!(parse_sequences("$JS.ACK.MDY_1"), None);
        assert_eq!(parse_sequences(""), None);
    }
}
