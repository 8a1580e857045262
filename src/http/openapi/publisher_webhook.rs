//! Webhooks of publishers.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::{Operation, operation};
use super::parameter::paging_parameters;
use super::schema::{array, component_ref, field, field_with_schema, one_of, page_of, response_object};
use crate::domain::ids::{DeliveryId, NodeId, PublisherId, UserId, VersionId, WebhookId};
use crate::domain::node::NodeStatus;
use crate::domain::value::{CallbackUrl, Reason, Timestamp};
use crate::domain::version::{SemVer, VersionStatus};
use crate::domain::webhook::{EventSelection, RegistryEventKind};
use crate::http::api::webhook::{LIMIT_DEFAULT, LIMIT_MAX, NewWebhookBody, RedeliveryBody, WebhookUpdateBody};
use crate::http::request::json_object::JsonValue;
use crate::http::response::error::Code;
use crate::projections::delivery::TEST_EVENT;

const ABOUT: &str = "Webhooks of a publisher receive the events of its nodes: a version was published, approved, \
                     flagged, banned or deleted; a node was approved, banned or deleted. A publisher has at most 5 \
                     webhooks, which its owners manage. Signatures, retries and redelivery are those described under \
                     Callbacks; the secrets of the account that set the URL sign. Delivery is at least once, \
                     and in order for each node.";

const DELIVERY_ID: &str = "0198c9a2-7f0e-8c3a-9d4b-3f1f2a9b7c10";

pub fn group() -> OperationGroup {
    let components = vec![
        ("PublisherWebhook", webhook_schema()),
        ("PublisherWebhookDeliveryPage", page_of("deliveries", "Delivery")),
        ("RegistryEvent", event_schema()),
        ("Redeliveries", redeliveries_schema()),
        ("RedeliveryBody", redelivery_body()),
    ];
    let operations = [management_operations(), delivery_operations()].into_iter().flatten().collect();
    OperationGroup { tag: "Publisher webhooks", description: ABOUT, operations, components }
}

fn management_operations() -> Vec<Operation> {
    vec![
        operation("listPublisherWebhooks", "List the webhooks of a publisher")
            .description("Returns the webhooks, oldest first.")
            .json_response(
                200,
                "The webhooks.",
                &array(&component_ref("PublisherWebhook")),
                &json!([webhook_example()]),
            ),
        operation("createPublisherWebhook", "Create a webhook of a publisher")
            .description("Creates a webhook for the events from now on. Without `events`, it receives all of them.")
            .json_object::<NewWebhookBody>(&json!({
                "url": "https://hooks.acme.example/registry",
                "events": ["version.published", "version.flagged"],
            }))
            .created_response("The webhook.", "PublisherWebhook", &webhook_example())
            .with_header(201, "Location")
            .error(Code::Conflict, "the publisher has 5 webhooks"),
        operation("getPublisherWebhook", "Get a webhook of a publisher")
            .description("Returns the webhook.")
            .ok_response("The webhook.", "PublisherWebhook", &webhook_example()),
        operation("updatePublisherWebhook", "Update a webhook of a publisher")
            .description(
                "Changes the fields that are present. Pending deliveries go to the new URL. While a webhook is \
                 disabled, events are skipped and pending deliveries wait.",
            )
            .json_object::<WebhookUpdateBody>(&json!({"enabled": false}))
            .ok_response("The updated webhook.", "PublisherWebhook", &webhook_example()),
        operation("deletePublisherWebhook", "Delete a webhook of a publisher")
            .description("Deletes the webhook with its deliveries. Pending ones are not sent.")
            .empty_response(204, "The webhook was deleted."),
    ]
}

fn delivery_operations() -> Vec<Operation> {
    vec![
        operation("testPublisherWebhook", "Send a test event")
            .description("Sends an event `webhook.test` to the webhook. The request needs no body.")
            .ok_response("The delivery.", "Delivery", &test_delivery_example())
            .error(Code::Conflict, "the webhook is disabled")
            .error(Code::TooManyCallbacks, "the webhook has too many pending deliveries"),
        operation("listPublisherWebhookDeliveries", "List the deliveries of a webhook")
            .description("Returns the pending deliveries and the last 500 that ended, newest first.")
            .query(paging_parameters(LIMIT_DEFAULT, LIMIT_MAX))
            .ok_response(
                "A page of deliveries.",
                "PublisherWebhookDeliveryPage",
                &json!({"deliveries": [delivery_example()], "limit": 20, "page": 1, "total": 1, "totalPages": 1}),
            ),
        operation("redeliverPublisherWebhook", "Redeliver events since a time or position")
            .description(
                "Queues the deliveries of events since a time or after a position again, oldest first, with their old \
                 `webhook-id`. Send exactly one of `since` and `after`. A request queues at most 100 deliveries, and \
                 stops at the limit of pending ones; if `next_after` is present, send it as `after` for the next \
                 ones. The last 500 deliveries of a webhook can be redelivered.",
            )
            .json_body("RedeliveryBody", &json!({"since": "2026-03-01T09:00:00Z"}))
            .ok_response(
                "The number of deliveries.",
                "Redeliveries",
                &json!({"redelivered": 12, "pending": 1, "exhausted": 0}),
            )
            .error(Code::TooManyCallbacks, "the webhook has too many pending deliveries"),
    ]
}

