//! A stream of music that is being sent. The reader pulls: the next chunk is made when the one before was taken, so that a
//! slow reader costs no memory, and one who goes away stops the work.

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
use crate::actors::Circumstances;
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

/// How long nothing is sent at most: then a blank line is (contract 7).
const BLANK_AFTER: Duration = Duration::from_secs(10);

/// The code of streams whose listener went away.
pub const CLIENT_GONE: &str = "client_gone";

/// The record of a stream: however the stream ends, it is written how.
pub struct Record {
    dispatch: Dispatch,
    surroundings: Surroundings,
    task: TaskId,
    /// None where a stream is sent that was sent before: of that nothing is recorded.
    why: Option<Circumstances>,
    ended: bool,
}

impl Record {
    /// The record of a task that is about to be submitted.
    pub fn new(services: &Services, task: TaskId, why: Circumstances) -> Self {
        let (dispatch, surroundings) = (services.dispatch.clone(), services.surroundings.clone());
        // What becomes of the stream is no command of the request, and claims no key.
        let why = Some(Circumstances { claim: None, ..why });
        Self { dispatch, surroundings, task, why, ended: false }
    }

    /// Of a stream that was sent before.
    pub fn none(services: &Services, task: TaskId) -> Self {
        let (dispatch, surroundings) = (services.dispatch.clone(), services.surroundings.clone());
        Self { dispatch, surroundings, task, why: None, ended: true }
    }

    /// Whoever asked for the music, now.
    fn why(&self) -> Option<Circumstances> {
        let at = self.surroundings.now();
        self.why.as_ref().map(|why| Circumstances { at, ..why.clone() })
    }

    /// Writes the end down; refused when the task has ended before.
    async fn end(&mut self, command: TaskCommand) -> Result<(), Failure> {
        self.ended = true;
        self.note(command).await
    }

    /// Writes down what is no end yet; refused when the task has ended before.
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

/// Nobody listens any more.
impl Drop for Record {
    fn drop(&mut self) {
        let Some(why) = self.why().filter(|_| !self.ended) else { return };
        let (dispatch, task) = (self.dispatch.clone(), self.task);
        let failure = Failure::new(CLIENT_GONE, "the client went away before the music had ended");
        // Without a runtime the service is gone as well, and the next start ends the task.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            match dispatch.task(task, TaskCommand::Fail { failure }, why).await {
                Ok(_) | Err(CommandError::Rejected(_)) => {}
                Err(error) => tracing::warn!(%task, %error, "the end of a stream could not be recorded"),
            }
        });
    }
}

/// A stream that is being sent.
pub struct Feed {
    record: Record,
    held: Held,
    access: StreamAccess,
    /// Looks for the end where the reader takes nothing; ends with this.
    watching: JoinHandle<()>,
    models: ReadModels,
    changes: watch::Receiver<Position>,
    /// True once the service stops.
    closing: watch::Receiver<bool>,
    billing_rate: u32,
    heard: Heard,
    /// What is to be sent next.
    lines: VecDeque<Bytes>,
    /// When a blank line is due.
    due: Instant,
    /// When the task must have ended.
    deadline: Instant,
    ended: bool,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// What was sent so far.
#[derive(Default)]
struct Heard {
    /// The first; the others are those of further files.
    title: Option<Text<200>>,
    millis: u64,
    /// Of each file, where that was told.
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

    /// What is to be sent next; `None` when all was.
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
                // Before what is played: that may be ready at all times.
                () = sleep_until(self.deadline) => self.fail(too_late().into()).await,
                moment = self.held.next() => self.take(moment).await,
                () = sleep_until(self.due) => self.lines.push_back(BLANK),
            }
        }
    }

    /// The task can be ended by others: by its owner, who cancels it.
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

    /// Everything was made: that is recorded, and then said.
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

    /// Somebody else may have recorded an end just before.
    fn say_recorded(&mut self, refused: Failure) {
        self.say_last(&end_of(self.record.task, &self.models).unwrap_or(refused));
    }

    /// Whoever plays stops at once, however long the last line is not taken.
    fn say_last(&mut self, failure: &Failure) {
        self.held.let_go();
        self.lines.push_back(Line::failed(failure).written());
        self.ended = true;
    }
}

/// Why a task has ended, if it has.
fn end_of(task: TaskId, models: &ReadModels) -> Option<Failure> {
    let models = models.read();
    match models.tasks.get(task).map(|entry| &entry.record.stage) {
        Some(Stage::Failed { failure }) => Some(failure.clone()),
        Some(Stage::Completed { .. }) | None => Some(Failure::cancelled()),
        Some(_) => None,
    }
}

/// Looks for the end of a stream that its reader does not let go on.
struct Watching {
    held: Held,
    task: TaskId,
    /// What records the end; none where nothing is recorded.
    ending: Option<(Dispatch, Surroundings, Circumstances)>,
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
        let why = Circumstances { at: surroundings.now(), ..why.clone() };
        // Where it was recorded meanwhile how it ended, that stays.
        if let Err(error) = dispatch.task(self.task, TaskCommand::Fail { failure }, why).await {
            tracing::debug!(task = %self.task, %error, "end of a stream not recorded");
        }
    }
}

impl Heard {
    /// What is sent of a moment, if anything is.
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
            // Told at the end, with what it is said to cost.
            MusicMoment::Made { millis } => {
                self.millis = millis.first().copied().unwrap_or(self.millis);
                self.made = millis;
                None
            }
        }
    }

    /// How long each file is.
    fn seconds(&self) -> Vec<f64> {
        let told = |file| self.made.get(usize::from(file)).copied().unwrap_or(self.millis);
        (0..self.files).map(told).map(seconds).collect()
    }

    /// What is recorded of it.
    fn stream(&self) -> MusicStream {
        let title = self.title.clone().unwrap_or_else(|| Text::recorded(String::new()));
        MusicStream { title, millis: self.millis, bytes: self.bytes }
    }
}

fn seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}

/// Returns `true` while the credentials are valid with which the music was asked for.
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
