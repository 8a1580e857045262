//! `mediary compare`: two versions of a node, or two nodes.

use std::fmt::Write as _;

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCompleter;
use serde::Deserialize;
use serde_json::{Value, json};

use super::complete;
use super::node_ref::{NodeReference, url_version};
use super::node_view::{FieldValue, FoundNode, FoundVersion, NamedValue, text};
use super::service::{ServiceArguments, ServiceConnection};
use crate::app;
use crate::cli::audit::text::{printable, truncate};
use crate::cli::progress::format_bytes;
use crate::cli::table::{RowColor, TextTable};
use crate::cli::{CliError, print_text};
use crate::domain::version::SemVer;
use crate::pluralize::pluralize;

/// Maximum characters of a value in a table.
const VALUE_MAX: usize = 48;
/// Characters before the first difference of two values that do not fit.
const CONTEXT_CHARS: usize = 16;

pub(super) const HELP: &str = "\
Compares two versions of a node: the fields that differ, and the files of their archives. Without a
second argument, the second version is the latest one. Two nodes are compared by their fields, with
their latest versions unless others are named. Needs no token.

Examples:
  mediary compare face-tools@1.0.0 face-tools@1.1.0
  mediary compare face-tools@1.0.0 --patch
  mediary compare face-tools mask-tools";

#[derive(Debug, Args)]
pub(in crate::cli) struct CompareArguments {
    /// Node, with the older version
    #[arg(value_name = "NODE[@VERSION]", add = ArgValueCompleter::new(complete::nodes))]
    first: NodeReference,
    /// The same node with the newer version, or another node
    #[arg(value_name = "NODE[@VERSION]", add = ArgValueCompleter::new(complete::nodes))]
    second: Option<NodeReference>,
    /// Print the differences of text files as a patch
    #[arg(long)]
    patch: bool,
    #[command(flatten)]
    service: ServiceArguments,
}

/// Response of the comparison of two archives.
#[derive(Deserialize)]
struct ArchiveDifference {
    files: Vec<ChangedFile>,
}

#[derive(Deserialize)]
struct ChangedFile {
    path: String,
    change: String,
    old_bytes: Option<u64>,
    new_bytes: Option<u64>,
    patch: Option<String>,
    omitted: Option<String>,
}

/// A node and one of its versions, as JSON from the service.
struct ComparedNode {
    node: Value,
    version: Option<Value>,
}

pub(super) fn compare(arguments: &CompareArguments) -> Result<(), CliError> {
    let CompareArguments { first, second, patch, service } = arguments;
    let second = match second {
        Some(second) => second.clone(),
        None if first.version.is_some() => NodeReference { node: first.node.clone(), version: None },
        None => {
            return Err(CliError::Usage(format!("name a version, as in {first}@1.0.0, or a second node")));
        }
    };
    let service = ServiceConnection::open(service)?;
    if first.node.key() == second.node.key() {
        compare_versions(&service, first, &second, *patch)
    } else if *patch {
        Err(CliError::Usage("--patch compares two versions of one node".to_owned()))
    } else {
        compare_nodes(&service, first, &second)
    }
}

async fn read_node(service: &ServiceConnection, reference: &NodeReference) -> Result<ComparedNode, CliError> {
    let node = service.get(&format!("/nodes/{}", reference.node)).await?;
    let version = match &reference.version {
        Some(version) => {
            Some(service.get(&format!("/nodes/{}/versions/{}", reference.node, url_version(version))).await?)
        }
        None => node.get("latest_version").filter(|version| !version.is_null()).cloned(),
    };
    Ok(ComparedNode { node, version })
}

