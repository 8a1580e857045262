//! Methods of every path, and HEAD for every GET. Permissions: `rights.rs`.

use reqwest::Method;

use crate::support::TestApp;

#[actix_web::test]
async fn an_unsupported_method_is_405_with_allow() {
    let app = TestApp::start().await;
    for (method, path, allow) in [
        (Method::DELETE, "/nodes", "GET, HEAD"),
        (Method::PATCH, "/publishers/acme", "GET, HEAD, PUT, DELETE"),
        (Method::GET, "/publishers/acme/members/x", "PUT, DELETE"),
        (Method::PUT, "/publishers", "GET, HEAD, POST"),
        (Method::POST, "/health", "GET, HEAD"),
        (Method::OPTIONS, "/nodes", "GET, HEAD"),
    ] {
        let response = app.send(app.request(method.clone(), path)).await.expect(405);
        assert_eq!(response.header("allow"), Some(allow), "{method} {path}");
        assert_eq!(response.json()["error"], "method_not_allowed");
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_misspelled_path_is_404_with_suggestions() {
    const IMAGES: &str = "/proxy/imagevendor/v1/ai";
    let app = TestApp::start().await;
    let modes =
        format!("{IMAGES}/skin-enhancer/creative, {IMAGES}/skin-enhancer/faithful, {IMAGES}/skin-enhancer/flexible");
    let videos = "/proxy/videovendor/extend, /proxy/videovendor/multiframe, /proxy/videovendor/reference2video, \
                 /proxy/videovendor/start-end2video, /proxy/videovendor/tasks/{task_id}/cancel";
    for (method, path, named) in [
        (Method::POST, "/proxy/imagevendor/v1/ai/skin-enhancer/creativ", modes.as_str()),
        (Method::POST, "/proxy/videovendor/start-end-2video", videos),
        (Method::POST, "/proxy/musicvendor/t2m/generat", "/proxy/musicvendor/t2m/generate"),
        (Method::GET, "/proxy/videovendor/creations", "/proxy/videovendor/tasks/{task_id}/creations"),
    ] {
        let response = app.send(app.request(method.clone(), path)).await.expect(404);
        assert_eq!(response.json()["error"], "not_found");
        let expected = format!("path not found; {method} is available at {named}");
        assert_eq!(response.json()["detail"], expected, "{method} {path}");
    }
    let response = app.send(app.request(Method::GET, "/elsewhere")).await.expect(404);
    assert_eq!(response.json()["detail"], "path not found");

    // But methods that a status path lacks are a different case
    app.send(app.request(Method::DELETE, &format!("{IMAGES}/skin-enhancer/x"))).await.expect(405);
    app.send(app.request(Method::POST, &format!("{IMAGES}/image-upscaler/x"))).await.expect(405);
    let status = format!("{IMAGES}/skin-enhancer/3ce8ab0d-2f5b-4a5e-9d0c-6f1b7f0a9c11");
    let response = app.send(app.request(Method::POST, &status)).await.expect(405);
    assert_eq!(response.header("allow"), Some("GET, HEAD"));
    app.stop().await;
}

#[actix_web::test]
async fn head_equals_get_without_a_body() {
    let app = TestApp::start().await;
    for path in ["/health", "/nodes", "/.well-known/webhook-key"] {
        let get = app.get(path).await;
        let head = app.send(app.request(Method::HEAD, path)).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        for name in ["content-type", "content-length", "etag"] {
            assert_eq!(head.header(name), get.header(name), "{path} {name}");
        }
    }
    app.send(app.request(Method::HEAD, "/nodes/none")).await.expect(404);
    app.stop().await;
}
