//! Tests of key creation, restarts and erasure.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use uuid::Uuid;

use super::*;
use crate::environment::Environment;
use crate::file_tree::Bucket;
use PersonalField::{Email, Name};

fn user(number: u128) -> UserId {
    UserId(Uuid::from_u128(number))
}

fn sealed(keyring: &Keyring, number: u128, random_byte: u8, text: &str) -> PersonalValue {
    keyring.seal(user(number), Some([random_byte; KEY_BYTES]), [(Name, text)]).unwrap().remove(0)
}

/// Returns all files below a directory.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn the_key_of_a_user_is_created_once_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(folder.path());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "opening writes nothing");

    let first = sealed(&keyring, 1, 7, "Ada");
    assert_eq!(sealed(&keyring, 1, 8, "Ada"), first, "the existing key is used");

    let reopened = Keyring::open(folder.path());
    assert_eq!(reopened.read(user(1), Name, &first).as_deref(), Some("Ada"));
    assert_eq!(sealed(&reopened, 1, 9, "Ada"), first);
    assert_ne!(sealed(&reopened, 2, 9, "Ada"), first);

    let keys = files(&folder.path().join("personal"));
    assert_eq!(keys.len(), 2);
    assert!(keys.iter().all(|key| fs::metadata(key).unwrap().permissions().mode() & 0o777 == 0o600));
}

#[test]
fn data_of_an_erased_user_can_be_neither_read_nor_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(folder.path());
    let first = sealed(&keyring, 1, 7, "Ada");
    let other = sealed(&keyring, 2, 7, "Bob");

    keyring.destroy_key(user(1)).unwrap();
    keyring.destroy_key(user(1)).unwrap();

    assert_eq!(keyring.read(user(1), Name, &first), None);
    assert_eq!(keyring.read(user(1), Name, &PersonalValue::Plain("Ada".into())), None);
    assert!(matches!(keyring.seal(user(1), Some([7; KEY_BYTES]), [(Name, "Ada")]), Err(UserKeyError::Erased)));
    assert_eq!(keyring.read(user(2), Name, &other).as_deref(), Some("Bob"));
    assert_eq!([1, 2].map(|id| keyring.is_erasure_unfinished(user(id)).unwrap()), [false, true]);
    assert_eq!(Keyring::open(folder.path()).read(user(1), Name, &first), None);
}

#[test]
fn a_damaged_key_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let value = sealed(&Keyring::open(folder.path()), 1, 7, "Ada");
    let path = files(folder.path()).remove(0);

    fs::write(&path, b"short").unwrap();
    let keyring = Keyring::open(folder.path());
    assert_eq!(keyring.read(user(1), Name, &value), None);
    assert!(matches!(
        keyring.seal(user(1), Some([7; KEY_BYTES]), [(Name, "Ada")]),
        Err(UserKeyError::Malformed { .. })
    ));
    assert_eq!(fs::read(&path).unwrap(), b"short");

    keyring.destroy_key(user(1)).unwrap();
    assert!(!path.exists());
}

#[test]
fn a_missing_key_is_not_replaced_and_works_once_restored() {
    let folder = tempfile::tempdir().unwrap();
    let value = sealed(&Keyring::open(folder.path()), 1, 7, "Ada");
    let path = files(folder.path()).remove(0);
    let key_bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();

    let keyring = Keyring::open(folder.path());
    let result = keyring.seal(user(1), None, [(Name, "Grace")]);
    assert!(matches!(result, Err(UserKeyError::Missing { path: missing }) if missing == path && !path.exists()));

    fs::write(&path, key_bytes).unwrap();
    let resealed = keyring.seal(user(1), None, [(Name, "Grace")]).unwrap().remove(0);
    assert_eq!(keyring.read(user(1), Name, &value).as_deref(), Some("Ada"));
    assert_eq!(keyring.read(user(1), Name, &resealed).as_deref(), Some("Grace"));
}

