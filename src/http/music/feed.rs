//! Music streams. The reader pulls: each chunk is produced after the previous one was taken, so a slow reader costs no
//! memory and a disconnect stops the work.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use actix_web::rt;
use actix_web::rt::task::JoinHandle;
use actix_web::web::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::held::{Held, Playing};
use super::line::{BLANK, Line};
use crate::actors::CommandContext;
use crate::actors::error::CommandError;
use crate::actors::musician::Unfinished;
use crate::actors::system::Dispatch;
use crate::audit::Position;
use crate::clock::Surroundings;
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicMoment, MusicStream, SoundFormat};
use crate::domain::task::{Failure, Results, Stage, TaskCommand};
use crate::domain::value::Text;
use crate::http::account_pool::PoolPlace;
use crate::http::server::Services;
use crate::http::stream_access::StreamAccess;
use crate::projections::ReadModels;

/// Maximum time without data; then a blank line is sent (contract 7).
const BLANK_AFTER: Duration = Duration::from_secs(10);

/// Failure code of streams whose client disconnected.
pub const CLIENT_GONE: &str = "client_gone";

/// Recorder of the outcome of a stream. Dropping it before the end records a failure.
pub struct Record {
    dispatch: Dispatch,
    surroundings: Surroundings,
    task: TaskId,
    /// `None` for a replayed stream, of which nothing is recorded.
    why: Option<CommandContext>,
    ended: bool,
}

impl Record {
    /// Creates the record of a task that is about to be submitted.
    pub fn new(services: &Services, task: TaskId, why: CommandContext) -> Self {
        let dispatch = services.dispatch.clone();
        let surroundings = services.surroundings.clone();
        // The outcome is not a command of the request, so it must not claim the idempotency key.
        let why = Some(CommandContext { claim: None, ..why });
        Self { dispatch, surroundings, task, why, ended: false }
    }

    /// Creates the record of a replayed stream.
    pub fn none(services: &Services, task: TaskId) -> Self {
        let dispatch = services.dispatch.clone();
        let surroundings = services.surroundings.clone();
        Self { dispatch, surroundings, task, why: None, ended: true }
    }

    /// Returns the metadata of the original request with the current time.
    fn why(&self) -> Option<CommandContext> {
        let at = self.surroundings.now();
        self.why.as_ref().map(|why| CommandContext { at, ..why.clone() })
    }

    /// Records the end. Returns `Failure::cancelled` if the task has ended already.
    async fn end(&mut self, command: TaskCommand) -> Result<(), Failure> {
        self.ended = true;
        self.note(command).await
    }

    /// Records an intermediate event. Returns `Failure::cancelled` if the task has ended already.
    async fn note(&self, command: TaskCommand) -> Result<(), Failure> {
        let Some(why) = self.why() else { return Ok(()) };
        match self.dispatch.task(self.task, command, why).await {
            Ok(_) => Ok(()),
            Err(CommandError::Rejected(_)) => Err(Failure::cancelled()),
            Err(error) => {
                tracing::warn!(task = %self.task, %error, "what became of a stream could not be recorded");
                Err(Failure::new("not_recorded", "what became of the music could not be recorded"))
            }
        }
    }
}

/// Records that the client disconnected, unless an end was recorded before.
impl Drop for Record {
    fn drop(&mut self) {
        let Some(why) = self.why().filter(|_| !self.ended) else { return };
        let dispatch = self.dispatch.clone();
        let task = self.task;
        let failure = Failure::new(CLIENT_GONE, "the client went away before the music had ended");
        // Without a runtime the service is stopping, and the next start ends the task.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            match dispatch.task(task, TaskCommand::Fail { failure }, why).await {
                Ok(_) | Err(CommandError::Rejected(_)) => {}
                Err(error) => tracing::warn!(%task, %error, "the end of a stream could not be recorded"),
            }
        });
    }
}

