//! Hostile caller: one account, one address, its own process, and one kind of attack at a time.
//!
//! The process runs until its standard input is closed. Then it prints the number of responses by status.

mod bombs;
mod connections;
mod floods;
mod videos;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use crate::accounts::Account;
use crate::http::{Connection, Response};
use crate::service::block_on;

/// The hostile caller's address.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
/// Timeout of a request, longer than any `Prefer: wait`.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Pause before a failed connection is reopened: the attack is the request, not the reconnection.
const RECONNECT: Duration = Duration::from_millis(10);
/// Line that the process prints when its attack runs.
const STARTED: &str = "started";
/// Nice value of the process: it uses only CPU time that the measured clients leave.
const NICE: i32 = 19;

/// Kind of attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackKind {
    /// Busy loop beside the measured clients, without requests: shows the cost of the measurement itself.
    BusyNeighbour,
    /// Bodies of 196 KB with 98,000 unknown elements and `Prefer: wait=60`.
    JunkBodies,
    /// PNG files of 777 KB with 10,000 x 10,000 pixels of 16 bits.
    PixelBombs,
    /// PNG files of 8 x 8 pixels with a colour profile that unpacks to 512 MiB.
    ProfileBombs,
    /// Videos of a few hundred KB with 7,200 frames of 1920 x 1088 pixels, to be extended.
    LongVideos,
    /// Connections that send half of a request head.
    HalfHeads,
    /// Connections that read large responses a few bytes at a time.
    SlowReaders,
    /// Reads at full speed.
    ReadFlood,
    /// Writes at full speed.
    WriteFlood,
    /// Submissions at full speed.
    SubmissionFlood,
    /// Uploads of archives, half of them at full speed and half as slowly as is accepted.
    Archives,
    /// Streams of events.
    EventStreams,
}

impl AttackKind {
    pub const ALL: [Self; 12] = [
        Self::BusyNeighbour,
        Self::JunkBodies,
        Self::PixelBombs,
        Self::ProfileBombs,
        Self::LongVideos,
        Self::HalfHeads,
        Self::SlowReaders,
        Self::ReadFlood,
        Self::WriteFlood,
        Self::SubmissionFlood,
        Self::Archives,
        Self::EventStreams,
    ];

    /// Returns the name in the table, with the number of connections.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BusyNeighbour => "none, a busy loop beside the clients",
            Self::JunkBodies => "26 junk bodies with `Prefer: wait=60`",
            Self::PixelBombs => "8 PNGs of 10,000 x 10,000 x 16 bit",
            Self::ProfileBombs => "8 PNGs with a bomb as colour profile",
            Self::LongVideos => "4 videos of 7,200 frames to extend",
            Self::HalfHeads => "300 half heads",
            Self::SlowReaders => "128 slow readers",
            Self::ReadFlood => "flood of reads, 64 connections",
            Self::WriteFlood => "flood of writes, 64 connections",
            Self::SubmissionFlood => "flood of submissions, 64 connections",
            Self::Archives => "32 uploads of archives",
            Self::EventStreams => "500 event streams",
        }
    }

    /// Returns `true` if the measured clients must be served well during this attack. The busy loop is only for
    /// comparison.
    #[must_use]
    pub const fn is_judged(self) -> bool {
        !matches!(self, Self::BusyNeighbour)
    }

    /// Returns the name on the command line.
    fn argument(self) -> String {
        format!("{self:?}")
    }

    /// Starts the attack, which continues until the process ends.
    async fn run(self, target: &Rc<AttackTarget>) {
        match self {
            Self::BusyNeighbour => {
                drop(std::thread::spawn(|| {
                    loop {
                        std::hint::spin_loop();
                    }
                }));
            }
            Self::JunkBodies => floods::junk_bodies(target),
            Self::PixelBombs => bombs::pixels(target),
            Self::ProfileBombs => bombs::profiles(target),
            Self::LongVideos => videos::extend(target).await,
            Self::HalfHeads => connections::half_heads(target),
            Self::SlowReaders => connections::slow_readers(target),
            Self::ReadFlood => floods::reads(target),
            Self::WriteFlood => floods::writes(target),
            Self::SubmissionFlood => floods::submissions(target),
            Self::Archives => connections::archives(target),
            Self::EventStreams => connections::event_streams(target).await,
        }
    }
}

