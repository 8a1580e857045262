//! Comparison of single resources, and of the lists of versions, publishers, users and tokens, with the model.

use reqwest::Method;
use serde_json::{Value, json};

use super::check::ensure_same;
use super::clients::{CheckResult, ModelClients, string_field};
use super::entities::{Node, Publisher, Token, Version, number, visible_fields};
use super::op::{ADMIN, JsonFields, ModelCaller, NODES, PUBLISHERS, VERSIONS};
use super::request::{BAN_REASON, KnownIds};
use super::world::{ModelRole, ModelWorld};
use crate::support::process::TOKEN;
use crate::support::zip::valid_archive;

const NODE_LINKS: [&str; 3] = ["banner_url", "icon", "repository"];
const PUBLISHER_LINKS: [&str; 3] = ["logo", "source_code_repo", "website"];
/// Page size of the lists that [`check_pages`] reads.
const LIMIT: usize = 4;

/// Compares every node, version, publisher, user and token.
pub async fn check_everything(clients: &ModelClients, world: &ModelWorld) -> CheckResult {
    for node in world.nodes.values() {
        check_node(clients, world, node).await?;
    }
    check_all_versions(clients, world).await?;
    check_publishers(clients, world).await?;
    for index in 0..PUBLISHERS.len() {
        check_publisher(clients, world, index).await?;
    }
    check_users(clients, world).await
}

/// Returns a response without the ids and times that the service chose; a download URL is replaced by `true`.
pub fn without_generated(actual: &Value) -> Value {
    let Value::Object(actual) = actual else { return actual.clone() };
    let generated = ["id", "createdAt", "created_at", "last_used_at"];
    // A node, recognized by `downloads`, keeps its id, which its publisher chose.
    let remaining = actual
        .iter()
        .filter(|(name, _)| !generated.contains(&name.as_str()) || actual.contains_key("downloads") && *name == "id");
    let field = |(name, value): (&String, &Value)| match name.as_str() {
        "downloadUrl" => (name.clone(), json!(true)),
        "latest_version" => (name.clone(), without_generated(value)),
        _ => (name.clone(), value.clone()),
    };
    remaining.map(field).collect::<JsonFields>().into()
}

/// Adds the lists that are absent, as empty lists.
fn add_empty_lists(fields: &mut JsonFields, names: &[&str]) {
    for name in names {
        fields.entry(*name).or_insert(json!([]));
    }
}

/// Returns the expected representation of a version.
pub fn expected_version(world: &ModelWorld, node: &Node, version: &Version, with_reason: bool) -> Value {
    let mut fields = version.fields.clone();
    add_empty_lists(&mut fields, &["dependencies", "supported_accelerators", "supported_os", "tags", "tags_admin"]);
    fields.entry("deprecated").or_insert(json!(false));
    fields.insert("node_id".to_owned(), json!(node.id));
    fields.insert("version".to_owned(), json!(version.number.to_string()));
    fields.insert("status".to_owned(), json!(format!("NodeVersionStatus{}", version.status)));
    if let Some(reason) = version.reason.filter(|_| with_reason) {
        fields.insert("status_reason".to_owned(), json!(reason));
    }
    if version.archive && !["Banned", "Deleted"].contains(&version.status) && world.is_public(node) {
        fields.insert("downloadUrl".to_owned(), json!(true));
    }
    fields.into()
}

