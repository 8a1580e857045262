//! Remote music vendor: the seed's music interface below a base URL. As for images, `request` and `response` are pure.
//! A line is read only after the previous one was consumed, so a slow listener slows down the vendor. Dropping the
//! stream closes the connection.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;

use super::connection::{mask_api_key, no_response_error};
use super::response::{submission_error, unknown_outcome};
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicJob, MusicStreamItem, MusicWork, SoundFormat};
use crate::domain::task::TaskFailure;
use crate::domain::value::Text;
use crate::environment::Environment;
use crate::outbound::client::CallFailure;
use crate::outbound::ndjson::NdjsonReader;
use crate::outbound::vendor_client::{StreamingLimits, VendorClient, VendorPostBody};
use crate::vendors::VendorError;
use crate::vendors::music::{MusicStreamError, MusicVendor, VendorMusicStream};

mod request;
mod response;

use request::{GENERATE_PATH, MultipartBody, build_form};
use response::VendorMusicLine;

/// Maximum number of bytes read of a response that is not music.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of consecutive lines that are ignored.
const IGNORED_LINES_MAX: usize = 1_000;

/// Options of the vendor.
#[derive(Clone)]
pub struct RemoteMusicOptions {
    /// Header with the key of a submission.
    pub key_header: String,
    /// Longest time between two meaningful lines.
    pub line_timeout: Duration,
    /// Longest line, in bytes.
    pub line_bytes: usize,
    /// Masked in all messages of the vendor.
    pub api_key: Option<String>,
}

/// The remote music vendor. Cheap to clone.
#[derive(Clone)]
pub struct RemoteMusic {
    caller: VendorClient,
    options: RemoteMusicOptions,
    environment: Environment,
}

impl RemoteMusic {
    /// Returns the vendor that `caller` reaches.
    #[must_use]
    pub fn new(caller: VendorClient, options: RemoteMusicOptions, environment: Environment) -> Self {
        Self { caller, options, environment }
    }

    /// Posts the job and waits for the first line, which shows that the vendor accepted it.
    async fn open_stream(self, task: TaskId, work: MusicWork) -> Result<RemoteMusicStream, MusicStreamError> {
        let options = self.options.clone();
        let not_accepted = |mut error: VendorError| {
            error.message = mask_api_key(options.api_key.as_deref(), &error.message);
            MusicStreamError::NotAccepted(error)
        };

        let lines = self.submit(task, &work).await.map_err(not_accepted)?;
        let mut stream = RemoteMusicStream { lines, options: self.options, first: None, format: None };
        let first = stream.next_line().await.map_err(|reason| not_accepted(unreadable_response(&reason)))?;
        stream.first = Some(first.ok_or_else(|| not_accepted(unreadable_response("it ended before the first line")))?);
        Ok(stream)
    }

    async fn submit(&self, task: TaskId, work: &MusicWork) -> Result<NdjsonReader, VendorError> {
        let key = task.to_string();
        let MultipartBody { content_type, body } = build_form(work, &key);
        let post_body = VendorPostBody { content_type, body: body.into() };
        let RemoteMusicOptions { line_timeout: idle_timeout, line_bytes, .. } = self.options;
        let limits = StreamingLimits { idle_timeout, line_bytes };

        let key = (self.options.key_header.as_str(), key.as_str());
        let at = self.environment.now();
        let result = self.caller.post_streaming(GENERATE_PATH, key, post_body, limits, at).await;
        let (response, lines) = result.map_err(|failure| no_response_error(&failure, "the vendor is unreachable"))?;
        if (200..=299).contains(&response.status) {
            return Ok(lines);
        }

        let error_body =
            tokio::time::timeout(idle_timeout, lines.read_prefix(ERROR_BODY_BYTES_MAX)).await.unwrap_or_default();
        let mut error = submission_error(response.status, &error_body);
        error.retry_after = response.retry_after;
        Err(error)
    }
}

