//! Comparison of single resources, and of the lists of versions, publishers, users and tokens, with the model.

use reqwest::Method;
use serde_json::{Value, json};

use super::check::same;
use super::op::{ADMIN, NODES, PUBLISHERS, Said, VERSIONS, Who};
use super::people::{Agreement, People, text as text_of};
use super::request::{BAN, Known};
use super::things::{Node, Publisher, Token, Version, number, shown};
use super::world::{Standing, World};
use crate::support::process::TOKEN;
use crate::support::zip::good;

const NODE_LINKS: [&str; 3] = ["banner_url", "icon", "repository"];
const PUBLISHER_LINKS: [&str; 3] = ["logo", "source_code_repo", "website"];
/// Page size of the lists in this file.
const LIMIT: usize = 4;

/// Compares every node, version, publisher, user and token.
pub async fn everything(people: &People, world: &World) -> Agreement {
    for node in world.nodes.values() {
        one_node(people, world, node).await?;
    }
    all_versions(people, world).await?;
    publishers(people, world).await?;
    for nth in 0..PUBLISHERS.len() {
        one_publisher(people, world, nth).await?;
    }
    users(people, world).await
}

/// Response without the ids and times that the service chose; links are replaced by their presence.
pub fn plain(seen: &Value) -> Value {
    let Value::Object(seen) = seen else { return seen.clone() };
    let made = ["id", "createdAt", "created_at", "last_used_at"];
    let kept = seen
        .iter()
        .filter(|(name, _)| !made.contains(&name.as_str()) || seen.contains_key("downloads") && *name == "id");
    let field = |(name, value): (&String, &Value)| match name.as_str() {
        "downloadUrl" => (name.clone(), json!(true)),
        "latest_version" => (name.clone(), plain(value)),
        _ => (name.clone(), value.clone()),
    };
    kept.map(field).collect::<Said>().into()
}

fn with_lists(said: &mut Said, names: &[&str]) {
    for name in names {
        said.entry(*name).or_insert(json!([]));
    }
}

/// Expected representation of a version.
pub fn version_of(world: &World, node: &Node, version: &Version, reasoned: bool) -> Value {
    let mut said = version.said.clone();
    with_lists(&mut said, &["dependencies", "supported_accelerators", "supported_os", "tags", "tags_admin"]);
    said.entry("deprecated").or_insert(json!(false));
    said.insert("node_id".to_owned(), json!(node.id));
    said.insert("version".to_owned(), json!(version.number.to_string()));
    said.insert("status".to_owned(), json!(format!("NodeVersionStatus{}", version.status)));
    if let Some(reason) = version.reason.filter(|_| reasoned) {
        said.insert("status_reason".to_owned(), json!(reason));
    }
    if version.archive && !["Banned", "Deleted"].contains(&version.status) && world.shows(node) {
        said.insert("downloadUrl".to_owned(), json!(true));
    }
    said.into()
}

