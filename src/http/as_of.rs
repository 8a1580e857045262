//! States of subjects for administrators, as of any time in the past.

use serde::Serialize;
use serde_json::{Value, json};

use super::publisher::{PublisherView, Shown};
use super::task::requested;
use super::token::KeptTokenView;
use super::user::UserView;
use crate::audit::fold::Folded;
use crate::audit::thing::Thing;
use crate::domain::delivery::Delivery;
use crate::domain::ids::{NodeId, PublisherId, StreamKind, TaskId, TokenId, UserId};
use crate::domain::publisher::PublisherStatus;
use crate::domain::task::{Gateway, TaskRecord, TaskStatus};
use crate::domain::token::{TokenRecord, TokenSubject};
use crate::domain::version::NodeVersion;
use crate::personal::Keyring;
use crate::projections::node::view::{NodeView, VersionView};
use crate::projections::read_models::Models;
use crate::projections::task::{CreationsView, ImageTaskView};

/// Renders a subject as an administrator would have seen it; `None` if it did not exist. Nodes include all versions;
/// tokens include subject and revocation time. Blocks if a user's key is not in memory.
#[must_use]
pub fn state_of(folded: &Folded, thing: &Thing, keyring: &Keyring) -> Option<Value> {
    let models = &folded.models;
    let id = thing.id();

    match thing.kind() {
        StreamKind::User => written(&UserView::new(models.users.find(UserId::parse(id).ok()?)?, keyring)?),
        StreamKind::Publisher => publisher(models, &PublisherId::parse(id).ok()?, keyring),
        StreamKind::Token => token(models.tokens.get(TokenId::parse(id).ok()?)?),
        StreamKind::Node => node(models, &NodeId::parse(id).ok()?),
        StreamKind::Task => {
            let record = &models.tasks.get(TaskId::parse(id).ok()?)?.record;
            task(record, folded.reached, &models.nodes.links().public_url)
        }
        StreamKind::Delivery => delivery(id, &folded.delivery),
    }
}

/// Renders a task as its gateway does, with kind and request. Fields the caller passed through are not in the log.
fn task(record: &TaskRecord, reached: TaskStatus, public_url: &str) -> Option<Value> {
    let work = &record.submission.work;
    let mut state = match work.gateway() {
        Gateway::Image => written(&ImageTaskView::of_record(record, public_url)),
        Gateway::Video | Gateway::Music => written(&CreationsView::of_record(record, reached, public_url)),
    }?;
    state["kind"] = work.kind().as_str().into();
    state["request"] = written(&requested(&record.submission))?;
    Some(state)
}

fn written(view: &impl Serialize) -> Option<Value> {
    serde_json::to_value(view).ok()
}

fn publisher(models: &Models, id: &PublisherId, keyring: &Keyring) -> Option<Value> {
    let shown = Shown::of(models.publishers.get(id)?, models);
    written(&PublisherView::shown_to(&shown, true, keyring))
}

fn node(models: &Models, id: &NodeId) -> Option<Value> {
    let node = models.nodes.get(&id.key())?;
    let links = models.nodes.links();
    let publisher = models.publishers.get(&node.publisher);

    let banned = publisher.is_some_and(|publisher| publisher.status == PublisherStatus::Banned);
    let mut state = written(&NodeView::new(node, publisher, links))?;

    let mut versions: Vec<_> = node.versions.iter().collect();
    versions.sort_by(|a, b| b.number.precedence(&a.number));
    let view = |version: &std::sync::Arc<NodeVersion>| {
        written(&VersionView::new(node, version, banned, links).with_status_reason(version))
    };
    state["versions"] = versions.into_iter().filter_map(view).collect();
    Some(state)
}

fn token(record: &TokenRecord) -> Option<Value> {
    let mut state = written(&KeptTokenView::new(record))?;
    state["subject"] = match &record.grant.subject {
        TokenSubject::User(user) => json!({"user": user.to_string()}),
        TokenSubject::Publisher { publisher, issued_by } => {
            json!({"publisher": publisher.as_str(), "issuedBy": issued_by.to_string()})
        }
    };
    if let Some(at) = record.revoked_at {
        state["revokedAt"] = at.to_string().into();
    }
    Some(state)
}

/// Renders a delivery; `None` before the first attempt.
fn delivery(id: &str, delivery: &Delivery) -> Option<Value> {
    Some(match delivery {
        Delivery::Pending { attempts: 0, .. } => return None,
        Delivery::Pending { attempts, next_at: None, .. } => {
            json!({"id": id, "status": "pending", "attempts": attempts})
        }
        Delivery::Pending { attempts, next_at: Some(at), .. } => {
            json!({"id": id, "status": "pending", "attempts": attempts, "nextAttemptAt": at.to_string()})
        }
        Delivery::Delivered { .. } => json!({"id": id, "status": "delivered"}),
        Delivery::DeadLettered { .. } => json!({"id": id, "status": "dead_lettered"}),
    })
}
