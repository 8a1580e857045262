//! Storing, reading and deleting of responses.

use super::RequestKind::{WithCommands, WithoutCommands};
use super::*;
use actix_web::HttpResponse;
use actix_web::web::Bytes;

const AT: Timestamp = Timestamp::from_micros(1_764_000_000_000_000);
const NONCE: [u8; NONCE_BYTES] = [7; NONCE_BYTES];
/// Epoch of a store that was never purged.
const BEFORE_PURGES: PurgeEpoch = PurgeEpoch(0);

fn open_store() -> (tempfile::TempDir, ResponseStore) {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let store = ResponseStore::open(&data, &Environment::manual(AT, 1)).unwrap();
    (folder, store)
}

fn request(id: u8, caller_and_key: &str) -> IdempotentRequest {
    IdempotentRequest { id: Digest([id; 32]), caller_and_key: caller_and_key.to_owned(), fingerprint: Digest([9; 32]) }
}

/// Returns a response to a request at `at`, with a body of `bytes` bytes.
fn stored_response_at(at: Timestamp, bytes: usize) -> StoredResponse {
    let mut response = HttpResponse::Ok();
    let (head, ()) = response.insert_header(("location", "/x")).finish().set_body(()).into_parts();
    let is_rerun = false;
    StoredResponse::new(at, Digest([9; 32]), &head, Bytes::from(vec![b'\n'; bytes]), is_rerun).unwrap()
}

fn stored_response(bytes: usize) -> StoredResponse {
    stored_response_at(AT, bytes)
}

#[test]
fn a_response_opens_only_with_its_key_and_secret() {
    let (folder, store) = open_store();
    let response = stored_response(3);
    store.write(&request(1, "key"), &response, NONCE, WithCommands, BEFORE_PURGES).unwrap();
    assert_eq!(store.read(&request(1, "key")), Some(response));
    assert_eq!(store.read(&request(1, "other")), None);

    // A copy under the name of another request does not open.
    fs::create_dir_all(store.path(&Digest([2; 32]), WithCommands).parent().unwrap()).unwrap();
    fs::copy(store.path(&Digest([1; 32]), WithCommands), store.path(&Digest([2; 32]), WithCommands)).unwrap();
    assert_eq!(store.read(&request(2, "key")), None);

    // Neither does a different secret.
    let root = store.root.clone();
    assert_eq!(
        ResponseStore { root, secret: [0; 32], usage: Mutex::default(), purge_epoch: RwLock::default() }
            .read(&request(1, "key")),
        None
    );
    drop(folder);
}

#[test]
fn a_secret_is_reused_and_a_damaged_one_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let first = ResponseStore::open(&data, &Environment::manual(AT, 1)).unwrap();
    let second = ResponseStore::open(&data, &Environment::manual(AT, 2)).unwrap();
    assert_eq!(first.secret, second.secret);
    fs::write(data.path("idempotency-key"), "no secret").unwrap();
    assert!(matches!(ResponseStore::open(&data, &Environment::system()), Err(ResponseStoreError::Malformed { .. })));
}

#[test]
fn a_sweep_removes_expired_responses_and_frees_space() {
    let (_folder, store) = open_store();
    let later = stored_response_at(AT.saturating_add(Duration::from_secs(1)), 3);
    store.write(&request(1, "old"), &stored_response(3), NONCE, WithCommands, BEFORE_PURGES).unwrap();
    store.write(&request(2, "new"), &later, NONCE, WithCommands, BEFORE_PURGES).unwrap();
    store.sweep(AT.saturating_add(RETENTION));
    assert_eq!(store.read(&request(1, "old")), None);
    assert!(store.read(&request(2, "new")).is_some());
    assert_eq!(*store.usage.lock(), ResponseStoreUsage::from_file_size(0, WithCommands));
}

