//! Conversion of stored tasks and deliveries to domain values.

use std::time::Duration;

use super::{DecodeError, checked, image, text, uuid, v1, v2, video};
use crate::domain::delivery::{AttemptOutcome, DeliveryEvent, Redelivery};
use crate::domain::ids::{DeliveryId, TaskId, UserId};
use crate::domain::image::{ImageFormat, Picture};
use crate::domain::task::{Failure, Submission, TaskEvent, Work};
use crate::domain::value::{CallbackUrl, Digest, Timestamp};

pub(super) fn task(stored: v2::TaskEvent<'_>) -> Result<TaskEvent, DecodeError> {
    Ok(match stored {
        v2::TaskEvent::TaskSubmitted { task, owner, work, webhook } => submitted(task, Some(owner), work, webhook)?,
        v2::TaskEvent::AnonymousTaskSubmitted { task, work, webhook } => submitted(task, None, work, webhook)?,
        v2::TaskEvent::SubmissionStarted { attempt, key } => TaskEvent::SubmissionStarted { attempt, key: text(key) },
        v2::TaskEvent::VendorAccepted { reference } => TaskEvent::VendorAccepted { reference: text(reference) },
        v2::TaskEvent::VendorRefused { failure: why } => TaskEvent::VendorRefused { failure: failure(why) },
        v2::TaskEvent::OutcomeUnknown { reason } => TaskEvent::OutcomeUnknown { reason: text(reason) },
        v2::TaskEvent::VendorForgot => TaskEvent::VendorForgot,
        v2::TaskEvent::TaskCompleted { results } => {
            TaskEvent::TaskCompleted { results: results.iter().map(picture).collect::<Result<_, _>>()? }
        }
        v2::TaskEvent::TaskFailed { failure: why } => TaskEvent::TaskFailed { failure: failure(why) },
        v2::TaskEvent::InputsFetched { inputs } => {
            TaskEvent::InputsFetched { inputs: inputs.iter().map(picture).collect::<Result<_, _>>()? }
        }
        v2::TaskEvent::SubmissionUndelivered { reason } => TaskEvent::SubmissionUndelivered { reason: text(reason) },
        v2::TaskEvent::TaskCancelled => TaskEvent::TaskCancelled,
        v2::TaskEvent::TaskQueued => TaskEvent::TaskQueued,
        v2::TaskEvent::FootageFetched { clip } => TaskEvent::FootageFetched { clip: video::clip(&clip)? },
        v2::TaskEvent::WorkBegan => TaskEvent::WorkBegan,
        v2::TaskEvent::VideoCompleted { creation } => {
            TaskEvent::VideoCompleted { creation: video::creation(creation)? }
        }
        v2::TaskEvent::StreamCompleted { stream } => TaskEvent::StreamCompleted { stream: video::stream(stream) },
    })
}

fn submitted(
    task: v1::Id,
    owner: Option<v1::Id>,
    work: v2::Work<'_>,
    webhook: Option<v1::Str<'_>>,
) -> Result<TaskEvent, DecodeError> {
    let work = match work {
        v2::Work::ImageUpscale { input, parameters } => Work::Image(image::first_upscale(&input, parameters)?),
        v2::Work::Image { job, image, reference, seed } => Work::Image(image::work(*job, image, reference, seed)?),
        v2::Work::Video(work) => Work::Video(video::work(*work)?),
        v2::Work::Music { prompt, seconds } => Work::Music(video::music(prompt.into_owned(), seconds)?),
    };

    let task = TaskId(uuid(task));
    let owner = owner.map(|owner| UserId(uuid(owner)));
    let webhook = webhook.map(|url| CallbackUrl::recorded(url.into_owned()));
    Ok(TaskEvent::TaskSubmitted(Submission { task, owner, work, webhook }))
}

pub(super) fn picture(stored: &v1::Picture<'_>) -> Result<Picture, DecodeError> {
    Ok(Picture {
        digest: Digest(stored.digest.0),
        format: checked("picture format", ImageFormat::parse(&stored.format))?,
        bytes: stored.bytes,
        width: stored.width,
        height: stored.height,
    })
}

fn failure(stored: v1::Failure<'_>) -> Failure {
    Failure { code: text(stored.code), message: text(stored.message) }
}

pub(super) fn delivery(stored: v1::DeliveryEvent<'_>) -> DeliveryEvent {
    match stored {
        v1::DeliveryEvent::AttemptFailed { delivery, task, attempt, outcome: came, next_at_micros } => {
            DeliveryEvent::AttemptFailed {
                delivery: DeliveryId(uuid(delivery)),
                task: TaskId(uuid(task)),
                attempt,
                outcome: outcome(came),
                next_at: Timestamp::from_micros(next_at_micros),
            }
        }
        v1::DeliveryEvent::DeliverySucceeded { delivery, task, attempt, status } => DeliveryEvent::DeliverySucceeded {
            delivery: DeliveryId(uuid(delivery)),
            task: TaskId(uuid(task)),
            attempt,
            status,
        },
        v1::DeliveryEvent::DeliveryDeadLettered { delivery, task, attempt, outcome: came } => {
            DeliveryEvent::DeliveryDeadLettered {
                delivery: DeliveryId(uuid(delivery)),
                task: TaskId(uuid(task)),
                attempt,
                outcome: outcome(came),
            }
        }
        v1::DeliveryEvent::RedeliveryRequested { delivery, task, owner, url, change } => {
            redelivery(delivery, task, Some(owner), url, change)
        }
        v1::DeliveryEvent::AnonymousRedeliveryRequested { delivery, task, url, change } => {
            redelivery(delivery, task, None, url, change)
        }
    }
}

fn redelivery(delivery: v1::Id, task: v1::Id, owner: Option<v1::Id>, url: v1::Str<'_>, change: u64) -> DeliveryEvent {
    DeliveryEvent::RedeliveryRequested(Redelivery {
        delivery: DeliveryId(uuid(delivery)),
        task: TaskId(uuid(task)),
        owner: owner.map(|owner| UserId(uuid(owner))),
        url: CallbackUrl::recorded(url.into_owned()),
        change,
    })
}

fn outcome(stored: v1::AttemptOutcome<'_>) -> AttemptOutcome {
    match stored {
        v1::AttemptOutcome::Answered { status, retry_after_micros } => {
            AttemptOutcome::Answered { status, retry_after: retry_after_micros.map(Duration::from_micros) }
        }
        v1::AttemptOutcome::Unreachable { reason } => AttemptOutcome::Unreachable { reason: text(reason) },
    }
}
