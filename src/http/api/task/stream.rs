//! `GET /tasks/{task_id}/events`: a task and its changes as server-sent events.
//!
//! The reader pulls: the next changes are read from the task's stream in the log after the previous ones were taken, so
//! a slow reader costs no memory and misses nothing. The server keeps no state for disconnected readers; they resume
//! with the position of the last change received.

use std::fmt::Write as _;
use std::time::Duration;

use actix_web::http::Method;
use actix_web::web::{Bytes, Data};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::view::TaskRenderer;
use super::visible_task;
use crate::actors::task_progress::TaskBlocker;
use crate::audit::Position;
use crate::domain::ids::{EventId, TaskId, UserId};
use crate::domain::policy::Action;
use crate::domain::task::{TaskRecord, TaskStatus};
use crate::domain::user::UserProfile;
use crate::http::auth::stream_access::StreamAccess;
use crate::http::limits::account_pool::PoolPermit;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::http::response::sse::{
    LAST_EVENT_ID_POINTER, RETRY_MILLIS, check_within_log, failed_event, last_event_id, start_response,
};
use crate::http::server::AppState;
use crate::projections::task::TaskAt;

/// Minimum interval between progress events.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Open event stream of one task.
struct TaskEventFeed {
    shared: Data<AppState>,
    task: TaskId,
    owner: Option<UserId>,
    for_admin: bool,
    /// Position of the last change sent; `None` before the snapshot.
    after: Option<Position>,
    /// Last event of the task when its changes were last read.
    last_read_event: Option<EventId>,
    changes: watch::Receiver<Position>,
    /// `true` once the service shuts down.
    closing: watch::Receiver<bool>,
    access: StreamAccess,
    /// Time of the next heartbeat.
    heartbeat_at: Instant,
    /// Unrecorded state as last sent.
    last_sent: UnrecordedTaskState,
    /// Time of the last check for unrecorded changes.
    polled_at: Instant,
    /// `true` once the last event was sent.
    ended: bool,
    _permit: PoolPermit,
}

/// State of a task that is not in the log.
#[derive(Default, PartialEq, Eq)]
struct UnrecordedTaskState {
    /// Progress at the vendor, in thousandths.
    permille: Option<u16>,
    /// Reason why the task is blocked.
    blocker: Option<TaskBlocker>,
}

/// `GET /tasks/{task_id}/events`: the task as it is, then its changes up to its end; after a reconnect, only the missed
/// changes. A reader that has received the end gets 204, which stops browsers from reconnecting.
pub async fn stream(call: Call<{ Action::ReadTask as u8 }>) -> Result<ApiResponse, Problem> {
    let task = visible_task(&call).await?;
    let shared = call.shared().clone();
    let models = &shared.services.models;
    let record = models.task(task).await?.ok_or_else(|| Problem::not_found("task"))?;
    let changes = models.task_changes();
    let closing = shared.services.closing.clone();

    let after = last_event_id(call.headers())?;
    if let Some(after) = after {
        let head = models.read().position;
        check_within_log(after, head, LAST_EVENT_ID_POINTER)?;
        if record.is_terminal() && models.task_changes_after(task, after).await?.is_empty() {
            return Ok(ApiResponse::no_content());
        }
    }

    let mut response = start_response();
    if *call.method() == Method::HEAD {
        return Ok(ApiResponse::from_response(response.finish()));
    }

    let permit = shared.task_streams.try_acquire(call.account())?;
    let access = StreamAccess::new(&call)?;

    let feed = TaskEventFeed {
        heartbeat_at: Instant::now() + shared.services.options.heartbeat,
        shared,
        task,
        owner: record.submission.owner,
        for_admin: call.identity().is_admin(),
        after,
        last_read_event: None,
        changes,
        closing,
        access,
        last_sent: UnrecordedTaskState::default(),
        polled_at: Instant::now(),
        ended: false,
        _permit: permit,
    };

    Ok(ApiResponse::from_response(response.streaming(feed.into_stream())))
}

