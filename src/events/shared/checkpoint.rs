//! Files of a shared log beside its journal: `engine.json` says how far the node has applied the engine, and
//! `admission.state` keeps what the rules remember, so that a start need not read the whole journal.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::admission::{AdmissionState, SessionCounter, Sessions};
use super::generation::LogGeneration;
use crate::data_dir::{sync_parent, write_private};
use crate::events::codec;
use crate::events::journal::{ChainHash, JournalHead, hex};
use crate::events::stream::Position;

/// Name of the file of a checkpoint.
pub const ENGINE_FILE: &str = "engine.json";
const STATE_FILE: &str = "admission.state";
const FORMAT: u32 = 1;

/// How far a node has applied the engine. The journal may already contain more.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineCheckpoint {
    /// The last applied group; 0 before the first.
    pub sequence: u64,
    /// End of the journal after it.
    pub head: JournalHead,
    pub sessions: Sessions,
}

#[derive(Serialize, Deserialize)]
struct EngineFile {
    format: u32,
    log_id: String,
    /// Absent in the first generation.
    #[serde(default = "first_generation", skip_serializing_if = "is_first_generation")]
    generation: u64,
    sequence: u64,
    position: u64,
    chain: String,
    /// Counter and sequence of the last group of each session.
    sessions: BTreeMap<String, (u64, u64)>,
}

