//! Archives larger than the free space above the reserve: rejected before the body if they declare their length.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::*;

const MIB: u64 = 1 << 20;
const DISK: u64 = 40;
const RESERVE: u64 = 4;

/// Sends the head of an upload, with this header.
async fn begin_upload(service: &LimitedService, link: &str, header: &str) -> (OwnedReadHalf, OwnedWriteHalf) {
    let base = service.process.url("");
    let mut connection = TcpStream::connect(base.trim_start_matches("http://")).await.unwrap();
    let path = &link[link.find("/uploads/").expect("an upload link")..];
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.into_split()
}

/// Reads the response, as far as it arrives.
async fn read_response(mut from: OwnedReadHalf) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        text.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn check_refused(response: &str) {
    assert!(response.starts_with("HTTP/1.1 507 "), "{response}");
    assert!(response.contains("disk full") && response.contains("(storage.reserve_mib)"), "{response}");
}

fn free_bytes(disk: &SmallDisk) -> u64 {
    let stats = rustix::fs::statvfs(disk.path("")).unwrap();
    stats.f_bavail * stats.f_frsize
}

/// Sends zeros in chunks until the length is reached or the service stops reading.
async fn send_without_length(mut to: OwnedWriteHalf, bytes: u64) {
    let chunk = [b"10000\r\n".as_slice(), &vec![0; 0x10000], b"\r\n"].concat();
    for _ in 0..bytes / 0x10000 {
        if to.write_all(&chunk).await.is_err() {
            return;
        }
    }
}

#[actix_web::test]
async fn an_archive_larger_than_the_free_space_is_rejected() {
    let Some(disk) = SmallDisk::mount(DISK) else {
        eprintln!("SKIPPED: no small file system can be mounted here; the unit tests of `space` say the same");
        return;
    };
    let data = disk.path("data");
    let service = LimitedService::start(&data, RESERVE);
    let link = service.fill_registry().await["upload"].as_str().unwrap().to_owned();
    let incoming = || fs::read_dir(data.join("archives/incoming")).unwrap().count();

    // When it declares its length, then it is rejected before any of the body is sent
    let (from, _writer) = begin_upload(&service, &link, &format!("Content-Length: {}", DISK * MIB)).await;
    check_refused(&read_response(from).await);
    assert_eq!(incoming(), 0);

    // When it does not, then it is rejected at the reserve, however fast it arrives
    let (over, minimum) = (Arc::new(AtomicBool::new(false)), free_bytes(&disk));
    let watching = {
        let (over, mount_path) = (Arc::clone(&over), disk.path(""));
        std::thread::spawn(move || {
            let mut minimum = minimum;
            while !over.load(Ordering::SeqCst) {
                let stats = rustix::fs::statvfs(&mount_path).unwrap();
                minimum = minimum.min(stats.f_bavail * stats.f_frsize);
                std::thread::yield_now();
            }
            minimum
        })
    };
    let (from, to) = begin_upload(&service, &link, "Transfer-Encoding: chunked").await;
    let (response, ()) = tokio::join!(read_response(from), send_without_length(to, DISK * MIB));
    over.store(true, Ordering::SeqCst);
    check_refused(&response);
    let minimum = watching.join().unwrap();
    assert!((RESERVE - 1) * MIB < minimum && minimum < 2 * RESERVE * MIB, "at the worst {minimum} bytes were free");

    // And the partial file is removed, so that a smaller one fits
    eventually_blocking("the file is removed", || incoming() == 0);
    let request = service.request(Method::PUT, &link).body(crate::support::zip::valid_archive());
    let (status, _, version) = service.send(request).await;
    assert_eq!(status, 200, "{version}");
    service.check_log_after_stop(&data);
}
