//! Result files: complete, byte ranges, and conditional requests.

use mediary::domain::image::ImageFormat;
use mediary::media::store::{MediaArea, MediaStore};
use reqwest::Method;

use crate::support::{TestApp, TestResponse};

/// Service with one result of 200 000 non-repeating bytes.
async fn app_with_result() -> (TestApp, String, Vec<u8>) {
    let app = TestApp::start().await;
    let bytes: Vec<u8> = (0..200_000_u32).flat_map(|n| n.to_be_bytes().into_iter().skip(3)).collect();
    let store = MediaStore::open(&app.dir.path().join("media")).expect("a store");
    let picture = store.put(MediaArea::Result, &bytes, ImageFormat::Png, 1, 1).expect("stored");
    (app, format!("/media/{}", picture.file_name()), bytes)
}

async fn get_with_headers(app: &TestApp, path: &str, headers: &[(&'static str, &str)]) -> TestResponse {
    let request = app.request(Method::GET, path);
    app.send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

#[actix_web::test]
async fn files_are_immutable() {
    let (app, path, bytes) = app_with_result().await;
    let full = get_with_headers(&app, &path, &[("accept-encoding", "gzip, br")]).await.expect(200);
    assert!(full.body == bytes, "the bytes are those that were stored");

    let hash = path.trim_start_matches("/media/").trim_end_matches(".png");
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-length", "200000"),
        ("accept-ranges", "bytes"),
        ("cache-control", "public, max-age=31536000, immutable"),
        ("etag", &format!("\"{hash}\"")),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(full.header(name), Some(value), "{name}");
    }
    assert_eq!(full.header("content-encoding"), None);

    let head = app.send(app.request(Method::HEAD, &path)).await.expect(200);
    assert_eq!((head.header("content-length"), head.body.len()), (Some("200000"), 0));
    app.stop().await;
}

#[actix_web::test]
async fn parts_of_a_file_are_served() {
    let (app, path, bytes) = app_with_result().await;
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=1000-150000", 1000, 150_001),
        ("bytes=199999-", 199_999, 200_000),
        ("bytes=-7", 199_993, 200_000),
        ("bytes=5-999999", 5, 200_000),
    ] {
        let part = get_with_headers(&app, &path, &[("range", range)]).await.expect(206);
        assert!(part.body == bytes[from..to], "{range}");
        let content_range = format!("bytes {from}-{}/200000", to - 1);
        assert_eq!(part.header("content-range"), Some(content_range.as_str()));
        assert_eq!(part.header("content-length"), Some((to - from).to_string().as_str()));
    }
    app.stop().await;
}

#[actix_web::test]
async fn multiple_ranges_are_multipart() {
    let (app, path, bytes) = app_with_result().await;
    let parts = get_with_headers(&app, &path, &[("range", "bytes=0-9, 70000-140000")]).await.expect(206);
    let content_type = parts.header("content-type").unwrap();
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").expect("a boundary").trim_matches('"');
    let head = |range: &str| {
        format!("\r\n--{boundary}\r\nContent-Type: image/png\r\nContent-Range: bytes {range}/200000\r\n\r\n")
            .into_bytes()
    };
    let expected = [
        head("0-9"),
        bytes[0..10].to_vec(),
        head("70000-140000"),
        bytes[70_000..140_001].to_vec(),
        format!("\r\n--{boundary}--\r\n").into_bytes(),
    ];
    assert!(parts.body == expected.concat());
    app.stop().await;
}

#[actix_web::test]
async fn unsatisfiable_and_unknown_ranges() {
    let (app, path, _) = app_with_result().await;
    let problem = get_with_headers(&app, &path, &[("range", "bytes=200000-")]).await.expect(416);
    assert_eq!(problem.header("content-range"), Some("bytes */200000"));
    assert_eq!(problem.json()["error"], "range_not_satisfiable");
    for ignored in ["lines=1-2", "bytes=9-1", "bytes=x"] {
        get_with_headers(&app, &path, &[("range", ignored)]).await.expect(200);
    }
    app.stop().await;
}

#[actix_web::test]
async fn conditional_requests_compare_the_hash() {
    let (app, path, _) = app_with_result().await;
    let tag = get_with_headers(&app, &path, &[]).await.header("etag").unwrap().to_owned();
    let not_modified =
        get_with_headers(&app, &path, &[("if-none-match", &tag), ("range", "bytes=0-1")]).await.expect(304);
    assert_eq!((not_modified.body.len(), not_modified.header("etag")), (0, Some(tag.as_str())));
    get_with_headers(&app, &path, &[("if-none-match", "\"other\"")]).await.expect(200);
    get_with_headers(&app, &path, &[("if-range", &tag), ("range", "bytes=0-1")]).await.expect(206);
    get_with_headers(&app, &path, &[("if-range", "\"other\""), ("range", "bytes=0-1")]).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn only_results_are_served() {
    let (app, path, bytes) = app_with_result().await;
    let store = MediaStore::open(&app.dir.path().join("media")).expect("a store");
    let input = store.put(MediaArea::Input, &bytes[1..], ImageFormat::Png, 1, 1).expect("stored");
    app.get(&format!("/media/{}", input.file_name())).await.expect(404);
    app.get(&path.replace(".png", ".jpg")).await.expect(404);
    for name in ["x", "..%2f..%2fadmin-token", "..%2fadmin-token", &path[7..20]] {
        app.get(&format!("/media/{name}")).await.expect(404);
    }
    app.stop().await;
}
