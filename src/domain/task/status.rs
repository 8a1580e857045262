//! Status of tasks, and its names per gateway.

use serde::{Deserialize, Serialize};

use super::Gateway;
use crate::domain::value::{InvalidValue, named_values};

/// Status of a task; the last two are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaskStatus {
    /// Accepted; inputs may still be missing.
    Created,
    /// Waiting for a slot; only used by the video gateway.
    Queueing,
    /// In progress.
    InProgress,
    /// Ended with a result.
    Completed,
    /// Ended without a result.
    Failed,
}

named_values! {
    /// States of an image task (contract 5).
    ImageStatus {
        Created = "CREATED",
        InProgress = "IN_PROGRESS",
        Completed = "COMPLETED",
        Failed = "FAILED",
    }
}

named_values! {
    /// States of a video task, in order (contract 5). Music tasks use them too, except `queueing`.
    VideoState {
        Created = "created",
        Queueing = "queueing",
        Processing = "processing",
        Success = "success",
        Failed = "failed",
    }
}

impl TaskStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Created, Self::Queueing, Self::InProgress, Self::Completed, Self::Failed];

    /// Returns the status in the terms of image tasks.
    #[must_use]
    pub const fn to_image_status(self) -> ImageStatus {
        match self {
            Self::Created | Self::Queueing => ImageStatus::Created,
            Self::InProgress => ImageStatus::InProgress,
            Self::Completed => ImageStatus::Completed,
            Self::Failed => ImageStatus::Failed,
        }
    }

    /// Returns the status in the terms of video and music tasks.
    #[must_use]
    pub const fn to_video_state(self) -> VideoState {
        match self {
            Self::Created => VideoState::Created,
            Self::Queueing => VideoState::Queueing,
            Self::InProgress => VideoState::Processing,
            Self::Completed => VideoState::Success,
            Self::Failed => VideoState::Failed,
        }
    }

    /// Returns the name of the status in a gateway.
    #[must_use]
    pub const fn name(self, gateway: Gateway) -> &'static str {
        match gateway {
            Gateway::Image => self.to_image_status().as_str(),
            Gateway::Video | Gateway::Music => self.to_video_state().as_str(),
        }
    }

    /// Returns all names of all statuses, those of image tasks first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let video_names = VideoState::ALL.iter().map(|state| state.as_str());
        ImageStatus::ALL.iter().map(|status| status.as_str()).chain(video_names)
    }

    /// Parses a name from any gateway; it means the same status in all of them.
    ///
    /// # Errors
    /// If the name is unknown; the reason lists the allowed names.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let is_named =
            |status: &Self| text == status.to_video_state().as_str() || text == status.to_image_status().as_str();
        let invalid = || InvalidValue::new(format!("must be one of {}", Self::names().collect::<Vec<_>>().join(" ")));
        Self::ALL.into_iter().find(is_named).ok_or_else(invalid)
    }

    /// Returns `true` if the status is final.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_to_its_status() {
        for status in TaskStatus::ALL {
            assert_eq!(TaskStatus::parse(status.name(Gateway::Video)), Ok(status));
        }
        for status in TaskStatus::ALL.into_iter().filter(|status| *status != TaskStatus::Queueing) {
            assert_eq!(TaskStatus::parse(status.name(Gateway::Image)), Ok(status));
        }
        let message = TaskStatus::parse("done").unwrap_err().to_string();
        let allowed = "CREATED IN_PROGRESS COMPLETED FAILED created queueing processing success failed";
        assert_eq!(message, format!("must be one of {allowed}"));
    }
}
