//! Comparison of all lists of nodes and of the bulk lookup with the model.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use reqwest::Method;
use semver::VersionReq;
use serde_json::{Value, json};

use super::clients::{CheckResult, ModelClients};
use super::entities::{Node, text};
use super::op::{ModelQuery, NODES, PUBLISHERS, VERSIONS};
use super::resources;
use super::world::ModelWorld;

/// Compares the responses to all reads with the model.
pub async fn check_everything(clients: &ModelClients, world: &ModelWorld, queries: &[ModelQuery]) -> CheckResult {
    for node in world.nodes.keys() {
        clients.wait_for_installs(world, node).await?;
    }
    clients.check_replays().await?;
    resources::check_everything(clients, world).await?;
    for query in queries {
        match &query.search {
            None => check_list(clients, world, query).await?,
            Some(words) => check_search(clients, world, query, words).await?,
        }
    }
    check_bulk(clients, world).await
}

/// Returns an error with both values if they differ; `label` says what was read.
pub fn ensure_same<T: PartialEq + std::fmt::Debug>(label: &str, actual: &T, expected: &T) -> CheckResult {
    if actual == expected { Ok(()) } else { Err(format!("{label}: {actual:?}, the model says {expected:?}")) }
}

impl ModelQuery {
    /// Returns the index of the command at whose time the filter by time begins; `None` without that filter.
    fn changed_after(&self, clients: &ModelClients) -> Option<usize> {
        self.after.map(|after| after.index(clients.timestamps.len()))
    }

    /// Returns the query string for one page.
    fn query_string(&self, clients: &ModelClients, page: usize) -> String {
        let mut pairs = vec![format!("limit={}&page={page}", self.limit)];
        let sort_key =
            |(column, descending): &(&str, bool)| format!("sort={column}{}", if *descending { "%3Bdesc" } else { "" });
        pairs.extend(self.sort.iter().map(sort_key));
        pairs.extend(self.os.map(|os| format!("supported_os={os}")));
        pairs.extend(self.accelerator.map(|accelerator| format!("supported_accelerator={accelerator}")));
        pairs.extend(self.host_version.map(|version| format!("host_version={version}")));
        pairs.extend(self.form_factor.map(|form_factor| format!("form_factor={form_factor}")));
        pairs.extend(self.changed_after(clients).map(|after| format!("timestamp={}", clients.timestamps[after])));
        pairs.extend(self.nodes.iter().map(|node| format!("node_id={}", NODES[*node])));
        pairs.push(format!("include_banned={}&latest={}", self.include_banned, self.latest));
        pairs.extend(self.search.as_ref().map(|words| format!("search={}", words.join("+"))));
        pairs.join("&")
    }

    /// Returns `true` if the node passes every filter of the query.
    fn admits(&self, clients: &ModelClients, world: &ModelWorld, node: &Node) -> bool {
        let has_entry = |list: &str, requested: Option<&str>| {
            requested.is_none_or(|requested| node.entries(list).contains(&requested.to_lowercase()))
        };
        let supports_host = self.host_version.zip(node.host_range()).is_none_or(|(version, range)| {
            let version = semver::Version::parse(version).expect("a semantic version");
            VersionReq::parse(range).map_or(true, |range| range.matches(&version))
        });
        let is_requested =
            self.nodes.is_empty() || self.nodes.iter().any(|index| NODES[*index].eq_ignore_ascii_case(node.id));
        // Command `after` was sent at this time, and sets the clock of the model to `after + 1`.
        let is_recent = self.changed_after(clients).is_none_or(|after| node.updated.max(node.created) > after as u64);
        !node.deleted
            && (self.include_banned || world.is_public(node))
            && has_entry("supported_os", self.os)
            && has_entry("supported_accelerators", self.accelerator)
            && supports_host
            && self.runs_on(node)
            && is_requested
            && is_recent
    }

