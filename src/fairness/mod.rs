//! Fair scheduling: callers take turns by key, usually an account, so that a key waits for at most one job of each
//! other key.

mod round_robin;
mod semaphore;

pub use round_robin::{RoundRobin, RoundRobinOrder};
pub use semaphore::{FairPermit, FairSemaphore};

use std::hash::Hash;

/// Key by which callers take turns.
pub trait FairnessKey: Clone + Eq + Hash {}

impl<K: Clone + Eq + Hash> FairnessKey for K {}
