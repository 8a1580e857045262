//! Remote music vendor: the seed's music interface below a base URL. As for images, `request` and `answer` are pure. A
//! line is read only after the previous one was consumed, so a slow listener slows down the vendor. Dropping the stream
//! closes the connection.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;

use super::answer::{unknown, untaken};
use super::line::{unanswered, without_key};
use crate::clock::Surroundings;
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicMoment, MusicWork, SoundFormat};
use crate::domain::task::Failure;
use crate::domain::value::Text;
use crate::outbound::client::CallFailure;
use crate::outbound::lines::Lines;
use crate::outbound::vendor::{Listening, Posted, VendorCaller};
use crate::vendors::VendorError;
use crate::vendors::music::{MusicVendor, Playing, Stopped};

mod answer;
mod request;

use answer::Said;
use request::{Form, PATH, form};

/// Maximum number of bytes read of a response that is not music.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of consecutive lines that are ignored.
const PASSED_OVER_MAX: usize = 1_000;

/// Options of the vendor.
#[derive(Clone)]
pub struct MusicOptions {
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
    caller: VendorCaller,
    options: MusicOptions,
    surroundings: Surroundings,
}

impl RemoteMusic {
    /// Returns the vendor that `caller` reaches.
    #[must_use]
    pub fn new(caller: VendorCaller, options: MusicOptions, surroundings: Surroundings) -> Self {
        Self { caller, options, surroundings }
    }

    /// Posts the job and waits for the first line, which shows that the vendor accepted it.
    async fn begin(self, task: TaskId, work: MusicWork) -> Result<Heard, Stopped> {
        let options = self.options.clone();
        let told = |mut error: VendorError| {
            error.message = without_key(options.api_key.as_deref(), &error.message);
            Stopped::Untaken(error)
        };
        let lines = self.ask(task, &work).await.map_err(told)?;
        let mut heard = Heard { lines, options: self.options, first: None, format: None };
        let first = heard.line().await.map_err(|reason| told(unheard(&reason)))?;
        heard.first = Some(first.ok_or_else(|| told(unheard("it ended before its first line")))?);
        Ok(heard)
    }

    async fn ask(&self, task: TaskId, work: &MusicWork) -> Result<Lines, VendorError> {
        let key = task.to_string();
        let Form { content_type, body } = form(work, &key);
        let MusicOptions { line_timeout: silence, line_bytes, .. } = self.options;
        let posted = Posted { content_type, body: body.into() };
        let listening = Listening { silence, line_bytes };
        let key = (self.options.key_header.as_str(), key.as_str());
        let at = self.surroundings.now();
        let asked = self.caller.listen(PATH, key, posted, listening, at).await;
        let (answer, lines) = asked.map_err(|failure| unanswered(&failure, "the vendor was not reached"))?;
        if (200..=299).contains(&answer.status) {
            return Ok(lines);
        }

        let said = tokio::time::timeout(silence, lines.beginning(REFUSAL_BYTES_MAX)).await.unwrap_or_default();
        let mut error = untaken(answer.status, &said);
        error.retry_after = answer.retry_after;
        Err(error)
    }
}

impl MusicVendor for RemoteMusic {
    fn name(&self) -> &'static str {
        "remote-music"
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn play(&self, task: TaskId, work: MusicWork) -> Playing {
        let stage = Stage::Asked(Box::new((self.clone(), task, work)));
        stream::try_unfold(stage, Stage::next).boxed()
    }
}

/// Stage of a stream.
enum Stage {
    Asked(Box<(RemoteMusic, TaskId, MusicWork)>),
    Heard(Box<Heard>),
}

impl Stage {
    async fn next(self) -> Result<Option<(MusicMoment, Self)>, Stopped> {
        match self {
            Self::Asked(asked) => {
                let (vendor, task, work) = *asked;
                // The vendor's own task id comes only with the last line.
                let reference = Text::recorded(task.to_string());
                let heard = vendor.begin(task, work).await?;
                Ok(Some((MusicMoment::Taken { reference }, Self::Heard(Box::new(heard)))))
            }
            Self::Heard(mut heard) => Ok(heard.next().await?.map(|moment| (moment, Self::Heard(heard)))),
        }
    }
}