    /// Returns `true` if the node does not exclude the operating system of the requested form factor.
    fn runs_on(&self, node: &Node) -> bool {
        let system = match self.form_factor {
            Some("git-linux") => "linux",
            Some("desktop-win") => "windows",
            Some("git-mac") => "macos",
            _ => return true,
        };
        let declared = node.entries("supported_os");
        declared.is_empty() || declared.iter().any(|declared| declared == system)
    }
}

/// Reads all pages of a list, and the empty page after them, and checks the counts of each. Returns the ids of the
/// nodes.
async fn fetch_pages(
    clients: &ModelClients,
    path: &str,
    query: &ModelQuery,
    total: usize,
) -> Result<Vec<Value>, String> {
    let mut node_ids = Vec::new();
    for page in 1..=total.div_ceil(query.limit) + 1 {
        let query_string = query.query_string(clients, page);
        let page_url = format!("{path}?{query_string}");
        let page_body = if query.include_banned {
            clients.get_as_admin(&page_url).await
        } else {
            // The second response may come from the cache.
            let anonymous_body = clients.get_anonymously(&page_url).await;
            ensure_same(&query_string, &clients.get_anonymously(&page_url).await, &anonymous_body)?;
            anonymous_body
        };

        let counts = json!([page_body["total"], page_body["totalPages"], page_body["page"], page_body["limit"]]);
        ensure_same(&query_string, &counts, &json!([total, total.div_ceil(query.limit), page, query.limit]))?;
        let nodes = page_body["nodes"].as_array().expect("a list");
        let expected_count = query.limit.min(total.saturating_sub((page - 1) * query.limit));
        ensure_same(&query_string, &nodes.len(), &expected_count)?;
        node_ids.extend(nodes.iter().map(|node| node["id"].clone()));
    }
    Ok(node_ids)
}

/// Sorts by the requested columns, and then by id.
fn sorted<'w>(mut nodes: Vec<&'w Node>, query: &ModelQuery) -> Vec<&'w Node> {
    nodes.sort_by(|a, b| {
        let by_columns = query.sort.iter().map(|(column, descending)| {
            let order = compare_by(column, a, b);
            if *descending { order.reverse() } else { order }
        });
        let ties = a.id.to_lowercase().cmp(&b.id.to_lowercase());
        by_columns.fold(Ordering::Equal, Ordering::then).then(ties)
    });
    nodes
}

/// Compares the nodes of a query without a search, and their order.
async fn check_list(clients: &ModelClients, world: &ModelWorld, query: &ModelQuery) -> CheckResult {
    let admitted = world.nodes.values().filter(|node| query.admits(clients, world, node)).collect();
    let expected: Vec<_> = sorted(admitted, query).iter().map(|node| json!(node.id)).collect();
    let actual = fetch_pages(clients, "/nodes", query, expected.len()).await?;
    ensure_same(&query.query_string(clients, 0), &actual, &expected)
}

/// Compares two nodes by one column; nodes without a value come before those with one.
fn compare_by(column: &str, a: &Node, b: &Node) -> Ordering {
    let author = |node: &Node| text(&node.fields, "author").unwrap_or_default().to_lowercase();
    match column {
        "id" => a.id.to_lowercase().cmp(&b.id.to_lowercase()),
        "name" => a.name().to_lowercase().cmp(&b.name().to_lowercase()),
        "author" => author(a).cmp(&author(b)),
        "publisher" => PUBLISHERS[a.publisher].cmp(PUBLISHERS[b.publisher]),
        "created_at" => a.created.cmp(&b.created),
        "updated_at" => a.updated.cmp(&b.updated),
        "downloads" => a.downloads.cmp(&b.downloads),
        "rating" => a.rating().unwrap_or(0.0).total_cmp(&b.rating().unwrap_or(0.0)),
        numeric_column => a.number_field(numeric_column).cmp(&b.number_field(numeric_column)),
    }
}

