//! Measured processes: the service as shipped, and the baseline server of `ready_made.rs` that sends stored responses.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::http::{Connection, request};

/// Administrator's token of every measured service.
pub const TOKEN: &str = "token-of-the-benchmarks";
/// Clock ticks of CPU time per second (`USER_HZ`).
const TICKS: f64 = 100.0;
/// Deadline for a service to be ready, or to stop.
const DEADLINE: Duration = Duration::from_mins(30);

/// Resident memory of a process in MiB.
#[derive(Debug, Clone, Copy)]
pub struct MemoryUsage {
    pub current: f64,
    pub peak: f64,
}

/// Running process of the service or of the baseline server.
pub struct Service {
    child: Child,
    /// `127.0.0.1:port`.
    pub address: String,
    /// Time from the start of the process until `/ready` returned 200.
    pub ready_after: Duration,
}

impl Service {
    /// Starts the service on a data directory and waits until it is ready.
    pub fn start(data_dir: &Path, workers: usize) -> Self {
        Self::start_with(data_dir, workers, None, &[])
    }

    /// Like [`Service::start`], on the address `listen` (default: a free port) and with settings, by the names of their
    /// environment variables.
    pub fn start_with(data_dir: &Path, workers: usize, listen: Option<&str>, settings: &[(String, String)]) -> Self {
        Self::start_configured(data_dir, workers, listen, settings, None)
    }

    /// Like [`Service::start_with`], with a settings file as well.
    pub fn start_configured(
        data_dir: &Path,
        workers: usize,
        listen: Option<&str>,
        settings: &[(String, String)],
        file: Option<&Path>,
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
        let listen = listen.unwrap_or("127.0.0.1:0");
        command.args(["serve", "--listen", listen, "--log-level", "warn", "--workers", &workers.to_string()]);
        command.arg("--data-dir").arg(data_dir).env("MEDIARY_ADMIN_TOKEN", TOKEN);
        // The service rejects variables that begin with its name and are not settings.
        command.env_remove("MEDIARY_TEST_NATS_SERVER").env_remove("MEDIARY_TEST_POSTGRES_BIN");
        command.envs(settings.iter().cloned());
        if let Some(file) = file {
            command.arg("--config").arg(file);
        }
        Self::spawn(&mut command)
    }

    /// Starts the baseline server with `workers` workers.
    pub fn start_ready_made(workers: usize) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        Self::spawn(Command::new(program).args(["ready-made", "--workers", &workers.to_string()]))
    }

    /// Starts a program that prints its address, and waits until it is ready.
    fn spawn(command: &mut Command) -> Self {
        let started = Instant::now();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, remaining) = line.split_once("http://")?;
            Some(remaining.split_whitespace().next()?.trim_end_matches('/').to_owned())
        });
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.expect("the program prints its address");
        let ready = || {
            block_on(async {
                Connection::open(&address).await.exchange(&request("GET", "/ready", "", "")).await.status
            })
        };
        while ready() != 200 {
            assert!(started.elapsed() < DEADLINE, "the program was not ready within {DEADLINE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { child, address, ready_after: started.elapsed() }
    }

    /// Returns the resident memory.
    pub fn memory(&self) -> MemoryUsage {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("Linux");
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the status");
            line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
        };
        MemoryUsage { current: value("VmRSS:"), peak: value("VmHWM:") }
    }

    /// Resets the peak of [`memory`](Self::memory) to the current value (`proc(5)`, `clear_refs`).
    pub fn reset_memory_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").expect("a process of the same user");
    }

    /// Returns the CPU time used so far in seconds, of all threads.
    pub fn cpu_time(&self) -> f64 {
        cpu_time_of(self.child.id())
    }

    /// Stops the process as an operator would; returns the time that it took.
    pub fn stop(mut self) -> Duration {
        let started = Instant::now();
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the service can be signalled");
        let status = self.child.wait().expect("the service ends");
        // A program without a handler is ended by the signal itself, and has no exit code.
        assert!(status.success() || status.code().is_none(), "it did not stop cleanly: {status}");
        started.elapsed()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the CPU time used by a process in seconds, of all threads.
pub fn cpu_time_of(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("Linux");
    // The name is in parentheses and may contain anything; user and system time are the 12th and 13th fields after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number") / TICKS).sum()
}

/// Runs a future to completion on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// Runs `start` on the first core, which the processes that it starts inherit, and then moves this thread to the other
/// cores, so that load and service do not share a core. With a single core, only runs `start`.
pub fn on_separate_cores<T>(start: impl FnOnce() -> T) -> T {
    // Read once: after the first call this thread has only the cores of the clients.
    static CORES: LazyLock<Vec<usize>> = LazyLock::new(|| {
        let all_cores = sched_getaffinity(None).expect("the cores of this thread");
        (0..CpuSet::MAX_CPU).filter(|core| all_cores.is_set(*core)).collect()
    });

    let [first, other_cores @ ..] = CORES.as_slice() else { return start() };
    if other_cores.is_empty() {
        return start();
    }
    let pin_to = |cores: &[usize]| {
        let mut set = CpuSet::new();
        for core in cores {
            set.set(*core);
        }
        sched_setaffinity(None, &set).expect("a core of this thread");
    };
    pin_to(&[*first]);
    let started = start();
    pin_to(other_cores);
    started
}
