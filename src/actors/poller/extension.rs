//! Extensions of videos: a remote vendor knows a video only by the id that it assigned itself, so no other vendor can
//! extend it.

use super::Poller;
use super::pool::{PoolMember, TaskHolder};
use crate::domain::task::TaskWork;
use crate::projections::ReadError;

/// The vendor that made the video to extend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VideoMaker {
    /// The job does not extend a video, or the video has no id at a vendor of this service.
    None,
    /// This member of the pool.
    Member(usize),
    /// A vendor that is no longer configured.
    Removed,
}

impl Poller {
    /// Returns the vendor that made the video to extend.
    pub(super) async fn video_maker(&self, work: &TaskWork) -> Result<VideoMaker, ReadError> {
        let TaskWork::Video(work) = work else { return Ok(VideoMaker::None) };
        let footage = work.footage().filter(|footage| footage.vendor_id.is_some());
        let Some(creation) = footage.and_then(|footage| footage.creation) else { return Ok(VideoMaker::None) };
        let Some(record) = self.models.task(creation).await? else { return Ok(VideoMaker::None) };

        Ok(match self.pool.holder_of(&record) {
            TaskHolder::None => VideoMaker::None,
            TaskHolder::Member(member) => VideoMaker::Member(member),
            TaskHolder::Removed(_) => VideoMaker::Removed,
        })
    }

    /// Returns `true` if a member of the pool takes and serves this job, and knows the video to extend.
    pub(super) async fn can_take(&self, member: &PoolMember, work: &TaskWork) -> Result<bool, ReadError> {
        if !member.accepts(work) {
            return Ok(false);
        }
        if !member.vendor.extends_by_id() {
            return Ok(true);
        }
        Ok(match self.video_maker(work).await? {
            VideoMaker::None => true,
            VideoMaker::Member(maker) => {
                self.pool.members().get(maker).is_some_and(|maker| std::ptr::eq(maker, member))
            }
            VideoMaker::Removed => false,
        })
    }
}
