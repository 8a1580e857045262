//! Format 1 of groups: the messages that a node sends to the engine of the shared log. Integers are little endian.
//!
//! ```text
//! group:  format 1 │ session 16 │ counter 8 │ sequence seen 8 │ chain hash there 32 │ entries │ crc32c 4
//! entry:  length of the rest 4 │ number of guards 1 │ guards │ commit without its position
//! guard:  position 8 │ length of the tag 1 │ tag
//! ```
//!
//! The group with the session 0 ends the log; its counter is the id of the attempt to end it. A commit is stored as in
//! the journal, except for its position, which every node adds when it admits the commit ([`codec::place`]). So the
//! journals of all nodes have the same bytes, whichever release wrote them. The format and the rules of `admission.rs`
//! are frozen together: other rules need another format.

use uuid::Uuid;

use crate::events::codec;
use crate::events::envelope::Append;
use crate::events::guard::{Guard, TAG_BYTES_MAX, Tag};
use crate::events::journal::{ChainHash, PayloadTooLarge};
use crate::events::stream::Position;

/// Maximum size of a group with several entries in bytes.
pub const GROUP_BYTES_MAX: usize = 512 * 1024;
/// Maximum size of a group in bytes: a single entry may have the largest commit and all its guards.
pub const SINGLE_ENTRY_GROUP_BYTES_MAX: usize =
    HEADER_BYTES + ENTRY_HEADER_BYTES + GUARDS_MAX * GUARD_BYTES_MAX + codec::UNPLACED_BYTES_MAX + CHECKSUM_BYTES;
/// Maximum number of guards of an entry.
pub const GUARDS_MAX: usize = u8::MAX as usize;

const FORMAT: u8 = 1;
const HEADER_BYTES: usize = 1 + 16 + 8 + 8 + 32;
const CHECKSUM_BYTES: usize = 4;
const ENTRY_HEADER_BYTES: usize = 4 + 1;
const GUARD_BYTES_MAX: usize = 8 + 1 + TAG_BYTES_MAX;

/// Bytes of a commit without its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnplacedCommit(Vec<u8>);

impl UnplacedCommit {
    /// Encodes the events of an append.
    ///
    /// # Errors
    /// If an event or the commit is too large.
    pub fn from_append(append: Append) -> Result<Self, PayloadTooLarge> {
        let mut bytes = Vec::new();
        codec::encode_unplaced(append, &mut bytes)?;
        Ok(Self(bytes))
    }

    /// Wraps bytes that another node encoded.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// One append of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupEntry {
    /// Guards of the append, at most [`GUARDS_MAX`].
    pub guards: Vec<Guard>,
    pub commit: UnplacedCommit,
}

impl GroupEntry {
    fn encoded_bytes(&self) -> usize {
        let guards: usize = self.guards.iter().map(|guard| 8 + 1 + guard.tag.as_str().len()).sum();
        ENTRY_HEADER_BYTES + guards + self.commit.0.len()
    }
}

/// Appends that a node proposes together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The run of the node that proposes the group.
    pub session: Uuid,
    /// Number of the group in its session, ascending.
    pub counter: u64,
    /// Sequence of the last group of the engine that the node had applied.
    pub sequence_seen: u64,
    /// Chain hash of the node's journal after that group.
    pub chain_seen: ChainHash,
    /// Empty in a group that is sent only to prevent the admission of earlier groups of its session.
    pub entries: Vec<GroupEntry>,
}

impl Group {
    /// Creates the group that ends the log: every node stops there and ignores later groups. `attempt` is the id of the
    /// attempt to end it.
    #[must_use]
    pub fn closing(attempt: u64, sequence_seen: u64, chain_seen: ChainHash) -> Self {
        Self { session: Uuid::nil(), counter: attempt, sequence_seen, chain_seen, entries: Vec::new() }
    }

    /// Returns the id of the attempt that ends the log with this group; `None` unless it is [`Group::closing`]. The
    /// first release with clusters always wrote [`u64::MAX`].
    #[must_use]
    pub fn closing_attempt(&self) -> Option<u64> {
        self.session.is_nil().then_some(self.counter)
    }

    /// Returns how many of the entries, from the first on, fit into one group: at least 1 if there are any.
    #[must_use]
    pub fn entries_that_fit(entries: &[GroupEntry]) -> usize {
        let mut bytes = HEADER_BYTES + CHECKSUM_BYTES;
        let fitting = entries.iter().take_while(|entry| {
            bytes += entry.encoded_bytes();
            bytes <= GROUP_BYTES_MAX
        });
        fitting.count().max(1).min(entries.len())
    }

    /// Encodes the group.
    ///
    /// # Errors
    /// If the group is too large ([`Group::entries_that_fit`]), or an entry has too many guards.
    pub fn encode(&self) -> Result<Vec<u8>, GroupTooLarge> {
        let Self { session, counter, sequence_seen, chain_seen, entries } = self;
        let bytes = HEADER_BYTES + CHECKSUM_BYTES + entries.iter().map(GroupEntry::encoded_bytes).sum::<usize>();
        if bytes > bytes_max(entries.len()) {
            return Err(GroupTooLarge { what: "bytes", found: bytes, max: bytes_max(entries.len()) });
        }

        let mut out = Vec::with_capacity(bytes);
        out.push(FORMAT);
        out.extend_from_slice(session.as_bytes());
        out.extend_from_slice(&counter.to_le_bytes());
        out.extend_from_slice(&sequence_seen.to_le_bytes());
        out.extend_from_slice(&chain_seen.0);
        for entry in entries {
            encode_entry(entry, &mut out)?;
        }
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        Ok(out)
    }

