//! Described: callbacks, their deliveries, and the secrets that sign them.

use serde_json::{Value, json};

use super::Group;
use super::operation::{Operation, delete, get, post};
use super::schema::{Moment, array, field, field_of, named, one_of, view};
use crate::domain::ids::{DeliveryId, TaskId};
use crate::domain::task::TaskStatus;
use crate::domain::value::CallbackUrl;
use crate::http::error::Code;

const ABOUT: &str = "What is told to the `webhook_url` of an image task and the `callback_url` of a video task: its status, after every \
                     change (of a precision upscaling only after \
                     the end), at least once, in order for each task. A callback is a POST signed as Standard Webhooks 1.0 has \
                     it: `webhook-id` is the same in every attempt, `webhook-signature` lists a `v1a` signature by the key of \
                     the service (`GET /.well-known/webhook-key`) and a `v1` signature by each secret of the account that is \
                     valid. Every 2xx is a success and 410 ends it; whatever else comes is tried again after 5 s, 5 min, \
                     30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, or later when `Retry-After` asks for it.";

pub fn group() -> Group {
    let components = vec![("Deliveries", deliveries()), ("Delivery", delivery()), ("NewWebhookSecret", new_secret())];
    let operations = vec![listed(), redelivered(), rotated(), revoked()];
    Group { tag: "Callbacks", about: ABOUT, operations, components }
}

fn listed() -> Operation {
    get("/tasks/{task_id}/deliveries", "listDeliveries", "List the callbacks of a task")
        .about(
            "One for each change that the webhook of the task is told of, in their order, with every attempt; empty when the \
             task has no webhook. Tasks of other users are not found, except by administrators.",
        )
        .shows("The deliveries.", "Deliveries", &json!({"deliveries": [example("pending")]}))
}

fn redelivered() -> Operation {
    post("/deliveries/{delivery_id}/redeliver", "redeliver", "Make a callback again")
        .about(
            "One that was delivered, stopped or given up is queued again, under its old `webhook-id` and with the whole schedule \
             before it; of its task, callbacks that tell of later changes wait for it. Needs no body.",
        )
        .shows("The delivery as it is now.", "Delivery", &example("pending"))
        .fails(Code::Conflict, "the delivery is still to be made: it is `pending`")
}

fn rotated() -> Operation {
    let example = json!({"secret": "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=",
        "previous_until": "2026-03-02T09:30:00.000000Z"});
    post("/users/webhook-secret", "rotateWebhookSecret", "Make a new secret for callbacks")
        .about(
            "From now on it signs the callbacks of all tasks of the account, as `v1`; the secret before it signs, too, for 24 h. \
             Needs no body.",
        )
        .shows("The secret, this once.", "NewWebhookSecret", &example)
        .fails(Code::Conflict, "four older secrets still sign; the first of them ends at the time that is named")
}

fn revoked() -> Operation {
    delete("/users/webhook-secret", "revokeWebhookSecrets", "End all secrets for callbacks")
        .about("At once, older ones too: the key of the service signs alone from then on. Fine when there is none.")
        .answers_nothing(204, "There is no secret any more.")
}

fn new_secret() -> Value {
    let secret = json!({"type": "string", "pattern": "^whsec_[A-Za-z0-9+/]{43}=$"});
    view([
        field::<Moment>("previous_until", "Until when the secret before it signs; absent when there was none."),
        field_of("secret", "`whsec_` and the base64 of 32 bytes, which are the key of the HMAC.", secret).required(),
    ])
}

fn deliveries() -> Value {
    view([field_of("deliveries", "The oldest first.", array(&named("Delivery"))).required()])
}

fn delivery() -> Value {
    let states = one_of(["pending", "delivered", "dead", "stopped"]);
    let about = "`dead`: the last attempt failed; `stopped`: the receiver answered 410.";
    let webhook_id = json!({"type": "string", "pattern": "^msg_[0-9a-f-]{36}$"});
    view([
        field_of("attempts", "The oldest first.", array(&attempt())).required(),
        field::<Moment>("created_at", "When the task came to the status.").required(),
        field::<DeliveryId>("id", "By which it is made again.").required(),
        field::<Moment>("next_attempt_at", "Only while it is `pending` after an attempt."),
        field_of("state", about, states).required(),
        field::<TaskStatus>("status", "What is told.").required(),
        field::<TaskId>("task_id", "The task of which it tells.").required(),
        field::<CallbackUrl>("url", "The `webhook_url` of the task, of a video its `callback_url`, as it was given.")
            .required(),
        field::<DeliveryId>("waits_for", "The delivery of the same task that must come to an end first."),
        field_of("webhook_id", "What the receiver is shown in every attempt.", webhook_id).required(),
    ])
}

fn attempt() -> Value {
    view([
        field::<Moment>("at", "When it was over.").required(),
        field_of("number", "Which attempt it was, from 1.", json!({"type": "integer", "minimum": 1})).required(),
        field::<String>("reason", "Why no answer came."),
        field_of(
            "status_code",
            "What the receiver answered.",
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
