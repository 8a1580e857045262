//! Slow clients: endless heads, unread responses, and very many connections.

use std::time::{Duration, Instant};

use mediary::config::Settings;
use mediary::environment::Environment;
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::sleep;

use crate::support::TestApp;
use crate::support::eventually::{eventually, within};

/// Documented deadline for a request head.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);

const COMPLETE_HEAD: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
const HALF_HEAD: &[u8] = b"GET /health HTTP/1.1\r\nHost: loc";

async fn start(change: impl FnOnce(&mut Settings)) -> TestApp {
    TestApp::start_with(change, Environment::system()).await
}

async fn connect(app: &TestApp) -> TcpStream {
    TcpStream::connect(app.app.address()).await.unwrap()
}

/// Reads one response with the body `OK` on a persistent connection.
async fn read_health_response(connection: &mut TcpStream) -> String {
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\nOK") {
        response.push(within("a response", connection.read_u8()).await.unwrap());
    }
    String::from_utf8(response).unwrap()
}

/// Reads until the service closes, long before the timeout of an idle connection.
async fn read_until_closed(connection: &mut TcpStream) -> String {
    let mut received = Vec::new();
    within("the service closes the connection", connection.read_to_end(&mut received)).await.unwrap();
    String::from_utf8_lossy(&received).into_owned()
}

#[actix_web::test]
async fn request_heads_on_kept_alive_connections_have_a_deadline() {
    // Given connections with one response, and half a head sent after that response, or directly behind the request
    let app = TestApp::start().await;
    for together in [false, true] {
        let mut connection = connect(&app).await;
        let first = if together { [COMPLETE_HEAD, HALF_HEAD].concat() } else { COMPLETE_HEAD.to_vec() };
        connection.write_all(&first).await.unwrap();
        assert!(read_health_response(&mut connection).await.starts_with("HTTP/1.1 200"));
        if !together {
            connection.write_all(HALF_HEAD).await.unwrap();
        }

        // Then they get an error and are closed in time
        let received = read_until_closed(&mut connection).await;
        assert!(received.starts_with("HTTP/1.1 408"), "{together}: {received}");
    }
}

#[actix_web::test]
async fn an_idle_connection_stays_open_and_a_timely_head_is_served() {
    let app = TestApp::start().await;
    let mut connection = connect(&app).await;
    connection.write_all(COMPLETE_HEAD).await.unwrap();
    read_health_response(&mut connection).await;

    // Idle for longer than a head may take, then a head in two parts.
    sleep(HEAD_DEADLINE + Duration::from_secs(1)).await;
    connection.write_all(&COMPLETE_HEAD[..10]).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    connection.write_all(&COMPLETE_HEAD[10..]).await.unwrap();

    assert!(read_health_response(&mut connection).await.starts_with("HTTP/1.1 200"));
}

#[actix_web::test]
async fn hundreds_of_incomplete_heads_block_new_clients_only_until_the_deadline() {
    // Given a service whose connections are all used by half heads, most of them on persistent connections
    let connection_count = 300;
    let app = start(|settings| {
        settings.limits.connections = connection_count;
        settings.limits.connections_per_address = connection_count;
    })
    .await;
    let mut open_connections = Vec::new();
    for _ in 0..connection_count {
        let mut connection = connect(&app).await;
        connection.write_all(COMPLETE_HEAD).await.unwrap();
        read_health_response(&mut connection).await;
        connection.write_all(HALF_HEAD).await.unwrap();
        open_connections.push(connection);
    }

    // When a client connects, then it is served in time
    let mut client = connect(&app).await;
    client.write_all(COMPLETE_HEAD).await.unwrap();
    let response = read_health_response(&mut client).await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    drop(open_connections);
}

#[actix_web::test]
async fn one_address_gets_at_most_its_share_of_connections() {
    // Given an address with its maximum of connections
    let app = start(|settings| settings.limits.connections_per_address = 3).await;
    let mut open_connections = Vec::new();
    for _ in 0..3 {
        let mut connection = connect(&app).await;
        connection.write_all(COMPLETE_HEAD).await.unwrap();
        read_health_response(&mut connection).await;
        open_connections.push(connection);
    }

    // When it opens another one, then that is refused
    let mut extra_connection = connect(&app).await;
    let response = read_until_closed(&mut extra_connection).await;
    assert!(response.starts_with("HTTP/1.1 503") && response.contains("retry-after: "), "{response}");

    // And when it closes one, then another is served
    open_connections.pop();
    eventually("a connection is accepted again", async || {
        let mut connection = connect(&app).await;
        let mut status = [0; 12];
        connection.write_all(COMPLETE_HEAD).await.is_ok()
            && connection.read_exact(&mut status).await.is_ok()
            && &status == b"HTTP/1.1 200"
    })
    .await;
}

/// Opens a connection with a small window and requests far more than any buffer holds.
async fn request_much(app: &TestApp) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(32 * 1024).unwrap();
    let mut connection = socket.connect(app.app.address()).await.unwrap();
    let request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(30);
    connection.write_all(&request).await.unwrap();
    connection
}

#[actix_web::test]
async fn a_client_that_reads_nothing_is_disconnected() {
    // Given a client that requests a large response and reads none of it
    let app = start(|settings| settings.limits.write_timeout = Duration::from_secs(1)).await;
    let connection = request_much(&app).await;

    // Then the service resets the connection
    eventually("the connection is reset", async || {
        sleep(Duration::from_millis(100)).await;
        connection.try_write(b"\r\n").is_err()
    })
    .await;
}

#[actix_web::test]
async fn a_slow_but_reading_client_is_served() {
    // Given a client whose pauses are each shorter than the timeout, and longer in total
    let write_timeout = Duration::from_secs(2);
    let app = start(|settings| settings.limits.write_timeout = write_timeout).await;
    let length = app.send(app.request(Method::GET, "/openapi.json")).await.expect(200).body.len();
    let mut connection = request_much(&app).await;
    let started = Instant::now();
    let mut bytes_read = 0;
    let mut piece = vec![0; 64 * 1024];

    while started.elapsed() < write_timeout * 3 {
        sleep(Duration::from_millis(100)).await;
        bytes_read += within("more bytes", connection.read(&mut piece)).await.unwrap();
    }

    // Then it gets the complete response
    while bytes_read < length * 30 {
        let count = within("more bytes", connection.read(&mut piece)).await.unwrap();
        assert!(count > 0, "the connection ended after {bytes_read} bytes");
        bytes_read += count;
    }
}
