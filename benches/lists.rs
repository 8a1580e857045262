//! Lists of nodes inside one process: cost of a page, a filter, a search and a change, with many nodes.
//!
//! `cargo bench --bench lists [-- --nodes 100000 --versions 5 --rounds 200]`
//!
//! "Cold" repeats the selection, as after every change; "cached" reuses it. A page is built as in the service, up to
//! the joined JSON. Prints the median and the maximum of all rounds, in microseconds.

#![allow(clippy::cast_precision_loss, reason = "figures of a few digits")]

use std::hint::black_box;
use std::time::Instant;

use mediary::domain::ids::{NodeId, PublisherId, VersionId};
use mediary::domain::node::{NodeEvent, NodeFields};
use mediary::domain::publisher::{PublisherFields, PublisherProfile, PublisherStatus};
use mediary::domain::value::{Label, Link, Name, Text, TextList, Timestamp};
use mediary::domain::version::{SemVer, VersionDraft, VersionFields};
use mediary::projections::node::facets::FormFactor;
use mediary::projections::node::host_version::HostVersion;
use mediary::projections::node::list::{NodeFilter, NodeQuery, Selection};
use mediary::projections::node::search::SearchQuery;
use mediary::projections::node::view::Links;
use mediary::projections::node::{Nodes, Sort, SortColumn};
use mediary::projections::page::PageRequest;
use uuid::Uuid;

/// Page size.
const LIMIT: u64 = 30;
/// Number of publishers.
const PUBLISHERS: u32 = 2_000;
/// Words of names, descriptions and tags.
const WORDS: [&str; 24] = [
    "image", "face", "mask", "upscale", "latent", "video", "audio", "prompt", "sampler", "loader", "control", "style",
    "depth", "pose", "tile", "blend", "noise", "color", "crop", "batch", "merge", "text", "model", "preview",
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
    let number_of = |name: &str, default: u32| value(name).map_or(default, |text| text.parse().expect("a number"));
    let count = number_of("--nodes", 100_000);
    let versions = number_of("--versions", 5);
    let rounds = number_of("--rounds", 200);

    let before = resident_mib();
    let started = Instant::now();
    let mut nodes = generate_nodes(count, versions);
    println!("{count} nodes of {versions} versions: loaded in {:.2?}", started.elapsed());
    let loaded_mib = resident_mib();
    let started = Instant::now();
    nodes.warm_up();
    println!("indexed in {:.2?}", started.elapsed());
    println!("resident: {:.0} MiB of nodes, {:.0} MiB of indexes", loaded_mib - before, resident_mib() - loaded_mib);

    println!("operation | median | slowest, in microseconds\n---|---|---");
    measure_pages(&nodes, count, rounds);
    measure_selections(&nodes, rounds);
    measure_changes(&mut nodes, count, rounds);
}

/// Measures pages of the whole list.
fn measure_pages(nodes: &Nodes, count: u32, rounds: u32) {
    let last = u64::from(count) / LIMIT;
    let by_downloads = |page| query(page, Selection { sort: vec![Sort::DOWNLOADS], ..Selection::default() });
    measure("page 1 by downloads, JSON ready", rounds, |_| render_page(nodes, &by_downloads(1), true));
    measure("page 3 000 by downloads", rounds, |_| render_page(nodes, &by_downloads(3_000.min(last)), true));
    measure("random page by downloads", rounds, |n| {
        render_page(nodes, &by_downloads(1 + u64::from(scatter(n)) % last), true)
    });
    let largest = |page| NodeQuery { page: PageRequest { page, limit: 1000 }, selection: Selection::default() };
    measure("pages of 1 000, JSON not ready", 20, |n| render_page(nodes, &largest(1 + u64::from(n)), true));
    measure("the same, held under the lock", 20, |n| nodes.list(&largest(1 + u64::from(n)), true).entries.len());
}

