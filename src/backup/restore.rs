//! Putting a backup back: everything is verified before anything is written, and the data directory appears in one rename.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::BackupError;
use super::check::{Checked, check};
use super::manifest::{Directory, Entry, Manifest, mode};
use super::pool::Pool;
use crate::data_dir::{DataDir, sync_parent};
use crate::proof::Progress;

/// Puts a backup back as the data directory `to`, which must not be there or be empty. A damaged backup is not put back: its findings
/// are in the answer.
///
/// # Errors
/// When it cannot be put back; then `to` is as it was.
pub fn restore(backup: &Path, to: &Path, progress: Progress<'_>) -> Result<Checked, BackupError> {
    refuse_used(to)?;
    let checked = check(backup, &mut *progress)?;
    if !checked.findings.is_empty() {
        return Ok(checked);
    }
    let staging = beside(to)?;
    let held = DataDir::open(&staging)
        .map_err(|_| BackupError::Refused(format!("{} is in use: another restore is going on", staging.display())))?;
    empty(&staging).map_err(BackupError::file(&staging))?;
    let (pool, files) = (Pool::open(backup), &checked.manifest);
    write(&staging, &pool, files, progress)?;
    refuse_used(to)?;
    fs::rename(&staging, to).map_err(|error| moved(to, error))?;
    sync_parent(to).map_err(BackupError::file(to))?;
    drop(held);
    Ok(checked)
}

fn refuse_used(to: &Path) -> Result<(), BackupError> {
    match fs::read_dir(to).map(|mut entries| entries.next().is_some()) {
        Ok(false) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BackupError::file(to)(error)),
        Ok(true) => {
            let what = format!(
                "the data directory {} is not empty, and a restore overwrites nothing: move it away, or name another one with --data-dir",
                to.display()
            );
            Err(BackupError::Refused(what))
        }
    }
}

fn moved(to: &Path, error: io::Error) -> BackupError {
    if matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices) {
        let what = format!(
            "{} is a mount point, which a restore cannot replace: restore into a directory below it",
            to.display()
        );
        return BackupError::Refused(what);
    }
    BackupError::file(to)(error)
}

/// Where the data directory is built.
fn beside(to: &Path) -> Result<PathBuf, BackupError> {
    let to = std::path::absolute(to).map_err(BackupError::file(to))?;
    let name = to.file_name().ok_or_else(|| BackupError::Refused(format!("{} is no data directory", to.display())))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".restoring");
    Ok(to.with_file_name(hidden))
}

/// Removes what a restore that was killed left, except the lock.
fn empty(staging: &Path) -> io::Result<()> {
    for entry in fs::read_dir(staging)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != "lock" {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn write(staging: &Path, pool: &Pool, manifest: &Manifest, progress: Progress<'_>) -> Result<(), BackupError> {
    let failed = |path: &str| BackupError::file(&staging.join(path));
    for Directory { path, mode: text } in &manifest.directories {
        let made = DirBuilder::new().recursive(true).mode(mode(text)).create(staging.join(path));
        made.map_err(failed(path))?;
    }
    let total = manifest.files.iter().map(|entry| entry.bytes).sum();
    let mut done = 0;
    for entry in &manifest.files {
        write_file(staging, pool, entry).map_err(failed(&entry.path))?;
        done += entry.bytes;
        progress(done, total);
    }
    sync_tree(staging).map_err(BackupError::file(staging))
}

fn write_file(staging: &Path, pool: &Pool, entry: &Entry) -> io::Result<()> {
    let digest = entry.digest().ok_or(io::ErrorKind::InvalidData)?;
    let path = staging.join(&entry.path);
    fs::create_dir_all(path.parent().unwrap_or(staging))?;
    let mode = mode(&entry.mode);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
    io::copy(&mut fs::File::open(pool.path(&digest))?, &mut file)?;
    let zeros = vec![0; 1 << 16];
    let mut left = entry.padded_to.unwrap_or_default().saturating_sub(entry.bytes);
    while left > 0 {
        let chunk = usize::try_from(left).unwrap_or(zeros.len()).min(zeros.len());
        file.write_all(&zeros[..chunk])?;
        left -= chunk as u64;
    }
    // Whatever the mask of this process is.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Makes the names in all directories durable.
fn sync_tree(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        }
    }
    fs::File::open(directory)?.sync_all()
}
