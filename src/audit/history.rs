//! States of a subject at a position, and before and after each of its events.
//!
//! A state is built from the subject's own stream and the streams of the subjects it refers to, in the order of their
//! events: a node refers to its publisher, a publisher to its members.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::json_diff::{JsonDifference, differences};
use super::page::BYTES_MAX;
use super::subject::AuditSubject;
use super::{Audit, AuditError};
use crate::domain::event::Event;
use crate::domain::node::NodeEvent;
use crate::domain::publisher::PublisherEvent;
use crate::events::envelope::RecordedEvent;
use crate::events::stream::{Position, StreamId};

/// State of a subject at a position.
#[derive(Debug, Serialize)]
pub struct SubjectState {
    pub thing: String,
    pub position: u64,
    /// Time of the event at that position; absent for position 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// `true` if the subject had been created and not deleted.
    pub exists: bool,
    /// The subject as an administrator would have seen it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
}

/// A page of a subject's events, each with its changes.
#[derive(Debug, Serialize)]
pub struct SubjectHistory {
    pub thing: String,
    pub entries: Vec<SubjectHistoryEntry>,
    /// The position after which the next page begins; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The position of the last event of the log.
    pub head: u64,
}

/// One event of a subject.
#[derive(Debug, Serialize)]
pub struct SubjectHistoryEntry {
    pub event: Box<RawValue>,
    /// Differences in the subject's state; empty if the event changed nothing visible.
    pub changes: Vec<JsonDifference>,
}

/// Events by stream.
pub(super) struct EventsByStream(BTreeMap<StreamId, Vec<RecordedEvent>>);

