//! Described: what receivers of callbacks are asked, which is what the service itself sends.

use serde_json::{Value, json};

use super::schema::named;
use super::{image, video};

/// Another than that of the operations on callbacks: generators make one class for each tag, and drop one of two that are alike.
const TAG: &str = "Webhooks";

/// What they are.
pub fn tag() -> Value {
    json!({"name": TAG, "description": "What receivers of callbacks are asked by the service; what it is asked about them is under Callbacks."})
}

/// The requests by their names.
pub fn webhooks() -> Value {
    json!({
        "imageTaskChanged": {"post": told(
            "imageTaskChanged",
            "An image task has changed its status",
            "To the `webhook_url` of the task: after every change of its status; of a precision upscaling only after the end.",
            &json!({"schema": named("ImageTask"), "example": image::completed()}),
        )},
        "videoTaskChanged": {"post": told(
            "videoTaskChanged",
            "A video task has changed its state",
            "To the `callback_url` of the task: after every change of its state.",
            &json!({"schema": named("Creations"), "example": video::done()}),
        )},
    })
}

fn told(id: &str, summary: &str, when: &str, content: &Value) -> Value {
    let about = format!(
        "{when} At least once, and in order for each task; signed as Standard Webhooks 1.0 has it: what is signed is \
         `<webhook-id>.<webhook-timestamp>.<body>`. Answer within 15 s (`callbacks.timeout`); an answer that is neither 2xx nor 410, or \
         none, is followed by another attempt, as the operations on callbacks tell. Receivers in four languages are in docs/callbacks.md of the \
         sources."
    );
    json!({
        "tags": [TAG],
        "operationId": id,
        "summary": summary,
        "description": about,
        "parameters": headers(),
        "requestBody": {"required": true, "content": {"application/json": content}},
        "responses": {
            "2XX": {"description": "It was taken; the body of the answer does not count."},
            "410": {"description": "Nothing more is wanted of it: it is `stopped`, and not sent again."},
        },
        "security": [],
    })
}

fn headers() -> [Value; 3] {
    let header = |name: &str, about: &str, schema: Value, example: Value| json!({"name": name, "in": "header", "required": true, "description": about, "schema": schema, "example": example});
    [
        header(
            "webhook-id",
            "The same in every attempt: whoever has handled it answers 2xx and does nothing.",
            json!({"type": "string", "pattern": "^msg_[0-9a-f-]{36}$"}),
            json!("msg_0198c9a2-7f0e-7c3a-9d4b-3f1f2a9b7c10"),
        ),
        header(
            "webhook-timestamp",
            "When this attempt was begun, in seconds since 1970.",
            json!({"type": "integer", "format": "int64", "minimum": 0}),
            json!(1_772_357_402),
        ),
        header(
            "webhook-signature",
            "Signatures with spaces between them: `v1a,` with the key of the service (`GET /.well-known/webhook-key`) always, and \
             `v1,` with each secret of the account that is valid (`POST /users/webhook-secret`). One that can be checked is enough.",
            json!({"type": "string", "pattern": "^v1a?,[A-Za-z0-9+/]+=*( v1a?,[A-Za-z0-9+/]+=*)*$"}),
            json!("v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="),
        ),
    ]
}
