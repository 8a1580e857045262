//! Comparison of all lists of nodes and of the bulk lookup with the model.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use reqwest::Method;
use semver::VersionReq;
use serde_json::{Value, json};

use super::look;
use super::op::{NODES, PUBLISHERS, Query, VERSIONS};
use super::people::{Agreement, People};
use super::things::{Node, text};
use super::world::World;

/// Compares all reads.
pub async fn everything(people: &People, world: &World, queries: &[Query]) -> Agreement {
    for node in world.nodes.keys() {
        people.settle(world, node).await?;
    }
    people.same_answers().await?;
    look::everything(people, world).await?;
    for query in queries {
        match &query.search {
            None => list(people, world, query).await?,
            Some(words) => search(people, world, query, words).await?,
        }
    }
    bulk(people, world).await
}

pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: &T, expected: &T) -> Agreement {
    if seen == expected { Ok(()) } else { Err(format!("{what}: {seen:?}, the model says {expected:?}")) }
}

impl Query {
    /// Index of the command after which nodes must have changed, if the query has such a filter.
    fn since(&self, people: &People) -> Option<usize> {
        self.after.map(|after| after.index(people.moments.len()))
    }

    fn text(&self, people: &People, page: usize) -> String {
        let mut pairs = vec![format!("limit={}&page={page}", self.limit)];
        let key =
            |(column, descending): &(&str, bool)| format!("sort={column}{}", if *descending { "%3Bdesc" } else { "" });
        pairs.extend(self.sort.iter().map(key));
        pairs.extend(self.os.map(|os| format!("supported_os={os}")));
        pairs.extend(self.accelerator.map(|accelerator| format!("supported_accelerator={accelerator}")));
        pairs.extend(self.host_version.map(|version| format!("host_version={version}")));
        pairs.extend(self.form_factor.map(|form_factor| format!("form_factor={form_factor}")));
        pairs.extend(self.since(people).map(|after| format!("timestamp={}", people.moments[after])));
        pairs.extend(self.nodes.iter().map(|node| format!("node_id={}", NODES[*node])));
        pairs.push(format!("include_banned={}&latest={}", self.include_banned, self.latest));
        pairs.extend(self.search.as_ref().map(|words| format!("search={}", words.join("+"))));
        pairs.join("&")
    }

    fn admits(&self, people: &People, world: &World, node: &Node) -> bool {
        let has = |list: &str, wanted: Option<&str>| {
            wanted.is_none_or(|wanted| node.entries(list).contains(&wanted.to_lowercase()))
        };
        let host = self.host_version.zip(node.host_range()).is_none_or(|(version, range)| {
            let version = semver::Version::parse(version).expect("a semantic version");
            VersionReq::parse(range).map_or(true, |range| range.matches(&version))
        });
        let named = self.nodes.is_empty() || self.nodes.iter().any(|named| NODES[*named].eq_ignore_ascii_case(node.id));
        let since = self.since(people).is_none_or(|after| node.updated.max(node.created) > after as u64);
        !node.deleted
            && (self.include_banned || world.shows(node))
            && has("supported_os", self.os)
            && has("supported_accelerators", self.accelerator)
            && host
            && self.runs_on(node)
            && named
            && since
    }

