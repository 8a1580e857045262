//! Remote music vendor with the protocol of a profile. A message is read only after the previous one was consumed, so a
//! slow listener slows down the vendor. Dropping the stream closes the connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;

use super::connection::{VendorConnection, no_response_error};
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicJob, MusicStreamItem, MusicWork, SoundFileIndex, SoundFormat};
use crate::domain::task::{TaskFailure, TaskWork};
use crate::domain::value::Text;
use crate::environment::Environment;
use crate::outbound::client::{CallFailure, ResponseBodyStream};
use crate::outbound::ndjson::NdjsonReader;
use crate::outbound::sse::SseReader;
use crate::outbound::vendor_client::{RESPONSE_BYTES_MAX, VendorClient};
use crate::vendors::VendorError;
use crate::vendors::credential_mask::CredentialMask;
use crate::vendors::music::{MusicStreamError, MusicVendor, VendorMusicStream};
use crate::vendors::profile::Profile;
use crate::vendors::profile::file::{NumberSource, StreamFile, StreamFormat};
use crate::vendors::profile::music::{VendorMusicLine, detect_encoding};
use crate::vendors::profile::picture::PictureAccess;
use crate::vendors::profile::response::{ParsedResponse, unknown_outcome};
use crate::vendors::profile::scope::work_scope;

/// Maximum number of bytes read of a response that is not music.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of consecutive messages that are ignored.
const IGNORED_LINES_MAX: usize = 1_000;

/// Options of the vendor, besides its profile.
#[derive(Clone)]
pub struct ProfileMusicOptions {
    /// Name in logs, metrics and settings.
    pub name: String,
    /// Header with the key of a submission, instead of the profile's.
    pub key_header: Option<String>,
    /// Longest time between two meaningful messages.
    pub line_timeout: Duration,
    /// Longest message, in bytes.
    pub line_bytes: usize,
    /// API key, which is masked in all messages of the vendor.
    pub api_key: Option<String>,
}

/// The remote music vendor. Cheap to clone.
#[derive(Clone)]
pub struct ProfileMusic {
    profile: Arc<Profile>,
    connection: VendorConnection,
    options: ProfileMusicOptions,
}

impl ProfileMusic {
    /// Creates a vendor whose requests `client` sends; `None` if the profile has no music.
    #[must_use]
    pub fn new(
        profile: Arc<Profile>,
        client: VendorClient,
        options: ProfileMusicOptions,
        environment: Environment,
    ) -> Option<Self> {
        profile.job("music").zip(profile.file().stream.as_ref())?;
        let mask = CredentialMask::new(options.api_key.as_deref());
        let connection = VendorConnection { client, mask, environment };
        Some(Self { profile, connection, options })
    }

    /// Sends the job and waits for the first message, which shows that the vendor accepted it.
    async fn open_stream(self, task: TaskId, work: MusicWork) -> Result<ProfileMusicStream, MusicStreamError> {
        let connection = self.connection.clone();
        let not_accepted = |error: VendorError| MusicStreamError::NotAccepted(connection.mask_error(error));
        let messages = self.submit(task, work).await.map_err(not_accepted)?;
        let mut stream = ProfileMusicStream { messages, vendor: self, first: None, format: None };
        let first = stream.next_line().await.map_err(|reason| not_accepted(unreadable_response(&reason)))?;
        stream.first = Some(first.ok_or_else(|| not_accepted(unreadable_response("it ended before the first line")))?);
        Ok(stream)
    }

    async fn submit(&self, task: TaskId, work: MusicWork) -> Result<MessageReader, VendorError> {
        let missing = || super::refused("the profile has no music");
        let (job, stream) = self.profile.job("music").zip(self.profile.file().stream.as_ref()).ok_or_else(missing)?;
        let key = task.to_string();
        let scope = work_scope(&TaskWork::Music(work), &PictureAccess::trial()).ok_or_else(missing)?;
        let scope = self.profile.submission_scope(job, scope, &key, None);
        let mut request = self.profile.build_submission(job, &scope).map_err(|error| super::unbuildable(&error))?;
        request.headers.push(("accept".to_owned(), accepted_media(stream.format).to_owned()));
        if let Some(header) = self.options.key_header.as_deref().or(self.profile.key_header()) {
            request.headers.push((header.to_owned(), key.clone()));
        }

        let idle_timeout = self.options.line_timeout;
        let request = self.connection.to_vendor_request(request, RESPONSE_BYTES_MAX);
        let at = self.connection.environment.now();
        let result = self.connection.client.open_stream(request, idle_timeout, at).await;
        let (response, body) = result.map_err(|failure| no_response_error(&failure, "the vendor is unreachable"))?;
        if (200..=299).contains(&response.status) {
            return Ok(MessageReader::new(stream.format, body, self.options.line_bytes));
        }

        let lines = NdjsonReader::new(body, ERROR_BODY_BYTES_MAX);
        let error_body =
            tokio::time::timeout(idle_timeout, lines.read_prefix(ERROR_BODY_BYTES_MAX)).await.unwrap_or_default();
        let mut error = self
            .profile
            .submission_error(&ParsedResponse::new(response.status, error_body).with_mask(&self.connection.mask));
        error.retry_after = response.retry_after;
        Err(error)
    }
}

