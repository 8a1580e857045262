//! Parameters of paths and queries, and shared request and response headers.

use serde_json::{Value, json};

use super::schema::{HasSchema, array, one_of};
use crate::domain::ids::{DeliveryId, FileId, NodeId, PublisherId, StreamKind, TaskId, TokenId, UserId, WebhookId};
use crate::domain::image::ImageFormat;
use crate::domain::version::SemVer;
use crate::domain::video::VideoFormat;
use crate::http::idempotency::STORED_BODY_MAX;

/// One parameter of an operation, as serialized in the document.
pub type ParameterObject = Value;

/// Returns the path parameter `name`. A request with a value that does not match the schema gets 404.
pub fn path_parameter(name: &str) -> ParameterObject {
    let (about, schema, example) = match name {
        "publisherId" => ("Id of the publisher.", PublisherId::schema(), "acme"),
        "nodeId" => ("Id of the node, in any case.", NodeId::schema(), "face-tools"),
        "versionId" => (
            "UUID or semantic version of the version.",
            json!({"anyOf": [UserId::schema(), SemVer::schema()]}),
            "1.2.0",
        ),
        "version" => ("Semantic version.", SemVer::schema(), "1.2.0"),
        "userId" => ("Id of the user.", UserId::schema(), "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10"),
        "tokenId" => ("Id of the token, not its secret.", TokenId::schema(), "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c20"),
        "webhookId" => ("Id of the webhook.", WebhookId::schema(), "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c30"),
        "budgetKind" => ("Kind of the subject.", one_of(["user", "token", "publisher"]), "publisher"),
        "budgetId" => ("Id of the subject.", json!({"type": "string", "pattern": "^[a-z0-9-]+$"}), "acme"),
        "task_id" => ("Id of the task.", TaskId::schema(), "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11"),
        "delivery_id" => ("Id of the delivery.", DeliveryId::schema(), "0198c9a2-7f0e-7c3a-9d4b-3f1f2a9b7c10"),
        "kind" => ("Kind of the resource.", one_of(StreamKind::ALL.iter().map(|kind| kind.as_str())), "node"),
        "id" => ("Id of the resource.", json!({"type": "string", "pattern": "^[A-Za-z0-9._-]+$"}), "face-tools"),
        "file" => ("File name: the SHA-256 of its content and its format.", file_name_schema(), ""),
        "ticket" => ("Last segment of the signed URL.", json!({"type": "string", "pattern": "^[A-Za-z0-9._-]+$"}), ""),
        "fileTicket" => {
            ("Last segment of the upload URL.", json!({"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}), "")
        }
        "fileId" => ("Id of the file.", FileId::schema(), "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c12"),
        "vendor_ticket" => (
            "Last segment of the webhook URL that was sent to the vendor.",
            json!({"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}),
            "",
        ),
        _ => ("", String::schema(), ""),
    };
    let mut parameter = json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema});
    if !example.is_empty() {
        parameter["example"] = example.into();
    }
    parameter
}

/// Returns the schema of the file name of a result.
fn file_name_schema() -> Value {
    let pictures = ImageFormat::ALL.iter().map(|format| format.as_str());
    let formats: Vec<_> = pictures.chain(VideoFormat::ALL.iter().map(|format| format.as_str())).collect();
    json!({"type": "string", "pattern": format!("^[0-9a-f]{{64}}\\.({})$", formats.join("|"))})
}

/// Returns the schema of query text without control characters.
pub fn query_text_schema() -> Value {
    json!({"type": "string", "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"})
}

/// Returns an optional query parameter.
pub fn query_parameter(name: &str, about: &str, schema: &Value) -> ParameterObject {
    json!({"name": name, "in": "query", "description": about, "schema": schema})
}

/// Returns a required query parameter.
pub fn required_query_parameter(name: &str, about: &str, schema: &Value, example: &Value) -> ParameterObject {
    let mut parameter = query_parameter(name, about, schema);
    parameter["required"] = true.into();
    parameter["example"] = example.clone();
    parameter
}

/// Extends a schema so that the empty value means absent. A pattern is widened to admit the empty text, so that client
/// generators still see a string. Without a pattern, the empty text becomes an alternative. It has a type, because
/// generators accept any value for an untyped alternative.
pub fn allow_empty(schema: &Value) -> Value {
    if let Some(pattern) = schema["pattern"].as_str() {
        let mut schema = schema.clone();
        schema["pattern"] = format!("^$|{pattern}").into();
        return schema;
    }
    let mut choices = schema["anyOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
    choices.push(json!({"type": "string", "maxLength": 0}));
    json!({"anyOf": choices})
}

/// Returns the header `Last-Event-ID`, which resumes a stream; empty means absent. Uses one pattern without
/// alternatives, because client generators only accept plain types for headers.
pub fn last_event_id(about: &str) -> ParameterObject {
    json!({"name": "Last-Event-ID", "in": "header", "description": about, "schema": {"type": "string", "pattern": "^[0-9]{0,15}$"}})
}

/// Returns a repeatable query parameter whose values have the schema `items`.
pub fn repeatable_query_parameter(name: &str, about: &str, items: &Value) -> ParameterObject {
    let about = format!("{about} Repeatable; comma-separated values and `{name}[]=` are accepted too.");
    let mut parameter = query_parameter(name, &about, &array(items));
    parameter["style"] = "form".into();
    parameter["explode"] = true.into();
    parameter
}

/// Returns a Boolean query parameter, `false` by default.
pub fn bool_query_parameter(name: &str, about: &str) -> ParameterObject {
    query_parameter(name, about, &json!({"type": "boolean", "default": false}))
}

/// Returns the query parameters for the page number and the page size.
pub fn paging_parameters(default_limit: u64, limit_max: u64) -> [ParameterObject; 2] {
    let integer_schema = |default: u64| json!({"type": "integer", "minimum": 1, "default": default});
    let limit = format!("Page size; values above {limit_max} are reduced to {limit_max}.");
    [
        query_parameter("page", "Page number, starting at 1. A page past the end is empty.", &integer_schema(1)),
        query_parameter("limit", &limit, &integer_schema(default_limit)),
    ]
}

/// Returns a reference to a parameter component.
pub fn header_parameter_ref(name: &str) -> ParameterObject {
    json!({"$ref": format!("#/components/parameters/{name}")})
}

/// Returns the shared request headers by name.
pub fn request_header_components() -> Value {
    let header = |name: &str, about: &str, schema: Value| json!({"name": name, "in": "header", "description": about, "schema": schema});
    json!({
        "X-Request-Id": header(
            "X-Request-Id",
            "Identifier of the request for logs: 1 to 128 visible ASCII characters. The service ignores other values \
             and generates an identifier.",
            String::schema(),
        ),
        "Idempotency-Key": header(
            "Idempotency-Key",
            &format!(
                "Client-chosen key that makes the request safe to retry. For 24 hours, a repeated request with the \
                 same key is not executed again: its stored response (a success or a 400, 404 or 409) is replayed \
                 with `Idempotent-Replayed: true`.\n\n- 409: the first request is still in progress.\n- 422: the key \
                 was used for a different request.\n- Keys belong to the caller. Callers without a token share keys \
                 with all others at the same address, so they should use random ones.\n- Responses over {} MiB are \
                 not stored but generated again; the request still takes effect once.",
                STORED_BODY_MAX >> 20
            ),
            json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}),
        ),
        "Prefer": header(
            "Prefer",
            "`wait=n` (RFC 7240) holds the response until the task ends, for at most n seconds, up to 60. Other \
             preferences are ignored.",
            String::schema(),
        ),
        "If-None-Match": header(
            "If-None-Match",
            "Entity tags of cached responses. If one of them is current, the response is 304 without a body.",
            String::schema(),
        ),
        "Range": header(
            "Range",
            "Requested ranges of the file (RFC 9110, section 14), such as `bytes=0-1023` or `bytes=-500`; at most 16. \
             A malformed value is ignored.",
            String::schema(),
        ),
        "If-Range": header(
            "If-Range",
            "Entity tag of the partially downloaded file. If it is not current, the whole file is sent.",
            String::schema(),
        ),
    })
}

/// Returns the response headers by component name. A name with a suffix, such as `Retry-After.soon`, is a variant of
/// the header with its own description.
pub fn response_header_components() -> Value {
    let header = |about: &str, schema: Value| json!({"description": about, "required": true, "schema": schema});
    let optional_header =
        |about: &str, schema: Value| json!({"description": about, "required": false, "schema": schema});
    json!({
        "X-Request-Id": header(
            "Identifier of the request in the log of the service: the caller's `X-Request-Id` if it sent a valid one.",
            json!({"type": "string", "pattern": "^[!-~]{1,128}$"}),
        ),
        "ETag": header("Strong entity tag of the response body.", json!({"type": "string", "pattern": "^\"[!-~]+\"$"})),
        "Preference-Applied": optional_header(
            "Maximum time that the response waited for the task to end. Present if the caller sent `Prefer: wait=n`.",
            json!({"type": "string", "pattern": "^wait=[0-9]+$"}),
        ),
        "X-Task-Id": header(
            "Id of the task behind the stream. It can be read and cancelled while the stream is sent.",
            TaskId::schema(),
        ),
        "Idempotent-Replayed": optional_header(
            "`true` if the response is a replay of an earlier one with the same `Idempotency-Key`.",
            one_of(["true"]),
        ),
        "Location": header("URL of the resource.", json!({"type": "string", "format": "uri"})),
        "Link": header("Links to the other pages (RFC 8288).", String::schema()),
        "X-Total-Count": header("Total number of entries on all pages.", u64::schema()),
        "WWW-Authenticate": header("Authentication scheme to use.", one_of(["Bearer", "Bearer error=\"invalid_token\""])),
        "Retry-After": header("Seconds to wait before retrying.", json!({"type": "integer", "minimum": 0})),
        "Retry-After.soon": optional_header(
            "Seconds to wait before retrying. Present only if the conflict is with another request in progress.",
            json!({"type": "integer", "minimum": 0}),
        ),
        "RateLimit": optional_header(
            "Remaining amount of each limit (`r`) and seconds until it is fully restored (`t`), as in \
             draft-ietf-httpapi-ratelimit-headers. Present if a limit is enabled.",
            json!({"type": "string", "example": "\"reads\";r=50;t=30"}),
        ),
        "RateLimit-Policy": optional_header(
            "Size of each limit (`q`) and the seconds in which it is restored (`w`).",
            json!({"type": "string", "example": "\"reads\";q=600;w=60"}),
        ),
        "Accept-Ranges": header("Range requests are supported.", one_of(["bytes"])),
        "Cache-Control": header("Caching directives for the file.", String::schema()),
        "Content-Disposition": header(
            "Suggested file name.",
            json!({"type": "string", "pattern": "^attachment; filename=\"[^\"]+\"$"}),
        ),
        "Content-Range.part": optional_header(
            "Position of the returned bytes and size of the file. Present for a single range; with several, each part \
             has its own.",
            json!({"type": "string", "pattern": "^bytes [0-9]+-[0-9]+/[0-9]+$"}),
        ),
        "Content-Range": header("Size of the file in bytes.", json!({"type": "string", "pattern": "^bytes \\*/[0-9]+$"})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_pictures_and_videos() {
        let pattern = path_parameter("file")["schema"]["pattern"].as_str().unwrap().to_owned();
        assert!(pattern.ends_with("\\.(png|jpg|webp|gif|bmp|tiff|mp4|webm)$"), "{pattern}");
    }
}
