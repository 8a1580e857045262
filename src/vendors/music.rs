//! Music vendors: their output is streamed while it is generated, instead of being polled.

use futures_util::stream::BoxStream;

use super::VendorError;
use crate::domain::music::{MusicJob, MusicStreamItem, MusicWork};
use crate::domain::task::TaskFailure;

/// A stream of music. It ends after the last sound or with an error; dropping it stops the work.
pub type VendorMusicStream = BoxStream<'static, Result<MusicStreamItem, MusicStreamError>>;

/// Reason why music ends prematurely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MusicStreamError {
    /// The vendor did not accept the job, or it is unknown whether it did.
    NotAccepted(VendorError),
    /// The vendor reported that it failed.
    Failed(TaskFailure),
    /// The stream broke off or was invalid after the vendor had accepted the job.
    Interrupted(TaskFailure),
}

/// A vendor of music.
pub trait MusicVendor: Send + Sync + 'static {
    /// Returns the name in logs and settings.
    fn name(&self) -> &str;

    /// Returns `true` if the vendor is called over the network. The call is then recorded before it is made, and the
    /// first item is [`MusicStreamItem::Accepted`].
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns `true` if the vendor can do this work. It rejects other work.
    fn serves(&self, _work: &MusicWork) -> bool {
        true
    }

    /// Starts the stream. Items are generated as they are read, at most one ahead, so a slow client slows the engine
    /// down.
    fn play(&self, job: MusicJob) -> VendorMusicStream;
}
