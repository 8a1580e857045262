//! `Host` header: a page whose name resolves to this machine (DNS rebinding) reaches nothing; clients and probes that
//! use a configured name are served.

use mediary::config::Settings;
use mediary::environment::Environment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::TestApp;

/// Sends bytes on a new connection and reads the response to its end.
async fn exchange(app: &TestApp, request: &str) -> String {
    let mut connection = TcpStream::connect(("127.0.0.1", app.app.address().port())).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    connection.read_to_end(&mut response).await.unwrap();
    String::from_utf8(response).unwrap()
}

/// Returns the status of `GET` on a path with a `Host`.
async fn status(app: &TestApp, path: &str, host: &str) -> u16 {
    let response = exchange(app, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await;
    status_of(&response)
}

fn status_of(response: &str) -> u16 {
    response.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status: {response}"))
}

async fn start(change: impl FnOnce(&mut Settings)) -> TestApp {
    TestApp::start_with(change, Environment::system()).await
}

#[actix_web::test]
async fn on_loopback_only_local_and_public_hosts_are_served() {
    // Given a service on loopback that has a public URL
    let app = start(|settings| settings.public_url = Some("https://media.example/base".to_owned())).await;
    let port = app.app.address().port();

    // Then local names and the public name are accepted, with any port
    for host in ["localhost", "127.0.0.1", "[::1]", "LocalHost", "media.example"] {
        for host in [host.to_owned(), format!("{host}:{port}")] {
            assert_eq!(status(&app, "/nodes", &host).await, 200, "{host}");
        }
    }

    // And other host names are rejected for every path: a page could otherwise read probes and the console
    for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "media.example.evil.example:443", ""] {
        for path in ["/nodes", "/health", "/metrics", "/", "/no/such/path"] {
            assert_eq!(status(&app, path, host).await, 421, "{host} {path}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_rejected_host_is_a_problem_with_the_remedy() {
    let app = TestApp::start().await;

    let response = app.send(app.request(reqwest::Method::POST, "/publishers").header("host", "evil.example")).await;

    let response = response.expect(421);
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    let problem = response.json();
    assert_eq!(problem["error"], "misdirected_request", "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(["evil.example", "localhost", "allowed_hosts"].iter().all(|word| detail.contains(word)), "{detail}");
    app.stop().await;
}

#[actix_web::test]
async fn the_request_target_and_every_host_header_are_checked() {
    let app = TestApp::start().await;
    for (request, expected) in [
        ("GET http://evil.example/nodes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 421),
        ("GET http://localhost/nodes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
        ("GET /nodes HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
        ("GET /nodes HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        ("GET /nodes HTTP/1.0\r\n\r\n", 200),
        ("POST /bulk/nodes/versions HTTP/1.0\r\nContent-Length: 0\r\n\r\n", 400),
    ] {
        let response = exchange(&app, request).await;
        // The framework may reject two hosts itself.
        let status = status_of(&response);
        assert!(status == expected || (request.matches("Host").count() == 2 && status == 400), "{request}{response}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn beyond_loopback_probes_accept_any_host() {
    // Given a service on a public address, with a public URL and another allowed host
    let app = start(|settings| {
        settings.listen.set_ip([0, 0, 0, 0].into());
        settings.public_url = Some("https://media.example".to_owned());
        settings.allowed_hosts = vec!["media.internal".to_owned()];
    })
    .await;

    for host in ["media.example", "media.internal:8080", "localhost", "127.0.0.1"] {
        assert_eq!(status(&app, "/nodes", host).await, 200, "{host}");
    }
    for host in ["evil.example", "10.1.2.3:8080"] {
        assert_eq!(status(&app, "/nodes", host).await, 421, "{host}");
        for probe in ["/health", "/ready", "/metrics"] {
            assert_eq!(status(&app, probe, host).await, 200, "{host} {probe}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn without_configured_names_any_host_is_accepted() {
    let app = start(|settings| settings.listen.set_ip([0, 0, 0, 0].into())).await;
    assert_eq!(status(&app, "/nodes", "media.example").await, 200);
    app.stop().await;

    let app = start(|settings| settings.allowed_hosts = vec!["*".to_owned()]).await;
    assert_eq!(status(&app, "/nodes", "media.example").await, 200);
    app.stop().await;
}
