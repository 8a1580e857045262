//! Commands that call a service, each as a process against the real application.

mod install;
mod jobs;
mod login;
mod operator;
mod publish;

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use actix_web::rt::task::spawn_blocking;
use tempfile::TempDir;

use crate::support::TestApp;
use crate::support::process::CommandOutput;

/// A user's machine: a home and a working directory.
struct Workplace {
    dir: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Workplace {
    /// Creates the machine of a user who is not signed in.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir, variables: Vec::new() }
    }

    /// Creates a machine whose environment names the service and a token.
    fn of_user(app: &TestApp, token: &str) -> Self {
        let variables = vec![("MEDIARY_URL", app.url("")), ("MEDIARY_TOKEN", token.to_owned())];
        Self { variables, ..Self::new() }
    }

    /// Returns a path in the working directory.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn login_file(&self) -> PathBuf {
        self.dir.path().join("config/mediary/login.toml")
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
        command.args(arguments).current_dir(self.path(""));
        command.env_remove("MEDIARY_URL").env_remove("MEDIARY_TOKEN");
        command.env("XDG_CONFIG_HOME", self.dir.path().join("config")).envs(self.variables.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    async fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.run_with_input(arguments, "").await
    }

    /// Runs a command with this text on stdin.
    async fn run_with_input(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(arguments);
        let input = input.to_owned();
        let run = move || {
            let mut child = command.spawn().expect("the program starts");
            // The program may end without reading it.
            let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
            CommandOutput::from(child.wait_with_output().expect("the program ends"))
        };
        spawn_blocking(run).await.expect("the program ends")
    }
}
