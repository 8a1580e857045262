//! Health, readiness and metrics, the public key of webhooks, and the OpenAPI document.

use serde_json::json;

use super::Group;
use super::operation::get;
use super::schema::{field, field_of, view};
use crate::http::error::Code;
use crate::telemetry::metrics::OPENMETRICS;

pub fn group() -> Group {
    Group {
        tag: "Service",
        about: "Health, readiness and metrics, the public key of webhooks, and this document.",
        operations: vec![
            get("/health", "getHealth", "Check liveness")
                .about(
                    "Liveness probe: responds as long as the process runs. `GET /ready` reports whether the service \
                     can do its work.",
                )
                .answers_text("The process runs.", "OK"),
            get("/ready", "getReadiness", "Check readiness")
                .about(
                    "Readiness probe, for load balancers. `detail` of the error names the cause; the log of the \
                     service has more.",
                )
                .answers_text("The service is ready.", "OK")
                .fails(Code::NotReady, "the log cannot be written, or a part of the service is down"),
            get("/metrics", "getMetrics", "Get metrics")
                .about(
                    "Returns metrics for Prometheus. The `# HELP` line of each metric describes it, and \
                     docs/operations.md in the source repository names those to watch. No label contains input of \
                     callers.",
                )
                .answers_content(
                    200,
                    "Metrics in the OpenMetrics 1.0 format.",
                    OPENMETRICS,
                    &json!({"schema": {"type": "string"}, "example": "mediary_log_position 1042\n# EOF\n"}),
                ),
            get("/.well-known/webhook-key", "getWebhookKey", "Get the public key of webhooks")
                .about(
                    "Returns the Ed25519 public key that verifies the `v1a` signature of every webhook (Standard \
                     Webhooks).",
                )
                .answers_text(
                    "The key: `whpk_` and the base64 of 32 bytes.",
                    "whpk_zgfSExGYWBlNCzlGfMVkFLAVWkZcNzu0z3YEzcHcvWk=",
                ),
            document("/openapi.json", "getOpenApiJson", "Get the OpenAPI document"),
            document("/openapi", "getOpenApi", "Get the OpenAPI document (short path)"),
        ],
        components: vec![(
            "Document",
            view([
                field::<String>("openapi", "Version of OpenAPI.").required(),
                field_of("info", "Title, version and description of the API.", json!({"type": "object"})).required(),
                field_of("paths", "Operations by path.", json!({"type": "object"})).required(),
                field_of("components", "Components that operations refer to.", json!({"type": "object"})).required(),
            ]),
        )],
    }
}

fn document(path: &'static str, id: &'static str, summary: &'static str) -> super::Operation {
    let example = json!({"openapi": "3.1.0", "info": {"title": "Mediary", "version": env!("CARGO_PKG_VERSION")}, "paths": {}, "components": {}});
    get(path, id, summary).about("Returns the OpenAPI 3.1 document of the service.").shows(
        "The OpenAPI document.",
        "Document",
        &example,
    )
}
