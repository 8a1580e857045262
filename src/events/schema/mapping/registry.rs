//! Stored shapes of users, publishers, tokens, nodes and versions.

use super::{StoredForm, stored, stored_enum, stored_struct};
use crate::domain::node::{NodeAdminFields, NodeEvent, NodeFields};
use crate::domain::personal::PersonalValue;
use crate::domain::publisher::{PublisherAdminFields, PublisherEvent, PublisherFields};
use crate::domain::token::{TokenEvent, TokenGrant, TokenLimits, TokenSubject};
use crate::domain::user::{NewUser, UserEvent, UserFields};
use crate::domain::version::{Archive, VersionAdminFields, VersionDraft, VersionFields};
use crate::domain::webhook::{WebhookChange, WebhookDraft};
use crate::events::schema::CommitDecodeError;
use crate::events::schema::v1::{
    NodeEventV1, NodeFactsV1, NodeFieldsV1, PublisherEventV1, PublisherFieldsV1, TokenEventV1, TokenSubjectV1,
    VersionDraftV1, VersionFactsV1, VersionFieldsV1,
};
use crate::events::schema::v2::{PersonalV2, UserEventV2, UserFieldsV2};

stored_enum! {
    UserEvent => UserEventV2<'a> {
        UserRevised { change },
        UserBanned { reason },
        UserUnbanned { reason },
        UserErased,
        WebhookSecretRotated { secret },
        WebhookSecretsRevoked,
    } and {
        (id email name is_admin is_approved)
            { Self::UserCreated(NewUser { id, email, name, is_admin, is_approved }) }
            = { UserEventV2::UserCreated { id, email, name, is_admin, is_approved } },
    }
}

stored_struct! {
    UserFields => UserFieldsV2<'a> { email, name, is_admin, is_approved }
}

stored_enum! {
    PersonalValue => PersonalV2<'a> { Sealed(bytes), Plain(text) }
}

stored_enum! {
    PublisherEvent => PublisherEventV1<'a> {
        PublisherCreated { id, owner, fields },
        PublisherRevised { change },
        MemberAdded { user, role },
        MemberRoleChanged { user, role },
        MemberRemoved { user },
        PublisherBanned { reason },
        PublisherUnbanned { reason },
        PublisherDeleted,
        WebhookRemoved { webhook },
        WebhookTested { webhook },
    } and {
        (id url events is_enabled account)
            { Self::WebhookCreated(WebhookDraft { id, url, events, is_enabled, account }) }
            = { PublisherEventV1::WebhookCreated { id, url, events, enabled: is_enabled, account } },
        (webhook url account events is_enabled)
            { Self::WebhookRevised { webhook, change: WebhookChange { url, account, events, is_enabled } } }
            = { PublisherEventV1::WebhookRevised { webhook, url, account, events, enabled: is_enabled } },
        (created_at)
            { Self::PublisherAdministered { admin_fields: PublisherAdminFields { created_at } } }
            = { PublisherEventV1::PublisherAdministered { created_at_micros: created_at } },
    }
}

stored_struct! {
    PublisherFields => PublisherFieldsV1<'a> { name, description, logo, source_code_repo, support, website }
}

stored_enum! {
    TokenEvent => TokenEventV1<'a> {
        TokenRevoked,
        TokenUsed { at = at_micros },
    } and {
        (id subject name description secret_hash)
            { Self::TokenIssued(TokenGrant { id, subject, name, description, secret_hash }) }
            = { TokenEventV1::TokenIssued { id, subject, name, description, secret_hash } },
        (id subject name description secret_hash scope expires_at issued_with)
            {
                Self::LimitedTokenIssued {
                    grant: TokenGrant { id, subject, name, description, secret_hash },
                    limits: TokenLimits { scope, expires_at },
                    issued_with,
                }
            }
            = {
                TokenEventV1::LimitedTokenIssued {
                    id,
                    subject,
                    name,
                    description,
                    secret_hash,
                    scope,
                    expires_at_micros: expires_at,
                    issued_with,
                }
            },
    }
}

stored_enum! {
    TokenSubject => TokenSubjectV1<'a> { User(id), Publisher { publisher, issued_by } }
}

stored_enum! {
    NodeEvent => NodeEventV1<'a> {
        NodeCreated { id, publisher, fields },
        NodeRevised { change },
        VersionReleased { version },
        VersionPublished { version },
        VersionRevised { id, change },
        NodeAdministered { admin_fields = facts },
        NodeTranslated { language, texts },
        NodeBanned { reason },
        NodeUnbanned { reason },
        NodeDeleted,
        NodeReviewed { user, stars },
        DownloadsCounted { count },
        VersionStatusChanged { id, status, reason },
        VersionAdministered { id, admin_fields = facts },
        DependenciesContinued { id, dependencies },
    } and {
        (version digest bytes)
            { Self::ArchiveStored { version, archive: Archive { digest, bytes } } }
            = { NodeEventV1::ArchiveStored { version, digest, bytes } },
    }
}

stored_struct! {
    NodeFields => NodeFieldsV1<'a> {
        author,
        banner_url,
        category,
        description,
        icon,
        license,
        name,
        preempted_host_node_names,
        repository,
        supported_accelerators,
        supported_host_frontend_version,
        supported_host_version,
        supported_os,
        tags,
        translations,
    }
}

stored_struct! {
    NodeAdminFields => NodeFactsV1<'a> {
        created_at = created_at_micros,
        downloads,
        rating = rating_hundredths,
        github_stars,
        search_ranking,
        status_detail,
        tags_admin,
    }
}

stored_struct! {
    VersionDraft => VersionDraftV1<'a> { id, number, fields }
}

stored_struct! {
    VersionFields => VersionFieldsV1<'a> {
        changelog,
        dependencies,
        deprecated,
        supported_accelerators,
        supported_host_frontend_version,
        supported_host_version,
        supported_os,
        tags,
    }
}

stored_struct! {
    VersionAdminFields => VersionFactsV1<'a> { created_at = created_at_micros, tags_admin, host_node_extract_status }
}