/// Returns the expected representation of a node.
fn expected_node(world: &ModelWorld, node: &Node) -> Value {
    let mut fields = visible_fields(&node.fields, &NODE_LINKS);
    let lists = ["preempted_host_node_names", "supported_accelerators", "supported_os", "tags", "tags_admin"];
    add_empty_lists(&mut fields, &lists);
    fields.entry("description").or_insert(json!(""));
    let owner = &world.publishers[&node.publisher];
    let publisher = PUBLISHERS[node.publisher];
    let (status, detail) = match (node.banned, owner.banned) {
        (true, _) => ("NodeStatusBanned", Some(BAN_REASON)),
        (false, true) => ("NodeStatusBanned", Some("the publisher is banned")),
        (false, false) => ("NodeStatusActive", None),
    };
    fields.remove("rating");
    let computed_fields = [
        ("id", Some(json!(node.id))),
        ("name", Some(json!(node.name()))),
        ("publisher", Some(json!({"id": publisher, "name": owner.name(publisher)}))),
        ("downloads", Some(json!(node.downloads))),
        ("rating", node.rating().map(|rating| json!(rating))),
        ("status", Some(json!(status))),
        ("status_detail", detail.map(|detail| json!(detail))),
        ("latest_version", node.latest().map(|version| expected_version(world, node, version, false))),
        ("translations", Some(json!(node.translations)).filter(|_| !node.translations.is_empty())),
    ];
    fields.extend(computed_fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    fields.into()
}

/// Compares a node, its versions, and everything below its path.
async fn check_node(clients: &ModelClients, world: &ModelWorld, node: &Node) -> CheckResult {
    let path = format!("/nodes/{}", node.id);
    let (status, actual) = clients.request_json(None, Method::GET, &path, None).await;
    if node.deleted {
        return ensure_same(node.id, &status, &404);
    }
    ensure_same(node.id, &status, &200)?;
    ensure_same(node.id, &without_generated(&actual), &expected_node(world, node))?;

    // An id in other case redirects to the id as it was created.
    let (status, headers, _) = clients.fetch(None, &format!("/nodes/{}", node.id.to_uppercase())).await;
    let is_redirected = headers
        .get("Location")
        .and_then(|location| location.to_str().ok())
        .is_some_and(|location| location.ends_with(&path));
    ensure_same(&path, &(status, is_redirected), &(302, true))?;

    for caller in [ModelCaller::Anonymous, ADMIN, ModelCaller::User(1), ModelCaller::Token(node.publisher)] {
        let role = ModelRole::OwnToken;
        let path = format!("/publishers/{}/nodes/{}/permissions", PUBLISHERS[node.publisher], node.id);
        check_edit_permission(clients, world, caller, (node.publisher, role), &path, !node.banned).await?;
    }

    check_own_reviews(clients, world, node).await?;
    check_statistics(clients, node).await?;
    check_badge(clients, world, node).await?;
    check_versions_of(clients, world, node).await?;
    for (index, version) in VERSIONS.iter().enumerate() {
        check_version(clients, world, node, (index, version)).await?;
    }
    Ok(())
}

/// Compares the review of every user, as that user reads it.
async fn check_own_reviews(clients: &ModelClients, world: &ModelWorld, node: &Node) -> CheckResult {
    let path = format!("/nodes/{}/reviews/mine", node.id);
    for index in (0..world.users.len()).filter(|index| world.authenticate(ModelCaller::User(*index)).is_ok()) {
        let expected = node.reviews.get(&index).map_or(json!({}), |stars| json!({"star": stars}));
        let actual = clients.request_json(Some(clients.secret(world, index)), Method::GET, &path, None).await;
        ensure_same(&path, &actual, &(200, expected))?;
    }
    Ok(())
}

/// Compares the number of downloads, and the number of reviews by stars.
async fn check_statistics(clients: &ModelClients, node: &Node) -> CheckResult {
    let path = format!("/nodes/{}/statistics", node.id);
    let actual = clients.get_anonymously(&path).await;
    let mut reviews_by_stars = [0; 5];
    node.reviews.values().for_each(|stars| reviews_by_stars[usize::from(*stars) - 1] += 1);
    let mut ratings = json!({"count": node.reviews.len(), "stars": reviews_by_stars});
    if let Some(mean) = node.rating() {
        ratings["mean"] = json!(mean);
    }
    ensure_same(&path, &(&actual["downloads"], &actual["ratings"]), &(&json!(node.downloads), &ratings))
}

/// Compares the text of the badge.
async fn check_badge(clients: &ModelClients, world: &ModelWorld, node: &Node) -> CheckResult {
    let path = format!("/nodes/{}/badge.svg", node.id);
    let text = match node.latest() {
        _ if !world.is_public(node) => "node: banned".to_owned(),
        Some(version) => format!("version: {}", version.number),
        None => "version: none".to_owned(),
    };
    let (status, _, svg) = clients.fetch(None, &path).await;
    let shows_text = String::from_utf8_lossy(&svg).contains(&format!("<title>{text}</title>"));
    ensure_same(&format!("{path} with {text}"), &(status, shows_text), &(200, true))
}

/// Compares the `canEdit` of a permissions path with the caller's role at the publisher, which must be at least
/// `minimum`.
async fn check_edit_permission(
    clients: &ModelClients,
    world: &ModelWorld,
    caller: ModelCaller,
    (publisher, minimum): (usize, ModelRole),
    path: &str,
    may_edit: bool,
) -> CheckResult {
    let Ok(authenticated) = world.authenticate(caller) else { return Ok(()) };
    let secret = match authenticated {
        ModelCaller::Anonymous => None,
        _ => clients.secret_of(world, caller),
    };
    let role = world.role_of(authenticated, publisher);
    let banned = world.publishers[&publisher].banned && role != ModelRole::Admin;
    let expected = may_edit && role >= minimum && !banned && world.reject_banned_caller(authenticated).is_ok();
    let (status, actual) = clients.request_json(secret, Method::GET, path, None).await;
    ensure_same(&format!("{path} for {caller:?}"), &(status, actual), &(200, json!({"canEdit": expected})))
}

/// Compares the list of a node's versions, for several filters by status.
async fn check_versions_of(clients: &ModelClients, world: &ModelWorld, node: &Node) -> CheckResult {
    let statuses = ["Active", "Pending", "Flagged", "Banned", "Deleted"];
    for (requested, with_reason) in [(&statuses[..1], false), (&statuses[1..3], true), (&statuses[..], true)] {
        let query: Vec<_> = requested.iter().map(|status| format!("statuses=NodeVersionStatus{status}")).collect();
        let path = format!("/nodes/{}/versions?{}&include_status_reason={with_reason}", node.id, query.join("&"));
        let actual = clients.get_anonymously(&path).await;
        let actual: Vec<_> = actual.as_array().expect("a list").iter().map(without_generated).collect();
        let mut expected: Vec<_> = node.versions.iter().filter(|version| requested.contains(&version.status)).collect();
        expected.sort_by(|a, b| b.number.cmp_precedence(&a.number));
        let expected: Vec<_> =
            expected.iter().map(|version| expected_version(world, node, version, with_reason)).collect();
        ensure_same(&path, &actual, &expected)?;
    }
    Ok(())
}

/// Compares a version, existing or not, and its archive.
async fn check_version(
    clients: &ModelClients,
    world: &ModelWorld,
    node: &Node,
    (index, name): (usize, &str),
) -> CheckResult {
    let version = node.versions.iter().find(|version| version.number.cmp_precedence(&number(index)).is_eq());
    let present = version.filter(|version| version.status != "Deleted");
    let path = format!("/nodes/{}/versions/{name}", node.id);
    let (status, actual) =
        clients.request_json(None, Method::GET, &format!("{path}?include_status_reason=true"), None).await;
    ensure_same(&path, &status, &if present.is_some() { 200 } else { 404 })?;
    if let Some(version) = present {
        ensure_same(&path, &without_generated(&actual), &expected_version(world, node, version, true))?;
    }
    let expected = match present.map(|version| (version.status, version.archive)) {
        _ if !world.is_public(node) => 403,
        None | Some(("Active", false)) => 404,
        Some(("Active", true)) => 200,
        Some(_) => 403,
    };
    let (status, _, bytes) = clients.fetch(None, &format!("{path}/download")).await;
    ensure_same(&format!("{path}/download"), &status, &expected)?;
    if status == 200 && bytes != valid_archive() {
        return Err(format!("{path}/download: {} bytes are not those of the archive", bytes.len()));
    }
    check_archive_files(clients, &path, name, expected).await
}

/// Compares the files in the archive of a version; reading them has the same status as the download.
async fn check_archive_files(clients: &ModelClients, path: &str, name: &str, expected_status: u16) -> CheckResult {
    let list = json!({
        "files": [
            {"path": "face_tools/README.md", "bytes": 13},
            {"path": "face_tools/__init__.py", "bytes": 5500},
        ],
        "bytes": 5513,
    });
    let empty_diff = json!({"from": name, "to": name, "files": []});
    for (request, body) in [(format!("{path}/files"), list), (format!("{path}/diff?from={name}"), empty_diff)] {
        let (status, actual) = clients.request_json(None, Method::GET, &request, None).await;
        ensure_same(&request, &status, &expected_status)?;
        if status == 200 {
            ensure_same(&request, &actual, &body)?;
        }
    }

    let request = format!("{path}/files/content?path=face_tools/README.md");
    let (status, _, content) = clients.fetch(None, &request).await;
    ensure_same(&request, &status, &expected_status)?;
    let content = String::from_utf8_lossy(&content);
    ensure_same(&request, &(status != 200 || content == "# Face tools\n"), &true)
}

/// Compares the list of all versions, newest first, as administrators see it.
async fn check_all_versions(clients: &ModelClients, world: &ModelWorld) -> CheckResult {
    let nodes = world.nodes.values().filter(|node| !node.deleted);
    let mut all_versions: Vec<_> =
        nodes.flat_map(|node| node.versions.iter().map(move |version| (node, version))).collect();
    all_versions.sort_by_key(|(_, version)| std::cmp::Reverse(version.created));
    for (requested_status, node_id) in
        [(None, None), (Some("Pending"), None), (Some("Active"), Some(NODES[0])), (None, Some(NODES[3]))]
    {
        let admits = |(node, version): &&(&Node, &Version)| {
            requested_status.is_none_or(|requested_status| version.status == requested_status)
                && node_id.is_none_or(|node_id| node.id == node_id)
        };
        let expected: Vec<_> = all_versions
            .iter()
            .filter(admits)
            .map(|(node, version)| expected_version(world, node, version, true))
            .collect();
        let mut query = "include_status_reason=true".to_owned();
        query.extend(requested_status.map(|status| format!("&statuses=NodeVersionStatus{status}")));
        query.extend(node_id.map(|node| format!("&node_id={node}")));
        check_pages(clients, "/versions", &query, "versions", &expected).await?;
    }
    Ok(())
}

/// Compares every page of a list, and the empty page after them, as the administrator sees them.
async fn check_pages(clients: &ModelClients, path: &str, query: &str, name: &str, expected: &[Value]) -> CheckResult {
    let pages = expected.len().div_ceil(LIMIT);
    for page in 1..=pages + 1 {
        let path = format!("{path}?limit={LIMIT}&page={page}&{query}");
        let actual = clients.get_as_admin(&path).await;
        let counts = json!([actual["total"], actual["totalPages"], actual["page"], actual["limit"]]);
        ensure_same(&path, &counts, &json!([expected.len(), pages, page, LIMIT]))?;
        let actual: Vec<_> = actual[name].as_array().expect("a list").iter().map(without_generated).collect();
        let expected: Vec<_> = expected.iter().skip((page - 1) * LIMIT).take(LIMIT).cloned().collect();
        ensure_same(&path, &actual, &expected)?;
    }
    Ok(())
}

/// Returns the expected publisher as administrators see it, without the id, which [`without_generated`] removes.
fn expected_publisher(clients: &ModelClients, world: &ModelWorld, index: usize, publisher: &Publisher) -> Value {
    let mut fields = visible_fields(&publisher.fields, &PUBLISHER_LINKS);
    fields.insert("name".to_owned(), json!(publisher.name(PUBLISHERS[index])));
    let status = if publisher.banned { "PublisherStatusBanned" } else { "PublisherStatusActive" };
    fields.insert("status".to_owned(), json!(status));
    if publisher.banned {
        fields.insert("status_detail".to_owned(), json!(BAN_REASON));
    }
    let member = |(user, owner): (&usize, &bool)| {
        let id = clients.user(*user);
        let mut user_fields = world.users[*user].fields.clone();
        user_fields.retain(|name, _| name == "name" || name == "email");
        user_fields.insert("id".to_owned(), json!(id));
        json!({"id": id, "role": if *owner { "owner" } else { "member" }, "user": user_fields})
    };
    let mut members: Vec<_> = publisher.members.iter().map(member).collect();
    members.sort_by_key(|member| string_field(member, "id"));
    fields.insert("members".to_owned(), json!(members));
    fields.into()
}

/// Sorts the members of a publisher by id, because their order is not specified.
fn sort_members(mut actual: Value) -> Value {
    if let Some(members) = actual["members"].as_array_mut() {
        members.sort_by_key(|member| string_field(member, "id"));
    }
    actual
}

/// Compares the list of publishers, and the list of every user's own publishers.
async fn check_publishers(clients: &ModelClients, world: &ModelWorld) -> CheckResult {
    let mut existing: Vec<_> = world.publishers.iter().filter(|(_, publisher)| !publisher.deleted).collect();
    existing.sort_by_key(|(index, _)| PUBLISHERS[**index]);
    for include_banned in [false, true] {
        let listed = existing.iter().filter(|(_, publisher)| include_banned || !publisher.banned);
        let expected: Vec<_> = listed.map(|(index, _)| json!(PUBLISHERS[**index])).collect();
        let actual = clients.get_as_admin(&format!("/publishers?include_banned={include_banned}&limit=2")).await;
        let ids: Vec<_> =
            actual["publishers"].as_array().expect("a list").iter().map(|item| item["id"].clone()).collect();
        ensure_same("publishers", &ids, &expected.iter().take(2).cloned().collect())?;
        ensure_same("publishers", &actual["total"], &json!(expected.len()))?;
    }
    for user in (0..world.users.len()).filter(|user| world.authenticate(ModelCaller::User(*user)).is_ok()) {
        let own_publishers = existing.iter().filter(|(_, publisher)| publisher.members.contains_key(&user));
        let expected: Vec<_> = own_publishers.map(|(index, _)| json!(PUBLISHERS[**index])).collect();
        let secret = Some(clients.secret(world, user));
        let (status, actual) = clients.request_json(secret, Method::GET, "/users/publishers", None).await;
        ensure_same("/users/publishers", &status, &200)?;
        let ids: Vec<_> = actual.as_array().expect("a list").iter().map(|item| item["id"].clone()).collect();
        ensure_same("/users/publishers", &ids, &expected)?;
    }
    Ok(())
}

/// Compares a publisher, its tokens and its nodes, and checks that e-mail addresses of members are private.
async fn check_publisher(clients: &ModelClients, world: &ModelWorld, index: usize) -> CheckResult {
    let (id, model_publisher) = (PUBLISHERS[index], world.publishers.get(&index));
    let actual = clients.get_anonymously(&format!("/publishers/validate?username={id}")).await;
    ensure_same(&format!("validate {id}"), &actual["isAvailable"], &json!(model_publisher.is_none()))?;
    let path = format!("/publishers/{id}");
    let (status, actual) = clients.request_json(Some(TOKEN), Method::GET, &path, None).await;
    let Some(publisher) = model_publisher.filter(|publisher| !publisher.deleted) else {
        return ensure_same(&path, &status, &404);
    };
    ensure_same(
        &path,
        &sort_members(without_generated(&actual)),
        &expected_publisher(clients, world, index, publisher),
    )?;
    let actual = clients.get_anonymously(&path).await;
    let shows_address =
        actual["members"].as_array().expect("a list").iter().any(|item| item["user"]["email"] != Value::Null);
    ensure_same(&format!("{path} shows e-mail addresses to anonymous callers"), &shows_address, &false)?;
    for caller in [ModelCaller::Anonymous, ADMIN, ModelCaller::User(1), ModelCaller::User(2), ModelCaller::Token(index)]
    {
        check_edit_permission(clients, world, caller, (index, ModelRole::Owner), &format!("{path}/permissions"), true)
            .await?;
    }
    let listed = publisher.tokens.iter().filter(|token| world.is_token_valid(index, token));
    check_tokens(clients, &format!("{path}/tokens"), listed, "mdp_********").await?;
    check_nodes_of(clients, world, index).await
}

/// Compares the number of tokens in a list; each must show `mask` instead of its secret.
async fn check_tokens<'w>(
    clients: &ModelClients,
    path: &str,
    expected: impl Iterator<Item = &'w Token>,
    mask: &str,
) -> CheckResult {
    let actual = clients.get_as_admin(path).await;
    let actual = actual.as_array().expect("a list");
    ensure_same(path, &actual.len(), &expected.count())?;
    ensure_same(path, &actual.iter().all(|token| token["token"] == mask), &true)
}

