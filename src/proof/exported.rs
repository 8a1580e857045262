//! Verification of an export with nothing but the export and, to prove its origin, the public key of the log.
//!
//! Every line is rendered again from the data covered by chain and signatures, and must match byte for byte.

use std::io::{self, BufRead, BufReader, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::export::{self, FORMAT, Style};
use crate::events::codec;
use crate::events::journal::{ChainHash, JournalHead, SignedCheckpoint, hex};
use crate::events::schema;
use crate::events::stream::Position;
use crate::words::count;

/// Maximum number of findings listed individually.
const TOLD_MAX: usize = 100;

/// Knowledge about the log from a trusted source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known<'k> {
    /// None: the export can only be checked against itself.
    Nothing,
    /// The public key of the log.
    Key([u8; 32]),
    /// A checkpoint that the history must contain, and with it the key.
    Since(&'k SignedCheckpoint),
}

/// A defect of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFinding {
    /// Line number, starting at 1.
    pub line: u64,
    pub what: String,
}

/// Result of verifying an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportReport {
    pub events: u64,
    pub lines: u64,
    /// Position of the last intact commit.
    pub position: u64,
    pub log: String,
    pub public_key: String,
    pub checkpoints: u64,
    pub findings: Vec<LineFinding>,
    /// Parts that could not be verified.
    pub unverified: Vec<String>,
    pub notes: Vec<String>,
}

/// Reason why an export cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is not an export of this program: its first line does not say {FORMAT:?}")]
    NotAnExport,
    #[error(
        "it shows events in schema {theirs}, this release in schema {}: verify it with a release of that schema",
        schema::VERSION
    )]
    OtherSchema { theirs: u64 },
}

/// Verifies an export.
///
/// # Errors
/// If the export cannot be read, or this release cannot verify its schema.
pub fn verify(
    input: impl Read,
    style: Style,
    known: Known<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<ExportReport, Unreadable> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;

    let (mut check, first) = Check::begin(&line, style, known)?;
    check.first_line(&line, &first);

    loop {
        progress(line.len() as u64);
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        check.line(&line);
    }
    Ok(check.finish())
}

struct Check<'k> {
    style: Style,
    known: Known<'k>,
    /// The final checkpoint according to the first line; `None` if that is damaged.
    head: Option<SignedCheckpoint>,
    since_met: bool,
    next: u64,
    chain: Option<ChainHash>,
    /// Position from which the next checkpoint is due.
    due: u64,
    /// `true` if the next line must be a checkpoint.
    owed: bool,
    ended: bool,
    untold: usize,
    report: ExportReport,
}

impl<'k> Check<'k> {
    fn begin(line: &[u8], style: Style, known: Known<'k>) -> Result<(Self, Value), Unreadable> {
        let first: Value = serde_json::from_slice(line).map_err(|_| Unreadable::NotAnExport)?;
        if first["format"] != FORMAT {
            return Err(Unreadable::NotAnExport);
        }

        let text = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
        if let Some(theirs) = first["schema"].as_u64().filter(|theirs| *theirs != u64::from(schema::VERSION)) {
            return Err(Unreadable::OtherSchema { theirs });
        }
        let log = text("log");
        let public_key = text("public_key");
        let report = ExportReport {
            events: 0,
            lines: 1,
            position: 0,
            log,
            public_key,
            checkpoints: 0,
            findings: Vec::new(),
            unverified: Vec::new(),
            notes: Vec::new(),
        };

        let due = export::CHECKPOINT_EVERY;
        let check = Self {
            style,
            known,
            head: None,
            since_met: false,
            next: 1,
            chain: None,
            due,
            owed: false,
            ended: false,
            untold: 0,
            report,
        };

        Ok((check, first))
    }

