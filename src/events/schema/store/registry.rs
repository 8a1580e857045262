//! Conversion of users, publishers and tokens to stored shapes.

use std::borrow::Cow;

use super::{some_link, some_text, text, v1, v2};
use crate::domain::personal::Personal;
use crate::domain::publisher::{PublisherEvent, PublisherFields};
use crate::domain::token::{TokenEvent, TokenGrant, TokenSubject};
use crate::domain::user::UserEvent;
use crate::domain::value::Timestamp;

pub(super) fn user(event: &UserEvent) -> v2::UserEvent<'_> {
    match event {
        UserEvent::UserCreated(opening) => v2::UserEvent::UserCreated {
            id: opening.id.0.into(),
            email: opening.email.as_ref().map(personal),
            name: opening.name.as_ref().map(personal),
            is_admin: opening.is_admin,
            is_approved: opening.is_approved,
        },
        UserEvent::UserRevised { change } => v2::UserEvent::UserRevised {
            change: v2::UserFields {
                email: change.email.as_ref().map(personal),
                name: change.name.as_ref().map(personal),
                is_admin: change.is_admin,
                is_approved: change.is_approved,
            },
        },
        UserEvent::UserBanned { reason } => v2::UserEvent::UserBanned { reason: text(reason) },
        UserEvent::UserUnbanned { reason } => v2::UserEvent::UserUnbanned { reason: text(reason) },
        UserEvent::UserErased => v2::UserEvent::UserErased,
        UserEvent::WebhookSecretRotated { secret } => v2::UserEvent::WebhookSecretRotated { secret: personal(secret) },
        UserEvent::WebhookSecretsRevoked => v2::UserEvent::WebhookSecretsRevoked,
    }
}

fn personal(value: &Personal) -> v2::Personal<'_> {
    match value {
        Personal::Sealed(bytes) => v2::Personal::Sealed(v2::Sealed(Cow::Borrowed(bytes))),
        Personal::Plain(text) => v2::Personal::Plain(Cow::Borrowed(text)),
    }
}

pub(super) fn publisher(event: &PublisherEvent) -> v1::PublisherEvent<'_> {
    match event {
        PublisherEvent::PublisherCreated { id, owner, fields } => v1::PublisherEvent::PublisherCreated {
            id: Cow::Borrowed(id.as_str()),
            owner: owner.0.into(),
            fields: publisher_fields(fields),
        },
        PublisherEvent::PublisherRevised { change } => {
            v1::PublisherEvent::PublisherRevised { change: publisher_fields(change) }
        }
        PublisherEvent::PublisherAdministered { facts } => {
            v1::PublisherEvent::PublisherAdministered { created_at_micros: facts.created_at.map(Timestamp::micros) }
        }
        PublisherEvent::MemberAdded { user, role } => {
            v1::PublisherEvent::MemberAdded { user: user.0.into(), role: Cow::Borrowed(role.as_str()) }
        }
        PublisherEvent::MemberRoleChanged { user, role } => {
            v1::PublisherEvent::MemberRoleChanged { user: user.0.into(), role: Cow::Borrowed(role.as_str()) }
        }
        PublisherEvent::MemberRemoved { user } => v1::PublisherEvent::MemberRemoved { user: user.0.into() },
        PublisherEvent::PublisherBanned { reason } => v1::PublisherEvent::PublisherBanned { reason: text(reason) },
        PublisherEvent::PublisherUnbanned { reason } => v1::PublisherEvent::PublisherUnbanned { reason: text(reason) },
        PublisherEvent::PublisherDeleted => v1::PublisherEvent::PublisherDeleted,
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

pub(super) fn token(event: &TokenEvent) -> v1::TokenEvent<'_> {
    match event {
        TokenEvent::TokenIssued(grant) => issued(grant),
        TokenEvent::TokenRevoked => v1::TokenEvent::TokenRevoked,
        TokenEvent::TokenUsed { at } => v1::TokenEvent::TokenUsed { at_micros: at.micros() },
    }
}

fn issued(grant: &TokenGrant) -> v1::TokenEvent<'_> {
    let subject = match &grant.subject {
        TokenSubject::User(id) => v1::TokenSubject::User(id.0.into()),
        TokenSubject::Publisher { publisher, issued_by } => {
            v1::TokenSubject::Publisher { publisher: Cow::Borrowed(publisher.as_str()), issued_by: issued_by.0.into() }
        }
    };
    v1::TokenEvent::TokenIssued {
        id: grant.id.0.into(),
        subject,
        name: text(&grant.name),
        description: some_text(grant.description.as_ref()),
        secret_hash: v1::Sha(grant.secret_hash.0),
    }
}
