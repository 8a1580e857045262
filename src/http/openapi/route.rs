//! Parts of an operation that follow from its route: allowed callers, credentials and body limits.

use serde_json::{Map, Value, json};

use crate::domain::policy::{Action, Standing};
use crate::http::body::{BodyLimit, DEPTH_MAX, ELEMENTS_MAX};

/// Security requirements of an action: a bearer token, optional if the policy admits anonymous callers. Publishing also
/// accepts a token in the body.
pub fn security(action: Action) -> Value {
    let mut ways = vec![json!({"bearer": []})];
    if action.allows(Standing::Anonymous) || action == Action::PublishVersion {
        ways.push(Value::Object(Map::new()));
    }
    ways.into()
}

/// Names the callers that the policy allows. Members may do what any user may, owners what members may, and
/// administrators everything.
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
        let tokens = if action.allows(Standing::OtherToken) { "" } else { " except personal access tokens" };
        return format!("everyone{tokens}");
    }
    let allowed = named.iter().filter(|(standing, _)| action.allows(*standing) && !implied(*standing));
    allowed.map(|(_, name)| *name).chain(["administrators"]).collect::<Vec<_>>().join(", ")
}

/// Returns a sentence with the body limits, to be appended to a description.
pub fn body_may_be(limit: BodyLimit) -> String {
    let size = match limit.bytes() {
        0 => return String::new(),
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    };
    let shape = match limit {
        BodyLimit::Json | BodyLimit::Images => {
            format!(", at most {DEPTH_MAX} levels of nesting and {ELEMENTS_MAX} elements")
        }
        _ => String::new(),
    };
    format!(" Body limit: {size}{shape}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_is_told_as_the_policy_has_it() {
        for (action, told) in [
            (Action::ReadRegistry, "everyone"),
            (Action::SubmitVideoTask, "everyone except personal access tokens"),
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
        assert_eq!(json, " Body limit: 2 MiB, at most 64 levels of nesting and 100000 elements.");
        assert!(images.starts_with(" Body limit: 70 MiB, at most"));
        assert_eq!(archive, " Body limit: 100 MiB.");
        assert_eq!(form, " Body limit: 256 KiB.");
    }
}
