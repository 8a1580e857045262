//! Format of a profile file. `docs/vendor-profiles.md` explains its keys.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;

use super::template::{BodyTemplate, ResponseSources, TextTemplate};
use crate::vendors::SubmissionRecovery;

/// A profile file. Every key is optional, because the file may extend another one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::vendors) struct ProfileFile {
    pub description: Option<String>,
    pub source: Option<String>,
    pub checked: Option<String>,
    pub extends: Option<String>,
    pub url: Option<String>,
    pub prefix: Option<String>,
    pub auth: Option<AuthFile>,
    pub headers: IndexMap<String, String>,
    pub recovery: Option<RecoveryFile>,
    pub key_header: Option<String>,
    /// Time that a submission may take, unless the settings say otherwise. For vendors whose response is the result.
    pub submit_seconds: Option<u32>,
    /// Shortest pause between two polls of a job, unless the settings say otherwise.
    pub poll_seconds: Option<u32>,
    pub statuses: StatusesFile,
    pub errors: ErrorsFile,
    pub maps: IndexMap<String, IndexMap<String, Json>>,
    pub upload: Option<UploadFile>,
    pub health: Option<CallFile>,
    pub flows: IndexMap<String, FlowFile>,
    pub jobs: IndexMap<String, JobFile>,
    pub stream: Option<StreamFile>,
}

/// Header or query parameter of the API key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::vendors) struct AuthFile {
    pub header: Option<String>,
    /// `Basic` means that the key is `user:password`.
    pub scheme: Option<String>,
    pub query: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::vendors) enum RecoveryFile {
    Key,
    Search,
    Nothing,
}

impl From<RecoveryFile> for SubmissionRecovery {
    fn from(recovery: RecoveryFile) -> Self {
        match recovery {
            RecoveryFile::Key => Self::Key,
            RecoveryFile::Search => Self::Search,
            RecoveryFile::Nothing => Self::Nothing,
        }
    }
}

/// Meaning of HTTP statuses that differs from the usual one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::vendors) struct StatusesFile {
    pub refused: Vec<u16>,
    pub busy: Vec<u16>,
    pub unserved: Vec<u16>,
    pub unknown: Vec<u16>,
    /// Statuses of a poll that mean that the vendor does not know the job.
    pub lost: Option<Vec<u16>>,
}

/// Errors in responses.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::vendors) struct ErrorsFile {
    pub message: Option<ResponseSources>,
    pub code: Option<ResponseSources>,
    pub refused: Vec<String>,
    pub busy: Vec<String>,
    pub unserved: Vec<String>,
    /// Error codes that mean that the job has failed.
    pub failed: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(in crate::vendors) enum HttpMethod {
    Get,
    #[default]
    Post,
    Put,
    Delete,
}

impl HttpMethod {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// A request other than a submission.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::vendors) struct CallFile {
    #[serde(default = "get")]
    pub method: HttpMethod,
    pub path: TextTemplate,
    #[serde(default)]
    pub query: IndexMap<String, BodyTemplate>,
    pub json: Option<BodyTemplate>,
}

const fn get() -> HttpMethod {
    HttpMethod::Get
}

/// Upload of a picture before the submission.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::vendors) struct UploadFile {
    #[serde(default)]
    pub method: HttpMethod,
    pub path: TextTemplate,
    pub json: Option<BodyTemplate>,
    pub form: Option<IndexMap<String, BodyTemplate>>,
    /// Value in the response that represents the picture in the submission.
    pub name: ResponseSources,
}

/// Submission of a job.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::vendors) struct JobFile {
    pub flow: Option<String>,
    /// First part of the recorded reference; by default the name of the job.
    pub family: Option<String>,
    #[serde(default)]
    pub method: HttpMethod,
    pub path: TextTemplate,
    #[serde(default)]
    pub query: IndexMap<String, BodyTemplate>,
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    pub json: Option<BodyTemplate>,
    pub form: Option<IndexMap<String, BodyTemplate>>,
    /// JSON file beside the profile; `{{ document }}` in the body.
    pub document: Option<String>,
    /// Values put into the document, by JSON pointer.
    #[serde(default)]
    pub set: IndexMap<String, BodyTemplate>,
    #[serde(default)]
    pub vars: IndexMap<String, Json>,
}

