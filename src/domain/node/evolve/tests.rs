//! Tests of reviews, downloads, and the events that count as changes of a node.

use super::*;
use crate::domain::decider::Decider;
use crate::domain::decider::testing::{NOW, RECORDED_AT, given_when, state_after};
use crate::domain::ids::UserId;
use crate::domain::node::{Node, NodeCommand, Rating, Stars};
use crate::domain::value::Digest;
use crate::domain::version::{Archive, SemVer, VersionAdminFields, VersionDraft, VersionFields};
use uuid::Uuid;

fn created() -> NodeEvent {
    let id = NodeId::parse("tools").unwrap();
    let publisher = PublisherId::parse("acme").unwrap();
    NodeEvent::NodeCreated { id, publisher, fields: NodeFields::default() }
}

fn version() -> VersionDraft {
    let number = SemVer::parse("1.0.0").unwrap();
    VersionDraft { id: VersionId(Uuid::from_u128(1)), number, fields: VersionFields::default() }
}

fn published() -> NodeEvent {
    NodeEvent::VersionPublished { version: version() }
}

fn text<const MAX: usize, const MULTILINE: bool>(text: &str) -> Text<MAX, MULTILINE> {
    Text::parse(text).unwrap()
}

fn user(nth: u128) -> UserId {
    UserId(Uuid::from_u128(nth))
}

fn stars(n: i64) -> Stars {
    Stars::new(n).unwrap()
}

fn downloads(downloads: u64) -> NodeAdminFields {
    NodeAdminFields { downloads: Some(downloads), ..NodeAdminFields::default() }
}

fn profile(history: &[NodeEvent]) -> NodeProfile {
    match state_after::<Node>(history) {
        Node::Present(profile) => *profile,
        Node::Unclaimed => panic!("the id is unclaimed"),
    }
}

/// Returns a node with a version after the event.
fn profile_after(event: &NodeEvent) -> NodeProfile {
    let mut state = state_after::<Node>(&[created(), published()]);
    Node::evolve(&mut state, event, NOW);
    match state {
        Node::Present(profile) => *profile,
        Node::Unclaimed => panic!("the id is unclaimed"),
    }
}

#[test]
fn changes_update_updated_at() {
    let id = VersionId(Uuid::from_u128(1));
    let status = VersionStatus::Active;
    let archive = Archive { digest: Digest([1; 32]), bytes: 1 };
    let admin_fields = NodeAdminFields { github_stars: Some(1), ..downloads(1) };
    let changes = [
        NodeEvent::NodeAdministered { admin_fields },
        NodeEvent::NodeTranslated { language: text("de"), texts: [(text("name"), text("Werkzeug"))].into() },
        NodeEvent::NodeBanned { reason: text("malware") },
        NodeEvent::NodeUnbanned { reason: text("cleaned") },
        NodeEvent::NodeDeleted,
        NodeEvent::NodeReviewed { user: user(1), stars: stars(1) },
        NodeEvent::ArchiveStored { version: id, archive },
        NodeEvent::VersionStatusChanged { id, status, reason: None },
        NodeEvent::VersionAdministered { id, admin_fields: VersionAdminFields::default() },
    ];
    for change in changes {
        let node = profile_after(&change);
        assert_eq!((node.created_at, node.updated_at), (RECORDED_AT, NOW), "{change:?}");
    }
}

#[test]
fn downloads_and_ignored_events_do_not_update_updated_at() {
    let id = VersionId(Uuid::from_u128(9));
    let status = VersionStatus::Active;
    let unrelated = [
        created(),
        NodeEvent::NodeAdministered { admin_fields: downloads(1) },
        NodeEvent::DownloadsCounted { count: 1 },
        NodeEvent::VersionStatusChanged { id, status, reason: None },
    ];
    for event in unrelated {
        assert_eq!(profile_after(&event).updated_at, RECORDED_AT, "{event:?}");
    }
}

#[test]
fn an_empty_ban_reason_leaves_no_status_detail() {
    let node = profile_after(&NodeEvent::NodeBanned { reason: text("") });
    assert_eq!((node.status, node.status_detail), (NodeStatus::Banned, None));
}

#[test]
fn a_user_has_one_review_and_the_rating_is_their_mean() {
    let admin_rating = NodeAdminFields { rating: Some(Rating::new(1.5).unwrap()), ..NodeAdminFields::default() };
    let mut history = vec![created(), NodeEvent::NodeAdministered { admin_fields: admin_rating }];
    assert_eq!(profile(&history).rating(), Some(1.5));
    for (nth, n, rating) in [(1, 5, 5.0), (2, 4, 4.5), (3, 4, 4.33), (1, 1, 3.0)] {
        let reviewed = NodeEvent::NodeReviewed { user: user(nth), stars: stars(n) };
        let review = NodeCommand::Review { user: user(nth), stars: stars(n) };
        assert_eq!(given_when::<Node>(&history, review.clone()), Ok(vec![reviewed.clone()]));
        history.push(reviewed);
        assert_eq!(given_when::<Node>(&history, review), Ok(vec![]), "the same again");
        assert_eq!(profile(&history).rating(), Some(rating));
    }
    assert_eq!(profile(&[created()]).rating(), None);
}

#[test]
fn downloads_are_counted_up() {
    let count = |count| given_when::<Node>(&[created()], NodeCommand::CountDownloads { count });
    assert_eq!((count(0), count(3)), (Ok(vec![]), Ok(vec![NodeEvent::DownloadsCounted { count: 3 }])));

    let downloads_counted = |count| NodeEvent::DownloadsCounted { count };
    let set = NodeEvent::NodeAdministered { admin_fields: downloads(10) };
    assert_eq!(profile(&[created(), downloads_counted(1), set, downloads_counted(2)]).downloads, 12);
    assert_eq!(profile(&[created(), downloads_counted(5), downloads_counted(u64::MAX)]).downloads, u64::MAX);
}
