//! Cache of the issuer's keys. They are fetched for the first token, again when they are old, and when a token names an
//! unknown key. The rate is limited, so forged tokens cannot flood the issuer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::issuer::IssuerClient;
use super::jwks::JwkSet;
use crate::domain::value::Timestamp;
use crate::telemetry::metrics::Metrics;

/// Age after which keys are fetched again in the background.
const REFRESH_AFTER: Duration = Duration::from_hours(1);
/// Minimum pause between fetches, for any token.
const FETCH_INTERVAL_MIN: Duration = Duration::from_secs(30);
/// Pause while no keys are known, so that no token can be verified.
const FETCH_INTERVAL_WITHOUT_KEYS: Duration = Duration::from_secs(5);

/// The keys, and the times of fetches.
pub struct IssuerKeyCache {
    issuer: IssuerClient,
    metrics: Metrics,
    state: Mutex<KeyCacheState>,
    /// Held during a fetch, so that concurrent callers wait for its result.
    fetch_lock: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct KeyCacheState {
    keys: Option<Arc<JwkSet>>,
    fetched_at: Option<Timestamp>,
    last_attempt_at: Option<Timestamp>,
}

impl KeyCacheState {
    /// Returns the remaining pause; zero if a fetch is allowed.
    fn remaining_pause(&self, now: Timestamp) -> Duration {
        let pause = if self.keys.is_some() { FETCH_INTERVAL_MIN } else { FETCH_INTERVAL_WITHOUT_KEYS };
        self.last_attempt_at.map_or(Duration::ZERO, |attempted_at| pause.saturating_sub(now.since(attempted_at)))
    }

    fn may_fetch(&self, now: Timestamp) -> bool {
        self.remaining_pause(now).is_zero()
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        self.fetched_at.is_some_and(|fetched_at| now.since(fetched_at) >= REFRESH_AFTER)
    }
}

impl IssuerKeyCache {
    /// Creates a cache without keys.
    pub fn new(issuer: IssuerClient, metrics: Metrics) -> Self {
        Self { issuer, metrics, state: Mutex::default(), fetch_lock: tokio::sync::Mutex::default() }
    }

    /// Returns the keys. Old ones are returned and refreshed in the background.
    ///
    /// # Errors
    /// If no keys are known and the issuer does not respond: the time until the next attempt.
    pub async fn current(self: &Arc<Self>, now: Timestamp) -> Result<Arc<JwkSet>, Duration> {
        let (keys, needs_refresh) = {
            let mut state = self.state.lock();
            let needs_refresh = state.is_stale(now) && state.may_fetch(now);
            if needs_refresh {
                // Prevents a second fetch by the next caller.
                state.last_attempt_at = Some(now);
            }
            (state.keys.clone(), needs_refresh)
        };

        if needs_refresh {
            let cache = Arc::clone(self);
            tokio::spawn(async move { cache.fetch(now).await });
        }

        let keys = match keys {
            Some(keys) => Some(keys),
            None => self.fetch_if_needed(None, now).await,
        };

        keys.ok_or_else(|| self.state.lock().remaining_pause(now))
    }

    /// Returns keys that differ from `previous`; `None` if the issuer has no others or was asked too recently.
    pub async fn newer_than(&self, previous: &Arc<JwkSet>, now: Timestamp) -> Option<Arc<JwkSet>> {
        self.fetch_if_needed(Some(previous), now).await
    }

    async fn fetch_if_needed(&self, previous: Option<&Arc<JwkSet>>, now: Timestamp) -> Option<Arc<JwkSet>> {
        let is_newer = |keys: &Arc<JwkSet>| previous.is_none_or(|previous| !Arc::ptr_eq(previous, keys));
        let _guard = self.fetch_lock.lock().await;

        {
            let mut state = self.state.lock();
            if let Some(keys) = state.keys.clone().filter(is_newer) {
                return Some(keys);
            }
            if !state.may_fetch(now) {
                return None;
            }
            state.last_attempt_at = Some(now);
        }

        self.fetch(now).await;
        self.state.lock().keys.clone().filter(is_newer)
    }

    /// Fetches the keys. If the issuer does not respond, the known keys stay.
    async fn fetch(&self, now: Timestamp) {
        let result = self.issuer.fetch_keys().await;
        self.metrics.count_issuer_fetch(result.is_ok());

        match result {
            Ok(keys) => {
                let mut state = self.state.lock();
                state.fetched_at = Some(now);
                // Unchanged keys must not count as newer.
                if state.keys.as_deref() != Some(&keys) {
                    state.keys = Some(Arc::new(keys));
                }
            }
            Err(reason) => tracing::warn!(%reason, "OIDC key fetch failed"),
        }
    }
}
