//! Deliveries of webhooks, and the secrets that sign them.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::{Operation, operation};
use super::publisher_webhook::event_names;
use super::schema::{array, component_ref, field, field_with_schema, one_of, response_object};
use crate::domain::ids::{DeliveryId, NodeId, TaskId};
use crate::domain::task::TaskStatus;
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::domain::version::SemVer;
use crate::http::response::error::Code;

const ABOUT: &str = "Webhooks send the status of a task to the `webhook_url` of an image task or the `callback_url` \
                     of a video task, after every change; for precision upscaling, only after the end.\n\n- Delivery \
                     is at least once, and in order for each task.\n- Requests are signed according to Standard \
                     Webhooks 1.0. `webhook-id` is the same in every attempt. `webhook-signature` has a `v1a` \
                     signature by the key of the service (`GET /.well-known/webhook-key`) and a `v1` signature by \
                     each valid secret of the account.\n- Any 2xx acknowledges a delivery, and 410 stops it. \
                     Everything else is retried after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, or \
                     later if `Retry-After` asks for it.";

pub fn group() -> OperationGroup {
    let components = vec![
        ("Deliveries", deliveries_schema()),
        ("Delivery", delivery_schema()),
        ("NewWebhookSecret", new_secret_schema()),
    ];
    let operations = vec![list_deliveries(), redeliver(), rotate_secret(), revoke_secrets()];
    OperationGroup { tag: "Callbacks", description: ABOUT, operations, components }
}

fn list_deliveries() -> Operation {
    operation("listDeliveries", "List the webhook deliveries of a task")
        .description(
            "Returns one delivery with all its attempts for each change sent to the webhook, in order; none if the \
             task has no webhook. Tasks of other users are a 404, except for administrators.",
        )
        .ok_response("The deliveries.", "Deliveries", &json!({"deliveries": [example("pending")]}))
}

fn redeliver() -> Operation {
    operation("redeliver", "Redeliver a webhook")
        .description(
            "Queues a `delivered`, `stopped` or `dead` delivery again, with the same `webhook-id` and the full retry \
             schedule. Deliveries of later changes of the same task or node wait for it. Needs the task, or the right \
             to manage the webhooks of the publisher. The request needs no body. A delivery can be redelivered ten \
             times a day (UTC).",
        )
        .ok_response("The updated delivery.", "Delivery", &example("pending"))
        .error(Code::Conflict, "the delivery is still `pending`")
        .error(
            Code::TooManyCallbacks,
            "the delivery was redelivered ten times today, or its webhook has too many pending ones",
        )
}

fn rotate_secret() -> Operation {
    let example = json!({"secret": "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=",
        "previous_until": "2026-03-02T09:30:00.000000Z"});
    operation("rotateWebhookSecret", "Rotate the webhook secret")
        .description(
            "Creates a secret that signs the webhooks of all tasks of the account with `v1` from now on. The previous \
             secret also signs for 24 h. The request needs no body.",
        )
        .ok_response("The secret; it is not shown again.", "NewWebhookSecret", &example)
        .error(Code::Conflict, "four older secrets still sign; `detail` has the time at which the first one expires")
}

fn revoke_secrets() -> Operation {
    operation("revokeWebhookSecrets", "Revoke all webhook secrets")
        .description(
            "Revokes all secrets immediately, including older ones; from then on, only the key of the service signs. \
             Succeeds if there is no secret.",
        )
        .empty_response(204, "All secrets are revoked.")
}

fn new_secret_schema() -> Value {
    let secret = json!({"type": "string", "pattern": "^whsec_[A-Za-z0-9+/]{43}=$"});
    response_object([
        field::<Timestamp>("previous_until", "Time until which the previous secret signs; absent if there was none."),
        field_with_schema("secret", "Secret: `whsec_` and the base64 of the 32-byte HMAC key.", secret).required(),
    ])
}

fn deliveries_schema() -> Value {
    response_object([
        field_with_schema("deliveries", "Deliveries, oldest first.", array(&component_ref("Delivery"))).required()
    ])
}

fn delivery_schema() -> Value {
    let states = one_of(["pending", "delivered", "dead", "stopped"]);
    let about = "State. `dead`: the last attempt failed. `stopped`: the receiver responded with 410.";
    let webhook_id = json!({"type": "string", "pattern": "^msg_[0-9a-f-]{36}$"});
    response_object([
        field_with_schema(
            "attempts",
            "The last 50 attempts, oldest first. `number` counts all of them.",
            array(&attempt_schema()),
        )
        .required(),
        field::<Timestamp>("created_at", "Time of the change of status, or of the event.").required(),
        field_with_schema("event", "Event that is sent to a webhook of a publisher.", event_names()),
        field::<DeliveryId>("id", "Id of the delivery, for redelivery.").required(),
        field::<Timestamp>(
            "next_attempt_at",
            "Time of the next attempt; present only while `pending` after a first attempt.",
        ),
        field::<NodeId>("node_id", "Id of the node of the event."),
        field::<u64>("position", "Position of the event in the log."),
        field_with_schema("state", about, states).required(),
        field::<TaskStatus>("status", "Status that is sent to the webhook of a task."),
        field::<TaskId>("task_id", "Id of the task."),
        field::<CallbackUrl>(
            "url",
            "URL of the receiver: the `webhook_url` or `callback_url` of the task, or the current URL of the webhook \
             of the publisher.",
        )
        .required(),
        field::<SemVer>("version", "Number of the version of the event."),
        field::<DeliveryId>("waits_for", "Id of an earlier delivery of the same task or node that must end first."),
        field_with_schema("webhook_id", "Value of the `webhook-id` header in every attempt.", webhook_id).required(),
    ])
}

fn attempt_schema() -> Value {
    response_object([
        field::<Timestamp>("at", "End of the attempt.").required(),
        field_with_schema("number", "Number of the attempt, from 1.", json!({"type": "integer", "minimum": 1}))
            .required(),
        field::<String>("reason", "Reason why there was no response."),
        field_with_schema(
            "status_code",
            "HTTP status of the response.",
            json!({"type": "integer", "minimum": 100, "maximum": 999}),
        ),
    ])
}

fn example(state: &str) -> Value {
    let id = "0198c9a2-7f0e-7c3a-9d4b-3f1f2a9b7c10";
    json!({
        "id": id,
        "webhook_id": format!("msg_{id}"),
        "task_id": "6f1d2b64-93f5-4c7e-8a55-0d3c54d6f3a1",
        "status": "COMPLETED",
        "url": "https://hooks.acme.example/mediary",
        "state": state,
        "created_at": "2026-03-01T09:30:02.500000Z",
        "next_attempt_at": "2026-03-01T09:30:08.000000Z",
        "attempts": [{"number": 1, "at": "2026-03-01T09:30:02.700000Z", "status_code": 503}],
    })
}