fn first_generation() -> u64 {
    LogGeneration::FIRST
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_first_generation(generation: &u64) -> bool {
    *generation == LogGeneration::FIRST
}

impl EngineCheckpoint {
    /// Creates the checkpoint of an empty engine and an empty log.
    #[must_use]
    pub fn empty(log_id: Uuid) -> Self {
        let head = JournalHead { position: Position(0), chain: ChainHash::genesis(log_id) };
        Self { sequence: 0, head, sessions: Sessions::default() }
    }

    /// Reads the checkpoint of a log, if any. One of an earlier generation does not count.
    ///
    /// # Errors
    /// If the file cannot be read, or belongs to another log or a later generation.
    pub fn read(directory: &Path, log: impl Into<LogGeneration>) -> Result<Option<Self>, String> {
        let log = log.into();
        let text = match fs::read_to_string(directory.join(ENGINE_FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot read {ENGINE_FILE}: {error}")),
        };
        let file: EngineFile =
            serde_json::from_str(&text).map_err(|error| format!("{ENGINE_FILE} is malformed: {error}"))?;
        file.into_checkpoint(log).map_err(|reason| format!("{ENGINE_FILE} {reason}"))
    }

    /// Replaces the checkpoint atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, directory: &Path, log: impl Into<LogGeneration>) -> io::Result<()> {
        let log = log.into();
        let sessions = self.sessions.entries();
        let file = EngineFile {
            format: FORMAT,
            log_id: log.log_id.to_string(),
            generation: log.number,
            sequence: self.sequence,
            position: self.head.position.0,
            chain: hex::encode(&self.head.chain.0),
            sessions: sessions.map(|(id, last)| (id.to_string(), (last.counter, last.sequence))).collect(),
        };
        let text = serde_json::to_vec(&file)?;
        write_private(&directory.join(ENGINE_FILE), &text)
    }
}

impl EngineCheckpoint {
    /// Removes the files of a shared log beside its journal.
    ///
    /// # Errors
    /// If a file exists and cannot be removed durably.
    pub fn remove(directory: &Path) -> io::Result<()> {
        for file in [ENGINE_FILE, STATE_FILE] {
            match fs::remove_file(directory.join(file)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        sync_parent(&directory.join(ENGINE_FILE))
    }
}

impl EngineFile {
    /// Returns `None` for an earlier generation.
    fn into_checkpoint(self, log: LogGeneration) -> Result<Option<EngineCheckpoint>, String> {
        if self.format != FORMAT {
            return Err(format!("has format {}, this release reads {FORMAT}", self.format));
        }
        if self.log_id != log.log_id.to_string() || self.generation > log.number {
            let Self { generation, log_id, .. } = self;
            return Err(format!("belongs to generation {generation} of log {log_id}, this is {log}"));
        }
        if self.generation < log.number {
            return Ok(None);
        }

        let chain = hex::decode(&self.chain).map(ChainHash).ok_or("has no valid chain hash")?;
        let session = |(id, (counter, sequence)): (String, (u64, u64))| {
            let id = Uuid::parse_str(&id).map_err(|_| format!("has a session {id} that is no UUID"))?;
            Ok((id, SessionCounter { counter, sequence }))
        };
        let sessions = self.sessions.into_iter().map(session).collect::<Result<_, String>>()?;
        let head = JournalHead { position: Position(self.position), chain };
        Ok(Some(EngineCheckpoint { sequence: self.sequence, head, sessions }))
    }
}

/// Reads what the rules remember, with the chain hash of the journal at its head; `None` if there is no usable file. It
/// can be rebuilt from the journal.
pub fn read_state(directory: &Path) -> Option<(AdmissionState, ChainHash)> {
    let bytes = fs::read(directory.join(STATE_FILE)).ok()?;
    let (content, checksum) = bytes.split_last_chunk()?;
    let is_intact = crc32c::crc32c(content) == u32::from_le_bytes(*checksum);
    let state: Option<(AdmissionState, [u8; 32])> = is_intact.then(|| codec::unpack(&mut &content[..]).ok()).flatten();
    if state.is_none() {
        tracing::warn!(file = STATE_FILE, "file damaged, its content is rebuilt from the journal");
    }
    state.map(|(state, chain)| (state, ChainHash(chain)))
}

/// Replaces the file of what the rules remember. `chain` is the chain hash of the journal at its head.
///
/// # Errors
/// If the file cannot be written.
pub fn write_state(directory: &Path, state: &AdmissionState, chain: ChainHash) -> io::Result<()> {
    let mut bytes = Vec::new();
    codec::pack(&(state, chain.0), &mut bytes);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    write_private(&directory.join(STATE_FILE), &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let [log, other] = [1, 2].map(Uuid::from_u128);
        assert_eq!(EngineCheckpoint::read(directory.path(), log), Ok(None));

        let mut checkpoint = EngineCheckpoint::empty(log);
        checkpoint.sequence = 7;
        checkpoint.sessions = [(Uuid::from_u128(9), SessionCounter { counter: 3, sequence: 6 })].into_iter().collect();
        checkpoint.write(directory.path(), log).unwrap();
        assert_eq!(EngineCheckpoint::read(directory.path(), log), Ok(Some(checkpoint)));
        assert!(EngineCheckpoint::read(directory.path(), other).is_err());

        // Sequences of one generation mean nothing in the next.
        let [first, second] = [LogGeneration::from(log), LogGeneration::from(log).next()];
        assert_eq!(EngineCheckpoint::read(directory.path(), second), Ok(None));
        EngineCheckpoint::empty(log).write(directory.path(), second).unwrap();
        assert_eq!(EngineCheckpoint::read(directory.path(), second), Ok(Some(EngineCheckpoint::empty(log))));
        assert!(EngineCheckpoint::read(directory.path(), first).is_err());

        fs::write(directory.path().join(ENGINE_FILE), "{").unwrap();
        assert!(EngineCheckpoint::read(directory.path(), log).is_err());
    }

    #[test]
    fn a_damaged_state_counts_as_missing() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read_state(directory.path()), None);
        let chain = ChainHash([7; 32]);
        write_state(directory.path(), &AdmissionState::default(), chain).unwrap();
        assert_eq!(read_state(directory.path()), Some((AdmissionState::default(), chain)));

        let file = directory.path().join(STATE_FILE);
        let mut bytes = fs::read(&file).unwrap();
        bytes[0] ^= 1;
        fs::write(&file, bytes).unwrap();
        assert_eq!(read_state(directory.path()), None);
    }
}