fn compare_versions(
    service: &ServiceConnection,
    first: &NodeReference,
    second: &NodeReference,
    patch: bool,
) -> Result<(), CliError> {
    let (old, new, difference) = app::block_on(async {
        let old = read_node(service, first).await?;
        let new = read_node(service, second).await?;
        let require_version = |version: Option<Value>| {
            version.ok_or_else(|| CliError::Runtime(anyhow!("{} has no active version; name one", first.node)))
        };
        let from = require_version(old.version)?;
        let to = require_version(new.version)?;
        if from["version"] == to["version"] {
            let number = from["version"].as_str().unwrap_or_default();
            let problem = if second.version.is_none() { "is the latest version" } else { "is compared with itself" };
            return Err(CliError::Usage(format!("{} {problem}; name another one", printable(number))));
        }
        let has_archives = [&from, &to].iter().all(|version| version["downloadUrl"].is_string());
        let difference = if has_archives {
            // The id as its author spells it, because the service redirects from other spellings.
            let id = new.node["id"].as_str().unwrap_or_default();
            read_difference(service, &difference_path(id, &from, &to)?, patch).await?
        } else {
            None
        };
        Ok::<_, CliError>((from, to, difference))
    })?;
    if service.json {
        let files = difference.as_ref().map(|difference| difference["files"].clone());
        return ServiceConnection::print_json(&json!({"versions": [old, new], "files": files}));
    }

    let difference: Option<ArchiveDifference> = difference.map(|difference| service.parse(difference)).transpose()?;
    let (old, new): (FoundVersion, FoundVersion) = (service.parse(old)?, service.parse(new)?);
    if patch {
        let difference = difference.ok_or_else(|| anyhow!("one of the versions has no archive"))?;
        return print_text(&difference.patches());
    }
    print_text(&describe_versions(&old, &new, difference.as_ref()))
}

/// Reads the difference between two archives. Only members can read archives of pending and flagged versions; for other
/// users this returns `None`, or an error if the difference `is_required`.
async fn read_difference(
    service: &ServiceConnection,
    path: &str,
    is_required: bool,
) -> Result<Option<Value>, CliError> {
    match service.api.get(path).await {
        Ok(reply) if matches!(reply.status, 403 | 404) && !is_required => Ok(None),
        result => service.json_of(result).map(Some),
    }
}

/// Returns the URL path of the difference between two versions.
fn difference_path(node: &str, from: &Value, to: &Value) -> Result<String, CliError> {
    let number = |version: &Value| {
        let text = version["version"].as_str().unwrap_or_default();
        SemVer::parse(text)
            .map(|version| url_version(&version))
            .map_err(|reason| CliError::Runtime(anyhow!("the version {text:?} of the response {reason}")))
    };
    Ok(format!("/nodes/{node}/versions/{}/diff?from={}", number(to)?, number(from)?))
}

fn describe_versions(old: &FoundVersion, new: &FoundVersion, difference: Option<&ArchiveDifference>) -> String {
    let headers = [old.version.as_str(), new.version.as_str()];
    let fields = |version: &FoundVersion| {
        let mut fields = vec![("published", text(version.date()))];
        fields.extend(version.fields());
        fields.push(deprecated_field(version));
        fields.push(("changelog", version.changelog.as_deref().and_then(text)));
        fields
    };
    let mut output = field_table(headers, &fields(old), &fields(new), ShownFields::Different);

    if !output.is_empty() {
        output.push('\n');
    }
    let Some(ArchiveDifference { files }) = difference else {
        output.push_str(
            "At least one of the archives is absent or not readable to you, so the files cannot be compared.\n",
        );
        return output;
    };
    if files.is_empty() {
        output.push_str("The archives have the same files.\n");
        return output;
    }
    let mut table = TextTable::new(&["CHANGE", "OLD", "NEW", "FILE"]).right_align(&[1, 2]);
    for ChangedFile { path, change, old_bytes, new_bytes, .. } in files {
        let color = match change.as_str() {
            "added" => RowColor::Good,
            "removed" => RowColor::Bad,
            _ => RowColor::Pending,
        };
        let size = |bytes: &Option<u64>| bytes.map_or_else(|| "-".to_owned(), format_bytes);
        table
            .push(color, [change.clone(), size(old_bytes), size(new_bytes), path.clone()].map(|cell| printable(&cell)));
    }
    let _ = writeln!(
        output,
        "{table}\n{}; --patch prints the changes of texts",
        pluralize(files.len() as u64, "changed file")
    );
    output
}

/// Returns a field that has a value only if the version is deprecated.
fn deprecated_field(version: &FoundVersion) -> NamedValue {
    ("deprecated", text("yes").filter(|_| version.deprecated))
}

impl ArchiveDifference {
    /// Returns the patches, with a line for each file that has none.
    fn patches(&self) -> String {
        let mut text = String::new();
        for ChangedFile { path, change, patch, omitted, .. } in &self.files {
            let _ = if let Some(patch) = patch {
                writeln!(text, "{}", printable_patch(patch.trim_end_matches('\n')))
            } else {
                let reason = omitted.as_deref().unwrap_or("no text").replace('_', " ");
                writeln!(text, "{} {}: {}", printable(change), printable(path), printable(&reason))
            };
        }
        text
    }
}

