//! Targets of a restore: behind a symbolic link, for another user, below a mount point; and invalid targets.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use tempfile::TempDir;

use crate::disk_full::SmallDisk;
use crate::support::process::{command, run};
use crate::verify::{with_log, with_media};

/// Creates a backup. Returns its parent directory, which can hold further ones, and its path.
fn back_up(data: &Path) -> (TempDir, String) {
    let other_dir = tempfile::tempdir().unwrap();
    let backup = other_dir.path().join("backup").to_str().unwrap().to_owned();
    run(data, &["backup", &backup]).expect(0);
    (other_dir, backup)
}

/// Returns the sorted names of the entries of a directory.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the metadata of a directory and of everything below it.
fn metadata_of_tree(path: &Path) -> Vec<fs::Metadata> {
    let entries = fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
    let inner = entries.flat_map(|path| metadata_of_tree(&path));
    inner.chain([fs::metadata(path).unwrap()]).collect()
}

#[actix_web::test]
async fn a_restore_follows_a_symbolic_link_and_stays_private() {
    // Given a data directory that is a symbolic link, as service managers create it, to an empty or missing directory
    let data = with_media().await;
    let (other_dir, backup) = back_up(data.path());
    fs::create_dir_all(other_dir.path().join("private/data")).unwrap();
    let link = other_dir.path().join("data");
    symlink("private/data", &link).unwrap();
    for _ in 0..2 {
        // When a backup is restored to it
        run(&link, &["restore", &backup]).expect(0);

        // Then the data is at the link's target, for its owner alone
        assert!(link.is_symlink());
        assert_eq!(names(&other_dir.path().join("private")), ["data"]);
        run(&link, &["audit", "verify"]).expect(0);
        for found in metadata_of_tree(&link).iter().filter(|found| found.is_dir()) {
            assert_eq!(found.permissions().mode() & 0o777, 0o700);
        }
        fs::remove_dir_all(other_dir.path().join("private/data")).unwrap();
    }
}

#[test]
fn a_restore_by_root_keeps_the_owner_of_the_directory() {
    let data = with_log(5);
    let (other_dir, backup) = back_up(data.path());
    let to = other_dir.path().join("data");
    fs::create_dir(&to).unwrap();
    if chown(&to, Some(61_184), Some(61_185)).is_err() {
        eprintln!("SKIPPED: only root can change the owner of a directory");
        return;
    }
    run(&to, &["restore", &backup]).expect(0);
    for found in metadata_of_tree(&to) {
        assert_eq!((found.uid(), found.gid()), (61_184, 61_185));
    }

    // And commands that root runs fail and change nothing
    let before = names(&to);
    let serve = command(&to).output().unwrap();
    let stderr = String::from_utf8_lossy(&serve.stderr).into_owned();
    assert!(serve.status.code() == Some(1) && stderr.contains("setpriv --reuid 61184"), "{stderr}");
    let stderr = run(&to, &["projections", "rebuild"]).expect(1).err;
    assert!(stderr.contains("belongs to user 61184"), "{stderr}");
    assert_eq!(names(&to), before);
}

#[test]
fn a_mount_point_is_rejected_and_a_subdirectory_accepted() {
    let Some(disk) = SmallDisk::mount(40) else {
        eprintln!("SKIPPED: no small file system can be mounted here");
        return;
    };
    let data = with_log(5);
    let (other_dir, backup) = back_up(data.path());

    // Given a damaged backup, so that only a restore that fails before it reads the backup names the mount point
    let damaged = other_dir.path().join("damaged");
    fs::create_dir(&damaged).unwrap();
    fs::copy(other_dir.path().join("backup/manifest.json"), damaged.join("manifest.json")).unwrap();
    let mount = disk.path("");
    let actual = run(&mount, &["restore", damaged.to_str().unwrap()]).expect(1).err;
    let below = disk.path("data");
    assert!(
        actual.contains("is a mount point") && actual.contains(&format!("--data-dir {}", below.display())),
        "{actual}"
    );
    run(&below, &["restore", &backup]).expect(0);
    run(&below, &["audit", "verify"]).expect(0);
}

#[test]
fn a_blocked_temporary_directory_is_reported_by_name() {
    let data = with_log(5);
    let (other_dir, backup) = back_up(data.path());

    // Given a file in place of the temporary directory
    fs::write(other_dir.path().join(".data.restoring"), "").unwrap();
    let actual = run(&other_dir.path().join("data"), &["restore", &backup]).expect(1).err;
    assert!(actual.contains(".data.restoring") && actual.contains("beside its target"), "{actual}");
    assert!(!actual.contains("another restore"), "{actual}");

    // Given missing parent directories, and a directory that is not a backup
    let deep = other_dir.path().join("a/b/data");
    run(&deep, &["restore", data.path().to_str().unwrap()]).expect(1);
    assert_eq!(names(other_dir.path()), [".data.restoring", "backup"]);
}

#[test]
fn a_missing_backup_is_reported_first() {
    // Given a data directory that is not empty
    let data = with_log(5);
    let nowhere = data.path().join("nowhere");
    for (backup, missing) in [(nowhere.as_path(), "directory does not exist"), (data.path(), "manifest is missing")] {
        let actual = run(data.path(), &["restore", backup.to_str().unwrap()]).expect(1).err;
        let expected = format!("{} is not a complete backup: the {missing}", backup.display());
        assert!(actual.contains(&expected) && !actual.contains("not empty"), "{actual}");
    }
}