    /// `true` if the node's declarations do not exclude the platform.
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

/// Compares all pages of a list, each with the total.
async fn pages(people: &People, path: &str, query: &Query, total: usize) -> Result<Vec<Value>, String> {
    let mut seen = Vec::new();
    for page in 1..=total.div_ceil(query.limit) + 1 {
        let text = query.text(people, page);
        let asked = format!("{path}?{text}");
        let answer = if query.include_banned {
            people.read(&asked).await
        } else {
            // As an anonymous caller, and again, when the page may come from the cache.
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

/// Sorts by the requested columns, and then by id.
fn sorted<'w>(mut nodes: Vec<&'w Node>, query: &Query) -> Vec<&'w Node> {
    nodes.sort_by(|a, b| {
        let by_columns = query.sort.iter().map(|(column, descending)| {
            let order = by(column, a, b);
            if *descending { order.reverse() } else { order }
        });
        let ties = a.id.to_lowercase().cmp(&b.id.to_lowercase());
        by_columns.fold(Ordering::Equal, Ordering::then).then(ties)
    });
    nodes
}

async fn list(people: &People, world: &World, query: &Query) -> Agreement {
    let admitted = world.nodes.values().filter(|node| query.admits(people, world, node)).collect();
    let expected: Vec<_> = sorted(admitted, query).iter().map(|node| json!(node.id)).collect();
    let seen = pages(people, "/nodes", query, expected.len()).await?;
    same(&query.text(people, 0), &seen, &expected)
}

/// Orders unknown values before known ones.
fn by(column: &str, a: &Node, b: &Node) -> Ordering {
    let author = |node: &Node| text(&node.said, "author").unwrap_or_default().to_lowercase();
    match column {
        "id" => a.id.to_lowercase().cmp(&b.id.to_lowercase()),
        "name" => a.name().to_lowercase().cmp(&b.name().to_lowercase()),
        "author" => author(a).cmp(&author(b)),
        "publisher" => PUBLISHERS[a.publisher].cmp(PUBLISHERS[b.publisher]),
        "created_at" => a.created.cmp(&b.created),
        "updated_at" => a.updated.cmp(&b.updated),
        "downloads" => a.downloads.cmp(&b.downloads),
        "rating" => a.rating().unwrap_or(0.0).total_cmp(&b.rating().unwrap_or(0.0)),
        fact => a.fact(fact).cmp(&b.fact(fact)),
    }
}

/// Compares the matching nodes in the requested order; without one, only the exact id is known to come first, because
/// the model has no ranking.
async fn search(people: &People, world: &World, query: &Query, words: &[&str]) -> Agreement {
    let found = |node: &&Node| query.admits(people, world, node) && matches(world, node, words);
    let expected: Vec<_> = world.nodes.values().filter(found).collect();
    let mut seen = pages(people, "/nodes/search", query, expected.len()).await?;
    let mut expected: Vec<_> = sorted(expected, query).iter().map(|node| json!(node.id)).collect();
    if query.sort.is_empty() {
        let exact = world.nodes.values().filter(found).find(|node| words == [node.id.to_lowercase()]);
        if let Some(exact) = exact {
            same(&query.text(people, 0), &seen[0], &json!(exact.id))?;
        }
        for ids in [&mut seen, &mut expected] {
            ids.sort_by_key(ToString::to_string);
        }
    }
    same(&query.text(people, 0), &seen, &expected)
}

/// `true` if every word is a word of the node; the last one may be a prefix.
fn matches(world: &World, node: &Node, words: &[&str]) -> bool {
    let said = |name| text(&node.said, name).unwrap_or_default().to_owned();
    let publisher = PUBLISHERS[node.publisher];
    let mut texts = vec![node.id.to_owned(), said("name"), said("author"), said("description")];
    texts.extend([publisher.to_owned(), world.publishers[&node.publisher].name(publisher)]);
    let tags = node.said.get("tags").and_then(Value::as_array).into_iter().flatten();
    texts.extend(tags.filter_map(|tag| tag.as_str().map(ToOwned::to_owned)));
    let words_of = |text: &String| {
        let text = text.to_lowercase();
        let words: Vec<_> = text.split(|c: char| !c.is_alphanumeric()).map(ToOwned::to_owned).collect();
        let joined = words.concat();
        words.into_iter().chain([joined]).collect::<Vec<_>>()
    };
    let own: BTreeSet<String> = texts.iter().flat_map(words_of).collect();
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
        let what = format!("bulk {node} {version}");
        let wanted = semver::Version::parse(version).expect("a semantic version");
        let known = world.nodes.get(&node.to_lowercase()).filter(|node| !node.deleted);
        let own = known.and_then(|node| {
            let named = |version: &&super::things::Version| version.number.cmp_precedence(&wanted).is_eq();
            Some((node, node.versions.iter().find(named).filter(|version| version.status != "Deleted")?))
        });
        same(&what, &seen["identifier"], &json!({"node_id": node, "version": version}))?;
        same(&what, &seen["status"], &json!(if own.is_some() { "success" } else { "not_found" }))?;
        if let Some((node, version)) = own {
            let expected = look::version_of(world, node, version, false);
            same(&what, &look::plain(&seen["node_version"]), &expected)?;
        }
    }
    Ok(())
}
