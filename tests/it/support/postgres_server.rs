//! PostgreSQL server as processes that can be stopped and paused. `tests/cluster/run` provides the programs.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use super::eventually::eventually_blocking;
use super::nats_servers::free_ports;
use super::server_process::ServerProcess;

/// Environment variable with the directory of PostgreSQL's programs.
const PROGRAMS: &str = "MEDIARY_TEST_POSTGRES_BIN";
/// Password of the user of every server.
pub const PASSWORD: &str = "pw-4711-of-mediary";
/// User that runs the server if root runs the tests, because PostgreSQL refuses to run as root.
const UNPRIVILEGED_USER: &str = "postgres";

/// Server with a fresh database; stopped on drop, and when the test process ends.
pub struct PostgresServer {
    port: u16,
    data: PathBuf,
    process: Option<ServerProcess>,
    home: TempDir,
}

impl PostgresServer {
    /// Starts a server and waits until it accepts connections.
    pub fn start() -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let data = home.path().join("data");
        let password_file = home.path().join("password");
        fs::write(&password_file, PASSWORD).expect("a writable directory");
        fs::create_dir(&data).expect("a writable directory");
        if geteuid().is_root() {
            fs::set_permissions(home.path(), Permissions::from_mode(0o711)).expect("a directory of this process");
            let mut chown = Command::new("chown");
            run(chown.arg(UNPRIVILEGED_USER).args([home.path(), &data, &password_file]));
        }

        let mut initdb = program("initdb");
        initdb.arg("--pgdata").arg(&data).arg("--pwfile").arg(&password_file);
        run(initdb.args(["--username=mediary", "--auth=scram-sha-256", "--data-checksums", "--encoding=UTF8"]).args([
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        ]));

        let port = free_ports(1)[0];
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nshared_buffers = '32MB'\n\
             max_connections = 40\n"
        );
        let mut file = fs::OpenOptions::new().append(true).open(data.join("postgresql.conf")).expect("its settings");
        file.write_all(settings.as_bytes()).expect("writable settings");
        let mut server = Self { port, data, process: None, home };
        server.restart();
        server.administer_in("postgres", "CREATE DATABASE mediary");
        server
    }

    /// Returns the URL for clients, with the password.
    pub fn url(&self) -> String {
        format!("postgres://mediary:{PASSWORD}@127.0.0.1:{}/mediary", self.port)
    }

    /// Stops all processes at once, as in a crash: without a checkpoint.
    pub fn stop_immediately(&mut self) {
        drop(self.process.take().expect("a running server"));
    }

    /// Starts a server that was stopped, and waits until it accepts connections.
    pub fn restart(&mut self) {
        self.process = Some(start(&self.data, self.home.path()));
        let log = self.home.path().join("log");
        eventually_blocking(format!("the server accepts queries, see {}", log.display()), || {
            try_query(&self.url_of("postgres"), "SELECT 1").is_ok()
        });
    }

    /// Stops the server and starts it as a standby without a primary.
    pub fn restart_in_recovery(&mut self) {
        self.administer("CHECKPOINT");
        self.stop_immediately();
        fs::write(self.data.join("standby.signal"), "").expect("a writable directory");
        self.restart();
    }

    /// Pauses all processes of the server.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues a server that was paused.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Changes a setting of the running server. Waits until new connections have it, if it is one that clients check.
    pub fn set(&self, setting: &str, value: &str) {
        self.administer(&format!("ALTER SYSTEM SET {setting} = '{value}'"));
        self.administer("SELECT pg_reload_conf()");
        if setting == "fsync" || setting == "full_page_writes" || setting == "synchronous_commit" {
            eventually_blocking(format!("{setting} is {value}"), || {
                let check = format!("DO $$ BEGIN ASSERT current_setting('{setting}') = '{value}'; END $$");
                try_query(&self.url(), &check).is_ok()
            });
        }
    }

    /// Runs SQL statements in the database of the logs; panics if one fails.
    pub fn administer(&self, sql: &str) {
        self.administer_in("mediary", sql);
    }

    fn administer_in(&self, database: &str, sql: &str) {
        try_query(&self.url_of(database), sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://mediary:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    fn signal(&self, signal: Signal) {
        let server = self.process.as_ref().expect("a running server").server;
        // A paused parent starts no more children.
        let parent_first = [server].into_iter().chain(children_of(server));
        parent_first.for_each(|process| {
            // A child may have ended.
            let _ = kill_process(process, signal);
        });
    }
}

/// Starts the server on its data directory; its log is in `home`.
fn start(data: &Path, home: &Path) -> ServerProcess {
    // The server ignores SIGQUIT while it starts, so the signal is repeated until the process is gone.
    let script = r#"log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!; read -r _
        while readlink /proc/$!/exe >/dev/null; do kill -QUIT $!; kill -CONT $!; sleep 0.02; done; wait"#;
    let (server, log) = (program("postgres"), home.join("log"));
    let first_arguments = [OsStr::new("sh"), log.as_os_str(), server.get_program()];
    let arguments = first_arguments.into_iter().chain(server.get_args()).chain([OsStr::new("-D"), data.as_os_str()]);
    ServerProcess::start(script, arguments)
}

/// Returns a command that runs a program of PostgreSQL, as [`UNPRIVILEGED_USER`] if this process is root.
fn program(name: &str) -> Command {
    let directory = std::env::var_os(PROGRAMS).unwrap_or_else(|| {
        panic!("{PROGRAMS} must be the directory of the programs of PostgreSQL; tests/cluster/run sets it")
    });
    let path = Path::new(&directory).join(name);
    if !geteuid().is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    let user = UNPRIVILEGED_USER;
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups", "--"]).arg(path);
    command
}

/// Runs a command to its end; panics if it fails.
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs statements on a new connection, in a new thread because the caller may be in an async runtime.
fn try_query(url: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    let query = async || {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let connection = tokio::spawn(connection);
        let result = client.batch_execute(sql).await;
        drop(client);
        let _ = connection.await;
        result
    };
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(query())
        });
        thread.join().expect("a query does not panic")
    })
}

/// Returns the running child processes of a process.
fn children_of(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().to_string();
    let is_child = |status: &str| {
        // `pid (name) state ppid …`; the name may contain anything.
        status.rsplit_once(')').is_some_and(|(_, fields)| fields.split_whitespace().nth(1) == Some(parent.as_str()))
    };
    let processes = fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|status| is_child(&status)))
        .filter_map(Pid::from_raw)
        .collect()
}