/// Compares the nodes of a search in the requested order. Without a requested order the service ranks them, which the
/// model does not: then a node whose id equals the search must come first, and the others may have any order.
async fn check_search(clients: &ModelClients, world: &ModelWorld, query: &ModelQuery, words: &[&str]) -> CheckResult {
    let is_expected = |node: &&Node| query.admits(clients, world, node) && matches(world, node, words);
    let expected: Vec<_> = world.nodes.values().filter(is_expected).collect();
    let mut actual = fetch_pages(clients, "/nodes/search", query, expected.len()).await?;
    let mut expected: Vec<_> = sorted(expected, query).iter().map(|node| json!(node.id)).collect();
    if query.sort.is_empty() {
        let exact_match = world.nodes.values().filter(is_expected).find(|node| words == [node.id.to_lowercase()]);
        if let Some(exact_match) = exact_match {
            ensure_same(&query.query_string(clients, 0), &actual[0], &json!(exact_match.id))?;
        }
        for ids in [&mut actual, &mut expected] {
            ids.sort_by_key(ToString::to_string);
        }
    }
    ensure_same(&query.query_string(clients, 0), &actual, &expected)
}

/// Returns `true` if every word is a word of the node; the last one may be a prefix.
fn matches(world: &ModelWorld, node: &Node, words: &[&str]) -> bool {
    let field_text = |name| text(&node.fields, name).unwrap_or_default().to_owned();
    let publisher = PUBLISHERS[node.publisher];
    let mut texts = vec![node.id.to_owned(), field_text("name"), field_text("author"), field_text("description")];
    texts.extend([publisher.to_owned(), world.publishers[&node.publisher].name(publisher)]);
    let tags = node.fields.get("tags").and_then(Value::as_array).into_iter().flatten();
    texts.extend(tags.filter_map(|tag| tag.as_str().map(ToOwned::to_owned)));
    // The words of a text are also searchable as one word, as in `deltamask2`.
    let words_of = |text: &String| {
        let text = text.to_lowercase();
        let text_words: Vec<_> = text.split(|c: char| !c.is_alphanumeric()).map(ToOwned::to_owned).collect();
        let joined = text_words.concat();
        text_words.into_iter().chain([joined]).collect::<Vec<_>>()
    };
    let node_words: BTreeSet<String> = texts.iter().flat_map(words_of).collect();
    let (last, complete_words) = words.split_last().expect("at least one word");
    complete_words.iter().all(|word| node_words.contains(*word)) && node_words.iter().any(|word| word.starts_with(last))
}

/// Compares the bulk lookup of every version of every node, existing or not.
async fn check_bulk(clients: &ModelClients, world: &ModelWorld) -> CheckResult {
    let queries: Vec<_> = NODES.iter().flat_map(|node| VERSIONS.iter().map(move |version| (*node, *version))).collect();
    let body: Vec<_> = queries.iter().map(|(node, version)| json!({"node_id": node, "version": version})).collect();
    let (status, reply) =
        clients.request_json(None, Method::POST, "/bulk/nodes/versions", Some(json!({"node_versions": body}))).await;
    ensure_same("bulk", &status, &200)?;
    let results = reply["node_versions"].as_array().expect("a list");
    ensure_same("bulk", &results.len(), &queries.len())?;
    for ((node, version), result) in queries.iter().zip(results) {
        let label = format!("bulk {node} {version}");
        let requested = semver::Version::parse(version).expect("a semantic version");
        let existing = world.nodes.get(&node.to_lowercase()).filter(|node| !node.deleted);
        let matching_version = existing.and_then(|node| {
            let has_number = |version: &&super::entities::Version| version.number.cmp_precedence(&requested).is_eq();
            Some((node, node.versions.iter().find(has_number).filter(|version| version.status != "Deleted")?))
        });
        ensure_same(&label, &result["identifier"], &json!({"node_id": node, "version": version}))?;
        ensure_same(
            &label,
            &result["status"],
            &json!(if matching_version.is_some() { "success" } else { "not_found" }),
        )?;
        if let Some((node, version)) = matching_version {
            let expected = resources::expected_version(world, node, version, false);
            ensure_same(&label, &resources::without_generated(&result["node_version"]), &expected)?;
        }
    }
    Ok(())
}
