//! Parameters: those of paths by their names, those of queries, and the headers that mean something everywhere.

use serde_json::{Value, json};

use super::schema::{Documented, array, one_of};
use crate::domain::ids::{DeliveryId, NodeId, PublisherId, StreamKind, TaskId, TokenId, UserId};
use crate::domain::image::ImageFormat;
use crate::domain::version::SemVer;
use crate::domain::video::VideoFormat;
use crate::http::idempotency::ANSWER_MAX;

/// One parameter of an operation, as the document has it.
pub type Parameter = Value;

/// A parameter of a path. The schema tells the form; what has another form is not found.
pub fn in_path(name: &str) -> Parameter {
    let (about, schema, example) = match name {
        "publisher_id" => ("The publisher.", PublisherId::schema(), "acme"),
        "node_id" => ("The node, whatever the case of its letters.", NodeId::schema(), "face-tools"),
        "version_id" => (
            "The version: its UUID, or its semantic version.",
            json!({"anyOf": [UserId::schema(), SemVer::schema()]}),
            "1.2.0",
        ),
        "version" => ("The semantic version.", SemVer::schema(), "1.2.0"),
        "user_id" => ("The user.", UserId::schema(), "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10"),
        "token_id" => ("The token; never its secret.", TokenId::schema(), "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c20"),
        "task_id" => ("The task.", TaskId::schema(), "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11"),
        "delivery_id" => ("The delivery.", DeliveryId::schema(), "0198c9a2-7f0e-7c3a-9d4b-3f1f2a9b7c10"),
        "kind" => ("The kind of thing.", one_of(StreamKind::ALL.iter().map(|kind| kind.as_str())), "node"),
        "id" => ("The id of the thing.", json!({"type": "string", "pattern": "^[A-Za-z0-9._-]+$"}), "face-tools"),
        "file" => ("The name of the file: the SHA-256 of its bytes, and its format.", file_name(), ""),
        "ticket" => ("What the signed URL ends with.", json!({"type": "string", "pattern": "^[A-Za-z0-9._-]+$"}), ""),
        "hint" => ("What the URL ends with that a submission to a vendor carried.", String::schema(), ""),
        _ => ("", String::schema(), ""),
    };
    let mut parameter = json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema});
    if !example.is_empty() {
        parameter["example"] = example.into();
    }
    parameter
}

/// A result's name.
fn file_name() -> Value {
    let pictures = ImageFormat::ALL.iter().map(|format| format.as_str());
    let formats: Vec<_> = pictures.chain(VideoFormat::ALL.iter().map(|format| format.as_str())).collect();
    json!({"type": "string", "pattern": format!("^[0-9a-f]{{64}}\\.({})$", formats.join("|"))})
}

/// Text in a query: no control characters at all.
pub fn query_text() -> Value {
    json!({"type": "string", "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"})
}

/// A parameter of the query; unless said otherwise it may be absent.
pub fn in_query(name: &str, about: &str, schema: &Value) -> Parameter {
    json!({"name": name, "in": "query", "description": about, "schema": schema})
}

/// A parameter of the query that must be there.
pub fn needed_in_query(name: &str, about: &str, schema: &Value, example: &Value) -> Parameter {
    let mut parameter = in_query(name, about, schema);
    parameter["required"] = true.into();
    parameter["example"] = example.clone();
    parameter
}

