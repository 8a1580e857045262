//! Read-only access to the journal of a stopped service: nothing is created, cut or signed.

use std::marker::PhantomData;
use std::path::Path;

use crate::chain::{self, JournalHead};
use crate::error::JournalError;
use crate::location::JournalLocation;
use crate::payload::PayloadDecoder;
use crate::position::Position;
use crate::reader::JournalReader;
use crate::segment;

/// A journal that no process writes to; the caller must ensure this.
pub struct ReadOnlyJournal<D> {
    location: JournalLocation,
    /// Signed HEAD of the journal.
    signed_head: JournalHead,
    decoder: PhantomData<fn() -> D>,
}

impl<D: PayloadDecoder> ReadOnlyJournal<D> {
    /// Opens the journal of the log in `directory`.
    ///
    /// # Errors
    /// If there is no journal, HEAD does not belong to it, or the file system fails.
    pub fn open(directory: &Path) -> Result<Self, JournalError> {
        let journal = directory.join("journal");
        let key_path = directory.join("signing.key");
        let unverifiable = |file: &Path, reason: String| JournalError::Unverifiable { file: file.to_owned(), reason };

        let segments = segment::list(&journal).map_err(JournalError::io("list", &journal))?;
        let Some(first) = segments.first() else {
            return Err(unverifiable(&journal, "it has no segments".to_owned()));
        };
        let log = segment::read_header(first, 1)?.log;

        let key = chain::load_signing_key(&key_path).map_err(JournalError::io("read", &key_path))?;
        let key = key.ok_or_else(|| unverifiable(&key_path, "the signing key is missing".to_owned()))?;

        let head_path = journal.join("HEAD");
        let signed_head = match chain::read_head(&head_path, &key.verifying_key(), log) {
            Ok(head) => head,
            Err(chain::HeadError::Io(reason)) => return Err(JournalError::io("read", head_path)(reason)),
            Err(other) => return Err(unverifiable(&head_path, other.to_string())),
        };

        Ok(Self { location: JournalLocation::new(journal, log), signed_head, decoder: PhantomData })
    }

    /// Reads the records that hold events after `after`, up to the last intact one. The reader fails at the position of
    /// HEAD if the journal has another history there.
    ///
    /// # Errors
    /// If the file system fails, or the first segment to read is damaged.
    pub fn read_from(&self, after: Position) -> Result<JournalReader<D>, JournalError> {
        // Starts at HEAD or earlier, because the hash chain from HEAD on verifies the records after it.
        let reader = self.location.read_to_end(after.min(self.signed_head.position))?;
        Ok(reader.with_bounds(after, None).with_signed_head(self.signed_head))
    }

    /// Returns the position of the last event in an intact record.
    ///
    /// # Errors
    /// If the journal is damaged before its end, does not match HEAD, or ends before HEAD.
    pub fn head(&self) -> Result<Position, JournalError> {
        self.journal_head().map(|head| head.position)
    }

    /// Returns the position of the last event in an intact record, and the chain hash after it.
    ///
    /// # Errors
    /// Same as [`ReadOnlyJournal::head`].
    pub fn journal_head(&self) -> Result<JournalHead, JournalError> {
        let mut reader = self.read_from(self.signed_head.position)?;
        while reader.next_record()?.is_some() {}
        self.check_end(&reader)?;
        Ok(JournalHead { position: Position(reader.next_position().0.saturating_sub(1)), chain: reader.chain() })
    }

    /// Checks that a reader that has reached its end has read everything acknowledged.
    ///
    /// # Errors
    /// If the journal ends before HEAD.
    pub fn check_end(&self, reader: &JournalReader<D>) -> Result<(), JournalError> {
        let end = reader.next_position();
        if end > self.signed_head.position {
            return Ok(());
        }

        let reason = format!(
            "the journal ends here, but HEAD says that events up to position {} were acknowledged",
            self.signed_head.position
        );

        Err(JournalError::Damaged {
            file: self.location.directory().to_owned(),
            offset: reader.offset() as u64,
            position: end,
            reason,
        })
    }
}
