//! What of an operation follows from its route: who may, with which credentials, and how large the body may be.

use serde_json::{Map, Value, json};

use crate::domain::policy::{Action, Standing};
use crate::http::body::{BodyLimit, DEPTH_MAX, ELEMENTS_MAX};

/// A bearer token; or nothing, where the policy lets anonymous callers through. Publishing takes its token in the body too.
pub fn security(action: Action) -> Value {
    let mut ways = vec![json!({"bearer": []})];
    if action.allows(Standing::Anonymous) || action == Action::PublishVersion {
        ways.push(Value::Object(Map::new()));
    }
    ways.into()
}

/// Who may do it, as the policy has it. Whoever is a user may what any user may, and an administrator everything.
pub fn who_may(action: Action) -> String {
    let named = [
        (Standing::User, "any user"),
        (Standing::Member, "members of the publisher"),
        (Standing::Owner, "owners of the publisher"),
        (Standing::OwnToken, "its personal access tokens"),
        (Standing::OtherToken, "any personal access token"),
    ];
    let implied = |standing| match standing {
        Standing::Member => action.allows(Standing::User),
        Standing::Owner => action.allows(Standing::Member),
        Standing::OwnToken => action.allows(Standing::OtherToken),
        _ => false,
    };
    if action.allows(Standing::Anonymous) {
        let tokens = if action.allows(Standing::OtherToken) { "" } else { ", but no personal access token" };
        return format!("everybody{tokens}");
    }
    let allowed = named.iter().filter(|(standing, _)| action.allows(*standing) && !implied(*standing));
    allowed.map(|(_, name)| *name).chain(["administrators"]).collect::<Vec<_>>().join(", ")
}

/// How large the body may be: a sentence that goes behind others.
pub fn body_may_be(limit: BodyLimit) -> String {
    let size = match limit.bytes() {
        0 => return String::new(),
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    };
    let shape = match limit {
        BodyLimit::Json | BodyLimit::Images => {
            format!(", nested at most {DEPTH_MAX} levels deep, with at most {ELEMENTS_MAX} elements")
        }
        _ => String::new(),
    };
    format!(" The body: at most {size}{shape}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_is_told_as_the_policy_has_it() {
        for (action, told) in [
            (Action::ReadRegistry, "everybody"),
            (Action::SubmitVideoTask, "everybody, but no personal access token"),
            (Action::CreatePublisher, "any user, administrators"),
            (Action::UpdatePublisher, "owners of the publisher, administrators"),
            (Action::ReviseNode, "members of the publisher, its personal access tokens, administrators"),
            (Action::ListPublisherNodes, "any user, any personal access token, administrators"),
            (Action::Administer, "administrators"),
        ] {
            assert_eq!(who_may(action), told);
        }
    }

    #[test]
    fn bodies_are_told_as_large_as_they_may_be() {
        let [none, json, images, archive, form] =
            [BodyLimit::None, BodyLimit::Json, BodyLimit::Images, BodyLimit::Archive, BodyLimit::Form].map(body_may_be);
        assert_eq!(none, "");
        assert_eq!(json, " The body: at most 2 MiB, nested at most 64 levels deep, with at most 100000 elements.");
        assert!(images.starts_with(" The body: at most 70 MiB, nested"));
        assert_eq!(archive, " The body: at most 100 MiB.");
        assert_eq!(form, " The body: at most 256 KiB.");
    }
}
