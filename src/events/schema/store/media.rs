//! Tasks and deliveries into their stored shapes.

use std::borrow::Cow;
use std::time::Duration;

use super::{image, text, v1, v2};
use crate::domain::delivery::{AttemptOutcome, DeliveryEvent};
use crate::domain::image::Picture;
use crate::domain::task::{Failure, TaskEvent, Work};

pub(super) fn task(event: &TaskEvent) -> v2::TaskEvent<'_> {
    match event {
        TaskEvent::TaskSubmitted(submission) => v2::TaskEvent::TaskSubmitted {
            task: submission.task.0.into(),
            owner: submission.owner.0.into(),
            work: work(&submission.work),
            webhook: submission.webhook.as_ref().map(|url| Cow::Borrowed(url.as_str())),
        },
        TaskEvent::SubmissionStarted { attempt, key } => {
            v2::TaskEvent::SubmissionStarted { attempt: *attempt, key: text(key) }
        }
        TaskEvent::VendorAccepted { reference } => v2::TaskEvent::VendorAccepted { reference: text(reference) },
        TaskEvent::VendorRefused { failure: why } => v2::TaskEvent::VendorRefused { failure: failure(why) },
        TaskEvent::OutcomeUnknown { reason } => v2::TaskEvent::OutcomeUnknown { reason: text(reason) },
        TaskEvent::VendorForgot => v2::TaskEvent::VendorForgot,
        TaskEvent::TaskCompleted { results } => {
            v2::TaskEvent::TaskCompleted { results: results.iter().map(picture).collect() }
        }
        TaskEvent::TaskFailed { failure: why } => v2::TaskEvent::TaskFailed { failure: failure(why) },
        TaskEvent::InputsFetched { inputs } => {
            v2::TaskEvent::InputsFetched { inputs: inputs.iter().map(picture).collect() }
        }
        TaskEvent::SubmissionUndelivered { reason } => v2::TaskEvent::SubmissionUndelivered { reason: text(reason) },
        TaskEvent::TaskCancelled => v2::TaskEvent::TaskCancelled,
    }
}

fn work(work: &Work) -> v2::Work<'_> {
    let Work::Image(work) = work;
    image::work(work)
}

pub(super) fn picture(picture: &Picture) -> v1::Picture<'_> {
    v1::Picture {
        digest: v1::Sha(picture.digest.0),
        format: Cow::Borrowed(picture.format.as_str()),
        bytes: picture.bytes,
        width: picture.width,
        height: picture.height,
    }
}

fn failure(failure: &Failure) -> v1::Failure<'_> {
    v1::Failure { code: text(&failure.code), message: text(&failure.message) }
}

pub(super) fn delivery(event: &DeliveryEvent) -> v1::DeliveryEvent<'_> {
    match event {
        DeliveryEvent::AttemptFailed { delivery, task, attempt, outcome: came, next_at } => {
            v1::DeliveryEvent::AttemptFailed {
                delivery: delivery.0.into(),
                task: task.0.into(),
                attempt: *attempt,
                outcome: outcome(came),
                next_at_micros: next_at.micros(),
            }
        }
        DeliveryEvent::DeliverySucceeded { delivery, task, attempt, status } => v1::DeliveryEvent::DeliverySucceeded {
            delivery: delivery.0.into(),
            task: task.0.into(),
            attempt: *attempt,
            status: *status,
        },
        DeliveryEvent::DeliveryDeadLettered { delivery, task, attempt, outcome: came } => {
            v1::DeliveryEvent::DeliveryDeadLettered {
                delivery: delivery.0.into(),
                task: task.0.into(),
                attempt: *attempt,
                outcome: outcome(came),
            }
        }
        DeliveryEvent::RedeliveryRequested(again) => v1::DeliveryEvent::RedeliveryRequested {
            delivery: again.delivery.0.into(),
            task: again.task.0.into(),
            owner: again.owner.0.into(),
            url: Cow::Borrowed(again.url.as_str()),
            change: again.change,
        },
    }
}

fn outcome(outcome: &AttemptOutcome) -> v1::AttemptOutcome<'_> {
    let micros = |wait: Duration| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
    match outcome {
        AttemptOutcome::Answered { status, retry_after } => {
            v1::AttemptOutcome::Answered { status: *status, retry_after_micros: retry_after.map(micros) }
        }
        AttemptOutcome::Unreachable { reason } => v1::AttemptOutcome::Unreachable { reason: text(reason) },
    }
}