impl JobFile {
    /// Returns the names in the templates of the submission.
    pub fn variables(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.path.collect_variables(&mut names);
        let fields = self.form.iter().flat_map(IndexMap::values);
        let templates = self.query.values().chain(&self.json).chain(fields).chain(self.set.values());
        templates.for_each(|template| template.collect_variables(&mut names));
        names
    }
}

/// Requests after a submission: poll, results, search and cancellation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::vendors) struct FlowFile {
    /// Root of the content of a response: the first of these pointers that exists.
    pub root: Option<ResponseSources>,
    /// The vendor's id; without it, the response to the submission is the result.
    pub id: Option<ResponseSources>,
    /// Reason, in a successful response to the submission, why there is no job.
    pub refusal: Option<ResponseSources>,
    #[serde(default)]
    pub poll: Vec<PollFile>,
    pub results: ResultsFile,
    #[serde(default)]
    pub cancel: Vec<CallFile>,
    /// Condition of the cancellation; a vendor that does not meet it gets no cancellation.
    pub cancel_requires: Option<VendorConditionFile>,
    pub search: Option<SearchFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::vendors) enum StateFile {
    Queued,
    Running,
    Done,
    Failed,
}

/// Request for the state of a job.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::vendors) struct PollFile {
    #[serde(default = "get")]
    pub method: HttpMethod,
    pub path: TextTemplate,
    #[serde(default)]
    pub query: IndexMap<String, BodyTemplate>,
    pub json: Option<BodyTemplate>,
    /// Must be true; otherwise the response is unreadable.
    pub valid: Option<ResponseSources>,
    pub state: ResponseSources,
    pub states: IndexMap<String, StateFile>,
    /// Meaning of a state that is not in `states`.
    #[serde(default = "running")]
    pub other: StateFile,
    /// `true` if a response without a state means that the next request has to be made.
    #[serde(default)]
    pub next_if_absent: bool,
    /// Id of the job, which the response repeats.
    pub echo: Option<ResponseSources>,
    pub progress: Option<ResponseSources>,
    /// Progress of a finished job: 1 or 100.
    pub progress_max: Option<f64>,
    pub queue_position: Option<ResponseSources>,
    /// Reason of the failure.
    pub failure: Option<ResponseSources>,
}

const fn running() -> StateFile {
    StateFile::Running
}

/// Location of the results of a finished job.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::vendors) struct ResultsFile {
    /// Request whose response names the results.
    pub request: Option<CallFile>,
    /// One result or a list of them.
    pub items: Option<ResponseSources>,
    /// URL in an item.
    pub url: Option<ResponseSources>,
    /// `true` if the URL may be a `data:` URI, so that the response is as large as a file.
    pub inline: bool,
    /// File in an item, in base64 or as a `data:` URI.
    pub base64: Option<ResponseSources>,
    /// Request whose response is the file of an item.
    pub download: Option<CallFile>,
    /// `true` if the response is the file.
    pub body: bool,
    pub cover: Option<ResponseSources>,
    pub watermarked: Option<ResponseSources>,
    pub vendor_id: Option<ResponseSources>,
}

/// Search for a job by the key of its submission.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::vendors) struct SearchFile {
    /// The id that the job must have, so that it is found by a poll.
    pub by_id: Option<TextTemplate>,
    #[serde(default = "get")]
    pub method: HttpMethod,
    pub path: Option<TextTemplate>,
    #[serde(default)]
    pub query: IndexMap<String, BodyTemplate>,
    /// The job or the list of jobs that were found.
    pub found: Option<ResponseSources>,
    /// Id of a found job.
    pub id: Option<ResponseSources>,
    /// Condition of the search.
    pub requires: Option<VendorConditionFile>,
}