/// Compares the nodes of a publisher, all at once and page by page with the header `Link`.
async fn check_nodes_of(clients: &ModelClients, world: &ModelWorld, publisher: usize) -> CheckResult {
    for include_banned in [false, true] {
        let path = format!("/publishers/{}/nodes", PUBLISHERS[publisher]);
        let own_nodes = world.nodes.values().filter(|node| node.publisher == publisher && !node.deleted);
        let own_nodes = own_nodes.filter(|node| include_banned || world.is_public(node));
        let expected: Vec<_> = own_nodes.map(|node| expected_node(world, node)).collect();
        let actual = clients.get_as_admin(&format!("{path}?include_banned={include_banned}")).await;
        ensure_same(&path, &actual.as_array().expect("a list").iter().map(without_generated).collect(), &expected)?;
        for (index, page) in (1..).zip(expected.chunks(2)) {
            let page_url = format!("{path}?include_banned={include_banned}&limit=2&page={index}");
            let (status, headers, body) = clients.fetch(Some(TOKEN), &page_url).await;
            ensure_same(&page_url, &status, &200)?;
            let actual: Vec<Value> = serde_json::from_slice(&body).expect("a list");
            ensure_same(&page_url, &actual.iter().map(without_generated).collect::<Vec<_>>(), &page.to_vec())?;
            let header = |name: &str| headers[name].to_str().expect("a text").to_owned();
            ensure_same(&page_url, &header("X-Total-Count"), &expected.len().to_string())?;
            let links = header("Link");
            let has_next = links.split(", ").any(|link| link.ends_with("rel=\"next\""));
            ensure_same(&page_url, &has_next, &(index * 2 < expected.len()))?;
        }
    }
    Ok(())
}

