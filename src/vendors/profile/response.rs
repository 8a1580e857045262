//! Meaning of a vendor's responses for a task; described in `docs/vendors.md`. Without side effects.
//!
//! A submission is accepted, refused, or its outcome is unknown (contract 5). A response that does not clearly mean one
//! of the first two means the third.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value as Json;

use super::Profile;
use super::file::{FlowFile, PollFile, ResultsFile, SearchFile, StateFile, VendorConditionFile};
use super::request::PreparedRequest;
use super::template::{ResponseSources, TemplateScope, json_to_value};
use crate::domain::task::TaskFailure;
use crate::vendors::credential_mask::CredentialMask;
use crate::vendors::{VendorError, VendorErrorKind};

/// Maximum length of a vendor's job id, in characters.
const ID_MAX: usize = 150;
/// Maximum length of the vendor's id of a video, in characters.
const VIDEO_ID_MAX: usize = 200;
/// Maximum number of results of one job.
pub(in crate::vendors) const RESULTS_MAX: usize = 16;
/// Maximum length of a vendor's message that is passed on, in characters.
const MESSAGE_MAX: usize = 400;
/// JSON pointers that usually lead to the message of an error. The profile can name others, which take precedence.
const MESSAGE_POINTERS: [&str; 7] =
    ["/error/message", "/error/detail", "/error/title", "/message", "/detail", "/error", "/title"];

/// A response of a vendor, parsed if it is JSON, with the mask for its texts.
#[derive(Debug, Clone)]
pub(in crate::vendors) struct ParsedResponse {
    pub status: u16,
    pub body: Bytes,
    /// The body, if it is JSON.
    pub json: Option<Json>,
    /// Applied to all texts of the response.
    mask: CredentialMask,
}

impl ParsedResponse {
    pub fn new(status: u16, body: Bytes) -> Self {
        let json = serde_json::from_slice(&body).ok();
        Self { status, body, json, mask: CredentialMask::default() }
    }

    pub fn with_mask(self, mask: &CredentialMask) -> Self {
        Self { mask: mask.clone(), ..self }
    }
}

/// Meaning of a response to a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) enum SubmissionMeaning {
    /// Accepted under this id.
    Accepted(String),
    /// The response is the result; none of it is usable if the list is empty.
    Finished(Vec<ResultItem>),
}

/// Progress of a job as reported by the vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) enum JobReport {
    Queued {
        queue_position: Option<u32>,
    },
    /// In progress; `permille` is the reported progress in thousandths.
    Running {
        permille: Option<u16>,
    },
    /// Done; the response names the results.
    Done(Vec<ResultItem>),
    /// Done; another request names the results.
    DoneElsewhere(Box<FollowUpRequest>),
    /// Done, but the response names no usable result.
    DoneWithoutResult(TaskFailure),
    Failed(TaskFailure),
    /// Unknown to the vendor.
    Lost,
    /// Not found by this request; the next request of the flow may find it.
    Absent,
}

/// A request that is made later.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::vendors) struct FollowUpRequest(pub PreparedRequest);

impl Eq for FollowUpRequest {}

/// A result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) struct ResultItem {
    pub file: ResultLocation,
    pub cover: Option<ResultLocation>,
    pub watermarked: Option<ResultLocation>,
    pub vendor_id: Option<String>,
}

/// Location of a result file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) enum ResultLocation {
    Url(String),
    /// The file itself, in the response.
    Inline(Bytes),
    /// The file is the response to another request to the vendor.
    Download(Box<FollowUpRequest>),
}

impl ResultLocation {
    /// Returns the size of the file, if it is in memory.
    pub fn inline_bytes(&self) -> usize {
        if let Self::Inline(bytes) = self { bytes.len() } else { 0 }
    }
}

/// Effect of a request at the vendor. The meaning of some statuses depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestEffect {
    /// The request may start a job.
    StartsJob,
    /// The request starts no job, so it may be repeated after any outcome.
    StartsNothing,
}

/// Meaning of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatusClass {
    Success,
    Refused,
    Busy,
    Unserved,
    Unknown,
}

