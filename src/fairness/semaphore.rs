//! Weighted semaphore that grants permits round robin by key, so that one caller's backlog delays another by one job at
//! most.
//!
//! `tokio::sync::Semaphore` grants in the order of arrival: a thousand waiters of one caller come before the first of
//! the next. No published crate combines weights with turns by key, so this module does.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::FairnessKey;

/// Weighted semaphore with turns by key. Cheap to clone.
///
/// A waiter whose weight does not fit yet is not overtaken, so heavy work is not starved by light work. Only a waiter
/// whose key holds its whole share is passed over.
pub struct FairSemaphore<K: FairnessKey> {
    inner: Arc<SemaphoreInner<K>>,
}

struct SemaphoreInner<K: FairnessKey> {
    capacity: u64,
    /// Maximum that one key holds.
    share: u64,
    state: Mutex<SemaphoreState<K>>,
}

struct SemaphoreState<K: FairnessKey> {
    available: u64,
    /// Weights handed out, by key; keys that hold nothing are absent.
    held: HashMap<K, u64>,
    /// Keys that have waiters, in the order of their turns.
    turns: VecDeque<K>,
    /// Waiters of each key in the order of arrival; keys without waiters are absent.
    waiting: HashMap<K, VecDeque<Waiter<K>>>,
    next_id: u64,
}

struct Waiter<K: FairnessKey> {
    id: u64,
    weight: u64,
    grant: GrantSender<K>,
}

/// The channel to a waiter; closed once the waiter is dropped.
enum GrantSender<K: FairnessKey> {
    Async(oneshot::Sender<FairPermit<K>>),
    Blocking(mpsc::SyncSender<FairPermit<K>>),
}

/// A weight taken from the semaphore, returned on drop.
pub struct FairPermit<K: FairnessKey> {
    inner: Arc<SemaphoreInner<K>>,
    key: K,
    weight: u64,
}

/// Removes its waiter from the queue on drop, in case no permit was granted.
struct WaiterGuard<'a, K: FairnessKey> {
    inner: &'a Arc<SemaphoreInner<K>>,
    key: K,
    id: u64,
}

impl<K: FairnessKey> Clone for FairSemaphore<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<K: FairnessKey> FairSemaphore<K> {
    /// Creates a semaphore that hands out `capacity` in total, and all of it to one key if no other waits.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self::with_share(capacity, capacity)
    }

    /// Creates a semaphore that hands out `capacity` in total, and at most `share` to one key, so that something is
    /// left for the next.
    #[must_use]
    pub fn with_share(capacity: u64, share: u64) -> Self {
        let state = SemaphoreState {
            available: capacity,
            held: HashMap::new(),
            turns: VecDeque::new(),
            waiting: HashMap::new(),
            next_id: 0,
        };
        Self { inner: Arc::new(SemaphoreInner { capacity, share: share.min(capacity), state: Mutex::new(state) }) }
    }

    /// Returns the total that is handed out.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.inner.capacity
    }

    /// Returns the most that one key holds.
    #[must_use]
    pub fn share(&self) -> u64 {
        self.inner.share
    }

    /// Returns the amount that is available.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.inner.state.lock().available
    }

    /// Waits for the turn of `key`. A weight above the share counts as the share.
    ///
    /// The wait is cancelled by dropping the future.
    ///
    /// # Panics
    /// Never: the semaphore lives as long as the future.
    pub async fn acquire(&self, key: K, weight: u64) -> FairPermit<K> {
        let (sender, receiver) = oneshot::channel();
        let _guard = self.inner.enqueue(key, weight, GrantSender::Async(sender));
        receiver.await.expect("a waiter leaves the queue only with its permit, or when this future is dropped")
    }

    /// Blocks for at most `timeout` until it is the turn of `key`; as [`FairSemaphore::acquire`] otherwise.
    #[must_use]
    pub fn acquire_blocking(&self, key: K, weight: u64, timeout: Duration) -> Option<FairPermit<K>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let _guard = self.inner.enqueue(key, weight, GrantSender::Blocking(sender));
        receiver.recv_timeout(timeout).ok()
    }
}

