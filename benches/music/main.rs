//! Music engine through the service as shipped: `benches/music/run [DIR]`.
//!
//! - single streams: ten prompts, one after the other; reports seconds of music per second of wall-clock time and of
//!   CPU time, and the time to the first chunk. The pieces are stored in DIR
//! - slow readers: 50 concurrent streams. Each reader has a small receive window and reads at playback speed, or pauses
//!   for a while; reports memory and CPU time of the service

#![allow(clippy::cast_precision_loss, reason = "figures of a few digits")]

#[path = "../shared/http.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod http;
mod reader;
#[path = "../shared/service.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod service;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reader::{Pace, ReceivedStream, listen};
use service::{Service, block_on};

/// Length of a piece of the sequential part, in seconds.
const SINGLE_STREAM_SECONDS: u32 = 30;
/// Length of a piece of the slow readers, in seconds.
const SLOW_READER_SECONDS: u32 = 60;
/// Number of slow readers.
const READERS: usize = 50;
/// Pause of a stalling reader.
const STALL: Duration = Duration::from_secs(20);

/// File name and prompt.
const PROMPTS: [(&str, &str); 10] = [
    ("waltz", "calm solo piano, a waltz in A minor"),
    ("techno", "driving techno, 132 bpm, dark"),
    ("jazz", "smoky jazz trio with upright bass and brushes"),
    ("metal", "aggressive metal, fast, heavy guitars"),
    ("ambient", "ambient drone, far away, at rest"),
    ("chiptune", "happy chiptune, 150 bpm, C major"),
    ("reggae", "sunny reggae with organ"),
    ("orchestra", "epic cinematic orchestra, builds up"),
    ("lofi", "lofi hip hop with vinyl crackle, rainy"),
    ("lullaby", "a gentle lullaby, music box, very slow"),
];

fn main() {
    // `cargo bench` adds `--bench`.
    let directory = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let directory = directory.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let data = tempfile::tempdir().expect("a directory");
    let service = Service::start(data.path(), 0);
    measure_single_streams(&service, &directory);
    measure_slow_readers(&service, "as it plays", |_| Pace::Playing);
    measure_slow_readers(&service, "half of them stall", |reader| {
        if reader % 2 == 0 { Pace::Playing } else { Pace::Stalling(STALL) }
    });
    service.stop();
}

/// Generates one piece after another, and stores them in `directory`.
fn measure_single_streams(service: &Service, directory: &Path) {
    println!("{SINGLE_STREAM_SECONDS} s of music each, one after the other\n");
    println!(
        "| prompt | first chunk, ms | seconds of music per second | per CPU second | KiB |\n|---|---|---|---|---|"
    );
    for (name, prompt) in PROMPTS {
        let started = Instant::now();
        let cpu_before = service.cpu_time();
        let received = block_on(listen(&service.address, prompt, SINGLE_STREAM_SECONDS, Pace::AtOnce));

        let elapsed = started.elapsed().as_secs_f64();
        let cpu_seconds = service.cpu_time() - cpu_before;
        let first_millis = received.first_sound.as_millis();
        let seconds = f64::from(SINGLE_STREAM_SECONDS);
        let sound = received.sound();
        std::fs::write(directory.join(format!("{name}.opus")), &sound).expect("a file in the directory");

        println!(
            "| {name} | {first_millis} | {:.0} | {:.0} | {} |",
            seconds / elapsed,
            seconds / cpu_seconds,
            sound.len() / 1024
        );
    }
}

/// Measures concurrent streams with slow readers; `pace` returns the pace of a reader.
fn measure_slow_readers(service: &Service, label: &str, pace: impl Fn(usize) -> Pace) {
    let started = Instant::now();
    let cpu_before = service.cpu_time();
    let memory_before = service.memory().current;
    let mut memory_peak = memory_before;

    let received: Vec<ReceivedStream> = block_on(async {
        let streams = (0..READERS).map(|reader| {
            let address = service.address.clone();
            let prompt = PROMPTS[reader % PROMPTS.len()].1;
            let pace = pace(reader);
            tokio::task::spawn_local(async move { listen(&address, prompt, SLOW_READER_SECONDS, pace).await })
        });

        let mut streams: Vec<_> = streams.collect();
        let mut received = Vec::new();
        while let Some(stream) = streams.pop() {
            let mut stream = std::pin::pin!(stream);
            received.push(loop {
                tokio::select! {
                    finished = &mut stream => break finished.expect("a reader does not panic"),
                    () = tokio::time::sleep(Duration::from_millis(200)) => {
                        memory_peak = memory_peak.max(service.memory().current);
                    }
                }
            });
        }
        received
    });

    let elapsed = started.elapsed().as_secs_f64();
    let core_percent = (service.cpu_time() - cpu_before) / elapsed * 100.0;
    let mut first_millis: Vec<_> = received.iter().map(|received| received.first_sound.as_millis()).collect();
    first_millis.sort_unstable();

    println!("\n{READERS} streams of {SLOW_READER_SECONDS} s at once, readers: {label}");
    println!("all were complete after {elapsed:.1} s; {core_percent:.0} % of one core");
    println!(
        "resident memory {memory_before:.0} MiB before, {memory_peak:.0} MiB at most: {:.2} MiB a stream",
        (memory_peak - memory_before) / READERS as f64
    );
    let (median, maximum) = (first_millis[READERS / 2], first_millis[READERS - 1]);
    println!("first chunk, ms: p50 {median}, maximum {maximum}");
}
