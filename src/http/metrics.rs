//! `GET /metrics`: counters and gauges for Prometheus.

use actix_web::HttpResponse;
use actix_web::http::{Method, StatusCode};

use super::answer::Answer;
use super::error::{Code, Problem};
use super::gate::{Call, static_name};
use super::routes::{self, Row};
use super::server::Services;
use super::state::{STORAGE_STATES, Seen, VERIFICATION_STATES};
use crate::actors::poller::breaker::Circuit;
use crate::domain::event;
use crate::domain::policy::Action;
use crate::domain::task::{Failure, TaskKind};
use crate::space::StorageKind;
use crate::telemetry::metrics::{Foreseen, Looked, OPENMETRICS, State};

/// `GET /metrics`. Open to any client that can reach it: metrics contain amounts, but no content or identities.
pub(super) async fn show(call: Call<{ Action::ReadServiceState as u8 }>) -> Result<Answer, Problem> {
    let services = call.services();
    let text = services.metrics.told(&look(services));
    Ok(Answer::ready(HttpResponse::Ok().content_type(OPENMETRICS).body(text)))
}

/// Returns the label values to pre-register at zero, so that `rate()` sees the first increment.
pub(super) fn foreseen(services: &Services) -> Foreseen {
    let too_many = Code::ALL.iter().filter(|code| code.status() == StatusCode::TOO_MANY_REQUESTS.as_u16());
    // GET implies HEAD.
    let methods = |method: &Method| [Some(method.clone()), (*method == Method::GET).then_some(Method::HEAD)];
    let of_row = |row: &Row| {
        methods(&row.method).into_iter().flatten().map(|method| (static_name(&method), row.path)).collect::<Vec<_>>()
    };

    Foreseen {
        routes: routes::rows().iter().flat_map(of_row).collect(),
        refusals: too_many.map(|code| code.as_str()).collect(),
        events: event::names().collect(),
        kinds: TaskKind::ALL.iter().map(|kind| kind.as_str()).collect(),
        codes: Failure::CODES.to_vec(),
        vendors: services.vendors.iter().map(|vendor| vendor.name).collect(),
    }
}

fn look(services: &Services) -> Looked {
    let Seen { read_models, tasks, deliveries, probe, storage } = Seen::now(services);
    let circuit = |name: &'static str| State { all: &Circuit::NAMES, is: name };

    Looked {
        head: probe.head,
        read_models,
        index: probe.indexed,
        index_bytes: probe.index_bytes,
        queues: vec![("appends", probe.waiting as u64), ("tasks", tasks as u64), ("deliveries", deliveries as u64)],
        verification: State { all: &VERIFICATION_STATES, is: probe.verification.state.name() },
        verified: probe.verification.position,
        sync_pending: probe.sync_pending,
        is_ready: (services.readiness)().is_ok(),
        storage: State { all: &STORAGE_STATES, is: name_of(storage.state) },
        free_bytes: storage.free_bytes,
        reserve_bytes: storage.reserve_bytes,
        circuits: services.vendors.iter().map(|vendor| (vendor.name, circuit(vendor.circuit().name()))).collect(),
        resident_bytes: resident_bytes(),
        started_at_seconds: u64::try_from(probe.started_at.micros() / 1_000_000).unwrap_or(0),
    }
}

fn name_of(state: StorageKind) -> &'static str {
    STORAGE_STATES[state as usize]
}

/// Resident memory of the process in bytes, from `/proc`; `None` where that is missing.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
