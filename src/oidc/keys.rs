//! Cache of the issuer's keys. They are fetched for the first token, again when they are old, and when a token names an
//! unknown key. The rate is limited, so forged tokens cannot flood the issuer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::issuer::Issuer;
use super::jwks::KeySet;
use crate::domain::value::Timestamp;
use crate::telemetry::metrics::Metrics;

/// Age after which keys are fetched again in the background.
const OLD_AFTER: Duration = Duration::from_hours(1);
/// Minimum pause between fetches, for any token.
const PAUSE: Duration = Duration::from_secs(30);
/// The pause while no keys are known and nobody can sign in.
const PAUSE_WITHOUT: Duration = Duration::from_secs(5);

/// The keys, and the times of fetches.
pub struct Keys {
    issuer: Issuer,
    metrics: Metrics,
    held: Mutex<Held>,
    /// Held during a fetch, so that concurrent callers wait for its result.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Held {
    keys: Option<Arc<KeySet>>,
    fetched_at: Option<Timestamp>,
    asked_at: Option<Timestamp>,
}

impl Held {
    /// Remaining pause; zero if a fetch is allowed.
    fn rests(&self, now: Timestamp) -> Duration {
        let pause = if self.keys.is_some() { PAUSE } else { PAUSE_WITHOUT };
        self.asked_at.map_or(Duration::ZERO, |asked| pause.saturating_sub(now.since(asked)))
    }

    fn may_ask(&self, now: Timestamp) -> bool {
        self.rests(now).is_zero()
    }

    fn is_old(&self, now: Timestamp) -> bool {
        self.fetched_at.is_some_and(|fetched| now.since(fetched) >= OLD_AFTER)
    }
}

impl Keys {
    /// No keys are known yet.
    pub fn new(issuer: Issuer, metrics: Metrics) -> Self {
        Self { issuer, metrics, held: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    /// Returns the keys. Old ones are returned and refreshed in the background.
    ///
    /// # Errors
    /// If no keys are known and the issuer does not respond: the time until the next attempt.
    pub async fn known(self: &Arc<Self>, now: Timestamp) -> Result<Arc<KeySet>, Duration> {
        let (keys, renew) = {
            let mut held = self.held.lock();
            let renew = held.is_old(now) && held.may_ask(now);
            if renew {
                // Prevents a second fetch by the next caller.
                held.asked_at = Some(now);
            }
            (held.keys.clone(), renew)
        };

        if renew {
            let own = Arc::clone(self);
            tokio::spawn(async move { own.fetch(now).await });
        }

        let keys = match keys {
            Some(keys) => Some(keys),
            None => self.ask(None, now).await,
        };

        keys.ok_or_else(|| self.held.lock().rests(now))
    }

    /// Returns keys that differ from `known`; `None` if the issuer has no others or was asked too recently.
    pub async fn newer_than(&self, known: &Arc<KeySet>, now: Timestamp) -> Option<Arc<KeySet>> {
        self.ask(Some(known), now).await
    }

    async fn ask(&self, known: Option<&Arc<KeySet>>, now: Timestamp) -> Option<Arc<KeySet>> {
        let is_newer = |keys: &Arc<KeySet>| known.is_none_or(|known| !Arc::ptr_eq(known, keys));
        let _turn = self.asking.lock().await;

        {
            let mut held = self.held.lock();
            if let Some(keys) = held.keys.clone().filter(is_newer) {
                return Some(keys);
            }
            if !held.may_ask(now) {
                return None;
            }
            held.asked_at = Some(now);
        }

        self.fetch(now).await;
        self.held.lock().keys.clone().filter(is_newer)
    }

    /// Fetches the keys. If the issuer does not respond, the known keys stay.
    async fn fetch(&self, now: Timestamp) {
        let answer = self.issuer.keys().await;
        self.metrics.issuer_asked(answer.is_ok());

        match answer {
            Ok(keys) => {
                let mut held = self.held.lock();
                held.fetched_at = Some(now);
                // Unchanged keys must not count as newer.
                if held.keys.as_deref() != Some(&keys) {
                    held.keys = Some(Arc::new(keys));
                }
            }
            Err(reason) => tracing::warn!(%reason, "the keys of the issuer of tokens could not be had"),
        }
    }
}
