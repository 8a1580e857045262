//! State from a few streams: the service's read models, limited to one subject and the subjects it refers to.

use crate::domain::decider::Decider;
use crate::domain::delivery::Delivery;
use crate::domain::event::Event;
use crate::domain::ids::TaskId;
use crate::domain::task::TaskStatus;
use crate::events::envelope::RecordedEvent;
use crate::projections::node::view::Links;
use crate::projections::read_models::Models;

/// State after the events applied so far.
#[derive(Debug)]
pub struct ReplayedState {
    pub models: Models,
    /// State of a delivery, which the read models drop when it is complete.
    pub delivery: Delivery,
    /// Last status of a task before it ended, which the read models do not keep.
    pub reached_status: TaskStatus,
}

impl ReplayedState {
    /// Returns the empty state; `links` builds the URLs in the rendered state.
    #[must_use]
    pub fn new(links: Links) -> Self {
        Self { models: Models::new(links), delivery: Delivery::default(), reached_status: TaskStatus::Created }
    }

    /// Applies one event.
    pub fn apply(&mut self, event: &RecordedEvent) {
        self.models.apply(event);
        if let Event::Task(_) = &event.event
            && let Some(task) = TaskId::parse(event.stream.key()).ok().and_then(|id| self.models.tasks.get(id))
            && !task.record.is_terminal()
        {
            self.reached_status = self.reached_status.max(task.record.status);
        }
        if let Event::Delivery(delivery) = &event.event {
            Delivery::evolve(&mut self.delivery, delivery, event.at);
        }
    }
}
