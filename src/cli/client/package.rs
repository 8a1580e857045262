//! Files of a node that are packed: all except ignored ones, version control directories and secrets.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow};
use ignore::WalkBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::manifest::NodeManifest;
use crate::cli::CliError;
use crate::cli::audit::text::indented_lines;
use crate::media::archive::check::{self, ArchiveError};
use crate::media::archive::pack::{PackedFile, pack};

/// Name of the ignore files, in the syntax of `.gitignore`; a directory can have one of its own.
pub(super) const IGNORE_FILE: &str = ".mediaryignore";
/// Patterns of files that are never packed. They are not reported, because no author expects them in the archive.
const CLUTTER: [&str; 5] = [".git", ".hg", ".svn", ".DS_Store", IGNORE_FILE];
/// Patterns of files that may contain secrets. They are never packed, but reported, because the author may miss them.
const SECRETS: [&str; 15] = [
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    ".npmrc",
    ".pypirc",
];
const EXECUTABLE_BITS: u32 = 0o111;

/// Files to pack.
#[derive(Debug)]
pub(super) struct PackageFiles {
    /// Paths by their names in the archive, which have slashes.
    pub(super) files: BTreeMap<String, PathBuf>,
    /// Names of the files that are left out because they look like secrets.
    pub(super) secrets: Vec<String>,
}

impl PackageFiles {
    /// Collects the files in `directory`.
    ///
    /// # Errors
    /// If there is no file to pack, a file cannot be packed, or a pattern is invalid.
    pub(super) fn collect(directory: &Path, manifest: &NodeManifest) -> Result<Self, CliError> {
        // Archives that earlier runs of `mediary pack` wrote to the directory.
        let own_archives = format!("/{}-*.zip", manifest.id);
        let ignored = CLUTTER.into_iter().chain([own_archives.as_str()]);
        let ignored = build_matcher(directory, ignored.chain(manifest.ignore.iter().map(String::as_str)))?;
        let secrets = build_matcher(directory, SECRETS)?;
        let found_secrets = Arc::new(Mutex::new(Vec::new()));
        let secret_names = Arc::clone(&found_secrets);
        let root = directory.to_owned();

        let mut walk = WalkBuilder::new(directory);
        walk.standard_filters(false).parents(false).add_custom_ignore_filename(IGNORE_FILE);
        walk.filter_entry(move |entry| {
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            if ignored.matched(entry.path(), is_directory).is_ignore() {
                return false;
            }
            let is_secret = secrets.matched(entry.path(), is_directory).is_ignore();
            if is_secret {
                let name = entry.path().strip_prefix(&root).unwrap_or(entry.path()).display().to_string();
                secret_names.lock().unwrap_or_else(PoisonError::into_inner).push(name);
            }
            !is_secret
        });

        let mut files = BTreeMap::new();
        let mut problems = Vec::new();
        for entry in walk.build() {
            let entry = entry.map_err(|error| CliError::CannotRun(anyhow!("cannot read the files: {error}")))?;
            // An invalid pattern in an ignore file must be reported, because it would silently ignore nothing.
            problems.extend(entry.error().map(ToString::to_string));
            let kind = entry.file_type();
            if kind.is_none_or(|kind| kind.is_dir()) {
                continue;
            }
            let name = archive_name(directory, entry.path());
            match name {
                Some(name) if kind.is_some_and(|kind| kind.is_file()) => {
                    files.insert(name, entry.path().to_owned());
                }
                Some(name) => problems.push(format!("{name} is a symbolic link or a special file")),
                None => problems.push(format!("{} is not UTF-8", entry.path().display())),
            }
        }

        if !problems.is_empty() {
            let problems = indented_lines(&problems);
            return Err(CliError::Usage(format!(
                "some files cannot be packed; {IGNORE_FILE} can leave them out:{problems}"
            )));
        }
        if files.is_empty() {
            return Err(CliError::Usage(format!("there is nothing to pack in {}", directory.display())));
        }

        let mut secrets = std::mem::take(&mut *found_secrets.lock().unwrap_or_else(PoisonError::into_inner));
        secrets.sort();
        Ok(Self { files, secrets })
    }

