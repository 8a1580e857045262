//! Restores: everything is verified before anything is written, and the data directory appears in one rename.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::BackupError;
use super::check::{BackupCheckReport, check, read_manifest};
use super::manifest::{BackupDirectory, BackupFile, Manifest, parse_mode};
use super::pool::BackupFilePool;
use crate::data_dir::{DataDir, DataDirError, sync_parent};
use crate::verification::ProgressCallback;

/// Restores a backup as the data directory `to`, which must be absent or empty; an empty one keeps its owner. A damaged
/// backup is not restored; the result contains its findings.
///
/// # Errors
/// If the backup cannot be restored. `to` is then unchanged.
pub fn restore(backup: &Path, to: &Path, progress: ProgressCallback<'_>) -> Result<BackupCheckReport, BackupError> {
    // Checked first: without a backup, no other check matters.
    read_manifest(backup)?;

    let to = &resolve_target(to)?;
    ensure_empty(to)?;
    ensure_not_mount_point(to)?;

    let created_parents = missing_parents(to);
    let staging = staging_path(to)?;

    // Created before the verification, which takes long, so that missing permissions are reported immediately.
    let data_dir = DataDir::open(&staging).map_err(|error| staging_error(error, to))?;
    let restored = restore_to(backup, &staging, to, progress);

    if !matches!(&restored, Ok(checked) if checked.findings.is_empty()) {
        // Best effort: `remove_dir` leaves a directory that is not empty.
        let _ = fs::remove_dir_all(&staging);
        for directory in &created_parents {
            let _ = fs::remove_dir(directory);
        }
    }

    drop(data_dir);
    restored
}

fn restore_to(
    backup: &Path,
    staging: &Path,
    to: &Path,
    progress: ProgressCallback<'_>,
) -> Result<BackupCheckReport, BackupError> {
    let checked = check(backup, &mut *progress)?;
    if !checked.findings.is_empty() {
        return Ok(checked);
    }

    clear(staging).map_err(BackupError::file(staging))?;
    write_all(staging, &BackupFilePool::open(backup), &checked.manifest, progress)?;

    if let Ok(owner) = fs::metadata(to) {
        change_owner(staging, &owner).map_err(BackupError::file(staging))?;
    }

    sync_tree(staging).map_err(BackupError::file(staging))?;
    ensure_empty(to)?;
    fs::rename(staging, to).map_err(|error| rename_error(to, error))?;
    sync_parent(to).map_err(BackupError::file(to))?;
    Ok(checked)
}

/// Follows a symbolic link in place of the data directory. Service managers create such links, and they are kept.
fn resolve_target(to: &Path) -> Result<PathBuf, BackupError> {
    let to = std::path::absolute(to).map_err(BackupError::file(to))?;
    match (fs::canonicalize(&to), fs::read_link(&to)) {
        (Ok(found), _) => Ok(found),
        (Err(_), Ok(target)) => Ok(to.parent().unwrap_or(&to).join(target)),
        (Err(_), Err(_)) => Ok(to),
    }
}

/// Returns the missing parents of a directory, innermost first.
fn missing_parents(directory: &Path) -> Vec<PathBuf> {
    directory.ancestors().skip(1).take_while(|parent| !parent.exists()).map(Path::to_owned).collect()
}

fn staging_error(error: DataDirError, to: &Path) -> BackupError {
    let DataDirError::File { path, reason } = error else {
        let message = match error {
            DataDirError::InUse(staging) => format!("{} is in use: another restore is in progress", staging.display()),
            other => other.to_string(),
        };
        return BackupError::Refused(message);
    };
    // If the target exists, this user can usually create a directory below it.
    let alternative =
        if to.is_dir() { format!("into a directory below {}", to.display()) } else { "elsewhere".to_owned() };

    let existing_parent = to.ancestors().skip(1).find(|parent| parent.exists()).unwrap_or(to);
    BackupError::Refused(format!(
        "cannot create {}: {reason}; a restore builds the data directory beside its target and then renames it, so run \
         it as a user who can write to {}, or restore {alternative} (--data-dir) and set data_dir of the service",
        path.display(),
        existing_parent.display(),
    ))
}

