//! Conversion of users, publishers and tokens to stored shapes.

use std::borrow::Cow;

use super::{some_link, some_text, text, v1, v2};
use crate::domain::personal::PersonalValue;
use crate::domain::publisher::{PublisherEvent, PublisherFields};
use crate::domain::token::{TokenEvent, TokenGrant, TokenSubject};
use crate::domain::user::UserEvent;
use crate::domain::value::Timestamp;

pub(super) fn user(event: &UserEvent) -> v2::UserEventV2<'_> {
    match event {
        UserEvent::UserCreated(new_user) => v2::UserEventV2::UserCreated {
            id: new_user.id.0.into(),
            email: new_user.email.as_ref().map(personal),
            name: new_user.name.as_ref().map(personal),
            is_admin: new_user.is_admin,
            is_approved: new_user.is_approved,
        },
        UserEvent::UserRevised { change } => v2::UserEventV2::UserRevised {
            change: v2::UserFieldsV2 {
                email: change.email.as_ref().map(personal),
                name: change.name.as_ref().map(personal),
                is_admin: change.is_admin,
                is_approved: change.is_approved,
            },
        },
        UserEvent::UserBanned { reason } => v2::UserEventV2::UserBanned { reason: text(reason) },
        UserEvent::UserUnbanned { reason } => v2::UserEventV2::UserUnbanned { reason: text(reason) },
        UserEvent::UserErased => v2::UserEventV2::UserErased,
        UserEvent::WebhookSecretRotated { secret } => {
            v2::UserEventV2::WebhookSecretRotated { secret: personal(secret) }
        }
        UserEvent::WebhookSecretsRevoked => v2::UserEventV2::WebhookSecretsRevoked,
    }
}

fn personal(value: &PersonalValue) -> v2::PersonalV2<'_> {
    match value {
        PersonalValue::Sealed(bytes) => v2::PersonalV2::Sealed(v2::SealedV2(Cow::Borrowed(bytes))),
        PersonalValue::Plain(text) => v2::PersonalV2::Plain(Cow::Borrowed(text)),
    }
}

pub(super) fn publisher(event: &PublisherEvent) -> v1::PublisherEventV1<'_> {
    match event {
        PublisherEvent::PublisherCreated { id, owner, fields } => v1::PublisherEventV1::PublisherCreated {
            id: Cow::Borrowed(id.as_str()),
            owner: owner.0.into(),
            fields: publisher_fields(fields),
        },
        PublisherEvent::PublisherRevised { change } => {
            v1::PublisherEventV1::PublisherRevised { change: publisher_fields(change) }
        }
        PublisherEvent::PublisherAdministered { admin_fields } => v1::PublisherEventV1::PublisherAdministered {
            created_at_micros: admin_fields.created_at.map(Timestamp::micros),
        },
        PublisherEvent::MemberAdded { user, role } => {
            v1::PublisherEventV1::MemberAdded { user: user.0.into(), role: Cow::Borrowed(role.as_str()) }
        }
        PublisherEvent::MemberRoleChanged { user, role } => {
            v1::PublisherEventV1::MemberRoleChanged { user: user.0.into(), role: Cow::Borrowed(role.as_str()) }
        }
        PublisherEvent::MemberRemoved { user } => v1::PublisherEventV1::MemberRemoved { user: user.0.into() },
        PublisherEvent::PublisherBanned { reason } => v1::PublisherEventV1::PublisherBanned { reason: text(reason) },
        PublisherEvent::PublisherUnbanned { reason } => {
            v1::PublisherEventV1::PublisherUnbanned { reason: text(reason) }
        }
        PublisherEvent::PublisherDeleted => v1::PublisherEventV1::PublisherDeleted,
    }
}

fn publisher_fields(fields: &PublisherFields) -> v1::PublisherFieldsV1<'_> {
    v1::PublisherFieldsV1 {
        name: some_text(fields.name.as_ref()),
        description: some_text(fields.description.as_ref()),
        logo: some_link(fields.logo.as_ref()),
        source_code_repo: some_link(fields.source_code_repo.as_ref()),
        support: some_text(fields.support.as_ref()),
        website: some_link(fields.website.as_ref()),
    }
}

pub(super) fn token(event: &TokenEvent) -> v1::TokenEventV1<'_> {
    match event {
        TokenEvent::TokenIssued(grant) => issued(grant),
        TokenEvent::TokenRevoked => v1::TokenEventV1::TokenRevoked,
        TokenEvent::TokenUsed { at } => v1::TokenEventV1::TokenUsed { at_micros: at.micros() },
    }
}

fn issued(grant: &TokenGrant) -> v1::TokenEventV1<'_> {
    let subject = match &grant.subject {
        TokenSubject::User(id) => v1::TokenSubjectV1::User(id.0.into()),
        TokenSubject::Publisher { publisher, issued_by } => v1::TokenSubjectV1::Publisher {
            publisher: Cow::Borrowed(publisher.as_str()),
            issued_by: issued_by.0.into(),
        },
    };
    v1::TokenEventV1::TokenIssued {
        id: grant.id.0.into(),
        subject,
        name: text(&grant.name),
        description: some_text(grant.description.as_ref()),
        secret_hash: v1::StoredSha256(grant.secret_hash.0),
    }
}
