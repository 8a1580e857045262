//! Page of metrics, made from the text that Prometheus gets.

use std::fmt::Write;
use std::time::Duration;

use super::escape_cell;
use crate::telemetry::metrics::{ClusterReadings, GaugeReadings, KnownSeries, Metrics, StateGauge};

/// The page with `{{metrics}}` in place of the table.
const TEMPLATE: &str = include_str!("metrics.md.in");

pub(super) fn page() -> String {
    let mut table = "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n".to_owned();
    for family in parse_families(&example_scrape()) {
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let name = family.name;
        let kind = family.kind;
        let help = escape_cell(&family.help);
        let _ = writeln!(table, "| `{name}` | {kind} | {} | {help} |", labels.join(", "));
    }
    TEMPLATE.replace("{{metrics}}\n", &table)
}

struct MetricFamily {
    name: String,
    kind: String,
    help: String,
    labels: Vec<String>,
}

/// Parses the metric families of a scrape, each with the labels of its first sample.
fn parse_families(scrape: &str) -> Vec<MetricFamily> {
    let mut families: Vec<MetricFamily> = Vec::new();
    // `false` until the first sample of the last family.
    let mut has_sample = true;

    for line in scrape.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match (words.as_slice(), families.last_mut()) {
            (["#", "HELP", name, help], _) => {
                let name = (*name).to_owned();
                let help = (*help).to_owned();
                families.push(MetricFamily { name, help, kind: String::new(), labels: Vec::new() });
                has_sample = false;
            }
            (["#", "TYPE", _, kind], Some(family)) => (*kind).clone_into(&mut family.kind),
            (["#", ..], _) => {}
            (_, Some(family)) if !has_sample => {
                let (name, labels) = line.split_once(['{', ' ']).unwrap_or_default();
                if family.kind != "histogram" {
                    name.clone_into(&mut family.name);
                }
                family.labels = label_names(labels);
                has_sample = true;
            }
            _ => {}
        }
    }
    families
}

/// Returns the label names in a text such as `a="1",b="2"} 0`, except `le`, the bound of a histogram bucket.
fn label_names(text: &str) -> Vec<String> {
    let pairs = text.rsplit_once('}').map_or("", |(pairs, _)| pairs);
    let names = pairs.split(',').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name.to_owned());
    names.filter(|name| name != "le").collect()
}

/// Renders a scrape in which every metric has a sample.
fn example_scrape() -> String {
    const STATES: StateGauge = StateGauge { all: &["state"], current: "state" };

    let metrics = Metrics::default();
    metrics.register_known_series(&KnownSeries {
        routes: vec![("GET", "/")],
        refusals: vec!["code"],
        events: vec!["event"],
        task_kinds: vec!["kind"],
        failure_codes: vec!["code"],
        vendors: vec!["vendor".into()],
    });
    metrics.start_request("GET", "/").finish(200);
    metrics.observe_task("kind", Duration::ZERO);
    metrics.observe_vendor_call("vendor", "poll", "ok", Duration::ZERO);

    metrics.render(&GaugeReadings {
        cluster: Some(ClusterReadings::default()),
        index_bytes: Some(0),
        free_bytes: Some(0),
        resident_bytes: Some(0),
        queues: vec![("queue", 0)],
        verification: STATES,
        storage: STATES,
        circuits: vec![("vendor".into(), STATES)],
        vendor_tasks: vec![("vendor".into(), 0)],
        ..GaugeReadings::default()
    })
}
