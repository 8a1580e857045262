//! `mediary init`, `pack` and `publish`: from a directory to a published version.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::complete;
use super::manifest::{MANIFEST_FILE, ManifestPicture, NewManifest, NodeManifest};
use super::node_ref::url_version;
use super::package::{IGNORE_FILE, PackageFiles};
use super::service::{ServiceArguments, ServiceConnection};
use super::terminal;
use crate::app;
use crate::cli::atomic_file::AtomicFile;
use crate::cli::audit::text::printable;
use crate::cli::progress::{ProgressLine, ProgressUnit, format_bytes};
use crate::cli::{CliError, print_text};
use crate::domain::value;
use crate::environment::Environment;
use crate::outbound::upload_body::UploadBody;
use crate::pluralize::pluralize;

const ZIP: &str = "application/zip";

/// Ignore file of a new node.
const IGNORE_TEMPLATE: &str = "\
# Files that `mediary pack` leaves out, in the syntax of .gitignore. `mediary pack --list` prints what is packed.
# Version control directories and files that look like secrets, such as .env and *.pem, are never packed.
__pycache__/
*.pyc
.venv/

# Models and other large files that users download themselves:
# *.safetensors
# models/

# !keep.pyc packs a file that a pattern above leaves out.
";

pub(super) const INIT_HELP: &str = "\
Writes mediary-node.toml, with comments, and a .mediaryignore. On a terminal, it asks for the values
that no flag gives.

Examples:
  mediary init
  mediary init --publisher acme --id face-tools --license MIT
  mediary init nodes/face-tools --publisher acme";

pub(super) const PACK_HELP: &str = "\
Packs the files of a node by its manifest, mediary-node.toml. The same files make the same archive,
byte for byte. The command leaves out files that .mediaryignore (in the syntax of .gitignore) or the
field `ignore` of the manifest names, version control directories, and files that look like secrets.

Examples:
  mediary pack
  mediary pack --list
  mediary pack nodes/face-tools -o face-tools.zip";

pub(super) const PUBLISH_HELP: &str = "\
Packs the files of a node like `mediary pack`, creates the version (and the node if it is new), and
uploads the archive. If the manifest names files for the icon and the banner (`icon = \"icon.png\"`,
`banner_url = \"banner.png\"`), uploads them too. After an interrupted upload, run the command again.

Needs the token of a member of the publisher, or one of the publisher (`mediary token create`).

Examples:
  mediary publish
  mediary publish nodes/face-tools --url https://registry.example.org";

#[derive(Debug, Args)]
pub(in crate::cli) struct InitArguments {
    /// Directory of the node
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    /// Publisher that owns the node
    #[arg(long, value_name = "ID", add = ArgValueCompleter::new(complete::publishers))]
    publisher: Option<String>,
    /// Id of the node [default: the name of the directory]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// First version [default: 0.1.0]
    #[arg(long = "version", id = "node_version", value_name = "VERSION")]
    version: Option<String>,
    /// Display name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// One sentence about the node
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// URL of the source code
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
    /// License, such as MIT
    #[arg(long, value_name = "LICENSE")]
    license: Option<String>,
    /// Replace an existing manifest
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PackArguments {
    /// Directory of the node
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    /// File for the archive [default: ID-VERSION.zip in the working directory]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "list")]
    output: Option<PathBuf>,
    /// Print the names of the files, and pack nothing
    #[arg(long)]
    list: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PublishArguments {
    /// Directory of the node
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    #[command(flatten)]
    service: ServiceArguments,
}

/// Archive in an unnamed temporary file, with its length and hash.
struct PackedArchive {
    file: File,
    bytes: u64,
    sha256: String,
}

/// Fields of a version that publishing needs.
#[derive(Deserialize)]
struct PublishedVersion {
    status: String,
    #[serde(rename = "downloadUrl")]
    download_url: Option<String>,
}

impl PublishedVersion {
    /// Returns `true` if the version still waits for its archive.
    fn awaits_archive(&self) -> bool {
        self.status == "NodeVersionStatusPending" && self.download_url.is_none()
    }
}

pub(super) fn init(arguments: &InitArguments) -> Result<(), CliError> {
    let InitArguments { directory, force, .. } = arguments;
    let path = directory.join(MANIFEST_FILE);
    if path.exists() && !force {
        return Err(CliError::Usage(format!("{} exists: replace it with --force", path.display())));
    }

    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
    let directory_name = absolute.file_name().map(|name| name.to_string_lossy().to_lowercase().replace(' ', "-"));
    let flag_or_answer = |flag: &Option<String>, question: &str, default: &str| match flag {
        Some(value) => Ok(value.clone()),
        None if terminal::can_ask() => terminal::ask(question, default),
        None => Ok(default.to_owned()),
    };
    let publisher = flag_or_answer(&arguments.publisher, "Publisher", "")?;
    if publisher.is_empty() {
        return Err(CliError::Usage("name the publisher with --publisher; `mediary whoami` lists yours".to_owned()));
    }
    let manifest = NewManifest {
        publisher,
        id: flag_or_answer(&arguments.id, "Id of the node", directory_name.as_deref().unwrap_or_default())?,
        version: flag_or_answer(&arguments.version, "Version", "0.1.0")?,
        name: flag_or_answer(&arguments.name, "Name", "")?,
        description: flag_or_answer(&arguments.description, "Description", "")?,
        repository: flag_or_answer(&arguments.repository, "Repository", "")?,
        license: flag_or_answer(&arguments.license, "License", "")?,
    };
    let text = manifest.render()?;

    let write = |path: &Path, text: &str| {
        let written = fs::write(path, text).with_context(|| format!("cannot write {}", path.display()));
        written.map_err(CliError::CannotRun)
    };
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))
        .map_err(CliError::CannotRun)?;
    write(&path, &text)?;
    let ignore = directory.join(IGNORE_FILE);
    let written = if ignore.exists() {
        format!("Wrote {}. {} exists and was not changed.", path.display(), ignore.display())
    } else {
        write(&ignore, IGNORE_TEMPLATE)?;
        format!("Wrote {} and {}, which names the files to leave out.", path.display(), ignore.display())
    };
    print_text(&format!("{written}\nNext: `mediary pack --list`, then `mediary publish`.\n"))
}

