//! Error responses for domain rejections.

use crate::domain::delivery::{DeliveryRejection, REDELIVERIES_PER_DAY};
use crate::domain::node::{LANGUAGES_MAX, NodeRejection};
use crate::domain::publisher::PublisherRejection;
use crate::domain::task::TaskRejection;
use crate::domain::token::TokenRejection;
use crate::domain::user::UserRejection;
use crate::domain::value::Transition;
use crate::domain::version::VersionStatus;
use crate::domain::webhook::WEBHOOKS_MAX;
use crate::domain::webhook_secret::REPLACED_MAX;
use crate::http::request::fields::FieldError;
use crate::http::response::error::{Code, Problem};

impl From<UserRejection> for Problem {
    fn from(rejection: UserRejection) -> Self {
        match rejection {
            UserRejection::AlreadyExists => Self::new(Code::AlreadyExists, "a user with this id already exists"),
            UserRejection::NotFound => Self::not_found("user"),
            UserRejection::IllegalTransition(transition) => transition.into(),
            UserRejection::Erased => Self::user_erased(),
            UserRejection::TooManySecrets { until } => {
                let detail = format!(
                    "{REPLACED_MAX} older secrets still sign webhooks, the first until {until}; DELETE revokes all"
                );
                Self::new(Code::Conflict, detail)
            }
        }
    }
}

impl From<DeliveryRejection> for Problem {
    fn from(rejection: DeliveryRejection) -> Self {
        match rejection {
            DeliveryRejection::StillPending => Self::new(Code::Conflict, "the delivery is still pending"),
            DeliveryRejection::AlreadySettled => Self::new(Code::Conflict, "the delivery has ended"),
            DeliveryRejection::TooManyRedeliveries { wait } => {
                let detail = format!("the delivery was redelivered {REDELIVERIES_PER_DAY} times today (UTC)");
                // Rounded up, so that a retry at that time succeeds.
                let retry_after = u32::try_from(wait.as_secs() + 1).unwrap_or(u32::MAX);
                Self::new(Code::TooManyCallbacks, detail).retry_after(retry_after)
            }
        }
    }
}

impl From<Transition> for Problem {
    fn from(transition: Transition) -> Self {
        Self::new(Code::Conflict, transition.to_string())
    }
}

impl From<PublisherRejection> for Problem {
    fn from(rejection: PublisherRejection) -> Self {
        match rejection {
            PublisherRejection::AlreadyExists => {
                Self::new(Code::AlreadyExists, "a publisher with this id already exists")
            }
            PublisherRejection::NotFound => Self::not_found("publisher"),
            PublisherRejection::MemberNotFound => Self::not_found("member of this publisher"),
            PublisherRejection::LastOwner => {
                Self::new(Code::Conflict, "a publisher must have at least one owner: make another member owner first")
            }
            PublisherRejection::WebhookNotFound => Self::not_found("webhook"),
            PublisherRejection::TooManyWebhooks => Self::new(
                Code::Conflict,
                format!("the publisher has {WEBHOOKS_MAX} webhooks, the maximum: delete one first"),
            ),
            PublisherRejection::WebhookDisabled => {
                Self::new(Code::Conflict, "the webhook is disabled: enable it first, so that the test event is sent")
            }
            PublisherRejection::IllegalTransition(transition) => transition.into(),
        }
    }
}

impl From<TokenRejection> for Problem {
    fn from(rejection: TokenRejection) -> Self {
        match rejection {
            TokenRejection::AlreadyExists => Self::new(Code::AlreadyExists, "a token with this id already exists"),
            TokenRejection::NotFound => Self::not_found("token"),
        }
    }
}

