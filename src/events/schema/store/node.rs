//! Conversion of nodes and versions to stored shapes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{some_labels, some_link, some_text, text, v1};
use crate::domain::node::{LocalizedTexts, NodeAdminFields, NodeEvent, NodeFields, Rating, Translations};
use crate::domain::value::Timestamp;
use crate::domain::version::{VersionAdminFields, VersionDraft, VersionFields};

pub(super) fn node(event: &NodeEvent) -> v1::NodeEventV1<'_> {
    match event {
        NodeEvent::NodeCreated { id, publisher, fields } => v1::NodeEventV1::NodeCreated {
            id: Cow::Borrowed(id.as_str()),
            publisher: Cow::Borrowed(publisher.as_str()),
            fields: node_fields(fields),
        },
        NodeEvent::NodeRevised { change } => v1::NodeEventV1::NodeRevised { change: node_fields(change) },
        NodeEvent::VersionReleased { version } => v1::NodeEventV1::VersionReleased { version: version_draft(version) },
        NodeEvent::VersionPublished { version } => {
            v1::NodeEventV1::VersionPublished { version: version_draft(version) }
        }
        NodeEvent::VersionRevised { id, change } => {
            v1::NodeEventV1::VersionRevised { id: id.0.into(), change: version_fields(change) }
        }
        NodeEvent::NodeAdministered { admin_fields } => {
            v1::NodeEventV1::NodeAdministered { facts: node_admin_fields(admin_fields) }
        }
        NodeEvent::NodeTranslated { language, texts: localized } => {
            v1::NodeEventV1::NodeTranslated { language: text(language), texts: texts(localized) }
        }
        NodeEvent::NodeBanned { reason } => v1::NodeEventV1::NodeBanned { reason: text(reason) },
        NodeEvent::NodeUnbanned { reason } => v1::NodeEventV1::NodeUnbanned { reason: text(reason) },
        NodeEvent::NodeDeleted => v1::NodeEventV1::NodeDeleted,
        NodeEvent::NodeReviewed { user, stars } => {
            v1::NodeEventV1::NodeReviewed { user: user.0.into(), stars: stars.get() }
        }
        NodeEvent::DownloadsCounted { count } => v1::NodeEventV1::DownloadsCounted { count: *count },
        NodeEvent::ArchiveStored { version, archive } => v1::NodeEventV1::ArchiveStored {
            version: version.0.into(),
            digest: v1::StoredSha256(archive.digest.0),
            bytes: archive.bytes,
        },
        NodeEvent::VersionStatusChanged { id, status, reason } => v1::NodeEventV1::VersionStatusChanged {
            id: id.0.into(),
            status: Cow::Borrowed(status.as_str()),
            reason: some_text(reason.as_ref()),
        },
        NodeEvent::VersionAdministered { id, admin_fields } => {
            v1::NodeEventV1::VersionAdministered { id: id.0.into(), facts: version_admin_fields(admin_fields) }
        }
    }
}

fn node_admin_fields(admin_fields: &NodeAdminFields) -> v1::NodeFactsV1<'_> {
    v1::NodeFactsV1 {
        created_at_micros: admin_fields.created_at.map(Timestamp::micros),
        downloads: admin_fields.downloads,
        rating_hundredths: admin_fields.rating.map(Rating::hundredths),
        github_stars: admin_fields.github_stars,
        search_ranking: admin_fields.search_ranking,
        status_detail: some_text(admin_fields.status_detail.as_ref()),
        tags_admin: some_labels(admin_fields.tags_admin.as_ref()),
    }
}

fn version_admin_fields(admin_fields: &VersionAdminFields) -> v1::VersionFactsV1<'_> {
    v1::VersionFactsV1 {
        created_at_micros: admin_fields.created_at.map(Timestamp::micros),
        tags_admin: some_labels(admin_fields.tags_admin.as_ref()),
        host_node_extract_status: some_text(admin_fields.host_node_extract_status.as_ref()),
    }
}

fn node_fields(fields: &NodeFields) -> v1::NodeFieldsV1<'_> {
    v1::NodeFieldsV1 {
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

fn translations(languages: &Translations) -> v1::TranslationsV1<'_> {
    languages.iter().map(|(language, localized)| (text(language), texts(localized))).collect()
}

fn texts(localized: &LocalizedTexts) -> BTreeMap<v1::Str<'_>, v1::Str<'_>> {
    localized.iter().map(|(field, value)| (text(field), text(value))).collect()
}

fn version_draft(version: &VersionDraft) -> v1::VersionDraftV1<'_> {
    v1::VersionDraftV1 {
        id: version.id.0.into(),
        number: Cow::Owned(version.number.to_string()),
        fields: version_fields(&version.fields),
    }
}

fn version_fields(fields: &VersionFields) -> v1::VersionFieldsV1<'_> {
    v1::VersionFieldsV1 {
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
