//! The newest stored shapes into domain values. Limits of length are not applied again (they may have been lowered since);
//! a name or an identifier that no release ever recorded is an error, never a panic.

use std::borrow::Cow;
use std::time::Duration;

use uuid::Uuid;

use super::{DecodeError, v1};
use crate::domain::claim::{Claim, ClaimEvent};
use crate::domain::delivery::{AttemptOutcome, DeliveryEvent};
use crate::domain::event::Event;
use crate::domain::ids::{DeliveryId, EventId, NodeId, PublisherId, RequestId, TaskId, TokenId, UserId, VersionId};
use crate::domain::image::{Dial, ImageFormat, OptimizedFor, Picture, ScaleFactor, Upscale, UpscaleEngine};
use crate::domain::node::{NodeEvent, NodeFields, Translations};
use crate::domain::publisher::{PublisherEvent, PublisherFields};
use crate::domain::task::{Failure, Submission, TaskEvent, Work};
use crate::domain::token::{TokenEvent, TokenGrant, TokenSubject};
use crate::domain::user::{UserEvent, UserProfile};
use crate::domain::value::{CallbackUrl, Digest, Invalid, Labels, Link, Text, Timestamp};
use crate::domain::version::{SemVer, VersionDraft, VersionFields};
use crate::events::envelope::{Actor, Commit, RecordedEvent};
use crate::events::stream::{Position, StreamId, Version};

/// The commit that a stored one stands for.
///
/// # Errors
/// When it has no events or holds a name that is unknown.
pub fn commit(stored: v1::Commit<'_>) -> Result<Commit, DecodeError> {
    let stream = StreamId::parse(&stored.stream).ok_or_else(|| DecodeError::Value {
        field: "stream",
        reason: format!("{} has no known kind", stored.stream),
    })?;
    let request = stored.request.map(|id| checked("request", RequestId::parse(&id))).transpose()?;
    let causation = stored.causation.map(|id| EventId(uuid(id)));
    let (at, actor) = (Timestamp::from_micros(stored.at_micros), actor(&stored.actor));
    let mut events = Vec::with_capacity(stored.events.len());
    for (nth, entry) in (0..).zip(stored.events) {
        events.push(RecordedEvent {
            position: Position(stored.position.saturating_add(nth)),
            stream: stream.clone(),
            version: Version(stored.version.saturating_add(nth)),
            id: EventId(uuid(entry.id)),
            at,
            actor,
            request: request.clone(),
            causation,
            event: event(entry.event)?,
        });
    }
    if events.is_empty() { Err(DecodeError::Empty) } else { Ok(events.into()) }
}

fn event(stored: v1::Event<'_>) -> Result<Event, DecodeError> {
    Ok(match stored {
        v1::Event::User(event) => user(event).into(),
        v1::Event::Publisher(event) => publisher(event)?.into(),
        v1::Event::Token(event) => token(event)?.into(),
        v1::Event::Node(event) => node(event)?.into(),
        v1::Event::Task(event) => task(event)?.into(),
        v1::Event::Delivery(event) => delivery(event).into(),
        v1::Event::Claim(event) => claim(&event).into(),
    })
}

fn checked<T>(field: &'static str, value: Result<T, Invalid>) -> Result<T, DecodeError> {
    value.map_err(|reason| DecodeError::Value { field, reason: reason.to_string() })
}

fn uuid(bytes: v1::Id) -> Uuid {
    Uuid::from_bytes(bytes)
}

fn actor(stored: &v1::Actor) -> Actor {
    match *stored {
        v1::Actor::System => Actor::System,
        v1::Actor::User(id) => Actor::User(UserId(uuid(id))),
        v1::Actor::Token(id) => Actor::Token(TokenId(uuid(id))),
    }
}

fn text<const MAX: usize>(stored: v1::Str<'_>) -> Text<MAX> {
    Text::recorded(stored.into_owned())
}

fn link(stored: v1::Str<'_>) -> Link {
    Link::recorded(stored.into_owned())
}

fn labels(stored: v1::Strs<'_>) -> Labels {
    Labels::recorded(stored.into_iter().map(Cow::into_owned).collect())
}

