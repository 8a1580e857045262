//! What a few streams amount to: the same read models that the service has, of one thing and of those that it shows.

use crate::domain::decider::Decider;
use crate::domain::delivery::Delivery;
use crate::domain::event::Event;
use crate::domain::ids::TaskId;
use crate::domain::task::TaskStatus;
use crate::events::envelope::RecordedEvent;
use crate::projections::node::view::Links;
use crate::projections::read_models::Models;

/// What was folded so far.
#[derive(Debug)]
pub struct Folded {
    pub models: Models,
    /// Of a delivery, which no read model holds any more once it is made.
    pub delivery: Delivery,
    /// Of a task: how far it came before it ended, which its record does not keep.
    pub reached: TaskStatus,
}

impl Folded {
    /// Nothing; what is shown of what is folded is found by these links.
    #[must_use]
    pub fn new(links: Links) -> Self {
        Self { models: Models::new(links), delivery: Delivery::default(), reached: TaskStatus::Created }
    }

    /// Folds one event.
    pub fn apply(&mut self, event: &RecordedEvent) {
        self.models.apply(event);
        if let Event::Task(_) = &event.event
            && let Some(task) = TaskId::parse(event.stream.key()).ok().and_then(|id| self.models.tasks.get(id))
            && !task.record.is_terminal()
        {
            self.reached = self.reached.max(task.record.status);
        }
        if let Event::Delivery(delivery) = &event.event {
            Delivery::evolve(&mut self.delivery, delivery, event.at);
        }
    }
}
