//! The log for those who ask who changed what, when and why: events as JSON, histories, states as they were.
//!
//! Everything is answered from the events alone, so that a running service ([`source::Live`]) and the directory of a stopped
//! one ([`source::Stopped`]) give the same answers. How a thing looks is not known here: it is asked of whoever shows it.

pub mod change;
pub mod diff;
pub mod filter;
pub mod fold;
pub mod history;
pub mod moment;
pub mod page;
pub mod record;
pub mod source;
pub mod thing;

use std::sync::Arc;

use serde_json::Value;

use self::fold::Folded;
use self::source::{Source, SourceFailure};
use self::thing::Thing;
use crate::domain::value::Timestamp;
pub use crate::events::schema::VERSION as SCHEMA;
pub use crate::events::stream::Position;
use crate::projections::node::view::Links;

/// How a thing is shown to an administrator; `None` when it is not there.
pub type StateOf = Arc<dyn Fn(&Folded, &Thing) -> Option<Value> + Send + Sync>;

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
}

impl Audit {
    /// Of these events; `state_of` says how things are shown, `links` where what is shown is found.
    pub fn new(source: impl Source, links: Links, state_of: StateOf) -> Self {
        Self { source: Arc::new(source), links, state_of }
    }

    /// The position of the last event.
    ///
    /// # Errors
    /// When the events cannot be read.
    pub fn head(&self) -> Result<u64, Unanswered> {
        Ok(self.source.head()?.0)
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

    fn state(&self, folded: &Folded, thing: &Thing) -> Option<Value> {
        (self.state_of)(folded, thing)
    }
}
