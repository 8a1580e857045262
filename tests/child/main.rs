//! Child processes of the tests: the service with faults built in, and work whose memory, panics or hangs must not
//! reach the test program.
//!
//! | Arguments | Effect |
//! |---|---|
//! | `serve` | Runs the service with the usual `MEDIARY_…` settings and the faults of [`faults`]. |
//! | `refill DIRECTORY` | Opens a log, fills sled from it and closes it, with the same faults. |
//! | `decode FILE` | Inspects and decodes a picture, and prints how much memory each took. |
//! | `mutants KIND FROM UNTIL PROGRESS` | Tries mutants of a kind of input. |
//! | `rejected-seeds KIND` | Prints the number of seeds that are rejected unchanged. |
//! | `video FILE` | Writes a video of the built-in engine, which is a seed of the mutants of videos. |
//!
//! `CHILD_SEGMENT_BYTES` makes the segments of `serve` smaller than the setting allows.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod decode;
mod faults;
mod mutants;

use std::path::Path;

use mediary::app::{App, StopSignals};
use mediary::config::{CommandLine, Configuration};
use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::telemetry;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve"] => mediary::app::block_on(serve()),
        ["refill", directory] => refill(directory),
        ["decode", file] => decode::print_memory_of(Path::new(file)),
        ["mutants", kind, from, until, progress] => {
            mutants::worker::run(kind, from.parse().unwrap()..until.parse().unwrap(), Path::new(progress));
        }
        ["rejected-seeds", kind] => println!("{}", mutants::rejected_seeds(kind)),
        ["video", file] => std::fs::write(file, mutants::targets::render_seed()).unwrap(),
        _ => panic!("unknown arguments {arguments:?}; only the tests start this program"),
    }
}

/// Runs the service until a stop signal, and prints its address as the real program does.
async fn serve() {
    let signals = StopSignals::install();
    let mut settings = Configuration::load(CommandLine::default()).unwrap().settings;
    if let Ok(bytes) = std::env::var("CHILD_SEGMENT_BYTES") {
        settings.journal.segment_bytes = bytes.parse().unwrap();
    }
    telemetry::init_logging(settings.log.format, settings.log.filter.clone());
    let environment = Environment::system().with_fail_point_handler(faults::from_variables());
    let app = App::start(settings, environment).await.unwrap();
    // The tests read the output up to the first line with `curl `.
    println!("it listens on http://{}\ncurl is what the reader waits for", app.address());
    app.run_until_stopped(signals).await.unwrap();
}

/// Opens the log in a directory, which fills sled from the journal if necessary, and closes it.
fn refill(directory: &str) {
    let start = Timestamp::from_micros(0);
    let environment = Environment::manual(start, 7).with_fail_point_handler(faults::from_variables());
    let (log, _) = SledLog::open(&SledLogOptions::new(directory), &environment, |_| {}).unwrap();
    log.close().unwrap();
}
