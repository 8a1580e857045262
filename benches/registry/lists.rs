//! Lists: pages, filters, sorting and search, alternating with a server that sends the same bytes ready-made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::catalogue::{BenchRng, CHANGELOG, Catalogue, Size};
use crate::http::{Connection, LoadResult, load, request};
use crate::ready_made::record;
use crate::service::{Service, TOKEN, block_on, on_separate_cores};
use crate::{Options, load as registry, median};

const CONNECTIONS: usize = 64;
/// Page size.
const PAGE: usize = 30;

/// Kind of request.
struct ListKind {
    name: String,
    paths: Vec<String>,
    /// Number of versions that another client changes each second; `None` if there is no such client.
    writes: Option<usize>,
}

impl ListKind {
    fn new(name: &str, paths: Vec<String>) -> Self {
        Self { name: name.to_owned(), paths, writes: None }
    }
}

/// Runs every kind on the filled registry.
pub fn run(options: &Options) {
    let data_dir = registry::ensure_filled(options);
    let workers = options.workers.unwrap_or(1);
    // Both on the first core: only one of them is busy at a time.
    let (service, ready_made) =
        on_separate_cores(|| (Service::start(&data_dir, workers), Service::start_ready_made(workers)));
    let connections = options.connections.as_ref().map_or(CONNECTIONS, |list| list[0]);
    println!(
        "{} nodes, {workers} worker(s), {connections} connections, {} rounds of {} s in turn, medians",
        options.size.nodes,
        options.rounds,
        options.time.as_secs_f64()
    );
    println!(
        "\n| request | bytes | requests/s | ready-made | ratio | CPU µs | ready-made | p50, µs | p99, µs | ready-made p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for kind in kinds(options).iter().filter(|kind| kind.name.contains(&options.only)) {
        measure(kind, &service, &ready_made, connections, options);
    }
    let memory = service.memory();
    println!("\nresident memory afterwards {:.0} MiB, peak {:.0} MiB", memory.current, memory.peak);
    service.stop();
}

/// Returns all kinds, in the order of the table.
fn kinds(options: &Options) -> Vec<ListKind> {
    let catalogue = Catalogue::new(options.size);
    let mut rng = BenchRng::new(7);
    let searches: Vec<String> = (0..options.urls)
        .map(|_| format!("/nodes/search?limit={PAGE}&search={}", catalogue.search_terms(&mut rng)))
        .collect();
    let fresh_searches = searches.iter().map(|path| format!("{path}&latest=true")).collect();
    let pages = (options.size.nodes / PAGE).max(1);
    let far_page = (pages * 9).div_ceil(10);
    let page = |query: &str, page: usize| format!("/nodes?limit={PAGE}{query}&page={page}");
    let single_page = |name: &str, path: String| ListKind::new(name, vec![path]);
    let mut paged_kind = |name: &str, query: &str, pages: usize| {
        let paths = (0..options.urls).map(|_| page(query, 1 + rng.below(pages)));
        ListKind::new(name, paths.collect())
    };
    let sorted = "&sort=downloads;desc&sort=name";
    let filtered = "&supported_os=linux&supported_accelerator=cuda";
    // Three of five systems and three of four accelerators match: 9 of 20 nodes, more than a quarter of the pages.
    let (narrow, few_pages) = (format!("{sorted}{filtered}"), (pages / 4).max(1));
    // `latest=true` bypasses the cache of pages.
    let uncached = |query: &str| format!("{query}&latest=true");
    let with_writer = |kind: ListKind| ListKind {
        name: format!("{}, beside a writer", kind.name),
        writes: Some(options.writes),
        ..kind
    };
    vec![
        single_page("the stack alone: `/health`", "/health".to_owned()),
        single_page("page 1", page("", 1)),
        single_page(&format!("page {far_page}"), page("", far_page)),
        paged_kind("random pages", "", pages),
        paged_kind("random pages, `latest=true`", &uncached(""), pages),
        single_page("by two columns, page 1", page(sorted, 1)),
        single_page(&format!("by two columns, page {far_page}"), page(sorted, far_page)),
        paged_kind("by two columns, random pages", sorted, pages),
        paged_kind("by two columns, random pages, `latest=true`", &uncached(sorted), pages),
        paged_kind("the same, filtered by two facets", &narrow, few_pages),
        paged_kind("the same, filtered by two facets, `latest=true`", &uncached(&narrow), few_pages),
        ListKind::new("search, two random words", searches),
        ListKind::new("search, two random words, `latest=true`", fresh_searches),
        with_writer(single_page("page 1", page("", 1))),
        with_writer(paged_kind("random pages", "", pages)),
        with_writer(paged_kind("by two columns, random pages", sorted, pages)),
    ]
}

