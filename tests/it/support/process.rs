//! Processes of the real program, which can be killed, and of its commands.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use super::eventually::eventually_blocking;

/// Administrator's token of every process in the tests.
pub const TOKEN: &str = "operator-chosen-token";

/// Running `mediary serve`; killed on drop.
pub struct Process {
    child: Child,
    base: String,
    /// Stdout of the start.
    printed: String,
    /// Stderr so far.
    log: Arc<Mutex<String>>,
    /// Thread that reads stderr, so that the program never blocks on a full pipe.
    log_reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts the program on a directory and waits until it prints its address.
    pub fn start(data_dir: &Path) -> Self {
        Self::from_command(&mut command(data_dir))
    }

    /// Starts a command and waits until it has printed its address; panics if it ends before.
    pub fn from_command(command: &mut Command) -> Self {
        Self::try_start(command).unwrap_or_else(|errors| panic!("the program did not start: {errors}"))
    }

    /// Starts the program; returns its stderr if it ends before it prints its address.
    pub fn try_start(command: &mut Command) -> Result<Self, String> {
        let mut child = command.spawn().expect("the program starts");
        let errors = child.stderr.take().expect("a pipe");
        let log = Arc::<Mutex<String>>::default();
        let captured_log = Arc::clone(&log);
        let log_reader = std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let mut captured = captured_log.lock().expect("no thread panics with it");
                captured.push_str(&line);
                captured.push('\n');
            }
        });

        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let mut printed = String::new();
        for line in lines.by_ref() {
            printed.push_str(&line);
            printed.push('\n');
            // The greeting ends with an example request.
            if line.contains("curl ") {
                break;
            }
        }
        // Later lines are read too, so that the program never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));

        if let Some(base) = printed.lines().find_map(address_in) {
            return Ok(Self { child, base, printed, log, log_reader: Some(log_reader) });
        }
        let status = wait_for(&mut child);
        log_reader.join().expect("the log reader does not panic");
        Err(format!("{status}: {}", log.lock().expect("no thread panics with it")))
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Returns the stdout of the start.
    pub fn printed(&self) -> &str {
        &self.printed
    }

    /// Returns the stderr so far.
    pub fn log_text(&self) -> String {
        self.log.lock().expect("no thread panics with it").clone()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends SIGKILL, so that the program cannot shut down cleanly.
    pub fn kill(mut self) {
        self.child.kill().expect("a child process");
        wait_for(&mut self.child);
    }

    /// Sends SIGSTOP: all threads pause.
    pub fn pause(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).expect("a child process");
    }

    /// Waits until the process has exited without a signal from the test, and returns its status.
    pub fn wait_for_exit(mut self) -> ExitStatus {
        wait_for(&mut self.child)
    }

    /// Sends SIGTERM; returns the exit status and stderr.
    pub fn terminate(mut self) -> (ExitStatus, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("a child process");
        let status = wait_for(&mut self.child);
        self.log_reader.take().expect("joined once").join().expect("the log reader does not panic");
        (status, self.log_text())
    }
}

/// Waits until the process has exited.
fn wait_for(child: &mut Child) -> ExitStatus {
    eventually_blocking("the process exits", || child.try_wait().expect("its own child"))
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command of the program without the variables that only tests read, which it would reject as unknown
/// settings.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| name.starts_with("MEDIARY_TEST_") || name.starts_with("MEDIARY_CHAOS_")) {
        command.env_remove(name);
    }
    command
}

/// Returns a command that starts the program on a free port, on a data directory, with the token [`TOKEN`].
pub fn command(data_dir: &Path) -> Command {
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data_dir);
    command.env("MEDIARY_ADMIN_TOKEN", TOKEN).env("MEDIARY_JOURNAL__SEGMENT_BYTES", "1MiB");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns a command that starts the child program of the tests (`tests/child`).
pub fn test_child(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-child"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns a command that starts the service with faults (`tests/child/faults.rs`), on a free port, on a data
/// directory, with the token [`TOKEN`].
pub fn faulty_service(data_dir: &Path) -> Command {
    let mut command = test_child(&["serve"]);
    command.env("MEDIARY_DATA_DIR", data_dir).env("MEDIARY_LISTEN", "127.0.0.1:0").env("MEDIARY_WORKERS", "1");
    command.env("MEDIARY_ADMIN_TOKEN", TOKEN);
    command
}

/// Returns a command that runs the shell command `first`, and then the given command in the same process.
pub fn in_shell(first: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    let script = format!(r#"{first}; exec "$0" "$@""#);
    shell.args(["-c", &script]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

/// Makes the program take snapshots of the smallest log, and start from them.
pub fn with_snapshots(command: &mut Command) -> &mut Command {
    command.env("MEDIARY_SNAPSHOTS__EVERY_EVENTS", "3").env("MEDIARY_SNAPSHOTS__WHOLE_BELOW", "0")
}

/// Makes the program replay the whole log at its start.
pub fn without_snapshots(command: &mut Command) -> &mut Command {
    command.env("MEDIARY_SNAPSHOTS__EVERY_EVENTS", "0")
}

/// Result of a finished command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

impl CommandOutput {
    /// Returns the result; panics unless it has this exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.out, self.err);
        self
    }

    /// Returns the result; panics unless stdout contains all of these texts.
    #[track_caller]
    pub fn assert_contains(self, expected: &[&str]) -> Self {
        for text in expected {
            assert!(self.out.contains(text), "{text:?} is not in: {}\nstderr: {}", self.out, self.err);
        }
        self
    }
}

/// Runs a command of the program to its end, on a data directory.
pub fn run(data_dir: &Path, arguments: &[&str]) -> CommandOutput {
    CommandOutput::from(command_on(data_dir, arguments).output().expect("the program starts"))
}

/// Returns a command of the program, on a data directory.
pub fn command_on(data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = program();
    command.arg("--data-dir").arg(data_dir).args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the base URL in a line of the greeting.
fn address_in(line: &str) -> Option<String> {
    let at = line.find("http://127.0.0.1:")?;
    Some(line[at..].split_whitespace().next()?.trim_end_matches(['/', '.', ',']).to_owned())
}
