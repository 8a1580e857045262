//! Differences between two JSON values.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One differing value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JsonDifference {
    /// JSON pointer (RFC 6901). Entries of lists are named by their `version` or `id`, not by their index.
    pub path: String,
    /// Previous value; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// New value, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Returns the differences between two values, sorted by path within each object; empty if the values are equal. A
/// value that was added or removed as a whole is one difference.
#[must_use]
pub fn differences(before: Option<&Value>, after: Option<&Value>) -> Vec<JsonDifference> {
    let mut found = Vec::new();
    compare(String::new(), before, after, &mut found);
    found
}

fn compare(path: String, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<JsonDifference>) {
    match (before, after) {
        (None, None) => {}
        (Some(before), Some(after)) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => compare_members(&path, before, after, found),
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            match (entries_by_name(before), entries_by_name(after)) {
                (Some(before), Some(after)) => compare_members(&path, &before, &after, found),
                _ => found.push(JsonDifference {
                    path,
                    before: Some(Value::Array(before.clone())),
                    after: Some(Value::Array(after.clone())),
                }),
            }
        }
        (before, after) => found.push(JsonDifference { path, before: before.cloned(), after: after.cloned() }),
    }
}

fn compare_members(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    found: &mut Vec<JsonDifference>,
) {
    let added = after.keys().filter(|name| !before.contains_key(*name));
    let mut names: Vec<&String> = before.keys().chain(added).collect();
    names.sort_unstable();

    for name in names {
        let member_path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        compare(member_path, before.get(name), after.get(name), found);
    }
}

/// Returns the entries of a list, keyed by name; `None` if an entry has no name or a name occurs twice.
fn entries_by_name(entries: &[Value]) -> Option<Map<String, Value>> {
    let mut by_name = Map::new();
    for entry in entries {
        let name = entry.get("version").or_else(|| entry.get("id"))?.as_str()?;
        if by_name.insert(name.to_owned(), entry.clone()).is_some() {
            return None;
        }
    }
    Some(by_name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(before: &Value, after: &Value) -> Vec<(String, Option<Value>, Option<Value>)> {
        let found = differences(Some(before), Some(after));
        found.into_iter().map(|difference| (difference.path, difference.before, difference.after)).collect()
    }

    #[test]
    fn only_differences_are_reported() {
        let before = json!({"a": 1, "b": {"c": "x", "d": [1]}, "gone": true, "same": []});
        let after = json!({"a": 1, "b": {"c": "y", "d": [2]}, "come": {"x": 1}, "same": []});
        let expected = [
            ("/b/c", Some(json!("x")), Some(json!("y"))),
            ("/b/d", Some(json!([1])), Some(json!([2]))),
            ("/come", None, Some(json!({"x": 1}))),
            ("/gone", Some(json!(true)), None),
        ];
        assert_eq!(changes(&before, &after), expected.map(|(path, before, after)| (path.to_owned(), before, after)));
    }

    #[test]
    fn entries_of_lists_are_matched_by_name() {
        let before =
            json!({"versions": [{"version": "1.0.0", "status": "Pending"}], "members": [{"id": "a", "role": "owner"}]});
        let after = json!({
            "versions": [{"version": "1.1.0"}, {"version": "1.0.0", "status": "Active"}],
            "members": [{"id": "b", "role": "owner"}],
        });
        let paths: Vec<_> = changes(&before, &after).into_iter().map(|(path, ..)| path).collect();
        assert_eq!(paths, ["/members/a", "/members/b", "/versions/1.0.0/status", "/versions/1.1.0"]);
    }

    #[test]
    fn lists_without_names_change_as_a_whole() {
        let duplicates = json!([{"id": "a"}, {"id": "a"}]);
        assert_eq!(changes(&duplicates, &json!([])).len(), 1);
        assert_eq!(changes(&json!({"a/b~c": 1}), &json!({"a/b~c": 2}))[0].0, "/a~1b~0c");
    }

    #[test]
    fn an_added_or_removed_value_is_one_difference() {
        let one = json!({"a": 1});
        assert_eq!(
            differences(None, Some(&one))[0],
            JsonDifference { path: String::new(), before: None, after: Some(one.clone()) }
        );
        assert_eq!(differences(Some(&one), None)[0].after, None);
        assert!(differences(None, None).is_empty() && differences(Some(&one), Some(&one)).is_empty());
    }
}
