//! Messages between nodes that the servers do not store: core messages on a subject beside that of the stream.

use std::time::Duration;

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::stream::NatsStream;
use crate::client_thread::ClientThread;

/// Maximum number of messages that the listener has not taken yet. The client drops further ones, as any may be lost.
const QUEUE_MAX: usize = 256;
/// Longest time between two calls of a listener.
const LISTEN_INTERVAL: Duration = Duration::from_millis(500);
/// Pause before the next attempt to subscribe.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Time for the client to take a message. Without a connection it would keep messages, and send old ones later.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_millis(500);

/// Sends a message, unless there is no connection.
pub async fn announce(stream: NatsStream, message: Bytes) {
    let client = &stream.connection.client;
    if client.connection_state() != async_nats::connection::State::Connected {
        return;
    }
    let sent = timeout(ANNOUNCE_TIMEOUT, client.publish(subject_of(&stream), message)).await;
    if !matches!(sent, Ok(Ok(()))) {
        tracing::debug!("announcement not sent");
    }
}

/// Starts to listen, until the receiver is dropped. The receiver gets `None` after a while without a message.
pub fn listen(thread: &ClientThread, stream: NatsStream) -> mpsc::Receiver<Option<Bytes>> {
    let (messages, receiver) = mpsc::channel(QUEUE_MAX);
    thread.spawn(async move {
        while !messages.is_closed() {
            let subscription = stream.connection.client.subscribe(subject_of(&stream));
            match timeout(ANNOUNCE_TIMEOUT, subscription).await {
                Ok(Ok(subscriber)) => forward_messages(subscriber, &messages).await,
                Ok(Err(error)) => tracing::debug!(%error, "announcements not subscribed"),
                Err(_) => tracing::debug!("announcements not subscribed in time"),
            }
            let _ = messages.send(None).await;
            sleep(RETRY_DELAY).await;
        }
    });
    receiver
}

/// Forwards messages until the subscription ends or the receiver is dropped.
async fn forward_messages(mut subscriber: Subscriber, messages: &mpsc::Sender<Option<Bytes>>) {
    loop {
        let next = match timeout(LISTEN_INTERVAL, subscriber.next()).await {
            Ok(None) => return,
            Ok(Some(message)) => Some(message.payload),
            Err(_) => None,
        };
        if messages.send(next).await.is_err() {
            return;
        }
    }
}

fn subject_of(stream: &NatsStream) -> String {
    // The stream has one subject without wildcards, so it does not store these messages.
    format!("{}.beat", stream.subject)
}
