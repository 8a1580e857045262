//! Music streams. The reader pulls: a chunk is produced only after the previous one was read. A slow reader therefore
//! uses no memory, and a disconnect stops the production.

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

use super::line::{KEEP_ALIVE, MusicStreamLine};
use super::recording::MusicRecording;
use super::source::{MusicSource, MusicSourceStream};
use crate::actors::CommandContext;
use crate::actors::error::CommandError;
use crate::actors::music_vendor::{MusicCall, MusicInterruption, MusicPool};
use crate::actors::system::Dispatch;
use crate::audit::Position;
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicFile, MusicJob, MusicStream, MusicStreamItem, SoundFormat};
use crate::domain::task::{TaskCommand, TaskFailure, TaskResults, TaskStage};
use crate::domain::value::Text;
use crate::environment::Environment;
use crate::http::auth::stream_access::StreamAccess;
use crate::http::limits::account_pool::PoolPermit;
use crate::http::server::Services;
use crate::projections::ReadModels;

/// Maximum time without data; then a blank line is sent (contract 7).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Recorder of the outcome of a stream. Dropping it before the end records a failure.
pub struct MusicOutcomeRecorder {
    dispatch: Dispatch,
    environment: Environment,
    task: TaskId,
    /// `None` for a replayed stream, of which nothing is recorded.
    context: Option<CommandContext>,
    ended: bool,
}

impl MusicOutcomeRecorder {
    /// Creates the recorder of a task that is about to be submitted.
    pub fn new(services: &Services, task: TaskId, command_context: CommandContext) -> Self {
        let dispatch = services.dispatch.clone();
        let environment = services.environment.clone();
        // The outcome is not a command of the request, so it must not claim the idempotency key.
        let command_context = Some(CommandContext { claim: None, ..command_context });
        Self { dispatch, environment, task, context: command_context, ended: false }
    }

    /// Creates the recorder of a replayed stream, which records nothing.
    pub fn for_replay(services: &Services, task: TaskId) -> Self {
        let dispatch = services.dispatch.clone();
        let environment = services.environment.clone();
        Self { dispatch, environment, task, context: None, ended: true }
    }

    /// Returns the metadata of the original request with the current time.
    fn command_context(&self) -> Option<CommandContext> {
        let at = self.environment.now();
        self.context.as_ref().map(|context| CommandContext { at, ..context.clone() })
    }

    /// Records the end. Returns [`TaskFailure::cancelled`] if the task has ended already.
    async fn record_end(&mut self, command: TaskCommand) -> Result<(), TaskFailure> {
        self.ended = true;
        self.record_event(command).await
    }

    /// Records an intermediate event. Returns [`TaskFailure::cancelled`] if the task has ended already.
    async fn record_event(&self, command: TaskCommand) -> Result<(), TaskFailure> {
        let Some(command_context) = self.command_context() else { return Ok(()) };
        match self.dispatch.task(self.task, command, command_context).await {
            Ok(_) => Ok(()),
            Err(CommandError::Rejected(_)) => Err(TaskFailure::cancelled()),
            Err(error) => {
                tracing::warn!(task = %self.task, %error, "stream event not recorded");
                Err(TaskFailure::new("not_recorded", "the progress of the music could not be recorded"))
            }
        }
    }
}

/// Records that the client disconnected, unless an end was recorded before.
impl Drop for MusicOutcomeRecorder {
    fn drop(&mut self) {
        let Some(command_context) = self.command_context().filter(|_| !self.ended) else { return };
        let dispatch = self.dispatch.clone();
        let task = self.task;
        let failure =
            TaskFailure::new(TaskFailure::CLIENT_DISCONNECTED, "the client disconnected before the end of the music");
        // Without a runtime the service is stopping, and the next start ends the task.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            match dispatch.task(task, TaskCommand::Fail { failure }, command_context).await {
                Ok(_) | Err(CommandError::Rejected(_)) => {}
                Err(error) => tracing::warn!(%task, %error, "end of stream not recorded"),
            }
        });
    }
}

/// The other vendors of a stream, in case the first one does not accept it.
pub struct MusicFailover {
    pool: MusicPool,
    job: MusicJob,
    /// Numbers of the vendors that were called.
    tried: Vec<usize>,
}

