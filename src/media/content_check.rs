//! Verification of content files: the hash of each file, and the presence of every archive that a version refers to.
//! Changes nothing. Files of tasks may be missing, because they are kept for a limited time.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::domain::music::MusicFormat;
use crate::domain::value::Digest;
use crate::domain::version::Archive;
use crate::domain::video::VideoFormat;
use crate::pluralize::pluralize;

/// Directories of content-addressed files, with subdirectories named by the first two digits.
pub const CONTENT_DIRECTORIES: [&str; 4] = [ARCHIVES, "media/inputs", "media/results", "media/nodes"];
/// Directory of archives of versions.
const ARCHIVES: &str = "archives";

/// Numbers of files by what they contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContentCounts {
    pub archives: u64,
    pub pictures: u64,
    pub videos: u64,
    pub music: u64,
    /// Texts that the client of a video attached.
    pub texts: u64,
}

impl ContentCounts {
    /// Counts a file of an area. Music in a `.webm` file counts as a video: only its content tells them apart.
    fn add(&mut self, area: &str, path: &Path) {
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        let count = match extension {
            _ if area == ARCHIVES => &mut self.archives,
            _ if VideoFormat::parse(extension).is_ok() => &mut self.videos,
            _ if MusicFormat::parse(extension).is_ok() => &mut self.music,
            "txt" => &mut self.texts,
            _ => &mut self.pictures,
        };
        *count += 1;
    }
}

impl fmt::Display for ContentCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { archives, pictures, videos, music, texts } = *self;
        write!(f, "{}, {}", pluralize(archives, "archive"), pluralize(pictures, "picture"))?;
        for (count, name) in [(videos, "video"), (music, "music file"), (texts, "text")] {
            if count > 0 {
                write!(f, ", {}", pluralize(count, name))?;
            }
        }
        Ok(())
    }
}

/// Result of the verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContentReport {
    pub counts: ContentCounts,
    /// Damaged or missing files, with the finding.
    pub findings: Vec<(PathBuf, String)>,
}

/// Checks every file below the data directory `root`. `referenced` are the archives that versions refer to; `progress`
/// is called with the number of bytes read.
///
/// # Errors
/// If a directory cannot be read.
pub fn check(root: &Path, referenced: &[Archive], mut progress: impl FnMut(u64)) -> io::Result<ContentReport> {
    let mut report = ContentReport::default();
    let mut found_digests = HashSet::new();

    for area in CONTENT_DIRECTORIES {
        for (path, digest) in list_files(root, area)? {
            let problem = match digest_of(&path, &mut progress) {
                Ok((found, _)) if found == digest => None,
                Ok((found, bytes)) => {
                    Some(format!("the content does not match the file name: {bytes} bytes with the hash {found}"))
                }
                // Removed since it was listed, because its retention ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => Some(format!("the file cannot be read: {error}")),
            };
            report.counts.add(area, &path);
            if area == ARCHIVES {
                found_digests.insert(digest);
            }
            report.findings.extend(problem.map(|problem| (path, problem)));
        }
    }

    for Archive { digest, .. } in referenced {
        if found_digests.insert(*digest) {
            let path = path_of(root, ARCHIVES, &format!("{digest}.zip"));
            report.findings.push((path, "the archive of a version is missing".to_owned()));
        }
    }

    Ok(report)
}

/// Returns the files of an area with the hash in their names, sorted. Other names are ignored: they are incomplete
/// files, or not from this service.
///
/// # Errors
/// If an existing directory cannot be read.
pub fn list_files(root: &Path, area: &str) -> io::Result<Vec<(PathBuf, Digest)>> {
    let mut files = Vec::new();

    for prefix in 0..=u8::MAX {
        let folder = root.join(area).join(format!("{prefix:02x}"));
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            files.extend(digest_in(&path).map(|digest| (path, digest)));
        }
    }

    files.sort();
    Ok(files)
}

/// Returns the hash in the name of a complete file.
#[must_use]
pub fn digest_in(path: &Path) -> Option<Digest> {
    let name = path.file_name()?.to_str()?;
    let is_complete = path.extension().is_some_and(|extension| extension != "part");
    Digest::parse(name.split_once('.')?.0).ok().filter(|_| is_complete)
}

fn path_of(root: &Path, area: &str, name: &str) -> PathBuf {
    root.join(area).join(&name[..2]).join(name)
}

/// Returns the hash and length of a file, read in chunks.
///
/// # Errors
/// If the file cannot be read.
pub fn digest_of(path: &Path, progress: &mut impl FnMut(u64)) -> io::Result<(Digest, u64)> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;

    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((Digest(hash.finalize().into()), bytes));
        }
        hash.update(&buffer[..count]);
        bytes += count as u64;
        progress(count as u64);
    }
}
