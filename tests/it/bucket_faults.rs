//! A bucket whose server stalls, refuses or fails: what ends, when, and what that means for other calls.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use mediary::file_tree::{Bucket, CallTimes, FileTree, TRANSFERS_MAX, is_outage, is_unavailable};
use mediary::media::part_files::{FileSharing, PartFiles};
use mediary::media::store::MediaStore;
use mediary::outbound::bucket_client::{BucketCredentials, BucketEndpoint, open_bucket};

use crate::support::eventually::eventually_blocking;

/// Deadline of a call in these tests.
const CALL: Duration = Duration::from_millis(800);
/// Time in which every call must have ended.
const END_TIME_MAX: Duration = Duration::from_secs(8);

/// Reply of the server to a request.
enum ScriptedReply {
    Whole(String),
    /// Sends this, and nothing more.
    Stall(String),
}

fn status(status: &str) -> ScriptedReply {
    ScriptedReply::Whole(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\netag: \"1\"\r\n\r\n"))
}

/// Returns the head of a response with an object of `length` bytes.
fn object(length: usize) -> String {
    let modified = "last-modified: Sat, 01 Jan 2000 00:00:00 GMT";
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\netag: \"1\"\r\n{modified}\r\n\r\n")
}

fn content(body: &str) -> ScriptedReply {
    ScriptedReply::Whole(object(body.len()) + body)
}

/// Returns a page of a list; `next` is the token of the next one.
fn page(keys: &[String], next: Option<&str>) -> ScriptedReply {
    let objects = keys.iter().map(|key| {
        let modified = "<LastModified>2000-01-01T00:00:00.000Z</LastModified>";
        format!("<Contents><Key>{key}</Key><Size>1</Size>{modified}<ETag>1</ETag></Contents>")
    });
    let next = next.map_or_else(String::new, |next| format!("<NextContinuationToken>{next}</NextContinuationToken>"));
    let objects = objects.collect::<String>();
    let truncated = !next.is_empty();
    content(&format!("<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{objects}{next}</ListBucketResult>"))
}

/// Starts a server whose replies the function returns, given the method and the path with its query.
fn serve(reply: impl Fn(&str, &str) -> ScriptedReply + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let reply = Arc::new(reply);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let reply = Arc::clone(&reply);
            thread::spawn(move || respond(&connection, &*reply));
        }
    });
    address
}

fn respond(connection: &TcpStream, reply: &dyn Fn(&str, &str) -> ScriptedReply) -> Option<()> {
    let mut reader = BufReader::new(connection);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.to_lowercase());
        }
        let length = lines.iter().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        std::io::copy(&mut (&mut reader).take(length.unwrap_or(0)), &mut std::io::sink()).ok()?;

        let mut words = lines.first()?.split_whitespace();
        match reply(words.next()?, words.next()?) {
            ScriptedReply::Whole(bytes) => (&*connection).write_all(bytes.as_bytes()).ok()?,
            ScriptedReply::Stall(bytes) => {
                (&*connection).write_all(bytes.as_bytes()).ok()?;
                // Wait until the client closes the connection.
                let _ = reader.read(&mut [0]);
                return None;
            }
        }
    }
}

fn bucket_at(address: SocketAddr) -> Bucket {
    let credentials = BucketCredentials { key_id: "test".to_owned(), secret_key: "x".to_owned(), session_token: None };
    let endpoint = BucketEndpoint {
        bucket: "files".to_owned(),
        region: "us-east-1".to_owned(),
        endpoint: Some(format!("http://{address}")),
        credentials,
    };
    let store = open_bucket(&endpoint).expect("a client");
    let times = CallTimes { call: CALL, per_mib: Duration::from_millis(20) };
    Bucket::new(store, "", "s3://files".to_owned()).expect("a thread").with_times(times)
}

/// Expects that a call fails in time. Returns `true` if the failure counts as an outage, so that other calls fail too.
fn fails_as_outage<T: std::fmt::Debug>(call: impl FnOnce() -> std::io::Result<T>) -> bool {
    let started = Instant::now();
    let error = call().expect_err("a failure");
    assert!(is_unavailable(&error) && started.elapsed() < END_TIME_MAX, "{error}");
    is_outage(&error)
}

