//! Counters of actions that are too frequent for one event each: installs of nodes and uses of tokens.
//!
//! Actions are counted in memory and recorded in batches: at most one event per node and second, and per token and
//! minute. A clean shutdown records the rest; a crash may lose the last second.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::CommandContext;
use super::error::CommandError;
use super::reactor::{Reactor, Reschedule, WorkerSlots};
use super::system::Dispatch;
use crate::domain::ids::{NodeKey, TokenId};
use crate::domain::node::NodeCommand;
use crate::domain::token::{TokenCommand, TokenRecord};
use crate::domain::value::Timestamp;
use crate::environment::Environment;
use crate::quota::DAY_MICROS;

/// Interval between recordings.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of commands that record counts at the same time.
const CONCURRENCY: usize = 64;
/// Maximum number of nodes, and of tokens, with unrecorded counts. Further ones are not counted.
const SUBJECTS_MAX: usize = 100_000;

/// Maximum number of pairs of account and node remembered per day, 8 bytes each. Further installs are not counted.
const INSTALLERS_MAX: usize = 1_000_000;

/// Counts installs and token uses. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct UsageCounters(Arc<PendingCounts>);

#[derive(Debug, Default)]
struct PendingCounts {
    installs: Mutex<HashMap<NodeKey, u64>>,
    installers: Mutex<DailyInstallers>,
    /// First unrecorded use of each token.
    uses: Mutex<HashMap<TokenId, Timestamp>>,
}

/// Hashes of the pairs of account and node counted today. A restart forgets them.
#[derive(Debug, Default)]
struct DailyInstallers {
    hasher: RandomState,
    day: i64,
    seen: HashSet<u64>,
}

impl DailyInstallers {
    /// Records an install. Returns `true` if it is the first one of the node by the account on the day of `at`,
    /// `false` otherwise or if the set is full.
    fn insert(&mut self, account: impl Hash, node: &NodeKey, at: Timestamp) -> bool {
        let day = at.micros().div_euclid(DAY_MICROS);
        if day != self.day {
            self.day = day;
            self.seen = HashSet::new();
        }
        self.seen.len() < INSTALLERS_MAX && self.seen.insert(self.hasher.hash_one((account, node)))
    }
}

impl UsageCounters {
    /// Counts an install of a node, once per account and day.
    pub fn count_install(&self, node: &NodeKey, account: impl Hash, at: Timestamp) {
        if !self.0.installers.lock().insert(account, node, at) {
            return;
        }
        let mut installs = self.0.installs.lock();
        if let Some(count) = bounded_entry(&mut installs, node.clone(), 0) {
            *count += 1;
        }
    }

    /// Counts the use of a token, unless a use less than a minute ago is recorded.
    pub fn count_token_use(&self, token: &TokenRecord, at: Timestamp) {
        if token.is_use_due(at) {
            bounded_entry(&mut self.0.uses.lock(), token.grant.id, at);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.installs.lock().is_empty() && self.0.uses.lock().is_empty()
    }

    /// Subtracts a recorded count.
    fn subtract_installs(&self, node: &NodeKey, recorded: u64) {
        let mut installs = self.0.installs.lock();
        if let Some(count) = installs.get_mut(node) {
            *count = count.saturating_sub(recorded);
            if *count == 0 {
                installs.remove(node);
            }
        }
    }
}

/// Returns the value of a key, inserting `initial` if it is absent; `None` if the map is full.
fn bounded_entry<K: Eq + Hash, V>(counts: &mut HashMap<K, V>, key: K, initial: V) -> Option<&mut V> {
    if counts.len() >= SUBJECTS_MAX && !counts.contains_key(&key) {
        return None;
    }
    Some(counts.entry(key).or_insert(initial))
}

/// Reactor that records the counts. Counts that could not be recorded are retried.
#[derive(Clone)]
pub struct UsageRecorder {
    counters: UsageCounters,
    dispatch: Dispatch,
    environment: Environment,
    /// Serializes recordings, which would otherwise record the same counts twice.
    record_lock: Arc<AsyncMutex<()>>,
}

impl UsageRecorder {
    /// Returns a recorder of these counts.
    #[must_use]
    pub fn new(counters: UsageCounters, dispatch: Dispatch, environment: Environment) -> Self {
        Self { counters, dispatch, environment, record_lock: Arc::default() }
    }

    /// Records everything counted so far.
    pub async fn record(&self) {
        let _guard = self.record_lock.lock().await;

        let installs: Vec<_> =
            self.counters.0.installs.lock().iter().map(|(node, count)| (node.clone(), *count)).collect();
        stream::iter(installs)
            .for_each_concurrent(CONCURRENCY, |(node, count)| async move { self.record_installs(&node, count).await })
            .await;

        let uses: Vec<_> = self.counters.0.uses.lock().iter().map(|(token, at)| (*token, *at)).collect();
        stream::iter(uses)
            .for_each_concurrent(CONCURRENCY, |(token, at)| async move { self.record_use(token, at).await })
            .await;
    }

