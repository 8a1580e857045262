//! `GET /metrics`: counters and gauges for Prometheus.

use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::{Method, StatusCode};

use crate::actors::poller::breaker::CircuitState;
use crate::domain::event;
use crate::domain::policy::Action;
use crate::domain::task::{TaskFailure, TaskKind};
use crate::http::api::state::{ClusterNodeView, ClusterView, STORAGE_STATES, ServiceSnapshot, VERIFICATION_STATES};
use crate::http::pipeline::{Call, static_method_name};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::http::routes::route_infos;
use crate::http::server::Services;
use crate::telemetry::metrics::{ClusterMetrics, ClusterReadings, GaugeReadings, KnownSeries, OPENMETRICS, StateGauge};

/// `GET /metrics`. Open to any client that can reach it: metrics contain amounts, but no content or identities.
pub(in crate::http) async fn show(call: Call<{ Action::ReadServiceState as u8 }>) -> Result<ApiResponse, Problem> {
    let services = call.services();
    let text = services.metrics.render(&read_gauges(services));
    Ok(ApiResponse::from_response(HttpResponse::Ok().content_type(OPENMETRICS).body(text)))
}

/// Returns the label values to pre-register at zero, so that `rate()` sees the first increment.
pub(in crate::http) fn known_labels(services: &Services) -> KnownSeries {
    let rate_limit_codes = Code::ALL.iter().filter(|code| code.status() == StatusCode::TOO_MANY_REQUESTS.as_u16());
    let mut routes = Vec::new();
    for route in route_infos() {
        routes.push((static_method_name(&route.method), route.path));
        // GET implies HEAD.
        if route.method == Method::GET {
            routes.push((static_method_name(&Method::HEAD), route.path));
        }
    }

    KnownSeries {
        routes,
        refusals: rate_limit_codes.map(|code| code.as_str()).collect(),
        events: event::names().collect(),
        task_kinds: TaskKind::ALL.iter().map(|kind| kind.as_str()).collect(),
        failure_codes: TaskFailure::CODES.to_vec(),
        vendors: services.operations.vendors.iter().map(|vendor| Arc::clone(&vendor.description().name)).collect(),
    }
}

/// Reads all gauges.
#[must_use]
pub fn read_gauges(services: &Services) -> GaugeReadings {
    let ServiceSnapshot { read_models, tasks, vendor_tasks, deliveries, probe, storage } =
        ServiceSnapshot::read(services);
    let circuit = |name: &'static str| StateGauge { all: &CircuitState::NAMES, current: name };

    let cluster = services.cluster.as_ref().zip(probe.cluster.as_ref());

    GaugeReadings {
        cluster: cluster.map(|(gate, view)| cluster_readings(gate.metrics.clone(), view)),
        log_position: probe.head,
        read_models_position: read_models,
        index_position: probe.indexed,
        index_bytes: probe.index_bytes,
        queues: vec![
            ("appends", probe.queued_appends as u64),
            ("tasks", tasks as u64),
            ("deliveries", deliveries as u64),
        ],
        verification: StateGauge { all: &VERIFICATION_STATES, current: probe.verification.state.name() },
        verified_position: probe.verification.position,
        sync_pending: probe.sync_pending,
        is_ready: (services.operations.readiness)().is_ok(),
        storage: StateGauge { all: &STORAGE_STATES, current: storage.state.name() },
        free_bytes: storage.free_bytes,
        reserve_bytes: storage.reserve_bytes,
        circuits: services
            .operations
            .vendors
            .iter()
            .map(|vendor| (Arc::clone(&vendor.description().name), circuit(vendor.circuit().name())))
            .collect(),
        vendor_tasks: services
            .operations
            .vendors
            .iter()
            .zip(vendor_tasks)
            .map(|(vendor, count)| (Arc::clone(&vendor.description().name), count.tasks as u64))
            .collect(),
        resident_bytes: resident_bytes(),
        started_at_seconds: u64::try_from(probe.started_at.micros() / 1_000_000).unwrap_or(0),
    }
}

/// Returns the resident memory of the process in bytes, from `/proc`; `None` where `/proc` is missing.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn cluster_readings(counted: ClusterMetrics, view: &ClusterView) -> ClusterReadings {
    let is_own = |node: &&ClusterNodeView| node.session == view.session;
    let present = || view.nodes.iter().filter(|node| node.present);
    let others = || present().filter(|node| !is_own(node));
    ClusterReadings {
        counted,
        sequence: view.sequence,
        groups_behind: others().map(|node| node.sequence.saturating_sub(view.sequence)).max().unwrap_or(0),
        engine_silence: Duration::from_millis(view.engine_silence_ms),
        nodes: present().count(),
        nodes_differing: others().filter(|node| node.differs).count(),
        clock_offset: Duration::from_millis(
            others().map(|node| node.clock_offset_ms.unsigned_abs()).max().unwrap_or(0),
        ),
        is_owner: present().any(|node| is_own(&node) && node.owner),
        is_stopped: view.is_stopped,
        connections_lost: view.connections_lost,
        groups_missing: view.groups_missing,
    }
}
