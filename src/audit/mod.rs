//! Audit of the log: events as JSON, histories, and states at any position.
//!
//! All answers derive from the events alone, so a running service ([`source::Live`]) and the directory of a stopped one
//! ([`source::Stopped`]) give the same ones. The caller supplies the rendering of states ([`StateOf`]).

pub mod change;
pub mod diff;
pub mod erased;
pub mod filter;
pub mod fold;
pub mod history;
pub mod moment;
pub mod page;
pub mod record;
pub mod source;
pub mod thing;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use self::erased::Erasures;
use self::fold::Folded;
use self::record::RecordJson;
use self::source::{Source, SourceFailure};
use self::thing::Thing;
use crate::domain::ids::UserId;
use crate::domain::value::Timestamp;
use crate::events::envelope::RecordedEvent;
pub use crate::events::schema::VERSION as SCHEMA;
pub use crate::events::stream::Position;
use crate::events::stream::StreamId;
use crate::projections::node::view::Links;

/// Renders the state of a subject for an administrator; `None` if the subject does not exist.
pub type StateOf = Arc<dyn Fn(&Folded, &Thing) -> Result<Option<Value>, SourceFailure> + Send + Sync>;

/// Reason why a query fails.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// The events could not be read.
    #[error(transparent)]
    Source(#[from] SourceFailure),
    /// The position is beyond the end of the log.
    #[error("position {asked} is beyond the last event, which has position {head}")]
    Beyond { asked: Position, head: Position },
    /// No event was ever recorded for this subject.
    #[error("no event was ever recorded of {0}")]
    Unknown(Thing),
    /// The query covers too many events.
    #[error("{events} events lie between the two, which are more than {max}: ask for less")]
    TooMany { events: u64, max: u64 },
}

/// Audit queries over one log. All calls block, so they must not run on an arbiter thread. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    source: Arc<dyn Source>,
    links: Links,
    state_of: StateOf,
    erasures: Erasures,
}

impl Audit {
    /// Queries these events. `state_of` renders states, `links` builds URLs in them, and `erasures` decides whose
    /// personal data is redacted.
    #[must_use]
    pub fn new(source: Arc<dyn Source>, links: Links, state_of: StateOf, erasures: Erasures) -> Self {
        Self { source, links, state_of, erasures }
    }

    /// Renders an event, without the plain text about users who have been erased since.
    ///
    /// # Errors
    /// If the erasures cannot be read.
    pub fn record(&self, event: &RecordedEvent) -> Result<RecordJson, Unanswered> {
        let mut record = RecordJson::from(event);
        if let Some(user) = erased::readable(event)
            && (self.erasures)(user)?
        {
            erased::redact(&mut record.data);
        }
        Ok(record)
    }

    /// The position of the last event.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn head(&self) -> Result<u64, Unanswered> {
        Ok(self.source.head()?.0)
    }

    /// Returns `true` if an event of a user ever contained personal data in plain text, as older releases recorded it.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn was_readable(&self, user: UserId) -> Result<bool, Unanswered> {
        let events = self.source.streams(&BTreeSet::from([StreamId::from(&user)]), self.source.head()?)?;
        Ok(events.iter().any(|event| erased::readable(event).is_some()))
    }

    /// The source of the events.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Returns the position of a moment; for a time, that of the last event not later than it.
    ///
    /// # Errors
    /// If the position is beyond the end of the log, or the events cannot be read.
    pub fn position_at(&self, moment: moment::Moment) -> Result<Position, Unanswered> {
        match moment {
            moment::Moment::Time(at) => Ok(self.source.reached(at)?),
            moment::Moment::Position(asked) => {
                let head = self.source.head()?;
                if asked <= head { Ok(asked) } else { Err(Unanswered::Beyond { asked, head }) }
            }
        }
    }

    /// Time of the event at a position; `None` for position 0.
    fn time_of(&self, position: Position) -> Result<Option<Timestamp>, Unanswered> {
        let Some(before) = position.0.checked_sub(1) else { return Ok(None) };
        let mut at = None;
        self.source.walk(Position(before), &mut |event| {
            at = Some(event.at);
            std::ops::ControlFlow::Break(())
        })?;
        Ok(at)
    }

    fn nothing(&self) -> Folded {
        Folded::new(self.links.clone())
    }

    fn state(&self, folded: &Folded, thing: &Thing) -> Result<Option<Value>, Unanswered> {
        Ok((self.state_of)(folded, thing)?)
    }
}