/// Target of the attack, attacking account, and responses so far.
struct AttackTarget {
    address: String,
    account: Account,
    /// Number of responses by status, and of failures by error.
    responses: RefCell<BTreeMap<String, usize>>,
}

impl AttackTarget {
    /// Counts a response by its status, or a failure by its error.
    fn count(&self, response: impl Into<String>) {
        *self.responses.borrow_mut().entry(response.into()).or_default() += 1;
    }

    /// Connects. If this fails, counts the failure and returns `None` after a pause.
    async fn connect(&self) -> Option<Connection> {
        match Connection::connect(&self.address, Some(SOURCE)).await {
            Ok(connection) => Some(connection),
            Err(error) => {
                self.count(format!("connect: {}", error.kind()));
                tokio::time::sleep(RECONNECT).await;
                None
            }
        }
    }
}

/// Returns the status of a response. Errors that load does not explain also have their error code, which shows whether
/// the attack sends invalid requests.
fn outcome_label(response: &Response<'_>) -> String {
    if !(400..500).contains(&response.status) || response.status == 429 {
        return response.status.to_string();
    }
    let body: serde_json::Value = serde_json::from_slice(response.body).unwrap_or_default();
    format!("{} {}", response.status, body["error"].as_str().unwrap_or_default())
}

/// Sends requests on `connections` connections; each sends its next request when a response arrives. Ignores
/// `Retry-After`. Returns at once; the requests continue until the process ends.
fn flood(target: &Rc<AttackTarget>, connections: usize, request: impl Fn(usize) -> Rc<[u8]> + Clone + 'static) {
    for index in 0..connections {
        let (target, request) = (target.clone(), request.clone());
        tokio::task::spawn_local(async move {
            let mut connection = None;
            let mut iteration = index;
            loop {
                let Some(open) = &mut connection else {
                    connection = target.connect().await;
                    continue;
                };
                let bytes = request(iteration);
                iteration += connections;
                match tokio::time::timeout(TIMEOUT, open.try_exchange(&bytes)).await {
                    Ok(Ok(response)) => {
                        target.count(outcome_label(&response));
                        if response.closes() {
                            connection = None;
                        }
                    }
                    Ok(Err(error)) => {
                        target.count(error.kind().to_string());
                        connection = None;
                        tokio::time::sleep(RECONNECT).await;
                    }
                    Err(_) => {
                        target.count("no response");
                        connection = None;
                    }
                }
            }
        });
    }
}

/// Runs the attack in this process: `ATTACK ADDRESS TOKEN PUBLISHER`.
pub fn run(arguments: &[String]) {
    let [attack, address, token, publisher] = arguments else {
        panic!("expected the arguments ATTACK ADDRESS TOKEN PUBLISHER, not {arguments:?}")
    };
    let attack = AttackKind::ALL.into_iter().find(|candidate| candidate.argument() == *attack).expect("an attack");
    let account = Account { token: token.clone(), publisher: publisher.clone() };
    let _ = rustix::process::nice(NICE);
    let target = AttackTarget { address: address.clone(), account, responses: RefCell::default() };
    block_on(async {
        let target = Rc::new(target);
        let (close_sender, mut close_receiver) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let lines = std::io::stdin().lines().map_while(Result::ok);
            lines.for_each(drop);
            let _: Result<(), _> = close_sender.send(());
        });
        attack.run(&target).await;
        println!("{STARTED}");
        close_receiver.recv().await;
        let responses = target.responses.borrow();
        let response_counts: Vec<_> =
            responses.iter().map(|(response, count)| format!("{count} x {response}")).collect();
        println!("{}", if response_counts.is_empty() { "none".to_owned() } else { response_counts.join(", ") });
    });
    // Exit without waiting for pending requests.
    std::process::exit(0);
}

/// Hostile caller, as seen by the measuring process.
pub struct HostileProcess {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl HostileProcess {
    /// Starts the process and waits until its attack runs.
    #[must_use]
    pub fn start(attack: AttackKind, address: &str, account: &Account) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command.args(["hostile", &attack.argument(), address, &account.token, &account.publisher]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut process = Self { child, output };
        assert_eq!(process.read_line(), STARTED, "the hostile caller did not start");
        process
    }

    /// Ends the process and returns its report: the number of responses by status.
    pub fn stop(mut self) -> String {
        drop(self.child.stdin.take());
        self.read_line()
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a pipe");
        line.trim().to_owned()
    }
}

impl Drop for HostileProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
