//! One operation of the interface: how it is written down, and what of it follows from its route.
//!
//! What is the same everywhere is not written at each operation: security and the failures that go with it come from the
//! route's action, those of a body from there being one, the tag of a read from its method.

use std::collections::BTreeMap;

use actix_web::http::Method;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::error::{Failure, by_status, reference};
use super::parameter::{Parameter, in_path, shared};
use super::schema::named;
use crate::domain::policy::{Action, Standing};
use crate::http::error::Code;
use crate::http::limits::Kind;

/// What answers say of the limits of the caller.
pub const LIMIT_HEADERS: [&str; 2] = ["RateLimit", "RateLimit-Policy"];

/// An operation as its noun describes it.
pub struct Operation {
    pub method: Method,
    pub path: &'static str,
    id: &'static str,
    summary: &'static str,
    about: String,
    parameters: Vec<Parameter>,
    body: Option<Value>,
    streams: bool,
    waits: bool,
    answers: BTreeMap<u16, Value>,
    failures: Vec<Failure>,
}

/// An operation as the document has it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    tags: [&'static str; 1],
    pub operation_id: &'static str,
    summary: &'static str,
    description: String,
    parameters: Vec<Parameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_body: Option<Value>,
    responses: BTreeMap<u16, Value>,
    security: Value,
}

/// Begins the description of a GET.
pub fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::GET, path, id, summary)
}

/// Begins the description of a POST.
pub fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::POST, path, id, summary)
}

/// Begins the description of a PUT.
pub fn put(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::PUT, path, id, summary)
}

/// Begins the description of a DELETE.
pub fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::DELETE, path, id, summary)
}