impl Profile {
    /// Returns the meaning of the response to a submission.
    pub(in crate::vendors) fn parse_submission(
        &self,
        flow: &FlowFile,
        response: &ParsedResponse,
        scope: &TemplateScope,
    ) -> Result<SubmissionMeaning, VendorError> {
        if self.status_class(response, RequestEffect::StartsJob) != StatusClass::Success {
            return Err(self.submission_error(response));
        }

        let scope = &scope_with_status(scope, response.status);
        let task = content(flow, response);

        let refusal = flow.refusal.as_ref().zip(task).and_then(|(refusal, task)| refusal.find_text(task, scope));
        if let Some(reason) = refusal {
            let message = format!("the vendor rejected the job ({})", shorten(&reason, &response.mask));
            return Err(VendorError::new(VendorErrorKind::Refused, message));
        }

        let Some(id) = &flow.id else {
            let items = self.parse_items(&flow.results, response, task, scope);
            let is_about_results = task.is_some_and(|task| has_results(&flow.results, task, scope));
            let items = items.or_else(|| is_about_results.then(Vec::new));
            return items.map(SubmissionMeaning::Finished).ok_or_else(|| {
                let description = self.describe(response);
                unknown_outcome(format!("the response to the submission has no result ({description})"))
            });
        };

        let job_id = id.find(task.unwrap_or(&Json::Null), scope).and_then(usable_id);
        job_id.map(SubmissionMeaning::Accepted).ok_or_else(|| {
            let description = self.describe(response);
            unknown_outcome(format!("the response to the submission has no task id ({description})"))
        })
    }

    /// Returns the error of a submission whose status is not 2xx.
    pub(in crate::vendors) fn submission_error(&self, response: &ParsedResponse) -> VendorError {
        self.error_of_class(response, self.status_class(response, RequestEffect::StartsJob))
    }

    fn error_of_class(&self, response: &ParsedResponse, class: StatusClass) -> VendorError {
        let description = self.describe(response);
        match class {
            StatusClass::Busy => busy_error(&description),
            StatusClass::Unserved => unserved_error(&description),
            StatusClass::Refused => {
                VendorError::new(VendorErrorKind::Refused, format!("the vendor rejected the job ({description})"))
            }
            StatusClass::Success | StatusClass::Unknown => {
                unknown_outcome(format!("the vendor failed during the submission ({description})"))
            }
        }
    }

    /// Returns the error of an upload, which never starts a job.
    pub(in crate::vendors) fn upload_error(&self, response: &ParsedResponse) -> VendorError {
        let mut error = self.error_of_class(response, self.status_class(response, RequestEffect::StartsNothing));
        if error.kind == VendorErrorKind::Unknown {
            let description = self.describe(response);
            error.kind = VendorErrorKind::Unreached;
            error.message = format!("the vendor failed during the upload of a picture ({description})");
        }
        error
    }

    /// Returns the name that an upload gave to a picture.
    pub(in crate::vendors) fn parse_upload(
        &self,
        name: &ResponseSources,
        response: &ParsedResponse,
        scope: &TemplateScope,
    ) -> Result<Json, VendorError> {
        if self.status_class(response, RequestEffect::StartsNothing) != StatusClass::Success {
            return Err(self.upload_error(response));
        }

        let picture_name = response.json.as_ref().and_then(|json| name.find(json, scope));
        picture_name.ok_or_else(|| {
            let description = self.describe(response);
            let message = format!("the response to the upload of a picture is unreadable ({description})");
            VendorError::new(VendorErrorKind::Unreached, message)
        })
    }

    /// Returns the progress of the job with this id.
    pub(in crate::vendors) fn parse_poll(
        &self,
        flow: &FlowFile,
        poll: &PollFile,
        response: &ParsedResponse,
        (id, scope): (&str, &TemplateScope),
    ) -> Result<JobReport, VendorError> {
        if self.is_lost(response.status) {
            return Ok(if poll.next_if_absent { JobReport::Absent } else { JobReport::Lost });
        }

        // If the results have a separate request, an error of the status request does not mean that the job failed.
        if flow.results.request.is_none()
            && let Some(failure) = self.coded_failure(response)
        {
            return Ok(JobReport::Failed(failure));
        }

        self.check_read(response, "the vendor failed to report the status of the task")?;
        let scope = &scope_with_status(scope, response.status);
        self.parse_progress(flow, poll, response, (id, scope)).ok_or_else(|| self.unreadable_job(response))
    }

