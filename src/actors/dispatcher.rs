//! The dispatcher: tells receivers what changed, signed, in order for each task, at least once (contract 8).

use std::time::Duration;

use super::Circumstances;
use super::error::CommandError;
use super::reactor::{Next, Reactor};
use super::system::Dispatch;
use crate::clock::Surroundings;
use crate::domain::delivery::{AttemptOutcome, DeliveryCommand};
use crate::domain::ids::{DeliveryId, EventId};
use crate::events::stream::Position;
use crate::outbound::callback::{Callback, CallbackSender};
use crate::projections::ReadModels;
use crate::projections::delivery::PendingDelivery;
use crate::projections::task::ImageTaskView;

/// How long a delivery rests whose attempt could not be recorded.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The reactor that makes deliveries.
#[derive(Clone)]
pub struct CallbackDispatcher {
    dispatch: Dispatch,
    models: ReadModels,
    surroundings: Surroundings,
    sender: CallbackSender,
    /// The base of the URLs in bodies, without a trailing slash.
    public_url: String,
    changes: tokio::sync::watch::Receiver<Position>,
}

impl CallbackDispatcher {
    /// A dispatcher that sends by `sender`.
    #[must_use]
    pub fn new(
        dispatch: Dispatch,
        models: ReadModels,
        surroundings: Surroundings,
        sender: CallbackSender,
        public_url: String,
    ) -> Self {
        let changes = models.delivery_changes();
        Self { dispatch, models, surroundings, sender, public_url, changes }
    }

    async fn attempt(&self, delivery: &PendingDelivery) -> AttemptOutcome {
        let PendingDelivery { task, status, results, failure, .. } = delivery;
        let view = ImageTaskView::new(*task, *status, results, failure.as_ref(), &self.public_url);
        let body = serde_json::to_vec(&view).expect("a struct of strings can be written as JSON");
        let webhook_id = format!("msg_{}", delivery.id);
        self.sender
            .send(Callback { url: delivery.url.clone(), webhook_id, body: body.into(), at: self.surroundings.now() })
            .await
    }
}

impl Reactor for CallbackDispatcher {
    type Key = DeliveryId;
    type Work = PendingDelivery;
    const NAME: &'static str = "callback-dispatcher";

    fn due(&self, take: &mut dyn FnMut(&DeliveryId, &str) -> bool) -> Vec<(DeliveryId, PendingDelivery)> {
        let models = self.models.read();
        let due = models.deliveries.due(self.surroundings.now()).filter(|due| take(&due.id, due.url.origin()));
        due.map(|due| (due.id, due.clone())).collect()
    }

    async fn act(&self, delivery: PendingDelivery) -> Next {
        let outcome = self.attempt(&delivery).await;
        let (id, task, chance) = (delivery.id, delivery.task, self.surroundings.ratio());
        let command = DeliveryCommand::RecordAttempt { delivery: id, task, outcome, chance };
        let (causation, at) = (Some(EventId(id.0)), self.surroundings.now());
        let why = Circumstances::of_system(causation, at);
        match self.dispatch.delivery(id, command, why).await {
            Ok(_) | Err(CommandError::Rejected(_)) => Next::WhenDue,
            Err(error) => {
                tracing::warn!(delivery = %id, %error, "could not record an attempt; the receiver will hear of it again");
                Next::After(RETRY_PAUSE)
            }
        }
    }

    async fn changed(&mut self) -> bool {
        // An error means that the read models are gone, and the service with them.
        let _ = self.changes.changed().await;
        false
    }
}