impl From<NodeRejection> for Problem {
    fn from(rejection: NodeRejection) -> Self {
        match rejection {
            NodeRejection::AlreadyExists { id } => {
                Self::new(Code::AlreadyExists, format!("the node id {id} is already in use (case is ignored)"))
            }
            NodeRejection::NotFound => Self::not_found("node"),
            NodeRejection::VersionNotFound => Self::not_found("node version"),
            NodeRejection::VersionExists { number } => {
                Self::new(Code::AlreadyExists, format!("version {number} of this node already exists"))
            }
            NodeRejection::Banned { reason } => Self::banned("node", reason.as_ref()),
            NodeRejection::VersionDeleted => {
                let state = VersionStatus::Deleted.as_str();
                let detail = format!("the version is {state}, which is final: only status_reason can still change");
                Self::new(Code::Conflict, detail)
            }
            NodeRejection::ArchiveExists => {
                Self::new(Code::Conflict, "this version already has an archive; publish a new version instead")
            }
            NodeRejection::ReleasedWithoutArchive => {
                let detail = "this version was released without an archive and accepts none while uploads are \
                              moderated; publish a new version";
                Self::new(Code::Conflict, detail)
            }
            NodeRejection::TooManyLanguages => {
                Self::new(Code::Conflict, format!("a node can have at most {LANGUAGES_MAX} languages"))
            }
            NodeRejection::IllegalTransition(transition) => transition.into(),
            NodeRejection::BanWithoutReason => missing_reason("/status_detail"),
            NodeRejection::VersionBanWithoutReason => missing_reason("/status_reason"),
        }
    }
}

fn missing_reason(pointer: &str) -> Problem {
    Problem::invalid(vec![FieldError::new(pointer, "is required for the status Banned")])
}

impl From<TaskRejection> for Problem {
    fn from(rejection: TaskRejection) -> Self {
        match rejection {
            TaskRejection::AlreadyExists => Self::new(Code::AlreadyExists, "a task with this id already exists"),
            TaskRejection::NotFound => Self::not_found("task"),
            TaskRejection::WrongStage { status } => {
                Self::new(Code::Conflict, format!("the task is {}", status.to_video_state().as_str()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::value::Reason;

    #[test]
    fn state_rejections_are_409_and_bans_403() {
        let transition =
            |to| NodeRejection::IllegalTransition(Transition { subject: "node", from: "NodeStatusActive", to });
        let reason = Reason::parse("malware").ok();
        for (problem, code, detail) in [
            (
                Problem::from(transition("NodeStatusDeleted")),
                Code::Conflict,
                "cannot change from NodeStatusActive to NodeStatusDeleted",
            ),
            (transition("NodeStatusActive").into(), Code::Conflict, "the node already has the status NodeStatusActive"),
            (PublisherRejection::LastOwner.into(), Code::Conflict, "owner"),
            (PublisherRejection::MemberNotFound.into(), Code::NotFound, "member"),
            (PublisherRejection::WebhookNotFound.into(), Code::NotFound, "webhook"),
            (PublisherRejection::TooManyWebhooks.into(), Code::Conflict, "5 webhooks"),
            (PublisherRejection::WebhookDisabled.into(), Code::Conflict, "disabled"),
            (NodeRejection::VersionDeleted.into(), Code::Conflict, "NodeVersionStatusDeleted"),
            (NodeRejection::ArchiveExists.into(), Code::Conflict, "archive"),
            (NodeRejection::ReleasedWithoutArchive.into(), Code::Conflict, "moderated"),
            (NodeRejection::Banned { reason }.into(), Code::Banned, "malware"),
            (NodeRejection::NotFound.into(), Code::NotFound, "node not found"),
            (NodeRejection::VersionNotFound.into(), Code::NotFound, "node version not found"),
            (UserRejection::NotFound.into(), Code::NotFound, "user"),
            (UserRejection::Erased.into(), Code::NotFound, "erased"),
            (TokenRejection::NotFound.into(), Code::NotFound, "token"),
        ] {
            assert_eq!(problem.code(), code, "{problem}");
            assert!(problem.to_string().contains(detail), "{problem}");
        }
        assert_eq!(Code::Banned.status(), 403);
    }
}
