//! Everything that can be asked, compared with the model.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use reqwest::Method;
use semver::VersionReq;
use serde_json::{Value, json};

use super::People;
use super::op::{NODES, Query, VERSIONS};
use super::things::Node;
use super::world::{PUBLISHERS, World};

type Agreement = Result<(), String>;

/// Every node, every list, every look-up.
pub async fn everything(people: &People, world: &World, queries: &[Query]) -> Agreement {
    for node in world.nodes.values() {
        one_node(people, world, node).await?;
    }
    for (publisher, _) in world.publishers.iter().filter(|(_, publisher)| !publisher.deleted) {
        nodes_of(people, world, *publisher).await?;
    }
    for query in queries {
        match &query.search {
            None => list(people, world, query).await?,
            Some(words) => search(people, world, query, words).await?,
        }
    }
    bulk(people, world).await
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: &T, expected: &T) -> Agreement {
    if seen == expected { Ok(()) } else { Err(format!("{what}: {seen:?}, the model says {expected:?}")) }
}

async fn one_node(people: &People, world: &World, node: &Node) -> Agreement {
    let (status, seen) = people.ask(None, Method::GET, &format!("/nodes/{}", node.id), None).await;
    if node.deleted {
        return same(node.id, &status, &404);
    }
    same(node.id, &status, &200)?;
    same(node.id, &seen["downloads"], &json!(node.downloads))?;
    same(node.id, &seen["rating"], &node.rating().map_or(Value::Null, |rating| json!(rating)))?;
    same(node.id, &seen["github_stars"], &node.github_stars.map_or(Value::Null, |stars| json!(stars)))?;
    let shown = if world.shows(node) { "NodeStatusActive" } else { "NodeStatusBanned" };
    same(node.id, &seen["status"], &json!(shown))?;
    let publisher = PUBLISHERS[node.publisher];
    let name = world.publishers[&node.publisher].name.unwrap_or(publisher);
    same(node.id, &seen["publisher"], &json!({"id": publisher, "name": name}))?;
    let latest = node.latest().map_or(Value::Null, |version| json!(version.number.to_string()));
    same(node.id, &seen["latest_version"]["version"], &latest)?;
    versions_of(people, node).await
}

async fn versions_of(people: &People, node: &Node) -> Agreement {
    let statuses = ["Active", "Pending", "Flagged", "Banned"];
    for wanted in [&statuses[..1], &statuses[1..3], &statuses[..]] {
        let query: Vec<_> = wanted.iter().map(|status| format!("statuses=NodeVersionStatus{status}")).collect();
        let seen = people.read_anonymously(&format!("/nodes/{}/versions?{}", node.id, query.join("&"))).await;
        let seen: Vec<_> = seen.as_array().expect("a list").iter().map(|version| version["version"].clone()).collect();
        let mut expected: Vec<_> = node.versions.iter().filter(|version| wanted.contains(&version.status)).collect();
        expected.sort_by(|a, b| b.number.cmp_precedence(&a.number));
        let expected: Vec<_> = expected.iter().map(|version| json!(version.number.to_string())).collect();
        same(&format!("versions of {}, {wanted:?}", node.id), &seen, &expected)?;
    }
    Ok(())
}

async fn nodes_of(people: &People, world: &World, publisher: usize) -> Agreement {
    for include_banned in [false, true] {
        let path = format!("/publishers/{}/nodes?include_banned={include_banned}", PUBLISHERS[publisher]);
        let seen = people.read(&path).await;
        let seen: Vec<_> = seen.as_array().expect("a list").iter().map(|node| node["id"].clone()).collect();
        let own = world.nodes.values().filter(|node| node.publisher == publisher && !node.deleted);
        let shown = own.filter(|node| include_banned || world.shows(node));
        let expected: Vec<_> = shown.map(|node| json!(node.id)).collect();
        same(&path, &seen, &expected)?;
    }
    Ok(())
}

