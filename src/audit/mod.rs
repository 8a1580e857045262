//! Audit of the log: events as JSON, histories, and states at any position.
//!
//! All results derive from the events alone, so a running service ([`source::LiveEventSource`]) and the directory of a
//! stopped one ([`source::StoppedEventSource`]) give the same ones. The caller supplies the rendering of states
//! ([`StateRenderer`]).

pub mod diff;
pub mod filter;
pub mod history;
pub mod json_diff;
pub mod page;
pub mod point_in_time;
pub mod record;
pub mod redaction;
pub mod replay;
pub mod source;
pub mod subject;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use self::point_in_time::PointInTime;
use self::record::RecordJson;
use self::redaction::ErasureCheck;
use self::replay::ReplayedState;
use self::source::{EventSource, EventSourceError};
use self::subject::AuditSubject;
use crate::domain::ids::UserId;
use crate::domain::value::Timestamp;
use crate::events::envelope::RecordedEvent;
pub use crate::events::schema::VERSION as SCHEMA;
pub use crate::events::stream::Position;
use crate::events::stream::StreamId;
use crate::projections::node::view::Links;

/// Renders the state of a subject for an administrator; `None` if the subject does not exist.
pub type StateRenderer =
    Arc<dyn Fn(&ReplayedState, &AuditSubject) -> Result<Option<Value>, EventSourceError> + Send + Sync>;

/// Reason why a query fails.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The events could not be read.
    #[error(transparent)]
    Source(#[from] EventSourceError),
    /// The position is beyond the end of the log.
    #[error("position {asked} is after the last event (position {head})")]
    BeyondEnd { asked: Position, head: Position },
    /// No event was ever recorded for this subject.
    #[error("{0} has no events")]
    UnknownSubject(AuditSubject),
    /// The query covers too many events.
    #[error("the range contains {events} events; at most {max} are allowed, so choose a shorter one")]
    TooMany { events: u64, max: u64 },
}

/// Audit queries over one log. All calls block, so they must not run on an arbiter thread. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    source: Arc<dyn EventSource>,
    links: Links,
    renderer: StateRenderer,
    erasures: ErasureCheck,
}

impl Audit {
    /// Returns audit queries over these events. `renderer` renders states, `links` builds URLs in them, and `erasures`
    /// decides whose personal data is redacted.
    #[must_use]
    pub fn new(source: Arc<dyn EventSource>, links: Links, renderer: StateRenderer, erasures: ErasureCheck) -> Self {
        Self { source, links, renderer, erasures }
    }

    /// Renders an event, without the plain text about users who have been erased since.
    ///
    /// # Errors
    /// If the erasures cannot be read.
    pub fn record(&self, event: &RecordedEvent) -> Result<RecordJson, AuditError> {
        let mut record = RecordJson::from(event);
        if let Some(user) = redaction::user_in_plain_text(event)
            && (self.erasures)(user)?
        {
            redaction::redact(&mut record.data);
        }
        Ok(record)
    }

    /// Returns the position of the last event.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn head(&self) -> Result<u64, AuditError> {
        Ok(self.source.head()?.0)
    }

    /// Returns `true` if an event of a user ever contained personal data in plain text, as older releases recorded it.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn had_plain_text(&self, user: UserId) -> Result<bool, AuditError> {
        let events = self.source.read_streams(&BTreeSet::from([StreamId::from(&user)]), self.source.head()?)?;
        Ok(events.iter().any(|event| redaction::user_in_plain_text(event).is_some()))
    }

    /// Returns the source of the events.
    #[must_use]
    pub fn source(&self) -> &dyn EventSource {
        &*self.source
    }

    /// Returns the position of a point in time; for a time, that of the last event that is not later.
    ///
    /// # Errors
    /// If the position is beyond the end of the log, or the events cannot be read.
    pub fn position_at(&self, point: PointInTime) -> Result<Position, AuditError> {
        match point {
            PointInTime::Time(at) => Ok(self.source.position_at(at)?),
            PointInTime::Position(position) => {
                let head = self.source.head()?;
                if position <= head { Ok(position) } else { Err(AuditError::BeyondEnd { asked: position, head }) }
            }
        }
    }

    /// Returns the time of the event at a position; `None` for position 0.
    fn time_of(&self, position: Position) -> Result<Option<Timestamp>, AuditError> {
        let Some(before) = position.0.checked_sub(1) else { return Ok(None) };
        let mut at = None;
        self.source.scan(Position(before), &mut |event| {
            at = Some(event.at);
            std::ops::ControlFlow::Break(())
        })?;
        Ok(at)
    }

    fn empty_state(&self) -> ReplayedState {
        ReplayedState::new(self.links.clone())
    }

    fn render_state(&self, state: &ReplayedState, subject: &AuditSubject) -> Result<Option<Value>, AuditError> {
        Ok((self.renderer)(state, subject)?)
    }
}
