//! States of subjects for administrators, as of any time in the past.

use serde::Serialize;
use serde_json::{Value, json};

use crate::audit::replay::ReplayedState;
use crate::audit::subject::AuditSubject;
use crate::domain::budget::BudgetSubject;
use crate::domain::delivery::Delivery;
use crate::domain::ids::{NodeId, PublisherId, StreamKind, TaskId, TokenId, UserId};
use crate::domain::publisher::PublisherStatus;
use crate::domain::task::{Gateway, TaskRecord, TaskStatus};
use crate::domain::token::{TokenRecord, TokenSubject};
use crate::domain::version::NodeVersion;
use crate::http::api::publisher::{PublisherView, PublisherWithMembers};
use crate::http::api::task::request_parameters;
use crate::http::api::token::ListedTokenView;
use crate::http::api::user::UserView;
use crate::pii::Keyring;
use crate::projections::node::view::{NodeView, VersionView};
use crate::projections::read_models::Models;
use crate::projections::task::{CreationsView, ImageTaskView};

/// Renders a subject as an administrator would have seen it; `None` if it did not exist. Nodes include all versions;
/// tokens include subject and revocation time. Blocks if a user's key is not in memory.
#[must_use]
pub fn render_state(state: &ReplayedState, subject: &AuditSubject, keyring: &Keyring) -> Option<Value> {
    let models = &state.models;
    let id = subject.id();

    match subject.kind() {
        StreamKind::User => to_json(&UserView::new(models.users.find(UserId::parse(id).ok()?)?, keyring)?),
        StreamKind::Publisher => render_publisher(models, &PublisherId::parse(id).ok()?, keyring),
        StreamKind::Token => render_token(models.tokens.get(TokenId::parse(id).ok()?)?),
        StreamKind::Node => render_node(models, &NodeId::parse(id).ok()?),
        StreamKind::Task => {
            let record = &models.tasks.get(TaskId::parse(id).ok()?)?.record;
            render_task(record, state.reached_status, &models.nodes.links().public_url)
        }
        StreamKind::Delivery => render_delivery(id, &state.delivery),
        StreamKind::Budget => render_budget(models, &BudgetSubject::parse_key(id).ok()?),
    }
}

/// Renders a task as its gateway does, with kind and request. Fields the caller passed through are not in the log.
fn render_task(record: &TaskRecord, status: TaskStatus, public_url: &str) -> Option<Value> {
    let work = &record.submission.work;
    let mut state = match work.gateway() {
        Gateway::Image => to_json(&ImageTaskView::from_record(record, public_url)),
        Gateway::Video | Gateway::Music => to_json(&CreationsView::from_record(record, status, public_url)),
    }?;
    state["kind"] = work.kind().as_str().into();
    state["request"] = to_json(&request_parameters(&record.submission, None))?;
    Some(state)
}

/// Renders the limit of a budget, without its use, which depends on the streams of tasks.
fn render_budget(models: &Models, subject: &BudgetSubject) -> Option<Value> {
    let limit = models.budgets.get(subject)?.limit;
    Some(json!({"credits": limit.credits, "period": limit.period.as_str()}))
}

fn to_json(view: &impl Serialize) -> Option<Value> {
    serde_json::to_value(view).ok()
}

fn render_publisher(models: &Models, id: &PublisherId, keyring: &Keyring) -> Option<Value> {
    let profile = PublisherWithMembers::new(models.publishers.get(id)?, models);
    let with_email = true;
    to_json(&PublisherView::render(&profile, with_email, keyring))
}

fn render_node(models: &Models, id: &NodeId) -> Option<Value> {
    let node = models.nodes.get(&id.key())?;
    let links = models.nodes.links();
    let publisher = models.publishers.get(&node.publisher);

    let is_publisher_banned = publisher.is_some_and(|publisher| publisher.status == PublisherStatus::Banned);
    let mut state = to_json(&NodeView::new(node, publisher, links))?;

    let mut versions: Vec<_> = node.versions.iter().collect();
    // Highest version first
    versions.sort_by(|a, b| b.number.cmp_precedence(&a.number));
    let view = |version: &std::sync::Arc<NodeVersion>| {
        to_json(&VersionView::new(node, version, is_publisher_banned, links).with_status_reason(version))
    };
    state["versions"] = versions.into_iter().filter_map(view).collect();
    Some(state)
}

fn render_token(record: &TokenRecord) -> Option<Value> {
    let mut state = to_json(&ListedTokenView::new(record))?;
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
fn render_delivery(id: &str, delivery: &Delivery) -> Option<Value> {
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
