//! Durable changes of the changelogs of versions, alternating with a server on the same framework that sends the same
//! bytes ready-made, and with PostgreSQL inserting rows of the same size.

use crate::catalogue::{CHANGELOG, Catalogue, Size};
use crate::http::{Connection, LoadResult, load, request, send_all};
use crate::postgres::Postgres;
use crate::ready_made::record;
use crate::service::{Service, TOKEN, block_on};
use crate::{Options, median};

/// Numbers of connections that are measured, unless `--connections` is given.
const CONNECTIONS: [usize; 4] = [1, 8, 64, 512];
/// Number of nodes whose versions are changed, divided among the clients.
const NODES: usize = 2048;

/// Results of one round.
struct WriteRound {
    service: LoadResult,
    ready_made: LoadResult,
    /// Commits per second; `None` if PostgreSQL is not installed.
    postgres: Option<f64>,
}

/// Measures every number of connections.
pub fn run(options: &Options) {
    let dir = tempfile::tempdir_in(&options.dir).expect("a directory on the disk to be measured");
    let workers = options.workers.unwrap_or(0);
    let service = Service::start(&dir.path().join("data"), workers);
    let ready_made = Service::start_ready_made(if workers == 0 { 2 } else { workers });
    prepare(&service, &ready_made);
    let postgres = Postgres::start(&options.dir);
    println!("{} rounds of {} s in turn, medians, changes a second", options.rounds, options.time.as_secs_f64());
    println!(
        "\n| connections | service | ready-made | of ready-made | PostgreSQL | of PostgreSQL | p50, µs | p99, µs |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for connections in options.connections.clone().unwrap_or(CONNECTIONS.to_vec()) {
        let rounds: Vec<_> = (0..options.rounds)
            .map(|_| run_round(&service, &ready_made, postgres.as_ref(), connections, options))
            .collect();
        print_row(connections, &rounds);
    }
    service.stop();
}

/// Runs one round on the service, the baseline and PostgreSQL in turn.
fn run_round(
    service: &Service,
    ready_made: &Service,
    postgres: Option<&Postgres>,
    connections: usize,
    options: &Options,
) -> WriteRound {
    let change_for = move |client: usize, iteration: u64| {
        let letter = char::from(b'a' + u8::try_from((iteration + client as u64) % 26).unwrap_or(0));
        change(node_of(client, iteration, connections), letter)
    };
    let service = load(&service.address, connections, options.time, change_for);
    let ready_made = load(&ready_made.address, connections, options.time, change_for);
    // Pending writes of sled must not slow down PostgreSQL.
    drop(std::process::Command::new("sync").status());
    WriteRound { service, ready_made, postgres: postgres.map(|postgres| postgres.run(connections, options.time)) }
}

/// Returns the node of a client's next change; clients share no node if there are enough.
fn node_of(client: usize, iteration: u64, connections: usize) -> usize {
    let nodes_each = (NODES / connections).max(1);
    (client * nodes_each + usize::try_from(iteration).unwrap_or(0) % nodes_each) % NODES
}

/// Returns the path of the version that is changed.
fn path_of(node: usize) -> String {
    format!("/publishers/publisher-0/nodes/{}/versions/1.0.0", Catalogue::node(node))
}

/// Returns a request that sets the changelog to repetitions of `letter`.
fn change(node: usize, letter: char) -> Vec<u8> {
    let body = serde_json::json!({"changelog": letter.to_string().repeat(CHANGELOG)}).to_string();
    request("PUT", &path_of(node), TOKEN, &body)
}

/// Creates the nodes in the service and stores its response to a change of each node in `ready_made`.
fn prepare(service: &Service, ready_made: &Service) {
    let catalogue = Catalogue::new(Size { publishers: 1, nodes: NODES, versions: 1 });
    block_on(async {
        let publisher = request("POST", "/publishers", TOKEN, r#"{"id": "publisher-0", "name": "P"}"#);
        send_all(&service.address, vec![vec![publisher].into_iter()]).await;
        let nodes =
            (0..NODES).map(|node| request("POST", "/publishers/publisher-0/nodes", TOKEN, &catalogue.node_body(node)));
        send_all(&service.address, vec![nodes.collect::<Vec<_>>().into_iter()]).await;

        let mut from_service = Connection::open(&service.address).await;
        let mut to_baseline = Connection::open(&ready_made.address).await;
        let body = serde_json::json!({"changelog": "z".repeat(CHANGELOG)}).to_string();
        for node in 0..NODES {
            record(&mut from_service, &mut to_baseline, "PUT", &path_of(node), TOKEN, &body).await;
        }
    });
}

/// Prints the row of a number of connections.
fn print_row(connections: usize, rounds: &[WriteRound]) {
    let middle = |value: &dyn Fn(&WriteRound) -> f64| median(rounds.iter().map(value));
    let with_postgres = |value: &dyn Fn(f64, f64) -> f64| {
        let values: Vec<_> =
            rounds.iter().filter_map(|round| Some(value(round.service.rate, round.postgres?))).collect();
        (!values.is_empty()).then(|| median(values))
    };
    let cell_text =
        |value: Option<f64>, digits: usize| value.map_or("skipped".to_owned(), |value| format!("{value:.digits$}"));
    println!(
        "| {connections} | {:.0} | {:.0} | {:.2} | {} | {} | {:.0} | {:.0} |",
        middle(&|round| round.service.rate),
        middle(&|round| round.ready_made.rate),
        middle(&|round| round.service.rate / round.ready_made.rate),
        cell_text(with_postgres(&|_, postgres| postgres), 0),
        cell_text(with_postgres(&|service, postgres| service / postgres), 2),
        middle(&|round| round.service.p50),
        middle(&|round| round.service.p99),
    );
}
