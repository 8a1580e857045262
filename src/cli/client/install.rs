//! `mediary install`: downloads the archive of a version, checks it, and unpacks it into a directory.

use std::fs;
use std::io::{self, BufReader, Seek as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;

use super::complete;
use super::node_ref::{NodeReference, url_version};
use super::service::{ServiceArguments, ServiceConnection};
use crate::app;
use crate::cli::audit::text::{indented_lines, printable};
use crate::cli::progress::format_bytes;
use crate::cli::{CliError, print_text};
use crate::domain::ids::NodeId;
use crate::media::archive::check::ArchiveError;
use crate::media::archive::unpack::unpack;
use crate::pluralize::pluralize;

/// Maximum size of an archive; services accept 100 MiB.
const ARCHIVE_BYTES_MAX: u64 = 1 << 30;

pub(super) const INSTALL_HELP: &str = "\
Downloads the archive of the latest version, or of the given one, compares its SHA-256 with the one
that the service names, applies the checks of the service to it, and unpacks it. No file or link
leads out of the directory. Counts as a download once the files are in place. Needs no token.

Without --force, the directory must be new or empty. With --force, files of the same name are
replaced, and others stay.

Examples:
  mediary install face-tools
  mediary install face-tools@1.0.0 -o nodes/face-tools
  mediary install face-tools --force";

#[derive(Debug, Args)]
pub(in crate::cli) struct InstallArguments {
    /// Node, with an optional version
    #[arg(value_name = "NODE[@VERSION]", add = ArgValueCompleter::new(complete::nodes))]
    node: NodeReference,
    /// Directory for the files [default: the id of the node]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    service: ServiceArguments,
}

/// Node of which the latest version is installed.
#[derive(Deserialize)]
struct InstallableNode {
    repository: Option<String>,
    latest_version: Option<InstallableVersion>,
}

/// Version to install.
#[derive(Deserialize)]
struct InstallableVersion {
    version: String,
    #[serde(rename = "downloadUrl")]
    download_url: Option<String>,
    node_id: Option<String>,
}

impl InstallableVersion {
    /// Returns the id of the node as its author spells it; the reference may differ in upper and lower case.
    fn node(&self, reference: &NodeReference) -> NodeId {
        let own_spelling = self.node_id.as_deref().and_then(|id| NodeId::parse(id).ok());
        own_spelling.filter(|id| id.key() == reference.node.key()).unwrap_or_else(|| reference.node.clone())
    }
}

pub(super) fn install(arguments: &InstallArguments) -> Result<(), CliError> {
    let InstallArguments { node: reference, output, force, service } = arguments;
    let service = ServiceConnection::open(service)?;
    let version = app::block_on(find_version(&service, reference))?;
    let reference = &NodeReference { node: version.node(reference), version: reference.version.clone() };
    let target = output.clone().unwrap_or_else(|| PathBuf::from(reference.node.as_str()));
    check_target(&target, *force).map_err(CliError::CannotRun)?;

    let number = printable(&version.version);
    let Some(url) = &version.download_url else {
        return Err(app::block_on(missing_archive(&service, reference, &number)));
    };

    // Files can be moved to the target only within its file system.
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_directory(parent)?;
    let beside = if target.is_dir() { &target } else { parent };
    let create_drafts = || -> io::Result<_> { Ok((tempfile::tempfile_in(beside)?, tempfile::tempdir_in(beside)?)) };
    let drafts = create_drafts().with_context(|| format!("cannot write to {}", beside.display()));
    let (mut archive, draft) = drafts.map_err(CliError::CannotRun)?;

    let downloaded = app::block_on(service.download(url, ARCHIVE_BYTES_MAX, &mut archive));
    let bytes = downloaded.map_err(|failure| {
        failure.context(format!("cannot download {} {number} from {}", reference.node, printable(url)))
    })?;

    archive.rewind().context("cannot read the archive").map_err(CliError::CannotRun)?;
    let count = unpack(BufReader::new(&archive), draft.path()).map_err(|error| match error {
        ArchiveError::Rejected(flaws) => {
            let flaws = indented_lines(flaws.reported());
            CliError::Runtime(anyhow!("the archive is not safe, so nothing was installed:{flaws}"))
        }
        ArchiveError::Io(error) => CliError::CannotRun(anyhow!("cannot unpack the archive: {error}")),
    })?;

    create_directory(&target)?;
    merge(draft.path(), &target).map_err(CliError::CannotRun)?;
    app::block_on(count_install(&service, reference, &version));

    if service.json {
        return ServiceConnection::print_json(&json!({
            "node": reference.node.as_str(), "version": version.version, "directory": target, "files": count, "bytes": bytes
        }));
    }
    let size = format_bytes(bytes);
    let files = pluralize(count, "file");
    print_text(&format!("Installed {} {number} in {}: {files}, {size} packed.\n", reference.node, target.display()))
}

/// Returns the version to install. Does not use `/install`, which would count a download that may still fail.
async fn find_version(service: &ServiceConnection, reference: &NodeReference) -> Result<InstallableVersion, CliError> {
    let node = &reference.node;
    if let Some(version) = &reference.version {
        return service.read(&format!("/nodes/{node}/versions/{}", url_version(version))).await;
    }

    let installable: InstallableNode = service.read(&format!("/nodes/{node}")).await?;
    installable.latest_version.ok_or_else(|| {
        anyhow!("{node} has no version to install; `mediary show {node}` lists its versions and their states").into()
    })
}

/// Returns the error for a version without an archive. Names the repository of the node if it has one.
async fn missing_archive(service: &ServiceConnection, reference: &NodeReference, number: &str) -> CliError {
    let node = &reference.node;
    let response = service.read::<InstallableNode>(&format!("/nodes/{node}")).await;
    let repository = response.ok().and_then(|node| node.repository).filter(|repository| !repository.is_empty());
    let advice = match repository {
        Some(repository) => format!("get the files from its repository {}", printable(&repository)),
        None => format!("install another version; `mediary show {node}` lists them"),
    };
    anyhow!("version {number} of {node} has no archive: its publisher uploaded none; {advice}").into()
}

/// Requests `/install`, by which the service counts a download. A failure is ignored, because the files are already
/// installed.
async fn count_install(service: &ServiceConnection, reference: &NodeReference, version: &InstallableVersion) {
    let number = form_urlencoded::byte_serialize(version.version.as_bytes()).collect::<String>();
    let _ = service.get(&format!("/nodes/{}/install?version={number}", reference.node)).await;
}

/// Checks that the files can be written to `target`: a new or empty directory, or with `force` any directory.
fn check_target(target: &Path, force: bool) -> anyhow::Result<()> {
    let name = target.display();
    match fs::read_dir(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            bail!("{name} exists and is not a directory; name another with -o")
        }
        Err(error) => Err(anyhow!("cannot read {name}: {error}")),
        Ok(mut entries) => {
            let is_empty = entries.next().is_none();
            let advice = "replace its files with --force, or name another directory with -o";
            if force || is_empty { Ok(()) } else { bail!("{name} is not empty: {advice}") }
        }
    }
}

