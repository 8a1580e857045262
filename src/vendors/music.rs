//! Who makes music: it is heard while it is made, so a maker is not asked how it stands, but listened to.

use futures_util::stream::BoxStream;

use super::VendorError;
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicMoment, MusicWork};
use crate::domain::task::Failure;

/// Music on its way. It ends after the last sound, or with the reason why there is no more; whoever drops it stops the work.
pub type Playing = BoxStream<'static, Result<MusicMoment, Stopped>>;

/// Why music ends before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// The vendor did not take the job, or it is not known whether it did.
    Untaken(VendorError),
    /// Whoever makes it says that it cannot.
    Failed(Failure),
    /// What came of a vendor that had taken the job is not what it should be, or nothing came any more.
    Broken(Failure),
}

/// A maker of music.
pub trait MusicVendor: Send + Sync + 'static {
    /// The name in logs and settings.
    fn name(&self) -> &'static str;

    /// Whether it is asked across a network. Then the call is announced in the log before it is made, and what comes first of it
    /// is [`MusicMoment::Taken`].
    fn is_remote(&self) -> bool {
        false
    }

    /// Begins to play. Nothing is made before it is listened to, and never more in advance than is in one moment: a slow
    /// listener is waited for.
    fn play(&self, task: TaskId, work: MusicWork) -> Playing;
}