    /// Returns `None` if the response is about another job or has unexpected types.
    fn parse_progress(
        &self,
        flow: &FlowFile,
        poll: &PollFile,
        response: &ParsedResponse,
        (id, scope): (&str, &TemplateScope),
    ) -> Option<JobReport> {
        let task = content(flow, response);
        let null = Json::Null;
        // A response that is a file instead of JSON shows the state only by its status.
        let task = if flow.results.body { task.unwrap_or(&null) } else { task? };

        let echoed = poll.echo.as_ref().and_then(|echo| echo.find(task, scope));
        if echoed.is_some_and(|echoed| echoed.as_str() != Some(id)) {
            return None;
        }

        let is_valid = |valid: &ResponseSources| valid.try_find(task, scope) == Ok(Some(Json::Bool(true)));
        if poll.valid.as_ref().is_some_and(|valid| !is_valid(valid)) {
            return None;
        }

        // An expression that does not fit the response does not mean that the job is absent.
        let state = match poll.state.try_find(task, scope).ok()? {
            Some(Json::String(state)) => state,
            Some(Json::Bool(state)) => state.to_string(),
            None if poll.next_if_absent => return Some(JobReport::Absent),
            Some(_) | None => return None,
        };

        Some(match poll.states.get(&state).copied().unwrap_or(poll.other) {
            StateFile::Queued => JobReport::Queued {
                queue_position: poll
                    .queue_position
                    .as_ref()
                    .and_then(|source| source.find(task, scope)?.as_u64())
                    .and_then(|position| u32::try_from(position).ok()),
            },
            StateFile::Running => JobReport::Running { permille: parse_permille(poll, task, scope) },
            StateFile::Failed => JobReport::Failed(self.failure(poll.failure.as_ref(), task, scope, &response.mask)),
            StateFile::Done => match &flow.results.request {
                Some(call) => {
                    let request = PreparedRequest::call(self.prefix(), call, scope).ok()?;
                    JobReport::DoneElsewhere(Box::new(FollowUpRequest(request)))
                }
                None => self.done(response, self.parse_items(&flow.results, response, Some(task), scope)),
            },
        })
    }

    /// Returns the report of a job whose results have a separate request, from the response to that request.
    pub(in crate::vendors) fn parse_results(
        &self,
        flow: &FlowFile,
        response: &ParsedResponse,
        scope: &TemplateScope,
    ) -> Result<JobReport, VendorError> {
        // This response, not that to the status request, says why the job failed.
        if let Some(failure) = self.coded_failure(response) {
            return Ok(JobReport::Failed(failure));
        }
        if self.status_class(response, RequestEffect::StartsNothing) == StatusClass::Refused {
            let json = response.json.as_ref().unwrap_or(&Json::Null);
            return Ok(JobReport::Failed(self.failure(None, json, scope, &response.mask)));
        }

        self.check_read(response, "the vendor failed to report the results of the task")?;
        let task = content(flow, response);
        if task.is_none() && !flow.results.body {
            return Err(self.unreadable_job(response));
        }
        Ok(self.done(response, self.parse_items(&flow.results, response, task, scope)))
    }

    /// Returns the report of a finished job. A job without a usable result does not count as an outage of the vendor.
    fn done(&self, response: &ParsedResponse, items: Option<Vec<ResultItem>>) -> JobReport {
        items.map_or_else(|| JobReport::DoneWithoutResult(no_result_failure(&self.describe(response))), JobReport::Done)
    }

    /// Returns `true` if the response to a condition says that the vendor meets it.
    pub(in crate::vendors) fn parse_condition(
        &self,
        condition: &VendorConditionFile,
        response: &ParsedResponse,
    ) -> Result<bool, VendorError> {
        self.check_read(response, "the vendor failed to report whether it meets the condition of its profile")?;
        let json = response.json.as_ref().unwrap_or(&Json::Null);
        Ok(condition.valid.try_find(json, &TemplateScope::new()) == Ok(Some(Json::Bool(true))))
    }