    /// Writes the archive to `out` and applies the checks of the service to it. `on_file` is called before each file.
    ///
    /// # Errors
    /// If a file cannot be read, the archive cannot be written, or the service would reject it.
    pub(super) fn write(&self, out: &mut File, mut on_file: impl FnMut()) -> Result<(), CliError> {
        let open = |path: &PathBuf| {
            on_file();
            let content = File::open(path)?;
            let is_executable = content.metadata()?.permissions().mode() & EXECUTABLE_BITS != 0;
            Ok(PackedFile { content, is_executable })
        };
        pack(&self.files, open, std::io::BufWriter::new(&mut *out))
            .context("cannot pack the files")
            .map_err(CliError::CannotRun)?;

        out.flush().and_then(|()| out.rewind()).context("cannot read the archive").map_err(CliError::CannotRun)?;
        check::check(std::io::BufReader::new(&mut *out)).map_err(|error| match error {
            ArchiveError::Rejected(flaws) => {
                CliError::Usage(format!("a service would reject this archive:{}", indented_lines(flaws.reported())))
            }
            ArchiveError::Io(error) => CliError::CannotRun(anyhow!("cannot read the archive: {error}")),
        })?;
        out.rewind().context("cannot read the archive").map_err(CliError::CannotRun)
    }
}

fn build_matcher<'p>(directory: &Path, patterns: impl IntoIterator<Item = &'p str>) -> Result<Gitignore, CliError> {
    let mut builder = GitignoreBuilder::new(directory);
    let invalid = |error: ignore::Error| CliError::Usage(format!("the field `ignore` of the manifest: {error}"));
    // On file systems that ignore case, `.ENV` is the same file as `.env`.
    builder.case_insensitive(true).map_err(invalid)?;
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(invalid)?;
    }
    builder.build().map_err(invalid)
}

/// Returns the name of a file in the archive; `None` if it is not UTF-8.
fn archive_name(directory: &Path, path: &Path) -> Option<String> {
    let relative = path.strip_prefix(directory).ok()?;
    relative.iter().map(|part| part.to_str()).collect::<Option<Vec<_>>>().map(|parts| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::cli::client::manifest::MANIFEST_FILE;

    /// Creates a directory with a manifest that ignores `*.log`, and `files`, each with its name as its content.
    fn create_directory(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let manifest = "publisher = 'acme'\nid = 'grain'\nversion = '1.0.0'\nignore = ['*.log']\n";
        fs::write(folder.path().join(MANIFEST_FILE), manifest).unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        folder
    }

    fn collect(folder: &Path) -> Result<PackageFiles, CliError> {
        PackageFiles::collect(folder, &NodeManifest::read(folder).unwrap())
    }

    #[test]
    fn ignored_files_and_secrets_are_left_out() {
        // Given files of all kinds, and ignore files that cannot bring back secrets
        let folder = create_directory(&[
            "grain.py",
            "lib/core.py",
            ".github/ci.yml",
            ".env.example",
            "debug.log",
            "lib/debug.log",
            "build/a.o",
            "lib/keep.o",
            ".git/config",
            "lib/.git/config",
            "grain-0.9.0.zip",
            ".env",
            "lib/.ENV.local",
            "lib/server.PEM",
            "data/model.bin",
        ]);
        fs::write(folder.path().join(IGNORE_FILE), "build/\n*.o\n!.env\n!.git\n/data/*\n").unwrap();
        fs::write(folder.path().join("lib").join(IGNORE_FILE), "!keep.o\n").unwrap();

        let PackageFiles { files, secrets } = collect(folder.path()).unwrap();

        let names: Vec<_> = files.keys().map(String::as_str).collect();
        assert_eq!(names, [".env.example", ".github/ci.yml", "grain.py", "lib/core.py", "lib/keep.o", MANIFEST_FILE]);
        assert_eq!(secrets, [".env", "lib/.ENV.local", "lib/server.PEM"]);
    }

    #[test]
    fn links_are_refused_and_can_be_left_out() {
        let folder = create_directory(&["grain.py"]);
        symlink("/etc/passwd", folder.path().join("users")).unwrap();
        let error = collect(folder.path()).unwrap_err().to_string();
        assert!(error.contains("users is a symbolic link"), "{error}");

        fs::write(folder.path().join(IGNORE_FILE), "users\n").unwrap();
        assert_eq!(collect(folder.path()).unwrap().files.len(), 2);
    }

    #[test]
    fn the_archive_depends_only_on_names_and_contents() {
        let pack = |files: &[&str]| {
            let folder = create_directory(files);
            let mut out = tempfile::tempfile().unwrap();
            collect(folder.path()).unwrap().write(&mut out, || {}).unwrap();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut out, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(pack(&["b.py", "a/c.py"]), pack(&["a/c.py", "b.py"]));
    }
}
