//! Conversion of stored nodes and versions to domain values.

use std::collections::BTreeMap;

use super::{CommitDecodeError, check_field, labels, link, text, uuid, v1};
use crate::domain::ids::{NodeId, PublisherId, UserId, VersionId};
use crate::domain::node::{LocalizedTexts, NodeAdminFields, NodeEvent, NodeFields, Rating, Stars, Translations};
use crate::domain::value::{Digest, Timestamp};
use crate::domain::version::{Archive, SemVer, VersionAdminFields, VersionDraft, VersionFields, VersionStatus};

pub(super) fn node(stored: v1::NodeEventV1<'_>) -> Result<NodeEvent, CommitDecodeError> {
    Ok(match stored {
        v1::NodeEventV1::NodeCreated { id, publisher, fields } => NodeEvent::NodeCreated {
            id: check_field("node id", NodeId::parse(&id))?,
            publisher: check_field("publisher id", PublisherId::parse(&publisher))?,
            fields: node_fields(fields),
        },
        v1::NodeEventV1::NodeRevised { change } => NodeEvent::NodeRevised { change: node_fields(change) },
        v1::NodeEventV1::VersionReleased { version } => NodeEvent::VersionReleased { version: version_draft(version)? },
        v1::NodeEventV1::VersionPublished { version } => {
            NodeEvent::VersionPublished { version: version_draft(version)? }
        }
        v1::NodeEventV1::VersionRevised { id, change } => {
            NodeEvent::VersionRevised { id: VersionId(uuid(id)), change: version_fields(change) }
        }
        v1::NodeEventV1::NodeAdministered { facts } => {
            NodeEvent::NodeAdministered { admin_fields: node_admin_fields(facts) }
        }
        v1::NodeEventV1::NodeTranslated { language, texts: stored_texts } => {
            NodeEvent::NodeTranslated { language: text(language), texts: texts(stored_texts) }
        }
        v1::NodeEventV1::NodeBanned { reason } => NodeEvent::NodeBanned { reason: text(reason) },
        v1::NodeEventV1::NodeUnbanned { reason } => NodeEvent::NodeUnbanned { reason: text(reason) },
        v1::NodeEventV1::NodeDeleted => NodeEvent::NodeDeleted,
        v1::NodeEventV1::NodeReviewed { user, stars } => NodeEvent::NodeReviewed {
            user: UserId(uuid(user)),
            stars: check_field("stars", Stars::new(i64::from(stars)))?,
        },
        v1::NodeEventV1::DownloadsCounted { count } => NodeEvent::DownloadsCounted { count },
        v1::NodeEventV1::ArchiveStored { version, digest, bytes } => NodeEvent::ArchiveStored {
            version: VersionId(uuid(version)),
            archive: Archive { digest: Digest(digest.0), bytes },
        },
        v1::NodeEventV1::VersionStatusChanged { id, status, reason } => NodeEvent::VersionStatusChanged {
            id: VersionId(uuid(id)),
            status: check_field("version status", VersionStatus::parse(&status))?,
            reason: reason.map(text),
        },
        v1::NodeEventV1::VersionAdministered { id, facts } => {
            NodeEvent::VersionAdministered { id: VersionId(uuid(id)), admin_fields: version_admin_fields(facts) }
        }
    })
}

fn node_admin_fields(stored: v1::NodeFactsV1<'_>) -> NodeAdminFields {
    NodeAdminFields {
        created_at: stored.created_at_micros.map(Timestamp::from_micros),
        downloads: stored.downloads,
        rating: stored.rating_hundredths.map(Rating::from_hundredths),
        github_stars: stored.github_stars,
        search_ranking: stored.search_ranking,
        status_detail: stored.status_detail.map(text),
        tags_admin: stored.tags_admin.map(labels),
    }
}

fn version_admin_fields(stored: v1::VersionFactsV1<'_>) -> VersionAdminFields {
    VersionAdminFields {
        created_at: stored.created_at_micros.map(Timestamp::from_micros),
        tags_admin: stored.tags_admin.map(labels),
        host_node_extract_status: stored.host_node_extract_status.map(text),
    }
}

fn node_fields(stored: v1::NodeFieldsV1<'_>) -> NodeFields {
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

fn translations(stored: v1::TranslationsV1<'_>) -> Translations {
    stored.into_iter().map(|(language, stored_texts)| (text(language), texts(stored_texts))).collect()
}

fn texts(stored: BTreeMap<v1::Str<'_>, v1::Str<'_>>) -> LocalizedTexts {
    stored.into_iter().map(|(field, value)| (text(field), text(value))).collect()
}

fn version_draft(stored: v1::VersionDraftV1<'_>) -> Result<VersionDraft, CommitDecodeError> {
    Ok(VersionDraft {
        id: VersionId(uuid(stored.id)),
        number: check_field("version number", SemVer::parse(&stored.number))?,
        fields: version_fields(stored.fields),
    })
}

fn version_fields(stored: v1::VersionFieldsV1<'_>) -> VersionFields {
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
