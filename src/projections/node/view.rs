//! Nodes and versions as they are shown: the seed's `Node` and `NodeVersion`.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::domain::node::{NodeProfile, NodeStatus, Translations};
use crate::domain::publisher::{PublisherProfile, PublisherStatus};
use crate::domain::value::{Labels, Link, Text};
use crate::domain::version::{NodeVersion, VersionStatus, latest};

/// What a node of a banned publisher says of its status.
pub const PUBLISHER_BANNED: &str = "the publisher is banned";

/// Where what we hand out is found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// The base of every URL, without a slash at the end.
    pub public_url: String,
}

impl Links {
    /// Where the archive of a version is downloaded.
    #[must_use]
    pub fn download(&self, node: &str, version: &str) -> String {
        // Of what semantic versions are made only the plus sign means something else in some decoders.
        format!("{}/nodes/{node}/versions/{}/download", self.public_url, version.replace('+', "%2B"))
    }
}

/// The seed's `NodeVersion`.
#[derive(Debug, Serialize)]
pub struct VersionView<'m> {
    #[serde(skip_serializing_if = "Option::is_none")]
    changelog: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_node_extract_status: Option<&'m str>,
    #[serde(rename = "createdAt")]
    created_at: String,
    dependencies: Vec<&'m str>,
    deprecated: bool,
    /// Absent before there is an archive, and while nobody gets it.
    #[serde(rename = "downloadUrl", skip_serializing_if = "Option::is_none")]
    download_url: Option<String>,
    id: String,
    node_id: &'m str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_reason: Option<&'m str>,
    supported_accelerators: Vec<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported_host_frontend_version: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported_host_version: Option<&'m str>,
    supported_os: Vec<&'m str>,
    tags: Vec<&'m str>,
    tags_admin: Vec<&'m str>,
    version: String,
}

impl<'m> VersionView<'m> {
    /// A version of a node as everybody sees it: without the reason of its status, and without a link to an archive that nobody
    /// gets: because the version was deleted, or because it, its node or, which is told here, the publisher is banned.
    #[must_use]
    pub fn new(node: &'m NodeProfile, version: &'m NodeVersion, publisher_banned: bool, links: &Links) -> Self {
        let (fields, number) = (&version.fields, version.number.to_string());
        let node_status = effective_status(node, publisher_banned).0;
        let gone = matches!(version.status, VersionStatus::Banned | VersionStatus::Deleted);
        let archive = version.archive.as_ref().filter(|_| !gone && node_status != NodeStatus::Banned);
        Self {
            changelog: fields.changelog.as_ref().map(Text::as_str),
            host_node_extract_status: version.host_node_extract_status.as_ref().map(Text::as_str),
            created_at: version.created_at.to_string(),
            dependencies: entries(fields.dependencies.as_ref()),
            deprecated: version.is_deprecated(),
            download_url: archive.map(|_| links.download(node.id.as_str(), &number)),
            id: version.id.to_string(),
            node_id: node.id.as_str(),
            status: version.status.as_str(),
            status_reason: None,
            supported_accelerators: entries(fields.supported_accelerators.as_ref()),
            supported_host_frontend_version: fields.supported_host_frontend_version.as_ref().map(Text::as_str),
            supported_host_version: fields.supported_host_version.as_ref().map(Text::as_str),
            supported_os: entries(fields.supported_os.as_ref()),
            tags: entries(fields.tags.as_ref()),
            tags_admin: entries(version.tags_admin.as_ref()),
            version: number,
        }
    }

    /// The same with the reason of its status, if there is one.
    #[must_use]
    pub fn with_status_reason(self, version: &'m NodeVersion) -> Self {
        Self { status_reason: version.status_reason.as_ref().map(Text::as_str), ..self }
    }
}

/// The publisher as a node shows it.
#[derive(Debug, Serialize)]
struct OwnerView<'m> {
    id: &'m str,
    name: &'m str,
}

/// The seed's `Node`.
#[derive(Debug, Serialize)]
pub struct NodeView<'m> {
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    banner_url: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'m str>,
    created_at: String,
    description: &'m str,
    downloads: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    github_stars: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<&'m str>,
    id: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_version: Option<VersionView<'m>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<&'m str>,
    name: &'m str,
    preempted_host_node_names: Vec<&'m str>,
    publisher: OwnerView<'m>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rating: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_ranking: Option<i64>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_detail: Option<&'m str>,
    supported_accelerators: Vec<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported_host_frontend_version: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported_host_version: Option<&'m str>,
    supported_os: Vec<&'m str>,
    tags: Vec<&'m str>,
    tags_admin: Vec<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    translations: Option<BTreeMap<&'m str, BTreeMap<&'m str, &'m str>>>,
}

