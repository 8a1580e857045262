//! A stream of music that is being sent. The reader pulls: the next chunk is made when the one before was taken, so that a
//! slow reader costs no memory, and one who goes away stops the work.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use actix_web::web::Bytes;
use futures_util::stream::{BoxStream, unfold};
use futures_util::{Stream, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use super::line::{BLANK, Line};
use crate::actors::Circumstances;
use crate::actors::error::CommandError;
use crate::actors::musician::Unfinished;
use crate::actors::system::Dispatch;
use crate::audit::Position;
use crate::clock::Surroundings;
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicMoment, MusicStream, SoundFormat};
use crate::domain::task::{Failure, Results, TaskCommand};
use crate::domain::value::Text;
use crate::http::server::Services;
use crate::projections::ReadModels;

/// How long nothing is sent at most: then a blank line is (contract 7).
const BLANK_AFTER: Duration = Duration::from_secs(10);

/// The record of a stream: however the stream ends, it is written how.
pub struct Record {
    dispatch: Dispatch,
    surroundings: Surroundings,
    task: TaskId,
    why: Circumstances,
    ended: bool,
}

impl Record {
    /// The record of a task that is about to be submitted.
    pub fn new(services: &Services, task: TaskId, why: Circumstances) -> Self {
        let (dispatch, surroundings) = (services.dispatch.clone(), services.surroundings.clone());
        Self { dispatch, surroundings, task, why, ended: false }
    }

    /// Whoever asked for the music, now.
    fn why(&self) -> Circumstances {
        Circumstances { at: self.surroundings.now(), ..self.why.clone() }
    }

    /// Writes the end down; refused when the task has ended before.
    async fn end(&mut self, command: TaskCommand) -> Result<(), Failure> {
        self.ended = true;
        self.note(command).await
    }

    /// Writes down what is no end yet; refused when the task has ended before.
    async fn note(&self, command: TaskCommand) -> Result<(), Failure> {
        match self.dispatch.task(self.task, command, self.why()).await {
            Ok(_) => Ok(()),
            Err(CommandError::Rejected(_)) => Err(Failure::cancelled()),
            Err(error) => {
                tracing::warn!(task = %self.task, %error, "what became of a stream could not be recorded");
                Err(failure("not_recorded", "what became of the music could not be recorded"))
            }
        }
    }
}

/// Nobody listens any more.
impl Drop for Record {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (dispatch, task, why) = (self.dispatch.clone(), self.task, self.why());
        let failure = failure("client_gone", "the client went away before the music had ended");
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
    playing: BoxStream<'static, Result<MusicMoment, Unfinished>>,
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
    _place: OwnedSemaphorePermit,
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
        playing: BoxStream<'static, Result<MusicMoment, Unfinished>>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            record,
            playing,
            models: services.models.clone(),
            changes: services.models.task_changes(),
            closing: services.closing.clone(),
            billing_rate: services.options.music.billing_rate_per_sec,
            heard: Heard::default(),
            lines: VecDeque::new(),
            due: Instant::now() + BLANK_AFTER,
            deadline: Instant::now() + services.options.music.deadline,
            ended: false,
            _place: place,
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
                moment = self.playing.next() => self.take(moment).await,
                () = sleep_until(self.deadline) => self.fail(too_late().into()).await,
                () = sleep_until(self.due) => self.lines.push_back(BLANK),
            }
        }
    }

    /// The task can be ended by others: by its owner, who cancels it.
    fn look_for_the_end(&mut self) {
        let models = self.models.read();
        let over = models.tasks.get(self.record.task).is_none_or(|entry| entry.record.is_terminal());
        drop(models);
        if over {
            self.record.ended = true;
            self.say_last(&Failure::cancelled());
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
            return self.fail(failure("no_sound", "the music ended before it began").into()).await;
        };
        match self.record.end(TaskCommand::Complete { results: Results::Music(self.heard.stream()) }).await {
            Ok(()) => {
                let generated = Line::generated(&format, self.heard.seconds(), self.billing_rate);
                self.lines.extend([generated.written(), Line::complete(self.record.task).written()]);
                self.ended = true;
            }
            Err(failure) => self.say_last(&failure),
        }
    }

    async fn fail(&mut self, Unfinished { failure, commands }: Unfinished) {
        for command in commands {
            if let Err(refused) = self.record.end(command).await {
                return self.say_last(&refused);
            }
        }
        self.say_last(&failure);
    }

    fn say_last(&mut self, failure: &Failure) {
        self.lines.push_back(Line::failed(failure).written());
        self.ended = true;
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

fn too_late() -> Failure {
    failure("deadline_exceeded", "the music was not sent to its end within the time that a task may take")
}

fn interrupted() -> Failure {
    failure("interrupted", "the service is stopping; the music was not made to its end")
}

fn failure(code: &str, message: &str) -> Failure {
    Failure { code: Text::recorded(code.to_owned()), message: Text::recorded(message.to_owned()) }
}
