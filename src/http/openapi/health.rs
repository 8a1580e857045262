//! Described: whether the service lives, the key of its callbacks, this document.

use serde_json::json;

use super::Group;
use super::operation::get;
use super::schema::{field, field_of, view};
use crate::http::error::Code;
use crate::telemetry::metrics::OPENMETRICS;

pub fn group() -> Group {
    Group {
        tag: "Service",
        about: "Whether the service lives and can work, the key of its callbacks, and this document.",
        operations: vec![
            get("/health", "getHealth", "Whether the process lives")
                .about("For whoever restarts it. Whether it can do its work, `GET /ready` tells.")
                .answers_text("It answers.", "OK"),
            get("/ready", "getReadiness", "Whether the service can do its work")
                .about("For load balancers. `detail` says what keeps it; where and what exactly is for its operator, in the log.")
                .answers_text("It can.", "OK")
                .fails(Code::NotReady, "not now: the log cannot be written, or a part of the service is down"),
            get("/metrics", "getMetrics", "What is counted and where the service stands, for Prometheus")
                .about("The `# HELP` line of each tells what it counts; docs/operations.md of the sources says what to look for. No label comes from a caller.")
                .answers_content(
                    200,
                    "The metrics as OpenMetrics 1.0.",
                    OPENMETRICS,
                    &json!({"schema": {"type": "string"}, "example": "mediary_log_position 1042\n# EOF\n"}),
                ),
            get("/.well-known/webhook-key", "getWebhookKey", "The public key of callbacks")
                .about("The Ed25519 key with which every callback is signed (Standard Webhooks, `v1a`).")
                .answers_text("The key, as `whpk_` and base64.", "whpk_zgfSExGYWBlNCzlGfMVkFLAVWkZcNzu0z3YEzcHcvWk="),
            document("/openapi.json", "getOpenApiJson", "This document"),
            document("/openapi", "getOpenApi", "This document, by its short name"),
        ],
        components: vec![(
            "Document",
            view([
                field::<String>("openapi", "The version of OpenAPI.").required(),
                field_of("info", "What the interface is.", json!({"type": "object"})).required(),
                field_of("paths", "Every operation, by its path.", json!({"type": "object"})).required(),
                field_of("components", "What operations name.", json!({"type": "object"})).required(),
            ]),
        )],
    }
}

fn document(path: &'static str, id: &'static str, summary: &'static str) -> super::Operation {
    let example = json!({"openapi": "3.1.0", "info": {"title": "Mediary", "version": env!("CARGO_PKG_VERSION")}, "paths": {}, "components": {}});
    get(path, id, summary).about("The OpenAPI 3.1 document of everything that is served.").shows(
        "The document.",
        "Document",
        &example,
    )
}