impl<K: FairnessKey> SemaphoreInner<K> {
    /// Queues a waiter, and grants what fits.
    fn enqueue(self: &Arc<Self>, key: K, weight: u64, grant: GrantSender<K>) -> WaiterGuard<'_, K> {
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        if !state.waiting.contains_key(&key) {
            state.turns.push_back(key.clone());
        }
        let waiter = Waiter { id, weight: weight.min(self.share), grant };
        state.waiting.entry(key.clone()).or_default().push_back(waiter);
        drop(state);

        self.grant();
        WaiterGuard { inner: self, key, id }
    }

    /// Grants permits in turn while the next one fits.
    fn grant(self: &Arc<Self>) {
        loop {
            let Some((key, waiter)) = self.state.lock().pop_fitting(self) else { return };

            // Sent without the lock: a permit whose waiter was dropped is dropped here, which takes the lock again.
            let permit = FairPermit { inner: Arc::clone(self), key, weight: waiter.weight };
            match waiter.grant {
                GrantSender::Async(sender) => drop(sender.send(permit)),
                GrantSender::Blocking(sender) => drop(sender.try_send(permit)),
            }
        }
    }
}

impl<K: FairnessKey> SemaphoreState<K> {
    /// Removes the waiter whose turn it is, if its weight fits, moves its key to the end of the turns, and takes the
    /// weight.
    fn pop_fitting(&mut self, semaphore: &SemaphoreInner<K>) -> Option<(K, Waiter<K>)> {
        let turn_index = self.turns.iter().position(|key| self.is_within_share(semaphore, key))?;
        let waiters = self.waiting.get_mut(self.turns.get(turn_index)?)?;
        if waiters.front()?.weight > self.available {
            return None;
        }

        let waiter = waiters.pop_front()?;
        let is_last = waiters.is_empty();
        let key = self.turns.remove(turn_index)?;
        if is_last {
            self.waiting.remove(&key);
        } else {
            self.turns.push_back(key.clone());
        }

        self.available -= waiter.weight;
        *self.held.entry(key.clone()).or_default() += waiter.weight;
        Some((key, waiter))
    }

    /// Returns `true` if the next waiter of a key does not exceed the share of the key.
    fn is_within_share(&self, SemaphoreInner { capacity, share, .. }: &SemaphoreInner<K>, key: &K) -> bool {
        if share == capacity {
            return true;
        }
        let held = self.held.get(key).copied().unwrap_or(0);
        let next = self.waiting.get(key).and_then(VecDeque::front);
        next.is_some_and(|waiter| held + waiter.weight <= *share)
    }

    fn release(&mut self, key: &K, weight: u64) {
        self.available += weight;
        if let Some(held) = self.held.get_mut(key) {
            *held -= weight;
            if *held == 0 {
                self.held.remove(key);
            }
        }
    }

    fn remove(&mut self, key: &K, id: u64) {
        let Some(waiters) = self.waiting.get_mut(key) else { return };
        waiters.retain(|waiter| waiter.id != id);
        if waiters.is_empty() {
            self.waiting.remove(key);
            self.turns.retain(|other| other != key);
        }
    }
}

impl<K: FairnessKey> Drop for WaiterGuard<'_, K> {
    fn drop(&mut self) {
        self.inner.state.lock().remove(&self.key, self.id);
        self.inner.grant();
    }
}

impl<K: FairnessKey> Drop for FairPermit<K> {
    fn drop(&mut self) {
        self.inner.state.lock().release(&self.key, self.weight);
        self.inner.grant();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;

    use super::*;

    type Waiting = BoxFuture<'static, FairPermit<&'static str>>;

    /// Returns a future that waits for its permit.
    fn start_waiting(semaphore: &FairSemaphore<&'static str>, key: &'static str, weight: u64) -> Waiting {
        let semaphore = semaphore.clone();
        let mut future = async move { semaphore.acquire(key, weight).await }.boxed();
        assert!((&mut future).now_or_never().is_none(), "{key} must wait");
        future
    }

    fn acquire_now(
        semaphore: &FairSemaphore<&'static str>,
        key: &'static str,
        weight: u64,
    ) -> FairPermit<&'static str> {
        semaphore.acquire(key, weight).now_or_never().expect("a permit without waiting")
    }

