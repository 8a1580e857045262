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

use super::own_task;
use super::view::Viewer;
use crate::actors::live::Hindrance;
use crate::audit::Position;
use crate::domain::ids::{EventId, TaskId, UserId};
use crate::domain::policy::Action;
use crate::domain::task::{TaskRecord, TaskStatus};
use crate::domain::user::UserProfile;
use crate::http::account_pool::PoolPlace;
use crate::http::answer::Answer;
use crate::http::error::Problem;
use crate::http::gate::Call;
use crate::http::server::Shared;
use crate::http::sse::{OF_LAST_SEEN, RETRY_MILLIS, check_reached, failed, last_seen, opened};
use crate::http::stream_access::StreamAccess;
use crate::projections::task::TaskMoment;

/// Minimum interval between progress events.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Open event stream of one task.
struct Feed {
    shared: Data<Shared>,
    task: TaskId,
    owner: Option<UserId>,
    for_admin: bool,
    /// Position of the last change sent; `None` before the snapshot.
    after: Option<Position>,
    /// Last event of the task when its changes were last read.
    read_up_to: Option<EventId>,
    changes: watch::Receiver<Position>,
    /// `true` once the service shuts down.
    closing: watch::Receiver<bool>,
    access: StreamAccess,
    /// Time of the next heartbeat.
    due: Instant,
    /// Unrecorded state as last sent.
    told: Unrecorded,
    /// Time of the last check for unrecorded changes.
    looked: Instant,
    /// `true` once the last event was sent.
    ended: bool,
    _place: PoolPlace,
}

/// State of a task that is not in the log.
#[derive(Default, PartialEq, Eq)]
struct Unrecorded {
    /// Progress at the vendor, in thousandths.
    made: Option<u16>,
    /// Reason why the task is blocked.
    hindrance: Option<Hindrance>,
}

/// `GET /tasks/{task_id}/events`: the task as it is, then its changes up to its end; after a reconnect, only the missed
/// changes. A reader that has received the end gets 204, which stops browsers from reconnecting.
pub async fn stream(call: Call<{ Action::ReadTask as u8 }>) -> Result<Answer, Problem> {
    let task = own_task(&call).await?;
    let shared = call.shared().clone();
    let models = &shared.services.models;
    let record = models.task(task).await?.ok_or_else(|| Problem::not_found("task"))?;
    let changes = models.task_changes();
    let closing = shared.services.closing.clone();

    let after = last_seen(call.headers())?;
    if let Some(after) = after {
        let head = models.read().position;
        check_reached(after, head, OF_LAST_SEEN)?;
        if record.is_terminal() && models.task_changes_after(task, after).await?.is_empty() {
            return Ok(Answer::no_content());
        }
    }

    let mut response = opened();
    if *call.method() == Method::HEAD {
        return Ok(Answer::ready(response.finish()));
    }

    let place = shared.task_streams.take(call.account())?;
    let access = StreamAccess::new(&call)?;

    let due = Instant::now() + shared.services.options.heartbeat;
    let looked = Instant::now();
    let owner = record.submission.owner;
    let for_admin = call.identity().is_admin();
    let read_up_to = None;
    let ended = false;
    let told = Unrecorded::default();
    let feed = Feed {
        shared,
        task,
        owner,
        for_admin,
        after,
        read_up_to,
        changes,
        closing,
        access,
        due,
        told,
        looked,
        ended,
        _place: place,
    };

    Ok(Answer::ready(response.streaming(feed.into_stream())))
}

