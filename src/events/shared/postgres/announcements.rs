//! Messages between nodes that are not kept: rows of an unlogged table, removed after a few seconds. Their commits wait for
//! no disk and no standby.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::session::{PostgresFailure, PostgresSession};
use super::store::PostgresStore;
use crate::client_thread::ClientThread;

/// Maximum number of messages that the listener has not taken yet.
const QUEUE_MAX: usize = 256;
/// Interval between two questions of a listener.
const QUESTION_INTERVAL: Duration = Duration::from_millis(100);
/// Longest time between two calls of a listener.
const LISTEN_INTERVAL: Duration = Duration::from_millis(500);
/// Pause after a failure.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Time for the server to take a message or to return those of others.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends a message and removes old ones.
pub async fn announce(store: PostgresStore, message: Vec<u8>) {
    let table = format!("{}.announcements", store.schema());
    let sql = format!(
        "WITH old AS (DELETE FROM {table} WHERE id IN (SELECT id FROM {table} \
         WHERE sent_at < clock_timestamp() - interval '10 seconds' FOR UPDATE SKIP LOCKED)) \
         INSERT INTO {table} (body) VALUES ($1)"
    );
    if let Err(failure) = store.announcer().query(&sql, &[&message], RESPONSE_TIMEOUT).await {
        tracing::debug!(%failure, "announcement not sent");
    }
}

/// Starts to listen, until the receiver is dropped. The receiver gets `None` after a while without a message.
pub fn listen(thread: &ClientThread, store: PostgresStore) -> mpsc::Receiver<Option<Vec<u8>>> {
    let (messages, receiver) = mpsc::channel(QUEUE_MAX);
    thread.spawn(async move {
        while !messages.is_closed() {
            // The numbers start again after a crash of the server, which ends the connection.
            let result = match store.announcer().session().await {
                Ok(session) => {
                    let result = forward_messages(&session, store.schema(), &messages).await;
                    if matches!(result, Err(PostgresFailure::NoResponse(_))) {
                        store.announcer().discard(&session).await;
                    }
                    result
                }
                Err(failure) => Err(failure),
            };
            if let Err(failure) = result {
                tracing::debug!(%failure, "no announcements");
            }
            let _ = messages.send(None).await;
            sleep(RETRY_DELAY).await;
        }
    });
    receiver
}

/// Forwards messages until the connection fails or the receiver is dropped.
async fn forward_messages(
    session: &Arc<PostgresSession>,
    schema: &str,
    messages: &mpsc::Sender<Option<Vec<u8>>>,
) -> Result<(), PostgresFailure> {
    let last_id = format!("SELECT coalesce(max(id), 0) FROM {schema}.announcements");
    let next_messages = format!("SELECT id, body FROM {schema}.announcements WHERE id > $1 ORDER BY id");
    let rows = session.query(&last_id, &[], RESPONSE_TIMEOUT).await?;
    let mut heard = rows.first().map_or(0, |row| row.get::<_, i64>(0));
    let mut called_at = Instant::now();
    while !messages.is_closed() {
        for row in session.query(&next_messages, &[&heard], RESPONSE_TIMEOUT).await? {
            heard = row.get(0);
            let _ = messages.send(Some(row.get(1))).await;
            called_at = Instant::now();
        }
        if called_at.elapsed() >= LISTEN_INTERVAL {
            let _ = messages.send(None).await;
            called_at = Instant::now();
        }
        sleep(QUESTION_INTERVAL).await;
    }
    Ok(())
}
