//! One operation of the API: its builder, and the parts that follow from its route.
//!
//! Common parts are not written at each operation: security and its error responses follow from the action of the
//! route, errors of the body from its presence, and the `ETag` of a read from its method.

use std::collections::BTreeMap;

use actix_web::http::Method;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::error::{ErrorCondition, ErrorResponse, group_by_status};
use super::models::estimate_parameter;
use super::parameter::{ParameterObject, header_parameter_ref, path_parameter};
use super::route::{allowed_callers, describe_body_limit, security_requirements};
use super::schema::{component_ref, fields_first};
use crate::domain::policy::{Action, CallerRole};
use crate::http::limits::rate_limit::RateClass;
use crate::http::request::body::json_shape::PICTURE_MARK;
use crate::http::request::json_object::JsonObject;
use crate::http::response::error::Code;
use crate::http::routes::RouteInfo;

/// Headers that report the rate limits of the caller.
pub const RATE_LIMIT_HEADERS: [&str; 2] = ["RateLimit", "RateLimit-Policy"];

/// An operation, as declared in the file of its tag.
pub struct Operation {
    pub id: &'static str,
    summary: &'static str,
    description: String,
    parameters: Vec<ParameterObject>,
    body: Option<Value>,
    /// Schemas of the body by component name.
    pub components: Vec<(String, Value)>,
    is_streamed: bool,
    /// `true` if the response has an `ETag`; `None` if that follows from its media type.
    is_tagged: Option<bool>,
    /// Operation-specific request headers, by component name.
    request_headers: Vec<&'static str>,
    responses: BTreeMap<u16, Value>,
    /// Operation-specific response headers by status and component name.
    response_headers: Vec<(u16, &'static str)>,
    errors: Vec<ErrorCondition>,
}

/// An operation, as serialized in the document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationObject {
    pub tags: [&'static str; 1],
    pub operation_id: &'static str,
    pub summary: &'static str,
    description: String,
    parameters: Vec<ParameterObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_body: Option<Value>,
    responses: BTreeMap<u16, Value>,
    security: Value,
}

/// Starts the declaration of the operation that has `id` in the route table.
pub fn operation(id: &'static str, summary: &'static str) -> Operation {
    Operation {
        id,
        summary,
        description: String::new(),
        parameters: Vec::new(),
        body: None,
        components: Vec::new(),
        is_streamed: false,
        is_tagged: None,
        request_headers: Vec::new(),
        responses: BTreeMap::new(),
        response_headers: Vec::new(),
        errors: Vec::new(),
    }
}

impl Operation {
    /// Sets the description for client developers: effects, exceptions and limits. Markdown.
    #[must_use]
    pub fn description(mut self, about: impl Into<String>) -> Self {
        self.description = about.into();
        self
    }