/// The same schema for a parameter whose empty value means absent. A pattern takes the empty text too, which leaves a text for
/// generators of clients; where there is none, each alternative has its type, without which they take it for anything.
pub fn or_empty(schema: &Value) -> Value {
    if let Some(pattern) = schema["pattern"].as_str() {
        let mut schema = schema.clone();
        schema["pattern"] = format!("^$|{pattern}").into();
        return schema;
    }
    let mut choices = schema["anyOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
    choices.push(json!({"type": "string", "maxLength": 0}));
    json!({"anyOf": choices})
}

/// The header by which whoever reads a stream comes back; empty means absent. One pattern and no alternatives: of headers generators
/// take nothing but plain types.
pub fn last_event_id(about: &str) -> Parameter {
    json!({"name": "Last-Event-ID", "in": "header", "description": about, "schema": {"type": "string", "pattern": "^[0-9]{0,15}$"}})
}

/// An array parameter of the query.
pub fn many_in_query(name: &str, about: &str, items: &Value) -> Parameter {
    let about = format!("{about} May be repeated; commas and `{name}[]=` are accepted too.");
    let mut parameter = in_query(name, &about, &array(items));
    parameter["style"] = "form".into();
    parameter["explode"] = true.into();
    parameter
}

/// A yes or no of the query.
pub fn flag_in_query(name: &str, about: &str) -> Parameter {
    in_query(name, about, &json!({"type": "boolean", "default": false}))
}

/// Which page, and how large.
pub fn paging(default_limit: u64, limit_max: u64) -> [Parameter; 2] {
    let counting = |default: u64| json!({"type": "integer", "minimum": 1, "default": default});
    let limit = format!("How many entries a page has; more than {limit_max} is taken for {limit_max}.");
    [
        in_query("page", "Which page, from 1. One past the end is empty.", &counting(1)),
        in_query("limit", &limit, &counting(default_limit)),
    ]
}

/// The reference to a parameter that stands among the components.
pub fn shared(name: &str) -> Parameter {
    json!({"$ref": format!("#/components/parameters/{name}")})
}

/// The headers of requests that mean the same everywhere, by their names.
pub fn shared_headers() -> Value {
    let header = |name: &str, about: &str, schema: Value| json!({"name": name, "in": "header", "description": about, "schema": schema});
    json!({
        "X-Request-Id": header(
            "X-Request-Id",
            "What the caller calls the request: 1 to 128 visible ASCII characters. Anything else is ignored, and the \
             service makes up a name.",
            String::schema(),
        ),
        "Idempotency-Key": header(
            "Idempotency-Key",
            &format!(
                "A name for the request, of the caller's own choice: when the request comes again with it, within 24 hours, it is not \
                 carried out again, and its answer is sent once more with `Idempotent-Replayed: true`, be it a success or a 400, 404 or \
                 409. Keys are the caller's own; those without a token have keys by address, which should be random. 409 while the \
                 first request is under way, 422 when the key was used for another one. An answer over {} MiB is made anew.",
                ANSWER_MAX >> 20
            ),
            json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}),
        ),
        "Prefer": header(
            "Prefer",
            "`wait=n` (RFC 7240): the answer waits until the task has ended, at most n seconds and at most 60. Any other \
             preference is ignored.",
            String::schema(),
        ),
        "If-None-Match": header(
            "If-None-Match",
            "Entity tags that the caller has already: when one of them is current, the answer is 304 without a body.",
            String::schema(),
        ),
        "Range": header(
            "Range",
            "The parts of the file that are wanted (RFC 9110, 14), such as `bytes=0-1023` or `bytes=-500`: at most 16. What is not \
             understood is ignored.",
            String::schema(),
        ),
        "If-Range": header(
            "If-Range",
            "The entity tag of the file of which the caller has parts already: when it is not current, the whole file is sent.",
            String::schema(),
        ),
    })
}

/// The headers of answers.
pub fn answer_headers() -> Value {
    let header = |about: &str, required: bool, schema: Value| json!({"description": about, "required": required, "schema": schema});
    json!({
        "X-Request-Id": header("What the request is called in the service's log: the caller's name for it, if it sent one.", true, json!({"type": "string", "pattern": "^[!-~]{1,128}$"})),
        "ETag": header("The strong tag of exactly these bytes.", true, json!({"type": "string", "pattern": "^\"[!-~]+\"$"})),
        "Preference-Applied": header(
            "How long the answer would have waited for the end of the task: there when the caller preferred to wait.",
            false,
            json!({"type": "string", "pattern": "^wait=[0-9]+$"}),
        ),
        "X-Task-Id": header(
            "The task of the stream, which can be shown and cancelled while it is sent.",
            true,
            TaskId::schema(),
        ),
        "Idempotent-Replayed": header(
            "On the answer to a request that had been carried out before: the answer is the one that it had then.",
            false,
            one_of(["true"]),
        ),
        "Location": header("Where the new thing is.", true, json!({"type": "string", "format": "uri"})),
        "Link": header("Where the other pages are (RFC 8288).", true, String::schema()),
        "X-Total-Count": header("How many entries there are on all pages together.", true, u64::schema()),
        "WWW-Authenticate": header("Which credentials are needed.", true, one_of(["Bearer", "Bearer error=\"invalid_token\""])),
        "Retry-After": header("Seconds after which to try again.", true, json!({"type": "integer", "minimum": 0})),
        "Retry-After.soon": header(
            "Seconds after which to try again: there when nothing but another request stands in the way that is under way.",
            false,
            json!({"type": "integer", "minimum": 0}),
        ),
        "RateLimit": header(
            "How much the caller has left of each limit (`r`), and the seconds until it has all of it again (`t`); there when the limit is \
             switched on (draft-ietf-httpapi-ratelimit-headers).",
            false,
            json!({"type": "string", "example": "\"reads\";r=50;t=30"}),
        ),
        "RateLimit-Policy": header(
            "Each limit: how much at once (`q`), and the seconds in which it comes back (`w`).",
            false,
            json!({"type": "string", "example": "\"reads\";q=600;w=60"}),
        ),
        "Accept-Ranges": header("Parts of the file may be asked for.", true, one_of(["bytes"])),
        "Cache-Control": header("How long the file may be kept without asking again.", true, String::schema()),
        "Content-Disposition": header(
            "Under which name to save the file.",
            true,
            json!({"type": "string", "pattern": "^attachment; filename=\"[^\"]+\"$"}),
        ),
        "Content-Range.part": header(
            "Which bytes these are, of how many: there when one range was asked for; of several, each part says so itself.",
            false,
            json!({"type": "string", "pattern": "^bytes [0-9]+-[0-9]+/[0-9]+$"}),
        ),
        "Content-Range": header("How many bytes the file has.", true, json!({"type": "string", "pattern": "^bytes \\*/[0-9]+$"})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_pictures_and_videos() {
        let pattern = in_path("file")["schema"]["pattern"].as_str().unwrap().to_owned();
        assert!(pattern.ends_with("\\.(png|jpg|webp|gif|bmp|tiff|mp4|webm)$"), "{pattern}");
    }
}