impl MusicFailover {
    /// Creates the failover of a job that vendor number `first` plays at first.
    pub fn new(pool: MusicPool, job: MusicJob, first: usize) -> Self {
        Self { pool, job, tried: vec![first] }
    }

    /// Takes a slot of a vendor that was not called yet, if such a vendor can be called now.
    fn next(&mut self) -> Option<MusicCall> {
        let call = self.pool.admit_next(&self.job.work, &self.tried).ok()?;
        self.tried.push(call.vendor_index);
        Some(call)
    }
}

/// Open music stream: converts the events of the vendor to lines, and records the outcome.
pub struct MusicFeed {
    recorder: MusicOutcomeRecorder,
    source: MusicSource,
    /// `None` once a vendor has accepted the job, and for replayed streams.
    failover: Option<MusicFailover>,
    access: StreamAccess,
    /// Background check for the end, in case the reader stops reading; aborted on drop.
    watchdog: JoinHandle<()>,
    models: ReadModels,
    changes: watch::Receiver<Position>,
    closing: watch::Receiver<bool>,
    billing_rate: u32,
    encoder: MusicLineEncoder,
    /// `None` for replayed streams, and once the music cannot be stored.
    recording: Option<MusicRecording>,
    lines: VecDeque<Bytes>,
    /// Time of the next blank line.
    keep_alive_at: Instant,
    /// Time by which the task must have ended.
    deadline: Instant,
    ended: bool,
}

impl Drop for MusicFeed {
    fn drop(&mut self) {
        self.watchdog.abort();
    }
}

/// Encodes the events of the vendor as lines and sums up what they contained.
#[derive(Default)]
struct MusicLineEncoder {
    /// Title of the first file; titles of further files are not recorded.
    title: Option<Text<200>>,
    millis: u64,
    /// Final length of each file, if reported by the vendor.
    final_millis: Vec<u64>,
    file_count: u16,
    bytes: u64,
    format: Option<SoundFormat>,
}

impl MusicFeed {
    /// Creates the feed of a music stream and starts the check for its end.
    pub fn new(
        services: &Services,
        recorder: MusicOutcomeRecorder,
        (stream, permit): (MusicSourceStream, PoolPermit),
        access: StreamAccess,
    ) -> Self {
        let source = MusicSource::new(stream, permit);
        let deadline = Instant::now() + services.options.music.deadline;
        let watchdog = MusicWatchdog {
            source: source.clone(),
            task: recorder.task,
            recorder: recorder
                .command_context()
                .map(|context| (recorder.dispatch.clone(), recorder.environment.clone(), context)),
            models: services.models.clone(),
            closing: services.closing.clone(),
            access: access.clone(),
            deadline,
        };

        let recording = recorder.context.is_some().then(|| MusicRecording::start(services)).flatten();

        Self {
            recorder,
            source,
            failover: None,
            access,
            watchdog: rt::spawn(watchdog.run()),
            models: services.models.clone(),
            changes: services.models.task_changes(),
            closing: services.closing.clone(),
            billing_rate: services.options.music.billing_rate_per_sec,
            encoder: MusicLineEncoder::default(),
            recording,
            lines: VecDeque::new(),
            keep_alive_at: Instant::now() + KEEP_ALIVE_INTERVAL,
            deadline,
            ended: false,
        }
    }

    /// Continues with another vendor if the first one has certainly not accepted the job.
    pub fn with_failover(mut self, failover: MusicFailover) -> Self {
        self.failover = Some(failover);
        self
    }

    /// Returns the lines of the response.
    pub fn into_lines(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(self, |mut feed| async move { feed.next().await.map(|line| (Ok(line), feed)) })
    }

