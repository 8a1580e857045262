//! Extraction of the components that a part of the document refers to.

use serde_json::{Map, Value};

const COMPONENTS: &str = "#/components/";

/// Returns the components to which the `roots` refer, directly or through other components, by kind and name.
pub fn reachable_components<'v>(components: &'v Value, roots: impl Iterator<Item = &'v Value>) -> Value {
    let mut reachable = Map::new();
    let mut pending: Vec<&Value> = roots.collect();
    while let Some(value) = pending.pop() {
        for (kind, name) in references(value) {
            let of_kind = reachable.entry(kind).or_insert_with(|| Map::new().into());
            if of_kind.get(name).is_none() {
                of_kind[name] = components[kind][name].clone();
                pending.push(&components[kind][name]);
            }
        }
    }
    reachable.into()
}

/// Returns the kind and the name of each component to which a value refers.
fn references(value: &Value) -> Vec<(&str, &str)> {
    match value {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str);
            let own_reference = target.and_then(|target| target.strip_prefix(COMPONENTS)?.split_once('/'));
            own_reference.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(entries) => entries.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
