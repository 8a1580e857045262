//! `GET /users/export`: everything that the service stores about the caller's account, as one JSON document.
//!
//! The document is streamed in parts, so that memory does not depend on its size: the head with what the read models
//! hold, then the tasks, newest first, then events. A failure after the first part ends the connection, so that the
//! client sees an incomplete document and never a wrong one.

use std::io;

use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION};
use actix_web::web::{self, Bytes, Data};
use actix_web::{HttpResponse, http::StatusCode};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};

use crate::actors::Actor;
use crate::audit::Position;
use crate::audit::filter::{ActorFilter, AuditFilter, StreamFilter};
use crate::audit::page::{BatchLimits, EventBatch};
use crate::audit::point_in_time::PointInTime;
use crate::audit::subject::AuditSubject;
use crate::domain::ids::UserId;
use crate::domain::node::{NodeProfile, Stars};
use crate::domain::policy::Action;
use crate::domain::publisher::PublisherProfile;
use crate::domain::token::{TokenRecord, TokenSubject};
use crate::domain::user::{User, UserProfile};
use crate::domain::value::Timestamp;
use crate::domain::webhook::Webhook;
use crate::http::api::audit::query_error;
use crate::http::api::budget::{BudgetView, budgets_of};
use crate::http::api::delivery::{TaskDeliveryView, delivery_views};
use crate::http::api::input_file::FileView;
use crate::http::api::task::{TaskRenderer, TaskView};
use crate::http::api::token::ListedTokenView;
use crate::http::api::user::UserView;
use crate::http::api::webhook::WebhookView;
use crate::http::auth::personal_fields;
use crate::http::auth::stream_access::StreamAccess;
use crate::http::limits::account_pool::PoolPermit;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::http::response::sse::X_ACCEL_BUFFERING;
use crate::http::server::AppState;
use crate::media::uploaded_files::UploadedFile;
use crate::projections::task::index::{Ledger, TaskFilter};

/// Maximum number of exports in progress.
pub const ACCOUNT_EXPORTS_MAX: usize = 4;
/// Maximum number of exports in progress of one account.
pub const ACCOUNT_EXPORTS_PER_ACCOUNT: usize = 1;
/// Maximum number of tasks in one part.
const TASKS_PER_PART: usize = 50;
/// Maximum number of tasks scanned for one part.
const SCANNED_TASKS_MAX: usize = 65_536;
/// Limits of one read of the log.
const EVENT_LIMITS: BatchLimits = BatchLimits { events: 256, bytes: 256 * 1024, scanned: 50_000 };
const DISPOSITION: &str = "attachment; filename=\"account.json\"";

/// Fields of the document before the tasks.
#[derive(Serialize)]
struct ExportHead {
    /// Time of the export.
    exported_at: String,
    account: ExportedAccount,
    tokens: Vec<ExportedToken>,
    publishers: Vec<ExportedMembership>,
    webhooks: Vec<ExportedWebhook>,
    reviews: Vec<ExportedReview>,
    files: Vec<FileView>,
    credits: ExportedCredits,
    budgets: Vec<BudgetView>,
}

#[derive(Serialize)]
struct ExportedAccount {
    #[serde(flatten)]
    user: UserView,
    #[serde(rename = "createdAt")]
    created_at: String,
    /// Number of secrets that sign the user's webhooks; the secrets themselves are shown only once.
    #[serde(rename = "webhookSecrets")]
    webhook_secrets: usize,
}

/// Token of the user, or of a publisher if the user issued it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportedToken {
    #[serde(flatten)]
    token: ListedTokenView,
    #[serde(skip_serializing_if = "Option::is_none")]
    publisher: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
}

#[derive(Serialize)]
struct ExportedMembership {
    publisher: String,
    role: &'static str,
}

/// Webhook of a publisher whose URL the user set.
#[derive(Serialize)]
struct ExportedWebhook {
    publisher: String,
    #[serde(flatten)]
    webhook: WebhookView,
}

