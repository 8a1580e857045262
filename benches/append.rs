//! Durable commands through the actors, compared with the raw limit of the same disk, alternating in one run.
//!
//! `cargo bench --bench append [-- --clients 1,8,64,512 --seconds 2 --rounds 5 --dir target]`
//!
//! The raw limit writes the same bytes in groups of the same size to a plain file, with one fdatasync per group: once
//! appending to a growing file, once to a file filled with zeros. "Sustained" includes the time until sled has caught
//! up with the journal.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures of a few digits"
)]

#[path = "shared/data_dir.rs"]
mod data_dir;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_dir::data_dir;
use mediary::actors::CommandContext;
use mediary::actors::router::RouterOptions;
use mediary::actors::system::{ActorOptions, Actors, Dispatch};
use mediary::domain::ids::{PublisherId, UserId};
use mediary::domain::publisher::{PublisherAdminFields, PublisherCommand, PublisherDescription, PublisherFields};
use mediary::environment::Environment;
use mediary::events::log::EventLog;
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::events::stream::Position;
use mediary::projections::ReadModels;
use mediary::projections::read_models::Models;
use mediary::telemetry::metrics::Metrics;
use uuid::Uuid;

/// Length of the changed text, for events of about 409 bytes in the journal.
const DESCRIPTION_LENGTH: usize = 300;
/// Bytes of a journal record before its payload: length, checksum, positions and chain hash.
const RECORD_HEAD: usize = 56;

fn main() {
    let options = Options::from_arguments();
    println!("{} rounds of {} s each, medians, thousands of events a second", options.rounds, options.seconds);
    println!(
        "clients | actors | raw, growing | raw, preallocated | of growing | of preallocated | events a sync | bytes an event | sustained"
    );
    println!("---|---|---|---|---|---|---|---|---");
    for clients in options.clients.clone() {
        let rounds: Vec<Round> = (0..options.rounds).map(|_| measure_round(clients, &options)).collect();
        let middle = |value: fn(&Round) -> f64| median(rounds.iter().map(value).collect());
        println!(
            "{clients} | {:.1} | {:.1} | {:.1} | {:.2} | {:.2} | {:.1} | {:.0} | {:.1}",
            middle(|round| round.actors / 1e3),
            middle(|round| round.growing / 1e3),
            middle(|round| round.preallocated / 1e3),
            middle(|round| round.actors / round.growing),
            middle(|round| round.actors / round.preallocated),
            middle(|round| round.group),
            middle(|round| round.bytes),
            middle(|round| round.sustained / 1e3),
        );
    }
}

struct Options {
    clients: Vec<usize>,
    seconds: f64,
    rounds: usize,
    dir: PathBuf,
}

impl Options {
    fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
        let number_of = |name: &str, default: f64| value(name).map_or(default, |text| text.parse().expect("a number"));
        let clients = value("--clients").map_or("1,8,64,512", String::as_str);
        Self {
            clients: clients.split(',').map(|clients| clients.parse().expect("a number")).collect(),
            seconds: number_of("--seconds", 2.0),
            rounds: number_of("--rounds", 5.0) as usize,
            dir: data_dir(value("--dir").map(String::as_str)),
        }
    }
}

/// Results of one round; rates in events a second.
struct Round {
    actors: f64,
    /// Rate through the actors, until sled has caught up.
    sustained: f64,
    growing: f64,
    preallocated: f64,
    /// Events per sync.
    group: f64,
    /// Bytes of one event in the journal.
    bytes: f64,
}

/// Measures the actors, and then the raw limit with groups of the same size.
fn measure_round(clients: usize, options: &Options) -> Round {
    let dir = tempfile::tempdir_in(&options.dir).expect("a directory on the disk to be measured");
    let actor_measurement = actix_web::rt::System::new().block_on(measure_actors(clients, options.seconds, dir.path()));
    let group = actor_measurement.events as f64 / actor_measurement.groups as f64;
    let bytes = actor_measurement.bytes as f64 / actor_measurement.events as f64;
    let measure_raw = |preallocate| {
        let path = dir.path().join("raw");
        let group_bytes = (bytes * group) as usize;
        let groups_a_second = write_raw(&path, group_bytes, actor_measurement.groups, options.seconds, preallocate);
        group * groups_a_second
    };
    // Pending writes of sled must not slow down the raw limit.
    drop(std::process::Command::new("sync").status());
    let (growing, preallocated) = (measure_raw(false), measure_raw(true));
    let actors = actor_measurement.events as f64 / actor_measurement.acknowledged_time.as_secs_f64();
    let sustained = actor_measurement.events as f64 / actor_measurement.caught_up.as_secs_f64();
    Round { actors, sustained, growing, preallocated, group, bytes }
}

