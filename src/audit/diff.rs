//! Changes between two positions, by subject.

use serde::Serialize;

use super::filter::StreamFilter;
use super::history::EventsByStream;
use super::json_diff::{JsonDifference, differences};
use super::subject::AuditSubject;
use super::{Audit, AuditError};
use crate::events::stream::Position;

/// Maximum number of events between the two positions.
pub const EVENTS_MAX: u64 = 200_000;

/// Result of a diff.
#[derive(Debug, Serialize)]
pub struct Diff {
    pub from: u64,
    pub to: u64,
    /// Sorted by name.
    pub things: Vec<SubjectDiff>,
    /// The name after which the next page begins; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Changes of one subject.
#[derive(Debug, Serialize)]
pub struct SubjectDiff {
    pub thing: String,
    pub change: SubjectChangeKind,
    /// Number of the subject's own events in between.
    pub events: u64,
    /// Differences in the subject's state.
    pub changes: Vec<JsonDifference>,
}

/// Kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SubjectChangeKind {
    Created,
    Changed,
    Deleted,
    /// The subject had events, but its state is the same.
    Unchanged,
}

impl SubjectChangeKind {
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
        streams: &StreamFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Diff, AuditError> {
        let events = to.0.saturating_sub(from.0);
        if events > EVENTS_MAX {
            return Err(AuditError::TooMany { events, max: EVENTS_MAX });
        }

        let event_counts = self.event_counts(from, to, |stream| match streams {
            StreamFilter::All => true,
            StreamFilter::Kind(kind) => stream.kind() == *kind,
            StreamFilter::One(subject) => stream == subject.stream(),
        })?;

        let with_subject = |(stream, events)| (AuditSubject::from_stream(stream), events);
        let mut subjects: Vec<(AuditSubject, u64)> = event_counts.into_iter().map(with_subject).collect();
        subjects.sort_unstable_by(|(a, _), (b, _)| a.stream().as_str().cmp(b.stream().as_str()));
        subjects.retain(|(subject, _)| after.is_none_or(|after| subject.stream().as_str() > after));

        let has_more = subjects.len() > limit.max(1);
        subjects.truncate(limit.max(1));
        let next = subjects.last().filter(|_| has_more).map(|(subject, _)| subject.to_string());

        let histories = self.related_events(subjects.iter().map(|(subject, _)| subject), to)?;
        let diffs = subjects.iter().map(|(subject, events)| self.diff_subject(subject, *events, &histories, from));
        Ok(Diff { from: from.0, to: to.0, things: diffs.collect::<Result<_, AuditError>>()?, next })
    }

    /// Compares the states of a subject at `from` and at the end of `histories`; `events` is the number of its own
    /// events in between.
    fn diff_subject(
        &self,
        subject: &AuditSubject,
        events: u64,
        histories: &EventsByStream,
        from: Position,
    ) -> Result<SubjectDiff, AuditError> {
        let mut replayed = self.empty_state();
        let mut remaining = histories.events_of(subject).into_iter().peekable();
        while let Some(event) = remaining.next_if(|event| event.position <= from) {
            replayed.apply(event);
        }
        let before = self.render_state(&replayed, subject)?;

        remaining.for_each(|event| replayed.apply(event));
        let after = self.render_state(&replayed, subject)?;

        let changes = differences(before.as_ref(), after.as_ref());
        let change = match (&before, &after) {
            (None, Some(_)) => SubjectChangeKind::Created,
            (Some(_), None) => SubjectChangeKind::Deleted,
            _ if changes.is_empty() => SubjectChangeKind::Unchanged,
            _ => SubjectChangeKind::Changed,
        };
        Ok(SubjectDiff { thing: subject.to_string(), change, events, changes })
    }
}