impl Operation {
    fn new(method: Method, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self {
            method,
            path,
            id,
            summary,
            about: String::new(),
            parameters: Vec::new(),
            body: None,
            streams: false,
            waits: false,
            answers: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    /// What it does, for whoever calls it: effects, what is left out, what counts. Markdown.
    #[must_use]
    pub fn about(mut self, about: impl Into<String>) -> Self {
        self.about = about.into();
        self
    }

    /// Parameters of the query.
    #[must_use]
    pub fn query(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// A JSON body by its component, with an example.
    #[must_use]
    pub fn takes(self, component: &str, example: &Value) -> Self {
        self.takes_content("application/json", &json!({"schema": named(component), "example": example}))
    }

    /// A body of any type.
    #[must_use]
    pub fn takes_content(mut self, media_type: &str, content: &Value) -> Self {
        self.body = Some(json!({"required": true, "content": {media_type: content}}));
        self
    }

    /// A body that is not received whole before the work begins.
    #[must_use]
    pub fn streams(self, media_type: &str, content: &Value) -> Self {
        Self { streams: true, ..self.takes_content(media_type, content) }
    }

    /// A form with parts.
    #[must_use]
    pub fn takes_form(self, component: &str, example: &Value) -> Self {
        let content = json!({"schema": named(component), "example": example});
        self.takes_content("multipart/form-data", &content)
    }

    /// Waits for the end of a task when the caller prefers so.
    #[must_use]
    pub fn waits(self) -> Self {
        Self { waits: true, ..self }.with_header(200, "Preference-Applied")
    }

    /// A JSON answer.
    #[must_use]
    pub fn answers(self, status: u16, about: &str, schema: &Value, example: &Value) -> Self {
        self.answers_content(status, about, "application/json", &json!({"schema": schema, "example": example}))
    }

    /// 200 with a JSON component.
    #[must_use]
    pub fn shows(self, about: &str, component: &str, example: &Value) -> Self {
        self.answers(200, about, &named(component), example)
    }

    /// 201 with a JSON component.
    #[must_use]
    pub fn creates(self, about: &str, component: &str, example: &Value) -> Self {
        self.answers(201, about, &named(component), example)
    }

    /// 200 with text.
    #[must_use]
    pub fn answers_text(self, about: &str, example: &str) -> Self {
        let content = json!({"schema": {"type": "string"}, "example": example});
        self.answers_content(200, about, "text/plain", &content)
    }

    /// An answer of any type.
    #[must_use]
    pub fn answers_content(mut self, status: u16, about: &str, media_type: &str, content: &Value) -> Self {
        let answer = json!({"description": about, "content": {media_type: content}});
        self.answers.insert(status, answer);
        self
    }

    /// An answer without a body.
    #[must_use]
    pub fn answers_nothing(mut self, status: u16, about: &str) -> Self {
        self.answers.insert(status, json!({"description": about}));
        self
    }

    /// A file with a strong tag, whole or in parts.
    #[must_use]
    pub fn serves_file(self, about: &str, media_type: &str) -> Self {
        let bytes = json!({"schema": {"type": "string", "format": "binary"}});
        let parts = "The ranges that were asked for; several as multipart/byteranges.";
        self.answers_content(200, about, media_type, &bytes)
            .answers_content(206, parts, media_type, &bytes)
            .answers_nothing(304, "The caller has it already.")
            .with_header(200, "ETag")
            .with_header(206, "ETag")
            .with_header(304, "ETag")
            .fails(Code::RangeNotSatisfiable, "")
    }

    /// A node id in another case than the node's own is redirected.
    #[must_use]
    pub fn may_redirect(self) -> Self {
        self.answers_nothing(302, "The id is written in another case than the node's own: the same is there.")
            .with_header(302, "Location")
    }

    /// An answer has this header, which stands among the components.
    #[must_use]
    pub fn with_header(mut self, status: u16, name: &str) -> Self {
        if let Some(answer) = self.answers.get_mut(&status) {
            answer["headers"][name] = json!({"$ref": format!("#/components/headers/{name}")});
        }
        self
    }

    /// It can fail with this code, in this case; said without a case the title of the code is enough.
    #[must_use]
    pub fn fails(mut self, code: Code, when: &'static str) -> Self {
        self.failures.push((code, when));
        self
    }

    /// Everything that can go wrong: what the operation says, and what follows from its route.
    pub fn failures(&self, action: Action) -> Vec<Failure> {
        let mut codes = vec![
            Code::MalformedRequest,
            Code::Unauthorized,
            Code::IssuerUnavailable,
            Code::NotAcceptable,
            Code::HeadersTooLarge,
            Code::Internal,
        ];
        if Standing::ALL.iter().any(|standing| *standing != Standing::Anonymous && !action.allows(*standing)) {
            codes.push(Code::Forbidden);
        }
        if self.path.contains('{') {
            codes.push(Code::NotFound);
        }
        if self.body.is_some() || !self.parameters.is_empty() {
            codes.push(Code::InvalidInput);
        }
        // Publishing looks for its token in the body, even where it needs none otherwise.
        if self.body.is_some() || action == Action::PublishVersion {
            codes.extend([
                Code::MalformedBody,
                Code::RequestTimeout,
                Code::PayloadTooLarge,
                Code::UnsupportedMedia,
                Code::Overloaded,
            ]);
        }
        if self.method != Method::GET && action.writes() {
            codes.extend([Code::Banned, Code::Overloaded, Code::ReadOnly, Code::InsufficientStorage]);
        }
        if Kind::of(action, self.method == Method::GET).is_some() {
            codes.push(Code::RateLimited);
        }
        if self.is_keyed() {
            codes.extend([Code::IdempotencyKeyInUse, Code::IdempotencyKeyReused]);
            // With a key the body is received whole, whatever becomes of it.
            codes.extend([Code::RequestTimeout, Code::PayloadTooLarge, Code::UnsupportedMedia, Code::Overloaded]);
        }
        self.failures.iter().copied().chain(codes.into_iter().map(|code| (code, ""))).collect()
    }

    /// The operation as the document has it.
    pub fn show(self, tag: &'static str, action: Action) -> Shown {
        let failures = by_status(&self.failures(action));
        let parameters = self.all_parameters();
        let mut responses = self.successes(action);
        responses.extend(failures.into_iter().map(|(status, group)| (status, reference(&group))));
        Shown {
            tags: [tag],
            operation_id: self.id,
            summary: self.summary,
            description: format!("{}\n\nWho may: {}.", self.about, who_may(action)).trim_start().to_owned(),
            parameters,
            request_body: self.body,
            responses,
            security: security(action),
        }
    }

    fn all_parameters(&self) -> Vec<Parameter> {
        let in_path = names_in(self.path).map(in_path);
        let mut parameters: Vec<_> = in_path.chain(self.parameters.iter().cloned()).collect();
        if self.method == Method::GET && self.is_tagged() {
            parameters.push(shared("If-None-Match"));
        }
        if self.is_keyed() || self.streams {
            parameters.push(shared("Idempotency-Key"));
        }
        if self.waits {
            parameters.push(shared("Prefer"));
        }
        parameters.push(shared("X-Request-Id"));
        parameters
    }

    /// Whether it can be asked for with a key, so that it is done once.
    fn is_keyed(&self) -> bool {
        (self.method == Method::POST || self.method == Method::PUT) && !self.streams
    }

    /// Whether what is read carries an entity tag: JSON does.
    fn is_tagged(&self) -> bool {
        self.answers.get(&200).is_some_and(|answer| answer["content"].get("application/json").is_some())
    }

    fn successes(&self, action: Action) -> BTreeMap<u16, Value> {
        let mut answers = self.answers.clone();
        if self.method == Method::GET && self.is_tagged() {
            answers.insert(304, json!({"description": "The caller has the current answer already."}));
        }
        for (status, answer) in &mut answers {
            let tagged = self.method == Method::GET && self.is_tagged() && matches!(status, 200 | 304);
            let replayed = self.is_keyed().then_some("Idempotent-Replayed");
            let limited = Kind::of(action, self.method == Method::GET).map(|_| LIMIT_HEADERS);
            let always = ["X-Request-Id"].into_iter().chain(limited.into_iter().flatten());
            for name in always.chain(tagged.then_some("ETag")).chain(replayed) {
                answer["headers"][name] = json!({"$ref": format!("#/components/headers/{name}")});
            }
        }
        answers
    }
}

/// The names of the parameters of a path.
fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

/// A bearer token; or nothing, where the policy lets anonymous callers through. Publishing takes its token in the body too.
pub fn security(action: Action) -> Value {
    let mut ways = vec![json!({"bearer": []})];
    if action.allows(Standing::Anonymous) || action == Action::PublishVersion {
        ways.push(Value::Object(Map::new()));
    }
    ways.into()
}

/// Who may do it, as the policy has it. Whoever is a user may what any user may, and an administrator everything.
fn who_may(action: Action) -> String {
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
        return "everybody".to_owned();
    }
    let allowed = named.iter().filter(|(standing, _)| action.allows(*standing) && !implied(*standing));
    allowed.map(|(_, name)| *name).chain(["administrators"]).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_is_told_as_the_policy_has_it() {
        for (action, told) in [
            (Action::ReadRegistry, "everybody"),
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
    fn what_follows_from_a_route_is_added() {
        let statuses =
            |operation: Operation, action| operation.show("", action).responses.keys().copied().collect::<Vec<_>>();
        let read = get("/nodes/{node_id}", "", "").shows("", "Node", &json!({}));
        assert_eq!(statuses(read, Action::ReadRegistry), [200, 304, 400, 401, 404, 406, 429, 431, 500, 503]);
        let write = delete("/publishers/{publisher_id}", "", "").answers_nothing(204, "");
        assert_eq!(statuses(write, Action::DeletePublisher), [204, 400, 401, 403, 404, 406, 429, 431, 500, 503, 507]);
    }
}
