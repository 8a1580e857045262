//! Health, readiness and metrics, the public key of webhooks, and the OpenAPI document.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::operation;
use super::schema::{field, field_with_schema, response_object};
use crate::http::response::error::Code;
use crate::telemetry::metrics::OPENMETRICS;

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Service",
        description: "Health, readiness and metrics, the public key of webhooks, and this document.",
        operations: vec![
            operation("getHealth", "Check liveness")
                .description(
                    "Liveness probe: responds as long as the process runs. `GET /ready` reports whether the service \
                     can do its work.",
                )
                .text_response("The process runs.", "OK"),
            operation("getReadiness", "Check readiness")
                .description(
                    "Readiness probe, for load balancers. `detail` of the error names the cause; the log of the \
                     service has more.",
                )
                .text_response("The service is ready.", "OK")
                .error(Code::NotReady, "the log cannot be written, or a part of the service is down"),
            operation("getMetrics", "Get metrics")
                .description(
                    "Returns metrics for Prometheus. The `# HELP` line of each metric describes it, and \
                     docs/metrics.md in the source repository explains them. No label contains input of \
                     callers.",
                )
                .content_response(
                    200,
                    "Metrics in the OpenMetrics 1.0 format.",
                    OPENMETRICS,
                    &json!({"schema": {"type": "string"}, "example": "mediary_log_position 1042\n# EOF\n"}),
                ),
            operation("getWebhookKey", "Get the public key of webhooks")
                .description(
                    "Returns the Ed25519 public key that verifies the `v1a` signature of every webhook (Standard \
                     Webhooks).",
                )
                .text_response(
                    "The key: `whpk_` and the base64 of 32 bytes.",
                    "whpk_zgfSExGYWBlNCzlGfMVkFLAVWkZcNzu0z3YEzcHcvWk=",
                ),
            operation("getSignIn", "Get the ways to sign in")
                .description(
                    "Returns the OpenID Connect issuer at which people can sign in to the console: by the authorization \
                     code flow with PKCE. Tokens of this service always work.",
                )
                .ok_response(
                    "The ways to sign in.",
                    "SignIn",
                    &json!({"oidc": {
                        "issuer": "https://login.example.org/realms/main",
                        "client_id": "mediary-console",
                        "audience": "mediary",
                    }}),
                ),
            document("getOpenApiJson", "Get the OpenAPI document"),
            document("getOpenApi", "Get the OpenAPI document (short path)"),
        ],
        components: vec![("SignIn", sign_in_schema()), (
            "Document",
            response_object([
                field::<String>("openapi", "Version of OpenAPI.").required(),
                field_with_schema("info", "Title, version and description of the API.", json!({"type": "object"}))
                    .required(),
                field_with_schema("paths", "Operations by path.", json!({"type": "object"})).required(),
                field_with_schema("components", "Components that operations refer to.", json!({"type": "object"}))
                    .required(),
            ]),
        )],
    }
}

fn sign_in_schema() -> Value {
    let issuer = response_object([
        field::<String>("issuer", "Issuer, as in its tokens.").required(),
        field::<String>("client_id", "Client id of the console at the issuer.").required(),
        field::<String>("audience", "Audience that a token must have.").required(),
    ]);
    response_object([field_with_schema("oidc", "The issuer; absent if there is none.", issuer)])
}

fn document(id: &'static str, summary: &'static str) -> super::Operation {
    let example = json!({"openapi": "3.1.0", "info": {"title": "Mediary", "version": env!("CARGO_PKG_VERSION")}, "paths": {}, "components": {}});
    operation(id, summary).description("Returns the OpenAPI 3.1 document of the service.").ok_response(
        "The OpenAPI document.",
        "Document",
        &example,
    )
}
