//! Positions of events.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Position of an event in the whole journal. The first event has position 1, and there are no gaps. Position 0 is
/// before the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
