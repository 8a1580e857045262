//! Missing permissions: the error names the directory, its owner and the remedy. Needs root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::process::{CommandOutput, Process, command, command_on, run};
use crate::verify::with_log;

/// User id that is not in the user database.
const OTHER: u32 = 61_184;

/// Runs a command to its end as the user [`OTHER`]; `None` if this is not allowed.
fn as_other(command: &mut Command) -> Option<CommandOutput> {
    match command.uid(OTHER).gid(OTHER).current_dir("/").output() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            eprintln!("SKIPPED: only root can run commands as another user");
            None
        }
        output => Some(output.expect("the program starts").into()),
    }
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// Changes the owner of everything below a path to the user [`OTHER`].
fn give_away(path: &Path) {
    let entries = fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.for_each(|path| give_away(&path));
    chown(path, Some(OTHER), Some(OTHER)).unwrap();
}

#[test]
fn an_inaccessible_directory_is_reported_with_its_owner() {
    let data = with_log(5);
    fs::set_permissions(data.path(), Permissions::from_mode(0o700)).unwrap();
    for (arguments, code) in [
        (["audit", "verify"], 2),
        (["audit", "log"], 1),
        (["audit", "checkpoint"], 1),
        (["backup", "nowhere"], 1),
        (["health", "--config=/dev/null"], 1),
    ] {
        // When another user looks into the directory, which only its owner may enter
        let Some(result) = as_other(&mut command_on(data.path(), &arguments)) else { return };
        let stderr = result.expect(code).err;

        // Then the error names the path, its owner, and the user to run as
        let path = data.path().display();
        let owner_text = format!("{path} belongs to user 0 (root)");
        for expected in ["Permission denied", &owner_text, "run this as its owner (`sudo -u root mediary …`)"] {
            assert!(stderr.contains(expected), "{arguments:?}: {expected:?} is not in: {stderr}");
        }
        assert!(!stderr.contains("not a data directory"), "{stderr}");
    }
}

#[test]
fn a_start_by_the_wrong_user_prints_the_right_command() {
    // Given a directory of root that others may enter
    let data = tempfile::tempdir().unwrap();
    Process::start(data.path()).terminate();
    open_to_all(data.path());

    // When another user starts a service there, then the error names both remedies
    let Some(result) = as_other(&mut command(data.path())) else { return };
    let (stderr, path) = (result.expect(1).err, data.path().display());
    let owner_text = format!("{path} belongs to user 0 (root), and this process runs as user {OTHER}");
    for expected in [&owner_text, &format!("chown -R {OTHER} {path}"), "sudo -u root mediary"] {
        assert!(stderr.contains(expected), "{expected:?} is not in: {stderr}");
    }

    // Given that the user owns everything but a key, then the error names that file
    give_away(data.path());
    for key in ["url-key", "webhook-key", "idempotency-key", "log/signing.key"] {
        let file = data.path().join(key);
        chown(&file, Some(0), Some(0)).unwrap();
        let stderr = as_other(&mut command(data.path())).unwrap().expect(1).err;
        let file = file.display();
        for expected in [format!("{file} belongs to user 0 (root)"), format!("`chown {OTHER} {file}`")] {
            assert!(stderr.contains(&expected), "{expected:?} is not in: {stderr}");
        }
        give_away(data.path());
    }

    // And with that key too, everything works
    as_other(&mut command_on(data.path(), &["audit", "verify"])).unwrap().expect(0);
}

#[test]
fn a_restore_without_write_permission_names_the_directory() {
    let (data, other_dir) = (with_log(5), tempfile::tempdir().unwrap());
    open_to_all(other_dir.path());
    let backup = other_dir.path().join("backup");
    run(data.path(), &["backup", backup.to_str().unwrap()]).expect(0);
    give_away(&backup);

    // When a user restores below a directory without write permission
    for relative_path in ["data", "a/b/data"] {
        let to = other_dir.path().join(relative_path);
        let Some(result) = as_other(&mut command_on(&to, &["restore", backup.to_str().unwrap()])) else { return };
        let stderr = result.expect(1).err;
        let existing_directory = other_dir.path().display();
        assert!(
            stderr.contains(&format!("can write to {existing_directory}, or restore elsewhere (--data-dir)")),
            "{stderr}"
        );
        assert!(!stderr.contains("below"), "{stderr}");
    }
}