pub(super) fn pack(arguments: &PackArguments) -> Result<(), CliError> {
    let PackArguments { directory, output, list, json: is_json } = arguments;
    let manifest = NodeManifest::read(directory)?;
    let package = PackageFiles::collect(directory, &manifest)?;
    report_secrets(&package);
    if *list {
        let names: Vec<_> = package.files.keys().collect();
        return if *is_json {
            ServiceConnection::print_json(&json!({"files": names}))
        } else {
            let names: Vec<_> = names.into_iter().map(|name| printable(name)).collect();
            print_text(&format!("{}\n", names.join("\n")))
        };
    }

    let target = output.clone().unwrap_or_else(|| PathBuf::from(manifest.archive_name()));
    let PackedArchive { mut file, bytes, sha256 } = pack_files(&package)?;
    let written = AtomicFile::create(&target, Environment::system().random_uuid()).and_then(|mut out| {
        std::io::copy(&mut file, &mut out)?;
        out.commit()
    });
    written.with_context(|| format!("cannot write {}", target.display())).map_err(CliError::CannotRun)?;
    if *is_json {
        let count = package.files.len();
        return ServiceConnection::print_json(
            &json!({"archive": target, "files": count, "bytes": bytes, "sha256": sha256}),
        );
    }
    let files = pluralize(package.files.len() as u64, "file");
    let size = format_bytes(bytes);
    print_text(&format!("Packed {files} in {}: {size}, SHA-256 {sha256}\n", target.display()))
}

pub(super) fn publish(arguments: &PublishArguments) -> Result<(), CliError> {
    let PublishArguments { directory, service } = arguments;
    let manifest = NodeManifest::read(directory)?;
    let package = PackageFiles::collect(directory, &manifest)?;
    let pictures = read_pictures(directory, &manifest)?;
    let service = ServiceConnection::open_signed_in(service)?;
    report_secrets(&package);
    let archive = pack_files(&package)?;

    let upload_url = app::block_on(create_version(&service, &manifest))?;
    let bytes = archive.bytes;
    let progress = ProgressLine::new("uploading", ProgressUnit::Bytes);
    let shown = progress.clone();
    let body = UploadBody::new(archive.file, bytes, move |sent| shown.update(sent, Some(bytes)));
    let version = app::block_on(service.api.upload_file(&upload_url, ZIP, body));
    progress.finish();
    let version = service.json_of(version)?;
    app::block_on(upload_pictures(&service, &manifest, pictures))?;

    let NodeManifest { id, version: number, .. } = &manifest;
    let page = format!("{}/#/nodes/{id}", service.base());
    if service.json {
        return ServiceConnection::print_json(&json!({"page": page, "version": version, "sha256": archive.sha256}));
    }
    let published: PublishedVersion = service.parse(version)?;
    let status = match published.status.as_str() {
        "NodeVersionStatusPending" => "; an administrator must approve it before others can install it",
        _ => "",
    };
    print_text(&format!("Published {id} {number}, {}{status}.\n{page}\n", format_bytes(bytes)))
}