    fn first_line(&mut self, line: &[u8], first: &Value) {
        match SignedCheckpoint::from_json(&first["head"]) {
            Err(error) => self.tell(format!("the checkpoint of the end: {error}")),
            Ok(head) => {
                if !same(line, &self.style.line(&export::header(&head))) {
                    self.tell("the first line is not what its checkpoint vouches for".to_owned());
                }
                self.chain = Some(ChainHash::genesis(head.checkpoint().log));
                self.due_at_end(&head);
                self.head = Some(head);
                self.check_known(&head);
            }
        }
    }

    /// An empty log has no commits, so the final checkpoint follows at once.
    fn due_at_end(&mut self, head: &SignedCheckpoint) {
        self.owed = head.checkpoint().head.position == Position(0);
    }

    fn check_known(&mut self, head: &SignedCheckpoint) {
        let (key, since) = match self.known {
            Known::Nothing => {
                let what = "the origin of the export: it was checked only against itself, so anyone may have made it up; give \
                            --key or --since";
                return self.report.unverified.push(what.to_owned());
            }
            Known::Key(key) => (key, None),
            Known::Since(since) => (since.public_key(), Some(since)),
        };

        if head.public_key() != key {
            let theirs = hex::encode(&head.public_key());
            let ours = hex::encode(&key);
            self.tell(format!("the export is signed with key {theirs}, not with {ours}"));
        }

        let Some(since) = since else { return };
        let wanted = since.checkpoint();
        let end = head.checkpoint();
        self.since_met = wanted.head == JournalHead { position: Position(0), chain: ChainHash::genesis(end.log) };

        if wanted.log != end.log {
            self.tell(format!("this is log {}, the checkpoint was taken of log {}", end.log, wanted.log));
        } else if wanted.head.position > end.head.position {
            let end = end.head.position;
            let taken = wanted.head.position;
            self.tell(format!("the history ends at position {end}, the checkpoint was taken at {taken}"));
        }
    }

    fn line(&mut self, line: &[u8]) {
        self.report.lines += 1;
        if self.ended {
            return self.tell("there is nothing to come after the last checkpoint".to_owned());
        }

        let json: Value = match serde_json::from_slice(line) {
            Ok(json) => json,
            Err(error) => return self.tell(format!("the line is not JSON: {error}")),
        };

        if json.get("checkpoint").is_some() {
            self.checkpoint(line, &json["checkpoint"]);
        } else {
            self.commit(line, &json);
        }
    }

    fn commit(&mut self, line: &[u8], json: &Value) {
        if std::mem::take(&mut self.owed) {
            self.tell("a checkpoint is missing before this line".to_owned());
        }

        let payload = json["payload"].as_str().and_then(|text| STANDARD.decode(text).ok());
        let Some(payload) = payload else { return self.lose("the line holds no payload".to_owned()) };

        let commit = match codec::decode(&payload) {
            Ok(commit) => commit,
            Err(error) => return self.lose(format!("the payload is not a commit: {error}")),
        };

        let position = commit[0].position.0;
        if position != self.next {
            self.tell(match position {
                later if later > self.next => {
                    format!("positions {} to {} are missing before this line", self.next, later - 1)
                }
                earlier => format!("position {earlier} stands here again, or in the wrong place"),
            });
            self.chain = None;
        }

        let claimed = json["chain"].as_str().and_then(hex::decode).map(ChainHash);
        let chain = self.chain.map(|chain| chain.next(&payload)).or(claimed);
        self.next = position + commit.len() as u64;
        self.report.events += commit.len() as u64;
        self.report.position = self.next - 1;

        let Some(chain) = chain else { return self.lose("the line holds no chain hash".to_owned()) };
        if claimed != Some(chain) {
            self.tell("the line does not follow from the one before it (hash chain)".to_owned());
        } else if !same(line, &export::commit_line(self.style, &commit, &payload, &chain)) {
            self.tell("the line does not say what its payload says".to_owned());
        }

        self.chain = claimed.or(Some(chain));
        self.reached(JournalHead { position: Position(self.next - 1), chain });
    }