impl MusicVendor for RemoteMusic {
    fn name(&self) -> &str {
        "remote-music"
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn play(&self, job: MusicJob) -> VendorMusicStream {
        let stage = MusicStreamStage::NotSubmitted(Box::new((self.clone(), job)));
        stream::try_unfold(stage, MusicStreamStage::next).boxed()
    }
}

/// Stage of a stream.
enum MusicStreamStage {
    NotSubmitted(Box<(RemoteMusic, MusicJob)>),
    Streaming(Box<RemoteMusicStream>),
}

impl MusicStreamStage {
    async fn next(self) -> Result<Option<(MusicStreamItem, Self)>, MusicStreamError> {
        match self {
            Self::NotSubmitted(request) => {
                let (vendor, MusicJob { task, work, .. }) = *request;
                // The vendor's own task id comes only with the last line.
                let reference = Text::from_recorded(task.to_string());
                let stream = vendor.open_stream(task, work).await?;
                Ok(Some((MusicStreamItem::Accepted { reference }, Self::Streaming(Box::new(stream)))))
            }
            Self::Streaming(mut stream) => Ok(stream.next().await?.map(|item| (item, Self::Streaming(stream)))),
        }
    }
}

/// A stream whose first line was received.
struct RemoteMusicStream {
    lines: NdjsonReader,
    options: RemoteMusicOptions,
    /// Meaning of the first line, until returned.
    first: Option<VendorMusicLine>,
    /// Format of the files, once there was sound.
    format: Option<SoundFormat>,
}

impl RemoteMusicStream {
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
                VendorMusicLine::Moment(item) => return self.check_item(item).map(Some),
                VendorMusicLine::Complete if self.format.is_none() => {
                    return Err(self.interrupted("it was complete without sound"));
                }
                VendorMusicLine::Complete => return Ok(None),
                VendorMusicLine::Failed(mut failure) => {
                    failure.message = Text::from_recorded(self.mask_api_key(failure.message.as_str()));
                    return Err(MusicStreamError::Failed(failure));
                }
            }
        }

        Err(self.interrupted("it sent no known line for too long"))
    }

    /// Returns the meaning of the next line, or the reason why it is unknown.
    async fn next_line(&mut self) -> Result<Option<VendorMusicLine>, String> {
        let limit = self.options.line_timeout;
        let line = tokio::time::timeout(limit, self.lines.next()).await;
        let line = line.map_err(|_| format!("no line within {} s", limit.as_secs_f32()))?;
        let Some(line) = line.map_err(|failure| describe_failure(&failure))? else { return Ok(None) };
        parse_line_off_thread(line).await.map(Some).ok_or_else(|| "a line is unreadable".to_owned())
    }

    /// Checks that all chunks of a file have the same format, and masks credentials.
    fn check_item(&mut self, item: MusicStreamItem) -> Result<MusicStreamItem, MusicStreamError> {
        Ok(match item {
            MusicStreamItem::Sound { index, format, data } => {
                if self.format.get_or_insert_with(|| format.clone()) != &format {
                    return Err(self.interrupted("the audio format changed"));
                }
                let encoding = Text::from_recorded(self.mask_api_key(format.encoding.as_str()));
                MusicStreamItem::Sound { index, format: SoundFormat { encoding, ..format }, data }
            }
            MusicStreamItem::Title { index, title, tags } => MusicStreamItem::Title {
                index,
                title: Text::from_recorded(self.mask_api_key(title.as_str())),
                tags: tags.iter().map(|tag| self.mask_api_key(tag)).collect(),
            },
            other => other,
        })
    }

    fn mask_api_key(&self, text: &str) -> String {
        mask_api_key(self.options.api_key.as_deref(), text)
    }

    fn interrupted(&self, reason: &str) -> MusicStreamError {
        let message = self.mask_api_key(&format!("the vendor stream broke off: {reason}; the call is not repeated"));
        MusicStreamError::Interrupted(TaskFailure::new("vendor_broke_off", &message))
    }
}

/// Parses a line; a large one on a blocking thread.
async fn parse_line_off_thread(line: Bytes) -> Option<VendorMusicLine> {
    const PARSE_IN_PLACE_MAX: usize = 64 * 1024;
    if line.len() <= PARSE_IN_PLACE_MAX {
        return response::parse_line(&line);
    }
    tokio::task::spawn_blocking(move || response::parse_line(&line)).await.ok().flatten()
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
