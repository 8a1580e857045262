//! Sample registry: the files of `data/seed`, one per publisher, embedded in the binary.

use serde::Deserialize;
use serde_json::{Map, Value};

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../data/seed/", $name, ".json")))),*]
    };
}

/// All files by publisher id.
const FILES: &[(&str, &str)] = files! {
    "amberline" "bramblewood" "cinderpath" "eastquay" "fernhollow" "glasswren" "hearthside-audio" "inkwell-row" "kitetail"
    "lanternfish" "larkspur-frame" "millrace" "mortise-lab" "oakmoss" "owlhollow-audio" "paperlantern" "quillfeather"
    "ropewalk" "saltmarsh" "thistleloom" "tidegauge" "umberfield" "violetharbor" "windlass-tools" "yarrowgate"
};

/// A publisher with its nodes.
#[derive(Debug, Deserialize)]
pub(super) struct SamplePublisher {
    /// The API's `Publisher`.
    pub(super) publisher: Value,
    pub(super) nodes: Vec<SampleNode>,
}

/// A node with its versions.
#[derive(Debug, Deserialize)]
pub(super) struct SampleNode {
    pub(super) id: String,
    /// Oldest first.
    pub(super) versions: Vec<SampleVersion>,
    /// The other fields of the API's `Node`.
    #[serde(flatten)]
    pub(super) other_fields: Map<String, Value>,
}

/// A version of a node.
#[derive(Debug, Deserialize)]
pub(super) struct SampleVersion {
    pub(super) version: String,
    /// Set by an administrator after the version was created.
    #[serde(rename = "createdAt")]
    pub(super) created_at: String,
    /// Status other than active; pending versions get no archive.
    pub(super) status: Option<String>,
    pub(super) status_reason: Option<String>,
    /// The other fields of the API's `NodeVersion`.
    #[serde(flatten)]
    pub(super) other_fields: Map<String, Value>,
}

impl SamplePublisher {
    /// Returns the id of the publisher.
    pub(super) fn id(&self) -> &str {
        self.publisher["id"].as_str().unwrap_or_default()
    }
}

impl SampleNode {
    /// Returns the body that creates the node, without versions.
    pub(super) fn body(&self) -> Value {
        let mut body = self.other_fields.clone();
        body.insert("id".to_owned(), self.id.clone().into());
        body.into()
    }

    /// Returns the display name.
    pub(super) fn name(&self) -> &str {
        self.other_fields.get("name").and_then(Value::as_str).unwrap_or(&self.id)
    }
}

impl SampleVersion {
    /// Returns the body that publishes the version.
    pub(super) fn body(&self) -> Value {
        let mut body = self.other_fields.clone();
        body.insert("version".to_owned(), self.version.clone().into());
        body.into()
    }

    /// Returns `true` if the version gets no archive.
    pub(super) fn is_pending(&self) -> bool {
        self.status.as_deref() == Some("NodeVersionStatusPending")
    }
}

