//! Changes between two positions, by subject.

use serde::Serialize;

use super::change::{Difference, differences};
use super::filter::Streams;
use super::thing::Thing;
use super::{Audit, Unanswered};
use crate::events::stream::Position;

/// Maximum number of events between the two positions.
pub const EVENTS_MAX: u64 = 200_000;

/// Result of a diff.
#[derive(Debug, Serialize)]
pub struct Diff {
    pub from: u64,
    pub to: u64,
    /// Sorted by name.
    pub things: Vec<ThingDiff>,
    /// The name after which the next page begins; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Changes of one subject.
#[derive(Debug, Serialize)]
pub struct ThingDiff {
    pub thing: String,
    pub change: Change,
    /// Number of the subject's own events in between.
    pub events: u64,
    /// Differences in the subject's state; empty if there are none.
    pub changes: Vec<Difference>,
}

/// Kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    Created,
    Changed,
    Deleted,
    /// The subject had events, but its state is the same.
    Unchanged,
}

impl Change {
    /// The names of all kinds.
    pub const NAMES: [&'static str; 4] = ["created", "changed", "deleted", "unchanged"];
}

impl Audit {
    /// Compares, at two positions, the state of every subject with events after `from` up to `to`. Returns at most
    /// `limit` subjects, sorted by name, beginning after the one named `after`.
    ///
    /// # Errors
    /// If there are more than [`EVENTS_MAX`] events in between, or they cannot be read.
    pub fn diff(
        &self,
        (from, to): (Position, Position),
        streams: &Streams,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Diff, Unanswered> {
        let events = to.0.saturating_sub(from.0);
        if events > EVENTS_MAX {
            return Err(Unanswered::TooMany { events, max: EVENTS_MAX });
        }

        let touched = self.touched(from, to, |stream| match streams {
            Streams::All => true,
            Streams::Kind(kind) => stream.kind() == *kind,
            Streams::One(thing) => stream == thing.stream(),
        })?;

        let mut names: Vec<_> =
            touched.into_iter().map(|(stream, events)| (Thing::of_stream(stream), events)).collect();
        names.sort_unstable_by(|(one, _), (other, _)| one.stream().as_str().cmp(other.stream().as_str()));
        names.retain(|(thing, _)| after.is_none_or(|after| thing.stream().as_str() > after));

        let more = names.len() > limit.max(1);
        names.truncate(limit.max(1));

        let histories = self.histories(names.iter().map(|(thing, _)| thing), to)?;
        let next = names.last().filter(|_| more).map(|(thing, _)| thing.to_string());
        let compared = names.into_iter().map(|(thing, events)| {
            let mut folded = self.nothing();
            let mut rest = histories.of(&thing).into_iter().peekable();
            while let Some(event) = rest.next_if(|event| event.position <= from) {
                folded.apply(event);
            }

            let before = self.state(&folded, &thing)?;
            rest.for_each(|event| folded.apply(event));
            let state = self.state(&folded, &thing)?;

            let changes = differences(before.as_ref(), state.as_ref());
            let change = match (&before, &state) {
                (None, Some(_)) => Change::Created,
                (Some(_), None) => Change::Deleted,
                _ if changes.is_empty() => Change::Unchanged,
                _ => Change::Changed,
            };
            Ok(ThingDiff { thing: thing.to_string(), change, events, changes })
        });

        Ok(Diff { from: from.0, to: to.0, things: compared.collect::<Result<_, Unanswered>>()?, next })
    }
}