/// Measures filters, searches and orders.
fn measure_selections(nodes: &Nodes, rounds: u32) {
    let sort = |column, descending| Sort { column, descending };
    let linux = NodeFilter { systems: vec!["linux".to_owned()], ..NodeFilter::default() };
    let narrow = NodeFilter {
        form_factor: Some(FormFactor::GitWindows),
        host: HostVersion::parse("1.4.0"),
        accelerators: vec!["cuda".to_owned()],
        ..NodeFilter::default()
    };
    let two_columns = vec![sort(SortColumn::Author, false), sort(SortColumn::CreatedAt, true)];
    let search = |text| Some(SearchQuery::parse(text).expect("a short query"));
    for (label, selection) in [
        (
            "one system, by name",
            Selection { sort: vec![sort(SortColumn::Name, false)], filter: linux.clone(), ..Selection::default() },
        ),
        (
            "one system, by author and time",
            Selection { sort: two_columns.clone(), filter: linux.clone(), ..Selection::default() },
        ),
        (
            "one system and accelerator, by downloads and name",
            Selection {
                sort: vec![Sort::DOWNLOADS, sort(SortColumn::Name, false)],
                filter: NodeFilter { accelerators: vec!["cuda".to_owned()], ..linux.clone() },
                ..Selection::default()
            },
        ),
        (
            "one system, by search ranking (all equal) and downloads",
            Selection {
                sort: vec![sort(SortColumn::SearchRanking, true), Sort::DOWNLOADS],
                filter: linux.clone(),
                ..Selection::default()
            },
        ),
        ("no filter, by author and time", Selection { sort: two_columns.clone(), ..Selection::default() }),
        (
            "platform, host, accelerator, by author and time",
            Selection { sort: two_columns, filter: narrow, ..Selection::default() },
        ),
        (
            "changed lately",
            Selection {
                filter: NodeFilter { after: Some(Timestamp::from_micros(1_000_000)), ..NodeFilter::default() },
                ..Selection::default()
            },
        ),
        ("search of two words", Selection { search: search("face upsc"), ..Selection::default() }),
        ("search of two common words", Selection { search: search("image upscale"), ..Selection::default() }),
        ("search of one letter", Selection { search: search("m"), ..Selection::default() }),
        ("search of an id", Selection { search: search("node-777"), ..Selection::default() }),
        ("search of a common word", Selection { search: search("image"), ..Selection::default() }),
    ] {
        let first = query(1, selection.clone());
        let total = nodes.list(&first, true).total;
        measure(&format!("{label} ({total} found), cold"), rounds, |_| nodes.list(&first, true).total);
        let pages = total.div_ceil(LIMIT).max(1);
        measure(&format!("{label}, cold, random pages"), rounds, |n| {
            nodes.list(&query(1 + u64::from(scatter(n)) % pages, selection.clone()), true).total
        });
        measure(&format!("{label}, cached, page 7"), rounds, |_| {
            render_page(nodes, &query(7, selection.clone()), false)
        });
    }
}

/// Measures the application of single events.
fn measure_changes(nodes: &mut Nodes, count: u32, rounds: u32) {
    let mut apply = |label: &str, event: &dyn Fn(u32) -> NodeEvent| {
        measure(label, rounds, |n| {
            let node = scatter(n) % count;
            let at = Timestamp::from_micros(2_000_000 + i64::from(n));
            nodes.apply(&format!("node-{node}"), &event(n), at);
            n
        });
    };
    apply("change: downloads", &|n| NodeEvent::DownloadsCounted { count: u64::from(n) + 1 });
    apply("change: name and description", &|n| NodeEvent::NodeRevised { change: fields(scatter(n)) });
    apply("change: a version", &|n| NodeEvent::VersionReleased { version: draft(u64::MAX - u64::from(n), 99) });
    measure("change: a new node", rounds, |n| {
        let id = NodeId::parse(&format!("new-{}", scatter(n))).expect("an id");
        let (key, publisher) = (id.key(), publisher(n % PUBLISHERS));
        let event = NodeEvent::NodeCreated { id, publisher, fields: fields(n) };
        nodes.apply(key.as_str(), &event, Timestamp::from_micros(3_000_000));
        n
    });
    measure("change: a publisher's ban and its end", rounds, |n| {
        let id = publisher(n % PUBLISHERS);
        let profile = |status| PublisherProfile {
            id: id.clone(),
            fields: PublisherFields::default(),
            members: Vec::new(),
            webhooks: Vec::new(),
            created_at: Timestamp::from_micros(0),
            status,
            ban_reason: None,
        };
        nodes.update_publisher(id.as_str(), Some(&profile(PublisherStatus::Banned)));
        nodes.update_publisher(id.as_str(), Some(&profile(PublisherStatus::Active)));
        n
    });
}

