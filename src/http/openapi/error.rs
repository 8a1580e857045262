//! The answers that tell of failures: one component for each set of codes that share a status, and their common shape.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::error::{Code, PROBLEM_JSON};
use super::operation::LIMIT_HEADERS;
use super::schema::{Field, field, field_of, named, one_of, view};

/// Why an operation fails: a code, and when it is given; the title of the code where nothing more is to be said.
pub type Failure = (Code, &'static str);

/// The failures of one operation by status.
pub fn by_status(failures: &[Failure]) -> BTreeMap<u16, Vec<Failure>> {
    let mut grouped: BTreeMap<u16, Vec<Failure>> = BTreeMap::new();
    for (code, when) in failures {
        let group = grouped.entry(code.status()).or_default();
        match group.iter_mut().find(|(known, _)| known == code) {
            Some((_, said)) if said.is_empty() => *said = when,
            Some(_) => {}
            None => group.push((*code, when)),
        }
    }
    for group in grouped.values_mut() {
        group.sort_by_key(|(code, _)| code.as_str());
    }
    grouped
}

/// What stands in an operation for the failures of one status: a reference with the operation's own words.
pub fn reference(group: &[Failure]) -> Value {
    let said = group.iter().map(|(code, when)| {
        let when = if when.is_empty() { code.title() } else { when };
        format!("`{}`: {when}", code.as_str())
    });
    let said: Vec<_> = said.collect();
    json!({"$ref": format!("#/components/responses/{}", component_name(group)), "description": said.join("  \n")})
}

/// The name of the component for a group.
pub fn component_name(group: &[Failure]) -> String {
    group.iter().map(|(code, _)| code.as_str()).collect::<Vec<_>>().join(".")
}

/// The component for a group.
pub fn component(group: &[Failure]) -> Value {
    let codes = || group.iter().map(|(code, _)| *code);
    let titles: Vec<_> = codes().map(Code::title).collect();
    let narrowed = view([field_of("error", "", one_of(codes().map(Code::as_str)))]);
    let examples: Map<String, Value> =
        codes().map(|code| (code.as_str().to_owned(), json!({"value": example(code)}))).collect();
    json!({
        "description": titles.join("; "),
        "headers": headers(codes()),
        "content": {PROBLEM_JSON: {"schema": {"allOf": [named("Problem"), narrowed]}, "examples": examples}},
    })
}

fn headers(codes: impl Iterator<Item = Code>) -> Value {
    let mut headers = json!({"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}});
    for code in codes {
        let more = match code.status() {
            401 => "WWW-Authenticate",
            416 => "Content-Range",
            429 | 503 | 507 => "Retry-After",
            _ => continue,
        };
        let limits = if code.status() == 429 { &LIMIT_HEADERS[..] } else { &[] };
        for name in [more].iter().chain(limits) {
            headers[*name] = json!({"$ref": format!("#/components/headers/{name}")});
        }
    }
    headers
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
        let (pointer, reason) = ("/logo", "must be an absolute http or https URL of at most 2048 bytes");
        let detail = format!("{pointer} {reason}");
        example["errors"] = json!([{"pointer": pointer, "reason": reason}]);
        example["details"] = json!([detail]);
        example["message"] = detail.as_str().into();
        example["detail"] = detail.into();
    }
    example
}

/// The shape of every failure.
pub fn problem() -> Value {
    let fault = view([
        field::<String>("pointer", "A JSON pointer into the body, or a slash and the name of a query parameter.")
            .required(),
        field::<String>("reason", "A sentence that goes after the name of the field.").required(),
    ]);
    let status = json!({"type": "integer", "minimum": 400, "maximum": 599});
    let fields: [Field; 9] = [
        field::<String>("type", "A URN with the code; no document stands behind it.").required(),
        field::<String>("title", "The same for every occurrence of the code.").required(),
        field_of("status", "The HTTP status.", status).required(),
        field::<String>("detail", "What happened, in a sentence for the caller.").required(),
        field::<String>("instance", "The path of the request."),
        field_of("error", "What happened, for programs: stable.", one_of(Code::ALL.iter().map(|code| code.as_str())))
            .required(),
        field::<String>("message", "The same as `detail`.").required(),
        field::<Vec<String>>("details", "Every bad field with its reason, as sentences.").required(),
        field_of(
            "errors",
            "Every bad field with its reason; only of `invalid_input`.",
            json!({"type": "array", "items": fault}),
        ),
    ];
    let mut problem = view(fields);
    problem["description"] = "Every failure of every operation (RFC 9457).".into();
    problem
}
