//! Error responses: one component for each set of codes that share a status, and the common schema.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::budget::budget_fields;
use super::operation::{RATE_LIMIT_HEADERS, header_name, header_ref};
use super::schema::{SchemaField, component_ref, field, field_with_schema, one_of, response_object};
use crate::http::idempotency::STORED_ERROR_STATUSES;
use crate::http::response::error::{Code, PROBLEM_JSON};

/// Error code of an operation and its condition. An empty condition stands for the title of the code.
pub type ErrorCondition = (Code, &'static str);

/// Error codes of one operation that share a status.
pub struct ErrorResponse {
    conditions: Vec<ErrorCondition>,
    /// `true` if the response is stored for the `Idempotency-Key` of its request and replayed.
    is_stored: bool,
}

/// Groups the error codes of one operation by status. `accepts_idempotency_key` is `true` if the operation accepts an
/// `Idempotency-Key`, so that some errors are stored and replayed.
pub fn group_by_status(failures: &[ErrorCondition], accepts_idempotency_key: bool) -> BTreeMap<u16, ErrorResponse> {
    let mut grouped: BTreeMap<u16, ErrorResponse> = BTreeMap::new();
    for (code, when) in failures {
        let is_stored = accepts_idempotency_key && STORED_ERROR_STATUSES.contains(&code.status());
        let empty = || ErrorResponse { conditions: Vec::new(), is_stored };
        let group = &mut grouped.entry(code.status()).or_insert_with(empty).conditions;
        match group.iter_mut().find(|(known, _)| known == code) {
            Some((_, earlier)) if earlier.is_empty() => *earlier = when,
            Some(_) => {}
            None => group.push((*code, when)),
        }
    }

    for group in grouped.values_mut() {
        group.conditions.sort_by_key(|(code, _)| code.as_str());
    }
    grouped
}

impl ErrorResponse {
    fn codes(&self) -> impl Iterator<Item = Code> {
        self.conditions.iter().map(|(code, _)| *code)
    }

    /// Returns a reference from an operation to the component, with the operation's own description.
    pub fn reference(&self) -> Value {
        let descriptions = self.conditions.iter().map(|(code, when)| {
            let when = if when.is_empty() { code.title() } else { when };
            format!("`{}`: {when}", code.as_str())
        });
        let descriptions: Vec<_> = descriptions.collect();
        json!({"$ref": format!("#/components/responses/{}", self.name()), "description": descriptions.join("  \n")})
    }

    /// Returns the name of the component.
    pub fn name(&self) -> String {
        let suffix = self.is_stored.then_some("kept");
        self.codes().map(Code::as_str).chain(suffix).collect::<Vec<_>>().join(".")
    }

    /// Returns the response component.
    pub fn component(&self) -> Value {
        let meanings: Vec<_> = self.codes().map(|code| format!("`{}`: {}", code.as_str(), code.meaning())).collect();
        let codes: Vec<_> = self.codes().map(Code::as_str).collect();
        let examples: Map<String, Value> =
            self.codes().map(|code| (code.as_str().to_owned(), json!({"value": example(code)}))).collect();
        json!({
            "description": meanings.join("  \n"),
            "headers": self.headers(),
            "content": {PROBLEM_JSON: {"schema": component_ref("Problem"), "examples": examples}},
            // One schema for all: client generators would create a class for each narrower one.
            "x-error-codes": codes,
        })
    }

    fn headers(&self) -> Value {
        let response_headers = |code: Code| match code.status() {
            401 => &["WWW-Authenticate"][..],
            409 => &["Retry-After.soon"],
            416 => &["Content-Range"],
            429 => &["Retry-After", RATE_LIMIT_HEADERS[0], RATE_LIMIT_HEADERS[1]],
            503 | 507 => &["Retry-After"],
            _ => &[],
        };
        let replayed = self.is_stored.then_some("Idempotent-Replayed");
        let code_headers = self.codes().flat_map(|code| response_headers(code).iter().copied());
        let all = ["X-Request-Id"].into_iter().chain(code_headers).chain(replayed);
        all.map(|name| (header_name(name).to_owned(), header_ref(name))).collect::<Map<_, _>>().into()
    }
}

fn example(code: Code) -> Value {
    let mut example = json!({
        "type": format!("urn:mediary:error:{}", code.as_str()),
        "title": code.title(),
        "status": code.status(),
        "detail": code.title(),
        "instance": "/publishers/acme",
        "error": code.as_str(),
        "message": code.title(),
        "details": [],
    });
    if code == Code::InvalidInput {
        let pointer = "/logo";
        let reason = "must be an absolute http or https URL of at most 2048 bytes";
        let detail = format!("{pointer} {reason}");
        example["errors"] = json!([{"pointer": pointer, "reason": reason, "value": "logo.png"}]);
        example["details"] = json!([detail]);
        example["message"] = detail.as_str().into();
        example["detail"] = detail.into();
    }
    example
}

/// Returns the schema of all errors.
pub fn problem_schema() -> Value {
    let field_error = response_object([
        field::<String>(
            "pointer",
            "JSON pointer into the body, or a slash and the name of a query parameter or header.",
        )
        .required(),
        field::<String>("reason", "Reason, phrased to follow the name of the field.").required(),
        field_with_schema(
            "value",
            "Value that was sent: a number, a boolean, or the first 100 characters of a string. Absent for arrays, objects, email addresses and recognized secrets.",
            json!({}),
        ),
    ]);
    let status = json!({"type": "integer", "minimum": 400, "maximum": 599});
    let fields: [SchemaField; 9] = [
        field::<String>("type", "URN with the error code. It does not resolve to a document.").required(),
        field::<String>("title", "Short title, the same for every occurrence of the code.").required(),
        field_with_schema("status", "HTTP status code.", status).required(),
        field::<String>("detail", "Description of this occurrence, for people.").required(),
        field::<String>("instance", "Path of the request."),
        field_with_schema(
            "error",
            "Stable error code, for programs.",
            one_of(Code::ALL.iter().map(|code| code.as_str())),
        )
        .required(),
        field::<String>("message", "Same text as `detail`.").required(),
        field::<Vec<String>>("details", "One sentence for each problem.").required(),
        field_with_schema(
            "errors",
            "Every invalid field with the reason; only for `invalid_input`.",
            json!({"type": "array", "items": field_error}),
        ),
    ];
    // The fields of a budget are optional, because only `budget_exceeded` has them.
    let budget = budget_fields().into_iter().map(SchemaField::optional);
    let mut problem = response_object(fields.into_iter().chain(budget));
    problem["description"] = "Error response of all operations (RFC 9457).".into();
    problem
}
