//! Questions to the leader of the stream. Other servers may be behind, and a leader that is cut off does not know it yet:
//! its response counts only if it has heard a quorum recently.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream::stream::{ClusterInfo, PeerInfo};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::stream::NatsStream;
use crate::events::shared::engine::{EngineFault, EngineUnreachable};

/// Interval between two questions of a follower.
const QUESTION_INTERVAL: Duration = Duration::from_millis(500);
/// Longest time since the leader heard a server that counts as connected. Servers send a heartbeat every second.
const CONTACT_MAX: Duration = Duration::from_secs(4);
/// Time without a valid response after which the client connects again.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Consecutive responses that must show a loss. After a restart, servers may not know all streams at once.
const CONFIRMATIONS: u32 = 3;

/// Last report on the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderReport {
    /// No valid response.
    Silent,
    /// The stream ended with this sequence.
    Last(u64),
    /// The stream must no longer be used.
    Fault(EngineFault),
}

/// Failure of a question.
enum LeaderError {
    NoResponse(String),
    NoStream(String),
    OtherStream(String),
}

/// Asks for the last sequence.
pub async fn last(stream: &NatsStream) -> Result<u64, EngineUnreachable> {
    ask(stream).await.map_err(|error| match error {
        LeaderError::NoResponse(reason) | LeaderError::NoStream(reason) | LeaderError::OtherStream(reason) => {
            EngineUnreachable(reason)
        }
    })
}

/// Asks at intervals and reports the responses. `delivered` is the last sequence that the follower has.
pub async fn watch(stream: NatsStream, delivered: &AtomicU64, reports: watch::Sender<LeaderReport>) {
    let mut suspicions = 0;
    let mut answered_at = Instant::now();
    loop {
        let asked_at = Instant::now();
        let applied = delivered.load(Ordering::Acquire);
        let suspicion = match ask(&stream).await {
            Ok(last) if last < applied => Some(EngineFault::Shorter { last, applied }),
            Ok(last) => {
                reports.send_replace(LeaderReport::Last(last));
                answered_at = Instant::now();
                None
            }
            Err(LeaderError::NoResponse(reason)) => {
                tracing::debug!(%reason, "nats leader silent");
                reports.send_replace(LeaderReport::Silent);
                None
            }
            Err(LeaderError::NoStream(reason)) => Some(EngineFault::Unsuitable(reason)),
            Err(LeaderError::OtherStream(reason)) => {
                reports.send_replace(LeaderReport::Fault(EngineFault::Unsuitable(reason)));
                None
            }
        };

        suspicions = if suspicion.is_some() { suspicions + 1 } else { 0 };
        if let Some(fault) = suspicion {
            let is_confirmed = suspicions >= CONFIRMATIONS;
            reports.send_replace(if is_confirmed { LeaderReport::Fault(fault) } else { LeaderReport::Silent });
        }
        if answered_at.elapsed() >= SILENCE_MAX {
            // The server may be cut off from the leader, and others not.
            stream.connection.reconnect().await;
            answered_at = Instant::now();
        }
        sleep_until(asked_at + QUESTION_INTERVAL).await;
    }
}

async fn ask(stream: &NatsStream) -> Result<u64, LeaderError> {
    let name = &stream.name;
    let info = stream.info().await.map_err(|error| {
        if error.is_stream_not_found() {
            LeaderError::NoStream(format!("the NATS servers have no stream {name} any more"))
        } else {
            LeaderError::NoResponse(error.to_string())
        }
    })?;

    if info.created != stream.created {
        let reason = format!(
            "stream {name} was created again at {}; the node uses the one created at {}",
            info.created, stream.created
        );
        return Err(LeaderError::OtherStream(reason));
    }
    if !info.cluster.as_ref().is_none_or(has_quorum) {
        return Err(LeaderError::NoResponse(format!("the leader of stream {name} has lost the other servers")));
    }
    Ok(info.state.last_sequence)
}

/// `true` if there is a leader that has heard a majority of the servers, itself included, recently.
///
/// A server without a quorum answers too: without a leader, and with peers that were active 0 s ago although it has not
/// heard them.
fn has_quorum(cluster: &ClusterInfo) -> bool {
    let peers = &cluster.replicas;
    let is_heard =
        |peer: &&PeerInfo| !peer.offline && peer.active <= CONTACT_MAX && (peer.current || !peer.active.is_zero());
    let heard = peers.iter().filter(is_heard).count();
    cluster.leader.as_ref().is_some_and(|leader| !leader.is_empty()) && (heard + 1) * 2 > peers.len() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(current: bool, active: Duration, offline: bool) -> serde_json::Value {
        let nanoseconds = u64::try_from(active.as_nanos()).unwrap();
        serde_json::json!({"name": "p", "current": current, "active": nanoseconds, "offline": offline})
    }

    fn quorum(leader: Option<&str>, replicas: &[serde_json::Value]) -> bool {
        let info = serde_json::json!({"name": "c", "leader": leader, "replicas": replicas});
        has_quorum(&serde_json::from_value(info).unwrap())
    }

    #[test]
    fn a_leader_needs_a_majority_that_it_has_heard() {
        let recent = peer(true, Duration::from_millis(300), false);
        let quiet = peer(false, Duration::from_secs(9), false);
        let offline = peer(false, Duration::from_secs(1), true);
        // A server lists a peer like this when it lost the peer a while ago.
        let unknown = peer(false, Duration::ZERO, false);
        assert!(quorum(Some("a"), &[recent.clone(), quiet.clone()]));
        assert!(quorum(Some("a"), &[]));
        for replicas in [[quiet.clone(), offline], [unknown.clone(), quiet], [unknown.clone(), unknown.clone()]] {
            assert!(!quorum(Some("a"), &replicas), "{replicas:?}");
        }
        assert!(!quorum(None, &[recent.clone(), recent.clone()]));
        assert!(!quorum(Some(""), &[recent.clone(), recent]));
    }
}
