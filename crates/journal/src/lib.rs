//! Append-only journal of byte records: segment files, synced once per group, with a hash chain and a signed HEAD.
//!
//! ```text
//! signing.key                            signs HEAD; readable by its owner only
//! journal/HEAD                           end of the acknowledged records, signed
//! journal/00000000000000000001.seg       positions from 1 on, full
//! journal/00000000000000170001.seg       positions from 170001 on, in use: records, then zeros
//! journal/next.tmp                       zeros, for the next segment
//! ```
//!
//! A record is a commit of one or more events, so a commit is in the journal completely or not at all. A group is one
//! write and one sync. If the sync fails, the state of the disk is unknown: nothing of the group is acknowledged, this
//! process writes nothing more, and the next start decides. It may find the group intact and keep it; as after any
//! command without a response, the client cannot know.
//!
//! A full disk is different: the remains of the failed write are wiped, so that nothing of the group exists, and the
//! next group is tried normally.
//!
//! The journal stores bytes. A [`PayloadDecoder`] counts the events of a payload, and an [`Environment`]
//! supplies random numbers, free disk space and fail points.
//!
//! - [`Journal`] appends, and repairs at the start what the hash chain proves.
//! - [`JournalReader`] reads records in order, [`JournalRecords`] single ones; [`ReadOnlyJournal`] opens a journal
//!   without changing it.
//! - [`scan`] and [`JournalVerification`] report every defect of a journal.
//! - [`Checkpoint`]s are signed states of the history, to be kept elsewhere.

#![warn(missing_docs)]

mod anchor;
mod chain;
mod checkpoint;
mod environment;
mod error;
pub mod files;
mod frame;
pub mod hex;
mod journal;
mod location;
mod open;
mod payload;
mod position;
mod prefetch;
mod read_only;
mod reader;
mod records;
mod repair;
pub mod scan;
mod segment;
mod segment_reader;
mod verify;

pub use anchor::Anchor;
pub use chain::{
    ChainHash, HeadError, HeadFile, JournalHead, create_signing_key, encode_head_file, load_signing_key, read_head,
};
pub use checkpoint::{Checkpoint, CheckpointError, SignedCheckpoint};
pub use environment::{Environment, JournalStep};
pub use error::{JournalError, WriteError, missing_resource};
pub use journal::{Journal, JournalOptions, OpenedJournal, SyncFile, TornTail};
pub use location::JournalLocation;
pub use payload::{PAYLOAD_BYTES_MAX, PayloadDecoder, PayloadTooLarge};
pub use position::Position;
pub use read_only::ReadOnlyJournal;
pub use reader::{JournalReader, JournalRecord};
pub use records::{CopiedRecord, JournalRecords, RecordLocation, WalkedRecord, parse_records};
pub use repair::{CopySource, JournalRepair, RepairedPart};
pub use verify::{Finding, JournalReport, JournalVerification};