pub(super) const fn accepted_media(format: StreamFormat) -> &'static str {
    match format {
        StreamFormat::Ndjson => "application/x-ndjson",
        StreamFormat::Sse => "text/event-stream",
        StreamFormat::Binary => "audio/*",
    }
}

impl MusicVendor for ProfileMusic {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn serves(&self, work: &MusicWork) -> bool {
        self.profile.serves(&TaskWork::Music(work.clone()))
    }

    fn play(&self, job: MusicJob) -> VendorMusicStream {
        let stage = MusicStreamStage::NotSubmitted(Box::new((self.clone(), job)));
        stream::try_unfold(stage, MusicStreamStage::next).boxed()
    }
}

/// Stage of a stream.
enum MusicStreamStage {
    NotSubmitted(Box<(ProfileMusic, MusicJob)>),
    Streaming(Box<ProfileMusicStream>),
}

impl MusicStreamStage {
    async fn next(self) -> Result<Option<(MusicStreamItem, Self)>, MusicStreamError> {
        match self {
            Self::NotSubmitted(request) => {
                let (vendor, MusicJob { task, work, .. }) = *request;
                // The vendor's own task id comes only with the last line, if at all.
                let reference = Text::from_recorded(task.to_string());
                let stream = vendor.open_stream(task, work).await?;
                Ok(Some((MusicStreamItem::Accepted { reference }, Self::Streaming(Box::new(stream)))))
            }
            Self::Streaming(mut stream) => Ok(stream.next().await?.map(|item| (item, Self::Streaming(stream)))),
        }
    }
}

/// Reads the messages of a response.
enum MessageReader {
    Lines(NdjsonReader),
    Events(SseReader),
    /// Reads the file itself.
    Bytes {
        body: ResponseBodyStream,
        is_ended: bool,
    },
}

/// A message, with the type of a server-sent event.
enum StreamMessage {
    Json {
        event: Option<String>,
        data: Bytes,
    },
    Sound(Bytes),
    /// The end of a file.
    End,
}

impl MessageReader {
    fn new(format: StreamFormat, body: ResponseBodyStream, line_bytes: usize) -> Self {
        match format {
            StreamFormat::Ndjson => Self::Lines(NdjsonReader::new(body, line_bytes)),
            StreamFormat::Sse => Self::Events(SseReader::new(body).with_event_bytes(line_bytes)),
            StreamFormat::Binary => Self::Bytes { body, is_ended: false },
        }
    }

    async fn next(&mut self) -> Result<Option<StreamMessage>, CallFailure> {
        Ok(match self {
            Self::Lines(lines) => lines.next().await?.map(|data| StreamMessage::Json { event: None, data }),
            Self::Events(events) => events
                .next()
                .await?
                .map(|event| StreamMessage::Json { event: Some(event.kind), data: event.data.into() }),
            Self::Bytes { is_ended: true, .. } => None,
            Self::Bytes { body, is_ended } => {
                let bytes = body.next().await?;
                *is_ended = bytes.is_none();
                Some(bytes.map_or(StreamMessage::End, StreamMessage::Sound))
            }
        })
    }
}

/// A stream whose first message was received.
struct ProfileMusicStream {
    messages: MessageReader,
    vendor: ProfileMusic,
    /// Meaning of the first message, until returned.
    first: Option<VendorMusicLine>,
    /// Format of the files; `None` before the first sound.
    format: Option<SoundFormat>,
}

impl ProfileMusicStream {
    /// Returns the next item; `None` after the end reported by the vendor.
    async fn next(&mut self) -> Result<Option<MusicStreamItem>, MusicStreamError> {
        for _ in 0..IGNORED_LINES_MAX {
            let parsed = if let Some(first) = self.first.take() {
                first
            } else {
                let line = self.next_line().await.map_err(|reason| self.interrupted(&reason))?;
                line.ok_or_else(|| self.interrupted("it ended without `complete`"))?
            };
            match parsed {
                VendorMusicLine::Other => {}
                VendorMusicLine::Item(item) => return self.check_item(item).map(Some),
                VendorMusicLine::Complete if self.format.is_none() => {
                    return Err(self.interrupted("it was complete without sound"));
                }
                VendorMusicLine::Complete => return Ok(None),
                VendorMusicLine::Failed(failure) => return Err(MusicStreamError::Failed(failure)),
            }
        }

        Err(self.interrupted("it sent no known line for too long"))
    }

