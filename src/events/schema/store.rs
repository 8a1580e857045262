//! Domain values into the newest stored shapes: borrowed, nothing is copied.

use std::borrow::Cow;
use std::time::Duration;

use super::v1;
use crate::domain::claim::{Claim, ClaimEvent};
use crate::domain::delivery::{AttemptOutcome, DeliveryEvent};
use crate::domain::event::Event;
use crate::domain::image::{Picture, Upscale};
use crate::domain::node::{NodeEvent, NodeFields, Translations};
use crate::domain::publisher::{PublisherEvent, PublisherFields};
use crate::domain::task::{Failure, TaskEvent, Work};
use crate::domain::token::{TokenEvent, TokenGrant, TokenSubject};
use crate::domain::user::{UserEvent, UserProfile};
use crate::domain::value::{Labels, Link, Text};
use crate::domain::version::{VersionDraft, VersionFields};
use crate::events::envelope::{Actor, RecordedEvent};

/// The stored shape of a commit; `None` when it has no events.
#[must_use]
pub fn commit(events: &[RecordedEvent]) -> Option<v1::Commit<'_>> {
    let first = events.first()?;
    Some(v1::Commit {
        position: first.position.0,
        stream: Cow::Borrowed(first.stream.as_str()),
        version: first.version.0,
        at_micros: first.at.micros(),
        actor: actor(first.actor),
        request: first.request.as_ref().map(|id| Cow::Borrowed(id.as_str())),
        causation: first.causation.map(|id| id.0.into_bytes()),
        events: events.iter().map(entry).collect(),
    })
}

/// The stored shape of one event.
#[must_use]
pub fn entry(recorded: &RecordedEvent) -> v1::Entry<'_> {
    let event = match &recorded.event {
        Event::User(UserEvent::UserCreated(profile)) => v1::Event::User(user(profile)),
        Event::Publisher(event) => v1::Event::Publisher(publisher(event)),
        Event::Token(TokenEvent::TokenIssued(grant)) => v1::Event::Token(token(grant)),
        Event::Node(event) => v1::Event::Node(node(event)),
        Event::Task(event) => v1::Event::Task(task(event)),
        Event::Delivery(event) => v1::Event::Delivery(delivery(event)),
        Event::Claim(ClaimEvent::KeyClaimed(claim)) => v1::Event::Claim(key_claimed(claim)),
    };
    v1::Entry { id: recorded.id.0.into_bytes(), event }
}

fn actor(actor: Actor) -> v1::Actor {
    match actor {
        Actor::System => v1::Actor::System,
        Actor::User(id) => v1::Actor::User(id.0.into_bytes()),
        Actor::Token(id) => v1::Actor::Token(id.0.into_bytes()),
    }
}

fn text<const MAX: usize>(text: &Text<MAX>) -> v1::Str<'_> {
    Cow::Borrowed(text.as_str())
}

fn some_text<const MAX: usize>(value: Option<&Text<MAX>>) -> Option<v1::Str<'_>> {
    value.map(text)
}

fn some_link(link: Option<&Link>) -> Option<v1::Str<'_>> {
    link.map(|link| Cow::Borrowed(link.as_str()))
}

fn some_labels(labels: Option<&Labels>) -> Option<v1::Strs<'_>> {
    labels.map(|labels| labels.iter().map(Cow::Borrowed).collect())
}

fn user(profile: &UserProfile) -> v1::UserEvent<'_> {
    v1::UserEvent::UserCreated {
        id: profile.id.0.into_bytes(),
        email: some_text(profile.email.as_ref()),
        name: some_text(profile.name.as_ref()),
        is_admin: profile.is_admin,
        is_approved: profile.is_approved,
    }
}

fn publisher(event: &PublisherEvent) -> v1::PublisherEvent<'_> {
    match event {
        PublisherEvent::PublisherCreated { id, owner, fields } => v1::PublisherEvent::PublisherCreated {
            id: Cow::Borrowed(id.as_str()),
            owner: owner.0.into_bytes(),
            fields: publisher_fields(fields),
        },
        PublisherEvent::PublisherRevised { change } => {
            v1::PublisherEvent::PublisherRevised { change: publisher_fields(change) }
        }
    }
}