/// Icon or banner of a node.
struct PictureFile {
    /// Last segment of the URL path of the upload.
    upload_segment: &'static str,
    file: PathBuf,
    /// Content in base64.
    content: String,
}

/// Reads the pictures that the manifest names, before anything is sent.
fn read_pictures(directory: &Path, manifest: &NodeManifest) -> Result<Vec<PictureFile>, CliError> {
    let pictures = manifest.picture_files().map(|ManifestPicture { field, upload_segment, file }| {
        let file = directory.join(file);
        let bytes =
            fs::read(&file).with_context(|| format!("{MANIFEST_FILE}: {field}: cannot read {}", file.display()));
        Ok(PictureFile { upload_segment, file, content: STANDARD.encode(bytes.map_err(CliError::CannotRun)?) })
    });
    pictures.collect()
}

/// Uploads the icon and the banner of the node. Uploading the same picture again changes nothing.
async fn upload_pictures(
    service: &ServiceConnection,
    manifest: &NodeManifest,
    pictures: Vec<PictureFile>,
) -> Result<(), CliError> {
    let NodeManifest { publisher, id, .. } = manifest;
    for PictureFile { upload_segment, file, content } in pictures {
        let path = format!("/publishers/{publisher}/nodes/{id}/{upload_segment}");
        let uploaded = service.json_of(service.api.put(&path, &json!({"image": content})).await);
        uploaded.map_err(|error| error.context(format!("the version is published, but not {}", file.display())))?;
    }
    Ok(())
}

/// Creates the version and returns the URL for its archive. If an earlier run created the version but did not upload
/// its archive, requests another URL.
async fn create_version(service: &ServiceConnection, manifest: &NodeManifest) -> Result<String, CliError> {
    let NodeManifest { publisher, id, version, .. } = manifest;
    let path = format!("/publishers/{publisher}/nodes/{id}/versions");
    let key = Environment::system().random_uuid();
    let created = service.api.create_once(&path, &manifest.publication(), key).await;
    let created = created.map_err(|failure| service.unreachable(&failure))?;
    if created.status != 409 {
        return upload_url(&service.json_of(Ok(created))?);
    }

    let number = url_version(version);
    let existing = service.read::<PublishedVersion>(&format!("/nodes/{id}/versions/{number}")).await;
    match existing {
        Ok(existing) if existing.awaits_archive() => {
            upload_url(&service.json_of(service.api.post_empty(&format!("{path}/{number}/upload")).await)?)
        }
        Ok(_) => Err(anyhow!(
            "version {version} of {id} exists already: raise `version` in {MANIFEST_FILE}, and publish again"
        )
        .into()),
        // The conflict is not about the version: the node may belong to another publisher, for example.
        Err(_) => Err(service.refusal(&created)),
    }
}

fn upload_url(response: &Value) -> Result<String, CliError> {
    let url = response["signedUrl"].as_str().context("the response has no URL for the upload")?;
    Ok(url.to_owned())
}

/// Packs the files into a temporary file, which the system removes when the process ends.
fn pack_files(package: &PackageFiles) -> Result<PackedArchive, CliError> {
    let mut file = tempfile::tempfile().context("cannot create a temporary file").map_err(CliError::CannotRun)?;
    let progress = ProgressLine::new("packing", ProgressUnit::Files);
    let total = package.files.len() as u64;
    let mut done = 0;
    package.write(&mut file, || {
        progress.update(done, Some(total));
        done += 1;
    })?;
    progress.finish();

    let hash_archive = || -> std::io::Result<(u64, String)> {
        let mut hash = Sha256::new();
        let bytes = std::io::copy(&mut &file, &mut hash)?;
        std::io::Seek::rewind(&mut &file)?;
        Ok((bytes, value::Digest(hash.finalize().into()).to_string()))
    };
    let (bytes, sha256) = hash_archive().context("cannot read the archive").map_err(CliError::CannotRun)?;
    Ok(PackedArchive { file, bytes, sha256 })
}

/// Prints the names of the files that look like secrets to stderr, because the author may miss them in the archive.
fn report_secrets(package: &PackageFiles) {
    for name in &package.secrets {
        // stderr may be closed.
        let _ = writeln!(std::io::stderr(), "left out because it looks like a secret: {}", printable(name));
    }
}
