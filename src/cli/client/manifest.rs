//! Manifest of a node, `mediary-node.toml`: what `mediary pack` and `mediary publish` read.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::anyhow;
use serde_json::{Value, json};
use toml::Table;

use crate::cli::CliError;
use crate::config::edit_distance;
use crate::domain::ids::{NodeId, PublisherId};
use crate::domain::value::InvalidValue;
use crate::domain::version::SemVer;

/// Name of the file in the directory of a node.
pub(super) const MANIFEST_FILE: &str = "mediary-node.toml";
/// Maximum edit distance of a suggestion.
const SUGGESTION_DISTANCE_MAX: usize = 2;

/// Fields that every manifest has.
const REQUIRED_FIELDS: [&str; 3] = ["publisher", "id", "version"];
/// Field with the patterns of files to leave out.
const IGNORE_FIELD: &str = "ignore";
/// Fields of the node and of the version, as in the API; some are fields of both. The service checks their values.
const NODE_FIELDS: [&str; 13] = [
    "name",
    "description",
    "repository",
    "license",
    "author",
    "category",
    "icon",
    "banner_url",
    "tags",
    "supported_os",
    "supported_accelerators",
    "supported_host_version",
    "supported_host_frontend_version",
];
const VERSION_FIELDS: [&str; 7] = [
    "version",
    "changelog",
    "dependencies",
    "supported_os",
    "supported_accelerators",
    "supported_host_version",
    "supported_host_frontend_version",
];

/// Fields whose value is a picture, given as a URL or as a file beside the manifest: name of the field, and last
/// segment of the URL path to which the file is uploaded.
const PICTURE_FIELDS: [(&str, &str); 2] = [("icon", "icon"), ("banner_url", "banner")];

/// Picture file that a manifest names.
pub(super) struct ManifestPicture<'a> {
    pub(super) field: &'static str,
    /// Last segment of the URL path to which the file is uploaded.
    pub(super) upload_segment: &'static str,
    /// Path relative to the manifest.
    pub(super) file: &'a str,
}

/// Checked manifest.
#[derive(Debug)]
pub(super) struct NodeManifest {
    pub(super) publisher: PublisherId,
    pub(super) id: NodeId,
    pub(super) version: SemVer,
    /// Patterns of files to leave out, in the syntax of `.gitignore`.
    pub(super) ignore: Vec<String>,
    fields: Table,
}

impl NodeManifest {
    /// Reads the manifest in `directory`.
    ///
    /// # Errors
    /// If the manifest cannot be read, or fields are invalid; the message names each of them.
    pub(super) fn read(directory: &Path) -> Result<Self, CliError> {
        let path = directory.join(MANIFEST_FILE);
        let name = path.display();
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CliError::Usage(format!("there is no {name}: write one with `mediary init`")),
            _ => CliError::CannotRun(anyhow!("cannot read {name}: {error}")),
        })?;
        Self::parse(&text).map_err(|reason| CliError::Usage(format!("{name}: {reason}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let fields: Table = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let mut problems = Vec::new();

        let all_names = || REQUIRED_FIELDS.into_iter().chain(NODE_FIELDS).chain(VERSION_FIELDS).chain([IGNORE_FIELD]);
        for name in fields.keys().filter(|name| all_names().all(|known| known != name.as_str())) {
            let similar = all_names().find(|known| edit_distance(known, name) <= SUGGESTION_DISTANCE_MAX);
            let hint = similar.map(|similar| format!("; did you mean {similar}?")).unwrap_or_default();
            problems.push(format!("\n  {name} is not a field of a manifest{hint}"));
        }
        let ignore = fields.get(IGNORE_FIELD).map_or_else(|| Ok(Vec::new()), |value| value.clone().try_into());
        let ignore = ignore.map_err(|_| problems.push(format!("\n  {IGNORE_FIELD} must be a list of strings"))).ok();

        let publisher = read_field(&fields, "publisher", PublisherId::parse, &mut problems);
        let id = read_field(&fields, "id", NodeId::parse, &mut problems);
        let version = read_field(&fields, "version", SemVer::parse, &mut problems);
        match (publisher, id, version, ignore) {
            (Some(publisher), Some(id), Some(version), Some(ignore)) if problems.is_empty() => {
                Ok(Self { publisher, id, version, ignore, fields })
            }
            _ => Err(problems.concat()),
        }
    }

    /// Returns the request that publishes the version.
    pub(super) fn publication(&self) -> Value {
        let is_file = |name: &str| self.picture_files().any(|picture| picture.field == name);
        let select = |names: &[&str]| -> Value {
            let names = names.iter().filter(|name| !is_file(name));
            let fields = names.filter_map(|name| Some(((*name).to_owned(), json!(self.fields.get(*name)?))));
            Value::Object(fields.collect())
        };
        json!({"node": select(&NODE_FIELDS), "node_version": select(&VERSION_FIELDS)})
    }

    /// Returns the pictures that are given as files.
    pub(super) fn picture_files(&self) -> impl Iterator<Item = ManifestPicture<'_>> {
        PICTURE_FIELDS.into_iter().filter_map(|(field, upload_segment)| {
            let file = self.fields.get(field)?.as_str()?;
            let is_file = !file.is_empty() && !file.contains("://");
            is_file.then_some(ManifestPicture { field, upload_segment, file })
        })
    }

    /// Returns the default file name of the archive.
    pub(super) fn archive_name(&self) -> String {
        format!("{}-{}.zip", self.id, self.version)
    }
}