/// Results of the commands through the actors.
struct ActorMeasurement {
    events: u64,
    groups: u64,
    bytes: u64,
    /// Time until the last command was acknowledged.
    acknowledged_time: Duration,
    /// Time until sled had all events.
    caught_up: Duration,
}

/// Changes publishers through the actors for `seconds`, with each client in a closed loop.
async fn measure_actors(clients: usize, seconds: f64, dir: &Path) -> ActorMeasurement {
    let environment = Environment::system();
    let options = SledLogOptions::new(dir.join("log"));
    let (log, _) = SledLog::open(&options, &environment, |_| {}).expect("a new log");
    let log = Arc::new(log);
    let models = ReadModels::new(log.clone(), Models::default());
    let router = RouterOptions { queue: 8192, mailbox: 16, idle: Duration::from_mins(1) };
    let bounds = ActorOptions { writer_queue: 4096, router };
    let actors = Actors::start(log.clone(), models, environment.clone(), bounds, Metrics::default()).await;

    let names: Vec<String> = (0..clients).map(|client| format!("p{client}")).collect();
    for name in &names {
        create_publisher(&actors.dispatch, name, &environment).await;
    }
    let (first, first_sync) = (log.head(), log.sync_count());
    let started = Instant::now();

    let end = started + Duration::from_secs_f64(seconds);
    let clients = names.into_iter().map(|name| run_client(name, actors.dispatch.clone(), environment.clone(), end));
    let clients: Vec<_> = clients.map(actix_web::rt::spawn).collect();
    for client in clients {
        client.await.expect("a client does not panic");
    }
    let (acknowledged_time, groups) = (started.elapsed(), log.sync_count() - first_sync);

    actors.stop();
    // Closing the log waits until sled has caught up with the journal.
    log.close().expect("the log closes");
    let caught_up = started.elapsed();
    let (events, bytes) = (log.head().0 - first.0, journal_bytes(&log, first));
    ActorMeasurement { events, groups, bytes, acknowledged_time, caught_up }
}

/// Returns the number of bytes of the journal's records after a position.
fn journal_bytes(log: &SledLog, after: Position) -> u64 {
    let mut records = log.read_journal(after).expect("a journal that can be read");
    let mut bytes = 0;
    while let Some(record) = records.next_record().expect("a journal that can be read") {
        bytes += (RECORD_HEAD + record.payload.len()) as u64;
    }
    bytes
}

async fn create_publisher(dispatch: &Dispatch, name: &str, environment: &Environment) {
    let id = PublisherId::parse(name).expect("a publisher id");
    let (owner, fields) = (UserId(Uuid::nil()), PublisherFields::default());
    let create =
        PublisherCommand::Create { id: id.clone(), owner, fields, admin_fields: PublisherAdminFields::default() };
    dispatch.publisher(&id, create, command_context(environment)).await.expect("a new publisher");
}

/// Runs a client in a closed loop until `end`: it sends the next command after each acknowledgement.
async fn run_client(name: String, dispatch: Dispatch, environment: Environment, end: Instant) {
    let id = PublisherId::parse(&name).expect("a publisher id");
    let mut letters = ('a'..='z').cycle();
    while Instant::now() < end {
        let text = String::from_iter(letters.next()).repeat(DESCRIPTION_LENGTH);
        let description = Some(PublisherDescription::from_recorded(text));
        let change = PublisherFields { description, ..PublisherFields::default() };
        let revise = PublisherCommand::Revise { change, admin_fields: PublisherAdminFields::default() };
        dispatch.publisher(&id, revise, command_context(&environment)).await.expect("a change");
    }
}

fn command_context(environment: &Environment) -> CommandContext {
    CommandContext::from_system(None, environment.now())
}

/// Writes at most `groups` groups of `bytes` bytes to a plain file, for at most `seconds`, each followed by fdatasync.
/// Returns the number of groups per second.
fn write_raw(path: &Path, bytes: usize, groups: u64, seconds: f64, preallocate: bool) -> f64 {
    let mut file = File::create(path).expect("a file on the disk to be measured");
    if preallocate {
        let zeros = vec![0; 1 << 20];
        for _ in 0..=(bytes as u64 * groups) >> 20 {
            file.write_all(&zeros).expect("room on the disk");
        }
        file.sync_all().expect("a sync");
        file.seek(SeekFrom::Start(0)).expect("a seek");
    }
    let group = vec![0xA5; bytes];
    let started = Instant::now();
    let mut written = 0;
    while written < groups && started.elapsed().as_secs_f64() < seconds {
        file.write_all(&group).expect("room on the disk");
        file.sync_data().expect("a sync");
        written += 1;
    }
    let rate = written as f64 / started.elapsed().as_secs_f64();
    std::fs::remove_file(path).expect("the file can be removed");
    rate
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