#[derive(Serialize)]
struct ExportedReview {
    node: String,
    star: u8,
}

#[derive(Serialize)]
struct ExportedCredits {
    held: u64,
    charged: u64,
    refunded: u64,
}

/// Tokens, webhooks, reviews and files of a user.
struct ExportLists {
    tokens: Vec<ExportedToken>,
    webhooks: Vec<ExportedWebhook>,
    reviews: Vec<ExportedReview>,
    files: Vec<UploadedFile>,
}

/// A task with its webhooks.
#[derive(Serialize)]
struct ExportedTask {
    #[serde(flatten)]
    task: TaskView,
    deliveries: Vec<TaskDeliveryView>,
}

/// Event that the user caused, without its content, which may be about others.
#[derive(Serialize, Deserialize)]
struct CausedEvent {
    position: u64,
    at: String,
    stream: String,
    #[serde(rename = "type")]
    event_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
}

/// Next part of the document.
enum ExportPart {
    Head(String),
    /// Tasks submitted before a position.
    Tasks(Position),
    /// Events of the account after a position.
    AccountEvents(Position),
    /// Events that the user caused after a position.
    CausedEvents(Position),
    End,
}

/// Export in progress.
struct AccountExport {
    shared: Data<AppState>,
    user: UserId,
    access: StreamAccess,
    /// Last event of the log when the export began.
    log_head: Position,
    /// Position of the first event of the account, before which the user caused none; the end of the log until the
    /// events of the account are rendered.
    created: Position,
    /// `true` if the current array has no entry yet.
    is_array_empty: bool,
    _permit: PoolPermit,
}

/// `GET /users/export`: the account of the caller and everything that belongs to it.
pub async fn export(call: Call<{ Action::ReadOwnAccount as u8 }>) -> Result<ApiResponse, Problem> {
    call.query()?.finish()?;
    let mut response = HttpResponse::build(StatusCode::OK);
    response.content_type("application/json").insert_header((CONTENT_DISPOSITION, DISPOSITION));
    response.insert_header((CACHE_CONTROL, "no-store")).insert_header((X_ACCEL_BUFFERING, "no"));
    if *call.method() == Method::HEAD {
        return Ok(ApiResponse::from_response(response.finish()));
    }

    let shared = call.shared().clone();
    let permit = shared.account_exports.try_acquire(call.account())?;
    let user = call.user()?.id;
    let access = StreamAccess::new(&call)?;
    let export_head = serde_json::to_string(&head_of(&call).await?).map_err(Problem::internal)?;
    let log_head = *shared.services.models.changes().borrow();

    let export =
        AccountExport { shared, user, access, log_head, created: log_head, is_array_empty: true, _permit: permit };
    Ok(ApiResponse::from_response(response.streaming(export.into_stream(export_head))))
}

/// Returns what the read models hold about the caller.
async fn head_of(call: &Call<{ Action::ReadOwnAccount as u8 }>) -> Result<ExportHead, Problem> {
    let services = call.services();
    let profile = call.user()?.clone();
    let user = profile.id;
    let now = services.environment.now();
    let account = account_view(call, profile).await?;

    // All nodes, publishers, tokens and files are examined, which takes longer than a worker may be blocked.
    let shared = call.shared().clone();
    let lists = web::block(move || ExportLists::new(user, now, &shared)).await.map_err(Problem::internal)?;
    let lists = lists.map_err(|error| Problem::from_read_error(&error))?;

    let models = services.models.read();
    let Ledger { held, charged, refunded } = models.tasks.index.ledger_of(Some(user));
    let memberships = models.publishers.for_member(user).filter_map(|publisher| {
        let role = publisher.role_of(user)?.as_str();
        Some(ExportedMembership { publisher: publisher.id.to_string(), role })
    });
    let publishers = memberships.collect();
    drop(models);

    Ok(ExportHead {
        exported_at: now.to_string(),
        account,
        tokens: lists.tokens,
        publishers,
        webhooks: lists.webhooks,
        reviews: lists.reviews,
        files: lists.files.iter().map(|file| FileView::from_file(call, file)).collect(),
        credits: ExportedCredits { held, charged, refunded },
        budgets: budgets_of(call),
    })
}

