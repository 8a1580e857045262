//! Conversion of stored tasks and deliveries to domain values.

use std::time::Duration;

use super::{CommitDecodeError, check_field, image, text, uuid, v1, v2, video};
use crate::domain::delivery::{AttemptOutcome, DeliveryEvent, Redelivery};
use crate::domain::ids::{DeliveryId, TaskId, UserId};
use crate::domain::image::{ImageFormat, Picture};
use crate::domain::task::{Submission, TaskEvent, TaskFailure, TaskWork};
use crate::domain::value::{CallbackUrl, Digest, Timestamp};

pub(super) fn task(stored: v2::TaskEventV2<'_>) -> Result<TaskEvent, CommitDecodeError> {
    Ok(match stored {
        v2::TaskEventV2::TaskSubmitted { task, owner, work, webhook } => submitted(task, Some(owner), work, webhook)?,
        v2::TaskEventV2::AnonymousTaskSubmitted { task, work, webhook } => submitted(task, None, work, webhook)?,
        v2::TaskEventV2::SubmissionStarted { attempt, key } => TaskEvent::SubmissionStarted { attempt, key: text(key) },
        v2::TaskEventV2::VendorAccepted { reference } => TaskEvent::VendorAccepted { reference: text(reference) },
        v2::TaskEventV2::VendorRefused { failure: stored_failure } => {
            TaskEvent::VendorRefused { failure: failure(stored_failure) }
        }
        v2::TaskEventV2::OutcomeUnknown { reason } => TaskEvent::OutcomeUnknown { reason: text(reason) },
        v2::TaskEventV2::VendorForgot => TaskEvent::VendorForgot,
        v2::TaskEventV2::TaskCompleted { results } => {
            TaskEvent::TaskCompleted { results: results.iter().map(picture).collect::<Result<_, _>>()? }
        }
        v2::TaskEventV2::TaskFailed { failure: stored_failure } => {
            TaskEvent::TaskFailed { failure: failure(stored_failure) }
        }
        v2::TaskEventV2::InputsFetched { inputs } => {
            TaskEvent::InputsFetched { inputs: inputs.iter().map(picture).collect::<Result<_, _>>()? }
        }
        v2::TaskEventV2::SubmissionUndelivered { reason } => TaskEvent::SubmissionUndelivered { reason: text(reason) },
        v2::TaskEventV2::TaskCancelled => TaskEvent::TaskCancelled,
        v2::TaskEventV2::TaskQueued => TaskEvent::TaskQueued,
        v2::TaskEventV2::FootageFetched { clip } => TaskEvent::FootageFetched { clip: video::clip(&clip)? },
        v2::TaskEventV2::WorkBegan => TaskEvent::WorkBegan,
        v2::TaskEventV2::VideoCompleted { creation } => {
            TaskEvent::VideoCompleted { creation: video::creation(creation)? }
        }
        v2::TaskEventV2::StreamCompleted { stream } => TaskEvent::StreamCompleted { stream: video::stream(stream) },
    })
}

fn submitted(
    task: v1::StoredId,
    owner: Option<v1::StoredId>,
    work: v2::WorkV2<'_>,
    webhook: Option<v1::Str<'_>>,
) -> Result<TaskEvent, CommitDecodeError> {
    let work = match work {
        v2::WorkV2::ImageUpscale { input, parameters } => TaskWork::Image(image::first_upscale(&input, parameters)?),
        v2::WorkV2::Image { job, image, reference, seed } => {
            TaskWork::Image(image::work(*job, image, reference, seed)?)
        }
        v2::WorkV2::Video(work) => TaskWork::Video(video::work(*work)?),
        v2::WorkV2::Music { prompt, seconds } => TaskWork::Music(video::music(prompt.into_owned(), seconds)?),
    };

    let task = TaskId(uuid(task));
    let owner = owner.map(|owner| UserId(uuid(owner)));
    let webhook = webhook.map(|url| CallbackUrl::from_recorded(url.into_owned()));
    Ok(TaskEvent::TaskSubmitted(Submission { task, owner, work, webhook }))
}

pub(super) fn picture(stored: &v1::PictureV1<'_>) -> Result<Picture, CommitDecodeError> {
    Ok(Picture {
        digest: Digest(stored.digest.0),
        format: check_field("picture format", ImageFormat::parse(&stored.format))?,
        bytes: stored.bytes,
        width: stored.width,
        height: stored.height,
    })
}

fn failure(stored: v1::FailureV1<'_>) -> TaskFailure {
    TaskFailure { code: text(stored.code), message: text(stored.message) }
}

pub(super) fn delivery(stored: v1::DeliveryEventV1<'_>) -> DeliveryEvent {
    match stored {
        v1::DeliveryEventV1::AttemptFailed { delivery, task, attempt, outcome: stored_outcome, next_at_micros } => {
            DeliveryEvent::AttemptFailed {
                delivery: DeliveryId(uuid(delivery)),
                task: TaskId(uuid(task)),
                attempt,
                outcome: outcome(stored_outcome),
                next_at: Timestamp::from_micros(next_at_micros),
            }
        }
        v1::DeliveryEventV1::DeliverySucceeded { delivery, task, attempt, status } => {
            DeliveryEvent::DeliverySucceeded {
                delivery: DeliveryId(uuid(delivery)),
                task: TaskId(uuid(task)),
                attempt,
                status,
            }
        }
        v1::DeliveryEventV1::DeliveryDeadLettered { delivery, task, attempt, outcome: stored_outcome } => {
            DeliveryEvent::DeliveryDeadLettered {
                delivery: DeliveryId(uuid(delivery)),
                task: TaskId(uuid(task)),
                attempt,
                outcome: outcome(stored_outcome),
            }
        }
        v1::DeliveryEventV1::RedeliveryRequested { delivery, task, owner, url, change } => {
            redelivery(delivery, task, Some(owner), url, change)
        }
        v1::DeliveryEventV1::AnonymousRedeliveryRequested { delivery, task, url, change } => {
            redelivery(delivery, task, None, url, change)
        }
    }
}

fn redelivery(
    delivery: v1::StoredId,
    task: v1::StoredId,
    owner: Option<v1::StoredId>,
    url: v1::Str<'_>,
    task_version: u64,
) -> DeliveryEvent {
    DeliveryEvent::RedeliveryRequested(Redelivery {
        delivery: DeliveryId(uuid(delivery)),
        task: TaskId(uuid(task)),
        owner: owner.map(|owner| UserId(uuid(owner))),
        url: CallbackUrl::from_recorded(url.into_owned()),
        task_version,
    })
}

fn outcome(stored: v1::AttemptOutcomeV1<'_>) -> AttemptOutcome {
    match stored {
        v1::AttemptOutcomeV1::Answered { status, retry_after_micros } => {
            AttemptOutcome::Answered { status, retry_after: retry_after_micros.map(Duration::from_micros) }
        }
        v1::AttemptOutcomeV1::Unreachable { reason } => AttemptOutcome::Unreachable { reason: text(reason) },
    }
}