    /// Returns the id of the job that the vendor found by a key; `None` if it found none. Several jobs mean that the
    /// vendor ignored the key. A response of another form does not say that there is no job.
    pub(in crate::vendors) fn parse_search(
        &self,
        search: &SearchFile,
        response: &ParsedResponse,
        scope: &TemplateScope,
    ) -> Result<Option<String>, VendorError> {
        if self.is_lost(response.status) {
            return Ok(None);
        }
        self.check_read(response, "the vendor failed during the search")?;

        let description = self.describe(response);
        let unreadable = || unknown_outcome(format!("the response to the search is unreadable ({description})"));
        let json = response.json.as_ref().ok_or_else(unreadable)?;
        let jobs = match &search.found {
            Some(source) => source.try_find(json, scope).ok().flatten().ok_or_else(unreadable)?,
            None => json.clone(),
        };
        let id = |job: &Json| search.id.as_ref().and_then(|id| id.find(job, scope)).and_then(usable_id);

        match &jobs {
            Json::Array(jobs) if jobs.is_empty() => Ok(None),
            Json::Array(jobs) if jobs.len() > 1 => {
                Err(unknown_outcome(format!("the vendor found {} tasks with one key", jobs.len())))
            }
            Json::Array(jobs) => jobs.iter().find_map(id).map(Some).ok_or_else(unreadable),
            job => id(job).map(Some).ok_or_else(unreadable),
        }
    }

    /// Returns `Ok` if the response to a health check, which is usually about a job that does not exist, shows a
    /// working vendor: the job is rejected, or the response is JSON.
    pub(in crate::vendors) fn parse_health_check(&self, response: &ParsedResponse) -> Result<(), VendorError> {
        match response.status {
            400 | 404 | 410 | 422 => Ok(()),
            200..=299 if response.json.is_some() => Ok(()),
            _ => self.check_read(response, "the vendor failed the health check").and_then(|()| {
                let description = self.describe(response);
                Err(unknown_outcome(format!("the vendor failed the health check ({description})")))
            }),
        }
    }

    /// Returns `Ok` if a job was cancelled, or the vendor says that it cannot be.
    pub(in crate::vendors) fn parse_cancel(&self, response: &ParsedResponse) -> Result<(), VendorError> {
        match self.status_class(response, RequestEffect::StartsNothing) {
            StatusClass::Success | StatusClass::Refused => Ok(()),
            _ if self.is_lost(response.status) => Ok(()),
            _ => self.check_read(response, "the vendor failed to cancel the task"),
        }
    }

    /// Checks the status of a request that only reads. `failure_message` begins the message of an error.
    fn check_read(&self, response: &ParsedResponse, failure_message: &str) -> Result<(), VendorError> {
        let description = || self.describe(response);
        match self.status_class(response, RequestEffect::StartsNothing) {
            StatusClass::Success => Ok(()),
            StatusClass::Busy => Err(busy_error(&description())),
            StatusClass::Unserved => Err(unserved_error(&description())),
            StatusClass::Refused | StatusClass::Unknown => {
                Err(unknown_outcome(format!("{failure_message} ({})", description())))
            }
        }
    }

    fn unreadable_job(&self, response: &ParsedResponse) -> VendorError {
        let description = self.describe(response);
        unknown_outcome(format!("the response about the task is unreadable ({description})"))
    }

    fn is_lost(&self, status: u16) -> bool {
        self.file().statuses.lost.as_ref().map_or(matches!(status, 404 | 410), |lost| lost.contains(&status))
    }

    /// Returns the failure of a job, if the error code of a response about it means one.
    fn coded_failure(&self, response: &ParsedResponse) -> Option<TaskFailure> {
        let is_error = (400..=599).contains(&response.status);
        let code = self.error_code(response).filter(|code| is_error && self.file().errors.failed.contains(code));
        let json = response.json.as_ref()?;
        code.map(|_| self.failure(None, json, &TemplateScope::new(), &response.mask))
    }

    fn error_code(&self, response: &ParsedResponse) -> Option<String> {
        self.file().errors.code.as_ref()?.find_text(response.json.as_ref()?, &TemplateScope::new())
    }

