//! Export of a log: readable JSON Lines that can be verified anywhere with the public key alone.
//!
//! ```text
//! {"format":"mediary export 1","head":CHECKPOINT,"log":UUID,"public_key":HEX,"schema":N}
//! {"chain":HEX,"events":[EVENT,…],"payload":BASE64,"position":1}          a line for each commit
//! {"checkpoint":CHECKPOINT}                                                after each 10,000 events, and at the end
//! ```
//!
//! Every line is canonical JSON (RFC 8785), so it has one valid form. `payload` holds the stored bytes, which the chain
//! covers, and `events` renders them. The head in the first line equals the last checkpoint, so a truncated export is
//! detected.

use std::io::{self, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use crate::audit::record::{RecordJson, canonical};
use crate::data_dir::to_help;
use crate::environment::Environment;
use crate::events::envelope::RecordedEvent;
use crate::events::journal::{
    self, ChainHash, Checkpoint, CommitDecoder, JournalDamage, JournalError, JournalHead, ScanExtent, ScanVisitor,
    ScannedRecord, SignedCheckpoint, hex, scan,
};
use crate::events::open_error::OpenError;
use crate::events::schema;
use crate::events::stream::Position;
use crate::events::verify::Finding;

/// Format tag of an export.
pub const FORMAT: &str = "mediary export 1";
/// Number of events after which a checkpoint is written.
pub const CHECKPOINT_EVERY: u64 = 10_000;

/// Rendering of events and canonicalization of JSON.
#[derive(Clone, Copy)]
pub struct ExportFormat {
    pub render_event: fn(&RecordedEvent) -> Value,
    pub canonicalize: fn(&Value) -> String,
}

impl Default for ExportFormat {
    /// Renders events as the audit does.
    fn default() -> Self {
        let render_event = |event: &RecordedEvent| serde_json::to_value(RecordJson::from(event)).unwrap_or_default();
        Self { render_event, canonicalize: canonical }
    }
}

impl ExportFormat {
    /// Renders a value as one line of JSON.
    #[must_use]
    pub fn line(&self, json: &Value) -> String {
        (self.canonicalize)(json)
    }
}

/// Reason why an export fails.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Journal(#[from] OpenError),
    #[error("{0}")]
    UnverifiedHead(String),
    #[error("the journal is damaged; run `mediary audit verify` for details: {}", super::format_finding(.0))]
    Damaged(Finding),
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
}

impl From<JournalError> for ExportError {
    fn from(error: JournalError) -> Self {
        OpenError::from(error).into()
    }
}

impl ExportError {
    /// Returns the error for a HEAD that contradicts the journal.
    pub(crate) fn diverged(position: Position) -> Self {
        Self::UnverifiedHead(format!(
            "HEAD was signed for another history up to position {position}; run `mediary audit verify` for details"
        ))
    }
}

/// Key, id and signed head of a log directory (`<data dir>/log`).
pub struct SignedLogHead {
    pub key: SigningKey,
    pub log: uuid::Uuid,
    pub head: JournalHead,
}

/// Reads the signing key and HEAD of a log directory. Writes nothing, and works while a service writes to the log.
///
/// # Errors
/// If one of them is missing or damaged.
pub fn read_signed_head(directory: &Path) -> Result<SignedLogHead, ExportError> {
    let unverified_head = |path: &Path, reason: &dyn std::fmt::Display| {
        ExportError::UnverifiedHead(format!("{}: {reason}", path.display()))
    };
    let key_path = directory.join("signing.key");
    let head_path = directory.join("journal/HEAD");

    let key = journal::load_signing_key(&key_path)
        .map_err(|error| unverified_head(&key_path, &format!("{error}{}", to_help(&key_path, &error))))?
        .ok_or_else(|| unverified_head(&key_path, &"the signing key is missing"))?;

    let segments = scan::segments(&directory.join("journal"))?;
    let log =
        scan::read_log_id(&segments).ok_or_else(|| unverified_head(&head_path, &"no segment has an intact header"))?;
    let head = journal::read_head(&head_path, &key.verifying_key(), log)
        .map_err(|error| unverified_head(&head_path, &error))?;

    Ok(SignedLogHead { key, log, head })
}

/// Signs a checkpoint of a log directory's HEAD.
///
/// # Errors
/// See [`read_signed_head`].
pub fn sign_checkpoint(directory: &Path, environment: &Environment) -> Result<SignedCheckpoint, ExportError> {
    let SignedLogHead { key, log, head } = read_signed_head(directory)?;
    Ok(Checkpoint { log, head, at_micros: environment.now().micros() }.sign(&key))
}