pub struct Feed {
    record: Record,
    held: Held,
    access: StreamAccess,
    /// Background check for the end, in case the reader stops reading; aborted on drop.
    watching: JoinHandle<()>,
    models: ReadModels,
    changes: watch::Receiver<Position>,
    closing: watch::Receiver<bool>,
    billing_rate: u32,
    heard: Heard,
    lines: VecDeque<Bytes>,
    /// Time of the next blank line.
    due: Instant,
    /// Time by which the task must have ended.
    deadline: Instant,
    ended: bool,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// Summary of the data sent so far, and source of the lines.
#[derive(Default)]
struct Heard {
    /// Title of the first file; titles of further files are not recorded.
    title: Option<Text<200>>,
    millis: u64,
    /// Final length of each file, if reported by the vendor.
    made: Vec<u64>,
    files: u16,
    bytes: u64,
    format: Option<SoundFormat>,
}

impl Feed {
    pub fn new(
        services: &Services,
        record: Record,
        (playing, place): (Playing, PoolPlace),
        access: StreamAccess,
    ) -> Self {
        let held = Held::new(playing, place);
        let deadline = Instant::now() + services.options.music.deadline;
        let watching = Watching {
            held: held.clone(),
            task: record.task,
            ending: record.why().map(|why| (record.dispatch.clone(), record.surroundings.clone(), why)),
            models: services.models.clone(),
            closing: services.closing.clone(),
            access: access.clone(),
            deadline,
        };

        Self {
            record,
            held,
            access,
            watching: rt::spawn(watching.watch()),
            models: services.models.clone(),
            changes: services.models.task_changes(),
            closing: services.closing.clone(),
            billing_rate: services.options.music.billing_rate_per_sec,
            heard: Heard::default(),
            lines: VecDeque::new(),
            due: Instant::now() + BLANK_AFTER,
            deadline,
            ended: false,
        }
    }

    pub fn into_lines(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(self, |mut feed| async move { feed.next().await.map(|line| (Ok(line), feed)) })
    }

    /// Returns the next line, or `None` after the last one.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                self.due = Instant::now() + BLANK_AFTER;
                return Some(line);
            }

            if self.ended {
                return None;
            }

            if *self.closing.borrow_and_update() {
                self.fail(interrupted().into()).await;
                continue;
            }

            tokio::select! {
                biased;
                _ = self.closing.changed() => {}
                _ = self.changes.changed() => self.look_for_the_end(),
                () = self.access.changed() => if !may_listen(&mut self.access).await {
                    self.fail(revoked().into()).await;
                },
                // Before the music itself, which may always be ready.
                () = sleep_until(self.deadline) => self.fail(too_late().into()).await,
                moment = self.held.next() => self.take(moment).await,
                () = sleep_until(self.due) => self.lines.push_back(BLANK),
            }
        }
    }

    /// Ends the stream if the task was ended elsewhere, for example cancelled by its owner.
    fn look_for_the_end(&mut self) {
        if self.record.why.is_none() {
            return;
        }
        if let Some(failure) = end_of(self.record.task, &self.models) {
            self.record.ended = true;
            self.say_last(&failure);
        }
    }

    async fn take(&mut self, moment: Option<Result<MusicMoment, Unfinished>>) {
        match moment {
            None => self.complete().await,
            Some(Err(unfinished)) => self.fail(unfinished).await,
            Some(Ok(MusicMoment::Taken { reference })) => {
                if let Err(failure) = self.record.note(TaskCommand::RecordAcceptance { reference }).await {
                    self.fail(failure.into()).await;
                }
            }
            Some(Ok(moment)) => self.lines.extend(self.heard.line(moment)),
        }
    }

    /// Records the completion, then sends it.
    async fn complete(&mut self) {
        let Some(format) = self.heard.format.take() else {
            return self.fail(Failure::new("no_sound", "the music ended before it began").into()).await;
        };

        match self.record.end(TaskCommand::Complete { results: Results::Music(self.heard.stream()) }).await {
            Ok(()) => {
                let generated = Line::generated(&format, self.heard.seconds(), self.billing_rate);
                self.lines.extend([generated.written(), Line::complete(self.record.task).written()]);
                self.ended = true;
            }
            Err(refused) => self.say_recorded(refused),
        }
    }

    async fn fail(&mut self, Unfinished { failure, commands }: Unfinished) {
        for command in commands {
            if let Err(refused) = self.record.end(command).await {
                return self.say_recorded(refused);
            }
        }
        self.say_last(&failure);
    }

    /// Reports the recorded end: another writer may have recorded one first.
    fn say_recorded(&mut self, refused: Failure) {
        self.say_last(&end_of(self.record.task, &self.models).unwrap_or(refused));
    }

    /// Releases the music source at once, even if the client does not read the last line.
    fn say_last(&mut self, failure: &Failure) {
        self.held.let_go();
        self.lines.push_back(Line::failed(failure).written());
        self.ended = true;
    }
}