    /// Classifies a response by its error code, else by the statuses of the profile, else by the usual meaning.
    fn status_class(&self, response: &ParsedResponse, effect: RequestEffect) -> StatusClass {
        let status = response.status;
        if (200..=299).contains(&status) {
            return StatusClass::Success;
        }

        let errors = &self.file().errors;
        let code = self.error_code(response);
        let statuses_with_code = if effect == RequestEffect::StartsJob { 400..=499 } else { 400..=599 };
        if let Some(code) = code.filter(|_| statuses_with_code.contains(&status)) {
            let classes = [
                (&errors.refused, StatusClass::Refused),
                (&errors.busy, StatusClass::Busy),
                (&errors.unserved, StatusClass::Unserved),
            ];
            if let Some((_, class)) = classes.into_iter().find(|(codes, _)| codes.contains(&code)) {
                return class;
            }
        }

        let statuses = &self.file().statuses;
        let classes = [
            (&statuses.refused, StatusClass::Refused),
            (&statuses.busy, StatusClass::Busy),
            (&statuses.unserved, StatusClass::Unserved),
            (&statuses.unknown, StatusClass::Unknown),
        ];
        let class = classes.into_iter().find(|(listed, _)| listed.contains(&status)).map(|(_, class)| class);
        class.unwrap_or_else(|| usual_class(status, effect))
    }

    /// Returns the failure reported by the vendor.
    pub(in crate::vendors) fn failure(
        &self,
        sources: Option<&ResponseSources>,
        json: &Json,
        scope: &TemplateScope,
        mask: &CredentialMask,
    ) -> TaskFailure {
        let message = sources.and_then(|sources| sources.find_text(json, scope)).map(|text| shorten(&text, mask));
        let message = message.or_else(|| self.message(json, mask)).unwrap_or_else(|| "no reason given".to_owned());
        TaskFailure::new("vendor_failed", &format!("the vendor failed: {message}"))
    }

    /// Describes a response: its status, and its message if there is one.
    fn describe(&self, response: &ParsedResponse) -> String {
        let message = response.json.as_ref().and_then(|json| self.message(json, &response.mask));
        let status = response.status;
        message.map_or_else(|| format!("status {status}"), |message| format!("status {status}: {message}"))
    }

    fn message(&self, json: &Json, mask: &CredentialMask) -> Option<String> {
        let own = self.file().errors.message.as_ref();
        let text = own.and_then(|sources| sources.find_text(json, &TemplateScope::new()));
        let usual = || {
            let texts = MESSAGE_POINTERS.iter().filter_map(|pointer| json.pointer(pointer)?.as_str());
            texts.into_iter().find(|text| !text.trim().is_empty()).map(str::to_owned)
        };
        text.or_else(usual).map(|text| shorten(&text, mask))
    }

    /// Returns the results that a response names; `None` if there are none or too many, or one is unusable.
    fn parse_items(
        &self,
        results: &ResultsFile,
        response: &ParsedResponse,
        content: Option<&Json>,
        scope: &TemplateScope,
    ) -> Option<Vec<ResultItem>> {
        if results.body {
            let is_file = response.json.is_none() && !response.body.is_empty();
            let file = ResultLocation::Inline(response.body.clone());
            return is_file.then(|| vec![ResultItem { file, cover: None, watermarked: None, vendor_id: None }]);
        }

        let content = content?;
        let value = match &results.items {
            Some(items) => items.find(content, scope)?,
            None => content.clone(),
        };
        let items = match value {
            Json::Array(items) => items,
            single => vec![single],
        };

        if items.is_empty() || items.len() > RESULTS_MAX {
            return None;
        }
        items.iter().map(|item| self.parse_item(results, item, scope)).collect()
    }

    fn parse_item(&self, results: &ResultsFile, item: &Json, scope: &TemplateScope) -> Option<ResultItem> {
        let text =
            |sources: &Option<ResponseSources>| sources.as_ref().and_then(|sources| sources.find_text(item, scope));
        let file = if let Some(call) = &results.download {
            let mut scope = scope.clone();
            scope.insert("item".to_owned(), json_to_value(item));
            let request = PreparedRequest::call(self.prefix(), call, &scope).ok()?;
            ResultLocation::Download(Box::new(FollowUpRequest(request)))
        } else if results.base64.is_some() {
            ResultLocation::Inline(decode_base64(&text(&results.base64)?)?)
        } else {
            location_from_url(text(&results.url)?)?
        };

        Some(ResultItem {
            file,
            cover: text(&results.cover).and_then(location_from_url),
            watermarked: text(&results.watermarked).and_then(location_from_url),
            vendor_id: text(&results.vendor_id)
                .filter(|id| id.chars().count() <= VIDEO_ID_MAX && !id.chars().any(char::is_control)),
        })
    }
}