    /// Returns the meaning of the next message, or the reason why it is unknown.
    async fn next_line(&mut self) -> Result<Option<VendorMusicLine>, String> {
        let limit = self.vendor.options.line_timeout;
        let message = tokio::time::timeout(limit, self.messages.next()).await;
        let message = message.map_err(|_| format!("no line within {} s", limit.as_secs_f32()))?;
        let Some(message) = message.map_err(|failure| describe_failure(&failure))? else { return Ok(None) };
        let unreadable = || "a line is unreadable".to_owned();
        match message {
            StreamMessage::Json { event, data } => {
                let profile = Arc::clone(&self.vendor.profile);
                parse_line_off_thread(profile, event, data, self.vendor.connection.mask.clone())
                    .await
                    .map(Some)
                    .ok_or_else(unreadable)
            }
            StreamMessage::Sound(bytes) => self.raw_sound(&bytes).map(Some).ok_or_else(unreadable),
            StreamMessage::End => Ok(Some(VendorMusicLine::Complete)),
        }
    }

    /// Returns a chunk of a file, whose format the profile names.
    fn raw_sound(&self, bytes: &Bytes) -> Option<VendorMusicLine> {
        let stream = self.vendor.profile.file().stream.as_ref()?;
        let constant = |number: &Option<NumberSource>| match number {
            Some(NumberSource::Constant(number)) => Some(*number),
            _ => None,
        };
        let format = SoundFormat {
            sample_rate: constant(&stream.sample_rate)?,
            channels: u8::try_from(constant(&stream.channels)?).ok()?,
            encoding: Text::from_recorded(stream.default_encoding.clone().unwrap_or_default()),
        };
        let index = SoundFileIndex::SINGLE;
        Some(VendorMusicLine::Item(MusicStreamItem::Sound { index, format, data: bytes.to_vec() }))
    }

    /// Checks that all chunks of a file have the same format.
    fn check_item(&mut self, item: MusicStreamItem) -> Result<MusicStreamItem, MusicStreamError> {
        Ok(match item {
            MusicStreamItem::Sound { index, format, data } => {
                let format = self.complete_format(format, &data);
                if self.format.get_or_insert_with(|| format.clone()) != &format {
                    return Err(self.interrupted("the audio format changed"));
                }
                MusicStreamItem::Sound { index, format, data }
            }
            other => other,
        })
    }

    /// Adds the encoding, if the vendor did not name one: that of the chunks before, or the one that the first bytes
    /// show.
    fn complete_format(&self, format: SoundFormat, data: &[u8]) -> SoundFormat {
        if !format.encoding.as_str().is_empty() {
            return format;
        }
        let encoding = match &self.format {
            Some(earlier) => earlier.encoding.clone(),
            None => Text::from_recorded(detect_encoding(data).to_owned()),
        };
        SoundFormat { encoding, ..format }
    }

    fn mask_api_key(&self, text: &str) -> String {
        self.vendor.connection.mask_api_key(text)
    }

    fn interrupted(&self, reason: &str) -> MusicStreamError {
        let message = self.mask_api_key(&format!("the vendor stream broke off: {reason}; the call is not repeated"));
        MusicStreamError::Interrupted(TaskFailure::new("vendor_broke_off", &message))
    }
}

/// Parses a message; a large one on a blocking thread.
async fn parse_line_off_thread(
    profile: Arc<Profile>,
    event: Option<String>,
    line: Bytes,
    mask: CredentialMask,
) -> Option<VendorMusicLine> {
    /// Longest message, in bytes, that is parsed without a blocking thread.
    const PARSE_IN_PLACE_MAX: usize = 64 * 1024;

    let is_large = line.len() > PARSE_IN_PLACE_MAX;
    let parse = move || {
        let stream: &StreamFile = profile.file().stream.as_ref()?;
        profile.parse_music_line(stream, event.as_deref(), &line, &mask)
    };
    if is_large { tokio::task::spawn_blocking(parse).await.ok().flatten() } else { parse() }
}

fn describe_failure(failure: &CallFailure) -> String {
    match failure {
        CallFailure::TooLarge(bytes) => format!("a line is longer than {bytes} bytes"),
        CallFailure::TimedOut(limit) => format!("no data within {} s", limit.as_secs_f32()),
        other => other.to_string(),
    }
}

/// Returns the error of a response after which it is unknown whether the vendor started.
fn unreadable_response(reason: &str) -> VendorError {
    unknown_outcome(format!("unreadable response of the vendor: {reason}"))
}
