//! Tests of files in a bucket in memory.

use super::*;

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.zip";

struct Node {
    directory: tempfile::TempDir,
    tree: FileTree,
}

impl Node {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn node_with(bucket: &Arc<Bucket>, environment: &Environment) -> Node {
    let directory = tempfile::tempdir().unwrap();
    let tree = FileTree::with_bucket(directory.path(), Arc::clone(bucket), environment);
    Node { directory, tree }
}

fn nodes<const N: usize>() -> [Node; N] {
    let bucket = Bucket::in_memory();
    [(); N].map(|()| node_with(&bucket, &Environment::system()))
}

fn is_not_found<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[test]
fn a_file_of_one_node_is_read_on_another_until_it_is_removed() {
    let [first, second] = nodes();
    let part = first.write("archives/new.part", b"abc");
    first.tree.subtree("archives").publish(&part, &first.path(&format!("archives/ba/{ABC}"))).unwrap();

    let archives = second.tree.subtree("archives");
    let copy = second.path(&format!("archives/ba/{ABC}"));
    assert_eq!(archives.read(&copy).unwrap(), b"abc");
    assert_eq!(fs::read(&copy).unwrap(), b"abc", "it is not fetched again");
    assert_eq!(fs::read_dir(copy.parent().unwrap()).unwrap().count(), 1, "nothing else is left");

    archives.remove(&copy).unwrap();
    assert!(is_not_found(&archives.open(&copy)));
    assert!(is_not_found(&first.tree.fetch(&first.path(&format!("archives/ba/{ABC}")))));
    archives.remove(&copy).unwrap();
}

#[test]
fn a_large_file_is_transferred_in_parts() {
    let [first, second] = nodes();
    let bytes: Vec<u8> = (0..bucket::PART_BYTES * 2 + 7).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let path = first.write("media/large", &bytes);
    first.tree.publish(&path, &path).unwrap();
    assert_eq!(second.tree.read(&second.path("media/large")).unwrap(), bytes);
}

#[test]
fn a_damaged_object_is_not_served_and_is_replaced_when_the_file_is_stored_again() {
    let [first, second] = nodes();
    let name = format!("archives/ba/{ABC}");
    first.tree.bucket().unwrap().put(&name, b"ab".as_slice().into()).unwrap();
    let copy = second.path(&name);
    assert_eq!(second.tree.read(&copy).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert!(!copy.exists());

    let path = first.write(&name, b"abc");
    first.tree.publish(&path, &path).unwrap();
    assert_eq!(second.tree.read(&copy).unwrap(), b"abc");
}

#[test]
fn a_fetch_does_not_wait_for_another_one_without_end() {
    // Given a file that is being fetched
    let fetches = FetchesInProgress::default();
    let [path, other] = ["a", "b"].map(Path::new);
    let wait = Duration::from_millis(50);
    let fetch = fetches.begin(path, wait).unwrap();

    // Then another fetch of it ends without the file, and does so at once if too many wait
    assert!(fetches.begin(path, wait).is_none());
    assert!(fetches.begin(other, wait).is_some());
    fetches.state.lock().waiters = FETCH_WAITERS_MAX;
    assert!(fetches.begin(path, Duration::from_hours(1)).is_none());
    fetches.state.lock().waiters = 0;
    drop(fetch);
    assert!(fetches.begin(path, wait).is_some());
}

#[test]
fn one_of_several_nodes_creates_a_secret() {
    let nodes = nodes::<4>();
    let created: Vec<_> = thread::scope(|scope| {
        let threads = nodes.iter().zip(0..).map(|(node, number): (_, u8)| {
            scope.spawn(move || node.tree.create_secret(&node.path("personal/01/1"), &[number]).unwrap().unwrap())
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(created.iter().all(|secret| *secret == created[0]), "{created:?}");
    assert_eq!(nodes[3].tree.read_secret(&nodes[3].path("personal/01/1")).unwrap(), Some(created[0].clone()));
    assert_eq!(nodes[3].tree.read_secret(&nodes[3].path("personal/01/2")).unwrap(), None);
}

#[test]
fn an_unreferenced_object_is_removed_a_day_after_it_was_last_stored() {
    let bucket = Bucket::in_memory();
    let now = Environment::system().now();
    let [today, tonight, tomorrow] = [0, 13, 25]
        .map(|hours| node_with(&bucket, &Environment::manual(now.saturating_add(Duration::from_hours(hours)), 1)));
    let path = today.write("media/a", b"a");
    today.tree.publish(&path, &path).unwrap();
    assert!(!tonight.tree.remove_unreferenced(&tonight.path("media/a")).unwrap());

    // Stored again, it is as young as the time of the bucket, which is that of this test
    let before = store_time(&today);
    thread::sleep(Duration::from_millis(2));
    let again = tonight.write("media/a", b"a");
    today.tree.republish(&path, &path).unwrap();
    assert_eq!(store_time(&today), before);
    tonight.tree.republish(&again, &again).unwrap();
    assert!(store_time(&today) > before);

    assert!(tomorrow.tree.remove_unreferenced(&tomorrow.path("media/a")).unwrap());
    assert!(tomorrow.tree.list_remote(tomorrow.tree.root()).unwrap().unwrap().is_empty());
    assert!(!tomorrow.tree.remove_unreferenced(&tomorrow.path("media/a")).unwrap());
}

fn store_time(node: &Node) -> Timestamp {
    node.tree.list_remote(&node.path("media")).unwrap().unwrap()[0].modified
}

#[test]
fn everything_that_a_directory_lacks_is_fetched() {
    let [first, second] = nodes();
    for name in ["media/a", "media/b", "personal/01/1"] {
        let path = first.write(name, name.as_bytes());
        first.tree.publish(&path, &path).unwrap();
    }
    let own = second.write("media/b", b"own");
    let media = second.tree.subtree("media");
    media.fetch_all(media.root(), KeysOfMarkedUsers::Skip).unwrap();

    assert_eq!(fs::read(second.path("media/a")).unwrap(), b"media/a");
    assert_eq!(fs::read(own).unwrap(), b"own");
    assert!(!second.path("personal").exists());
    let listed = second.tree.list_remote(&second.path("personal")).unwrap().unwrap();
    assert_eq!(listed.into_iter().map(|file| file.path).collect::<Vec<_>>(), [second.path("personal/01/1")]);
}

#[test]
fn without_a_bucket_a_tree_is_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let tree = FileTree::local(directory.path());
    let path = directory.path().join("a");
    assert!(is_not_found(&tree.read(&path)));
    fs::write(&path, b"a").unwrap();
    tree.publish(&path, &path).unwrap();
    assert_eq!(tree.read(&path).unwrap(), b"a");
    assert_eq!(tree.list_remote(directory.path()).unwrap(), None);
    tree.remove(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn the_key_of_a_user_whose_erasure_has_begun_is_fetched_for_the_last_copy_alone() {
    // Given keys of two users in the bucket, and the mark of one
    let [first, second] = nodes();
    for name in ["personal/01/1", "personal/02/2", "erasing/2"] {
        first.tree.create_secret(&first.path(name), b"key").unwrap();
    }

    // Then a backup or check of another node does not bring back the key
    let keys = second.tree.subtree("personal");
    keys.fetch_all(keys.root(), KeysOfMarkedUsers::Skip).unwrap();
    assert!(second.path("personal/01/1").exists() && !second.path("personal/02/2").exists());

    // And the last node keeps it, because the erasure may have failed
    second.tree.fetch_all(keys.root(), KeysOfMarkedUsers::Fetch).unwrap();
    assert!(second.path("personal/02/2").exists());
}

#[test]
fn what_root_fetches_belongs_to_the_owner_of_the_data_directory() {
    use std::os::unix::fs::{MetadataExt, chown};

    // Given a data directory of another user
    let [first, second] = nodes();
    let name = format!("archives/ba/{ABC}");
    let path = first.write(&name, b"abc");
    first.tree.publish(&path, &path).unwrap();
    if chown(second.directory.path(), Some(61_184), Some(61_185)).is_err() {
        eprintln!("skipped: only root can change the owner of a directory");
        return;
    }

    // When root fetches a file
    second.tree.read(&second.path(&name)).unwrap();

    // Then the user can read and remove it
    for created in ["archives", "archives/ba", &name] {
        let metadata = fs::metadata(second.path(created)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (61_184, 61_185), "{created}");
    }
}

#[test]
fn reasons_name_the_status_and_the_code_of_a_response_and_no_more() {
    let body = "<Error><Code>ExpiredToken</Code><Token-0>secret: x</Token-0></Error>";
    for (text, expected) in [
        (format!("Server returned non-2xx status code: 400 Bad Request: {body}"), "400 Bad Request ExpiredToken"),
        ("Server returned non-2xx status code: 503 Service Unavailable: ".to_owned(), "503 Service Unavailable"),
        (format!("Server returned error response: {body}"), "an error ExpiredToken"),
        ("no response within 15 s".to_owned(), "no response within 15 s"),
    ] {
        assert_eq!(bucket::innermost(&io::Error::other(text)), expected);
    }
}