impl<'m> NodeView<'m> {
    /// A node as everybody sees it; its publisher is shown by its id alone when it is not known.
    #[must_use]
    pub fn new(node: &'m NodeProfile, publisher: Option<&'m PublisherProfile>, links: &Links) -> Self {
        let name = publisher.map_or(node.publisher.as_str(), publisher_name);
        let banned = publisher.is_some_and(|publisher| publisher.status == PublisherStatus::Banned);
        Self::of(node, name, banned, links)
    }

    /// A node with what it shows of its publisher.
    pub(super) fn of(node: &'m NodeProfile, publisher_name: &'m str, publisher_banned: bool, links: &Links) -> Self {
        let fields = &node.fields;
        let (status, status_detail) = effective_status(node, publisher_banned);
        Self {
            author: fields.author.as_ref().map(Text::as_str),
            banner_url: shown(fields.banner_url.as_ref()),
            category: fields.category.as_ref().map(Text::as_str),
            created_at: node.created_at.to_string(),
            description: fields.description.as_ref().map_or("", Text::as_str),
            downloads: node.downloads,
            github_stars: node.github_stars,
            icon: shown(fields.icon.as_ref()),
            id: node.id.as_str(),
            latest_version: latest(&node.versions)
                .map(|version| VersionView::new(node, version, publisher_banned, links)),
            license: fields.license.as_ref().map(Text::as_str),
            name: node.display_name(),
            preempted_host_node_names: entries(fields.preempted_host_node_names.as_ref()),
            publisher: OwnerView { id: node.publisher.as_str(), name: publisher_name },
            rating: node.rating(),
            repository: shown(fields.repository.as_ref()),
            search_ranking: node.search_ranking,
            status: status.as_str(),
            status_detail,
            supported_accelerators: entries(fields.supported_accelerators.as_ref()),
            supported_host_frontend_version: fields.supported_host_frontend_version.as_ref().map(Text::as_str),
            supported_host_version: fields.supported_host_version.as_ref().map(Text::as_str),
            supported_os: entries(fields.supported_os.as_ref()),
            tags: entries(fields.tags.as_ref()),
            tags_admin: entries(node.tags_admin.as_ref()),
            translations: fields.translations.as_ref().map(texts),
        }
    }
}

/// The status of a node and what is said of it, as its publisher lets it be.
#[must_use]
pub fn effective_status(node: &NodeProfile, publisher_banned: bool) -> (NodeStatus, Option<&str>) {
    if publisher_banned && node.status == NodeStatus::Active {
        return (NodeStatus::Banned, Some(PUBLISHER_BANNED));
    }
    (node.status, node.status_detail.as_ref().map(Text::as_str))
}

/// The name for people: the id when none was given.
#[must_use]
pub fn publisher_name(profile: &PublisherProfile) -> &str {
    let given = profile.fields.name.as_ref().map(Text::as_str).filter(|name| !name.is_empty());
    given.unwrap_or(profile.id.as_str())
}

/// A list as it is shown: never absent.
#[must_use]
pub fn entries(labels: Option<&Labels>) -> Vec<&str> {
    labels.into_iter().flat_map(Labels::iter).collect()
}

/// A link as it is shown: the empty one means none (contract 4).
#[must_use]
pub fn shown(link: Option<&Link>) -> Option<&str> {
    link.map(Link::as_str).filter(|link| !link.is_empty())
}

fn texts(translations: &Translations) -> BTreeMap<&str, BTreeMap<&str, &str>> {
    let languages = translations.iter().map(|(language, texts)| {
        let texts = texts.iter().map(|(field, text)| (field.as_str(), text.as_str())).collect();
        (language.as_str(), texts)
    });
    languages.collect()
}

/// A node written as JSON, ready to be joined with others. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Fragment {
    pub json: Bytes,
    /// The first half of the SHA-256 of the JSON.
    pub hash: [u8; 16],
}

impl Fragment {
    /// Writes a view.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "it cannot panic: see the proof")]
    pub fn write(view: &NodeView<'_>) -> Self {
        let json = serde_json::to_vec(view).expect("text, numbers and lists of them can always be written as JSON");
        let mut hash = [0; 16];
        hash.copy_from_slice(&Sha256::digest(&json)[..16]);
        Self { json: json.into_boxed_slice().into(), hash }
    }
}