fn ensure_empty(to: &Path) -> Result<(), BackupError> {
    match fs::read_dir(to).map(|mut entries| entries.next().is_some()) {
        Ok(false) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BackupError::file(to)(error)),
        Ok(true) => {
            let message = format!(
                "the data directory {} is not empty: move it away, or name another one with --data-dir",
                to.display()
            );
            Err(BackupError::Refused(message))
        }
    }
}

/// Rejects a mount point. Comparing devices misses some, which the rename then reports ([`rename_error`]).
fn ensure_not_mount_point(to: &Path) -> Result<(), BackupError> {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    match (device(to), to.parent().and_then(device)) {
        (Some(target_device), Some(parent_device)) if target_device != parent_device => Err(mount_point_error(to)),
        _ => Ok(()),
    }
}

fn mount_point_error(to: &Path) -> BackupError {
    BackupError::Refused(format!(
        "{} is a mount point, which a restore cannot replace: restore into a directory below it (--data-dir \
         {}), and set data_dir of the service",
        to.display(),
        to.join("data").display()
    ))
}

fn rename_error(to: &Path, error: io::Error) -> BackupError {
    if matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices) {
        return mount_point_error(to);
    }
    BackupError::file(to)(error)
}

/// Returns the path of the staging directory, next to the target.
fn staging_path(to: &Path) -> Result<PathBuf, BackupError> {
    let name =
        to.file_name().ok_or_else(|| BackupError::Refused(format!("{} is not a data directory", to.display())))?;
    let mut hidden_name = std::ffi::OsString::from(".");
    hidden_name.push(name);
    hidden_name.push(".restoring");
    Ok(to.with_file_name(hidden_name))
}

/// Removes the remains of an interrupted restore, except the lock.
fn clear(staging: &Path) -> io::Result<()> {
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

fn write_all(
    staging: &Path,
    pool: &BackupFilePool,
    manifest: &Manifest,
    progress: ProgressCallback<'_>,
) -> Result<(), BackupError> {
    let file_error = |path: &str| BackupError::file(&staging.join(path));
    for BackupDirectory { path, mode } in &manifest.directories {
        private_directory(&staging.join(path), parse_mode(mode) & 0o700).map_err(file_error(path))?;
    }

    let total = manifest.files.iter().map(|entry| entry.bytes).sum();
    let mut bytes_done = 0;
    for entry in &manifest.files {
        write_file(staging, pool, entry).map_err(file_error(&entry.path))?;
        bytes_done += entry.bytes;
        progress(bytes_done, total);
    }
    Ok(())
}

fn private_directory(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

fn write_file(staging: &Path, pool: &BackupFilePool, entry: &BackupFile) -> io::Result<()> {
    let digest = entry.digest().ok_or(io::ErrorKind::InvalidData)?;
    let path = staging.join(&entry.path);
    private_directory(path.parent().unwrap_or(staging), 0o700)?;

    // Older releases made some files readable by others.
    let mode = parse_mode(&entry.mode) & 0o700;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
    io::copy(&mut fs::File::open(pool.path(&digest))?, &mut file)?;

    let zeros = vec![0; 1 << 16];
    let mut zeros_left = entry.padded_to.unwrap_or_default().saturating_sub(entry.bytes);
    while zeros_left > 0 {
        let chunk = usize::try_from(zeros_left).unwrap_or(zeros.len()).min(zeros.len());
        file.write_all(&zeros[..chunk])?;
        zeros_left -= chunk as u64;
    }

    // Independent of the umask of this process.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Gives everything to the owner of the replaced directory, for a restore by root on behalf of a service user. The lock
/// goes last, because its owner counts as the owner of the directory.
fn change_owner(directory: &Path, owner: &fs::Metadata) -> io::Result<()> {
    let current = fs::metadata(directory)?;
    if current.uid() != 0 || (current.uid(), current.gid()) == (owner.uid(), owner.gid()) {
        return Ok(());
    }
    let change = |path: &Path| chown(path, Some(owner.uid()), Some(owner.gid()));

    let lock = directory.join("lock");
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            change_owner(&entry.path(), owner)?;
        } else if entry.path() != lock {
            change(&entry.path())?;
        }
    }

    if lock.exists() {
        change(&lock)?;
    }
    change(directory)
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