fn node_of(world: &World, node: &Node) -> Value {
    let mut said = shown(&node.said, &NODE_LINKS);
    let lists = ["preempted_host_node_names", "supported_accelerators", "supported_os", "tags", "tags_admin"];
    with_lists(&mut said, &lists);
    said.entry("description").or_insert(json!(""));
    let owner = &world.publishers[&node.publisher];
    let publisher = PUBLISHERS[node.publisher];
    let (status, detail) = match (node.banned, owner.banned) {
        (true, _) => ("NodeStatusBanned", Some(BAN)),
        (false, true) => ("NodeStatusBanned", Some("the publisher is banned")),
        (false, false) => ("NodeStatusActive", None),
    };
    said.remove("rating");
    let also = [
        ("id", Some(json!(node.id))),
        ("name", Some(json!(node.name()))),
        ("publisher", Some(json!({"id": publisher, "name": owner.name(publisher)}))),
        ("downloads", Some(json!(node.downloads))),
        ("rating", node.rating().map(|rating| json!(rating))),
        ("status", Some(json!(status))),
        ("status_detail", detail.map(|detail| json!(detail))),
        ("latest_version", node.latest().map(|version| version_of(world, node, version, false))),
        ("translations", Some(json!(node.translations)).filter(|_| !node.translations.is_empty())),
    ];
    said.extend(also.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    said.into()
}

async fn one_node(people: &People, world: &World, node: &Node) -> Agreement {
    let path = format!("/nodes/{}", node.id);
    let (status, seen) = people.ask(None, Method::GET, &path, None).await;
    if node.deleted {
        return same(node.id, &status, &404);
    }
    same(node.id, &status, &200)?;
    same(node.id, &plain(&seen), &node_of(world, node))?;
    // The wrong case redirects to the right one.
    let (status, headers, _) = people.fetch(None, &format!("/nodes/{}", node.id.to_uppercase())).await;
    let leads = headers.get("Location").and_then(|way| way.to_str().ok()).is_some_and(|way| way.ends_with(&path));
    same(&path, &(status, leads), &(302, true))?;
    for who in [Who::Anonymous, ADMIN, Who::User(1), Who::Token(node.publisher)] {
        let standing = Standing::OwnToken;
        let path = format!("/publishers/{}/nodes/{}/permissions", PUBLISHERS[node.publisher], node.id);
        can_edit(people, world, who, (node.publisher, standing), &path, !node.banned).await?;
    }
    own_reviews(people, world, node).await?;
    versions_of(people, world, node).await?;
    for (nth, version) in VERSIONS.iter().enumerate() {
        one_version(people, world, node, (nth, version)).await?;
    }
    Ok(())
}

/// Compares the own review of every user.
async fn own_reviews(people: &People, world: &World, node: &Node) -> Agreement {
    let path = format!("/nodes/{}/reviews/mine", node.id);
    for nth in (0..world.users.len()).filter(|nth| world.whoever(Who::User(*nth)).is_ok()) {
        let expected = node.reviews.get(&nth).map_or(json!({}), |stars| json!({"star": stars}));
        let seen = people.ask(Some(people.secret(world, nth)), Method::GET, &path, None).await;
        same(&path, &seen, &(200, expected))?;
    }
    Ok(())
}

/// Compares edit permission with the caller's role at the publisher.
async fn can_edit(
    people: &People,
    world: &World,
    who: Who,
    (publisher, least): (usize, Standing),
    path: &str,
    may_be: bool,
) -> Agreement {
    let Ok(real) = world.whoever(who) else { return Ok(()) };
    let secret = match real {
        Who::Anonymous => None,
        _ => people.secret_of(world, who),
    };
    let standing = world.standing(real, publisher);
    let banned = world.publishers[&publisher].banned && standing != Standing::Admin;
    let expected = may_be && standing >= least && !banned && world.may_write(real).is_ok();
    let (status, seen) = people.ask(secret, Method::GET, path, None).await;
    same(&format!("{path} for {who:?}"), &(status, seen), &(200, json!({"canEdit": expected})))
}

async fn versions_of(people: &People, world: &World, node: &Node) -> Agreement {
    let statuses = ["Active", "Pending", "Flagged", "Banned", "Deleted"];
    for (wanted, reasoned) in [(&statuses[..1], false), (&statuses[1..3], true), (&statuses[..], true)] {
        let query: Vec<_> = wanted.iter().map(|status| format!("statuses=NodeVersionStatus{status}")).collect();
        let path = format!("/nodes/{}/versions?{}&include_status_reason={reasoned}", node.id, query.join("&"));
        let seen = people.read_anonymously(&path).await;
        let seen: Vec<_> = seen.as_array().expect("a list").iter().map(plain).collect();
        let mut expected: Vec<_> = node.versions.iter().filter(|version| wanted.contains(&version.status)).collect();
        expected.sort_by(|a, b| b.number.cmp_precedence(&a.number));
        let expected: Vec<_> = expected.iter().map(|version| version_of(world, node, version, reasoned)).collect();
        same(&path, &seen, &expected)?;
    }
    Ok(())
}

/// Compares a version, existing or not, and its archive.
async fn one_version(people: &People, world: &World, node: &Node, (nth, name): (usize, &str)) -> Agreement {
    let version = node.versions.iter().find(|version| version.number.cmp_precedence(&number(nth)).is_eq());
    let there = version.filter(|version| version.status != "Deleted");
    let path = format!("/nodes/{}/versions/{name}", node.id);
    let (status, seen) = people.ask(None, Method::GET, &format!("{path}?include_status_reason=true"), None).await;
    same(&path, &status, &if there.is_some() { 200 } else { 404 })?;
    if let Some(version) = there {
        same(&path, &plain(&seen), &version_of(world, node, version, true))?;
    }
    let expected = match there.map(|version| (version.status, version.archive)) {
        _ if !world.shows(node) => 403,
        None | Some(("Active", false)) => 404,
        Some(("Active", true)) => 200,
        Some(_) => 403,
    };
    let (status, _, bytes) = people.fetch(None, &format!("{path}/download")).await;
    same(&format!("{path}/download"), &status, &expected)?;
    if status == 200 && bytes != good() {
        return Err(format!("{path}/download: {} bytes are not those of the archive", bytes.len()));
    }
    Ok(())
}

/// Compares the moderators' list: newest first.
async fn all_versions(people: &People, world: &World) -> Agreement {
    let all = world.nodes.values().filter(|node| !node.deleted);
    let mut all: Vec<_> = all.flat_map(|node| node.versions.iter().map(move |version| (node, version))).collect();
    all.sort_by_key(|(_, version)| std::cmp::Reverse(version.created));
    for (wanted, named) in
        [(None, None), (Some("Pending"), None), (Some("Active"), Some(NODES[0])), (None, Some(NODES[3]))]
    {
        let admits = |(node, version): &&(&Node, &Version)| {
            wanted.is_none_or(|wanted| version.status == wanted) && named.is_none_or(|named| node.id == named)
        };
        let expected: Vec<_> =
            all.iter().filter(admits).map(|(node, version)| version_of(world, node, version, true)).collect();
        let mut query = "include_status_reason=true".to_owned();
        query.extend(wanted.map(|status| format!("&statuses=NodeVersionStatus{status}")));
        query.extend(named.map(|node| format!("&node_id={node}")));
        paged(people, "/versions", &query, "versions", &expected).await?;
    }
    Ok(())
}

/// Compares every page of a list that only administrators see in full.
async fn paged(people: &People, path: &str, query: &str, name: &str, expected: &[Value]) -> Agreement {
    let pages = expected.len().div_ceil(LIMIT);
    for page in 1..=pages + 1 {
        let path = format!("{path}?limit={LIMIT}&page={page}&{query}");
        let seen = people.read(&path).await;
        let counts = json!([seen["total"], seen["totalPages"], seen["page"], seen["limit"]]);
        same(&path, &counts, &json!([expected.len(), pages, page, LIMIT]))?;
        let seen: Vec<_> = seen[name].as_array().expect("a list").iter().map(plain).collect();
        let expected: Vec<_> = expected.iter().skip((page - 1) * LIMIT).take(LIMIT).cloned().collect();
        same(&path, &seen, &expected)?;
    }
    Ok(())
}

/// Expected publisher as administrators see it; `plain` removes its id.
fn publisher_of(people: &People, world: &World, nth: usize, publisher: &Publisher) -> Value {
    let mut said = shown(&publisher.said, &PUBLISHER_LINKS);
    said.insert("name".to_owned(), json!(publisher.name(PUBLISHERS[nth])));
    let status = if publisher.banned { "PublisherStatusBanned" } else { "PublisherStatusActive" };
    said.insert("status".to_owned(), json!(status));
    if publisher.banned {
        said.insert("status_detail".to_owned(), json!(BAN));
    }
    let member = |(user, owner): (&usize, &bool)| {
        let id = people.user(*user);
        let mut of = world.users[*user].said.clone();
        of.retain(|name, _| name == "name" || name == "email");
        of.insert("id".to_owned(), json!(id));
        json!({"id": id, "role": if *owner { "owner" } else { "member" }, "user": of})
    };
    let mut members: Vec<_> = publisher.members.iter().map(member).collect();
    members.sort_by_key(|member| text_of(member, "id"));
    said.insert("members".to_owned(), json!(members));
    said.into()
}

fn sorted_members(mut seen: Value) -> Value {
    if let Some(members) = seen["members"].as_array_mut() {
        members.sort_by_key(|member| text_of(member, "id"));
    }
    seen
}

async fn publishers(people: &People, world: &World) -> Agreement {
    let mut present: Vec<_> = world.publishers.iter().filter(|(_, publisher)| !publisher.deleted).collect();
    present.sort_by_key(|(nth, _)| PUBLISHERS[**nth]);
    for include_banned in [false, true] {
        let listed = present.iter().filter(|(_, publisher)| include_banned || !publisher.banned);
        let expected: Vec<_> = listed.map(|(nth, _)| json!(PUBLISHERS[**nth])).collect();
        let seen = people.read(&format!("/publishers?include_banned={include_banned}&limit=2")).await;
        let ids: Vec<_> = seen["publishers"].as_array().expect("a list").iter().map(|one| one["id"].clone()).collect();
        same("publishers", &ids, &expected.iter().take(2).cloned().collect())?;
        same("publishers", &seen["total"], &json!(expected.len()))?;
    }
    for user in (0..world.users.len()).filter(|user| world.whoever(Who::User(*user)).is_ok()) {
        let own = present.iter().filter(|(_, publisher)| publisher.members.contains_key(&user));
        let expected: Vec<_> = own.map(|(nth, _)| json!(PUBLISHERS[**nth])).collect();
        let secret = Some(people.secret(world, user));
        let (status, seen) = people.ask(secret, Method::GET, "/users/publishers", None).await;
        same("/users/publishers", &status, &200)?;
        let ids: Vec<_> = seen.as_array().expect("a list").iter().map(|one| one["id"].clone()).collect();
        same("/users/publishers", &ids, &expected)?;
    }
    Ok(())
}

async fn one_publisher(people: &People, world: &World, nth: usize) -> Agreement {
    let (id, known) = (PUBLISHERS[nth], world.publishers.get(&nth));
    let seen = people.read_anonymously(&format!("/publishers/validate?username={id}")).await;
    same(&format!("validate {id}"), &seen["isAvailable"], &json!(known.is_none()))?;
    let path = format!("/publishers/{id}");
    let (status, seen) = people.ask(Some(TOKEN), Method::GET, &path, None).await;
    let Some(publisher) = known.filter(|publisher| !publisher.deleted) else { return same(&path, &status, &404) };
    same(&path, &sorted_members(plain(&seen)), &publisher_of(people, world, nth, publisher))?;
    let seen = people.read_anonymously(&path).await;
    let shows_address =
        seen["members"].as_array().expect("a list").iter().any(|one| one["user"]["email"] != Value::Null);
    same(&format!("{path} of anybody shows addresses"), &shows_address, &false)?;
    for who in [Who::Anonymous, ADMIN, Who::User(1), Who::User(2), Who::Token(nth)] {
        can_edit(people, world, who, (nth, Standing::Owner), &format!("{path}/permissions"), true).await?;
    }
    let listed = publisher.tokens.iter().filter(|token| world.opens(nth, token));
    tokens(people, &format!("{path}/tokens"), listed, "mdp_********").await?;
    nodes_of(people, world, nth).await
}

/// Compares a list with the valid tokens, without their secrets.
async fn tokens<'w>(people: &People, path: &str, expected: impl Iterator<Item = &'w Token>, mask: &str) -> Agreement {
    let seen = people.read(path).await;
    let seen = seen.as_array().expect("a list");
    same(path, &seen.len(), &expected.count())?;
    same(path, &seen.iter().all(|token| token["token"] == mask), &true)
}

