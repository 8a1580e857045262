//! `mediary cluster status`: the nodes of a cluster, as the service that is asked sees them.

use serde::Deserialize;
use serde_json::Value;

use super::service::{ServiceArguments, ServiceConnection};
use crate::app;
use crate::cli::audit::text::printable;
use crate::cli::table::{RowColor, TextTable};
use crate::cli::{CliError, print_text};

#[derive(Deserialize)]
struct ClusterStatus {
    session: String,
    generation: u64,
    sequence: u64,
    engine_silence_ms: u64,
    nodes: Vec<NodeStatus>,
}

#[derive(Deserialize)]
struct NodeStatus {
    session: String,
    url: String,
    release: String,
    position: u64,
    sequence: u64,
    present: bool,
    differs: bool,
    owner: bool,
    silence_ms: u64,
    clock_offset_ms: i64,
}

pub(in crate::cli) fn run(service: &ServiceArguments) -> Result<(), CliError> {
    let service = ServiceConnection::open_signed_in(service)?;
    let state = app::block_on(service.get("/admin/state"))?;
    let cluster = state.get("cluster").cloned().unwrap_or(Value::Null);
    if service.json {
        return ServiceConnection::print_json(&cluster);
    }
    if cluster.is_null() {
        return print_text(&format!("The service at {} is not a node of a cluster.\n", service.base()));
    }

    let ClusterStatus { session, generation, sequence, engine_silence_ms, nodes } = service.parse(cluster)?;
    let mut table = TextTable::new(&["NODE", "STATE", "WORK", "POSITION", "BEHIND", "HEARD", "CLOCK", "RELEASE"]);
    for node in nodes {
        let (color, state) = match (node.present, node.differs) {
            (_, true) => (RowColor::Bad, "differs"),
            (true, false) => (RowColor::Good, "present"),
            (false, false) => (RowColor::Bad, "absent"),
        };
        let cells = [
            if node.session == session { format!("{} (asked)", node.url) } else { node.url },
            state.to_owned(),
            if node.owner { "owner" } else { "-" }.to_owned(),
            node.position.to_string(),
            format!("{} groups", sequence.saturating_sub(node.sequence)),
            format!("{:.1} s ago", milliseconds_to_seconds(node.silence_ms)),
            format!("{:+} ms", node.clock_offset_ms),
            node.release,
        ];
        table.push(color, cells.map(|cell| printable(&cell)));
    }
    let silence = milliseconds_to_seconds(engine_silence_ms);
    print_text(&format!(
        "{table}\nThe engine was heard {silence:.1} s ago; it is at group {sequence} of generation {generation}.\n"
    ))
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn milliseconds_to_seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}
