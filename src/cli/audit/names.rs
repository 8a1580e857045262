//! Display names of actors and resources, which the event table shows beside their ids.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::queries::query_string;
use super::target::{AuditTarget, ServiceClient};
use crate::app;
use crate::audit::subject::AuditSubject;
use crate::outbound::api_client::ApiClient;

/// Ids per request; more would make the URL too long.
const IDS_PER_REQUEST: usize = 50;

/// List of a service that has the names of one kind of resource.
struct NameList {
    kind: &'static str,
    path: &'static str,
    /// Query parameter that selects resources by id.
    id_parameter: &'static str,
    /// Field of the response with the entries.
    entries_field: &'static str,
}

const NAME_LISTS: [NameList; 3] = [
    NameList { kind: "user", path: "/admin/users", id_parameter: "user_id", entries_field: "users" },
    NameList { kind: "publisher", path: "/publishers", id_parameter: "publisher_id", entries_field: "publishers" },
    NameList { kind: "node", path: "/nodes", id_parameter: "node_id", entries_field: "nodes" },
];

/// Names by `kind/id`; `None` for resources that have none, or whose name could not be read.
#[derive(Debug, Default)]
pub(super) struct ResourceNames(BTreeMap<String, Option<String>>);

impl ResourceNames {
    /// Returns the name of an actor or a resource; `None` if it is unknown, blank or only repeats the id.
    pub(super) fn get(&self, resource: &str) -> Option<&str> {
        let name = self.0.get(resource)?.as_deref()?;
        let id = resource.split_once('/').map_or(resource, |(_, id)| id);
        (!name.trim().is_empty() && !name.eq_ignore_ascii_case(id)).then_some(name)
    }

    /// Looks up the names of the actors and resources in `events`, unless they are known already. A failed look-up
    /// leaves a resource without a name.
    pub(super) fn look_up(&mut self, target: &AuditTarget, events: &[Value]) {
        match target {
            AuditTarget::Stopped { audit, .. } => {
                let missing = self.missing(events);
                let subjects: Vec<_> = missing.iter().filter_map(|name| AuditSubject::parse(name).ok()).collect();
                let names = audit.names(&subjects).unwrap_or_default();
                self.insert(missing, &names);
            }
            AuditTarget::Running(service) => app::block_on(self.look_up_at(service, events)),
        }
    }

    /// Like [`ResourceNames::look_up`], at a running service.
    pub(super) async fn look_up_at(&mut self, service: &ServiceClient, events: &[Value]) {
        let missing = self.missing(events);
        let mut names = BTreeMap::new();

        for NameList { kind, path, id_parameter, entries_field } in NAME_LISTS {
            let ids: Vec<_> = missing.iter().filter_map(|name| name.strip_prefix(kind)?.strip_prefix('/')).collect();
            for ids in ids.chunks(IDS_PER_REQUEST) {
                let limit = ids.len().to_string();
                let mut pairs: Vec<_> = ids.iter().map(|id| (id_parameter, *id)).collect();
                pairs.extend([("limit", limit.as_str()), ("include_banned", "true")]);
                let list = read_json(service.api(), &format!("{path}?{}", query_string(&pairs))).await;
                for entry in list[entries_field].as_array().into_iter().flatten() {
                    if let (Some(id), Some(name)) = (entry["id"].as_str(), entry["name"].as_str()) {
                        // Ids of nodes are in lower case in names of streams.
                        let id = if kind == "node" { id.to_ascii_lowercase() } else { id.to_owned() };
                        names.insert(format!("{kind}/{id}"), name.to_owned());
                    }
                }
            }
        }

        // No endpoint lists all tokens, so the name comes from the event that issued the token.
        for token in missing.iter().filter(|name| name.starts_with("token/")) {
            let query = query_string(&[("stream", token), ("type", "TokenIssued,LimitedTokenIssued"), ("limit", "1")]);
            let page = read_json(service.api(), &format!("/admin/events?{query}")).await;
            if let Some(name) = page["events"][0]["data"]["name"].as_str() {
                names.insert(token.clone(), name.to_owned());
            }
        }
        self.insert(missing, &names);
    }

    /// Returns the actors and resources in `events` that were not looked up yet. Each token takes a request of its own,
    /// so only tokens that are actors are included.
    fn missing(&self, events: &[Value]) -> BTreeSet<String> {
        let actors = events.iter().filter_map(|event| event["actor"].as_str());
        let streams = events.iter().filter_map(|event| event["stream"].as_str());
        let streams = streams.filter(|stream| !stream.starts_with("token/"));
        let has_name =
            |name: &&str| ["user/", "publisher/", "node/", "token/"].iter().any(|kind| name.starts_with(kind));
        let resources = actors.chain(streams).filter(has_name);
        resources.filter(|name| !self.0.contains_key(*name)).map(str::to_owned).collect()
    }

    /// Records the name of each resource, or that it has none if `names` lacks it.
    fn insert(&mut self, resources: BTreeSet<String>, names: &BTreeMap<String, String>) {
        self.0.extend(resources.into_iter().map(|resource| {
            let name = names.get(&resource).cloned();
            (resource, name)
        }));
    }
}

/// Returns the JSON of a successful response, otherwise `null`.
async fn read_json(api: &ApiClient, path: &str) -> Value {
    match api.get(path).await {
        Ok(reply) if reply.status == 200 => reply.json(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_that_are_ids_or_blank_are_not_shown() {
        let mut names = ResourceNames::default();
        let resources = [("publisher/acme", "Acme Labs"), ("node/face-tools", "Face-Tools"), ("user/1", " ")];
        let read_names = resources.map(|(resource, name)| (resource.to_owned(), name.to_owned())).into();
        names.insert(resources.map(|(resource, _)| resource.to_owned()).into(), &read_names);
        assert_eq!(names.get("publisher/acme"), Some("Acme Labs"));
        assert_eq!((names.get("node/face-tools"), names.get("user/1"), names.get("system")), (None, None, None));
    }

    #[test]
    fn each_resource_is_looked_up_once_and_only_acting_tokens_are() {
        let mut names = ResourceNames::default();
        let events = [
            json!({"actor": "system", "stream": "task/1"}),
            json!({"actor": "user/1", "stream": "token/2"}),
            json!({"actor": "token/3", "stream": "node/a"}),
        ];
        let missing = names.missing(&events);
        assert_eq!(missing.iter().collect::<Vec<_>>(), ["node/a", "token/3", "user/1"]);
        names.insert(missing, &BTreeMap::new());
        assert!(names.missing(&events).is_empty());
    }
}