/// Runs the closure and prints its times. The result goes to `black_box`, so that the work is not optimized away.
fn measure<T>(label: &str, rounds: u32, mut run: impl FnMut(u32) -> T) {
    let mut durations: Vec<f64> = (0..rounds)
        .map(|n| {
            let started = Instant::now();
            black_box(run(n));
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    durations.sort_by(f64::total_cmp);
    println!("{label} | {:.1} | {:.1}", durations[durations.len() / 2], durations[durations.len() - 1]);
}

fn query(page: u64, selection: Selection) -> NodeQuery {
    NodeQuery { page: PageRequest { page, limit: LIMIT }, selection }
}

/// Returns the nodes of a page as the service sends them.
fn render_page(nodes: &Nodes, query: &NodeQuery, is_fresh: bool) -> Vec<u8> {
    let mut body = Vec::with_capacity(64 << 10);
    for entry in nodes.entries(nodes.list(query, is_fresh)).entries {
        body.extend_from_slice(&entry.fragment(nodes.links()).expect("a node that is listed").json);
        body.push(b',');
    }
    body
}

/// Generates `count` nodes, each with this number of versions.
fn generate_nodes(count: u32, versions: u32) -> Nodes {
    let mut nodes = Nodes::new(Links { public_url: "https://registry.example".to_owned() });
    for n in 0..count {
        let id = NodeId::parse(&format!("node-{n}")).expect("an id");
        let key = id.key();
        let at = Timestamp::from_micros(i64::from(scatter(n) % 1_100_000));
        let created = NodeEvent::NodeCreated { id, publisher: publisher(scatter(n) % PUBLISHERS), fields: fields(n) };
        nodes.apply(key.as_str(), &created, at);
        for minor in 0..versions {
            let version = draft(u64::from(n) * u64::from(versions) + u64::from(minor), minor);
            nodes.apply(key.as_str(), &NodeEvent::VersionReleased { version }, at);
        }
        nodes.apply(key.as_str(), &NodeEvent::DownloadsCounted { count: u64::from(scatter(n) % 5_000) }, at);
    }
    nodes
}

fn publisher(n: u32) -> PublisherId {
    PublisherId::parse(&format!("publisher-{n}")).expect("an id")
}

/// Returns a typical version: little text, and a list of dependencies.
fn draft(n: u64, minor: u32) -> VersionDraft {
    let fields = VersionFields {
        changelog: Some(Text::from_recorded(sentence(minor, 8))),
        dependencies: Some(text_list(&["numpy>=1.26", "pillow", "opencv-python"])),
        ..VersionFields::default()
    };
    let version = SemVer::parse(&format!("1.{minor}.0")).expect("a version");
    VersionDraft { id: VersionId(Uuid::from_u128(u128::from(n))), number: version, fields }
}

/// Returns typical fields of a node, distinct for each `n`.
fn fields(n: u32) -> NodeFields {
    let seed = scatter(n);
    let systems: &[&str] =
        [&["Linux"][..], &["Windows", "Linux"], &["Windows"], &[], &["macOS", "Linux"]][seed as usize % 5];
    NodeFields {
        author: Some(Name::from_recorded(format!("Author {}", seed % 3_000))),
        banner_url: Some(Link::from_recorded(format!("https://pictures.example/banner-{n}.png"))),
        description: Some(Text::from_recorded(sentence(seed, 24))),
        icon: Some(Link::from_recorded(format!("https://pictures.example/icon-{n}.png"))),
        license: Some(Text::from_recorded("MIT".to_owned())),
        name: Some(Name::from_recorded(sentence(seed / 7, 3))),
        repository: Some(Link::from_recorded(format!("https://code.example/author/node-{n}"))),
        supported_accelerators: Some(text_list([&["CUDA"][..], &["CUDA", "ROCm"], &[]][seed as usize % 3])),
        supported_host_version: Some(Label::from_recorded(
            [">=1.2, <2", "^1", "", "~1.5"][seed as usize % 4].to_owned(),
        )),
        supported_os: Some(text_list(systems)),
        tags: Some(text_list(&[WORDS[seed as usize % 24], WORDS[seed as usize / 24 % 24]])),
        ..NodeFields::default()
    }
}

fn text_list<const ENTRIES: usize, const CHARS: usize>(texts: &[&str]) -> TextList<ENTRIES, CHARS> {
    TextList::from_recorded(texts.iter().map(|text| (*text).to_owned()).collect())
}

/// Returns a text of `word_count` words, some common and some in few nodes only.
fn sentence(seed: u32, word_count: u32) -> String {
    let word_at = |at: u32| {
        let draw = scatter(seed.wrapping_add(at));
        if at % 3 == 2 { format!("w{}", draw % 20_000) } else { WORDS[draw as usize % 24].to_owned() }
    };
    (0..word_count).map(word_at).collect::<Vec<_>>().join(" ")
}

/// Returns a reproducible pseudo-random number: the hash of `n`.
fn scatter(n: u32) -> u32 {
    (n ^ 0x5bd1_e995).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519) >> 1
}

/// Returns the resident memory of this process in MiB; zero if the system does not report it.
fn resident_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u32>().ok()).unwrap_or(0);
    f64::from(pages) * 4096.0 / f64::from(1 << 20)
}