impl Feed {
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
        let greeting = format!("retry: {RETRY_MILLIS}\n\n");
        unfold((self, Some(greeting)), |(mut feed, greeting)| async move {
            let text = if greeting.is_some() { greeting } else { feed.next().await };
            text.map(|text| (Ok(Bytes::from(text)), (feed, None)))
        })
    }

    /// Returns the next text to send, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<String> {
        while !self.ended && !*self.closing.borrow() && self.may_go_on().await {
            self.changes.borrow_and_update();
            if self.has_moved() {
                match self.read().await {
                    Ok(text) if text.is_empty() => continue,
                    Ok(text) => return Some(self.sent(text)),
                    Err(problem) => {
                        self.ended = true;
                        return Some(failed(&problem, &format!("/tasks/{}/events", self.task)));
                    }
                }
            }

            if let Some(text) = self.advance().await {
                return Some(self.sent(text));
            }

            let changed = async {
                tokio::select! {
                    changed = self.changes.changed() => changed.is_ok(),
                    _ = self.closing.changed() => true,
                    () = self.access.changed() => true,
                }
            };

            match timeout_at(self.due.min(self.looked + PROGRESS_EVERY), changed).await {
                Ok(true) => {}
                Ok(false) => self.ended = true,
                Err(_) if Instant::now() < self.due => {}
                Err(_) => return Some(self.sent(": heartbeat\n\n".to_owned())),
            }
        }
        None
    }

    fn sent(&mut self, text: String) -> String {
        self.due = Instant::now() + self.shared.services.options.heartbeat;
        text
    }

    /// Returns a `progress` event if the progress has increased or the blocking reason has changed. It has no `id`:
    /// progress is not recorded, so a reader cannot resume from it.
    async fn advance(&mut self) -> Option<String> {
        if self.looked.elapsed() < PROGRESS_EVERY {
            return None;
        }

        self.looked = Instant::now();
        let live = &self.shared.services.live;
        let made = live.permille(self.task).max(self.told.made);
        let told = Unrecorded { made, hindrance: live.hindrance(self.task) };
        let is_other = told.hindrance != self.told.hindrance;

        if told == self.told {
            return None;
        }

        self.told = told;
        let now = self.shared.services.models.task_now(self.task).await.ok()??;
        if now.record.is_terminal() || !(is_other || now.record.status == TaskStatus::InProgress) {
            return None;
        }

        let view = Viewer::of(&self.shared.services, self.for_admin).view_hindered(&now, self.told.hindrance.as_ref());
        let data = serde_json::to_string(&view).ok()?;
        Some(format!("event: progress\ndata: {data}\n\n"))
    }

    /// Returns `true` if the task may have changed since its changes were read.
    fn has_moved(&self) -> bool {
        let models = self.shared.services.models.read();
        let last = models.tasks.get(self.task).map(|entry| entry.last_event);
        // A task evicted from memory ended long ago: it is read once more, then the stream ends.
        last.is_none() || last != self.read_up_to
    }

    /// Returns the next changes. The change that ends the task ends the stream too.
    async fn read(&mut self) -> Result<String, Problem> {
        let services = &self.shared.services;
        self.read_up_to = services.models.read().tasks.get(self.task).map(|entry| entry.last_event);

        let (name, moments) = match self.after {
            None => ("snapshot", services.models.task_now(self.task).await?.into_iter().collect()),
            Some(after) => ("change", services.models.task_changes_after(self.task, after).await?),
        };
        let record = services.models.task(self.task).await?;
        let viewer = Viewer::of(services, self.for_admin);

        if !moments.is_empty() {
            // These events contain the reason, so `advance` must report when it goes away.
            self.told = Unrecorded { hindrance: services.live.hindrance(self.task), ..self.told };
        }

        let mut text = String::new();
        for moment in &moments {
            let hindrance = self.told.hindrance.as_ref();
            let view = match self.after {
                None => viewer.view_hindered(moment, hindrance),
                Some(_) => viewer.view_changed(moment, hindrance),
            };
            let data = serde_json::to_string(&view).map_err(Problem::internal)?;
            // Writing to a string cannot fail. Compact JSON has no line breaks.
            let _ = write!(text, "id: {}\nevent: {name}\ndata: {data}\n\n", moment.position);
        }

        let last: Option<&TaskMoment> = moments.last();
        self.after = last.map(|moment| moment.position).or(self.after);
        let told_of_the_end = last.is_some_and(|moment| moment.record.is_terminal());
        // Without new changes, an ended task has nothing left to send.
        self.ended |= told_of_the_end || (last.is_none() && record.as_ref().is_none_or(TaskRecord::is_terminal));
        Ok(text)
    }

    /// Returns `true` if the reader still has access: tokens can be revoked and permissions withdrawn.
    async fn may_go_on(&mut self) -> bool {
        let owner = self.owner;
        let may_read = |user: &UserProfile| user.is_admin || owner.is_none_or(|owner| owner == user.id);
        self.access.allows(|identity| identity.user().is_some_and(may_read)).await
    }
}