impl Audit {
    /// Reads the events from which the states of these subjects are built.
    pub(super) fn related_events<'t>(
        &self,
        subjects: impl IntoIterator<Item = &'t AuditSubject>,
        until: Position,
    ) -> Result<EventsByStream, AuditError> {
        let own_streams: BTreeSet<StreamId> = subjects.into_iter().map(|subject| subject.stream().clone()).collect();
        let mut streams: BTreeMap<StreamId, Vec<RecordedEvent>> = BTreeMap::new();
        for event in self.source.read_streams(&own_streams, until)? {
            streams.entry(event.stream.clone()).or_default().push(event);
        }

        // One further level is enough: a node shows its publisher but nothing of the publisher's members.
        let referenced: BTreeSet<StreamId> = streams.values().flatten().filter_map(referenced_stream).collect();
        let missing: BTreeSet<StreamId> =
            referenced.into_iter().filter(|stream| !own_streams.contains(stream)).collect();
        if !missing.is_empty() {
            for event in self.source.read_streams(&missing, until)? {
                streams.entry(event.stream.clone()).or_default().push(event);
            }
        }

        Ok(EventsByStream(streams))
    }

    /// Returns the state of a subject at a position, as an administrator would have seen it.
    ///
    /// # Errors
    /// If no event was ever recorded for the subject, or the events cannot be read.
    pub fn as_of(&self, subject: &AuditSubject, position: Position) -> Result<SubjectState, AuditError> {
        let histories = self.related_events([subject], position)?;
        let mut replayed = self.empty_state();
        histories.events_of(subject).into_iter().for_each(|event| replayed.apply(event));

        let state = self.render_state(&replayed, subject)?;
        if state.is_none() && !histories.0.contains_key(subject.stream()) {
            self.ensure_known(subject)?;
        }

        let at = self.time_of(position)?.map(|at| at.to_string());
        Ok(SubjectState { thing: subject.to_string(), position: position.0, at, exists: state.is_some(), state })
    }

    /// Returns the current names of these subjects, of those that have one, by `kind/id`.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn names(&self, subjects: &[AuditSubject]) -> Result<BTreeMap<String, String>, AuditError> {
        let histories = self.related_events(subjects, self.source.head()?)?;
        let mut names = BTreeMap::new();

        for subject in subjects {
            let mut replayed = self.empty_state();
            histories.events_of(subject).into_iter().for_each(|event| replayed.apply(event));
            let state = self.render_state(&replayed, subject)?;
            if let Some(name) = state.as_ref().and_then(|state| state["name"].as_str()) {
                names.insert(subject.to_string(), name.to_owned());
            }
        }
        Ok(names)
    }

    /// Returns at most `limit` events of a subject after `after`, each with its changes.
    ///
    /// # Errors
    /// If no event was ever recorded for the subject, or the events cannot be read.
    pub fn history(&self, subject: &AuditSubject, after: Position, limit: usize) -> Result<SubjectHistory, AuditError> {
        let head = self.source.head()?;
        let histories = self.related_events([subject], head)?;
        if !histories.0.contains_key(subject.stream()) {
            return Err(AuditError::UnknownSubject(subject.clone()));
        }

        let mut replayed = self.empty_state();
        let mut entries = Vec::new();
        let mut bytes = 0;
        let mut next = None;
        // The state after the previous event, if no referenced subject has changed since.
        let mut previous: Option<Option<Value>> = None;

        for event in histories.events_of(subject) {
            if event.stream != *subject.stream() || event.position <= after {
                replayed.apply(event);
                previous = None;
                continue;
            }

            if entries.len() >= limit.max(1) || bytes >= BYTES_MAX {
                next = entries.last().map(|(position, _)| *position);
                break;
            }

            let before = previous.take().map_or_else(|| self.render_state(&replayed, subject), Ok)?;
            replayed.apply(event);
            let state = self.render_state(&replayed, subject)?;
            let entry = SubjectHistoryEntry {
                event: self.canonical_json(event)?,
                changes: differences(before.as_ref(), state.as_ref()),
            };
            bytes += entry.event.get().len();
            entries.push((event.position.0, entry));
            previous = Some(state);
        }

        let entries = entries.into_iter().map(|(_, entry)| entry).collect();
        Ok(SubjectHistory { thing: subject.to_string(), entries, next, head: head.0 })
    }

    /// Returns an error if nothing was ever recorded for a subject.
    fn ensure_known(&self, subject: &AuditSubject) -> Result<(), AuditError> {
        let events = self.source.read_streams(&BTreeSet::from([subject.stream().clone()]), self.source.head()?)?;
        if events.is_empty() { Err(AuditError::UnknownSubject(subject.clone())) } else { Ok(()) }
    }

    /// Returns the number of events between two positions for each stream that has any and that `include` accepts.
    pub(super) fn event_counts(
        &self,
        from: Position,
        to: Position,
        include: impl Fn(&StreamId) -> bool,
    ) -> Result<BTreeMap<StreamId, u64>, AuditError> {
        let mut counts: BTreeMap<StreamId, u64> = BTreeMap::new();

        self.source.scan(from, &mut |event| {
            if event.position > to {
                return ControlFlow::Break(());
            }
            if let Some(count) = counts.get_mut(&event.stream) {
                *count += 1;
            } else if include(&event.stream) {
                counts.insert(event.stream.clone(), 1);
            }
            ControlFlow::Continue(())
        })?;

        Ok(counts)
    }
}

impl EventsByStream {
    /// Returns all events from which the state of a subject is built, in order.
    pub(super) fn events_of(&self, subject: &AuditSubject) -> Vec<&RecordedEvent> {
        let own_events = self.0.get(subject.stream()).map_or(&[][..], Vec::as_slice);
        let mut referenced: BTreeSet<StreamId> = own_events.iter().filter_map(referenced_stream).collect();
        referenced.remove(subject.stream());

        let referenced_events = referenced.iter().filter_map(|stream| self.0.get(stream)).flatten();
        let mut events: Vec<&RecordedEvent> = own_events.iter().chain(referenced_events).collect();
        events.sort_unstable_by_key(|event| event.position);
        events
    }
}

/// Returns the stream of another subject that this event adds to the state of its own subject.
fn referenced_stream(event: &RecordedEvent) -> Option<StreamId> {
    match &event.event {
        Event::Node(NodeEvent::NodeCreated { publisher, .. }) => Some(StreamId::from(publisher)),
        Event::Publisher(
            PublisherEvent::PublisherCreated { owner: user, .. } | PublisherEvent::MemberAdded { user, .. },
        ) => Some(StreamId::from(user)),
        _ => None,
    }
}
