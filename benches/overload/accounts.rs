//! Accounts with a publisher and nodes each, created over HTTP before the measurements.

use std::path::Path;

use serde_json::{Value, json};

use crate::Options;
use crate::http::{Connection, request};
use crate::limits;
use crate::service::{TOKEN, block_on};

/// Number of nodes of each account.
pub const NODES_EACH: usize = 128;

/// User with a token, who owns a publisher.
#[derive(Debug, Clone)]
pub struct Account {
    pub token: String,
    /// Id of the publisher.
    pub publisher: String,
}

impl Account {
    /// Returns the path of one of the account's nodes; `index` may exceed their number.
    #[must_use]
    pub fn node(&self, index: usize) -> String {
        format!("/publishers/{0}/nodes/{0}-{1}", self.publisher, index % NODES_EACH)
    }
}

/// Returns the id of a node of the catalogue, the target of reads.
#[must_use]
pub fn catalogue_node(index: usize) -> String {
    format!("node-{index:06}")
}

/// Fills a data directory with the catalogue and `count` accounts, over a service with its rate limits switched off.
#[must_use]
pub fn fill(options: &Options, data_dir: &Path, count: usize) -> Vec<Account> {
    let service = options.start(data_dir, &limits::lifted());
    let accounts = block_on(async {
        let mut connection = Connection::open(&service.address).await;
        create(&mut connection, "/publishers", &json!({"id": "catalogue", "name": "Catalogue"})).await;
        for index in 0..options.nodes {
            create(&mut connection, "/publishers/catalogue/nodes", &catalogue_body(index)).await;
        }
        let mut accounts = Vec::new();
        for index in 0..count {
            accounts.push(create_account(&mut connection, index).await);
        }
        accounts
    });
    service.stop();
    accounts
}

/// Returns the body that creates a node: about 1.3 KB in a list, like the nodes of the registry benchmark.
fn catalogue_body(index: usize) -> Value {
    json!({
        "id": catalogue_node(index),
        "name": format!("Node number {index}"),
        "description": "Masks, crops and relights faces in batches, and keeps what it has found out. ".repeat(8),
        "tags": ["faces", "masks"],
        "supported_os": ["Linux", "Windows"],
        "downloads": index * 7919 % 100_000,
        "latest_version": {"version": "1.0.0", "changelog": "Fixed the mask. ".repeat(16), "dependencies": ["numpy>=1.26"]},
    })
}

/// Creates a user with a token, a publisher and its nodes.
async fn create_account(connection: &mut Connection, index: usize) -> Account {
    let name = format!("account-{index}");
    let user = json!({"name": name, "email": format!("{name}@example.org")});
    let user = create(connection, "/admin/users", &user).await;
    let path = format!("/admin/users/{}/tokens", user["id"].as_str().expect("an id"));
    let token = create(connection, &path, &json!({"name": "overload"})).await;
    let token = token["token"].as_str().expect("a token").to_owned();

    create_as(connection, &token, "/publishers", &json!({"id": name, "name": name})).await;
    for node in 0..NODES_EACH {
        let body = json!({"id": format!("{name}-{node}"), "latest_version": {"version": "1.0.0"}});
        create_as(connection, &token, &format!("/publishers/{name}/nodes"), &body).await;
    }
    Account { token, publisher: name }
}

/// Creates a resource as the administrator and returns the body of the response.
async fn create(connection: &mut Connection, path: &str, body: &Value) -> Value {
    create_as(connection, TOKEN, path, body).await
}

/// Creates a resource and returns the body of the response; panics unless its status is 201.
async fn create_as(connection: &mut Connection, token: &str, path: &str, body: &Value) -> Value {
    let response = connection.exchange(&request("POST", path, token, &body.to_string())).await;
    assert_eq!(response.status, 201, "{path}: {}", String::from_utf8_lossy(response.body));
    serde_json::from_slice(response.body).expect("JSON")
}