    #[test]
    fn a_backlog_delays_another_caller_by_one_job() {
        // Given one permit that is taken, three waiters of one caller, and then one of another
        let semaphore = FairSemaphore::new(1);
        let mut running = acquire_now(&semaphore, "ada", 1);
        let mut queue: Vec<(&str, Waiting)> =
            ["ada", "ada", "ada", "bob"].map(|key| (key, start_waiting(&semaphore, key, 1))).into();

        // When the permit is released again and again
        let mut order = Vec::new();
        while !queue.is_empty() {
            drop(running);
            let ready = queue
                .iter_mut()
                .enumerate()
                .find_map(|(index, (key, future))| Some((index, *key, future.now_or_never()?)));
            let (index, key, permit) = ready.expect("a waiter with a permit");
            drop(queue.remove(index));
            running = permit;
            order.push(key);
        }

        // Then the other caller waited for one job
        assert_eq!(order, ["ada", "bob", "ada", "ada"]);
    }

    #[test]
    fn heavy_work_is_not_overtaken_by_light_work() {
        let semaphore = FairSemaphore::new(4);
        let first = acquire_now(&semaphore, "ada", 2);
        let second = acquire_now(&semaphore, "ada", 1);
        let mut heavy = start_waiting(&semaphore, "ada", 4);
        let mut light = start_waiting(&semaphore, "bob", 1);

        drop(first);
        assert!((&mut light).now_or_never().is_none() && (&mut heavy).now_or_never().is_none());

        drop(second);
        let permit = heavy.now_or_never().expect("everything is free");
        assert!((&mut light).now_or_never().is_none());

        drop(permit);
        assert!(light.now_or_never().is_some());
        assert_eq!(semaphore.available(), 4);
    }

    #[test]
    fn a_dropped_waiter_blocks_no_other() {
        let semaphore = FairSemaphore::new(2);
        let permit = acquire_now(&semaphore, "ada", 1);
        let heavy = start_waiting(&semaphore, "ada", 2);
        let light = start_waiting(&semaphore, "bob", 1);

        drop(heavy);
        assert!(light.now_or_never().is_some());

        // A waiter that is dropped with an unseen permit does not block others either.
        let unpolled = start_waiting(&semaphore, "ada", 2);
        drop(permit);
        drop(unpolled);
        assert_eq!(semaphore.available(), 2);
    }

    #[test]
    fn one_caller_leaves_a_share_to_the_next() {
        // Given a caller that holds its share, half of the semaphore, and waits for more
        let semaphore = FairSemaphore::with_share(4, 2);
        let first_permit = acquire_now(&semaphore, "ada", 2);
        let mut second_request = start_waiting(&semaphore, "ada", 1);

        // Then another is not delayed
        let other_permit = acquire_now(&semaphore, "bob", 2);
        assert_eq!(semaphore.available(), 0);
        drop(other_permit);
        assert!((&mut second_request).now_or_never().is_none(), "the share is used up");

        // And the first gets its next permit once it has released one
        drop(first_permit);
        assert!(second_request.now_or_never().is_some());
        assert_eq!(semaphore.available(), 4);
        assert!(semaphore.inner.state.lock().held.is_empty(), "callers without a permit are forgotten");
    }

    #[test]
    fn a_weight_above_the_capacity_takes_all_of_it() {
        let semaphore = FairSemaphore::new(3);
        let permit = acquire_now(&semaphore, "ada", u64::MAX);
        assert_eq!(semaphore.available(), 0);
        let next_request = start_waiting(&semaphore, "bob", 1);
        drop(permit);
        assert!(next_request.now_or_never().is_some());
    }

    #[test]
    fn a_blocking_waiter_is_granted_before_its_deadline_or_gives_up() {
        let semaphore = FairSemaphore::new(1);
        let running = acquire_now(&semaphore, "ada", 1);
        assert!(semaphore.acquire_blocking("bob", 1, Duration::from_millis(1)).is_none());

        let waiter = {
            let semaphore = semaphore.clone();
            std::thread::spawn(move || semaphore.acquire_blocking("bob", 1, Duration::from_mins(1)).is_some())
        };
        while semaphore.inner.state.lock().turns.is_empty() {
            std::thread::yield_now();
        }
        drop(running);
        assert!(waiter.join().unwrap());
        assert_eq!(semaphore.available(), 1);
    }
}