#[test]
fn the_store_is_limited_to_one_gib_and_less_without_commands() {
    let (_folder, store) = open_store();
    let response = stored_response(3);

    // Given that the share of requests without commands is used up
    assert!(store.reserve(ResponseStoreUsage::from_file_size(WITHOUT_COMMANDS_MAX, WithoutCommands)));

    // Then only responses to requests with commands are stored
    store.write(&request(1, "k"), &response, NONCE, WithoutCommands, BEFORE_PURGES).unwrap();
    assert_eq!(store.read(&request(1, "k")), None);
    store.write(&request(2, "k"), &response, NONCE, WithCommands, BEFORE_PURGES).unwrap();
    assert!(store.read(&request(2, "k")).is_some());

    // And nothing is stored once the store is full
    let remaining_bytes = STORE_MAX - WITHOUT_COMMANDS_MAX - FILE_MIN;
    assert!(store.reserve(ResponseStoreUsage::from_file_size(remaining_bytes, WithCommands)));
    store.write(&request(3, "k"), &response, NONCE, WithCommands, BEFORE_PURGES).unwrap();
    assert_eq!(store.read(&request(3, "k")), None);

    // When a sweep finds no files for the reserved bytes, then there is space again
    store.sweep(AT);
    store.write(&request(1, "k"), &response, NONCE, WithoutCommands, BEFORE_PURGES).unwrap();
    store.write(&request(3, "k"), &response, NONCE, WithCommands, BEFORE_PURGES).unwrap();
    assert!(store.read(&request(1, "k")).is_some() && store.read(&request(3, "k")).is_some());
}

#[test]
fn responses_stored_before_a_start_count_towards_the_limit() {
    let (folder, store) = open_store();
    store.write(&request(1, "k"), &stored_response(10_000), NONCE, WithCommands, BEFORE_PURGES).unwrap();
    store.write(&request(2, "k"), &stored_response(20_000), NONCE, WithoutCommands, BEFORE_PURGES).unwrap();
    let usage = *store.usage.lock();
    assert!(usage.without_commands > 20_000 && usage.total > usage.without_commands + 10_000, "{usage:?}");
    let reopened = ResponseStore::open(&DataDir::open(folder.path()).unwrap(), &Environment::manual(AT, 1)).unwrap();
    assert_eq!(*reopened.usage.lock(), usage);
}

#[test]
fn a_purge_rejects_responses_to_requests_that_began_before_it() {
    // Given stored responses and a draft
    let (_folder, store) = open_store();
    let epoch = store.epoch();
    store.write(&request(1, "k"), &stored_response(3), NONCE, WithCommands, epoch).unwrap();
    store.write(&request(2, "k"), &stored_response(3), NONCE, WithoutCommands, epoch).unwrap();
    let draft = store.path(&Digest([3; 32]), WithCommands).with_extension(DRAFT_EXTENSION);
    fs::create_dir_all(draft.parent().unwrap()).unwrap();
    fs::write(&draft, b"left by a crash").unwrap();

    // When the store is purged before a request that began earlier writes its response
    store.purge().unwrap();
    store.write(&request(4, "k"), &stored_response(3), NONCE, WithCommands, epoch).unwrap();

    // Then only the response to the request without commands is left
    let present = [1, 2, 4].map(|id| store.read(&request(id, "k")).is_some());
    assert_eq!((present, draft.exists()), ([false, true, false], false));

    // And responses to requests that begin later are stored
    store.write(&request(4, "k"), &stored_response(3), NONCE, WithCommands, store.epoch()).unwrap();
    assert!(store.read(&request(4, "k")).is_some());
}

#[test]
fn an_undeletable_response_is_reported_and_the_others_are_deleted() {
    let (_folder, store) = open_store();
    store.write(&request(2, "k"), &stored_response(3), NONCE, WithCommands, BEFORE_PURGES).unwrap();
    // A directory cannot be removed as a file, not even by root.
    let stuck = store.path(&Digest([1; 32]), WithCommands);
    fs::create_dir_all(stuck.join("x")).unwrap();
    let message = store.purge().unwrap_err().to_string();
    assert!(message.contains(stuck.to_str().unwrap()), "{message}");
    assert!(store.read(&request(2, "k")).is_none());
}