/// Compares the list of users, and every user with its tokens.
async fn check_users(clients: &ModelClients, world: &ModelWorld) -> CheckResult {
    let mut expected = Vec::new();
    for (index, user) in world.users.iter().enumerate() {
        let mut fields = if user.erased { JsonFields::new() } else { user.fields.clone() };
        for flag in ["isAdmin", "isApproved"] {
            fields.entry(flag).or_insert(json!(false));
        }
        if user.erased {
            fields.insert("erased".to_owned(), json!(true));
        } else if user.banned {
            fields.insert("status".to_owned(), json!("UserStatusBanned"));
            fields.insert("statusReason".to_owned(), json!(BAN_REASON));
        }
        let fields = Value::Object(fields);
        expected.push(fields.clone());
        let path = format!("/admin/users/{}/tokens", clients.user(index));
        if user.erased {
            let (status, _) = clients.request_json(Some(TOKEN), Method::GET, &path, None).await;
            ensure_same(&path, &status, &404)?;
            continue;
        }
        check_tokens(clients, &path, user.tokens.iter().filter(|token| !token.revoked), "mdu_********").await?;
        if world.authenticate(ModelCaller::User(index)).is_ok() {
            let actual = clients.request_json(Some(clients.secret(world, index)), Method::GET, "/users", None).await;
            ensure_same("/users", &(actual.0, without_generated(&actual.1)), &(200, fields))?;
        }
    }
    check_pages(clients, "/admin/users", "", "users", &expected).await
}