/// Exports a log directory up to its HEAD. Returns the final checkpoint.
///
/// # Errors
/// If the journal is damaged, or the export cannot be written.
pub fn export(
    directory: &Path,
    format: ExportFormat,
    environment: &Environment,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SignedCheckpoint, ExportError> {
    let SignedLogHead { key, log, head } = read_signed_head(directory)?;
    let signed_checkpoint = Checkpoint { log, head, at_micros: environment.now().micros() }.sign(&key);

    writeln!(out, "{}", (format.canonicalize)(&first_line(&signed_checkpoint)))?;

    let mut writer = ExportWriter {
        format,
        key,
        signed_checkpoint,
        next_checkpoint: CHECKPOINT_EVERY,
        chain: ChainHash::genesis(log),
        out,
        progress,
        result: Ok(()),
    };

    if head.position.0 > 0 {
        let segments = scan::segments(&directory.join("journal"))?;
        scan::scan(&segments, log, Some(head), ScanExtent::UpToHead, &mut writer)?;
    }

    writer.finish()?;
    out.flush()?;
    Ok(signed_checkpoint)
}

/// Returns the first line, for the head of the export.
#[must_use]
pub fn first_line(head: &SignedCheckpoint) -> Value {
    json!({
        "format": FORMAT,
        "head": head.to_json(),
        "log": head.checkpoint().log.to_string(),
        "public_key": hex::encode(&head.public_key()),
        "schema": schema::VERSION,
    })
}

/// Returns the line of a commit.
#[must_use]
pub fn commit_line(format: ExportFormat, events: &[RecordedEvent], payload: &[u8], chain: &ChainHash) -> String {
    let position = events.first().map_or(0, |event| event.position.0);
    (format.canonicalize)(&json!({
        "position": position,
        "events": events.iter().map(format.render_event).collect::<Value>(),
        "payload": STANDARD.encode(payload),
        "chain": hex::encode(&chain.0),
    }))
}

/// Returns the line of a checkpoint.
#[must_use]
pub fn checkpoint_line(format: ExportFormat, checkpoint: &SignedCheckpoint) -> String {
    (format.canonicalize)(&json!({"checkpoint": checkpoint.to_json()}))
}

/// Writer of the lines after the first.
struct ExportWriter<'l> {
    format: ExportFormat,
    key: SigningKey,
    /// The final checkpoint.
    signed_checkpoint: SignedCheckpoint,
    /// Position from which the next checkpoint is due.
    next_checkpoint: u64,
    chain: ChainHash,
    out: &'l mut dyn Write,
    progress: &'l mut dyn FnMut(u64, u64),
    result: Result<(), ExportError>,
}

impl ExportWriter<'_> {
    /// Writes the line of a record and, if one is due, that of a checkpoint.
    fn write(&mut self, record: &ScannedRecord<'_>) -> io::Result<()> {
        self.chain = record.end.chain;
        writeln!(self.out, "{}", commit_line(self.format, &record.commit, record.payload, &record.end.chain))?;

        let Checkpoint { log, head, at_micros } = *self.signed_checkpoint.checkpoint();
        if record.end.position.0 >= self.next_checkpoint && record.end != head {
            let signed_checkpoint = Checkpoint { log, head: record.end, at_micros }.sign(&self.key);
            writeln!(self.out, "{}", checkpoint_line(self.format, &signed_checkpoint))?;
        }
        self.next_checkpoint = self.next_checkpoint.max(next_checkpoint_after(record.end.position.0));
        (self.progress)(record.end.position.0, head.position.0);
        Ok(())
    }

    fn finish(self) -> Result<(), ExportError> {
        self.result?;
        let JournalHead { position, chain } = self.signed_checkpoint.checkpoint().head;
        if self.chain != chain {
            return Err(ExportError::diverged(position));
        }
        writeln!(self.out, "{}", checkpoint_line(self.format, &self.signed_checkpoint))?;
        Ok(())
    }
}

/// Returns the position at which the next checkpoint is due after `position`.
#[must_use]
pub fn next_checkpoint_after(position: u64) -> u64 {
    (position / CHECKPOINT_EVERY + 1) * CHECKPOINT_EVERY
}

impl ScanVisitor<CommitDecoder> for ExportWriter<'_> {
    fn visit_record(&mut self, record: &ScannedRecord<'_>) {
        if self.result.is_ok() {
            self.result = self.write(record).map_err(ExportError::Write);
        }
    }

    fn visit_damage(&mut self, damage: JournalDamage) {
        if self.result.is_ok() {
            self.result = Err(ExportError::Damaged(damage.into()));
        }
    }

    fn visit_segment(&mut self, _: &Path, _: &[u8]) -> Result<(), JournalError> {
        Ok(())
    }
}
