//! One operation of the interface: how it is written down, and what of it follows from its route.
//!
//! What is the same everywhere is not written at each operation: security and the failures that go with it come from the
//! route's action, those of a body from there being one, the tag of a read from its method.

use std::collections::BTreeMap;

use actix_web::http::Method;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::error::{Failure, Group, by_status};
use super::parameter::{Parameter, in_path, shared};
use super::route::{body_may_be, security, who_may};
use super::schema::named;
use crate::domain::policy::{Action, Standing};
use crate::http::body::BodyLimit;
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
    /// Headers of its own that it looks at, by their names among the components.
    heeds: Vec<&'static str>,
    answers: BTreeMap<u16, Value>,
    /// Headers of its own that answers have, by their names among the components.
    headers: Vec<(u16, &'static str)>,
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
            heeds: Vec::new(),
            answers: BTreeMap::new(),
            headers: Vec::new(),
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

    /// A body that is not received whole before the work begins, under any of these types.
    #[must_use]
    pub fn streams(self, media_types: &[&str], content: &Value) -> Self {
        let contents: Map<_, _> = media_types.iter().map(|name| ((*name).to_owned(), content.clone())).collect();
        Self { streams: true, body: Some(json!({"required": true, "content": contents})), ..self }
    }

    /// A form with parts.
    #[must_use]
    pub fn takes_form(self, component: &str, example: &Value) -> Self {
        let content = json!({"schema": named(component), "example": example});
        self.takes_content("multipart/form-data", &content)
    }

    /// Waits for the end of a task when the caller prefers so.
    #[must_use]
    pub fn waits(mut self) -> Self {
        self.heeds.push("Prefer");
        self.with_header(200, "Preference-Applied")
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

    /// A file with a strong tag, whole or in parts, which its answers say more of in these headers.
    #[must_use]
    pub fn serves_file(mut self, about: &str, media_type: &str, told: &[&'static str]) -> Self {
        let bytes = json!({"schema": {"type": "string", "format": "binary"}});
        let parts = "The ranges that were asked for; several as multipart/byteranges.";
        self.heeds.extend(["Range", "If-Range", "If-None-Match"]);
        for status in [200, 206, 304] {
            let always = ["ETag", "Accept-Ranges", "Cache-Control"];
            self.headers.extend(always.iter().chain(told).map(|name| (status, *name)));
        }
        self.answers_content(200, about, media_type, &bytes)
            .answers_content(206, parts, media_type, &bytes)
            .answers_nothing(304, "The caller has it already.")
            .with_header(206, "Content-Range.part")
            .fails(Code::RangeNotSatisfiable, "")
    }

    /// A node id in another case than the node's own is redirected.
    #[must_use]
    pub fn may_redirect(self) -> Self {
        self.answers_nothing(302, "The id is written in another case than the node's own: the same is there.")
            .with_header(302, "Location")
    }

    /// The answer of this status has this header, which stands among the components.
    #[must_use]
    pub fn with_header(mut self, status: u16, name: &'static str) -> Self {
        self.headers.push((status, name));
        self
    }

    /// It can fail with this code, in this case; said without a case the title of the code is enough.
    #[must_use]
    pub fn fails(mut self, code: Code, when: &'static str) -> Self {
        self.failures.push((code, when));
        self
    }

    /// Everything that can go wrong by status: what the operation says, and what follows from its route.
    pub fn failures(&self, action: Action) -> BTreeMap<u16, Group> {
        let mut codes = vec![
            Code::MalformedRequest,
            Code::Unauthorized,
            Code::IssuerUnavailable,
            Code::NotAcceptable,
            Code::MisdirectedRequest,
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
        // Pages of other origins, which nobody has named.
        if self.method != Method::GET {
            codes.push(Code::Forbidden);
        }
        if self.method != Method::GET && action.writes() {
            codes.extend([Code::Banned, Code::Overloaded, Code::ReadOnly, Code::InsufficientStorage]);
        }
        if Kind::of(action, self.path, self.method == Method::GET).is_some() {
            codes.push(Code::RateLimited);
        }
        if self.is_keyed() {
            codes.extend([Code::IdempotencyKeyInUse, Code::IdempotencyKeyReused]);
            // With a key the body is received whole, whatever becomes of it.
            codes.extend([Code::RequestTimeout, Code::PayloadTooLarge, Code::UnsupportedMedia, Code::Overloaded]);
        }
        let failures: Vec<_> = self.failures.iter().copied().chain(codes.into_iter().map(|code| (code, ""))).collect();
        by_status(&failures, self.is_keyed())
    }

    /// The schema of its JSON body, with its method and path.
    pub fn json_body(&self) -> Option<(Method, &'static str, Value)> {
        let schema = self.body.as_ref()?["content"].get("application/json")?.get("schema")?;
        Some((self.method.clone(), self.path, schema.clone()))
    }

    /// The operation as the document has it.
    pub fn show(self, tag: &'static str, action: Action, limit: BodyLimit) -> Shown {
        let failures = self.failures(action);
        let parameters = self.all_parameters();
        let mut responses = self.successes(action);
        responses.extend(failures.into_iter().map(|(status, group)| (status, group.reference())));
        let body = self.body.as_ref().map(|_| body_may_be(limit)).unwrap_or_default();
        Shown {
            tags: [tag],
            operation_id: self.id,
            summary: self.summary,
            description: format!("{}\n\nWho may: {}.{body}", self.about, who_may(action)).trim_start().to_owned(),
            parameters,
            request_body: self.body,
            responses,
            security: security(action),
        }
    }

    fn all_parameters(&self) -> Vec<Parameter> {
        let in_path = names_in(self.path).map(in_path);
        let mut parameters: Vec<_> = in_path.chain(self.parameters.iter().cloned()).collect();
        let tagged = (self.method == Method::GET && self.is_tagged()).then_some("If-None-Match");
        let keyed = (self.is_keyed() || self.streams).then_some("Idempotency-Key");
        let heeded = tagged.into_iter().chain(keyed).chain(self.heeds.iter().copied()).chain(["X-Request-Id"]);
        parameters.extend(heeded.map(shared));
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
        for (status, name) in &self.headers {
            debug_assert!(answers.contains_key(status), "{}: {name} of an answer {status} that is not there", self.id);
        }
        for (status, answer) in &mut answers {
            let tagged = self.method == Method::GET && self.is_tagged() && matches!(status, 200 | 304);
            let replayed = self.is_keyed().then_some("Idempotent-Replayed");
            let limited = Kind::of(action, self.path, self.method == Method::GET).map(|_| LIMIT_HEADERS);
            let always = ["X-Request-Id"].into_iter().chain(limited.into_iter().flatten());
            let own = self.headers.iter().filter(|(of, _)| of == status).map(|(_, name)| *name);
            for name in always.chain(tagged.then_some("ETag")).chain(replayed).chain(own) {
                answer["headers"][header_name(name)] = header(name);
            }
        }
        answers
    }
}

/// The name of a header whose component has this name: what follows a dot tells apart what is said of it in different answers.
pub fn header_name(component: &str) -> &str {
    component.split('.').next().unwrap_or(component)
}

/// The reference to a header that stands among the components.
pub fn header(component: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{component}")})
}

/// The names of the parameters of a path.
fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_an_answer_are_there_whatever_is_said_first() {
        let [first, last] = [
            get("/tasks/{task_id}", "", "").waits().shows("", "Task", &json!({})),
            get("/tasks/{task_id}", "", "").shows("", "Task", &json!({})).waits(),
        ]
        .map(|operation| operation.show("", Action::ReadTask, BodyLimit::None).responses[&200].clone());
        assert_eq!(first["headers"]["Preference-Applied"]["$ref"], "#/components/headers/Preference-Applied");
        assert_eq!(first, last);
    }

    #[test]
    #[should_panic(expected = "of an answer 201 that is not there")]
    fn a_header_of_an_answer_that_is_not_there_is_a_mistake() {
        let operation = get("/nodes", "listNodes", "").shows("", "Node", &json!({})).with_header(201, "Location");
        drop(operation.show("", Action::ReadRegistry, BodyLimit::None));
    }

    #[test]
    fn what_follows_from_a_route_is_added() {
        let statuses = |operation: Operation, action| {
            operation.show("", action, BodyLimit::None).responses.keys().copied().collect::<Vec<_>>()
        };
        let read = get("/nodes/{node_id}", "", "").shows("", "Node", &json!({}));
        assert_eq!(statuses(read, Action::ReadRegistry), [200, 304, 400, 401, 404, 406, 421, 429, 431, 500, 503]);
        let write = delete("/publishers/{publisher_id}", "", "").answers_nothing(204, "");
        assert_eq!(
            statuses(write, Action::DeletePublisher),
            [204, 400, 401, 403, 404, 406, 421, 429, 431, 500, 503, 507]
        );
    }
}
