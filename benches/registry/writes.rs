//! Durable changes: the changelog of versions, against the same server answering the same bytes without a command, and
//! against PostgreSQL inserting the same rows, all in turns.

use crate::catalogue::{Catalogue, Size};
use crate::http::{Connection, Measured, load, request, send_all};
use crate::postgres::Postgres;
use crate::ready_made::record;
use crate::service::{Service, TOKEN, block_on};
use crate::{Options, median};

const CONNECTIONS: [usize; 4] = [1, 8, 64, 512];
/// Nodes whose versions are changed, shared out among the clients.
const NODES: usize = 2048;
/// Characters of a changelog, so that an event has about 400 bytes.
const CHANGELOG: usize = 300;

/// What one round measured.
struct Round {
    service: Measured,
    ready_made: Measured,
    postgres: Option<f64>,
}

/// Runs every number of connections.
pub fn run(options: &Options) {
    let dir = tempfile::tempdir_in(&options.dir).expect("a directory on the disk to be measured");
    let workers = options.workers.unwrap_or(0);
    let service = Service::start(&dir.path().join("data"), workers);
    let ready_made = Service::start_ready_made(if workers == 0 { 2 } else { workers });
    prepare(&service, &ready_made);
    let postgres = Postgres::start(&options.dir);
    println!("{} rounds of {} s in turns, medians, changes a second", options.rounds, options.time.as_secs_f64());
    println!(
        "\n| connections | service | ready-made | of ready-made | PostgreSQL | of PostgreSQL | p50, µs | p99, µs |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for connections in options.connections.clone().unwrap_or(CONNECTIONS.to_vec()) {
        let rounds: Vec<_> = (0..options.rounds)
            .map(|_| round(&service, &ready_made, postgres.as_ref(), connections, options))
            .collect();
        print(connections, &rounds);
    }
    service.stop();
}

fn round(
    service: &Service,
    ready_made: &Service,
    postgres: Option<&Postgres>,
    connections: usize,
    options: &Options,
) -> Round {
    let own = move |client: usize, turn: u64| {
        let letter = char::from(b'a' + u8::try_from((turn + client as u64) % 26).unwrap_or(0));
        change(node_of(client, turn, connections), letter)
    };
    let service = load(&service.address, connections, options.time, own);
    let ready_made = load(&ready_made.address, connections, options.time, own);
    // What sled left to be written back must not slow PostgreSQL down.
    drop(std::process::Command::new("sync").status());
    Round { service, ready_made, postgres: postgres.map(|postgres| postgres.run(connections, options.time)) }
}

/// Clients share no node, as far as there are enough.
fn node_of(client: usize, turn: u64, connections: usize) -> usize {
    let each = (NODES / connections).max(1);
    (client * each + usize::try_from(turn).unwrap_or(0) % each) % NODES
}

fn path_of(node: usize) -> String {
    format!("/publishers/publisher-0/nodes/{}/versions/1.0.0", Catalogue::node(node))
}

/// A change to another text than the one before.
fn change(node: usize, letter: char) -> Vec<u8> {
    let body = serde_json::json!({"changelog": letter.to_string().repeat(CHANGELOG)}).to_string();
    request("PUT", &path_of(node), TOKEN, &body)
}

/// The nodes, and what the service answers to a change of each.
fn prepare(service: &Service, ready_made: &Service) {
    let catalogue = Catalogue::new(Size { publishers: 1, nodes: NODES, versions: 1 });
    block_on(async {
        let publisher = request("POST", "/publishers", TOKEN, r#"{"id": "publisher-0", "name": "P"}"#);
        send_all(&service.address, vec![vec![publisher].into_iter()]).await;
        let nodes =
            (0..NODES).map(|node| request("POST", "/publishers/publisher-0/nodes", TOKEN, &catalogue.node_body(node)));
        send_all(&service.address, vec![nodes.collect::<Vec<_>>().into_iter()]).await;
        let (mut from, mut to) =
            (Connection::open(&service.address).await, Connection::open(&ready_made.address).await);
        let body = serde_json::json!({"changelog": "z".repeat(CHANGELOG)}).to_string();
        for node in 0..NODES {
            record(&mut from, &mut to, "PUT", &path_of(node), TOKEN, &body).await;
        }
    });
}

fn print(connections: usize, rounds: &[Round]) {
    let middle = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value));
    let with_postgres = |value: &dyn Fn(f64, f64) -> f64| {
        let values: Vec<_> =
            rounds.iter().filter_map(|round| Some(value(round.service.rate, round.postgres?))).collect();
        (!values.is_empty()).then(|| median(values))
    };
    let shown =
        |value: Option<f64>, digits: usize| value.map_or("skipped".to_owned(), |value| format!("{value:.digits$}"));
    println!(
        "| {connections} | {:.0} | {:.0} | {:.2} | {} | {} | {:.0} | {:.0} |",
        middle(&|round| round.service.rate),
        middle(&|round| round.ready_made.rate),
        middle(&|round| round.service.rate / round.ready_made.rate),
        shown(with_postgres(&|_, postgres| postgres), 0),
        shown(with_postgres(&|service, postgres| service / postgres), 2),
        middle(&|round| round.service.p50),
        middle(&|round| round.service.p99),
    );
}
