//! Conversion of tasks and deliveries to stored shapes.

use std::borrow::Cow;
use std::time::Duration;

use super::{image, text, v1, v2, video};
use crate::domain::delivery::{AttemptOutcome, DeliveryEvent, Redelivery};
use crate::domain::image::Picture;
use crate::domain::task::{Submission, TaskEvent, TaskFailure, TaskWork};

pub(super) fn task(event: &TaskEvent) -> v2::TaskEventV2<'_> {
    match event {
        TaskEvent::TaskSubmitted(submission) => submitted(submission),
        TaskEvent::SubmissionStarted { attempt, key } => {
            v2::TaskEventV2::SubmissionStarted { attempt: *attempt, key: text(key) }
        }
        TaskEvent::VendorAccepted { reference } => v2::TaskEventV2::VendorAccepted { reference: text(reference) },
        TaskEvent::VendorRefused { failure: task_failure } => {
            v2::TaskEventV2::VendorRefused { failure: failure(task_failure) }
        }
        TaskEvent::OutcomeUnknown { reason } => v2::TaskEventV2::OutcomeUnknown { reason: text(reason) },
        TaskEvent::VendorForgot => v2::TaskEventV2::VendorForgot,
        TaskEvent::TaskCompleted { results } => {
            v2::TaskEventV2::TaskCompleted { results: results.iter().map(picture).collect() }
        }
        TaskEvent::TaskFailed { failure: task_failure } => {
            v2::TaskEventV2::TaskFailed { failure: failure(task_failure) }
        }
        TaskEvent::InputsFetched { inputs } => {
            v2::TaskEventV2::InputsFetched { inputs: inputs.iter().map(picture).collect() }
        }
        TaskEvent::SubmissionUndelivered { reason } => v2::TaskEventV2::SubmissionUndelivered { reason: text(reason) },
        TaskEvent::TaskCancelled => v2::TaskEventV2::TaskCancelled,
        TaskEvent::TaskQueued => v2::TaskEventV2::TaskQueued,
        TaskEvent::FootageFetched { clip } => v2::TaskEventV2::FootageFetched { clip: video::clip(clip) },
        TaskEvent::WorkBegan => v2::TaskEventV2::WorkBegan,
        TaskEvent::VideoCompleted { creation } => {
            v2::TaskEventV2::VideoCompleted { creation: video::creation(creation) }
        }
        TaskEvent::StreamCompleted { stream } => v2::TaskEventV2::StreamCompleted { stream: video::stream(stream) },
    }
}

/// A submission with an owner keeps the shape of version 1.
fn submitted(submission: &Submission) -> v2::TaskEventV2<'_> {
    let task = submission.task.0.into();
    let work = work(&submission.work);
    let webhook = submission.webhook.as_ref().map(|url| Cow::Borrowed(url.as_str()));
    match submission.owner {
        Some(owner) => v2::TaskEventV2::TaskSubmitted { task, owner: owner.0.into(), work, webhook },
        None => v2::TaskEventV2::AnonymousTaskSubmitted { task, work, webhook },
    }
}

fn work(work: &TaskWork) -> v2::WorkV2<'_> {
    match work {
        TaskWork::Image(work) => image::work(work),
        TaskWork::Video(work) => video::work(work),
        TaskWork::Music(work) => video::music(work),
    }
}

pub(super) fn picture(picture: &Picture) -> v1::PictureV1<'_> {
    v1::PictureV1 {
        digest: v1::StoredSha256(picture.digest.0),
        format: Cow::Borrowed(picture.format.as_str()),
        bytes: picture.bytes,
        width: picture.width,
        height: picture.height,
    }
}

fn failure(failure: &TaskFailure) -> v1::FailureV1<'_> {
    v1::FailureV1 { code: text(&failure.code), message: text(&failure.message) }
}

pub(super) fn delivery(event: &DeliveryEvent) -> v1::DeliveryEventV1<'_> {
    match event {
        DeliveryEvent::AttemptFailed { delivery, task, attempt, outcome: attempt_outcome, next_at } => {
            v1::DeliveryEventV1::AttemptFailed {
                delivery: delivery.0.into(),
                task: task.0.into(),
                attempt: *attempt,
                outcome: outcome(attempt_outcome),
                next_at_micros: next_at.micros(),
            }
        }
        DeliveryEvent::DeliverySucceeded { delivery, task, attempt, status } => {
            v1::DeliveryEventV1::DeliverySucceeded {
                delivery: delivery.0.into(),
                task: task.0.into(),
                attempt: *attempt,
                status: *status,
            }
        }
        DeliveryEvent::DeliveryDeadLettered { delivery, task, attempt, outcome: attempt_outcome } => {
            v1::DeliveryEventV1::DeliveryDeadLettered {
                delivery: delivery.0.into(),
                task: task.0.into(),
                attempt: *attempt,
                outcome: outcome(attempt_outcome),
            }
        }
        DeliveryEvent::RedeliveryRequested(request) => redelivery(request),
    }
}

fn redelivery(redelivery: &Redelivery) -> v1::DeliveryEventV1<'_> {
    let delivery = redelivery.delivery.0.into();
    let task = redelivery.task.0.into();
    let change = redelivery.task_version;
    let url = Cow::Borrowed(redelivery.url.as_str());
    match redelivery.owner {
        Some(owner) => v1::DeliveryEventV1::RedeliveryRequested { delivery, task, owner: owner.0.into(), url, change },
        None => v1::DeliveryEventV1::AnonymousRedeliveryRequested { delivery, task, url, change },
    }
}

fn outcome(outcome: &AttemptOutcome) -> v1::AttemptOutcomeV1<'_> {
    let to_micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    match outcome {
        AttemptOutcome::Answered { status, retry_after } => {
            v1::AttemptOutcomeV1::Answered { status: *status, retry_after_micros: retry_after.map(to_micros) }
        }
        AttemptOutcome::Unreachable { reason } => v1::AttemptOutcomeV1::Unreachable { reason: text(reason) },
    }
}