/// A stream whose first line was received.
struct Heard {
    lines: Lines,
    options: MusicOptions,
    /// Meaning of the first line, until returned.
    first: Option<Said>,
    /// Format of the files, once there was sound.
    format: Option<SoundFormat>,
}

impl Heard {
    /// Returns the next moment; `None` after the end reported by the vendor.
    async fn next(&mut self) -> Result<Option<MusicMoment>, Stopped> {
        for _ in 0..PASSED_OVER_MAX {
            let said = if let Some(first) = self.first.take() {
                first
            } else {
                let line = self.line().await.map_err(|reason| self.broken(&reason))?;
                line.ok_or_else(|| self.broken("it ended without saying that it was complete"))?
            };
            match said {
                Said::Other => {}
                Said::Moment(moment) => return self.checked(moment).map(Some),
                Said::Complete if self.format.is_none() => return Err(self.broken("it was complete without any sound")),
                Said::Complete => return Ok(None),
                Said::Failed(mut failure) => {
                    failure.message = Text::recorded(self.without_key(failure.message.as_str()));
                    return Err(Stopped::Failed(failure));
                }
            }
        }

        Err(self.broken("it went on without saying anything that is known here"))
    }

    /// Returns the meaning of the next line, or the reason why it is unknown.
    async fn line(&mut self) -> Result<Option<Said>, String> {
        let limit = self.options.line_timeout;
        let line = tokio::time::timeout(limit, self.lines.next()).await;
        let line = line.map_err(|_| format!("no line came within {} s", limit.as_secs_f32()))?;
        let Some(line) = line.map_err(|failure| reason(&failure))? else { return Ok(None) };
        read(line).await.map(Some).ok_or_else(|| "a line of it cannot be read".to_owned())
    }

    /// Checks that all chunks of a file have the same format, and masks credentials.
    fn checked(&mut self, moment: MusicMoment) -> Result<MusicMoment, Stopped> {
        Ok(match moment {
            MusicMoment::Sound { place, format, data } => {
                if self.format.get_or_insert_with(|| format.clone()) != &format {
                    return Err(self.broken("its sound changed its format on the way"));
                }
                let encoding = Text::recorded(self.without_key(format.encoding.as_str()));
                MusicMoment::Sound { place, format: SoundFormat { encoding, ..format }, data }
            }
            MusicMoment::Title { place, title, tags } => MusicMoment::Title {
                place,
                title: Text::recorded(self.without_key(title.as_str())),
                tags: tags.iter().map(|tag| self.without_key(tag)).collect(),
            },
            other => other,
        })
    }

    fn without_key(&self, text: &str) -> String {
        without_key(self.options.api_key.as_deref(), text)
    }

    fn broken(&self, reason: &str) -> Stopped {
        let message = self.without_key(&format!("the vendor's stream broke off: {reason}; it is not asked for again"));
        Stopped::Broken(Failure::new("vendor_broke_off", &message))
    }
}

/// Parses a line; a large one on a blocking thread.
async fn read(line: Bytes) -> Option<Said> {
    const READ_IN_PLACE_MAX: usize = 64 * 1024;
    if line.len() <= READ_IN_PLACE_MAX {
        return answer::said(&line);
    }
    tokio::task::spawn_blocking(move || answer::said(&line)).await.ok().flatten()
}

fn reason(failure: &CallFailure) -> String {
    match failure {
        CallFailure::TooLarge(bytes) => format!("a line of it is longer than {bytes} bytes"),
        CallFailure::TooSlow(limit) => format!("nothing came within {} s", limit.as_secs_f32()),
        other => other.to_string(),
    }
}

/// Returns the error of a response after which it is unknown whether the vendor started.
fn unheard(reason: &str) -> VendorError {
    unknown(format!("the vendor's answer cannot be listened to: {reason}"))
}
