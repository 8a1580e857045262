//! States as they were: of a thing at a position, and before and after each of its events.
//!
//! A state is folded from the thing's own stream and from those of the things that it shows, in the order of their events: a
//! node shows its publisher, a publisher its members.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::change::{Difference, differences};
use super::thing::Thing;
use super::{Audit, Unanswered};
use crate::domain::event::Event;
use crate::domain::node::NodeEvent;
use crate::domain::publisher::PublisherEvent;
use crate::events::envelope::RecordedEvent;
use crate::events::stream::{Position, StreamId};

/// A page with more bytes of events than this takes no further one.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The state of a thing at a position.
#[derive(Debug, Serialize)]
pub struct AsOf {
    pub thing: String,
    pub position: u64,
    /// When the event at that position was recorded; absent for position 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Whether it was there: made already, and not deleted.
    pub exists: bool,
    /// As it would have been shown to an administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
}

/// Some of the events of a thing, each with what it changed.
#[derive(Debug, Serialize)]
pub struct History {
    pub thing: String,
    pub entries: Vec<Entry>,
    /// The position after which to ask for more; absent when there is no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The position of the last event of the log.
    pub head: u64,
}

/// One event of a thing.
#[derive(Debug, Serialize)]
pub struct Entry {
    pub event: Box<RawValue>,
    /// What is different in what is shown of the thing; empty when the event changed nothing that is shown.
    pub changes: Vec<Difference>,
}

/// The events of streams, by stream.
pub(super) struct Histories(BTreeMap<StreamId, Vec<RecordedEvent>>);

impl Audit {
    /// Reads what the states of these things are folded from.
    pub(super) fn histories<'t>(
        &self,
        things: impl IntoIterator<Item = &'t Thing>,
        until: Position,
    ) -> Result<Histories, Unanswered> {
        let own: BTreeSet<StreamId> = things.into_iter().map(|thing| thing.stream().clone()).collect();
        let mut streams: BTreeMap<StreamId, Vec<RecordedEvent>> = BTreeMap::new();
        for event in self.source.streams(&own, until)? {
            streams.entry(event.stream.clone()).or_default().push(event);
        }
        // A node shows its publisher, which shows its members, who show nobody: but of members a node shows nothing.
        let shown: BTreeSet<StreamId> = streams.values().flatten().filter_map(shown_by).collect();
        let missing: BTreeSet<StreamId> = shown.into_iter().filter(|stream| !own.contains(stream)).collect();
        if !missing.is_empty() {
            for event in self.source.streams(&missing, until)? {
                streams.entry(event.stream.clone()).or_default().push(event);
            }
        }
        Ok(Histories(streams))
    }

    /// The state of a thing as an administrator would have been shown it at a position.
    ///
    /// # Errors
    /// When no event was ever recorded of it, or the events cannot be read.
    pub fn as_of(&self, thing: &Thing, position: Position) -> Result<AsOf, Unanswered> {
        let histories = self.histories([thing], position)?;
        let mut folded = self.nothing();
        histories.of(thing).into_iter().for_each(|event| folded.apply(event));
        let state = self.state(&folded, thing)?;
        if state.is_none() && !histories.0.contains_key(thing.stream()) {
            self.check_known(thing)?;
        }
        let at = self.time_of(position)?.map(|at| at.to_string());
        Ok(AsOf { thing: thing.to_string(), position: position.0, at, exists: state.is_some(), state })
    }

    /// The events of a thing after `after`, at most `limit` of them, each with what it changed.
    ///
    /// # Errors
    /// When no event was ever recorded of it, or the events cannot be read.
    pub fn history(&self, thing: &Thing, after: Position, limit: usize) -> Result<History, Unanswered> {
        let head = self.source.head()?;
        let histories = self.histories([thing], head)?;
        if !histories.0.contains_key(thing.stream()) {
            return Err(Unanswered::Unknown(thing.clone()));
        }
        let (mut folded, mut entries, mut bytes, mut next) = (self.nothing(), Vec::new(), 0, None);
        // The state after the event before, while no other thing has changed since.
        let mut known: Option<Option<Value>> = None;
        for event in histories.of(thing) {
            if event.stream != *thing.stream() || event.position <= after {
                folded.apply(event);
                known = None;
                continue;
            }
            if entries.len() >= limit.max(1) || bytes >= BYTES_MAX {
                next = entries.last().map(|(position, _)| *position);
                break;
            }
            let before = known.take().map_or_else(|| self.state(&folded, thing), Ok)?;
            folded.apply(event);
            let state = self.state(&folded, thing)?;
            let entry = Entry { event: self.raw(event)?, changes: differences(before.as_ref(), state.as_ref()) };
            bytes += entry.event.get().len();
            entries.push((event.position.0, entry));
            known = Some(state);
        }
        let entries = entries.into_iter().map(|(_, entry)| entry).collect();
        Ok(History { thing: thing.to_string(), entries, next, head: head.0 })
    }

    /// Whether anything was ever recorded of a thing.
    fn check_known(&self, thing: &Thing) -> Result<(), Unanswered> {
        let events = self.source.streams(&BTreeSet::from([thing.stream().clone()]), self.source.head()?)?;
        if events.is_empty() { Err(Unanswered::Unknown(thing.clone())) } else { Ok(()) }
    }

    /// Calls `each` with every thing that has an event between two positions, and how many.
    pub(super) fn touched(
        &self,
        from: Position,
        to: Position,
        wanted: impl Fn(&StreamId) -> bool,
    ) -> Result<BTreeMap<StreamId, u64>, Unanswered> {
        let mut touched: BTreeMap<StreamId, u64> = BTreeMap::new();
        self.source.walk(from, &mut |event| {
            if event.position > to {
                return ControlFlow::Break(());
            }
            if let Some(count) = touched.get_mut(&event.stream) {
                *count += 1;
            } else if wanted(&event.stream) {
                touched.insert(event.stream.clone(), 1);
            }
            ControlFlow::Continue(())
        })?;
        Ok(touched)
    }
}

impl Histories {
    /// Everything that the state of a thing is folded from, in order.
    pub(super) fn of(&self, thing: &Thing) -> Vec<&RecordedEvent> {
        let own = self.0.get(thing.stream()).map_or(&[][..], Vec::as_slice);
        let shown: BTreeSet<StreamId> = own.iter().filter_map(shown_by).collect();
        let others = shown.iter().filter(|stream| *stream != thing.stream()).filter_map(|stream| self.0.get(stream));
        let mut events: Vec<&RecordedEvent> = own.iter().chain(others.flatten()).collect();
        events.sort_unstable_by_key(|event| event.position);
        events
    }
}

/// The stream of another thing that is shown with the thing of an event.
fn shown_by(event: &RecordedEvent) -> Option<StreamId> {
    match &event.event {
        Event::Node(NodeEvent::NodeCreated { publisher, .. }) => Some(StreamId::from(publisher)),
        Event::Publisher(
            PublisherEvent::PublisherCreated { owner: user, .. } | PublisherEvent::MemberAdded { user, .. },
        ) => Some(StreamId::from(user)),
        _ => None,
    }
}
