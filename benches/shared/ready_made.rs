//! Baseline for the service: a server on the same framework that sends stored responses.
//!
//! `PUT /store` stores the body as the response for the path and query in `x-stored-path`, with the headers in
//! `x-stored-headers` (`name=value`, separated by `|`). All other requests get the stored response, with the
//! headers of the service's response, so that both servers send the same number of bytes.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::web::{self, Bytes, Data};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};

use crate::http::{Connection, request};

/// Response with its headers.
#[derive(Clone)]
struct StoredPage {
    body: Bytes,
    headers: Vec<(HeaderName, HeaderValue)>,
}

type StoredPages = Arc<RwLock<HashMap<String, StoredPage>>>;

/// Prints the base URL of the server, and serves until the process gets a signal.
pub fn serve(workers: usize) {
    let pages = StoredPages::default();
    actix_web::rt::System::new().block_on(async move {
        let server = HttpServer::new(move || {
            let store_route = web::put()
                .guard(actix_web::guard::fn_guard(|context| context.head().headers().contains_key("x-stored-path")))
                .to(store_page);
            App::new()
                .app_data(Data::new(pages.clone()))
                .app_data(web::PayloadConfig::new(16 << 20))
                .route("/ready", web::get().to(HttpResponse::Ok))
                .route("/store", store_route)
                .default_service(web::to(serve_page))
        });
        let server = server.workers(workers).bind(("127.0.0.1", 0)).expect("a free port");
        println!("http://{}", server.addrs()[0]);
        server.run().await.expect("the server runs");
    });
}

async fn store_page(request: HttpRequest, pages: Data<StoredPages>, body: Bytes) -> HttpResponse {
    let header =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    let header_list = header("x-stored-headers");
    let fields = header_list.split('|').filter_map(|field| field.split_once('='));
    let headers = fields.filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?))).collect();
    pages.write().expect("lock not poisoned").insert(header("x-stored-path"), StoredPage { body, headers });
    HttpResponse::NoContent().finish()
}

/// Sends the stored response for the path and query, after reading the whole body of the request.
async fn serve_page(request: HttpRequest, pages: Data<StoredPages>, _body: Bytes) -> HttpResponse {
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    let stored = pages.read().expect("lock not poisoned").get(target).cloned();
    let Some(stored) = stored else { return HttpResponse::NotFound().finish() };
    let mut response = HttpResponse::Ok();
    for (name, value) in &stored.headers {
        response.insert_header((name.clone(), value.clone()));
    }
    response.body(stored.body)
}

/// Sends a request to the service and stores the response in the baseline server.
pub async fn record(
    service: &mut Connection,
    ready_made: &mut Connection,
    method: &str,
    path: &str,
    token: &str,
    body: &str,
) {
    let response = service.exchange(&request(method, path, token, body)).await;
    assert_eq!(response.status, 200, "{path}: {}", String::from_utf8_lossy(response.body));
    // The framework adds these headers to every response.
    let framework_headers = ["content-length", "date", "connection"];
    let fields = response.head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let kept = fields.filter(|(name, _)| !framework_headers.contains(&name.to_ascii_lowercase().as_str()));
    let headers: Vec<_> = kept.map(|(name, value)| format!("{name}={value}")).collect();
    let head = format!(
        "PUT /store HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Stored-Path: {path}\r\nX-Stored-Headers: {}\r\n\
         Content-Length: {}\r\n\r\n",
        headers.join("|"),
        response.body.len()
    );
    let store_response = ready_made.exchange(&[head.as_bytes(), response.body].concat()).await;
    assert_eq!(store_response.status, 204, "the response for {path} was not stored");
}