fn download(bucket: &Bucket, key: &str, directory: &Path) -> std::io::Result<()> {
    bucket.download(key, &directory.join(key)).map(drop)
}

#[test]
fn a_download_that_stalls_ends_without_affecting_other_calls() {
    // Given an object whose content stops, and another one
    let bucket = bucket_at(serve(|_, path| match path {
        "/files/stalls" => ScriptedReply::Stall(object(1 << 29) + "some bytes"),
        _ => content("key"),
    }));
    let directory = tempfile::tempdir().unwrap();

    // Then the download ends long before the time for its length, and other calls continue
    assert!(!fails_as_outage(|| download(&bucket, "stalls", directory.path())));
    assert_eq!(bucket.get("key").unwrap().unwrap(), "key");
    download(&bucket, "other", directory.path()).unwrap();
}

#[test]
fn transfers_leave_calls_for_keys() {
    // Given as many downloads and uploads of small files as there may be, all stalled
    let (started, stalled) = mpsc::channel();
    let bucket = bucket_at(serve(move |method, path| {
        if path == "/files/key" || path == "/files/more" {
            return content("key");
        }
        let _ = started.send(());
        ScriptedReply::Stall(if method == "put" { String::new() } else { object(1 << 29) })
    }));
    let directory = tempfile::tempdir().unwrap();
    let small = directory.path().join("small");
    std::fs::write(&small, "small").unwrap();
    thread::scope(|scope| {
        for number in 0..TRANSFERS_MAX / 2 {
            let bucket = &bucket;
            let directory = &directory;
            let small = &small;
            scope.spawn(move || fails_as_outage(|| download(bucket, &number.to_string(), directory.path())));
            // An upload may stall because of its size, so other calls continue.
            scope.spawn(move || assert!(!fails_as_outage(|| bucket.upload(&format!("upload-{number}"), small))));
        }
        (0..TRANSFERS_MAX).for_each(|_| stalled.recv_timeout(END_TIME_MAX).unwrap());

        // Then one more is refused at once, and a key is read
        assert!(!fails_as_outage(|| download(&bucket, "more", directory.path())));
        assert_eq!(bucket.get("key").unwrap().unwrap(), "key");
    });
}

#[test]
fn an_upload_that_stalls_is_aborted() {
    // Given a server that does not respond to the second part
    let (sender, requests) = mpsc::channel();
    let bucket = bucket_at(serve(move |method, path| {
        let _ = sender.send(format!("{method} {path}"));
        match method {
            "post" => content("<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"),
            "put" if path.contains("partnumber=2") => ScriptedReply::Stall(String::new()),
            "delete" => status("204 No Content"),
            _ => status("200 OK"),
        }
    }));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("large");
    std::fs::write(&file, vec![7; 20 << 20]).unwrap();

    // Then the upload ends, is aborted, and concerns no other call
    assert!(!fails_as_outage(|| bucket.upload("large", &file)));
    let requests: Vec<_> = requests.try_iter().collect();
    assert!(
        requests.last().is_some_and(|request| request.starts_with("delete /files/large?uploadid=")),
        "{requests:?}"
    );
    assert!(!requests.iter().any(|request| request.contains("partnumber=3")), "{requests:?}");
    bucket.delete("large").unwrap();
}

#[test]
fn a_list_has_a_deadline_for_each_page() {
    // Given pages that together take longer than the deadline of one, and later a last page that never comes
    let is_stalled = Arc::new(AtomicBool::new(false));
    let stalls = Arc::clone(&is_stalled);
    let bucket = bucket_at(serve(move |_, path| {
        thread::sleep(CALL / 2);
        let number =
            path.split_once("continuation-token=").map_or(0, |(_, rest)| usize::from(rest.as_bytes()[0] - b'0'));
        match number {
            3 if stalls.load(Ordering::Relaxed) => ScriptedReply::Stall(String::new()),
            3 => page(&["3".to_owned()], None),
            number => page(&[number.to_string()], Some(&(number + 1).to_string())),
        }
    }));
    assert_eq!(bucket.list("").unwrap().len(), 4);

    is_stalled.store(true, Ordering::Relaxed);
    assert!(fails_as_outage(|| bucket.list("")));
}