/// Returns the content of a response, below the root of the flow.
fn content<'j>(flow: &FlowFile, response: &'j ParsedResponse) -> Option<&'j Json> {
    let json = response.json.as_ref()?;
    let Some(root) = &flow.root else { return Some(json) };
    root.pointers().find_map(|pointer| json.pointer(pointer))
}

/// Returns `true` if a response has a value where the profile expects results, usable or not.
fn has_results(results: &ResultsFile, content: &Json, scope: &TemplateScope) -> bool {
    let sources = [&results.items, &results.base64, &results.url];
    sources.into_iter().flatten().next().is_some_and(|source| source.find(content, scope).is_some())
}

fn scope_with_status(scope: &TemplateScope, status: u16) -> TemplateScope {
    let mut scope = scope.clone();
    scope.insert("status".to_owned(), status.into());
    scope
}

/// Returns the location of a URL; a `data:` URI is decoded.
fn location_from_url(url: String) -> Option<ResultLocation> {
    if url.starts_with("data:") {
        return decode_base64(&url).map(ResultLocation::Inline);
    }
    Some(ResultLocation::Url(url))
}

/// Decodes base64, with or without the head of a `data:` URI.
fn decode_base64(text: &str) -> Option<Bytes> {
    let data = if text.starts_with("data:") { text.split_once(',')?.1 } else { text };
    STANDARD.decode(data.trim()).ok().filter(|bytes| !bytes.is_empty()).map(Bytes::from)
}

fn usable_id(id: Json) -> Option<String> {
    let Json::String(id) = id else { return None };
    let is_usable = !matches!(id.as_str(), "" | "." | "..");
    (is_usable && id.chars().count() <= ID_MAX && !id.chars().any(char::is_control)).then_some(id)
}

/// Returns the progress in thousandths; `None` unless it is a number within the scale.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range that is checked")]
fn parse_permille(poll: &PollFile, task: &Json, scope: &TemplateScope) -> Option<u16> {
    let progress = poll.progress.as_ref()?.find(task, scope)?.as_f64()? / poll.progress_max.unwrap_or(1.0);
    (0.0..=1.0).contains(&progress).then_some((progress * 1000.0) as u16)
}

/// Returns the meaning of a status for which the profile defines none.
const fn usual_class(status: u16, effect: RequestEffect) -> StatusClass {
    match (status, effect) {
        (200..=299, _) => StatusClass::Success,
        (425 | 429, _) | (408 | 503, RequestEffect::StartsNothing) => StatusClass::Busy,
        // Wrong credentials, credit or address: nothing was started, and the task is not at fault.
        (401 | 402 | 403 | 404 | 405 | 407, _) | (300..=399, RequestEffect::StartsNothing) => StatusClass::Unserved,
        // A redirect may follow a started job, 408 and 503 may come from a proxy that had passed the request on, and a
        // vendor that supports keys may answer 409 while the first call with the key is in progress.
        (0..=399 | 408 | 409 | 500.., _) => StatusClass::Unknown,
        (400..=499, _) => StatusClass::Refused,
    }
}

/// Returns the failure of a job that the vendor reports as done, without a usable result.
pub(in crate::vendors) fn no_result_failure(description: &str) -> TaskFailure {
    let message = format!("the vendor reports the job as done, but without a usable result ({description})");
    TaskFailure::new("result_invalid", &message)
}

fn unserved_error(message: &str) -> VendorError {
    VendorError::new(VendorErrorKind::Unserved, format!("the vendor rejects this service ({message})"))
}

fn busy_error(message: &str) -> VendorError {
    VendorError::new(VendorErrorKind::Busy, format!("the vendor is at capacity ({message})"))
}

pub(in crate::vendors) fn unknown_outcome(message: String) -> VendorError {
    VendorError::new(VendorErrorKind::Unknown, message)
}

/// Shortens text of a vendor to [`MESSAGE_MAX`], masks credentials and replaces control characters by spaces.
fn shorten(text: &str, mask: &CredentialMask) -> String {
    mask.apply(text).chars().map(|c| if c.is_control() { ' ' } else { c }).take(MESSAGE_MAX).collect()
}