    /// Returns the next line, or `None` after the last one.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                self.keep_alive_at = Instant::now() + KEEP_ALIVE_INTERVAL;
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
                _ = self.changes.changed() => self.check_recorded_end(),
                () = self.access.wait_for_change() => if !has_access(&mut self.access).await {
                    self.fail(access_revoked().into()).await;
                },
                // Polled before the music, which may always be ready.
                () = sleep_until(self.deadline) => self.fail(deadline_exceeded().into()).await,
                item = self.source.next() => self.handle_event(item).await,
                () = sleep_until(self.keep_alive_at) => self.lines.push_back(KEEP_ALIVE),
            }
        }
    }

    /// Ends the stream if the task was ended elsewhere, for example cancelled by its owner.
    fn check_recorded_end(&mut self) {
        if self.recorder.context.is_none() {
            return;
        }
        if let Some(failure) = recorded_failure(self.recorder.task, &self.models) {
            self.recorder.ended = true;
            self.send_failure(&failure);
        }
    }

    async fn handle_event(&mut self, item: Option<Result<MusicStreamItem, MusicInterruption>>) {
        match item {
            None => self.complete().await,
            Some(Err(interruption)) => self.fail_over_or_end(interruption).await,
            Some(Ok(MusicStreamItem::Accepted { reference })) => {
                self.failover = None;
                if let Err(failure) = self.recorder.record_event(TaskCommand::RecordAcceptance { reference }).await {
                    self.fail(failure.into()).await;
                }
            }
            Some(Ok(item)) => {
                self.failover = None;
                self.lines.extend(self.encoder.encode(&item));
                if let MusicStreamItem::Sound { index, data, .. } = item {
                    self.recording = match self.recording.take() {
                        Some(recording) => recording.append(index, data).await,
                        None => None,
                    };
                }
            }
        }
    }

    /// Continues with another vendor if the call has certainly not arrived; otherwise ends the stream.
    async fn fail_over_or_end(&mut self, interruption: MusicInterruption) {
        let Some(failover) = self.failover.as_mut().filter(|_| interruption.is_undelivered) else {
            return self.fail(interruption).await;
        };
        let Some(MusicCall { vendor, permit, .. }) = failover.next() else {
            return self.fail(interruption).await;
        };

        let job = failover.job.clone();
        let start = vendor.start_command(self.recorder.task);
        // The first command records that the call did not arrive; the second one would fail the task.
        let undelivered = interruption.commands.into_iter().take(1);
        for command in undelivered.chain([start]) {
            if let Err(failure) = self.recorder.record_event(command).await {
                return self.fail(failure.into()).await;
            }
        }
        self.source.replace(vendor.play(permit, job));
    }

    /// Records the completion, then sends it.
    async fn complete(&mut self) {
        let Some(format) = self.encoder.format.take() else {
            return self.fail(TaskFailure::new("no_sound", "the music had no sound").into()).await;
        };

        let files = match self.recording.take() {
            Some(recording) => recording.finish().await,
            None => None,
        };

        let results = TaskResults::Music(self.encoder.summary(files));
        match self.recorder.record_end(TaskCommand::Complete { results }).await {
            Ok(()) => {
                let generated =
                    MusicStreamLine::generated_audio(&format, self.encoder.file_seconds(), self.billing_rate);
                self.lines.extend([generated.to_bytes(), MusicStreamLine::complete(self.recorder.task).to_bytes()]);
                self.ended = true;
            }
            Err(rejection) => self.send_recorded_failure(rejection),
        }
    }

    async fn fail(&mut self, MusicInterruption { failure, commands, .. }: MusicInterruption) {
        for command in commands {
            if let Err(rejection) = self.recorder.record_end(command).await {
                return self.send_recorded_failure(rejection);
            }
        }
        self.send_failure(&failure);
    }

    /// Reports the recorded end: another writer may have recorded one first.
    fn send_recorded_failure(&mut self, fallback: TaskFailure) {
        self.send_failure(&recorded_failure(self.recorder.task, &self.models).unwrap_or(fallback));
    }

    /// Releases the music source at once, even if the client does not read the last line.
    fn send_failure(&mut self, failure: &TaskFailure) {
        self.source.release();
        self.lines.push_back(MusicStreamLine::failed(failure).to_bytes());
        self.ended = true;
    }
}

/// Returns the failure to report for a task that has ended, or `None` while it runs. An end without a failure was
/// recorded by another writer, and is reported as a cancellation.
fn recorded_failure(task: TaskId, models: &ReadModels) -> Option<TaskFailure> {
    let models = models.read();
    match models.tasks.get(task).map(|entry| &entry.record.stage) {
        Some(TaskStage::Failed { failure }) => Some(failure.clone()),
        Some(TaskStage::Completed { .. }) | None => Some(TaskFailure::cancelled()),
        Some(_) => None,
    }
}

