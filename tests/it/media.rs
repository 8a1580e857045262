//! Result files: complete, byte ranges, and conditional requests.

use std::io::Cursor;

use image::{Rgba, RgbaImage};
use mediary::domain::image::ImageFormat;
use mediary::media::store::{MediaArea, MediaStore};
use reqwest::Method;

use crate::support::picture::png;
use crate::support::{TestApp, TestResponse};

/// Starts a service with one result of 200,000 non-repeating bytes.
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
async fn files_are_complete_and_cached_as_immutable() {
    let (app, path, bytes) = app_with_result().await;
    let full = get_with_headers(&app, &path, &[("accept-encoding", "gzip, br")]).await.expect(200);
    assert!(full.body == bytes, "the response has other bytes");

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
async fn unsatisfiable_ranges_are_416_and_unknown_ones_ignored() {
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
async fn a_thumbnail_of_a_transparent_picture_is_a_png() {
    let app = TestApp::start().await;
    let store = MediaStore::open(&app.dir.path().join("media")).expect("a store");
    // Noise, so that the file is too large to be sent as its own thumbnail
    let pixels = RgbaImage::from_fn(256, 128, |x, y| {
        Rgba([(x * 7919 % 251) as u8, (y * 104_729 % 241) as u8, (x * y % 239) as u8, 0])
    });
    let mut original = Vec::new();
    pixels.write_to(&mut Cursor::new(&mut original), image::ImageFormat::Png).expect("a picture");
    let picture = store.put(MediaArea::Result, &original, ImageFormat::Png, 256, 128).expect("stored");
    let path = format!("/media/{}?thumbnail=small", picture.file_name());

    let thumbnail = app.get(&path).await.expect(200);

    assert_eq!(thumbnail.header("content-type"), Some("image/png"));
    let shown = image::load_from_memory(&thumbnail.body).expect("a picture").to_rgba8();
    assert_eq!(shown.dimensions(), (128, 64));
    assert!(shown.pixels().all(|pixel| pixel.0[3] == 0));
    let head = app.send(app.request(Method::HEAD, &path)).await.expect(200);
    assert_eq!((head.header("etag"), head.body.len()), (thumbnail.header("etag"), 0));
    app.stop().await;
}

#[actix_web::test]
async fn a_thumbnail_is_a_small_jpeg_of_a_picture() {
    // Given a large result
    let app = TestApp::start().await;
    let store = MediaStore::open(&app.dir.path().join("media")).expect("a store");
    let original = png(1600, 800);
    let picture = store.put(MediaArea::Result, &original, ImageFormat::Png, 1600, 800).expect("stored");
    let path = format!("/media/{}", picture.file_name());

    // When its thumbnails are requested, then they are small pictures with the same aspect ratio, which can be cached
    for (size, side) in [("small", 128), ("large", 400)] {
        for _ in 0..2 {
            let thumbnail = app.get(&format!("{path}?thumbnail={size}")).await.expect(200);
            assert_eq!(thumbnail.header("content-type"), Some("image/jpeg"));
            assert_eq!(thumbnail.header("cache-control"), Some("public, max-age=31536000, immutable"));
            let shown = image::load_from_memory(&thumbnail.body).expect("a picture");
            assert_eq!((shown.width(), shown.height()), (side, side / 2));
            assert!(thumbnail.body.len() < 30_000 && thumbnail.body.len() * 4 < original.len());
            let tag = thumbnail.header("etag").expect("a tag").to_owned();
            get_with_headers(&app, &format!("{path}?thumbnail={size}"), &[("if-none-match", &tag)]).await.expect(304);
        }
    }
    assert_eq!(app.get(&path).await.expect(200).body, original);
    app.get(&format!("{path}?thumbnail=huge")).await.expect(400);

    // And a file that is small, or not a picture, is sent unchanged
    let broken = store.put(MediaArea::Result, &vec![7; 20_000], ImageFormat::Png, 1, 1).expect("stored");
    let shown = app.get(&format!("/media/{}?thumbnail=small", broken.file_name())).await.expect(200);
    assert_eq!((shown.header("content-type"), shown.body.len()), (Some("image/png"), 20_000));
    let small = store.put(MediaArea::Result, &png(8, 8), ImageFormat::Png, 8, 8).expect("stored");
    assert_eq!(app.get(&format!("/media/{}?thumbnail=small", small.file_name())).await.expect(200).body, png(8, 8));

    // And a deleted one is gone
    std::fs::remove_file(store.path_of(MediaArea::Result, &picture.file_name()).unwrap()).unwrap();
    app.get(&format!("{path}?thumbnail=small")).await.expect(404);
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