fn publisher_fields(fields: &PublisherFields) -> v1::PublisherFields<'_> {
    v1::PublisherFields {
        name: some_text(fields.name.as_ref()),
        description: some_text(fields.description.as_ref()),
        logo: some_link(fields.logo.as_ref()),
        source_code_repo: some_link(fields.source_code_repo.as_ref()),
        support: some_text(fields.support.as_ref()),
        website: some_link(fields.website.as_ref()),
    }
}

fn token(grant: &TokenGrant) -> v1::TokenEvent<'_> {
    let subject = match &grant.subject {
        TokenSubject::User(id) => v1::TokenSubject::User(id.0.into_bytes()),
        TokenSubject::Publisher { publisher, issued_by } => v1::TokenSubject::Publisher {
            publisher: Cow::Borrowed(publisher.as_str()),
            issued_by: issued_by.0.into_bytes(),
        },
    };
    v1::TokenEvent::TokenIssued {
        id: grant.id.0.into_bytes(),
        subject,
        name: text(&grant.name),
        description: some_text(grant.description.as_ref()),
        secret_hash: grant.secret_hash.0,
    }
}

fn node(event: &NodeEvent) -> v1::NodeEvent<'_> {
    match event {
        NodeEvent::NodeCreated { id, publisher, fields } => v1::NodeEvent::NodeCreated {
            id: Cow::Borrowed(id.as_str()),
            publisher: Cow::Borrowed(publisher.as_str()),
            fields: node_fields(fields),
        },
        NodeEvent::NodeRevised { change } => v1::NodeEvent::NodeRevised { change: node_fields(change) },
        NodeEvent::VersionReleased { version } => v1::NodeEvent::VersionReleased { version: version_draft(version) },
        NodeEvent::VersionPublished { version } => v1::NodeEvent::VersionPublished { version: version_draft(version) },
        NodeEvent::VersionRevised { id, change } => {
            v1::NodeEvent::VersionRevised { id: id.0.into_bytes(), change: version_fields(change) }
        }
    }
}

fn node_fields(fields: &NodeFields) -> v1::NodeFields<'_> {
    v1::NodeFields {
        author: some_text(fields.author.as_ref()),
        banner_url: some_link(fields.banner_url.as_ref()),
        category: some_text(fields.category.as_ref()),
        description: some_text(fields.description.as_ref()),
        icon: some_link(fields.icon.as_ref()),
        license: some_text(fields.license.as_ref()),
        name: some_text(fields.name.as_ref()),
        preempted_host_node_names: some_labels(fields.preempted_host_node_names.as_ref()),
        repository: some_link(fields.repository.as_ref()),
        supported_accelerators: some_labels(fields.supported_accelerators.as_ref()),
        supported_host_frontend_version: some_text(fields.supported_host_frontend_version.as_ref()),
        supported_host_version: some_text(fields.supported_host_version.as_ref()),
        supported_os: some_labels(fields.supported_os.as_ref()),
        tags: some_labels(fields.tags.as_ref()),
        translations: fields.translations.as_ref().map(translations),
    }
}

fn translations(languages: &Translations) -> v1::Translations<'_> {
    let mut stored = v1::Translations::new();
    for (language, fields) in languages {
        let fields = fields.iter().map(|(field, value)| (text(field), text(value))).collect();
        stored.insert(text(language), fields);
    }
    stored
}

fn version_draft(version: &VersionDraft) -> v1::VersionDraft<'_> {
    v1::VersionDraft {
        id: version.id.0.into_bytes(),
        number: Cow::Owned(version.number.to_string()),
        fields: version_fields(&version.fields),
    }
}

fn version_fields(fields: &VersionFields) -> v1::VersionFields<'_> {
    v1::VersionFields {
        changelog: some_text(fields.changelog.as_ref()),
        dependencies: some_labels(fields.dependencies.as_ref()),
        deprecated: fields.deprecated,
        supported_accelerators: some_labels(fields.supported_accelerators.as_ref()),
        supported_host_frontend_version: some_text(fields.supported_host_frontend_version.as_ref()),
        supported_host_version: some_text(fields.supported_host_version.as_ref()),
        supported_os: some_labels(fields.supported_os.as_ref()),
        tags: some_labels(fields.tags.as_ref()),
    }
}

