//! Turns among callers: a key, usually an account, waits for one job of each other key at most.

mod semaphore;
mod turns;

pub use semaphore::{FairPermit, FairSemaphore};
pub use turns::{RoundRobin, Turns};

use std::hash::Hash;

/// Key by which callers take turns.
pub trait TurnKey: Clone + Eq + Hash {}

impl<K: Clone + Eq + Hash> TurnKey for K {}
