//! Memory and open files of the service, sampled while it runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// Share of a run that is ignored: caches fill, and clients reconnect.
const WARM_UP: f64 = 0.3;

/// Resident memory and number of open files at one time.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Seconds since the samples of this run began.
    pub at: f64,
    pub memory_mib: f64,
    pub files: usize,
}

/// One run of the process, from a start to a kill.
#[derive(Debug)]
pub struct Segment {
    /// Sample from before traffic reached the process.
    pub fresh: Sample,
    /// Median of the resident memory after the warm-up, in MiB.
    pub memory_mib: f64,
    /// Median of the number of open files after the warm-up.
    pub files: usize,
    /// Growth of the memory after the warm-up, in MiB a minute (least squares).
    pub slope: f64,
    /// Number of tasks acknowledged by the end of the run, over all runs.
    pub tasks: usize,
    /// `true` if the run had the full length.
    pub is_full_length: bool,
}

impl Segment {
    /// Summarizes the samples of a run.
    #[must_use]
    pub fn new(fresh: Sample, samples: Vec<Sample>, tasks: usize, is_full_length: bool) -> Self {
        let last = samples.last().map_or(0.0, |sample| sample.at);
        let after_warm_up: Vec<_> = samples.into_iter().filter(|sample| sample.at >= last * WARM_UP).collect();
        let mut memory: Vec<_> = after_warm_up.iter().map(|sample| sample.memory_mib).collect();
        let mut files: Vec<_> = after_warm_up.iter().map(|sample| sample.files).collect();
        memory.sort_by(f64::total_cmp);
        files.sort_unstable();
        Self {
            fresh,
            memory_mib: memory.get(memory.len() / 2).copied().unwrap_or(fresh.memory_mib),
            files: files.get(files.len() / 2).copied().unwrap_or(fresh.files),
            slope: slope(&after_warm_up) * 60.0,
            tasks,
            is_full_length,
        }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} MiB ({:+.2} MiB/min, fresh {:.0}), {} open files (fresh {})",
            self.memory_mib, self.slope, self.fresh.memory_mib, self.files, self.fresh.files
        )
    }
}

/// Returns the slope of the memory by least squares, in MiB a second.
fn slope(samples: &[Sample]) -> f64 {
    let count = samples.len() as f64;
    let mean = |value: fn(&Sample) -> f64| samples.iter().map(value).sum::<f64>() / count;
    let (mean_at, mean_memory) = (mean(|sample| sample.at), mean(|sample| sample.memory_mib));
    let covariance: f64 = samples.iter().map(|sample| (sample.at - mean_at) * (sample.memory_mib - mean_memory)).sum();
    let variance: f64 = samples.iter().map(|sample| (sample.at - mean_at).powi(2)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

/// Takes a sample every [`INTERVAL`] for `time` and returns all samples.
pub async fn watch(process: Pid, time: Duration) -> Vec<Sample> {
    let started = Instant::now();
    let mut samples = Vec::new();
    while started.elapsed() < time {
        samples.push(Sample { at: started.elapsed().as_secs_f64(), ..sample(process) });
        tokio::time::sleep(INTERVAL.min(time.saturating_sub(started.elapsed()))).await;
    }
    samples
}

/// Takes a sample of a process, at time 0.
#[must_use]
pub fn sample(process: Pid) -> Sample {
    let directory = format!("/proc/{}", process.as_raw_nonzero());
    let status = std::fs::read_to_string(format!("{directory}/status")).expect("a process of the same user");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of the status");
    let kib: f64 = memory.trim().trim_end_matches(" kB").parse().expect("a number");
    let files = std::fs::read_dir(format!("{directory}/fd")).expect("a process of the same user").count();
    Sample { at: 0.0, memory_mib: kib / 1024.0, files }
}

/// Returns the number of open files by kind: sockets, pipes, and files by directory.
#[must_use]
pub fn open_files(process: Pid) -> BTreeMap<String, usize> {
    let entries =
        std::fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).expect("a process of the same user");
    let mut kinds = BTreeMap::new();
    for target in entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()) {
        let target = target.to_string_lossy();
        let kind = match target.split_once(':') {
            Some((kind, _)) => kind,
            None => target.rsplit_once('/').map_or(&*target, |(directory, _)| directory),
        };
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
}
