//! Export of spans: OTLP over HTTP with JSON encoding (protocol 1.x, stable).

use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::trace::{AttributeValue, FinishedSpan};

/// Path of the traces endpoint, relative to the collector's URL.
pub const TRACES_PATH: &str = "/v1/traces";

/// Status code of a failed span, `STATUS_CODE_ERROR`.
const STATUS_ERROR: u8 = 2;

/// Encodes a batch of spans of the named service.
#[must_use]
pub fn encode_batch(service: &str, spans: &[FinishedSpan]) -> Vec<u8> {
    let resource = [
        encode_attribute("service.name", &AttributeValue::Text(service.to_owned())),
        version_attribute("service.version"),
    ];
    let spans: Vec<_> = spans.iter().map(encode_span).collect();

    let batch = json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "mediary", "version": env!("CARGO_PKG_VERSION")}, "spans": spans}],
    }]});
    batch.to_string().into_bytes()
}

fn version_attribute(name: &str) -> Json {
    encode_attribute(name, &AttributeValue::Text(env!("CARGO_PKG_VERSION").to_owned()))
}

fn encode_span(span: &FinishedSpan) -> Json {
    let attributes: Vec<_> = span.attributes.iter().map(|(name, value)| encode_attribute(name, value)).collect();
    let status = match &span.failure {
        None => json!({}),
        Some(reason) => json!({"code": STATUS_ERROR, "message": reason}),
    };

    // OTLP writes 64-bit numbers as text and ids as hexadecimal.
    let mut encoded = json!({
        "traceId": hex(&span.context.trace),
        "spanId": hex(&span.context.span),
        "name": span.name,
        "kind": span.kind as u8,
        "startTimeUnixNano": span.started_at.to_string(),
        "endTimeUnixNano": span.ended_at.to_string(),
        "attributes": attributes,
        "status": status,
    });

    if let Some(parent) = span.parent {
        encoded["parentSpanId"] = hex(&parent).into();
    }
    encoded
}

fn encode_attribute(name: &str, value: &AttributeValue) -> Json {
    let value = match value {
        AttributeValue::Text(text) => json!({"stringValue": text}),
        AttributeValue::Number(number) => json!({"intValue": number.to_string()}),
    };
    json!({"key": name, "value": value})
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::trace::{SpanContext, SpanKind};

    #[test]
    fn a_span_is_encoded_as_in_the_protocol() {
        let context = SpanContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
        let span = FinishedSpan {
            context,
            parent: Some([1; 8]),
            kind: SpanKind::Server,
            name: "GET /nodes".into(),
            started_at: 1_795_348_800_000_000_000,
            ended_at: 1_795_348_800_000_017_000,
            attributes: vec![("http.response.status_code", AttributeValue::Number(500))],
            failure: Some("500".to_owned()),
        };

        let batch: Json = serde_json::from_slice(&encode_batch("mediary", &[span])).unwrap();
        let resource_spans = &batch["resourceSpans"][0];
        assert_eq!(
            resource_spans["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "mediary"}})
        );

        let expected = json!({
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": "b7ad6b7169203331",
            "parentSpanId": "0101010101010101",
            "name": "GET /nodes",
            "kind": 2,
            "startTimeUnixNano": "1795348800000000000",
            "endTimeUnixNano": "1795348800000017000",
            "attributes": [{"key": "http.response.status_code", "value": {"intValue": "500"}}],
            "status": {"code": 2, "message": "500"},
        });
        assert_eq!(resource_spans["scopeSpans"][0]["spans"], json!([expected]));
    }
}