fn create_directory(directory: &Path) -> Result<(), CliError> {
    let created = fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()));
    created.map_err(CliError::CannotRun)
}

/// Moves everything in `from` to `to`, which exists. Files and links are replaced, not followed.
fn merge(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let name = target.display();
        let is_directory = entry.file_type()?.is_dir();
        let existing = fs::symlink_metadata(&target).ok();
        match existing {
            Some(existing) if is_directory && !existing.is_dir() => {
                fs::remove_file(&target).with_context(|| format!("cannot replace {name}"))?;
            }
            Some(existing) if !is_directory && existing.is_dir() => {
                bail!("{name} is a directory, but a file in the archive: remove the directory first");
            }
            _ => {}
        }
        if is_directory && target.is_dir() {
            merge(&entry.path(), &target)?;
        } else {
            fs::rename(entry.path(), &target).with_context(|| format!("cannot write {name}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn existing_links_are_replaced_and_not_followed() {
        // Given a directory with a link to a directory outside, and a file of the user
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for directory in ["outside", "target", "draft/lib"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        symlink(path("outside"), path("target/lib")).unwrap();
        fs::write(path("outside/a.py"), "mine").unwrap();
        fs::write(path("target/notes.txt"), "mine").unwrap();
        fs::write(path("draft/lib/a.py"), "new").unwrap();

        // When an archive with files in a directory of that name is installed
        merge(&path("draft"), &path("target")).unwrap();

        // Then the link is replaced, and both files of the user are untouched
        assert_eq!(fs::read(path("target/lib/a.py")).unwrap(), b"new");
        assert_eq!(fs::read(path("outside/a.py")).unwrap(), b"mine");
        assert_eq!(fs::read(path("target/notes.txt")).unwrap(), b"mine");
    }

    #[test]
    fn only_an_empty_directory_is_written_without_force() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        assert!(check_target(folder.path(), false).is_ok(), "an empty directory");
        assert!(check_target(&folder.path().join("missing"), false).is_ok(), "a missing directory");

        fs::write(&file, "").unwrap();
        assert!(check_target(folder.path(), false).is_err(), "a directory with a file");
        assert!(check_target(folder.path(), true).is_ok(), "a directory with a file, with --force");
        assert!(check_target(&file, true).is_err(), "a file, with --force");
    }
}
