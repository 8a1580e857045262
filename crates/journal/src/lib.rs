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
//! The journal stores bytes. A [`PayloadDecoder`] tells how many events a payload holds, and an [`Environment`] supplies
//! random numbers, free disk space and fail points.
//!
//! - [`Journal`] appends, and repairs at the start what the hash chain proves.
//! - [`JournalReader`] reads records in order; [`StoppedJournal`] opens a journal without changing it.
//! - [`walk`] and [`Verification`] report every defect of a journal.
//! - [`Checkpoint`]s are signed states of the history, to be kept elsewhere.

mod anchor;
mod chain;
mod checkpoint;
mod environment;
mod error;
pub mod files;
mod frame;
mod heal;
pub mod hex;
mod journal;
mod open;
mod passing;
mod payload;
mod place;
mod position;
mod pump;
mod reader;
mod segment;
mod stopped;
mod verify;
pub mod walk;

pub use anchor::Anchor;
pub use chain::{ChainHash, Head, HeadError, HeadFile, create_key, head_bytes, load_key, read_head};
pub use checkpoint::{Checkpoint, CheckpointError, SignedCheckpoint};
pub use environment::{Environment, JournalStep};
pub use error::{JournalError, WriteError, missing_resource};
pub use heal::{Copies, Mended, MendedPart};
pub use journal::{Found, Journal, JournalOptions, SyncFile, TornTail};
pub use payload::{PAYLOAD_BYTES_MAX, PayloadDecoder, PayloadTooLarge};
pub use place::Place;
pub use position::Position;
pub use reader::{JournalReader, Record};
pub use stopped::StoppedJournal;
pub use verify::{Finding, JournalReport, Verification};