/// Request whose response shows whether the vendor meets a condition, such as a version.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::vendors) struct VendorConditionFile {
    pub path: TextTemplate,
    /// Must be true.
    pub valid: ResponseSources,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::vendors) enum StreamFormat {
    /// A JSON value per line.
    Ndjson,
    /// Server-sent events whose data is JSON.
    Sse,
    /// The bytes of the file.
    Binary,
}

/// Stream of music.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::vendors) struct StreamFile {
    pub format: StreamFormat,
    /// Kind of a message; for server-sent events, the event type by default.
    pub kind: Option<ResponseSources>,
    /// Kinds of messages.
    #[serde(default)]
    pub kinds: IndexMap<String, MessageFile>,
    /// Data of the last server-sent event, if that is not JSON.
    pub end: Option<String>,
    pub seconds: Option<ResponseSources>,
    pub title: Option<ResponseSources>,
    pub tags: Option<ResponseSources>,
    pub stream_index: Option<ResponseSources>,
    pub prompt_index: Option<ResponseSources>,
    pub copy_index: Option<ResponseSources>,
    pub streams: Option<ResponseSources>,
    pub data: Option<ResponseSources>,
    pub sample_rate: Option<NumberSource>,
    pub channels: Option<NumberSource>,
    pub encoding: Option<ResponseSources>,
    /// Encoding of sound that names none.
    pub default_encoding: Option<String>,
    pub final_seconds: Option<ResponseSources>,
}

/// A number in a message, or the same number for all messages.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(in crate::vendors) enum NumberSource {
    Constant(u32),
    Source(ResponseSources),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::vendors) enum MessageFile {
    Length,
    Title,
    Sound,
    Finished,
    Complete,
    Error,
}

fn own_or_base<T>(own: Vec<T>, base: Vec<T>) -> Vec<T> {
    if own.is_empty() { base } else { own }
}

impl StatusesFile {
    fn merged_onto(self, base: Self) -> Self {
        Self {
            refused: own_or_base(self.refused, base.refused),
            busy: own_or_base(self.busy, base.busy),
            unserved: own_or_base(self.unserved, base.unserved),
            unknown: own_or_base(self.unknown, base.unknown),
            lost: self.lost.or(base.lost),
        }
    }
}

impl ErrorsFile {
    fn merged_onto(self, base: Self) -> Self {
        Self {
            message: self.message.or(base.message),
            code: self.code.or(base.code),
            refused: own_or_base(self.refused, base.refused),
            busy: own_or_base(self.busy, base.busy),
            unserved: own_or_base(self.unserved, base.unserved),
            failed: own_or_base(self.failed, base.failed),
        }
    }
}

impl ProfileFile {
    /// Completes this file with those values of `base` that it does not have.
    pub fn merged_onto(mut self, base: Self) -> Self {
        fn add_missing<T>(own: &mut IndexMap<String, T>, base: IndexMap<String, T>) {
            for (name, value) in base {
                own.entry(name).or_insert(value);
            }
        }

        add_missing(&mut self.headers, base.headers);
        add_missing(&mut self.maps, base.maps);
        add_missing(&mut self.flows, base.flows);
        add_missing(&mut self.jobs, base.jobs);
        Self {
            description: self.description.or(base.description),
            source: self.source.or(base.source),
            checked: self.checked.or(base.checked),
            url: self.url.or(base.url),
            prefix: self.prefix.or(base.prefix),
            auth: self.auth.or(base.auth),
            recovery: self.recovery.or(base.recovery),
            key_header: self.key_header.or(base.key_header),
            submit_seconds: self.submit_seconds.or(base.submit_seconds),
            poll_seconds: self.poll_seconds.or(base.poll_seconds),
            statuses: self.statuses.merged_onto(base.statuses),
            errors: self.errors.merged_onto(base.errors),
            upload: self.upload.or(base.upload),
            health: self.health.or(base.health),
            stream: self.stream.or(base.stream),
            ..self
        }
    }
}
