//! The keys of the issuer, kept: asked for at the first token, again when they are old, and when a token names one that is not
//! among them, but never more often than forged tokens may have them asked for.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::issuer::Issuer;
use super::jwks::KeySet;
use crate::domain::value::Timestamp;
use crate::telemetry::metrics::Metrics;

/// After which time keys are asked for anew, while those that are there serve on.
const OLD_AFTER: Duration = Duration::from_hours(1);
/// How long the issuer is left alone after it was asked, whatever tokens say.
const PAUSE: Duration = Duration::from_secs(30);
/// The same while no keys are known at all, and nobody can sign in.
const PAUSE_WITHOUT: Duration = Duration::from_secs(5);

/// The keys, and when they were asked for.
pub struct Keys {
    issuer: Issuer,
    metrics: Metrics,
    held: Mutex<Held>,
    /// Held while the issuer is asked: others wait for what comes of it instead of asking too.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Held {
    keys: Option<Arc<KeySet>>,
    fetched_at: Option<Timestamp>,
    asked_at: Option<Timestamp>,
}

impl Held {
    /// How long the issuer is still left alone; zero when it may be asked.
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
    /// None are known yet.
    pub fn new(issuer: Issuer, metrics: Metrics) -> Self {
        Self { issuer, metrics, held: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    /// The keys. Old ones are given, and asked for anew meanwhile.
    ///
    /// # Errors
    /// When there are none and the issuer does not answer: after which time it is asked again.
    pub async fn known(self: &Arc<Self>, now: Timestamp) -> Result<Arc<KeySet>, Duration> {
        let (keys, renew) = {
            let mut held = self.held.lock();
            let renew = held.is_old(now) && held.may_ask(now);
            if renew {
                // Whoever comes next need not ask too.
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

    /// Keys that are not these; `None` when the issuer has no others, or was asked too lately.
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

    /// Asks the issuer. When it does not answer, the keys that are known stay.
    async fn fetch(&self, now: Timestamp) {
        let answer = self.issuer.keys().await;
        self.metrics.issuer_asked(answer.is_ok());
        match answer {
            Ok(keys) => {
                let mut held = self.held.lock();
                held.fetched_at = Some(now);
                // The same keys are not newer ones.
                if held.keys.as_deref() != Some(&keys) {
                    held.keys = Some(Arc::new(keys));
                }
            }
            Err(reason) => tracing::warn!(%reason, "the keys of the issuer of tokens could not be had"),
        }
    }
}
