//! Conversion of stored users, publishers and tokens to domain values.

use super::{DecodeError, checked, link, text, uuid, v1, v2};
use crate::domain::ids::{PublisherId, TokenId, UserId};
use crate::domain::personal::Personal;
use crate::domain::publisher::{MemberRole, PublisherEvent, PublisherFacts, PublisherFields};
use crate::domain::token::{TokenEvent, TokenGrant, TokenSubject};
use crate::domain::user::{UserEvent, UserFields, UserOpening};
use crate::domain::value::{Digest, Timestamp};

pub(super) fn user(stored: v2::UserEvent<'_>) -> UserEvent {
    match stored {
        v2::UserEvent::UserCreated { id, email, name, is_admin, is_approved } => {
            let id = UserId(uuid(id));
            let email = email.map(personal);
            let name = name.map(personal);
            UserEvent::UserCreated(UserOpening { id, email, name, is_admin, is_approved })
        }
        v2::UserEvent::UserRevised { change } => UserEvent::UserRevised {
            change: UserFields {
                email: change.email.map(personal),
                name: change.name.map(personal),
                is_admin: change.is_admin,
                is_approved: change.is_approved,
            },
        },
        v2::UserEvent::UserBanned { reason } => UserEvent::UserBanned { reason: text(reason) },
        v2::UserEvent::UserUnbanned { reason } => UserEvent::UserUnbanned { reason: text(reason) },
        v2::UserEvent::UserErased => UserEvent::UserErased,
        v2::UserEvent::WebhookSecretRotated { secret } => UserEvent::WebhookSecretRotated { secret: personal(secret) },
        v2::UserEvent::WebhookSecretsRevoked => UserEvent::WebhookSecretsRevoked,
    }
}

fn personal(stored: v2::Personal<'_>) -> Personal {
    match stored {
        v2::Personal::Sealed(v2::Sealed(bytes)) => Personal::Sealed(bytes.into_owned().into()),
        v2::Personal::Plain(text) => Personal::Plain(text.into()),
    }
}

pub(super) fn publisher(stored: v1::PublisherEvent<'_>) -> Result<PublisherEvent, DecodeError> {
    Ok(match stored {
        v1::PublisherEvent::PublisherCreated { id, owner, fields } => PublisherEvent::PublisherCreated {
            id: checked("publisher id", PublisherId::parse(&id))?,
            owner: UserId(uuid(owner)),
            fields: publisher_fields(fields),
        },
        v1::PublisherEvent::PublisherRevised { change } => {
            PublisherEvent::PublisherRevised { change: publisher_fields(change) }
        }
        v1::PublisherEvent::PublisherAdministered { created_at_micros } => PublisherEvent::PublisherAdministered {
            facts: PublisherFacts { created_at: created_at_micros.map(Timestamp::from_micros) },
        },
        v1::PublisherEvent::MemberAdded { user, role } => {
            PublisherEvent::MemberAdded { user: UserId(uuid(user)), role: member_role(&role)? }
        }
        v1::PublisherEvent::MemberRoleChanged { user, role } => {
            PublisherEvent::MemberRoleChanged { user: UserId(uuid(user)), role: member_role(&role)? }
        }
        v1::PublisherEvent::MemberRemoved { user } => PublisherEvent::MemberRemoved { user: UserId(uuid(user)) },
        v1::PublisherEvent::PublisherBanned { reason } => PublisherEvent::PublisherBanned { reason: text(reason) },
        v1::PublisherEvent::PublisherUnbanned { reason } => PublisherEvent::PublisherUnbanned { reason: text(reason) },
        v1::PublisherEvent::PublisherDeleted => PublisherEvent::PublisherDeleted,
    })
}

fn member_role(stored: &str) -> Result<MemberRole, DecodeError> {
    checked("member role", MemberRole::parse(stored))
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

pub(super) fn token(stored: v1::TokenEvent<'_>) -> Result<TokenEvent, DecodeError> {
    Ok(match stored {
        v1::TokenEvent::TokenIssued { id, subject, name, description, secret_hash } => {
            TokenEvent::TokenIssued(TokenGrant {
                id: TokenId(uuid(id)),
                subject: token_subject(subject)?,
                name: text(name),
                description: description.map(text),
                secret_hash: Digest(secret_hash.0),
            })
        }
        v1::TokenEvent::TokenRevoked => TokenEvent::TokenRevoked,
        v1::TokenEvent::TokenUsed { at_micros } => TokenEvent::TokenUsed { at: Timestamp::from_micros(at_micros) },
    })
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