fn user(stored: v1::UserEvent<'_>) -> UserEvent {
    let v1::UserEvent::UserCreated { id, email, name, is_admin, is_approved } = stored;
    let (id, email, name) = (UserId(uuid(id)), email.map(text), name.map(text));
    UserEvent::UserCreated(UserProfile { id, email, name, is_admin, is_approved })
}

fn publisher(stored: v1::PublisherEvent<'_>) -> Result<PublisherEvent, DecodeError> {
    Ok(match stored {
        v1::PublisherEvent::PublisherCreated { id, owner, fields } => PublisherEvent::PublisherCreated {
            id: checked("publisher id", PublisherId::parse(&id))?,
            owner: UserId(uuid(owner)),
            fields: publisher_fields(fields),
        },
        v1::PublisherEvent::PublisherRevised { change } => {
            PublisherEvent::PublisherRevised { change: publisher_fields(change) }
        }
    })
}

fn publisher_fields(stored: v1::PublisherFields<'_>) -> PublisherFields {
    PublisherFields {
        name: stored.name.map(text),
        description: stored.description.map(text),
        logo: stored.logo.map(link),
        source_code_repo: stored.source_code_repo.map(link),
        support: stored.support.map(text),
        website: stored.website.map(link),
    }
}

fn token(stored: v1::TokenEvent<'_>) -> Result<TokenEvent, DecodeError> {
    let v1::TokenEvent::TokenIssued { id, subject, name, description, secret_hash } = stored;
    Ok(TokenEvent::TokenIssued(TokenGrant {
        id: TokenId(uuid(id)),
        subject: token_subject(subject)?,
        name: text(name),
        description: description.map(text),
        secret_hash: Digest(secret_hash),
    }))
}

fn token_subject(stored: v1::TokenSubject<'_>) -> Result<TokenSubject, DecodeError> {
    Ok(match stored {
        v1::TokenSubject::User(id) => TokenSubject::User(UserId(uuid(id))),
        v1::TokenSubject::Publisher { publisher, issued_by } => TokenSubject::Publisher {
            publisher: checked("publisher id", PublisherId::parse(&publisher))?,
            issued_by: UserId(uuid(issued_by)),
        },
    })
}

fn node(stored: v1::NodeEvent<'_>) -> Result<NodeEvent, DecodeError> {
    Ok(match stored {
        v1::NodeEvent::NodeCreated { id, publisher, fields } => NodeEvent::NodeCreated {
            id: checked("node id", NodeId::parse(&id))?,
            publisher: checked("publisher id", PublisherId::parse(&publisher))?,
            fields: node_fields(fields),
        },
        v1::NodeEvent::NodeRevised { change } => NodeEvent::NodeRevised { change: node_fields(change) },
        v1::NodeEvent::VersionReleased { version } => NodeEvent::VersionReleased { version: version_draft(version)? },
        v1::NodeEvent::VersionPublished { version } => NodeEvent::VersionPublished { version: version_draft(version)? },
        v1::NodeEvent::VersionRevised { id, change } => {
            NodeEvent::VersionRevised { id: VersionId(uuid(id)), change: version_fields(change) }
        }
    })
}

fn node_fields(stored: v1::NodeFields<'_>) -> NodeFields {
    NodeFields {
        author: stored.author.map(text),
        banner_url: stored.banner_url.map(link),
        category: stored.category.map(text),
        description: stored.description.map(text),
        icon: stored.icon.map(link),
        license: stored.license.map(text),
        name: stored.name.map(text),
        preempted_host_node_names: stored.preempted_host_node_names.map(labels),
        repository: stored.repository.map(link),
        supported_accelerators: stored.supported_accelerators.map(labels),
        supported_host_frontend_version: stored.supported_host_frontend_version.map(text),
        supported_host_version: stored.supported_host_version.map(text),
        supported_os: stored.supported_os.map(labels),
        tags: stored.tags.map(labels),
        translations: stored.translations.map(translations),
    }
}

fn translations(stored: v1::Translations<'_>) -> Translations {
    let mut languages = Translations::new();
    for (language, fields) in stored {
        let fields = fields.into_iter().map(|(field, value)| (text(field), text(value))).collect();
        languages.insert(text(language), fields);
    }
    languages
}

fn version_draft(stored: v1::VersionDraft<'_>) -> Result<VersionDraft, DecodeError> {
    Ok(VersionDraft {
        id: VersionId(uuid(stored.id)),
        number: checked("version number", SemVer::parse(&stored.number))?,
        fields: version_fields(stored.fields),
    })
}

