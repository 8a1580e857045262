//! SHA-256 chain over the records of the journal, and the signed HEAD, which states how far it was acknowledged.
//!
//! HEAD is one file with two slots that are written in turn, so that a torn write damages only one:
//!
//! ```text
//! slot:  magic 8 │ log id 16 │ position 8 │ chain hash 32 │ sequence 8 │ ed25519 signature 64 │ crc32c 4
//! ```
//!
//! A slot is written within 10 ms after its group was synced, and is not synced itself. After kill -9 it is at most
//! that much older; after a power cut it may be older. It is never ahead of the durable journal.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ed25519_dalek::{Signature, Signer, SigningKey, Verifier, VerifyingKey};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::checkpoint::{Checkpoint, SignedCheckpoint};
use crate::files::write_private;
use crate::position::Position;

const MAGIC: &[u8; 8] = b"MDYHEAD1";
/// Each slot has its own page.
const SLOT_SPACING: u64 = 4096;
const SIGNED_BYTES: usize = 72;
const SLOT_BYTES: usize = SIGNED_BYTES + 64 + 4;

/// Hash of a record and everything before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainHash(pub [u8; 32]);

impl ChainHash {
    /// Returns the hash before the first record of a log.
    #[must_use]
    pub fn genesis(log: Uuid) -> Self {
        Self(Sha256::digest(log.as_bytes()).into())
    }

    /// Returns the hash after one more record.
    #[must_use]
    pub fn next(self, payload: &[u8]) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(payload).finalize().into())
    }
}

/// End of the acknowledged part of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalHead {
    /// The last acknowledged event; 0 before the first.
    pub position: Position,
    /// Chain hash of the record that holds it.
    pub chain: ChainHash,
}

/// Reason why HEAD cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// A file system error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// No slot is intact.
    #[error("both slots are damaged")]
    Damaged,
    /// A slot is intact, but belongs to another key or log.
    #[error("it was signed with a key other than signing.key, or for another log")]
    Foreign,
}