#[test]
fn an_erasure_is_unfinished_until_the_key_is_destroyed_even_without_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(folder.path());
    let _ = sealed(&keyring, 1, 7, "Ada");
    for user in [user(1), user(2)] {
        keyring.begin_erasure(user).unwrap();
        let reopened = Keyring::open(folder.path());
        assert!(reopened.is_erasure_unfinished(user).unwrap());
        reopened.destroy_key(user).unwrap();
        assert!(!reopened.is_erasure_unfinished(user).unwrap());
    }
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
}

#[test]
fn preloaded_keys_are_cached() {
    let folder = tempfile::tempdir().unwrap();
    let value = sealed(&Keyring::open(folder.path()), 1, 7, "Ada");
    let keyring = Keyring::open(folder.path());
    assert_eq!(keyring.uncached([user(1), user(2)]), [user(1), user(2)]);
    keyring.preload(&[user(1), user(2)]).unwrap();
    assert_eq!(keyring.uncached([user(1), user(2)]), [user(2)]);
    fs::remove_file(files(folder.path()).remove(0)).unwrap();
    assert_eq!(keyring.read(user(1), Name, &value).as_deref(), Some("Ada"));
    assert_eq!(keyring.read(user(1), Email, &value), None, "a value of another field");
}

#[test]
fn concurrent_callers_create_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(folder.path());
    let values: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..8)
            .map(|index| {
                scope.spawn({
                    let keyring = &keyring;
                    move || sealed(keyring, 1, index, "Ada")
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    assert!(values.iter().all(|value| *value == values[0]));
}

#[test]
fn nodes_with_a_bucket_have_one_key_per_user_and_none_after_an_erasure() {
    // Given two nodes of which one has created a key
    let bucket = Bucket::in_memory();
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let nodes = directories.each_ref().map(|directory| {
        let data = FileTree::with_bucket(directory.path(), Arc::clone(&bucket), &Environment::system());
        Keyring::open_with(&data)
    });
    let [first, second] = &nodes;
    let sealed = first.seal(user(1), Some([1; KEY_BYTES]), [(PersonalField::Name, "Ada")]).unwrap();
    let other = second.seal(user(1), Some([2; KEY_BYTES]), [(PersonalField::Name, "Bob")]).unwrap();
    assert_eq!(second.read(user(1), PersonalField::Name, &sealed[0]).as_deref(), Some("Ada"));
    assert_eq!(first.read(user(1), PersonalField::Name, &other[0]).as_deref(), Some("Bob"));

    // When one erases the user, and a crash interrupts it
    first.begin_erasure(user(1)).unwrap();
    second.mark_erased(user(1));

    // Then every node knows, and the key is nowhere once it is complete
    assert_eq!(second.unfinished_erasures(&[user(1), user(2)]).unwrap(), [user(1)]);
    assert!(second.is_erasure_unfinished(user(1)).unwrap() && !second.is_erasure_unfinished(user(2)).unwrap());
    second.destroy_key(user(1)).unwrap();
    assert_eq!(bucket.list("").unwrap(), []);
    assert!(!second.has_key(user(1)) && second.unfinished_erasures(&[user(1)]).unwrap().is_empty());

    // And the other node removes its copy, and that in the bucket if it has put it there again
    bucket.put(&format!("personal/01/{}", user(1)), vec![1; KEY_BYTES].into()).unwrap();
    first.mark_erased(user(1));
    assert!(first.destroy_copy(user(1)).unwrap());
    first.forget_key(user(1)).unwrap();
    assert!(first.unfinished_erasures(&[user(1)]).unwrap().is_empty() && !first.destroy_copy(user(1)).unwrap());
    assert!(!first.has_key(user(1)) && bucket.list("").unwrap().is_empty());
}

#[test]
fn what_a_killed_fetch_left_of_a_key_goes_with_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(folder.path());
    sealed(&keyring, 1, 1, "Ada");
    let directory = folder.path().join("personal/01");
    let part = directory.join(format!("{}.5f0c.part", user(1)));
    let other = directory.join(format!("{}.5f0c.part", user(0x101)));
    for path in [&part, &other] {
        std::fs::write(path, [1; KEY_BYTES]).unwrap();
    }

    keyring.destroy_key(user(1)).unwrap();
    assert!(!part.exists() && other.exists());
}
