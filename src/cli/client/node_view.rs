//! Nodes and versions as the registry returns them, and their fields as text.

use std::fmt;

use serde::Deserialize;

use crate::cli::audit::text::truncate;

/// Maximum characters of a description or changelog in a table.
const SUMMARY_MAX: usize = 80;

#[derive(Deserialize)]
pub(super) struct FoundNode {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) downloads: u64,
    #[serde(default)]
    github_stars: u64,
    pub(super) rating: Option<f64>,
    author: Option<String>,
    license: Option<String>,
    category: Option<String>,
    pub(super) repository: Option<String>,
    icon: Option<String>,
    banner_url: Option<String>,
    status: String,
    status_detail: Option<String>,
    created_at: Option<String>,
    pub(super) publisher: NodePublisher,
    pub(super) latest_version: Option<FoundVersion>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    tags_admin: Vec<String>,
    #[serde(default)]
    preempted_host_node_names: Vec<String>,
    #[serde(flatten)]
    supports: SupportedPlatforms,
}

#[derive(Deserialize)]
pub(super) struct NodePublisher {
    pub(super) id: String,
    name: String,
}

#[derive(Deserialize)]
pub(super) struct FoundVersion {
    pub(super) version: String,
    pub(super) status: String,
    status_reason: Option<String>,
    #[serde(rename = "createdAt")]
    created_at: String,
    pub(super) changelog: Option<String>,
    #[serde(default)]
    pub(super) deprecated: bool,
    #[serde(rename = "downloadUrl")]
    pub(super) download_url: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    tags_admin: Vec<String>,
    #[serde(flatten)]
    supports: SupportedPlatforms,
}

/// Where a node or a version runs.
#[derive(Deserialize)]
struct SupportedPlatforms {
    #[serde(default, rename = "supported_os")]
    systems: Vec<String>,
    #[serde(default, rename = "supported_accelerators")]
    accelerators: Vec<String>,
    #[serde(rename = "supported_host_version")]
    host: Option<String>,
    #[serde(rename = "supported_host_frontend_version")]
    frontend: Option<String>,
}

/// Value of a field. Displays as text; a list becomes one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldValue {
    Text(String),
    List(Vec<String>),
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::List(entries) => f.write_str(&entries.join(", ")),
        }
    }
}