/// Background check that ends the stream of a reader that has stopped reading.
struct MusicWatchdog {
    source: MusicSource,
    task: TaskId,
    /// Dependencies that record the end; `None` for a replayed stream.
    recorder: Option<(Dispatch, Environment, CommandContext)>,
    models: ReadModels,
    closing: watch::Receiver<bool>,
    access: StreamAccess,
    deadline: Instant,
}

impl MusicWatchdog {
    async fn run(mut self) {
        let mut changes = self.models.task_changes();
        loop {
            if self.recorder.is_some() && recorded_failure(self.task, &self.models).is_some() {
                break;
            }

            tokio::select! {
                result = changes.changed() => if result.is_err() { break },
                _ = self.closing.changed() => break,
                () = self.access.wait_for_change() => if !has_access(&mut self.access).await {
                    self.record_failure(access_revoked()).await;
                    break;
                },
                () = sleep_until(self.deadline) => {
                    self.record_failure(deadline_exceeded()).await;
                    break;
                }
            }
        }
        self.source.release();
    }

    async fn record_failure(&mut self, failure: TaskFailure) {
        let Some((dispatch, environment, context)) = &self.recorder else { return };
        let context = CommandContext { at: environment.now(), ..context.clone() };
        // An end recorded in the meantime wins.
        if let Err(error) = dispatch.task(self.task, TaskCommand::Fail { failure }, context).await {
            tracing::debug!(task = %self.task, %error, "end of stream not recorded");
        }
    }
}

impl MusicLineEncoder {
    /// Counts an event of the vendor and returns its line, if it has one.
    fn encode(&mut self, item: &MusicStreamItem) -> Option<Bytes> {
        match item {
            MusicStreamItem::Accepted { .. } => None,
            MusicStreamItem::Length { millis } => {
                self.millis = *millis;
                Some(MusicStreamLine::Duration { duration_sec: to_seconds(*millis) }.to_bytes())
            }
            MusicStreamItem::Title { index, title, tags } => {
                self.title.get_or_insert_with(|| title.clone());
                Some(MusicStreamLine::title(*index, title.as_str(), tags).to_bytes())
            }
            MusicStreamItem::Sound { index, format, data } => {
                self.bytes += data.len() as u64;
                self.file_count = self.file_count.max(index.streams);
                self.format.get_or_insert_with(|| format.clone());
                Some(MusicStreamLine::audio_chunk(*index, format, data).to_bytes())
            }
            // The line `generated_audio` reports the length of each file, with the price.
            MusicStreamItem::Finished { millis } => {
                self.millis = millis.first().copied().unwrap_or(self.millis);
                self.final_millis.clone_from(millis);
                None
            }
        }
    }

    /// Returns the length of each file in seconds.
    fn file_seconds(&self) -> Vec<f64> {
        let file_millis = |file| self.final_millis.get(usize::from(file)).copied().unwrap_or(self.millis);
        (0..self.file_count).map(file_millis).map(to_seconds).collect()
    }

    /// Returns the results to record, with the stored `files`.
    fn summary(&self, files: Option<Vec<MusicFile>>) -> MusicStream {
        let title = self.title.clone().unwrap_or_else(|| Text::from_recorded(String::new()));
        MusicStream { title, millis: self.millis, bytes: self.bytes, files }
    }
}

fn to_seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}

/// Returns `true` while the credentials that requested the music are valid.
async fn has_access(access: &mut StreamAccess) -> bool {
    access.allows(|identity| identity.user().is_some()).await
}

fn access_revoked() -> TaskFailure {
    TaskFailure::new(TaskFailure::CANCELLED, "the token of the request is no longer valid")
}

fn deadline_exceeded() -> TaskFailure {
    TaskFailure::new("deadline_exceeded", "the music was not complete before the deadline of its task")
}

fn interrupted() -> TaskFailure {
    TaskFailure::interrupted("the service stopped before the music was complete")
}