    /// Updates the state after a commit: progress towards `since`, and whether a checkpoint is due.
    fn reached(&mut self, reached: JournalHead) {
        if let Known::Since(since) = self.known {
            self.since_met |= since.checkpoint().head == reached;
        }
        let is_end = self.head.is_some_and(|head| head.checkpoint().head.position == reached.position);
        self.owed = is_end || reached.position.0 >= self.due;
        self.due = self.due.max(export::after(reached.position.0));
    }

    fn checkpoint(&mut self, line: &[u8], json: &Value) {
        self.report.checkpoints += 1;
        let signed = match SignedCheckpoint::from_json(json) {
            Ok(signed) => signed,
            Err(error) => {
                self.owed = false;
                return self.tell(format!("the checkpoint: {error}"));
            }
        };

        let JournalHead { position, chain } = signed.checkpoint().head;
        if !same(line, &export::checkpoint_line(self.style, &signed)) {
            self.tell("the checkpoint is written in another way than exports are".to_owned());
        }

        if self.head.is_some_and(|head| {
            head.public_key() != signed.public_key() || head.checkpoint().log != signed.checkpoint().log
        }) {
            self.tell("the checkpoint was signed with another key or for another log".to_owned());
        }

        if position.0 + 1 != self.next || self.chain.is_some_and(|reached| reached != chain) {
            self.tell(format!("the checkpoint of position {position} does not fit what stands before it"));
        } else if !std::mem::take(&mut self.owed) {
            self.tell(format!("no checkpoint is due at position {position}"));
        }

        self.ended = self.head == Some(signed);
    }

    fn finish(mut self) -> ExportReport {
        if !self.ended {
            let end =
                self.head.map_or(String::new(), |head| format!(" at position {}", head.checkpoint().head.position));
            self.report.lines += 1;
            self.tell(format!("lines are missing: the export goes on to a last checkpoint{end}"));
        }

        if matches!(self.known, Known::Since(_)) && !self.since_met && self.report.findings.is_empty() {
            self.tell("the history was rewritten: it does not contain the checkpoint".to_owned());
        }

        if self.untold > 0 {
            let what = format!("and {} more findings", self.untold);
            self.report.findings.push(LineFinding { line: self.report.lines, what });
        }

        self.report
    }

    /// Reports an unreadable commit. The chain cannot be checked against the lines after it.
    fn lose(&mut self, what: String) {
        self.tell(what);
        self.chain = None;
        self.owed = false;
    }

    fn tell(&mut self, what: String) {
        if self.report.findings.len() < TOLD_MAX {
            self.report.findings.push(LineFinding { line: self.report.lines, what });
        } else {
            self.untold += 1;
        }
    }
}

fn same(line: &[u8], expected: &str) -> bool {
    line.strip_suffix(b"\n") == Some(expected.as_bytes())
}

impl ExportReport {
    /// Returns `true` if everything was verified and nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.unverified.is_empty()
    }

    /// The result in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let Self { events, position, public_key, checkpoints, .. } = self;
        let lines = count(self.lines, "line");
        if self.is_clean() {
            let [events, checkpoints] = [count(*events, "event"), count(*checkpoints, "checkpoint")];
            format!("clean: {events} up to position {position} in {lines}, {checkpoints} signed with key {public_key}")
        } else if self.findings.is_empty() {
            format!("could not be verified as a whole: nothing was found in {lines} up to position {position}")
        } else {
            format!("damaged: {} in {lines}", count(self.findings.len() as u64, "finding"))
        }
    }

    /// The report for machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let finding = |finding: &LineFinding| json!({"line": finding.line, "what": finding.what});
        json!({
            "result": if self.is_clean() { "clean" } else if self.findings.is_empty() { "unverified" } else { "damaged" },
            "events": self.events,
            "lines": self.lines,
            "position": self.position,
            "log": self.log,
            "public_key": self.public_key,
            "checkpoints": self.checkpoints,
            "findings": self.findings.iter().map(finding).collect::<Value>(),
            "unverified": self.unverified,
            "notes": self.notes,
        })
    }
}