/// Measures one kind on both servers in turn and prints its row.
fn measure(kind: &ListKind, service: &Service, ready_made: &Service, connections: usize, options: &Options) {
    let bytes = block_on(async {
        let mut from_service = Connection::open(&service.address).await;
        let mut to_baseline = Connection::open(&ready_made.address).await;
        let mut bytes = 0;
        for path in &kind.paths {
            record(&mut from_service, &mut to_baseline, "GET", path, "", "").await;
            bytes += to_baseline.exchange(&request("GET", path, "", "")).await.body.len();
        }
        bytes / kind.paths.len()
    });

    let requests: Vec<Vec<u8>> = kind.paths.iter().map(|path| request("GET", path, "", "")).collect();
    let requests: Arc<[Vec<u8>]> = requests.into();
    let rounds: Vec<(ListRound, ListRound)> = (0..options.rounds)
        .map(|_| {
            let run = |server| run_round(server, connections, options, &requests);
            let own_round = match kind.writes {
                Some(rate) => beside_a_writer(service, options.size, rate, || run(service)),
                None => run(service),
            };
            (own_round, run(ready_made))
        })
        .collect();

    let middle = |value: fn(&(ListRound, ListRound)) -> f64| median(rounds.iter().map(value));
    println!(
        "| {} | {bytes} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} |",
        kind.name,
        middle(|(own, _)| own.load.rate),
        middle(|(_, ready)| ready.load.rate),
        middle(|(own, ready)| own.load.rate / ready.load.rate),
        middle(|(own, _)| own.cpu_micros),
        middle(|(_, ready)| ready.cpu_micros),
        middle(|(own, _)| own.load.p50),
        middle(|(own, _)| own.load.p99),
        middle(|(_, ready)| ready.load.p99),
    );
}

/// Results of one round at one server.
struct ListRound {
    load: LoadResult,
    /// CPU time of the server per request in microseconds: the relevant value when the client is the bottleneck.
    cpu_micros: f64,
}

/// Sends the requests to one server in turn.
fn run_round(server: &Service, connections: usize, options: &Options, requests: &Arc<[Vec<u8>]>) -> ListRound {
    let before = server.cpu_time();
    let requests = Arc::clone(requests);
    let load = load(&server.address, connections, options.time, move |client, iteration| {
        let iteration = usize::try_from(iteration).unwrap_or(0);
        requests[(client * 7919 + iteration) % requests.len()].clone()
    });
    let cpu_seconds = server.cpu_time() - before;
    ListRound { load, cpu_micros: cpu_seconds * 1e6 / (load.rate * options.time.as_secs_f64()) }
}

/// Measures while one client changes the changelogs of the latest versions of random nodes, `rate` times a second. The
/// changed texts keep their length.
fn beside_a_writer<T>(service: &Service, size: Size, rate: usize, measure: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let write = || {
        let mut rng = BenchRng::new(11);
        let mut next = Instant::now();
        let catalogue = Catalogue::new(size);
        block_on(async {
            let mut connection = Connection::open(&service.address).await;
            while !stop.load(Ordering::Relaxed) {
                let node = rng.below(size.nodes);
                let letter = char::from(b'a' + u8::try_from(rng.below(26)).unwrap_or(0));
                let path = format!(
                    "/publishers/{}/nodes/{}/versions/1.{}.0",
                    catalogue.owner(node),
                    Catalogue::node(node),
                    size.versions - 1
                );
                let body = serde_json::json!({"changelog": letter.to_string().repeat(CHANGELOG)}).to_string();
                let response = connection.exchange(&request("PUT", &path, TOKEN, &body)).await;
                assert_eq!(response.status, 200, "{}", response.head);
                next += Duration::from_secs(1) / u32::try_from(rate.max(1)).unwrap_or(u32::MAX);
                tokio::time::sleep_until(next.into()).await;
            }
        });
    };
    std::thread::scope(|scope| {
        scope.spawn(write);
        let result = measure();
        stop.store(true, Ordering::Relaxed);
        result
    })
}
