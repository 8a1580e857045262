//! Verification of an export with nothing but the export and, to prove its origin, the public key of the log.
//!
//! Every line is rendered again from the data covered by chain and signatures, and must match byte for byte.

use std::io::{self, BufRead, BufReader, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::export::{self, ExportFormat, FORMAT};
use crate::events::codec;
use crate::events::journal::{ChainHash, JournalHead, SignedCheckpoint, hex};
use crate::events::schema;
use crate::events::stream::Position;
use crate::pluralize::pluralize;

/// Maximum number of findings listed individually.
const FINDINGS_MAX: usize = 100;

/// Knowledge about the log from a trusted source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportTrust<'k> {
    /// None: the export can only be checked against itself.
    Untrusted,
    /// The public key of the log.
    Key([u8; 32]),
    /// A checkpoint that the history must contain, and with it the key.
    Checkpoint(&'k SignedCheckpoint),
}

/// A defect of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFinding {
    /// Line number, starting at 1.
    pub line: u64,
    pub problem: String,
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
pub enum ExportVerificationError {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is not an export: its first line is not {FORMAT:?}")]
    NotAnExport,
    #[error(
        "its events have schema {theirs}, but this release uses schema {}: verify it with a release that uses \
         schema {theirs}",
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
    format: ExportFormat,
    trust: ExportTrust<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<ExportReport, ExportVerificationError> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;

    let (mut verifier, first) = ExportVerifier::from_first_line(&line, format, trust)?;
    verifier.verify_first_line(&line, &first);

    loop {
        progress(line.len() as u64);
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        verifier.verify_line(&line);
    }
    Ok(verifier.finish())
}

struct ExportVerifier<'k> {
    format: ExportFormat,
    trust: ExportTrust<'k>,
    /// The final checkpoint according to the first line; `None` if that is damaged.
    head: Option<SignedCheckpoint>,
    /// `true` if the trusted checkpoint is part of the history.
    is_checkpoint_found: bool,
    /// Position of the next event.
    next_position: u64,
    /// Chain hash of the last commit; `None` if it is unknown.
    chain: Option<ChainHash>,
    /// Position from which the next checkpoint is due.
    next_checkpoint: u64,
    /// `true` if the next line must be a checkpoint.
    is_checkpoint_due: bool,
    has_ended: bool,
    unlisted_findings: usize,
    report: ExportReport,
}

impl<'k> ExportVerifier<'k> {
    fn from_first_line(
        line: &[u8],
        format: ExportFormat,
        trust: ExportTrust<'k>,
    ) -> Result<(Self, Value), ExportVerificationError> {
        let first: Value = serde_json::from_slice(line).map_err(|_| ExportVerificationError::NotAnExport)?;
        if first["format"] != FORMAT {
            return Err(ExportVerificationError::NotAnExport);
        }

        if let Some(theirs) = first["schema"].as_u64().filter(|theirs| *theirs != u64::from(schema::VERSION)) {
            return Err(ExportVerificationError::OtherSchema { theirs });
        }

        let text = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
        let report = ExportReport {
            events: 0,
            lines: 1,
            position: 0,
            log: text("log"),
            public_key: text("public_key"),
            checkpoints: 0,
            findings: Vec::new(),
            unverified: Vec::new(),
            notes: Vec::new(),
        };

        let verifier = Self {
            format,
            trust,
            head: None,
            is_checkpoint_found: false,
            next_position: 1,
            chain: None,
            next_checkpoint: export::CHECKPOINT_EVERY,
            is_checkpoint_due: false,
            has_ended: false,
            unlisted_findings: 0,
            report,
        };

        Ok((verifier, first))
    }

    fn verify_first_line(&mut self, line: &[u8], first: &Value) {
        match SignedCheckpoint::from_json(&first["head"]) {
            Err(error) => self.add_finding(format!("the final checkpoint in the first line: {error}")),
            Ok(head) => {
                if !is_same_line(line, &self.format.line(&export::first_line(&head))) {
                    self.add_finding("the first line does not match its checkpoint".to_owned());
                }
                self.chain = Some(ChainHash::genesis(head.checkpoint().log));
                self.expect_end_if_empty(&head);
                self.head = Some(head);
                self.verify_origin(&head);
            }
        }
    }

