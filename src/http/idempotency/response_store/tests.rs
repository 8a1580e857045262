//! Storing, reading and deleting of responses.

use super::*;
use actix_web::HttpResponse;
use actix_web::web::Bytes;

const AT: Timestamp = Timestamp::from_micros(1_764_000_000_000_000);

fn given() -> (tempfile::TempDir, ResponseStore) {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let vault = ResponseStore::open(&data, &Environment::manual(AT, 1)).unwrap();
    (folder, vault)
}

fn asked(id: u8, named: &str) -> IdempotentRequest {
    IdempotentRequest { id: Digest([id; 32]), caller_and_key: named.to_owned(), fingerprint: Digest([9; 32]) }
}

fn kept_at(at: Timestamp, bytes: usize) -> StoredResponse {
    let mut response = HttpResponse::Ok();
    let (head, ()) = response.insert_header(("location", "/x")).finish().set_body(()).into_parts();
    StoredResponse::new(at, Digest([9; 32]), &head, Bytes::from(vec![b'\n'; bytes]), false).unwrap()
}

fn kept(bytes: usize) -> StoredResponse {
    kept_at(AT, bytes)
}

#[test]
fn an_answer_opens_with_its_key_and_secret_alone() {
    let (folder, vault) = given();
    let answer = kept(3);
    vault.write(&asked(1, "key"), &answer, [7; NONCE_BYTES], (true, PurgeEpoch(0))).unwrap();
    assert_eq!(vault.read(&asked(1, "key")), Some(answer));
    assert_eq!(vault.read(&asked(1, "other")), None);
    // A different name does not open it.
    fs::create_dir_all(vault.path(&Digest([2; 32]), true).parent().unwrap()).unwrap();
    fs::copy(vault.path(&Digest([1; 32]), true), vault.path(&Digest([2; 32]), true)).unwrap();
    assert_eq!(vault.read(&asked(2, "key")), None);
    // Neither does a different secret.
    let root = vault.root.clone();
    assert_eq!(
        ResponseStore { root, secret: [0; 32], usage: Mutex::default(), purge_epoch: RwLock::default() }
            .read(&asked(1, "key")),
        None
    );
    drop(folder);
}

#[test]
fn a_secret_is_kept_and_a_damaged_one_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let first = ResponseStore::open(&data, &Environment::manual(AT, 1)).unwrap();
    let second = ResponseStore::open(&data, &Environment::manual(AT, 2)).unwrap();
    assert_eq!(first.secret, second.secret);
    fs::write(data.path("idempotency-key"), "no secret").unwrap();
    assert!(matches!(ResponseStore::open(&data, &Environment::system()), Err(ResponseStoreError::Malformed { .. })));
}

#[test]
fn a_sweep_takes_what_is_too_old_and_gives_room_back() {
    let (_folder, vault) = given();
    let later = kept_at(AT.saturating_add(Duration::from_secs(1)), 3);
    vault.write(&asked(1, "old"), &kept(3), [7; NONCE_BYTES], (true, PurgeEpoch(0))).unwrap();
    vault.write(&asked(2, "new"), &later, [7; NONCE_BYTES], (true, PurgeEpoch(0))).unwrap();
    vault.sweep(AT.saturating_add(RETENTION));
    assert_eq!(vault.read(&asked(1, "old")), None);
    assert!(vault.read(&asked(2, "new")).is_some());
    assert_eq!(*vault.usage.lock(), ResponseStoreUsage::from_file_size(0, true));
}

#[test]
fn there_is_room_for_a_gibibyte_and_less_for_requests_without_commands() {
    let (_folder, vault) = given();
    let answer = kept(3);
    assert!(vault.reserve(ResponseStoreUsage::from_file_size(WITHOUT_COMMANDS_MAX, false)));
    vault.write(&asked(1, "k"), &answer, [7; NONCE_BYTES], (false, PurgeEpoch(0))).unwrap();
    assert_eq!(vault.read(&asked(1, "k")), None);
    vault.write(&asked(2, "k"), &answer, [7; NONCE_BYTES], (true, PurgeEpoch(0))).unwrap();
    assert!(vault.read(&asked(2, "k")).is_some());
    assert!(vault.reserve(ResponseStoreUsage::from_file_size(STORE_MAX - WITHOUT_COMMANDS_MAX - FILE_MIN, true)));
    vault.write(&asked(3, "k"), &answer, [7; NONCE_BYTES], (true, PurgeEpoch(0))).unwrap();
    assert_eq!(vault.read(&asked(3, "k")), None);
    // Deleting a file frees its space.
    vault.sweep(AT);
    vault.write(&asked(1, "k"), &answer, [7; NONCE_BYTES], (false, PurgeEpoch(0))).unwrap();
    vault.write(&asked(3, "k"), &answer, [7; NONCE_BYTES], (true, PurgeEpoch(0))).unwrap();
    assert!(vault.read(&asked(1, "k")).is_some() && vault.read(&asked(3, "k")).is_some());
}

#[test]
fn what_was_kept_before_a_start_counts() {
    let (folder, vault) = given();
    vault.write(&asked(1, "k"), &kept(10_000), [7; NONCE_BYTES], (true, PurgeEpoch(0))).unwrap();
    vault.write(&asked(2, "k"), &kept(20_000), [7; NONCE_BYTES], (false, PurgeEpoch(0))).unwrap();
    let taken = *vault.usage.lock();
    assert!(taken.without_commands > 20_000 && taken.total > taken.without_commands + 10_000, "{taken:?}");
    let again = ResponseStore::open(&DataDir::open(folder.path()).unwrap(), &Environment::manual(AT, 1)).unwrap();
    assert_eq!(*again.usage.lock(), taken);
}

#[test]
fn what_is_forgotten_is_not_written_again_by_a_request_that_had_begun() {
    let (_folder, vault) = given();
    let begun = vault.epoch();
    vault.write(&asked(1, "k"), &kept(3), [7; NONCE_BYTES], (true, begun)).unwrap();
    vault.write(&asked(2, "k"), &kept(3), [7; NONCE_BYTES], (false, begun)).unwrap();
    let draft = vault.path(&Digest([3; 32]), true).with_extension(DRAFT_EXTENSION);
    fs::create_dir_all(draft.parent().unwrap()).unwrap();
    fs::write(&draft, b"left by a crash").unwrap();
    vault.purge().unwrap();
    vault.write(&asked(4, "k"), &kept(3), [7; NONCE_BYTES], (true, begun)).unwrap();
    let there = [1, 2, 4].map(|id| vault.read(&asked(id, "k")).is_some());
    assert_eq!((there, draft.exists()), ([false, true, false], false));
    vault.write(&asked(4, "k"), &kept(3), [7; NONCE_BYTES], (true, vault.epoch())).unwrap();
    assert!(vault.read(&asked(4, "k")).is_some());
}

#[test]
fn that_an_answer_cannot_be_removed_is_told_and_all_others_are() {
    let (_folder, vault) = given();
    vault.write(&asked(2, "k"), &kept(3), [7; NONCE_BYTES], (true, PurgeEpoch(0))).unwrap();
    // A directory cannot be removed as a file, not even by root.
    let stuck = vault.path(&Digest([1; 32]), true);
    fs::create_dir_all(stuck.join("x")).unwrap();
    let told = vault.purge().unwrap_err().to_string();
    assert!(told.contains(stuck.to_str().unwrap()), "{told}");
    assert!(vault.read(&asked(2, "k")).is_none());
}