#[test]
fn one_call_finds_out_whether_an_outage_has_ended() {
    // Given a server that does not respond
    let requests = Arc::new(AtomicUsize::new(0));
    let is_restored = Arc::new(AtomicBool::new(false));
    let count = Arc::clone(&requests);
    let restored = Arc::clone(&is_restored);
    let bucket = bucket_at(serve(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        if restored.load(Ordering::Relaxed) { content("key") } else { ScriptedReply::Stall(String::new()) }
    }));
    assert!(fails_as_outage(|| bucket.get("key")));
    assert!(fails_as_outage(|| bucket.get("key")));
    assert_eq!(requests.load(Ordering::Relaxed), 1, "the second call fails at once");

    // When many calls begin after the pause
    thread::sleep(Duration::from_millis(1100));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert!(fails_as_outage(|| bucket.get("key"))));
        }
    });

    // Then one of them is sent, and when the server is back, everything works
    assert_eq!(requests.load(Ordering::Relaxed), 2);
    is_restored.store(true, Ordering::Relaxed);
    eventually_blocking("the bucket is usable", || bucket.get("key").is_ok());
    for _ in 0..16 {
        bucket.get("key").unwrap();
    }
}

#[test]
fn a_refused_call_is_not_an_outage_but_a_failed_server_is() {
    let bucket = bucket_at(serve(|_, path| match path {
        "/files/invalid" => status("400 Bad Request"),
        "/files/forbidden" => status("403 Forbidden"),
        "/files/failed" => status("500 Internal Server Error"),
        _ => content("key"),
    }));
    for refused in ["invalid", "forbidden"] {
        assert!(!fails_as_outage(|| bucket.get(refused)));
        bucket.get("key").unwrap();
    }
    let patient = bucket.with_times(CallTimes { call: END_TIME_MAX, ..CallTimes::default() });
    assert!(fails_as_outage(|| patient.get("failed")));
    assert!(fails_as_outage(|| patient.get("key")));
}

#[test]
fn an_upload_that_cannot_be_removed_does_not_keep_other_files() {
    // Given expired uploads and an unused input in a bucket that keeps the first of them
    let environment = Environment::system();
    let [first, second, owner] = [(); 3].map(|()| environment.random_uuid());
    let digest = "a5".repeat(32);
    let upload = |id| format!("media/uploads/{owner}/{id}.1000.{digest}.png");
    let [stuck, other] = [first, second].map(upload);
    let input = format!("media/inputs/a5/{digest}.png");
    let (sender, removed) = mpsc::channel();
    let refused = format!("/files/{stuck}");
    let uploads = vec![stuck, other.clone()];
    let inputs = vec![input.clone()];
    let address = serve(move |method, path| match method {
        "get" if path.contains("uploads") => page(&uploads, None),
        "get" if path.contains("inputs") => page(&inputs, None),
        "get" => page(&[], None),
        "delete" if path == refused => status("403 Forbidden"),
        "delete" => {
            let _ = sender.send(path.trim_start_matches("/files/").to_owned());
            status("204 No Content")
        }
        _ => ScriptedReply::Whole(object(1)),
    });

    // When the files are swept
    let directory = tempfile::tempdir().unwrap();
    let tree = FileTree::with_bucket(directory.path(), Arc::new(bucket_at(address)), &environment).subtree("media");
    let store = MediaStore::open_with(tree, PartFiles::new(FileSharing::Shared, &environment)).unwrap();
    assert!(environment.now() > Timestamp::from_micros(1000), "the uploads have not expired");
    store.sweep_bucket(&|_| false).unwrap_err();

    // Then the other upload and the input are removed
    let mut removed: Vec<_> = removed.try_iter().collect();
    removed.sort();
    assert_eq!(removed, [input, other]);
}
