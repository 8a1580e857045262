//! Who makes music: it is heard while it is made, so a maker is not asked how it stands, but listened to.

use futures_util::stream::BoxStream;

use crate::domain::ids::TaskId;
use crate::domain::music::{MusicMoment, MusicWork};
use crate::domain::task::Failure;

/// Music on its way. It ends after the last sound, or with a failure; whoever drops it stops the work.
pub type Playing = BoxStream<'static, Result<MusicMoment, Failure>>;

/// A maker of music.
pub trait MusicVendor: Send + Sync + 'static {
    /// The name in logs and settings.
    fn name(&self) -> &'static str;

    /// Begins to play. Nothing is made before it is listened to, and never more in advance than is in one moment: a slow
    /// listener is waited for.
    fn play(&self, task: TaskId, work: MusicWork) -> Playing;
}
