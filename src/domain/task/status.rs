//! How a task stands, and what each gateway calls that.

use serde::{Deserialize, Serialize};

use super::Gateway;
use crate::domain::value::{Invalid, named_values};

/// How a task of any kind stands; the last two are for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaskStatus {
    /// It was accepted; what it is made from may not be here yet.
    Created,
    /// It waits for a slot. Only tasks of the video gateway are said to.
    Queueing,
    /// It is being made.
    InProgress,
    /// What was asked for is there.
    Completed,
    /// It ended without a result.
    Failed,
}

named_values! {
    /// The states of an image task (contract 5).
    ImageStatus {
        Created = "CREATED",
        InProgress = "IN_PROGRESS",
        Completed = "COMPLETED",
        Failed = "FAILED",
    }
}

named_values! {
    /// The states of a video task, in their order (contract 5); a music task has them too, without `queueing`.
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

    /// As image tasks call it.
    #[must_use]
    pub const fn of_image(self) -> ImageStatus {
        match self {
            Self::Created | Self::Queueing => ImageStatus::Created,
            Self::InProgress => ImageStatus::InProgress,
            Self::Completed => ImageStatus::Completed,
            Self::Failed => ImageStatus::Failed,
        }
    }

    /// As video and music tasks call it.
    #[must_use]
    pub const fn of_video(self) -> VideoState {
        match self {
            Self::Created => VideoState::Created,
            Self::Queueing => VideoState::Queueing,
            Self::InProgress => VideoState::Processing,
            Self::Completed => VideoState::Success,
            Self::Failed => VideoState::Failed,
        }
    }

    /// As tasks of this gateway call it.
    #[must_use]
    pub const fn name(self, gateway: Gateway) -> &'static str {
        match gateway {
            Gateway::Image => self.of_image().as_str(),
            Gateway::Video | Gateway::Music => self.of_video().as_str(),
        }
    }

    /// Every name of every status, those of image tasks first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let of_video = VideoState::ALL.iter().map(|state| state.as_str());
        ImageStatus::ALL.iter().map(|status| status.as_str()).chain(of_video)
    }

    /// Reads a name of any gateway; it stands for the same status of every other.
    ///
    /// # Errors
    /// When no gateway has such a name; the reason lists those that are allowed.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let is_named = |status: &Self| text == status.of_video().as_str() || text == status.of_image().as_str();
        let refusal = || Invalid::new(format!("must be one of {}", Self::names().collect::<Vec<_>>().join(" ")));
        Self::ALL.into_iter().find(is_named).ok_or_else(refusal)
    }

    /// Whether it never changes again.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_as_what_it_says() {
        for status in TaskStatus::ALL {
            assert_eq!(TaskStatus::parse(status.name(Gateway::Video)), Ok(status));
        }
        for status in TaskStatus::ALL.into_iter().filter(|status| *status != TaskStatus::Queueing) {
            assert_eq!(TaskStatus::parse(status.name(Gateway::Image)), Ok(status));
        }
        let refusal = TaskStatus::parse("done").unwrap_err().to_string();
        let all = "CREATED IN_PROGRESS COMPLETED FAILED created queueing processing success failed";
        assert_eq!(refusal, format!("must be one of {all}"));
    }
}
