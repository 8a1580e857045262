//! Conversion of stored users, publishers and tokens to domain values.

use super::{CommitDecodeError, check_field, link, text, uuid, v1, v2};
use crate::domain::ids::{PublisherId, TokenId, UserId};
use crate::domain::personal::PersonalValue;
use crate::domain::publisher::{MemberRole, PublisherAdminFields, PublisherEvent, PublisherFields};
use crate::domain::token::{TokenEvent, TokenGrant, TokenSubject};
use crate::domain::user::{NewUser, UserEvent, UserFields};
use crate::domain::value::{Digest, Timestamp};

pub(super) fn user(stored: v2::UserEventV2<'_>) -> UserEvent {
    match stored {
        v2::UserEventV2::UserCreated { id, email, name, is_admin, is_approved } => {
            let id = UserId(uuid(id));
            let email = email.map(personal);
            let name = name.map(personal);
            UserEvent::UserCreated(NewUser { id, email, name, is_admin, is_approved })
        }
        v2::UserEventV2::UserRevised { change } => UserEvent::UserRevised {
            change: UserFields {
                email: change.email.map(personal),
                name: change.name.map(personal),
                is_admin: change.is_admin,
                is_approved: change.is_approved,
            },
        },
        v2::UserEventV2::UserBanned { reason } => UserEvent::UserBanned { reason: text(reason) },
        v2::UserEventV2::UserUnbanned { reason } => UserEvent::UserUnbanned { reason: text(reason) },
        v2::UserEventV2::UserErased => UserEvent::UserErased,
        v2::UserEventV2::WebhookSecretRotated { secret } => {
            UserEvent::WebhookSecretRotated { secret: personal(secret) }
        }
        v2::UserEventV2::WebhookSecretsRevoked => UserEvent::WebhookSecretsRevoked,
    }
}

fn personal(stored: v2::PersonalV2<'_>) -> PersonalValue {
    match stored {
        v2::PersonalV2::Sealed(v2::SealedV2(bytes)) => PersonalValue::Sealed(bytes.into_owned().into()),
        v2::PersonalV2::Plain(text) => PersonalValue::Plain(text.into()),
    }
}

pub(super) fn publisher(stored: v1::PublisherEventV1<'_>) -> Result<PublisherEvent, CommitDecodeError> {
    Ok(match stored {
        v1::PublisherEventV1::PublisherCreated { id, owner, fields } => PublisherEvent::PublisherCreated {
            id: check_field("publisher id", PublisherId::parse(&id))?,
            owner: UserId(uuid(owner)),
            fields: publisher_fields(fields),
        },
        v1::PublisherEventV1::PublisherRevised { change } => {
            PublisherEvent::PublisherRevised { change: publisher_fields(change) }
        }
        v1::PublisherEventV1::PublisherAdministered { created_at_micros } => PublisherEvent::PublisherAdministered {
            admin_fields: PublisherAdminFields { created_at: created_at_micros.map(Timestamp::from_micros) },
        },
        v1::PublisherEventV1::MemberAdded { user, role } => {
            PublisherEvent::MemberAdded { user: UserId(uuid(user)), role: member_role(&role)? }
        }
        v1::PublisherEventV1::MemberRoleChanged { user, role } => {
            PublisherEvent::MemberRoleChanged { user: UserId(uuid(user)), role: member_role(&role)? }
        }
        v1::PublisherEventV1::MemberRemoved { user } => PublisherEvent::MemberRemoved { user: UserId(uuid(user)) },
        v1::PublisherEventV1::PublisherBanned { reason } => PublisherEvent::PublisherBanned { reason: text(reason) },
        v1::PublisherEventV1::PublisherUnbanned { reason } => {
            PublisherEvent::PublisherUnbanned { reason: text(reason) }
        }
        v1::PublisherEventV1::PublisherDeleted => PublisherEvent::PublisherDeleted,
    })
}

fn member_role(stored: &str) -> Result<MemberRole, CommitDecodeError> {
    check_field("member role", MemberRole::parse(stored))
}

fn publisher_fields(stored: v1::PublisherFieldsV1<'_>) -> PublisherFields {
    PublisherFields {
        name: stored.name.map(text),
        description: stored.description.map(text),
        logo: stored.logo.map(link),
        source_code_repo: stored.source_code_repo.map(link),
        support: stored.support.map(text),
        website: stored.website.map(link),
    }
}

pub(super) fn token(stored: v1::TokenEventV1<'_>) -> Result<TokenEvent, CommitDecodeError> {
    Ok(match stored {
        v1::TokenEventV1::TokenIssued { id, subject, name, description, secret_hash } => {
            TokenEvent::TokenIssued(TokenGrant {
                id: TokenId(uuid(id)),
                subject: token_subject(subject)?,
                name: text(name),
                description: description.map(text),
                secret_hash: Digest(secret_hash.0),
            })
        }
        v1::TokenEventV1::TokenRevoked => TokenEvent::TokenRevoked,
        v1::TokenEventV1::TokenUsed { at_micros } => TokenEvent::TokenUsed { at: Timestamp::from_micros(at_micros) },
    })
}

fn token_subject(stored: v1::TokenSubjectV1<'_>) -> Result<TokenSubject, CommitDecodeError> {
    Ok(match stored {
        v1::TokenSubjectV1::User(id) => TokenSubject::User(UserId(uuid(id))),
        v1::TokenSubjectV1::Publisher { publisher, issued_by } => TokenSubject::Publisher {
            publisher: check_field("publisher id", PublisherId::parse(&publisher))?,
            issued_by: UserId(uuid(issued_by)),
        },
    })
}