fn version_fields(stored: v1::VersionFields<'_>) -> VersionFields {
    VersionFields {
        changelog: stored.changelog.map(text),
        dependencies: stored.dependencies.map(labels),
        deprecated: stored.deprecated,
        supported_accelerators: stored.supported_accelerators.map(labels),
        supported_host_frontend_version: stored.supported_host_frontend_version.map(text),
        supported_host_version: stored.supported_host_version.map(text),
        supported_os: stored.supported_os.map(labels),
        tags: stored.tags.map(labels),
    }
}

fn task(stored: v1::TaskEvent<'_>) -> Result<TaskEvent, DecodeError> {
    Ok(match stored {
        v1::TaskEvent::TaskSubmitted { task, owner, work: job, webhook } => TaskEvent::TaskSubmitted(Submission {
            task: TaskId(uuid(task)),
            owner: UserId(uuid(owner)),
            work: work(job)?,
            webhook: webhook.map(|url| CallbackUrl::recorded(url.into_owned())),
        }),
        v1::TaskEvent::SubmissionStarted { attempt, key } => TaskEvent::SubmissionStarted { attempt, key: text(key) },
        v1::TaskEvent::VendorAccepted { reference } => TaskEvent::VendorAccepted { reference: text(reference) },
        v1::TaskEvent::VendorRefused { failure: why } => TaskEvent::VendorRefused { failure: failure(why) },
        v1::TaskEvent::OutcomeUnknown { reason } => TaskEvent::OutcomeUnknown { reason: text(reason) },
        v1::TaskEvent::VendorForgot => TaskEvent::VendorForgot,
        v1::TaskEvent::TaskCompleted { results } => {
            TaskEvent::TaskCompleted { results: results.iter().map(picture).collect::<Result<_, _>>()? }
        }
        v1::TaskEvent::TaskFailed { failure: why } => TaskEvent::TaskFailed { failure: failure(why) },
    })
}

fn work(stored: v1::Work<'_>) -> Result<Work, DecodeError> {
    let v1::Work::ImageUpscale { input, parameters } = stored;
    Ok(Work::ImageUpscale { input: picture(&input)?, parameters: upscale(parameters)? })
}

fn picture(stored: &v1::Picture<'_>) -> Result<Picture, DecodeError> {
    Ok(Picture {
        digest: Digest(stored.digest),
        format: checked("picture format", ImageFormat::parse(&stored.format))?,
        bytes: stored.bytes,
        width: stored.width,
        height: stored.height,
    })
}

fn upscale(stored: v1::Upscale<'_>) -> Result<Upscale, DecodeError> {
    let dial = |field, value: i8| checked(field, Dial::new(i64::from(value)));
    Ok(Upscale {
        scale_factor: checked("scale factor", ScaleFactor::parse(&stored.scale_factor))?,
        engine: checked("engine", UpscaleEngine::parse(&stored.engine))?,
        optimized_for: checked("optimized_for", OptimizedFor::parse(&stored.optimized_for))?,
        creativity: dial("creativity", stored.creativity)?,
        fractality: dial("fractality", stored.fractality)?,
        hdr: dial("hdr", stored.hdr)?,
        resemblance: dial("resemblance", stored.resemblance)?,
        prompt: stored.prompt.map(text),
    })
}

fn failure(stored: v1::Failure<'_>) -> Failure {
    Failure { code: text(stored.code), message: text(stored.message) }
}

fn delivery(stored: v1::DeliveryEvent<'_>) -> DeliveryEvent {
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
    }
}

fn claim(stored: &v1::ClaimEvent) -> ClaimEvent {
    let v1::ClaimEvent::KeyClaimed { key, fingerprint, nth } = *stored;
    ClaimEvent::KeyClaimed(Claim { key: Digest(key), fingerprint: Digest(fingerprint), nth })
}

fn outcome(stored: v1::AttemptOutcome<'_>) -> AttemptOutcome {
    match stored {
        v1::AttemptOutcome::Answered { status, retry_after_micros } => {
            AttemptOutcome::Answered { status, retry_after: retry_after_micros.map(Duration::from_micros) }
        }
        v1::AttemptOutcome::Unreachable { reason } => AttemptOutcome::Unreachable { reason: text(reason) },
    }
}