impl Query {
    fn text(&self, page: usize) -> String {
        let mut pairs = vec![format!("limit={}&page={page}", self.limit)];
        if self.search.is_none() {
            let key = |(column, descending): &(&str, bool)| {
                format!("sort={column}{}", if *descending { "%3Bdesc" } else { "" })
            };
            pairs.extend(self.sort.iter().map(key));
        }
        pairs.extend(self.os.map(|os| format!("supported_os={os}")));
        pairs.extend(self.accelerator.map(|accelerator| format!("supported_accelerator={accelerator}")));
        pairs.extend(self.host_version.map(|version| format!("host_version={version}")));
        pairs.extend(self.nodes.iter().map(|node| format!("node_id={}", NODES[*node])));
        pairs.push(format!("include_banned={}&latest={}", self.include_banned, self.latest));
        pairs.extend(self.search.as_ref().map(|words| format!("search={}", words.join("+"))));
        pairs.join("&")
    }

    fn admits(&self, world: &World, node: &Node) -> bool {
        let has = |list: &Option<Vec<&str>>, wanted: Option<&str>| {
            wanted.is_none_or(|wanted| list.iter().flatten().any(|entry| entry.eq_ignore_ascii_case(wanted)))
        };
        let host = self.host_version.zip(node.fields.host_version).is_none_or(|(version, range)| {
            let version = semver::Version::parse(version).expect("a semantic version");
            VersionReq::parse(range).map_or(true, |range| range.matches(&version))
        });
        let named = self.nodes.is_empty() || self.nodes.iter().any(|named| NODES[*named].eq_ignore_ascii_case(node.id));
        !node.deleted
            && (self.include_banned || world.shows(node))
            && has(&node.fields.os, self.os)
            && has(&node.fields.accelerators, self.accelerator)
            && host
            && named
    }
}

/// All pages of a list, one after the other; each says how much there is.
async fn pages(people: &People, path: &str, query: &Query, total: usize) -> Result<Vec<Value>, String> {
    let mut seen = Vec::new();
    for page in 1..=total.div_ceil(query.limit) + 1 {
        let text = query.text(page);
        let asked = format!("{path}?{text}");
        let answer = if query.include_banned {
            people.read(&asked).await
        } else {
            // As everybody reads it, and once more, when it may have been kept.
            let answer = people.read_anonymously(&asked).await;
            same(&text, &people.read_anonymously(&asked).await, &answer)?;
            answer
        };
        let counts = json!([answer["total"], answer["totalPages"], answer["page"], answer["limit"]]);
        same(&text, &counts, &json!([total, total.div_ceil(query.limit), page, query.limit]))?;
        let nodes = answer["nodes"].as_array().expect("a list");
        let expected = query.limit.min(total.saturating_sub((page - 1) * query.limit));
        same(&text, &nodes.len(), &expected)?;
        seen.extend(nodes.iter().map(|node| node["id"].clone()));
    }
    Ok(seen)
}

async fn list(people: &People, world: &World, query: &Query) -> Agreement {
    let mut expected: Vec<&Node> = world.nodes.values().filter(|node| query.admits(world, node)).collect();
    expected.sort_by(|a, b| {
        let by_columns = query.sort.iter().map(|(column, descending)| {
            let order = by(column, a, b);
            if *descending { order.reverse() } else { order }
        });
        let ties = a.id.to_lowercase().cmp(&b.id.to_lowercase());
        by_columns.fold(Ordering::Equal, Ordering::then).then(ties)
    });
    let expected: Vec<_> = expected.iter().map(|node| json!(node.id)).collect();
    let seen = pages(people, "/nodes", query, expected.len()).await?;
    same(&query.text(0), &seen, &expected)
}