/// Returns the failure of a task that has ended, or `None` while it runs.
fn end_of(task: TaskId, models: &ReadModels) -> Option<Failure> {
    let models = models.read();
    match models.tasks.get(task).map(|entry| &entry.record.stage) {
        Some(Stage::Failed { failure }) => Some(failure.clone()),
        Some(Stage::Completed { .. }) | None => Some(Failure::cancelled()),
        Some(_) => None,
    }
}

/// Background check that ends the stream of a reader that has stopped reading.
struct Watching {
    held: Held,
    task: TaskId,
    /// Dependencies that record the end; `None` for a replayed stream.
    ending: Option<(Dispatch, Surroundings, CommandContext)>,
    models: ReadModels,
    closing: watch::Receiver<bool>,
    access: StreamAccess,
    deadline: Instant,
}

impl Watching {
    async fn watch(mut self) {
        let mut changes = self.models.task_changes();
        loop {
            if self.ending.is_some() && end_of(self.task, &self.models).is_some() {
                break;
            }

            tokio::select! {
                told = changes.changed() => if told.is_err() { break },
                _ = self.closing.changed() => break,
                () = self.access.changed() => if !may_listen(&mut self.access).await {
                    self.end(revoked()).await;
                    break;
                },
                () = sleep_until(self.deadline) => {
                    self.end(too_late()).await;
                    break;
                }
            }
        }
        self.held.let_go();
    }

    async fn end(&mut self, failure: Failure) {
        let Some((dispatch, surroundings, why)) = &self.ending else { return };
        let why = CommandContext { at: surroundings.now(), ..why.clone() };
        // An end recorded in the meantime wins.
        if let Err(error) = dispatch.task(self.task, TaskCommand::Fail { failure }, why).await {
            tracing::debug!(task = %self.task, %error, "end of a stream not recorded");
        }
    }
}

impl Heard {
    /// Returns the line for an event of the vendor, if it has one.
    fn line(&mut self, moment: MusicMoment) -> Option<Bytes> {
        match moment {
            MusicMoment::Taken { .. } => None,
            MusicMoment::Length { millis } => {
                self.millis = millis;
                Some(Line::Duration { duration_sec: seconds(millis) }.written())
            }
            MusicMoment::Title { place, title, tags } => {
                let line = Line::title(place, title.as_str(), &tags).written();
                self.title.get_or_insert(title);
                Some(line)
            }
            MusicMoment::Sound { place, format, data } => {
                self.bytes += data.len() as u64;
                self.files = self.files.max(place.streams);
                let line = Line::sound(place, &format, &data).written();
                self.format = Some(format);
                Some(line)
            }
            // Reported in the last line, with the price.
            MusicMoment::Made { millis } => {
                self.millis = millis.first().copied().unwrap_or(self.millis);
                self.made = millis;
                None
            }
        }
    }

    /// Returns the length of each file in seconds.
    fn seconds(&self) -> Vec<f64> {
        let told = |file| self.made.get(usize::from(file)).copied().unwrap_or(self.millis);
        (0..self.files).map(told).map(seconds).collect()
    }

    fn stream(&self) -> MusicStream {
        let title = self.title.clone().unwrap_or_else(|| Text::recorded(String::new()));
        MusicStream { title, millis: self.millis, bytes: self.bytes }
    }
}

fn seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}

/// Returns `true` while the credentials that requested the music are valid.
async fn may_listen(access: &mut StreamAccess) -> bool {
    access.allows(|identity| identity.user().is_some()).await
}

fn revoked() -> Failure {
    Failure::new("cancelled", "the credentials with which the music was asked for are no longer valid")
}

fn too_late() -> Failure {
    Failure::new("deadline_exceeded", "the music was not sent to its end within the time that a task may take")
}

fn interrupted() -> Failure {
    Failure::interrupted("the service is stopping; the music was not made to its end")
}
