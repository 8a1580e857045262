//! Parts of an operation that follow from its route: allowed callers, credentials and body limits.

use serde_json::{Map, Value, json};

use crate::domain::policy::{Action, CallerRole};
use crate::http::request::body::{BodyLimit, DEPTH_MAX, ELEMENTS_MAX};

/// Returns the security requirements of an action: a token in one of two headers, optional if the policy admits
/// anonymous callers. Publishing also accepts a token in the body.
pub fn security_requirements(action: Action) -> Value {
    let mut requirements = vec![json!({"bearer": []}), json!({"apiKey": []})];
    if action.allows(CallerRole::Anonymous) || action == Action::PublishVersion {
        requirements.push(Value::Object(Map::new()));
    }
    requirements.into()
}

/// Names the callers that the policy allows. Members may do what any user may, owners what members may, and
/// administrators everything.
pub fn allowed_callers(action: Action) -> String {
    let role_names = [
        (CallerRole::User, "any user"),
        (CallerRole::Member, "members of the publisher"),
        (CallerRole::Owner, "owners of the publisher"),
        (CallerRole::OwnToken, "its personal access tokens"),
        (CallerRole::OtherToken, "any personal access token"),
    ];
    let is_implied = |role| match role {
        CallerRole::Member => action.allows(CallerRole::User),
        CallerRole::Owner => action.allows(CallerRole::Member),
        CallerRole::OwnToken => action.allows(CallerRole::OtherToken),
        _ => false,
    };

    if action.allows(CallerRole::Anonymous) {
        let tokens = if action.allows(CallerRole::OtherToken) { "" } else { " except personal access tokens" };
        return format!("everyone{tokens}");
    }

    let allowed = role_names.iter().filter(|(role, _)| action.allows(*role) && !is_implied(*role));
    allowed.map(|(_, name)| *name).chain(["administrators"]).collect::<Vec<_>>().join(", ")
}

/// Sentence about bodies that can be forms.
const FORM: &str =
    " The body can also be a form, with pictures as files or text, and numbers, booleans and objects as JSON.";

/// Returns a sentence with the body limits, to be appended to a description.
pub fn describe_body_limit(limit: BodyLimit) -> String {
    let size = limit.size_text();
    let shape = format!("at most {DEPTH_MAX} levels of nesting and {ELEMENTS_MAX} elements");
    match limit {
        BodyLimit::None => String::new(),
        BodyLimit::Json => format!(" Body limit: {size}, {shape}."),
        BodyLimit::Images => format!(" Body limit: {size}, {shape}.{FORM}"),
        BodyLimit::InputForm => {
            format!(" Body limit: {size} as a form; as JSON {}, {shape}.", BodyLimit::Json.size_text())
        }
        BodyLimit::Archive | BodyLimit::Form | BodyLimit::InputFile => format!(" Body limit: {size}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_callers_match_the_policy() {
        for (action, expected) in [
            (Action::ReadRegistry, "everyone"),
            (Action::SubmitVideoTask, "everyone except personal access tokens"),
            (Action::CreatePublisher, "any user, administrators"),
            (Action::UpdatePublisher, "owners of the publisher, administrators"),
            (Action::ReviseNode, "members of the publisher, its personal access tokens, administrators"),
            (Action::ListPublisherNodes, "any user, any personal access token, administrators"),
            (Action::Administer, "administrators"),
        ] {
            assert_eq!(allowed_callers(action), expected, "{action:?}");
        }
    }

    #[test]
    fn documented_body_limits_match_the_routes() {
        let [none, json, images, archive, form, file, file_form] = BodyLimit::ALL.map(describe_body_limit);
        assert_eq!(none, "");
        assert_eq!(json, " Body limit: 2 MiB, at most 64 levels of nesting and 100000 elements.");
        assert!(images.starts_with(" Body limit: 70 MiB, at most"));
        assert_eq!(archive, " Body limit: 100 MiB.");
        assert_eq!(form, " Body limit: 256 KiB.");
        assert_eq!(file, " Body limit: 512 MiB.");
        let expected =
            " Body limit: 512 MiB as a form; as JSON 2 MiB, at most 64 levels of nesting and 100000 elements.";
        assert_eq!(file_form, expected);
    }
}