/// Returns the samples of the publishers whose ids are in `only`, or all if it is empty, ordered by id.
///
/// # Errors
/// If an id is not that of a sample publisher.
pub(super) fn load_samples(only: &[String]) -> anyhow::Result<Vec<SamplePublisher>> {
    if let Some(unknown) = only.iter().find(|name| FILES.iter().all(|(known, _)| known != name)) {
        let known: Vec<_> = FILES.iter().map(|(name, _)| *name).collect();
        anyhow::bail!("unknown sample publisher {unknown:?}; available: {}", known.join(" "));
    }
    let selected = FILES.iter().filter(|(name, _)| only.is_empty() || only.iter().any(|only| only == name));
    selected.map(|(_, text)| Ok(serde_json::from_str(text)?)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use super::*;
    use crate::domain::ids::{NodeId, PublisherId};
    use crate::domain::node::NodeDescription;
    use crate::domain::publisher::PublisherDescription;
    use crate::domain::value::{LIST_MAX, Label, Link, Name};
    use crate::domain::version::{Changelog, SemVer, VersionStatus};

    fn all_samples() -> Vec<SamplePublisher> {
        load_samples(&[]).unwrap()
    }

    fn text<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
        fields.get(name).map(|value| value.as_str().unwrap_or_else(|| panic!("{name} is not a string")))
    }

    #[test]
    fn every_file_is_embedded_and_named_after_its_publisher() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/seed");
        let files: BTreeSet<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(files, FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
        for ((name, _), sample) in FILES.iter().zip(all_samples()) {
            assert_eq!(*name, sample.id());
        }
    }

    #[test]
    fn there_are_200_nodes_of_25_publishers_with_1_to_8_versions() {
        let samples = all_samples();
        let nodes: Vec<_> = samples.iter().flat_map(|sample| &sample.nodes).collect();
        let versions: Vec<_> = nodes.iter().flat_map(|node| &node.versions).collect();
        assert_eq!((samples.len(), nodes.len(), versions.len()), (25, 200, 660));
        for node in &nodes {
            assert!((1..=8).contains(&node.versions.len()), "{}", node.id);
        }

        let versions_with =
            |field: &str| versions.iter().filter(|version| version.other_fields.contains_key(field)).count();
        assert!(versions_with("deprecated") >= 5, "deprecated versions");
        assert!(versions_with("dependencies") >= 20, "versions with dependencies");
        assert!(versions.iter().filter(|version| version.version.contains('-')).count() >= 15, "pre-releases");

        for field in ["icon", "banner_url", "translations", "category", "preempted_host_node_names", "tags_admin"] {
            assert!(nodes.iter().any(|node| node.other_fields.contains_key(field)), "{field}");
        }
    }

    #[test]
    fn names_and_versions_are_unique() {
        let samples = all_samples();
        let mut seen = BTreeMap::new();
        for node in samples.iter().flat_map(|sample| &sample.nodes) {
            for value in [node.id.to_lowercase(), node.name().to_owned(), node.other_fields["description"].to_string()]
            {
                assert_eq!(seen.insert(value.clone(), &node.id), None, "{value}");
            }
            let numbers: Vec<_> =
                node.versions.iter().map(|version| SemVer::parse(&version.version).unwrap()).collect();
            assert!(numbers.windows(2).all(|pair| pair[0].cmp_precedence(&pair[1]).is_lt()), "{}", node.id);
            let times: Vec<_> = node.versions.iter().map(|version| &version.created_at).collect();
            assert!(times.is_sorted(), "{}", node.id);
        }
    }

    #[test]
    fn every_field_is_within_its_limits() {
        for sample in all_samples() {
            PublisherId::parse(sample.id()).unwrap();
            let publisher = sample.publisher.as_object().unwrap();
            PublisherDescription::parse(text(publisher, "description").unwrap()).unwrap();
            for link in ["website", "logo", "source_code_repo"] {
                check_link(text(publisher, link));
            }
            for node in &sample.nodes {
                NodeId::parse(&node.id).unwrap();
                Name::parse(node.name()).unwrap();
                NodeDescription::parse(text(&node.other_fields, "description").unwrap()).unwrap();
                for link in ["repository", "icon", "banner_url"] {
                    check_link(text(&node.other_fields, link));
                }
                for list in ["supported_os", "supported_accelerators", "tags"] {
                    check_list(&node.other_fields[list], &node.id);
                }
                node.versions.iter().for_each(|version| check_version(version, &node.id));
            }
        }
    }

    /// Checks that a link is valid and uses the reserved example domain.
    fn check_link(link: Option<&str>) {
        let Some(link) = link else { return };
        Link::parse(link).unwrap();
        assert!(link.starts_with("https://example.org/"), "{link}");
    }

    fn check_list(list: &Value, node_id: &str) {
        let entries = list.as_array().unwrap_or_else(|| panic!("{node_id}: {list}"));
        assert!(entries.len() <= LIST_MAX, "{node_id}");
        for entry in entries {
            Label::parse(entry.as_str().unwrap()).unwrap();
        }
    }

    fn check_version(version: &SampleVersion, node_id: &str) {
        Changelog::parse(text(&version.other_fields, "changelog").unwrap()).unwrap();
        if let Some(status) = &version.status {
            VersionStatus::parse(status).unwrap();
            assert_eq!(version.status_reason.is_some(), !version.is_pending(), "{node_id}");
        }
        version.other_fields.get("dependencies").iter().for_each(|list| check_list(list, node_id));
    }

    #[test]
    fn an_unknown_publisher_is_reported_with_the_available_ones() {
        assert_eq!(load_samples(&["kitetail".to_owned()]).unwrap()[0].id(), "kitetail");
        let message = load_samples(&["nobody".to_owned()]).unwrap_err().to_string();
        assert!(message.contains("nobody") && message.contains("yarrowgate"), "{message}");
    }
}