    /// Adds query parameters.
    #[must_use]
    pub fn query(mut self, parameters: impl IntoIterator<Item = ParameterObject>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// Sets a JSON body, with an example.
    #[must_use]
    pub fn json_object<T: JsonObject>(mut self, example: &Value) -> Self {
        self.components.push((T::NAME.to_owned(), T::schema()));
        self.json_body(T::NAME, example)
    }

    /// Sets a JSON body that can also be sent as a form with its pictures as files, with an example.
    #[must_use]
    pub fn json_or_form<T: JsonObject>(mut self, example: &Value) -> Self {
        let name = T::NAME.replace("Body", "Form");
        let reference = component_ref(&name);
        self.components.push((name, form_schema(T::schema())));
        self.json_object::<T>(example).or_form(&reference)
    }

    /// Limits the field `images` of the JSON body to `max` pictures.
    #[must_use]
    pub fn max_images(mut self, max: usize) -> Self {
        for (_, schema) in &mut self.components {
            schema["properties"]["images"]["maxItems"] = max.into();
        }
        self
    }

    /// Documents the fields `first` of the body before all others.
    #[must_use]
    pub fn fields_first(mut self, first: &[&str]) -> Self {
        for (_, schema) in &mut self.components {
            fields_first(schema, first);
        }
        self
    }

    /// Sets a JSON body by component name, with an example.
    #[must_use]
    pub fn json_body(self, component: &str, example: &Value) -> Self {
        self.body_content("application/json", &json!({"schema": component_ref(component), "example": example}))
    }

    /// Sets a body of any media type.
    #[must_use]
    pub fn body_content(mut self, media_type: &str, content: &Value) -> Self {
        self.body = Some(json!({"required": true, "content": {media_type: content}}));
        self
    }

    /// Sets a body that is processed while it is received, and that has one of the `media_types`.
    #[must_use]
    pub fn streamed_body(self, media_types: &[&str], content: &Value) -> Self {
        let contents: Map<_, _> = media_types.iter().map(|name| ((*name).to_owned(), content.clone())).collect();
        Self { is_streamed: true, body: Some(json!({"required": true, "content": contents})), ..self }
    }

    /// Sets a multipart form as the body.
    #[must_use]
    pub fn form_body(self, component: &str, example: &Value) -> Self {
        let content = json!({"schema": component_ref(component), "example": example});
        self.body_content("multipart/form-data", &content)
    }

    /// Admits a multipart form beside the JSON body.
    #[must_use]
    pub fn or_form(mut self, schema: &Value) -> Self {
        if let Some(body) = &mut self.body {
            body["content"]["multipart/form-data"] = json!({"schema": schema});
        }
        self
    }

    /// Declares `Prefer: wait=n`, which holds the response until a task ends.
    #[must_use]
    pub fn prefer_wait(mut self) -> Self {
        self.request_headers.push("Prefer");
        self.with_header(200, "Preference-Applied")
    }

    /// Adds a JSON response.
    #[must_use]
    pub fn json_response(self, status: u16, about: &str, schema: &Value, example: &Value) -> Self {
        self.content_response(status, about, "application/json", &json!({"schema": schema, "example": example}))
    }

    /// Adds a 200 response with a JSON component.
    #[must_use]
    pub fn ok_response(self, about: &str, component: &str, example: &Value) -> Self {
        self.json_response(200, about, &component_ref(component), example)
    }

    /// Adds a 201 response with a JSON component.
    #[must_use]
    pub fn created_response(self, about: &str, component: &str, example: &Value) -> Self {
        self.json_response(201, about, &component_ref(component), example)
    }

    /// Adds a 200 response with plain text.
    #[must_use]
    pub fn text_response(self, about: &str, example: &str) -> Self {
        let content = json!({"schema": {"type": "string"}, "example": example});
        self.content_response(200, about, "text/plain", &content)
    }

    /// Adds a response of any media type.
    #[must_use]
    pub fn content_response(mut self, status: u16, about: &str, media_type: &str, content: &Value) -> Self {
        let response = json!({"description": about, "content": {media_type: content}});
        self.responses.insert(status, response);
        self
    }

    /// Adds another media type to a response, which clients choose with `Accept`.
    #[must_use]
    pub fn or_content(mut self, status: u16, media_type: &str, content: &Value) -> Self {
        self.responses.entry(status).or_default()["content"][media_type] = content.clone();
        self
    }

    /// Adds a response without a body.
    #[must_use]
    pub fn empty_response(mut self, status: u16, about: &str) -> Self {
        self.responses.insert(status, json!({"description": about}));
        self
    }

    /// Adds the responses of a file with a strong `ETag`, complete or in ranges. `more_headers` are additional headers.
    #[must_use]
    pub fn file_response(mut self, about: &str, media_type: &str, more_headers: &[&'static str]) -> Self {
        let bytes = json!({"schema": {"type": "string", "format": "binary"}});
        let parts = "The requested range; several ranges are returned as multipart/byteranges.";
        self.request_headers.extend(["Range", "If-Range", "If-None-Match"]);
        for status in [200, 206, 304] {
            let always = ["ETag", "Accept-Ranges", "Cache-Control"];
            self.response_headers.extend(always.iter().chain(more_headers).map(|name| (status, *name)));
        }
        self.content_response(200, about, media_type, &bytes)
            .content_response(206, parts, media_type, &bytes)
            .empty_response(304, "The cached file is current.")
            .with_header(206, "Content-Range.part")
            .error(Code::RangeNotSatisfiable, "")
    }

    /// Adds the `ETag` that every JSON response has.
    #[must_use]
    pub fn tagged(mut self) -> Self {
        self.is_tagged = Some(true);
        self
    }

    /// Declares a JSON response that is streamed, and therefore has no `ETag`.
    #[must_use]
    pub fn untagged(mut self) -> Self {
        self.is_tagged = Some(false);
        self
    }

    /// Adds the redirect for a node id in a different case.
    #[must_use]
    pub fn redirect_response(self) -> Self {
        self.empty_response(302, "Redirect to the same resource with the node id in its original case.")
            .with_header(302, "Location")
    }

    /// Adds a header, by component name, to the response with the given status.
    #[must_use]
    pub fn with_header(mut self, status: u16, name: &'static str) -> Self {
        self.response_headers.push((status, name));
        self
    }

    /// Adds an error code with its condition. An empty condition stands for the title of the code.
    #[must_use]
    pub fn error(mut self, code: Code, when: &'static str) -> Self {
        self.errors.push((code, when));
        self
    }

    /// Returns all error codes by status: those of the operation and those that follow from its route.
    pub fn errors_by_status(&self, RouteInfo { method, path, action, .. }: &RouteInfo) -> BTreeMap<u16, ErrorResponse> {
        let mut codes = vec![
            Code::MalformedRequest,
            Code::Unauthorized,
            Code::IssuerUnavailable,
            Code::NotAcceptable,
            Code::MisdirectedRequest,
            Code::HeadersTooLarge,
            Code::Internal,
        ];
        if CallerRole::ALL.iter().any(|role| *role != CallerRole::Anonymous && !action.allows(*role)) {
            codes.push(Code::Forbidden);
        }
        if path.contains('{') {
            codes.push(Code::NotFound);
        }

        if self.body.is_some() || !self.parameters.is_empty() {
            codes.push(Code::InvalidInput);
        }
        // Publishing accepts a token in the body, so the body is parsed even if it is optional.
        if self.body.is_some() || *action == Action::PublishVersion {
            codes.extend([
                Code::MalformedBody,
                Code::RequestTimeout,
                Code::PayloadTooLarge,
                Code::UnsupportedMedia,
                Code::Overloaded,
            ]);
        }

        // Cross-origin writes from origins that are not allowed.
        if *method != Method::GET {
            codes.push(Code::Forbidden);
        }
        if *method != Method::GET && action.is_write() {
            codes.extend([Code::Banned, Code::Overloaded, Code::ReadOnly, Code::InsufficientStorage]);
        }

        if RateClass::classify(*action, path, *method == Method::GET).is_some() {
            codes.push(Code::RateLimited);
        }
        if self.accepts_idempotency_key(method) {
            codes.extend([Code::IdempotencyKeyInUse, Code::IdempotencyKeyReused]);
            // With a key, the body is buffered even if the operation ignores it.
            codes.extend([Code::RequestTimeout, Code::PayloadTooLarge, Code::UnsupportedMedia, Code::Overloaded]);
        }

        let failures: Vec<_> = self.errors.iter().copied().chain(codes.into_iter().map(|code| (code, ""))).collect();
        group_by_status(&failures, self.accepts_idempotency_key(method))
    }

    /// Returns the schema of the JSON body.
    pub fn json_body_schema(&self) -> Option<&Value> {
        self.body.as_ref()?["content"].get("application/json")?.get("schema")
    }

    /// Adds the estimate of the price to a submission: its parameter and, if the response is JSON, the alternative
    /// schema. The description of a stream names the schema instead: client generators use one media type for each
    /// response and prefer JSON, so that the generated function would fail on every stream.
    fn with_estimate(mut self) -> Self {
        self.parameters.push(estimate_parameter());

        if self.has_json_response() {
            let schema = &mut self.responses.entry(200).or_default()["content"]["application/json"]["schema"];
            *schema = json!({"anyOf": [schema.take(), component_ref("Estimate")]});
        }

        self
    }

    /// Serializes the operation for the document.
    pub fn into_object(self, tag: &'static str, route: &RouteInfo) -> OperationObject {
        let operation = if route.action.is_submission() { self.with_estimate() } else { self };
        operation.into_complete_object(tag, route)
    }

    fn into_complete_object(self, tag: &'static str, route: &RouteInfo) -> OperationObject {
        let failures = self.errors_by_status(route);
        let parameters = self.all_parameters(route);
        let mut responses = self.success_responses(route);
        responses.extend(failures.into_iter().map(|(status, group)| (status, group.reference())));
        let body = self.body.as_ref().map(|_| describe_body_limit(route.body_limit)).unwrap_or_default();
        OperationObject {
            tags: [tag],
            operation_id: self.id,
            summary: self.summary,
            description: format!("{}\n\nAllowed callers: {}.{body}", self.description, allowed_callers(route.action))
                .trim_start()
                .to_owned(),
            parameters,
            request_body: self.body,
            responses,
            security: security_requirements(route.action),
        }
    }

    fn all_parameters(&self, route: &RouteInfo) -> Vec<ParameterObject> {
        let in_path = path_parameter_names(route.path).map(path_parameter);
        let mut parameters: Vec<_> = in_path.chain(self.parameters.iter().cloned()).collect();

        let conditional_header = (route.method == Method::GET && self.has_etag()).then_some("If-None-Match");
        let key_header = (self.accepts_idempotency_key(&route.method) || self.is_streamed).then_some("Idempotency-Key");
        let headers = conditional_header
            .into_iter()
            .chain(key_header)
            .chain(self.request_headers.iter().copied())
            .chain(["X-Request-Id"]);
        parameters.extend(headers.map(header_parameter_ref));
        parameters
    }

    /// Returns `true` if the operation accepts an `Idempotency-Key`.
    fn accepts_idempotency_key(&self, method: &Method) -> bool {
        (*method == Method::POST || *method == Method::PUT) && !self.is_streamed
    }

    /// Returns `true` if the response has an `ETag`, as JSON responses have unless declared otherwise.
    fn has_etag(&self) -> bool {
        self.is_tagged.unwrap_or_else(|| self.has_json_response())
    }

    fn has_json_response(&self) -> bool {
        self.responses.get(&200).is_some_and(|response| response["content"].get("application/json").is_some())
    }

    fn success_responses(&self, route: &RouteInfo) -> BTreeMap<u16, Value> {
        let mut responses = self.responses.clone();
        if route.method == Method::GET && self.has_etag() {
            responses.insert(304, json!({"description": "The cached response is current."}));
        }

        for (status, name) in &self.response_headers {
            debug_assert!(
                responses.contains_key(status),
                "{}: {name} of a response {status} that is not declared",
                self.id
            );
        }

        for (status, response) in &mut responses {
            let is_tagged = route.method == Method::GET && self.has_etag() && matches!(status, 200 | 304);
            let replayed_header = self.accepts_idempotency_key(&route.method).then_some("Idempotent-Replayed");
            let rate_limit_headers =
                RateClass::classify(route.action, route.path, route.method == Method::GET).map(|_| RATE_LIMIT_HEADERS);
            let always = ["X-Request-Id"].into_iter().chain(rate_limit_headers.into_iter().flatten());
            let extra_headers = self
                .response_headers
                .iter()
                .filter(|(header_status, _)| header_status == status)
                .map(|(_, name)| *name);
            for name in always.chain(is_tagged.then_some("ETag")).chain(replayed_header).chain(extra_headers) {
                response["headers"][header_name(name)] = header_ref(name);
            }
        }
        responses
    }
}

/// Returns the header name of a component. The part after a dot distinguishes descriptions of the same header in
/// different responses.
pub fn header_name(component: &str) -> &str {
    component.split('.').next().unwrap_or(component)
}

/// Returns a reference to a header component.
pub fn header_ref(component: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{component}")})
}

/// Returns the parameter names of a path.
fn path_parameter_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|after_brace| after_brace.split('}').next())
}

/// Returns the schema of a form with the fields of a JSON body. Fields that are pictures, or lists of them, are files;
/// pictures inside of an object stay base64.
fn form_schema(mut body: Value) -> Value {
    for field in body["properties"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        mark_file(field);
    }
    body
}

fn mark_file(schema: &mut Value) {
    if schema[PICTURE_MARK] == true {
        schema["format"] = "binary".into();
    }
    schema.get_mut("items").into_iter().for_each(mark_file);
    schema.get_mut("anyOf").and_then(Value::as_array_mut).into_iter().flatten().for_each(mark_file);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::body::BodyLimit;

    fn route(method: Method, path: &'static str, action: Action) -> RouteInfo {
        RouteInfo { method, path, operation_id: "", action, body_limit: BodyLimit::None }
    }

    #[test]
    fn response_headers_are_added_in_any_order() {
        let [first, last] = [
            operation("", "").prefer_wait().ok_response("", "Task", &json!({})),
            operation("", "").ok_response("", "Task", &json!({})).prefer_wait(),
        ]
        .map(|operation| {
            let route = route(Method::GET, "/tasks/{task_id}", Action::ReadTask);
            operation.into_object("", &route).responses[&200].clone()
        });
        assert_eq!(first["headers"]["Preference-Applied"]["$ref"], "#/components/headers/Preference-Applied");
        assert_eq!(first, last);
    }

    #[test]
    #[should_panic(expected = "of a response 201 that is not declared")]
    fn a_header_of_an_undeclared_response_panics() {
        let operation = operation("listNodes", "").ok_response("", "Node", &json!({})).with_header(201, "Location");
        drop(operation.into_object("", &route(Method::GET, "/nodes", Action::ReadRegistry)));
    }

    #[test]
    fn statuses_common_to_a_route_are_added() {
        let statuses = |operation: Operation, route: &RouteInfo| {
            operation.into_object("", route).responses.keys().copied().collect::<Vec<_>>()
        };

        let read = operation("", "").ok_response("", "Node", &json!({}));
        let read_route = route(Method::GET, "/nodes/{nodeId}", Action::ReadRegistry);
        assert_eq!(statuses(read, &read_route), [200, 304, 400, 401, 404, 406, 421, 429, 431, 500, 503]);

        let write = operation("", "").empty_response(204, "");
        let write_route = route(Method::DELETE, "/publishers/{publisherId}", Action::DeletePublisher);
        assert_eq!(statuses(write, &write_route), [204, 400, 401, 403, 404, 406, 421, 429, 431, 500, 503, 507]);
    }
}
