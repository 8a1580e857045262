//! What changed between two positions, thing by thing.

use serde::Serialize;

use super::change::{Difference, differences};
use super::filter::Streams;
use super::thing::Thing;
use super::{Audit, Unanswered};
use crate::events::stream::Position;

/// Most events that may lie between the two positions.
pub const EVENTS_MAX: u64 = 200_000;

/// What changed.
#[derive(Debug, Serialize)]
pub struct Diff {
    pub from: u64,
    pub to: u64,
    /// By name.
    pub things: Vec<ThingDiff>,
    /// The name after which to ask for more; absent when there is no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What changed in one thing.
#[derive(Debug, Serialize)]
pub struct ThingDiff {
    pub thing: String,
    pub change: Change,
    /// How many events of its own it had in between.
    pub events: u64,
    /// In what is shown of it; empty when all is as it was.
    pub changes: Vec<Difference>,
}

/// What became of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    Created,
    Changed,
    Deleted,
    /// It had events, and looks as it did before.
    Unchanged,
}

impl Change {
    /// Every one.
    pub const NAMES: [&'static str; 4] = ["created", "changed", "deleted", "unchanged"];
}

impl Audit {
    /// The things that had events after `from` up to `to`, by name, at most `limit` of them after the one named `after`; each
    /// with the difference between what was shown of it at both.
    ///
    /// # Errors
    /// When too many events lie between the two, or they cannot be read.
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
            let (mut folded, mut rest) = (self.nothing(), histories.of(&thing).into_iter().peekable());
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