async fn account_view(
    call: &Call<{ Action::ReadOwnAccount as u8 }>,
    profile: UserProfile,
) -> Result<ExportedAccount, Problem> {
    let keyring = &call.services().keyring;
    personal_fields::preload_keys(keyring, [&profile]).await?;
    let created_at = profile.created_at.to_string();
    let webhook_secrets = profile.webhook_secrets.stored().count();
    let user = UserView::new(&User::Present(profile), keyring).ok_or_else(|| Problem::not_found("user"))?;
    Ok(ExportedAccount { user, created_at, webhook_secrets })
}

impl ExportLists {
    fn new(user: UserId, now: Timestamp, shared: &AppState) -> io::Result<Self> {
        let models = shared.services.models.read();
        let review = |node: &NodeProfile| {
            let star = node.reviews.stars_of(user).map(Stars::get)?;
            Some(ExportedReview { node: node.id.to_string(), star })
        };
        let reviews = models.nodes.all().filter_map(review).collect();
        let tokens = models.tokens.issued_to_or_by(user).into_iter().map(ExportedToken::new).collect();
        let webhook = |(publisher, webhook): (&PublisherProfile, &Webhook)| ExportedWebhook {
            publisher: publisher.id.to_string(),
            webhook: WebhookView::new(webhook),
        };
        let webhooks = models.publishers.webhooks_of(user).map(webhook).collect();
        drop(models);

        let files = shared.services.media.store.uploads().all_of(user, now)?;
        Ok(Self { tokens, webhooks, reviews, files })
    }
}

impl ExportedToken {
    fn new(record: &TokenRecord) -> Self {
        let publisher = match &record.grant.subject {
            TokenSubject::User(_) => None,
            TokenSubject::Publisher { publisher, .. } => Some(publisher.to_string()),
        };
        let revoked_at = record.revoked_at.map(|at| at.to_string());
        Self { token: ListedTokenView::new(record), publisher, revoked_at }
    }
}

impl AccountExport {
    fn into_stream(self, head: String) -> impl Stream<Item = io::Result<Bytes>> {
        unfold(Some((self, ExportPart::Head(head))), |state| async move {
            let (mut export, part) = state?;
            match export.render(part).await {
                Ok((text, next)) => Some((Ok(Bytes::from(text)), next.map(|next| (export, next)))),
                Err(problem) => {
                    tracing::error!(user = %export.user, %problem, "account export interrupted");
                    Some((Err(io::Error::other("the export was interrupted")), None))
                }
            }
        })
    }

    /// Returns the text of a part, and the part after it.
    async fn render(&mut self, part: ExportPart) -> Result<(String, Option<ExportPart>), Problem> {
        if *self.shared.services.closing.borrow() {
            return Err(Problem::internal("the service is stopping"));
        }
        let user = self.user;
        if !self.access.allows(|reader| reader.user().is_some_and(|reader| reader.id == user)).await {
            return Err(Problem::new(Code::Forbidden, "the caller lost access to the account"));
        }

        match part {
            ExportPart::Head(mut text) => {
                // The arrays are further fields of the head, so its closing brace is removed.
                text.pop();
                text.push_str(",\"tasks\":[");
                Ok((text, Some(ExportPart::Tasks(Position(self.log_head.0.saturating_add(1))))))
            }
            ExportPart::Tasks(before) => self.render_tasks(before).await,
            ExportPart::AccountEvents(after) => self.render_account_events(after).await,
            ExportPart::CausedEvents(after) => self.render_caused_events(after).await,
            ExportPart::End => Ok(("]}\n".to_owned(), None)),
        }
    }