/// Name and value of a field; `None` if the field is empty.
pub(super) type NamedValue = (&'static str, Option<FieldValue>);

impl FoundNode {
    /// Returns all fields except the name, the id and the description.
    pub(super) fn fields(&self) -> Vec<NamedValue> {
        let publisher = format!("{} ({})", self.publisher.name, self.publisher.id);
        let mut fields = vec![
            ("publisher", text(publisher)),
            ("author", optional_text(self.author.as_deref())),
            ("license", optional_text(self.license.as_deref())),
            ("repository", optional_text(self.repository.as_deref())),
            ("category", optional_text(self.category.as_deref())),
            ("tags", list(&self.tags)),
            ("admin tags", list(&self.tags_admin)),
        ];
        fields.extend(self.supports.fields());
        fields.extend([
            ("replaces", list(&self.preempted_host_node_names)),
            ("downloads", text(self.downloads.to_string())),
            ("stars", text(self.github_stars.to_string()).filter(|_| self.github_stars > 0)),
            ("rating", self.rating.and_then(|rating| text(format!("{rating:.1}")))),
            ("created", self.created_at.as_deref().and_then(|time| text(date(time)))),
            ("icon", optional_text(self.icon.as_deref())),
            ("banner", optional_text(self.banner_url.as_deref())),
            ("status", status(&self.status, self.status_detail.as_deref())),
        ]);
        fields
    }
}

impl FoundVersion {
    /// Returns the fields that the table of versions does not have.
    pub(super) fn fields(&self) -> Vec<NamedValue> {
        let mut fields = vec![
            ("dependencies", self.dependencies()),
            ("tags", list(&self.tags)),
            ("admin tags", list(&self.tags_admin)),
        ];
        fields.extend(self.supports.fields());
        fields.push(("status", status(&self.status, self.status_reason.as_deref())));
        fields
    }

    /// Returns the Python dependencies, if there are any.
    pub(super) fn dependencies(&self) -> Option<FieldValue> {
        list(&self.dependencies)
    }

    /// Returns the day of the publication.
    pub(super) fn date(&self) -> String {
        date(&self.created_at)
    }

    /// Returns the status with its reason, and notes such as `deprecated`.
    pub(super) fn notes(&self) -> String {
        let mut notes = vec![short_status(&self.status)];
        notes.extend(self.deprecated.then(|| "deprecated".to_owned()));
        notes.extend(self.download_url.is_none().then(|| "no archive".to_owned()));
        let notes = notes.join(", ");
        self.status_reason.as_ref().map_or_else(|| notes.clone(), |reason| format!("{notes}: {}", summary(reason)))
    }
}

impl SupportedPlatforms {
    fn fields(&self) -> [NamedValue; 4] {
        [
            ("systems", list(&self.systems)),
            ("accelerators", list(&self.accelerators)),
            ("host", optional_text(self.host.as_deref())),
            ("frontend", optional_text(self.frontend.as_deref())),
        ]
    }
}

/// Returns the first line of a text, shortened.
pub(super) fn summary(text: &str) -> String {
    truncate(text.trim().lines().next().unwrap_or_default(), SUMMARY_MAX)
}

/// Returns the day of a time.
fn date(time: &str) -> String {
    time.split('T').next().unwrap_or_default().to_owned()
}

/// Returns the value of a text; `None` if it is empty.
pub(super) fn text(text: impl Into<String>) -> Option<FieldValue> {
    Some(text.into()).filter(|text| !text.is_empty()).map(FieldValue::Text)
}

fn optional_text(value: Option<&str>) -> Option<FieldValue> {
    value.and_then(text)
}

fn list(entries: &[String]) -> Option<FieldValue> {
    Some(entries.to_vec()).filter(|entries| !entries.is_empty()).map(FieldValue::List)
}

/// Returns a status with its reason; `None` for an active node or version, unless there is a reason.
fn status(status: &str, reason: Option<&str>) -> Option<FieldValue> {
    let name = short_status(status);
    match reason.filter(|reason| !reason.is_empty()) {
        Some(reason) => text(format!("{name}: {reason}")),
        None if name == "active" => None,
        None => text(name),
    }
}

/// Returns the status without its prefix: `active` for `NodeVersionStatusActive`.
fn short_status(status: &str) -> String {
    let name = status.trim_start_matches("NodeVersionStatus").trim_start_matches("NodeStatus");
    name.to_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_shown_if_it_is_not_active_or_has_a_reason() {
        assert_eq!(status("NodeStatusActive", None), None);
        assert_eq!(status("NodeStatusBanned", None), text("banned"));
        assert_eq!(status("NodeVersionStatusFlagged", Some("odd")), text("flagged: odd"));
    }

    #[test]
    fn every_field_of_a_node_is_shown() {
        let node: FoundNode = serde_json::from_value(json!({
            "id": "a", "name": "A", "downloads": 7, "github_stars": 3, "rating": 4.25, "author": "Ada", "license": "MIT",
            "category": "image", "repository": "https://example.org/a", "icon": "https://example.org/i.png",
            "banner_url": "https://example.org/b.png", "status": "NodeStatusActive", "created_at": "2026-03-01T09:30:00Z",
            "publisher": {"id": "acme", "name": "Acme"}, "tags": ["t"], "tags_admin": ["risky"],
            "preempted_host_node_names": ["Old"], "supported_os": ["Linux"], "supported_accelerators": ["CUDA"],
            "supported_host_version": ">=1", "supported_host_frontend_version": ">=2"
        }))
        .unwrap();
        let missing: Vec<_> =
            node.fields().into_iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        assert_eq!(missing, ["status"]);
    }
}