    /// Decodes a group. The commits of its entries are decoded when they are admitted.
    ///
    /// # Errors
    /// If the bytes are not exactly one group of format 1.
    pub fn decode(bytes: &[u8]) -> Result<Self, GroupDecodeError> {
        match bytes.first() {
            None => return Err(GroupDecodeError::Short),
            Some(&FORMAT) => {}
            Some(&format) => return Err(GroupDecodeError::UnknownFormat(format)),
        }
        if bytes.len() > SINGLE_ENTRY_GROUP_BYTES_MAX {
            return Err(GroupDecodeError::TooLarge { bytes: bytes.len(), max: SINGLE_ENTRY_GROUP_BYTES_MAX });
        }

        let parts = bytes.split_last_chunk::<CHECKSUM_BYTES>().filter(|(content, _)| !content.is_empty());
        let (content, checksum) = parts.ok_or(GroupDecodeError::Short)?;
        if crc32c::crc32c(content) != u32::from_le_bytes(*checksum) {
            return Err(GroupDecodeError::Checksum);
        }

        let mut input = GroupInput(&content[1..]);
        let mut group = Self {
            session: Uuid::from_bytes(input.array().ok_or(GroupDecodeError::Short)?),
            counter: input.u64().ok_or(GroupDecodeError::Short)?,
            sequence_seen: input.u64().ok_or(GroupDecodeError::Short)?,
            chain_seen: ChainHash(input.array().ok_or(GroupDecodeError::Short)?),
            entries: Vec::new(),
        };
        while !input.0.is_empty() {
            let index = group.entries.len();
            let entry = input.entry().map_err(|reason| GroupDecodeError::Entry { index, reason })?;
            group.entries.push(entry);
        }

        let max = bytes_max(group.entries.len());
        if bytes.len() > max {
            return Err(GroupDecodeError::TooLarge { bytes: bytes.len(), max });
        }
        Ok(group)
    }
}

fn bytes_max(entries: usize) -> usize {
    if entries == 1 { SINGLE_ENTRY_GROUP_BYTES_MAX } else { GROUP_BYTES_MAX }
}

fn encode_entry(entry: &GroupEntry, out: &mut Vec<u8>) -> Result<(), GroupTooLarge> {
    let GroupEntry { guards, commit } = entry;
    let too_many = |_| GroupTooLarge { what: "guards of an entry", found: guards.len(), max: GUARDS_MAX };
    let guard_count = u8::try_from(guards.len()).map_err(too_many)?;
    // The length does not count its own four bytes.
    let length = u32::try_from(entry.encoded_bytes() - 4).expect("a group has less than 4 GiB");

    out.extend_from_slice(&length.to_le_bytes());
    out.push(guard_count);
    for Guard { tag, position } in guards {
        out.extend_from_slice(&position.0.to_le_bytes());
        out.push(u8::try_from(tag.as_str().len()).expect("a tag has at most 255 bytes"));
        out.extend_from_slice(tag.as_str().as_bytes());
    }
    out.extend_from_slice(&commit.0);
    Ok(())
}

/// Bytes of a group that are not decoded yet.
struct GroupInput<'b>(&'b [u8]);

impl<'b> GroupInput<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn entry(&mut self) -> Result<GroupEntry, &'static str> {
        let length = self.array().map(u32::from_le_bytes).ok_or("ends before its length does")?;
        let length = usize::try_from(length).map_err(|_| "is too long")?;
        let mut rest = GroupInput(self.take(length).ok_or("is longer than the group")?);

        let [guard_count] = rest.array().ok_or("ends before its guards")?;
        let guards = (0..guard_count).map(|_| rest.guard()).collect::<Result<_, _>>()?;
        Ok(GroupEntry { guards, commit: UnplacedCommit(rest.0.to_vec()) })
    }

    fn guard(&mut self) -> Result<Guard, &'static str> {
        let position = self.u64().map(Position).ok_or("ends within a guard")?;
        let [length] = self.array().ok_or("ends within a guard")?;
        let name = self.take(usize::from(length)).ok_or("ends within a tag")?;
        let name = str::from_utf8(name).map_err(|_| "has a tag that is not UTF-8")?;
        let tag = Tag::new(name).ok_or("has a tag that is too long")?;
        Ok(Guard { tag, position })
    }
}

/// Reason why a group cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a group with {found} {what}, at most {max} are allowed")]
pub struct GroupTooLarge {
    pub what: &'static str,
    pub found: usize,
    pub max: usize,
}

/// Reason why bytes are not a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupDecodeError {
    /// The bytes end within the header.
    #[error("the group ends within its header")]
    Short,
    /// A newer release wrote the group.
    #[error("group format {0} is not {FORMAT}, the only one that this release reads")]
    UnknownFormat(u8),
    /// The group exceeds its limit.
    #[error("the group has {bytes} bytes, at most {max} are allowed")]
    TooLarge { bytes: usize, max: usize },
    /// The bytes are not those that were written.
    #[error("the checksum of the group is wrong")]
    Checksum,
    /// An entry is malformed.
    #[error("entry {index} of the group {reason}")]
    Entry { index: usize, reason: &'static str },
}

#[cfg(test)]
mod tests;