/// Compares all nodes of a publisher, at once and page by page with the links.
async fn nodes_of(people: &People, world: &World, publisher: usize) -> Agreement {
    for include_banned in [false, true] {
        let path = format!("/publishers/{}/nodes", PUBLISHERS[publisher]);
        let own = world.nodes.values().filter(|node| node.publisher == publisher && !node.deleted);
        let own = own.filter(|node| include_banned || world.shows(node));
        let expected: Vec<_> = own.map(|node| node_of(world, node)).collect();
        let seen = people.read(&format!("{path}?include_banned={include_banned}")).await;
        same(&path, &seen.as_array().expect("a list").iter().map(plain).collect(), &expected)?;
        for (nth, page) in (1..).zip(expected.chunks(2)) {
            let asked = format!("{path}?include_banned={include_banned}&limit=2&page={nth}");
            let (status, headers, body) = people.fetch(Some(TOKEN), &asked).await;
            same(&asked, &status, &200)?;
            let seen: Vec<Value> = serde_json::from_slice(&body).expect("a list");
            same(&asked, &seen.iter().map(plain).collect::<Vec<_>>(), &page.to_vec())?;
            let header = |name: &str| headers[name].to_str().expect("a text").to_owned();
            same(&asked, &header("X-Total-Count"), &expected.len().to_string())?;
            let links = header("Link");
            let follows = links.split(", ").any(|link| link.ends_with("rel=\"next\""));
            same(&asked, &follows, &(nth * 2 < expected.len()))?;
        }
    }
    Ok(())
}