/// Escapes what controls a terminal, except line breaks and tabs.
fn printable_patch(patch: &str) -> String {
    patch.split_inclusive(['\n', '\t']).fold(String::new(), |text, part| {
        let end = if part.ends_with(['\n', '\t']) { part.len() - 1 } else { part.len() };
        text + &printable(&part[..end]) + &part[end..]
    })
}

fn compare_nodes(service: &ServiceConnection, first: &NodeReference, second: &NodeReference) -> Result<(), CliError> {
    let (first, second) = app::block_on(async {
        Ok::<_, CliError>((read_node(service, first).await?, read_node(service, second).await?))
    })?;
    if service.json {
        let nodes = [first, second].map(|ComparedNode { node, version }| json!({"node": node, "version": version}));
        return ServiceConnection::print_json(&json!({"nodes": nodes}));
    }

    let fields = |compared: ComparedNode| -> Result<(String, Vec<NamedValue>), CliError> {
        let node: FoundNode = service.parse(compared.node)?;
        let mut fields = vec![("name", text(&*node.name)), ("description", text(&*node.description))];
        fields.extend(node.fields());
        let version = compared.version.map(|version| service.parse::<FoundVersion>(version)).transpose()?;
        let of_version = |field: &dyn Fn(&FoundVersion) -> Option<FieldValue>| version.as_ref().and_then(field);
        fields.push(("version", of_version(&|version| text(&*version.version))));
        fields.push(("published", of_version(&|version| text(version.date()))));
        fields.push(("deprecated", of_version(&|version| deprecated_field(version).1)));
        fields.push(("dependencies", of_version(&FoundVersion::dependencies)));
        Ok((node.id, fields))
    };
    let (first_id, first_fields) = fields(first)?;
    let (second_id, second_fields) = fields(second)?;
    print_text(&field_table([&first_id, &second_id], &first_fields, &second_fields, ShownFields::All))
}

/// Fields that a table of two resources shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownFields {
    All,
    Different,
}

/// Formats the fields of two resources side by side, with a colour for fields that differ. Leaves out fields that have
/// no value in either resource. Returns an empty text if there is no field to show.
fn field_table(headers: [&str; 2], left: &[NamedValue], right: &[NamedValue], shown: ShownFields) -> String {
    let headers = headers.map(printable);
    let mut table = TextTable::new(&["", &headers[0], &headers[1]]);
    let mut is_empty = true;
    for ((name, left), (_, right)) in left.iter().zip(right) {
        let is_equal = left == right;
        let is_absent = left.is_none() && right.is_none();
        if is_absent || (is_equal && shown == ShownFields::Different) {
            continue;
        }
        let color = if is_equal { RowColor::Plain } else { RowColor::Pending };
        for (index, [left, right]) in value_cells(left.as_ref(), right.as_ref()).into_iter().enumerate() {
            let name = if index == 0 { *name } else { "" };
            table.push(color, [name, &left, &right].map(printable));
        }
        is_empty = false;
    }
    if is_empty { String::new() } else { table.to_string() }
}

/// Returns the rows of cells for two values: one row, or for lists a row for each entry that only one list has.
fn value_cells(left: Option<&FieldValue>, right: Option<&FieldValue>) -> Vec<[String; 2]> {
    let entries = |value: Option<&FieldValue>| match value {
        None => Some(Vec::new()),
        Some(FieldValue::List(entries)) => Some(entries.clone()),
        Some(FieldValue::Text(_)) => None,
    };
    if left != right
        && let (Some(old), Some(new)) = (entries(left), entries(right))
    {
        let rows = entry_cells(&old, &new);
        // Lists with the same entries in another order are shown as texts.
        if !rows.is_empty() {
            return rows;
        }
    }
    let texts = [left, right].map(|value| value.map_or_else(|| "-".to_owned(), FieldValue::to_string));
    vec![[excerpt(&texts[0], &texts[1]), excerpt(&texts[1], &texts[0])]]
}

/// Returns a row for each entry that only one of two lists has: removed entries on the left with `-`, added entries on
/// the right with `+`.
fn entry_cells(old: &[String], new: &[String]) -> Vec<[String; 2]> {
    let missing_in = |list: &[String], other: &[String]| -> Vec<String> {
        list.iter().filter(|entry| !other.contains(entry)).cloned().collect()
    };
    let removed = missing_in(old, new);
    let added = missing_in(new, old);
    let rows = 0..removed.len().max(added.len());
    rows.map(|row| {
        let cell = |sign: &str, entry: Option<&String>, opposite: Option<&String>| {
            let opposite = opposite.map_or("", String::as_str);
            entry.map_or_else(String::new, |entry| format!("{sign}{}", excerpt(entry, opposite)))
        };
        let left = removed.get(row);
        let right = added.get(row);
        [cell("-", left, right), cell("+", right, left)]
    })
    .collect()
}