/// Returns the schema of the names of all events.
pub fn event_names() -> Value {
    one_of(RegistryEventKind::ALL.iter().map(|kind| kind.as_str()).chain([TEST_EVENT]))
}

/// Returns the schema of a webhook.
pub fn webhook_schema() -> Value {
    response_object([
        field::<UserId>("account", "Id of the user who set the URL, whose webhook secrets sign the deliveries.")
            .required(),
        field::<Timestamp>("created_at", "Creation time.").required(),
        field::<bool>("enabled", "`false` if nothing is sent.").required(),
        field_with_schema("events", "Events that are sent.", EventSelection::schema()).required(),
        field::<WebhookId>("id", "Id of the webhook.").required(),
        field::<CallbackUrl>("url", "URL of the receiver.").required(),
    ])
}

fn redelivery_body() -> Value {
    let mut body = RedeliveryBody::schema();
    // `if` rather than `oneOf`, from which client generators make a class for each case.
    body["if"] = json!({"required": ["since"], "properties": {"since": {"type": "string"}}});
    body["then"] = json!({"properties": {"after": {"type": "null"}}});
    body["else"] = json!({"required": ["after"], "properties": {"after": {"type": "integer"}}});
    body["x-needs-one-of"] = json!(["since", "after"]);
    body
}

fn redeliveries_schema() -> Value {
    response_object([
        field::<u64>("exhausted", "Number of deliveries that were redelivered ten times today, the most allowed.")
            .required(),
        field::<u64>("next_after", "Value of `after` for the next request; absent if there are no more deliveries."),
        field::<u64>("pending", "Number of deliveries that were still pending.").required(),
        field::<u64>("redelivered", "Number of deliveries that are queued again.").required(),
    ])
}

fn event_schema() -> Value {
    let data = response_object([
        field::<NodeId>("node_id", "Id of the node; absent from test events."),
        field::<PublisherId>("publisher_id", "Id of the publisher.").required(),
        field::<Reason>("reason", "Reason of the new status, if one was given."),
        field_with_schema("status", "Status of the version or node after the event.", status_schema()),
        field::<SemVer>("version", "Number of the version; absent if the event is about the whole node."),
        field::<VersionId>("version_id", "Id of the version."),
    ]);
    response_object([
        field_with_schema("data", "Subject of the event.", data).required(),
        field::<DeliveryId>("delivery_id", "Id of the delivery; `webhook-id` is `msg_` and this id.").required(),
        field::<u64>("position", "Position of the event in the log. Later events have higher positions.").required(),
        field::<Timestamp>("timestamp", "Time of the event.").required(),
        field_with_schema("type", "Name of the event.", event_names()).required(),
    ])
}

/// Returns the schema of the status of a version or a node.
fn status_schema() -> Value {
    let version_statuses = VersionStatus::ALL.iter().map(|status| status.as_str());
    one_of(version_statuses.chain(NodeStatus::ALL.iter().map(|status| status.as_str())))
}

fn webhook_example() -> Value {
    json!({
        "id": "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c30",
        "url": "https://hooks.acme.example/registry",
        "events": ["version.published", "version.flagged"],
        "enabled": true,
        "account": "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10",
        "created_at": "2026-03-01T09:30:00.000000Z",
    })
}

fn delivery_example() -> Value {
    json!({
        "id": DELIVERY_ID,
        "webhook_id": format!("msg_{DELIVERY_ID}"),
        "event": "version.published",
        "position": 1042,
        "node_id": "face-tools",
        "version": "1.2.0",
        "url": "https://hooks.acme.example/registry",
        "state": "delivered",
        "created_at": "2026-03-01T09:30:02.500000Z",
        "attempts": [{"number": 1, "at": "2026-03-01T09:30:02.700000Z", "status_code": 204}],
    })
}

fn test_delivery_example() -> Value {
    json!({
        "id": DELIVERY_ID,
        "webhook_id": format!("msg_{DELIVERY_ID}"),
        "event": TEST_EVENT,
        "position": 1042,
        "url": "https://hooks.acme.example/registry",
        "state": "pending",
        "created_at": "2026-03-01T09:30:02.500000Z",
        "attempts": [],
    })
}

/// Returns an example of a request body.
pub fn event_example() -> Value {
    json!({
        "type": "version.flagged",
        "delivery_id": DELIVERY_ID,
        "position": 1042,
        "timestamp": "2026-03-01T09:30:02.500000Z",
        "data": {
            "publisher_id": "acme",
            "node_id": "face-tools",
            "version": "1.2.0",
            "version_id": "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c40",
            "status": "NodeVersionStatusFlagged",
            "reason": "downloads code at runtime",
        },
    })
}