    async fn record_installs(&self, node: &NodeKey, count: u64) {
        let result = self.dispatch.node(node, NodeCommand::CountDownloads { count }, self.command_context()).await;
        if is_settled(result.map(drop), node.as_str()) {
            self.counters.subtract_installs(node, count);
        }
    }

    async fn record_use(&self, token: TokenId, at: Timestamp) {
        let result = self.dispatch.token(token, TokenCommand::RecordUse { at }, self.command_context()).await;
        if is_settled(result.map(drop), &token.to_string()) {
            self.counters.0.uses.lock().remove(&token);
        }
    }

    fn command_context(&self) -> CommandContext {
        CommandContext::from_system(None, self.environment.now())
    }
}

/// Returns `true` if nothing is left to record; logs other results, which are retried. A rejection is final: the
/// subject no longer exists.
fn is_settled<R: std::fmt::Debug>(result: Result<(), CommandError<R>>, subject: &str) -> bool {
    match result {
        Ok(()) | Err(CommandError::Rejected(_)) => true,
        Err(error) => {
            tracing::warn!(subject, ?error, "usage count not recorded, will retry");
            false
        }
    }
}

impl Reactor for UsageRecorder {
    type Key = ();
    type Work = ();
    const NAME: &'static str = "usage counters";

    fn due(&self, slots: &mut WorkerSlots<()>) -> Vec<((), ())> {
        if self.counters.is_empty() || !slots.try_reserve(&(), Self::NAME) { Vec::new() } else { vec![((), ())] }
    }

    async fn act(&self, (): ()) -> Reschedule {
        self.record().await;
        Reschedule::After(RECORD_INTERVAL)
    }

    /// Counts are not urgent: the reactor's own timer is enough.
    async fn changed(&mut self) -> Vec<String> {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{NodeId, PublisherId, UserId};
    use crate::domain::token::{TokenGrant, TokenLimits, TokenSubject, USE_RECORD_INTERVAL};
    use crate::domain::value::{Digest, Name};
    use uuid::Uuid;

    const AT: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn node(n: usize) -> NodeKey {
        NodeId::parse(&format!("node-{n}")).unwrap().key()
    }

    fn token(last_used_at: Option<Timestamp>) -> TokenRecord {
        let subject =
            TokenSubject::Publisher { publisher: PublisherId::parse("acme").unwrap(), issued_by: UserId(Uuid::nil()) };
        let id = TokenId(Uuid::nil());
        let name = Name::parse("ci").unwrap();
        let secret_hash = Digest([0; 32]);
        let grant = TokenGrant { id, subject, name, description: None, secret_hash };
        TokenRecord { last_used_at, ..TokenRecord::new(grant, TokenLimits::NONE, AT) }
    }

    #[test]
    fn installs_during_a_recording_stay_counted() {
        let counters = UsageCounters::default();
        (0..3).for_each(|account| counters.count_install(&node(1), account, AT));
        counters.subtract_installs(&node(1), 2);
        assert_eq!(counters.0.installs.lock().get(&node(1)), Some(&1));
        counters.subtract_installs(&node(1), 1);
        assert!(counters.is_empty());
    }

    #[test]
    fn an_account_counts_once_a_day_per_node() {
        let counters = UsageCounters::default();
        let installs_of = |node: &NodeKey| counters.0.installs.lock().get(node).copied();

        // Given two accounts that install the same node again and again
        for account in ["alice", "bob", "alice", "alice"] {
            counters.count_install(&node(1), account, AT);
        }
        counters.count_install(&node(2), "alice", AT);

        // Then each of them counts once for each node
        assert_eq!((installs_of(&node(1)), installs_of(&node(2))), (Some(2), Some(1)));

        // And again on the next day
        counters.count_install(&node(1), "alice", AT.saturating_add(Duration::from_hours(24)));
        assert_eq!(installs_of(&node(1)), Some(3));
    }

    #[test]
    fn the_first_use_in_a_minute_is_counted() {
        let counters = UsageCounters::default();
        counters.count_token_use(&token(Some(AT)), AT.saturating_add(Duration::from_secs(59)));
        assert!(counters.is_empty());
        counters.count_token_use(&token(Some(AT)), AT.saturating_add(USE_RECORD_INTERVAL));
        counters.count_token_use(&token(Some(AT)), AT.saturating_add(USE_RECORD_INTERVAL * 2));
        assert_eq!(counters.0.uses.lock().get(&TokenId(Uuid::nil())), Some(&AT.saturating_add(USE_RECORD_INTERVAL)));
    }

    #[test]
    fn memory_is_bounded_and_known_nodes_are_still_counted() {
        let counters = UsageCounters::default();
        (0..SUBJECTS_MAX + 5).for_each(|n| counters.count_install(&node(n), "alice", AT));
        counters.count_install(&node(0), "bob", AT);
        let installs = counters.0.installs.lock();
        assert_eq!((installs.len(), installs.get(&node(0))), (SUBJECTS_MAX, Some(&2)));
    }
}