/// Returns `text` as one line, cut so that its first difference from `other` is visible.
fn excerpt(text: &str, other: &str) -> String {
    let common_chars = text.chars().zip(other.chars()).take_while(|(char, other)| char == other).count();
    let fits = [text, other].iter().all(|text| text.chars().count() <= VALUE_MAX);
    let shows_difference = fits || text == other || common_chars + CONTEXT_CHARS < VALUE_MAX;
    let skipped = if shows_difference { 0 } else { common_chars - CONTEXT_CHARS };
    let ellipsis = if skipped > 0 { "…" } else { "" };
    let shown: String = ellipsis.chars().chain(text.chars().skip(skipped)).collect();
    truncate(&shown.replace(['\n', '\r', '\t'], " "), VALUE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_fields_are_left_out_between_versions() {
        assert_eq!(field_table(["1.0.0", "2.0.0"], &[("x", None)], &[("x", None)], ShownFields::Different), "");
        let fields = |host: &str| vec![("tags", text("a")), ("host", text(host)), ("x", None)];
        let table = field_table(["1.0.0", "2.0.0"], &fields(">=1"), &fields(">=2"), ShownFields::Different);
        assert_eq!(table, "      1.0.0  2.0.0\nhost  >=1    >=2\n");
        let table = field_table(["a", "b"], &fields(">=1"), &fields(">=1"), ShownFields::All);
        assert_eq!(table.lines().count(), 3, "{table}");
    }

    #[test]
    fn differences_in_long_lists_and_texts_are_shown() {
        let table = |old: FieldValue, new: FieldValue| {
            field_table(["1", "2"], &[("x", Some(old))], &[("x", Some(new))], ShownFields::Different)
        };
        let list = |entries: &[&str]| FieldValue::List(entries.iter().map(|entry| (*entry).to_owned()).collect());

        // Lists: only the entries that one of them lacks, or both lists if just the order differs
        let old = list(&["torch>=2.0", "numpy>=1.26", "opencv-python>=4.9", "pillow==10.2", "tqdm"]);
        let new = list(&["torch>=2.0", "numpy>=1.26", "opencv-python>=4.9", "pillow==10.3"]);
        assert_eq!(table(old, new), "   1              2\nx  -pillow==10.2  +pillow==10.3\n   -tqdm\n");
        let ordered = table(list(&["a", "b"]), list(&["b", "a"]));
        assert!(ordered.ends_with("x  a, b  b, a\n"), "{ordered}");

        // Texts: the part with the first difference, even in a later line
        let long = |end: &str| FieldValue::Text(format!("{}\n- {end}", "same ".repeat(20)));
        let table = table(long("old"), long("new"));
        assert!(table.ends_with("x  …me same same  - old  …me same same  - new\n"), "{table}");
        assert_eq!(excerpt(&"a".repeat(60), &"a".repeat(60)), format!("{}…", "a".repeat(47)));
        assert_eq!(excerpt(&"a".repeat(48), &"a".repeat(60)).chars().count(), 17);
    }

    #[test]
    fn deprecations_and_changelogs_of_versions_are_compared() {
        let version = |deprecated: bool, changelog: &str| -> FoundVersion {
            serde_json::from_value(
                json!({"version": "1.0.0", "status": "NodeVersionStatusActive", "changelog": changelog,
                                          "createdAt": "2026-03-01T09:30:00Z", "deprecated": deprecated}),
            )
            .unwrap()
        };
        let text = describe_versions(&version(false, "First"), &version(true, "Second"), None);
        assert!(text.contains("deprecated  -      yes\n") && text.contains("changelog   First  Second\n"), "{text}");
    }

    #[test]
    fn patches_are_joined_and_files_without_one_are_named() {
        let difference: ArchiveDifference = serde_json::from_value(json!({"files": [
            {"path": "a.py", "change": "modified", "patch": "--- a\n+++ b\n-\t\u{1b}\n"},
            {"path": "b.bin", "change": "added", "new_bytes": 3, "omitted": "too_large"}
        ]}))
        .unwrap();
        assert_eq!(difference.patches(), "--- a\n+++ b\n-\t\\u{1b}\nadded b.bin: too large\n");
    }
}
