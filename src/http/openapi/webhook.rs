//! Webhooks: the requests that the service sends to receivers.

use serde_json::{Value, json};

use super::schema::component_ref;
use super::{image, publisher_webhook, video};

/// Differs from the tag of the operations on deliveries: client generators create one class for each tag and drop one
/// of two with the same name.
const TAG: &str = "Webhooks";

/// Returns the tag of the webhooks.
pub fn tag() -> Value {
    let about = "Requests that the service sends to webhook receivers. The operations to list and redeliver them are \
                 under Callbacks.";
    json!({"name": TAG, "description": about})
}

/// Returns the webhook requests by name.
pub fn webhooks() -> Value {
    json!({
        "imageTaskChanged": {"post": webhook_operation(
            "imageTaskChanged",
            "Image task status changed",
            "Sent to the `webhook_url` of an image task after every change of its status; for precision upscaling, \
             only when the task ends.",
            &json!({"schema": component_ref("ImageTask"), "example": image::completed_example()}),
        )},
        "videoTaskChanged": {"post": webhook_operation(
            "videoTaskChanged",
            "Video task state changed",
            "Sent to the `callback_url` of a video task after every change of its state.",
            &json!({"schema": component_ref("Creations"), "example": video::finished_example()}),
        )},
        "registryChanged": {"post": webhook_operation(
            "registryChanged",
            "Node or version of a publisher changed",
            "Sent to the webhooks of a publisher after each event that they select.",
            &json!({"schema": component_ref("RegistryEvent"), "example": publisher_webhook::event_example()}),
        )},
    })
}

fn webhook_operation(id: &str, summary: &str, when: &str, content: &Value) -> Value {
    let about = format!(
        "{when} Delivery is at least once, and in order for each task or node.\n\n- **Verify the signature.** It follows \
         Standard Webhooks 1.0: the signed content is `<webhook-id>.<webhook-timestamp>.<body>`. Sample code in four \
         languages is in examples/webhooks in the source repository.\n- **Respond within 15 s** (`callbacks.timeout`) \
         with 2xx. 410 stops the delivery; anything else, or no response, is retried on the schedule described under \
         Callbacks."
    );
    json!({
        "tags": [TAG],
        "operationId": id,
        "summary": summary,
        "description": about,
        "parameters": headers(),
        "requestBody": {"required": true, "content": {"application/json": content}},
        "responses": {
            "2XX": {"description": "The webhook was received. The response body is ignored."},
            "410": {"description": "The delivery is `stopped` and not retried."},
        },
        "security": [],
    })
}

fn headers() -> [Value; 3] {
    let header = |name: &str, about: &str, schema: Value, example: Value| json!({"name": name, "in": "header", "required": true, "description": about, "schema": schema, "example": example});
    [
        header(
            "webhook-id",
            "Identifier of the webhook, the same in every attempt. If it was processed before, respond with 2xx and \
             ignore it.",
            json!({"type": "string", "pattern": "^msg_[0-9a-f-]{36}$"}),
            json!("msg_0198c9a2-7f0e-7c3a-9d4b-3f1f2a9b7c10"),
        ),
        header(
            "webhook-timestamp",
            "Start time of this attempt, in seconds since 1970.",
            json!({"type": "integer", "format": "int64", "minimum": 0}),
            json!(1_772_357_402),
        ),
        header(
            "webhook-signature",
            "Signatures separated by spaces: always one with the prefix `v1a,` by the key of the service (`GET \
             /.well-known/webhook-key`), and one with the prefix `v1,` for each valid secret of the account (`POST \
             /users/webhook-secret`). Verifying one of them is enough.",
            json!({"type": "string", "pattern": "^v1a?,[A-Za-z0-9+/]+=*( v1a?,[A-Za-z0-9+/]+=*)*$"}),
            json!("v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="),
        ),
    ]
}