impl TaskEventFeed {
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
        let greeting = format!("retry: {RETRY_MILLIS}\n\n");
        unfold((self, Some(greeting)), |(mut feed, greeting)| async move {
            let text = if greeting.is_some() { greeting } else { feed.next().await };
            text.map(|text| (Ok(Bytes::from(text)), (feed, None)))
        })
    }

    /// Returns the next text to send, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<String> {
        while !self.ended && !*self.closing.borrow() && self.has_access().await {
            self.changes.borrow_and_update();
            if self.has_changed() {
                match self.read_changes().await {
                    Ok(text) if text.is_empty() => continue,
                    Ok(text) => return Some(self.postpone_heartbeat(text)),
                    Err(problem) => {
                        self.ended = true;
                        return Some(failed_event(&problem, &format!("/tasks/{}/events", self.task)));
                    }
                }
            }

            if let Some(text) = self.next_progress_event().await {
                return Some(self.postpone_heartbeat(text));
            }

            let changed = async {
                tokio::select! {
                    changed = self.changes.changed() => changed.is_ok(),
                    _ = self.closing.changed() => true,
                    () = self.access.wait_for_change() => true,
                }
            };

            match timeout_at(self.heartbeat_at.min(self.polled_at + PROGRESS_INTERVAL), changed).await {
                Ok(true) => {}
                Ok(false) => self.ended = true,
                Err(_) if Instant::now() < self.heartbeat_at => {}
                Err(_) => return Some(self.postpone_heartbeat(": heartbeat\n\n".to_owned())),
            }
        }
        None
    }

    /// Restarts the heartbeat interval and returns `text` unchanged.
    fn postpone_heartbeat(&mut self, text: String) -> String {
        self.heartbeat_at = Instant::now() + self.shared.services.options.heartbeat;
        text
    }

    /// Returns a `progress` event if the progress has increased or the blocking reason has changed. It has no `id`:
    /// progress is not recorded, so a reader cannot resume from it.
    async fn next_progress_event(&mut self) -> Option<String> {
        if self.polled_at.elapsed() < PROGRESS_INTERVAL {
            return None;
        }

        self.polled_at = Instant::now();
        let progress = &self.shared.services.media.task_progress;
        let permille = progress.permille(self.task).max(self.last_sent.permille);
        let current = UnrecordedTaskState { permille, blocker: progress.blocker(self.task) };
        let blocker_changed = current.blocker != self.last_sent.blocker;

        if current == self.last_sent {
            return None;
        }

        self.last_sent = current;
        let task_at = self.shared.services.models.task_with_history(self.task).await.ok()??;
        if task_at.record.is_terminal() || !(blocker_changed || task_at.record.status == TaskStatus::InProgress) {
            return None;
        }

        let view = TaskRenderer::new(&self.shared.services, self.for_admin)
            .view_with_blocker(&task_at, self.last_sent.blocker.as_ref());
        let data = serde_json::to_string(&view).ok()?;
        Some(format!("event: progress\ndata: {data}\n\n"))
    }

    /// Returns `true` if the task may have changed since its changes were read.
    fn has_changed(&self) -> bool {
        let models = self.shared.services.models.read();
        let last = models.tasks.get(self.task).map(|entry| entry.last_event);
        // A task evicted from memory ended long ago: it is read once more, then the stream ends.
        last.is_none() || last != self.last_read_event
    }

    /// Reads the next changes, as text to send; empty if there are none. The change that ends the task ends the stream
    /// too.
    async fn read_changes(&mut self) -> Result<String, Problem> {
        let services = &self.shared.services;
        self.last_read_event = services.models.read().tasks.get(self.task).map(|entry| entry.last_event);

        let (name, snapshots) = match self.after {
            None => ("snapshot", services.models.task_with_history(self.task).await?.into_iter().collect()),
            Some(after) => ("change", services.models.task_changes_after(self.task, after).await?),
        };
        let record = services.models.task(self.task).await?;
        let renderer = TaskRenderer::new(services, self.for_admin);

        if !snapshots.is_empty() {
            // The events below contain the blocking reason, so `next_progress_event` must report when it goes away.
            self.last_sent =
                UnrecordedTaskState { blocker: services.media.task_progress.blocker(self.task), ..self.last_sent };
        }

        let mut text = String::new();
        for snapshot in &snapshots {
            let blocker = self.last_sent.blocker.as_ref();
            let view = match self.after {
                None => renderer.view_with_blocker(snapshot, blocker),
                Some(_) => renderer.view_at_change(snapshot, blocker),
            };
            let data = serde_json::to_string(&view).map_err(Problem::internal)?;
            // Writing to a string cannot fail. Compact JSON has no line breaks.
            let _ = write!(text, "id: {}\nevent: {name}\ndata: {data}\n\n", snapshot.position);
        }

        let last: Option<&TaskAt> = snapshots.last();
        self.after = last.map(|snapshot| snapshot.position).or(self.after);
        let sent_end = last.is_some_and(|snapshot| snapshot.record.is_terminal());
        // Without new changes, an ended task has nothing left to send.
        self.ended |= sent_end || (last.is_none() && record.as_ref().is_none_or(TaskRecord::is_terminal));
        Ok(text)
    }

    /// Returns `true` if the reader still has access: tokens can be revoked and permissions withdrawn.
    async fn has_access(&mut self) -> bool {
        let owner = self.owner;
        let may_read = |user: &UserProfile| user.is_admin || owner.is_none_or(|owner| owner == user.id);
        self.access.allows(|identity| identity.user().is_some_and(may_read)).await
    }
}