    async fn render_tasks(&mut self, before: Position) -> Result<(String, Option<ExportPart>), Problem> {
        let services = self.shared.services.clone();
        let filter = TaskFilter { owner: Some(self.user), ..TaskFilter::default() };
        let page = services.models.read().tasks.index.newest(&filter, Some(before), TASKS_PER_PART, SCANNED_TASKS_MAX);

        let mut text = String::new();
        let is_admin = false;
        for snapshot in services.models.tasks_with_history(page.tasks).await? {
            let id = snapshot.record.submission.task;
            let deliveries = delivery_views(&services.models.deliveries_of(id).await?, id);
            let task = TaskRenderer::new(&services, is_admin).view(&snapshot);
            let json = serde_json::to_string(&ExportedTask { task, deliveries }).map_err(Problem::internal)?;
            self.push_entry(&mut text, &json);
        }

        if let Some(before) = page.continue_before {
            return Ok((text, Some(ExportPart::Tasks(before))));
        }
        self.start_array(&mut text, "account_events");
        Ok((text, Some(ExportPart::AccountEvents(Position(0)))))
    }

    async fn render_account_events(&mut self, after: Position) -> Result<(String, Option<ExportPart>), Problem> {
        let subject = AuditSubject::parse(&format!("user/{}", self.user));
        let subject = subject.map_err(|reason| Problem::internal(reason.to_string()))?;
        let filter = AuditFilter { streams: StreamFilter::One(subject), ..self.base_filter() };
        let EventBatch { events, scanned_to, end, .. } = self.read_events(filter, after).await?;
        if let Some((position, _)) = events.first() {
            self.created = self.created.min(Position(*position));
        }

        let mut text = String::new();
        for (_, json) in &events {
            self.push_entry(&mut text, json.get());
        }
        if scanned_to < end {
            return Ok((text, Some(ExportPart::AccountEvents(scanned_to))));
        }
        self.start_array(&mut text, "caused_events");
        Ok((text, Some(ExportPart::CausedEvents(Position(self.created.0.saturating_sub(1))))))
    }

    async fn render_caused_events(&mut self, after: Position) -> Result<(String, Option<ExportPart>), Problem> {
        let filter = AuditFilter { actor: Some(ActorFilter::Is(Actor::User(self.user))), ..self.base_filter() };
        let EventBatch { events, scanned_to, end, .. } = self.read_events(filter, after).await?;

        let mut text = String::new();
        for (_, json) in &events {
            let event: CausedEvent = serde_json::from_str(json.get()).map_err(Problem::internal)?;
            self.push_entry(&mut text, &serde_json::to_string(&event).map_err(Problem::internal)?);
        }
        let next = if scanned_to < end { ExportPart::CausedEvents(scanned_to) } else { ExportPart::End };
        Ok((text, Some(next)))
    }

    /// Returns the filter of all events up to the beginning of the export.
    fn base_filter(&self) -> AuditFilter {
        AuditFilter { to: Some(PointInTime::Position(self.log_head)), ..AuditFilter::default() }
    }

    async fn read_events(&self, filter: AuditFilter, after: Position) -> Result<EventBatch, Problem> {
        let audit = self.shared.services.operations.audit.clone();
        let batch = web::block(move || audit.batch(&filter, after, EVENT_LIMITS)).await.map_err(Problem::internal)?;
        batch.map_err(query_error)
    }

    /// Adds an entry to the current array.
    fn push_entry(&mut self, text: &mut String, json: &str) {
        if !self.is_array_empty {
            text.push(',');
        }
        self.is_array_empty = false;
        text.push('\n');
        text.push_str(json);
    }

    /// Ends the current array and starts another.
    fn start_array(&mut self, text: &mut String, name: &str) {
        self.is_array_empty = true;
        text.push_str("],\"");
        text.push_str(name);
        text.push_str("\":[");
    }
}
