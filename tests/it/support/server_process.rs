//! Server processes that tests start. They end with the test process, even if it is killed.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// Shell that runs a server. It ends the server when its own stdin closes, which happens on drop and when the test
/// process dies.
pub struct ServerProcess {
    shell: Child,
    pub server: Pid,
}

impl ServerProcess {
    /// Runs a shell script with these arguments, the first of which is `$0`. The script must print the process id of
    /// the server, read a line from stdin, and then end the server.
    pub fn start(script: &str, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).args(arguments);
        // Its own process group, so that Ctrl-C ends the tests before the server.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());

        let mut shell = command.spawn().expect("a shell");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("a pipe")).read_line(&mut line).expect("the id of the process");
        let server = Pid::from_raw(line.trim().parse().expect("a number")).expect("not zero");
        Self { shell, server }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The shell ends the server when its input ends, and waits for it.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
