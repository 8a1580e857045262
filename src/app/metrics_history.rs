//! Samples the main metrics once a minute and keeps them in a file of the data directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::StartError;
use crate::actors::poller::VendorState;
use crate::data_dir::{DataDir, write_private};
use crate::disk_space::DataDirPart;
use crate::domain::task::{TaskFailure, TaskKind};
use crate::environment::Environment;
use crate::http::api::metrics::read_gauges;
use crate::http::server::Services;
use crate::telemetry::history::{HistorySampler, MetricsHistory};

/// File in the data directory. Not part of backups.
const FILE: &str = "metrics-history";
/// Maximum size of the file in bytes. A larger one was not written by this service.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Interval at which the clock is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Samples between two writes of the file: a crash loses no more.
const SAMPLES_PER_SAVE: u32 = 5;

/// Returns the history of the last run. A file that cannot be used is ignored, because the service must start.
pub(super) fn load(data: &DataDir, vendors: &[VendorState]) -> MetricsHistory {
    let vendors: Vec<_> = vendors.iter().map(|vendor| Arc::clone(&vendor.description().name)).collect();
    let history = MetricsHistory::new(&TaskFailure::CODES, &vendors);

    let path = data.path(FILE);
    let restored = match read(&path) {
        Ok(None) => Ok(0),
        Ok(Some(bytes)) => history.restore(&bytes).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match restored {
        Ok(samples) => tracing::debug!(samples, "metrics history loaded"),
        Err(reason) => tracing::warn!(file = %path.display(), reason, "metrics history ignored, starting a new one"),
    }
    history
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a file")),
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => Err(io::Error::other("it is too large")),
        Ok(_) => fs::read(path).map(Some),
    }
}

/// Thread that samples the metrics.
pub(super) struct MetricsHistoryThread {
    stop_request: Arc<StopRequest>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct StopRequest {
    is_set: Mutex<bool>,
    signal: Condvar,
}

/// Source and destination of the samples.
struct HistoryRecorder {
    services: Services,
    sampler: HistorySampler,
    path: PathBuf,
    /// Samples that are not in the file yet.
    unsaved: u32,
    /// `true` if the last write failed, which is logged once.
    is_failing: bool,
}

impl MetricsHistoryThread {
    /// Starts the thread. It takes its first sample at the end of the current minute.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(data: &DataDir, services: Services) -> Result<Self, StartError> {
        let task_kinds = TaskKind::ALL.iter().map(|kind| kind.as_str()).collect();
        let history = services.operations.history.clone();
        let sampler = HistorySampler::new(services.metrics.clone(), history, task_kinds);
        let recorder = HistoryRecorder { services, sampler, path: data.path(FILE), unsaved: 0, is_failing: false };

        let stop_request = Arc::new(StopRequest::default());
        let request = Arc::clone(&stop_request);
        let thread = thread::Builder::new().name("history".to_owned()).spawn(move || recorder.run(&request));
        let thread = thread.map_err(|error| StartError::part("the metrics history", &error))?;
        Ok(Self { stop_request, thread })
    }

    /// Stops sampling and writes the file. Blocks; must be called before the sampled parts stop.
    pub fn stop(self) {
        *self.stop_request.is_set.lock() = true;
        self.stop_request.signal.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("metrics history panicked");
        }
    }
}

impl HistoryRecorder {
    fn run(mut self, stop_request: &StopRequest) {
        let mut last_minute = minute_of(&self.services.environment);
        let mut is_stopping = stop_request.is_set.lock();
        while !*is_stopping {
            stop_request.signal.wait_for(&mut is_stopping, CHECK_INTERVAL);
            MutexGuard::unlocked(&mut is_stopping, || {
                let minute = minute_of(&self.services.environment);
                // A clock that is set back by a moment must not cause a second sample of the same minute.
                if minute > last_minute || minute < last_minute - 1 {
                    last_minute = minute;
                    self.sample(minute);
                }
            });
        }

        if self.unsaved > 0 {
            self.save();
        }
    }

    fn sample(&mut self, minute: i64) {
        self.sampler.sample(minute, &read_gauges(&self.services));
        self.unsaved += 1;
        if self.unsaved >= SAMPLES_PER_SAVE {
            self.save();
        }
    }

    /// Writes the file, unless that would use the disk's reserve. A failed write is repeated after the next
    /// [`SAMPLES_PER_SAVE`] samples.
    fn save(&mut self) {
        self.unsaved = 0;
        let bytes = self.services.operations.history.encode();
        let size = bytes.len() as u64;
        let available = self.services.space.check_available(DataDirPart::Directory, "the history of the metrics", size);
        let saved = available
            .map_err(|disk_full| disk_full.to_string())
            .and_then(|()| write_private(&self.path, &bytes).map_err(|error| error.to_string()));

        match saved {
            Ok(()) => self.is_failing = false,
            Err(reason) if self.is_failing => tracing::debug!(reason, "metrics history not written"),
            Err(reason) => {
                self.is_failing = true;
                tracing::warn!(reason, "metrics history not written, a restart loses it");
            }
        }
    }
}

/// Returns the current minute since 1970.
fn minute_of(environment: &Environment) -> i64 {
    environment.now().seconds().div_euclid(60)
}