    /// Expects the final checkpoint next if the log is empty, because it has no commits.
    fn expect_end_if_empty(&mut self, head: &SignedCheckpoint) {
        self.is_checkpoint_due = head.checkpoint().head.position == Position(0);
    }

    fn verify_origin(&mut self, head: &SignedCheckpoint) {
        let (key, since) = match self.trust {
            ExportTrust::Untrusted => {
                let problem = "the origin of the export: anyone could have forged it; give --key or --since";
                return self.report.unverified.push(problem.to_owned());
            }
            ExportTrust::Key(key) => (key, None),
            ExportTrust::Checkpoint(since) => (since.public_key(), Some(since)),
        };

        if head.public_key() != key {
            let export_key = hex::encode(&head.public_key());
            let trusted_key = hex::encode(&key);
            self.add_finding(format!("the export is signed with key {export_key}, not {trusted_key}"));
        }

        let Some(since) = since else { return };
        let checkpoint = since.checkpoint();
        let end = head.checkpoint();
        self.is_checkpoint_found =
            checkpoint.head == JournalHead { position: Position(0), chain: ChainHash::genesis(end.log) };

        if checkpoint.log != end.log {
            self.add_finding(format!("this is log {}, but the checkpoint is of log {}", end.log, checkpoint.log));
        } else if checkpoint.head.position > end.head.position {
            let end = end.head.position;
            let position = checkpoint.head.position;
            self.add_finding(format!("the history ends at position {end}, but the checkpoint was taken at {position}"));
        }
    }

    fn verify_line(&mut self, line: &[u8]) {
        self.report.lines += 1;
        if self.has_ended {
            return self.add_finding("nothing may follow the last checkpoint".to_owned());
        }

        let json: Value = match serde_json::from_slice(line) {
            Ok(json) => json,
            Err(error) => return self.add_finding(format!("the line is not JSON: {error}")),
        };

        if json.get("checkpoint").is_some() {
            self.verify_checkpoint(line, &json["checkpoint"]);
        } else {
            self.verify_commit(line, &json);
        }
    }

    fn verify_commit(&mut self, line: &[u8], json: &Value) {
        if std::mem::take(&mut self.is_checkpoint_due) {
            self.add_finding("a checkpoint is missing before this line".to_owned());
        }

        let payload = json["payload"].as_str().and_then(|text| STANDARD.decode(text).ok());
        let Some(payload) = payload else { return self.reject_commit("the line has no payload".to_owned()) };

        let commit = match codec::decode(&payload) {
            Ok(commit) => commit,
            Err(error) => return self.reject_commit(format!("the payload is not a commit: {error}")),
        };

        let position = commit[0].position.0;
        if position != self.next_position {
            self.add_finding(match position {
                later if later > self.next_position => {
                    format!("positions {} to {} are missing before this line", self.next_position, later - 1)
                }
                earlier => format!("position {earlier} is repeated or out of order"),
            });
            self.chain = None;
        }

        let expected_chain = json["chain"].as_str().and_then(hex::decode).map(ChainHash);
        let chain = self.chain.map(|chain| chain.next(&payload)).or(expected_chain);
        self.next_position = position + commit.len() as u64;
        self.report.events += commit.len() as u64;
        self.report.position = self.next_position - 1;

        let Some(chain) = chain else { return self.reject_commit("the line has no chain hash".to_owned()) };
        if expected_chain != Some(chain) {
            self.add_finding("the line does not follow from the one before it (hash chain)".to_owned());
        } else if !is_same_line(line, &export::commit_line(self.format, &commit, &payload, &chain)) {
            self.add_finding("the line differs from its payload".to_owned());
        }

        self.chain = expected_chain.or(Some(chain));
        self.advance_to(JournalHead { position: Position(self.next_position - 1), chain });
    }