/// Parses a required field. If it is missing or invalid, adds a line to `problems` and returns `None`.
fn read_field<T>(
    fields: &Table,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, InvalidValue>,
    problems: &mut Vec<String>,
) -> Option<T> {
    let Some(value) = fields.get(name) else {
        problems.push(format!("\n  {name} is missing"));
        return None;
    };
    let parsed = value.as_str().map_or_else(|| Err(InvalidValue::new("must be a string")), parse);
    parsed.map_err(|reason| problems.push(format!("\n  {name} = {value}: {reason}"))).ok()
}

/// Values of the fields of a new manifest; optional ones may be empty.
pub(super) struct NewManifest {
    pub(super) publisher: String,
    pub(super) id: String,
    pub(super) version: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) repository: String,
    pub(super) license: String,
}

impl NewManifest {
    /// Returns the text of the file, with comments for its author.
    ///
    /// # Errors
    /// If a value is invalid.
    pub(super) fn render(&self) -> Result<String, CliError> {
        let Self { publisher, id, version, name, description, repository, license } = self;
        let quote = |text: &str| toml::Value::from(text).to_string();
        // A field without a value becomes a comment with an example, which the author can fill in.
        let optional = |field: &str, value: &str, example: &str| {
            let (mark, value) = if value.is_empty() { ("# ", example) } else { ("", value) };
            format!("{mark}{field} = {}", quote(value))
        };
        let publisher = quote(publisher);
        let id = quote(id);
        let version = quote(version);
        let changelog = optional("changelog", "", "What is new in this version");
        let name = optional("name", name, "Face Tools");
        let description = optional("description", description, "Masks and landmarks");
        let repository = optional("repository", repository, "https://example.org/acme/face-tools");
        let license = optional("license", license, "MIT");

        let text = format!(
            "\
# Manifest of a node: `mediary pack` makes the archive that it describes, `mediary publish` publishes the archive.

# Publisher that owns the node. Publishing needs a token of a member, or of the publisher.
publisher = {publisher}
# Id of the node. It never changes.
id = {id}
# Version, as in https://semver.org. A version is published once: raise it before the next one.
version = {version}
{changelog}

{name}
{description}
{repository}
{license}
# icon = \"icon.png\"
# banner_url = \"banner.png\"
# tags = [\"faces\", \"masks\"]
# supported_os = [\"Linux\", \"macOS\", \"Windows\"]
# supported_accelerators = [\"CUDA\"]
# dependencies = [\"numpy>=1.26\"]

# Files that are not packed, in the syntax of .gitignore; .mediaryignore files work too. Version control
# directories and files that look like secrets (.env, *.pem, …) are never packed.
ignore = [\"__pycache__/\", \"*.pyc\", \".venv/\", \"tests/\"]
"
        );
        NodeManifest::parse(&text)
            .map_err(|reason| CliError::Usage(format!("these values cannot be used:{reason}")))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_manifest(id: &str, name: &str) -> NewManifest {
        let text = str::to_owned;
        NewManifest {
            publisher: text("acme"),
            id: text(id),
            version: text("0.1.0"),
            name: text(name),
            description: text(""),
            repository: text(""),
            license: text("MIT"),
        }
    }

    #[test]
    fn pictures_are_files_unless_they_have_a_url() {
        let manifest = |icon: &str| {
            let text =
                format!("publisher = 'acme'\nid = 'a'\nversion = '1.0.0'\nicon = '{icon}'\nbanner_url = 'b.png'\n");
            NodeManifest::parse(&text).unwrap()
        };
        let files = |manifest: &NodeManifest| {
            let pictures = manifest.picture_files();
            pictures.map(|picture| format!("{}={}", picture.upload_segment, picture.file)).collect::<Vec<_>>()
        };
        let icon_file = manifest("img/a.png");
        let icon_url = manifest("https://acme.example/a.png");
        assert_eq!(files(&icon_file), ["icon=img/a.png", "banner=b.png"]);
        assert_eq!(icon_file.publication()["node"], json!({}));
        assert_eq!(files(&icon_url), ["banner=b.png"]);
        assert_eq!(icon_url.publication()["node"], json!({"icon": "https://acme.example/a.png"}));
    }

    #[test]
    fn a_new_manifest_can_be_read_and_published() {
        let text = new_manifest("face-tools", "Face \"Tools\"").render().unwrap();

        let manifest = NodeManifest::parse(&text).unwrap();

        let expected = json!({
            "node": {"name": "Face \"Tools\"", "license": "MIT"},
            "node_version": {"version": "0.1.0"}
        });
        assert_eq!(manifest.publication(), expected);
        assert_eq!(manifest.archive_name(), "face-tools-0.1.0.zip");
        assert!(text.contains("\n# description = \"Masks and landmarks\"\n"), "{text}");
    }

    #[test]
    fn every_bad_field_is_named() {
        let error = NodeManifest::parse("publisher = 'a b'\nid = ''\nversion = '1.0'\n").unwrap_err();
        for field in ["publisher = \"a b\"", "id = \"\"", "version = \"1.0\""] {
            assert!(error.contains(field), "{field}: {error}");
        }
        let unknown =
            NodeManifest::parse("publisher = 'a'\nid = 'a'\nversion = '1.0.0'\nlicence = 'MIT'\n").unwrap_err();
        assert!(unknown.contains("licence is not a field of a manifest; did you mean license?"), "{unknown}");
        assert!(new_manifest("a b", "").render().is_err());
    }
}