/// Reads the signing key, if any.
///
/// # Errors
/// If the file cannot be read, or does not hold a key.
pub fn load_signing_key(path: &Path) -> io::Result<Option<SigningKey>> {
    match fs::read(path) {
        Ok(bytes) => {
            let seed = <[u8; 32]>::try_from(bytes.as_slice())
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a signing key must have 32 bytes"))?;
            Ok(Some(SigningKey::from_bytes(&seed)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a signing key to a file that only its owner can read. `seed` must come from a cryptographic random number
/// generator.
///
/// # Errors
/// If the file cannot be written.
pub fn create_signing_key(path: &Path, seed: [u8; 32]) -> io::Result<SigningKey> {
    write_private(path, &seed)?;
    Ok(SigningKey::from_bytes(&seed))
}

/// The open HEAD file of a log.
pub struct HeadFile {
    file: File,
    key: SigningKey,
    log: Uuid,
    sequence: u64,
}

impl HeadFile {
    /// Creates the file durably, with the head of an empty log.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, key: SigningKey, log: Uuid) -> io::Result<(Self, JournalHead)> {
        let head = JournalHead { position: Position(0), chain: ChainHash::genesis(log) };
        write_private(path, &encode_head_file(&key, log, &head))?;
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok((Self { file, key, log, sequence: 0 }, head))
    }

    /// Opens the file and reads the newer intact slot.
    ///
    /// # Errors
    /// If no slot is intact, or an intact slot has a wrong signature.
    pub fn open(path: &Path, key: SigningKey, log: Uuid) -> Result<(Self, JournalHead), HeadError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let (sequence, head) = read_newest_slot(&file, &key.verifying_key(), log)?;
        Ok((Self { file, key, log, sequence }, head))
    }

    /// Returns the log id that a HEAD file was signed for; `None` if it contains no valid slot.
    #[must_use]
    pub fn read_log_id(path: &Path, key: &SigningKey) -> Option<Uuid> {
        let bytes = fs::read(path).ok()?;
        let slots = [0, usize::try_from(SLOT_SPACING).ok()?];
        slots.into_iter().find_map(|at| {
            let slot = bytes.get(at..)?.first_chunk()?;
            let log = Uuid::from_slice(&slot[8..24]).ok()?;
            parse_slot(&key.verifying_key(), log, slot).ok()?.map(|_| log)
        })
    }

    /// Signs a head into the older slot, without syncing.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, head: &JournalHead) -> io::Result<()> {
        let sequence = self.sequence + 1;
        let bytes = encode_slot(&self.key, self.log, head, sequence);
        self.file.write_all_at(&bytes, sequence % 2 * SLOT_SPACING)?;
        // Set only after the write: a partially written slot must be rewritten before the other slot is touched.
        self.sequence = sequence;
        Ok(())
    }

    /// Signs a checkpoint at `head`, to be kept elsewhere. `at_micros` is the time in microseconds since 1970.
    #[must_use]
    pub fn checkpoint(&self, head: JournalHead, at_micros: i64) -> SignedCheckpoint {
        Checkpoint { log: self.log, head, at_micros }.sign(&self.key)
    }

    /// Makes the last write durable.
    ///
    /// # Errors
    /// If the disk reports an error.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Reads the newer intact slot of a HEAD file without locking or changing it, even while another process writes it.
///
/// # Errors
/// See [`HeadFile::open`].
pub fn read_head(path: &Path, key: &VerifyingKey, log: Uuid) -> Result<JournalHead, HeadError> {
    read_newest_slot(&File::open(path)?, key, log).map(|(_, head)| head)
}

/// Returns the bytes of a HEAD file for a journal of `log` that ends at `head`.
#[must_use]
pub fn encode_head_file(key: &SigningKey, log: Uuid, head: &JournalHead) -> Vec<u8> {
    let mut bytes = vec![0; 2 * usize::try_from(SLOT_SPACING).unwrap_or(SLOT_BYTES)];
    bytes[..SLOT_BYTES].copy_from_slice(&encode_slot(key, log, head, 0));
    bytes
}

fn read_newest_slot(file: &File, key: &VerifyingKey, log: Uuid) -> Result<(u64, JournalHead), HeadError> {
    let mut newest = None;
    for slot in 0..2 {
        let mut bytes = [0; SLOT_BYTES];
        match file.read_exact_at(&mut bytes, slot * SLOT_SPACING) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
            result => result?,
        }
        if let Some((sequence, head)) = parse_slot(key, log, &bytes)?
            && newest.is_none_or(|(newest_sequence, _)| sequence > newest_sequence)
        {
            newest = Some((sequence, head));
        }
    }

    newest.ok_or(HeadError::Damaged)
}

fn encode_slot(key: &SigningKey, log: Uuid, head: &JournalHead, sequence: u64) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..24].copy_from_slice(log.as_bytes());
    bytes[24..32].copy_from_slice(&head.position.0.to_le_bytes());
    bytes[32..64].copy_from_slice(&head.chain.0);
    bytes[64..SIGNED_BYTES].copy_from_slice(&sequence.to_le_bytes());

    let signature = key.sign(&bytes[..SIGNED_BYTES]);
    bytes[SIGNED_BYTES..SLOT_BYTES - 4].copy_from_slice(&signature.to_bytes());

    let crc = crc32c::crc32c(&bytes[..SLOT_BYTES - 4]);
    bytes[SLOT_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Returns the sequence number and head in a slot; `None` if the slot was never, or only partially, written.
fn parse_slot(
    key: &VerifyingKey,
    log: Uuid,
    bytes: &[u8; SLOT_BYTES],
) -> Result<Option<(u64, JournalHead)>, HeadError> {
    let (covered, crc) = bytes.split_at(SLOT_BYTES - 4);
    if crc != crc32c::crc32c(covered).to_le_bytes() || !covered.starts_with(MAGIC) {
        return Ok(None);
    }

    let (content, signature) = covered.split_at(SIGNED_BYTES);
    let is_valid = Signature::from_slice(signature).is_ok_and(|signature| key.verify(content, &signature).is_ok());
    if !is_valid || content[8..24] != *log.as_bytes() {
        return Err(HeadError::Foreign);
    }

    let u64_at = |at: usize| content[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let chain = content[32..].first_chunk().map_or([0; 32], |bytes| *bytes);
    Ok(Some((u64_at(64), JournalHead { position: Position(u64_at(24)), chain: ChainHash(chain) })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(position: u64) -> JournalHead {
        JournalHead { position: Position(position), chain: ChainHash([7; 32]) }
    }

    /// Creates a HEAD file to which positions 1 to 3 were written.
    fn create_head(directory: &Path) -> (std::path::PathBuf, SigningKey) {
        let path = directory.join("HEAD");
        let key = create_signing_key(&directory.join("key"), [1; 32]).unwrap();
        let (mut file, _) = HeadFile::create(&path, key.clone(), Uuid::nil()).unwrap();
        for position in 1..=3 {
            file.write(&head(position)).unwrap();
        }
        (path, key)
    }

    #[test]
    fn the_last_written_head_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let (path, key) = create_head(directory.path());
        assert_eq!(HeadFile::open(&path, key, Uuid::nil()).unwrap().1, head(3));
    }

    #[test]
    fn a_torn_slot_leaves_the_previous_head() {
        let directory = tempfile::tempdir().unwrap();
        let (path, key) = create_head(directory.path());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[0xff; 20], SLOT_SPACING + 30).unwrap();
        assert_eq!(HeadFile::open(&path, key.clone(), Uuid::nil()).unwrap().1, head(2));
        file.write_all_at(&[0xff; 20], 30).unwrap();
        assert!(matches!(HeadFile::open(&path, key, Uuid::nil()), Err(HeadError::Damaged)));
    }

    #[test]
    fn a_head_of_another_key_or_log_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let (path, key) = create_head(directory.path());
        let other = SigningKey::from_bytes(&[9; 32]);
        assert!(matches!(HeadFile::open(&path, other, Uuid::nil()), Err(HeadError::Foreign)));
        assert!(matches!(HeadFile::open(&path, key, Uuid::max()), Err(HeadError::Foreign)));
    }

    #[test]
    fn the_key_is_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let key = create_signing_key(&path, [1; 32]).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(load_signing_key(&path).unwrap().unwrap(), key);
    }

    #[test]
    fn the_chain_depends_on_every_record() {
        let genesis = ChainHash::genesis(Uuid::nil());
        assert_ne!(genesis.next(b"a").next(b"b"), genesis.next(b"b").next(b"a"));
    }
}