async fn users(people: &People, world: &World) -> Agreement {
    let mut expected = Vec::new();
    for (nth, user) in world.users.iter().enumerate() {
        let mut said = if user.erased { Said::new() } else { user.said.clone() };
        for flag in ["isAdmin", "isApproved"] {
            said.entry(flag).or_insert(json!(false));
        }
        if user.erased {
            said.insert("erased".to_owned(), json!(true));
        } else if user.banned {
            said.insert("status".to_owned(), json!("UserStatusBanned"));
            said.insert("statusReason".to_owned(), json!(BAN));
        }
        let said = Value::Object(said);
        expected.push(said.clone());
        let path = format!("/admin/users/{}/tokens", people.user(nth));
        if user.erased {
            let (status, _) = people.ask(Some(TOKEN), Method::GET, &path, None).await;
            same(&path, &status, &404)?;
            continue;
        }
        tokens(people, &path, user.tokens.iter().filter(|token| !token.revoked), "mdu_********").await?;
        if world.whoever(Who::User(nth)).is_ok() {
            let seen = people.ask(Some(people.secret(world, nth)), Method::GET, "/users", None).await;
            same("/users", &(seen.0, plain(&seen.1)), &(200, said))?;
        }
    }
    paged(people, "/admin/users", "", "users", &expected).await
}
