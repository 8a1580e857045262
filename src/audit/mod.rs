//! The log for those who ask who changed what, when and why: events as JSON, histories, states as they were.
//!
//! Everything is answered from the events alone, so that a running service ([`source::Live`]) and the directory of a stopped
//! one ([`source::Stopped`]) give the same answers. How a thing looks is not known here: it is asked of whoever shows it.

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

/// How a thing is shown to an administrator; `None` when it is not there.
pub type StateOf = Arc<dyn Fn(&Folded, &Thing) -> Result<Option<Value>, SourceFailure> + Send + Sync>;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// The events could not be read.
    #[error(transparent)]
    Source(#[from] SourceFailure),
    /// There is no such position yet.
    #[error("position {asked} is beyond the last event, which has position {head}")]
    Beyond { asked: Position, head: Position },
    /// No event was ever recorded of this.
    #[error("no event was ever recorded of {0}")]
    Unknown(Thing),
    /// The question is too large.
    #[error("{events} events lie between the two, which are more than {max}: ask for less")]
    TooMany { events: u64, max: u64 },
}

/// Answers questions about one log. Its calls block: never make one on an arbiter thread. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    source: Arc<dyn Source>,
    links: Links,
    state_of: StateOf,
    erasures: Erasures,
}

impl Audit {
    /// Of these events; `state_of` says how things are shown, `links` where what is shown is found, `erasures` of whom nothing
    /// personal is shown.
    #[must_use]
    pub fn new(source: Arc<dyn Source>, links: Links, state_of: StateOf, erasures: Erasures) -> Self {
        Self { source, links, state_of, erasures }
    }

    /// An event as it is shown: without what it says in plain of somebody who was erased since.
    ///
    /// # Errors
    /// When it cannot be found out who was erased.
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
    /// When the events cannot be read.
    pub fn head(&self) -> Result<u64, Unanswered> {
        Ok(self.source.head()?.0)
    }

    /// Whether an event of a user ever said something personal in plain, as those of older releases do.
    ///
    /// # Errors
    /// When the events cannot be read.
    pub fn was_readable(&self, user: UserId) -> Result<bool, Unanswered> {
        let events = self.source.streams(&BTreeSet::from([StreamId::from(&user)]), self.source.head()?)?;
        Ok(events.iter().any(|event| erased::readable(event).is_some()))
    }

    /// Where the events come from.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// The position at a moment: the last event not later than a time.
    ///
    /// # Errors
    /// When the position is not there yet, or the events cannot be read.
    pub fn position_at(&self, moment: moment::Moment) -> Result<Position, Unanswered> {
        match moment {
            moment::Moment::Time(at) => Ok(self.source.reached(at)?),
            moment::Moment::Position(asked) => {
                let head = self.source.head()?;
                if asked <= head { Ok(asked) } else { Err(Unanswered::Beyond { asked, head }) }
            }
        }
    }

    /// When the event at a position was recorded; `None` for position 0.
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