    /// Updates the state after a commit: progress towards `since`, and whether a checkpoint is due.
    fn advance_to(&mut self, commit_head: JournalHead) {
        if let ExportTrust::Checkpoint(since) = self.trust {
            self.is_checkpoint_found |= since.checkpoint().head == commit_head;
        }
        let is_end = self.head.is_some_and(|head| head.checkpoint().head.position == commit_head.position);
        self.is_checkpoint_due = is_end || commit_head.position.0 >= self.next_checkpoint;
        self.next_checkpoint = self.next_checkpoint.max(export::next_checkpoint_after(commit_head.position.0));
    }

    fn verify_checkpoint(&mut self, line: &[u8], json: &Value) {
        self.report.checkpoints += 1;
        let checkpoint = match SignedCheckpoint::from_json(json) {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                self.is_checkpoint_due = false;
                return self.add_finding(format!("the checkpoint: {error}"));
            }
        };

        let JournalHead { position, chain } = checkpoint.checkpoint().head;
        if !is_same_line(line, &export::checkpoint_line(self.format, &checkpoint)) {
            self.add_finding("the checkpoint is not in the format of exports".to_owned());
        }

        let is_foreign = |head: SignedCheckpoint| {
            head.public_key() != checkpoint.public_key() || head.checkpoint().log != checkpoint.checkpoint().log
        };
        if self.head.is_some_and(is_foreign) {
            self.add_finding("the checkpoint was signed with another key or for another log".to_owned());
        }

        if position.0 + 1 != self.next_position || self.chain.is_some_and(|current| current != chain) {
            self.add_finding(format!("the checkpoint of position {position} does not match the lines before it"));
        } else if !std::mem::take(&mut self.is_checkpoint_due) {
            self.add_finding(format!("no checkpoint is due at position {position}"));
        }

        self.has_ended = self.head == Some(checkpoint);
    }

    fn finish(mut self) -> ExportReport {
        if !self.has_ended {
            let end =
                self.head.map_or(String::new(), |head| format!(" at position {}", head.checkpoint().head.position));
            self.report.lines += 1;
            self.add_finding(format!("lines are missing: the export must end with a checkpoint{end}"));
        }

        if matches!(self.trust, ExportTrust::Checkpoint(_))
            && !self.is_checkpoint_found
            && self.report.findings.is_empty()
        {
            self.add_finding("the history was rewritten: it does not contain the checkpoint".to_owned());
        }

        if self.unlisted_findings > 0 {
            let problem = format!("and {} more findings", self.unlisted_findings);
            self.report.findings.push(LineFinding { line: self.report.lines, problem });
        }

        self.report
    }

    /// Reports an unreadable commit. The chain cannot be checked against the lines after it.
    fn reject_commit(&mut self, problem: String) {
        self.add_finding(problem);
        self.chain = None;
        self.is_checkpoint_due = false;
    }

    fn add_finding(&mut self, problem: String) {
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(LineFinding { line: self.report.lines, problem });
        } else {
            self.unlisted_findings += 1;
        }
    }
}

fn is_same_line(line: &[u8], expected: &str) -> bool {
    line.strip_suffix(b"\n") == Some(expected.as_bytes())
}

impl ExportReport {
    /// Returns `true` if everything was verified and nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.unverified.is_empty()
    }

    /// Returns the result in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let Self { events, position, public_key, checkpoints, .. } = self;
        let lines = pluralize(self.lines, "line");
        if self.is_clean() {
            let events = pluralize(*events, "event");
            let checkpoints = pluralize(*checkpoints, "checkpoint");
            format!("clean: {events} up to position {position} in {lines}, {checkpoints} signed with key {public_key}")
        } else if self.findings.is_empty() {
            format!("incomplete: no damage found in {lines} up to position {position}")
        } else {
            format!("damaged: {} in {lines}", pluralize(self.findings.len() as u64, "finding"))
        }
    }

    /// Returns the report for machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let finding = |finding: &LineFinding| json!({"line": finding.line, "what": finding.problem});
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
