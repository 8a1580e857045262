//! The service as shipped, in its own process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::ReplayMeasurement;

/// Clock ticks of CPU time per second (`USER_HZ`).
const TICKS: f64 = 100.0;
/// Deadline for a service to be ready, or to stop.
const DEADLINE: Duration = Duration::from_mins(10);

/// Running service that is ready.
pub struct ReplayService {
    child: Child,
    measurement: ReplayMeasurement,
}

impl ReplayService {
    /// Starts the service and waits until `/ready` returns 200.
    pub fn start(data: &Path, snapshot_every: u64) -> Self {
        let started = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "info", "--data-dir"]).arg(data);
        command.env("MEDIARY_SNAPSHOTS__EVERY_EVENTS", snapshot_every.to_string());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, remaining) = line.split_once("http://")?;
            Some(remaining.split_whitespace().next()?.trim_end_matches('/').to_owned())
        });
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.expect("the program prints its address");
        while !is_ready(&address) {
            assert!(started.elapsed() < DEADLINE, "the program was not ready within {DEADLINE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let measurement = measure(child.id(), started.elapsed());
        Self { child, measurement }
    }

    /// Returns the resources used until the service was ready.
    pub fn measurement(&self) -> ReplayMeasurement {
        self.measurement
    }

    /// Stops the service as an operator would.
    pub fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the service can be signalled");
        let status = self.child.wait().expect("the service ends");
        assert!(status.success() || status.code().is_none(), "it did not stop cleanly: {status}");
    }
}

impl Drop for ReplayService {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_ready(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let request_sent = stream.write_all(b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut response_bytes = Vec::new();
    request_sent.and_then(|()| stream.read_to_end(&mut response_bytes)).is_ok()
        && response_bytes.starts_with(b"HTTP/1.1 200")
}

/// Returns the CPU time and the memory that a process has used so far, with the given duration.
pub fn measure(process: u32, duration: Duration) -> ReplayMeasurement {
    let read_proc = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).expect("Linux");
    let (status, stat) = (read_proc("status"), read_proc("stat"));
    let memory = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the status");
        line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
    };
    // The name is in parentheses and may contain anything; user and system time are the 12th and 13th fields after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number")).sum();
    ReplayMeasurement {
        seconds: duration.as_secs_f64(),
        cpu_seconds: ticks / TICKS,
        memory: memory("VmRSS:"),
        memory_peak: memory("VmHWM:"),
    }
}
