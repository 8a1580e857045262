//! JSON views of nodes and versions: the API's `Node` and `NodeVersion`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::domain::node::{NodeProfile, NodeStatus, Translations};
use crate::domain::publisher::{PublisherProfile, PublisherStatus};
use crate::domain::value::{Link, Text, TextList};
use crate::domain::version::{NodeVersion, VersionStatus, latest};

/// Status detail of a node whose publisher is banned.
pub const PUBLISHER_BANNED: &str = "the publisher is banned";

/// Base of generated URLs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Base URL without a trailing slash.
    pub public_url: String,
}

impl Links {
    /// Returns the URL of an icon or a banner.
    fn picture_url<'l>(&self, link: Option<&'l Link>) -> Option<Cow<'l, str>> {
        link.filter(|link| !link.as_str().is_empty()).map(|link| link.absolute(&self.public_url))
    }

    /// Returns the download URL of a version.
    #[must_use]
    pub fn download_url(&self, node: &str, version: &str) -> String {
        // Some decoders read the plus sign as a space; all other characters of versions are safe.
        format!("{}/nodes/{node}/versions/{}/download", self.public_url, version.replace('+', "%2B"))
    }
}

/// The API's `NodeVersion`.
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
    /// Absent without an archive, and while it cannot be downloaded.
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
    /// Creates the public view of a version, without the reason of its status. The download URL is absent if the
    /// version is deleted or banned, or if its node or publisher is banned.
    #[must_use]
    pub fn new(node: &'m NodeProfile, version: &'m NodeVersion, publisher_banned: bool, links: &Links) -> Self {
        let fields = &version.fields;
        let number = version.number.to_string();
        let node_status = effective_status(node, publisher_banned).0;
        let is_withdrawn = matches!(version.status, VersionStatus::Banned | VersionStatus::Deleted);
        let archive = version.archive.as_ref().filter(|_| !is_withdrawn && node_status != NodeStatus::Banned);

        Self {
            changelog: fields.changelog.as_ref().map(Text::as_str),
            host_node_extract_status: version.host_node_extract_status.as_ref().map(Text::as_str),
            created_at: version.created_at.to_string(),
            dependencies: entries(fields.dependencies.as_ref()),
            deprecated: version.is_deprecated(),
            download_url: archive.map(|_| links.download_url(node.id.as_str(), &number)),
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

    /// Adds the reason of the status, if there is one.
    #[must_use]
    pub fn with_status_reason(self, version: &'m NodeVersion) -> Self {
        Self { status_reason: version.status_reason.as_ref().map(Text::as_str), ..self }
    }
}

/// The publisher in the view of a node.
#[derive(Debug, Serialize)]
struct OwnerView<'m> {
    id: &'m str,
    name: &'m str,
}

/// The API's `Node`.
#[derive(Debug, Serialize)]
pub struct NodeView<'m> {
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    banner_url: Option<Cow<'m, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'m str>,
    created_at: String,
    description: &'m str,
    downloads: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    github_stars: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<Cow<'m, str>>,
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
    /// Creates the public view of a node. Without `publisher`, its id is the name.
    #[must_use]
    pub fn new(node: &'m NodeProfile, publisher: Option<&'m PublisherProfile>, links: &Links) -> Self {
        let name = publisher.map_or(node.publisher.as_str(), publisher_name);
        let banned = publisher.is_some_and(|publisher| publisher.status == PublisherStatus::Banned);
        Self::with_publisher(node, name, banned, links)
    }

    /// Creates the view from the displayed data of the publisher.
    pub(super) fn with_publisher(
        node: &'m NodeProfile,
        publisher_name: &'m str,
        publisher_banned: bool,
        links: &Links,
    ) -> Self {
        let fields = &node.fields;
        let (status, status_detail) = effective_status(node, publisher_banned);

        Self {
            author: fields.author.as_ref().map(Text::as_str),
            banner_url: links.picture_url(fields.banner_url.as_ref()),
            category: fields.category.as_ref().map(Text::as_str),
            created_at: node.created_at.to_string(),
            description: fields.description.as_ref().map_or("", Text::as_str),
            downloads: node.downloads,
            github_stars: node.github_stars,
            icon: links.picture_url(fields.icon.as_ref()),
            id: node.id.as_str(),
            latest_version: latest(&node.versions)
                .map(|version| VersionView::new(node, version, publisher_banned, links)),
            license: fields.license.as_ref().map(Text::as_str),
            name: node.display_name(),
            preempted_host_node_names: entries(fields.preempted_host_node_names.as_ref()),
            publisher: OwnerView { id: node.publisher.as_str(), name: publisher_name },
            rating: node.rating(),
            repository: non_empty_link(fields.repository.as_ref()),
            search_ranking: node.search_ranking,
            status: status.as_str(),
            status_detail,
            supported_accelerators: entries(fields.supported_accelerators.as_ref()),
            supported_host_frontend_version: fields.supported_host_frontend_version.as_ref().map(Text::as_str),
            supported_host_version: fields.supported_host_version.as_ref().map(Text::as_str),
            supported_os: entries(fields.supported_os.as_ref()),
            tags: entries(fields.tags.as_ref()),
            tags_admin: entries(node.tags_admin.as_ref()),
            translations: fields.translations.as_ref().map(translation_map),
        }
    }
}

/// Returns the status of a node and its detail, taking a ban of the publisher into account.
#[must_use]
pub fn effective_status(node: &NodeProfile, publisher_banned: bool) -> (NodeStatus, Option<&str>) {
    if publisher_banned && node.status == NodeStatus::Active {
        return (NodeStatus::Banned, Some(PUBLISHER_BANNED));
    }
    (node.status, node.status_detail.as_ref().map(Text::as_str))
}

/// Returns the display name, or the id without one.
#[must_use]
pub fn publisher_name(profile: &PublisherProfile) -> &str {
    let name = profile.fields.name.as_ref().map(Text::as_str).filter(|name| !name.is_empty());
    name.unwrap_or(profile.id.as_str())
}

/// Returns the entries of a list; empty if absent.
#[must_use]
pub fn entries<const ENTRIES: usize, const CHARS: usize>(list: Option<&TextList<ENTRIES, CHARS>>) -> Vec<&str> {
    list.into_iter().flat_map(TextList::iter).collect()
}

/// Returns a link unless it is empty, which means none (contract 4).
#[must_use]
pub fn non_empty_link(link: Option<&Link>) -> Option<&str> {
    link.map(Link::as_str).filter(|link| !link.is_empty())
}

fn translation_map(translations: &Translations) -> BTreeMap<&str, BTreeMap<&str, &str>> {
    let languages = translations.iter().map(|(language, texts)| {
        let texts = texts.iter().map(|(field, text)| (field.as_str(), text.as_str())).collect();
        (language.as_str(), texts)
    });
    languages.collect()
}

/// A node rendered as JSON. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeFragment {
    pub json: Bytes,
    /// The first half of the SHA-256 of the JSON.
    pub hash: [u8; 16],
}

impl NodeFragment {
    /// Renders a view.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "text, numbers and lists of them can always be written")]
    pub fn render(view: &NodeView<'_>) -> Self {
        let json = serde_json::to_vec(view).expect("text, numbers and lists of them can always be written as JSON");
        let mut hash = [0; 16];
        hash.copy_from_slice(&Sha256::digest(&json)[..16]);
        Self { json: json.into_boxed_slice().into(), hash }
    }
}
