//! Tests of traces.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// Returns a tracer whose clock and random numbers count up.
fn tracer() -> Tracer {
    let now = Arc::new(AtomicU64::new(0));
    let counter = Arc::new(AtomicU64::new(1));
    let sources = TraceSources {
        now: Arc::new(move || now.fetch_add(1, Ordering::Relaxed)),
        random_bytes: Arc::new(move || {
            let mut bytes = [0; 24];
            bytes[..8].copy_from_slice(&counter.fetch_add(1, Ordering::Relaxed).to_be_bytes());
            bytes
        }),
    };
    Tracer::new(sources, 100, Metrics::default())
}

#[tokio::test]
async fn child_spans_belong_to_the_request_and_calls_to_the_submission() {
    let tracer = tracer();
    let task = Uuid::from_u128(7);
    let request = tracer.start_request_span(Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")).unwrap();
    request
        .instrument(async {
            drop(child_span(|| "append task".to_owned()));
            remember_task(task);
        })
        .await;
    drop(request);
    drop(tracer.start_call_span("POST vendor", task));

    let spans = tracer.take_batch();
    let [append, request, call] = &spans[..] else { panic!("{spans:?}") };
    assert!(spans.iter().all(|span| span.context.trace == request.context.trace && span.started_at < span.ended_at));
    assert_eq!(
        request.parent,
        SpanContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").map(|context| context.span)
    );
    assert_eq!((append.parent, call.parent), (Some(request.context.span), Some(request.context.span)));
    assert_eq!(call.attributes, [("mediary.task_id", AttributeValue::Text(task.to_string()))]);
}

#[tokio::test]
async fn nothing_is_recorded_without_a_tracer_or_if_the_caller_does_not_sample() {
    assert!(Tracer::default().start_request_span(None).is_none() && child_span(String::new).is_none());
    let tracer = tracer();
    assert!(tracer.start_request_span(Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")).is_none());
    assert!(tracer.take_batch().is_empty());
}

#[test]
fn the_queue_is_bounded_and_dropped_spans_are_counted() {
    let tracer = tracer();
    for _ in 0..WAITING_MAX + 3 {
        drop(tracer.start_request_span(None));
    }
    let metrics = &tracer.0.as_ref().unwrap().metrics;
    assert!(
        metrics
            .render(&super::super::metrics::GaugeReadings::default())
            .contains("mediary_spans_total{outcome=\"dropped\"} 3\n")
    );
    assert_eq!(tracer.take_batch().len(), BATCH);
}