fn task(event: &TaskEvent) -> v1::TaskEvent<'_> {
    match event {
        TaskEvent::TaskSubmitted(submission) => v1::TaskEvent::TaskSubmitted {
            task: submission.task.0.into_bytes(),
            owner: submission.owner.0.into_bytes(),
            work: work(&submission.work),
            webhook: submission.webhook.as_ref().map(|url| Cow::Borrowed(url.as_str())),
        },
        TaskEvent::SubmissionStarted { attempt, key } => {
            v1::TaskEvent::SubmissionStarted { attempt: *attempt, key: text(key) }
        }
        TaskEvent::VendorAccepted { reference } => v1::TaskEvent::VendorAccepted { reference: text(reference) },
        TaskEvent::VendorRefused { failure: why } => v1::TaskEvent::VendorRefused { failure: failure(why) },
        TaskEvent::OutcomeUnknown { reason } => v1::TaskEvent::OutcomeUnknown { reason: text(reason) },
        TaskEvent::VendorForgot => v1::TaskEvent::VendorForgot,
        TaskEvent::TaskCompleted { results } => {
            v1::TaskEvent::TaskCompleted { results: results.iter().map(picture).collect() }
        }
        TaskEvent::TaskFailed { failure: why } => v1::TaskEvent::TaskFailed { failure: failure(why) },
    }
}

fn work(work: &Work) -> v1::Work<'_> {
    match work {
        Work::ImageUpscale { input, parameters } => {
            v1::Work::ImageUpscale { input: picture(input), parameters: upscale(parameters) }
        }
    }
}

fn picture(picture: &Picture) -> v1::Picture<'_> {
    v1::Picture {
        digest: picture.digest.0,
        format: Cow::Borrowed(picture.format.as_str()),
        bytes: picture.bytes,
        width: picture.width,
        height: picture.height,
    }
}

fn upscale(job: &Upscale) -> v1::Upscale<'_> {
    v1::Upscale {
        scale_factor: Cow::Borrowed(job.scale_factor.as_str()),
        engine: Cow::Borrowed(job.engine.as_str()),
        optimized_for: Cow::Borrowed(job.optimized_for.as_str()),
        creativity: job.creativity.get(),
        fractality: job.fractality.get(),
        hdr: job.hdr.get(),
        resemblance: job.resemblance.get(),
        prompt: some_text(job.prompt.as_ref()),
    }
}

fn failure(failure: &Failure) -> v1::Failure<'_> {
    v1::Failure { code: text(&failure.code), message: text(&failure.message) }
}

fn delivery(event: &DeliveryEvent) -> v1::DeliveryEvent<'_> {
    match event {
        DeliveryEvent::AttemptFailed { delivery, task, attempt, outcome: came, next_at } => {
            v1::DeliveryEvent::AttemptFailed {
                delivery: delivery.0.into_bytes(),
                task: task.0.into_bytes(),
                attempt: *attempt,
                outcome: outcome(came),
                next_at_micros: next_at.micros(),
            }
        }
        DeliveryEvent::DeliverySucceeded { delivery, task, attempt, status } => v1::DeliveryEvent::DeliverySucceeded {
            delivery: delivery.0.into_bytes(),
            task: task.0.into_bytes(),
            attempt: *attempt,
            status: *status,
        },
        DeliveryEvent::DeliveryDeadLettered { delivery, task, attempt, outcome: came } => {
            v1::DeliveryEvent::DeliveryDeadLettered {
                delivery: delivery.0.into_bytes(),
                task: task.0.into_bytes(),
                attempt: *attempt,
                outcome: outcome(came),
            }
        }
    }
}

fn key_claimed(claim: &Claim) -> v1::ClaimEvent {
    v1::ClaimEvent::KeyClaimed { key: claim.key.0, fingerprint: claim.fingerprint.0, nth: claim.nth }
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