/// What is not known comes before everything that is.
fn by(column: &str, a: &Node, b: &Node) -> Ordering {
    let name = |node: &Node| node.fields.name.filter(|name| !name.is_empty()).unwrap_or(node.id).to_lowercase();
    let author = |node: &Node| node.fields.author.unwrap_or_default().to_lowercase();
    match column {
        "id" => a.id.to_lowercase().cmp(&b.id.to_lowercase()),
        "name" => name(a).cmp(&name(b)),
        "author" => author(a).cmp(&author(b)),
        "publisher" => PUBLISHERS[a.publisher].cmp(PUBLISHERS[b.publisher]),
        "created_at" => a.created.cmp(&b.created),
        "updated_at" => a.updated.cmp(&b.updated),
        "downloads" => a.downloads.cmp(&b.downloads),
        "github_stars" => a.github_stars.cmp(&b.github_stars),
        "rating" => a.rating().unwrap_or(0.0).total_cmp(&b.rating().unwrap_or(0.0)),
        "search_ranking" => a.search_ranking.cmp(&b.search_ranking),
        other => panic!("no column {other}"),
    }
}

/// Which nodes are found, and that the one of that very id comes first; how the others are ranked is told elsewhere.
async fn search(people: &People, world: &World, query: &Query, words: &[&str]) -> Agreement {
    let found = |node: &&Node| query.admits(world, node) && matches(world, node, words);
    let expected: BTreeSet<_> = world.nodes.values().filter(found).map(|node| node.id).collect();
    let seen = pages(people, "/nodes/search", query, expected.len()).await?;
    let exact = world.nodes.values().filter(found).find(|node| words == [node.id.to_lowercase()]);
    if let Some(exact) = exact {
        same(&query.text(0), &seen[0], &json!(exact.id))?;
    }
    let seen: BTreeSet<_> = seen.iter().map(|id| id.as_str().expect("an id")).collect();
    same(&query.text(0), &seen, &expected)
}

/// Every word is a word of the node; the last one may be the beginning of one.
fn matches(world: &World, node: &Node, words: &[&str]) -> bool {
    let fields = &node.fields;
    let publisher = world.publishers[&node.publisher].name.unwrap_or(PUBLISHERS[node.publisher]);
    let texts =
        [node.id, fields.name.unwrap_or_default(), fields.author.unwrap_or_default(), PUBLISHERS[node.publisher]];
    let more = [publisher, fields.description.unwrap_or_default()];
    let all = texts.iter().chain(&more).chain(fields.tags.iter().flatten()).map(|text| text.to_lowercase());
    let own: BTreeSet<String> = all
        .flat_map(|text| {
            let words: Vec<_> = text.split(|c: char| !c.is_alphanumeric()).map(ToOwned::to_owned).collect();
            let joined = words.concat();
            words.into_iter().chain([joined])
        })
        .collect();
    let (last, whole) = words.split_last().expect("at least one word");
    whole.iter().all(|word| own.contains(*word)) && own.iter().any(|word| word.starts_with(last))
}

async fn bulk(people: &People, world: &World) -> Agreement {
    let asked: Vec<_> = NODES.iter().flat_map(|node| VERSIONS.iter().map(move |version| (*node, *version))).collect();
    let body: Vec<_> = asked.iter().map(|(node, version)| json!({"node_id": node, "version": version})).collect();
    let (status, answer) =
        people.ask(None, Method::POST, "/bulk/nodes/versions", Some(json!({"node_versions": body}))).await;
    same("bulk", &status, &200)?;
    let seen = answer["node_versions"].as_array().expect("a list");
    same("bulk", &seen.len(), &asked.len())?;
    for ((node, version), seen) in asked.iter().zip(seen) {
        let wanted = semver::Version::parse(version).expect("a semantic version");
        let known = world.nodes.get(&node.to_lowercase()).filter(|node| !node.deleted);
        let own =
            known.and_then(|node| node.versions.iter().find(|version| version.number.cmp_precedence(&wanted).is_eq()));
        let own = own.filter(|version| version.status != "Deleted");
        let expected = own.map_or(json!(["not_found", null]), |version| {
            json!(["success", format!("NodeVersionStatus{}", version.status)])
        });
        same(&format!("bulk {node} {version}"), &json!([seen["status"], seen["node_version"]["status"]]), &expected)?;
        same("bulk", &seen["identifier"], &json!({"node_id": node, "version": version}))?;
    }
    Ok(())
}
