//! Tests of the data directory and its files.

use super::*;

#[test]
fn a_directory_is_locked_by_one_process_at_a_time() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("a/b");
    let first = DataDir::open(&root).unwrap();
    assert!(matches!(DataDir::open(&root), Err(DataDirError::InUse(path)) if path == root));
    drop(first);
    assert!(DataDir::open(&root).is_ok());
}

#[test]
fn a_check_for_a_running_service_does_not_block_a_start() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!DataDir::is_in_use(folder.path()).unwrap());
    drop(DataDir::open(folder.path()).unwrap());

    // Given a command that checks for a service, and a second one
    let mut shared_lock = Some(DataDir::open_shared(folder.path()).unwrap());
    assert!(!DataDir::is_in_use(folder.path()).unwrap());

    // When a service starts, then it waits for the check to end
    let service = DataDir::open_with_wait(folder.path(), || shared_lock = None).unwrap();
    assert!(DataDir::is_in_use(folder.path()).unwrap());

    drop(service);

    // And a holder of the lock that does not release it keeps the service out
    let _shared = DataDir::open_shared(folder.path()).unwrap();
    assert!(matches!(DataDir::open_with_wait(folder.path(), || ()), Err(DataDirError::InUse(_))));
}

#[test]
#[expect(clippy::used_underscore_binding, reason = "held for its drop, read only here")]
fn a_copied_file_descriptor_does_not_hold_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let first = DataDir::open(folder.path()).unwrap();
    let copy = first._lock.as_ref().map(|lock| lock.0.try_clone().unwrap());

    drop(first);
    assert!(copy.is_some() && DataDir::open(folder.path()).is_ok());
}

#[test]
fn created_directories_are_accessible_to_their_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    create_durably(&parent.path().join("a/b")).unwrap();
    for name in ["a", "a/b"] {
        let mode = fs::metadata(parent.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{name}");
    }
}

#[test]
fn private_files_are_readable_by_their_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    assert_eq!(read_private(&path).unwrap(), None);

    write_private(&path, b"first").unwrap();
    write_private(&path, b"second").unwrap();

    assert_eq!(read_private(&path).unwrap().as_deref(), Some("second"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_of_another_user_is_rejected_with_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let open_error = || DataDir::open(folder.path()).err().map(|error| error.to_string());
    if std::os::unix::fs::chown(folder.path(), Some(61_184), Some(61_185)).is_err() {
        eprintln!("skipped: only root can change the owner of a directory");
        return;
    }

    // Given an empty directory, then nothing is created in it
    let message = open_error().expect("it is refused");
    for word in ["belongs to user 61184,", "setpriv --reuid 61184 --regid 61185 --clear-groups mediary"] {
        assert!(message.contains(word), "{word} is not in: {message}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    // Given a used directory, then the owner of its lock counts: the directory may be a volume that belongs to root
    fs::write(folder.path().join("lock"), "").unwrap();
    assert_eq!(open_error(), None);
    std::os::unix::fs::chown(folder.path().join("lock"), Some(61_184), None).unwrap();
    std::os::unix::fs::chown(folder.path(), Some(0), Some(0)).unwrap();
    assert!(open_error().expect("it is refused").contains("belongs to user 61184,"));
}

#[test]
fn permission_errors_name_the_owner_and_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let error_text = |path: &Path| {
        let reason = io::ErrorKind::PermissionDenied.into();
        DataDirError::File { path: path.to_owned(), reason }.to_string()
    };
    let uid = own_id();
    let directory = folder.path().display().to_string();

    let message = error_text(folder.path());
    assert!(message.contains(&format!("{directory} belongs to user {uid}")), "{message}");
    assert!(message.contains(&format!("`chmod u+rwX {directory}`")) && message.contains("--data-dir"), "{message}");

    // A missing directory is created by a user who may create it
    let message = error_text(&folder.path().join("a"));
    assert!(message.contains(&format!("`install -d -m 0700 -o {uid} {directory}/a`")), "{message}");
    assert_eq!(to_help(folder.path(), &io::ErrorKind::StorageFull.into()), "");

    // If the directory belongs to another user, running as the owner is suggested first; if it is empty, changing its
    // owner
    if std::os::unix::fs::chown(folder.path(), Some(61_184), None).is_err() {
        eprintln!("skipped: only root can change the owner of a directory");
        return;
    }
    let run = "`sudo -u '#61184' mediary …`";
    let chown_advice = format!("`chown -R {uid} {directory}`");
    let offsets = || {
        let message = error_text(folder.path());
        [run, &chown_advice].map(|words| message.find(words).unwrap_or_else(|| panic!("{words} is not in: {message}")))
    };

    let [run_offset, chown_offset] = offsets();
    assert!(chown_offset < run_offset);

    fs::write(folder.path().join("lock"), "").unwrap();
    let [run_offset, chown_offset] = offsets();
    assert!(run_offset < chown_offset);
}
