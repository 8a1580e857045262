//! Remote vendors, driven by a [`Profile`]. This file contains the vendor of images and videos, `music` that of music.
//!
//! The vendors keep nothing between calls, except results that could not be stored yet, and whether the vendor ignores
//! the ids that it is given. The log contains the reference of a job: `<family>:<id at the vendor>`, or only the id if
//! the family is empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use indexmap::IndexMap;
use minijinja::Value;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::domain::ids::TaskId;
use crate::domain::image::{INPUT_BYTES_MAX, Picture, PictureSource};
use crate::domain::task::{Gateway, TaskResults, TaskWork, VendorKey, VendorReference};
use crate::domain::value::Text;
use crate::domain::video::Clip;
use crate::environment::Environment;
use crate::media::store::{MediaArea, MediaStore};
use crate::outbound::fetch::Fetcher;
use crate::outbound::vendor_client::{RESPONSE_BYTES_MAX, VendorClient, VendorRequest};
use crate::vendors::credential_mask::CredentialMask;
use crate::vendors::local::IsJobWanted;
use crate::vendors::profile::Profile;
use crate::vendors::profile::file::{FlowFile, HttpMethod, JobFile, VendorConditionFile};
use crate::vendors::profile::picture::{PictureAccess, PictureInput, ReadPicture};
use crate::vendors::profile::request::PreparedRequest;
use crate::vendors::profile::response::{JobReport, ResultItem, SubmissionMeaning};
use crate::vendors::profile::scope::work_scope;
use crate::vendors::profile::template::{TemplateError, TemplateScope, encode_segment, json_to_value};
use crate::vendors::{
    JobProgress, ResultFetchError, SubmissionCall, SubmissionRecovery, SubmissionReply, Vendor, VendorError,
    VendorErrorKind, VendorJob,
};

mod connection;
mod music;
mod preview;
mod result_fetcher;
mod unstored;

pub use music::{ProfileMusic, ProfileMusicOptions};
pub use preview::{PreviewTarget, ReadPictureBytes, preview_submission};

use connection::VendorConnection;
use result_fetcher::ResultFetcher;
use unstored::UnstoredResults;

/// Maximum number of picture bytes being sent to the vendor. While a request is built, memory holds its pictures three
/// times (file, base64, body). A larger picture is sent alone.
const IN_FLIGHT_BYTES_MAX: u64 = 128 << 20;
/// Bytes per semaphore permit.
const BYTES_PER_PERMIT: u64 = 64 << 10;
/// Id of a job that does not exist, for health checks.
const NONEXISTENT_JOB_ID: &str = "00000000-0000-0000-0000-000000000000";

/// Options of a vendor, besides its profile.
#[derive(Clone)]
pub struct ProfileVendorOptions {
    /// Name in logs, metrics and settings.
    pub name: String,
    /// Gateway whose jobs it does.
    pub gateway: Gateway,
    /// Recovery of submissions with an unknown outcome, instead of the profile's.
    pub recovery: Option<SubmissionRecovery>,
    /// Header with the key of a submission, instead of the profile's.
    pub key_header: Option<String>,
    /// Path for searches below the base URL, instead of the profile's; `{key}` is replaced by the key.
    pub search_path: Option<String>,
    /// Returns the webhook URL of a task. If `None`, the vendor gets no webhook.
    pub webhook_url: Option<Arc<dyn Fn(TaskId) -> String + Send + Sync>>,
    /// API key, which is masked in all messages of the vendor.
    pub api_key: Option<String>,
    /// Returns `false` for a job whose task has ended.
    pub is_wanted: IsJobWanted,
}

/// Vendor of images or videos with the protocol of a profile. Cheap to clone.
#[derive(Clone)]
pub struct ProfileVendor {
    profile: Arc<Profile>,
    options: ProfileVendorOptions,
    connection: VendorConnection,
    store: MediaStore,
    result_fetcher: ResultFetcher,
    upload_budget: Arc<Semaphore>,
    unstored: Arc<Mutex<UnstoredResults>>,
    /// `true` once the vendor has accepted a job under an id other than the id that the profile searches for. From then
    /// on, a search proves nothing.
    ignores_ids: Arc<AtomicBool>,
    progress_notify: Arc<Notify>,
}

/// Submission whose inputs were uploaded and encoded.
struct PreparedSubmission<'v> {
    request: VendorRequest,
    /// Values of the templates that read the response.
    scope: TemplateScope,
    flow: &'v FlowFile,
    /// Family of the job.
    family: String,
    key: VendorKey,
}

/// Body of a submission with the permit for its memory, which is released when the body is sent.
struct PermittedBody {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for PermittedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ProfileVendor {
    /// Creates a vendor whose requests `client` sends. Inputs are read from `store`; `fetcher` fetches results, which
    /// are stored in `store`.
    #[must_use]
    pub fn new(
        profile: Arc<Profile>,
        client: VendorClient,
        options: ProfileVendorOptions,
        store: MediaStore,
        fetcher: Fetcher,
        environment: Environment,
    ) -> Self {
        let fail_points = environment.fail_points();
        let mask = CredentialMask::new(options.api_key.as_deref());
        let connection = VendorConnection { client, mask, environment };
        let result_fetcher = ResultFetcher::new(fetcher, connection.clone(), store.clone(), fail_points);
        let upload_budget = Arc::new(Semaphore::new(permits(IN_FLIGHT_BYTES_MAX) as usize));
        Self {
            profile,
            options,
            connection,
            store,
            result_fetcher,
            upload_budget,
            unstored: Arc::default(),
            ignores_ids: Arc::default(),
            progress_notify: Arc::default(),
        }
    }

    async fn prepare_job(&self, job: VendorJob) -> Result<PreparedSubmission<'_>, VendorError> {
        let budget = Arc::clone(&self.upload_budget);
        let Ok(upload_permit) = budget.acquire_many_owned(permits(picture_bytes(&job.work))).await else {
            return Err(VendorError::new(VendorErrorKind::Unreached, "the service is stopping"));
        };

        let name = job.work.job_name();
        let (definition, flow) = self.definition(&job.work)?;
        let uploads = self.upload_pictures(&job, definition).await?;
        let family = Profile::family(name, definition).to_owned();
        let key = job.key.clone();
        let (mut request, scope) = self.encode_submission(job, uploads, self.result_bytes(flow)).await?;
        request.body = Bytes::from_owner(PermittedBody { bytes: request.body, _permit: upload_permit });
        Ok(PreparedSubmission { request, scope, flow, family, key })
    }

    async fn send(&self, submission: PreparedSubmission<'_>) -> Result<SubmissionReply, VendorError> {
        let PreparedSubmission { request, scope, flow, family, key } = submission;

        let response = self.connection.submit(request).await?;
        let parsed = self.connection.parse_response(&response);

        let meaning = self
            .profile
            .parse_submission(flow, &parsed, &scope)
            .map_err(|error| self.connection.complete_error(&response, error))?;

        match meaning {
            SubmissionMeaning::Accepted(id) => {
                self.note_ignored_id(flow, &scope, &id);
                Ok(SubmissionReply::Accepted(vendor_reference(&family, &id)))
            }
            SubmissionMeaning::Finished(items) => {
                let reference = vendor_reference(&family, key.as_str());
                Ok(self.store_or_keep(reference, key, items).await)
            }
        }
    }

    /// Detects a vendor that assigns its own job ids although its profile says that it uses ours. A search by our id
    /// would not find the job, which would then be submitted and paid for again.
    fn note_ignored_id(&self, flow: &FlowFile, scope: &TemplateScope, id: &str) {
        let own_id = flow.search.as_ref().and_then(|search| search.by_id.as_ref()?.render(scope).ok());
        if own_id.is_some_and(|own_id| own_id != id) && !self.ignores_ids.swap(true, Ordering::Relaxed) {
            tracing::error!(vendor = self.options.name, "vendor ignores given job ids, search by id disabled");
        }
    }

    fn definition(&self, work: &TaskWork) -> Result<(&JobFile, &FlowFile), VendorError> {
        let name = work.job_name();
        let job = self.profile.job(name).and_then(|job| Some((job, self.profile.flow(job)?)));
        job.ok_or_else(|| {
            let message = format!("{} does not do {name}", self.options.name);
            VendorError::new(VendorErrorKind::Refused, message)
        })
    }

    /// Uploads each picture that the templates of the submission need uploaded, once. An upload starts no job, so a
    /// failed upload never makes the outcome of the submission unknown.
    async fn upload_pictures(
        &self,
        job: &VendorJob,
        definition: &JobFile,
    ) -> Result<Vec<(Picture, Value)>, VendorError> {
        // A trial run of the templates shows which pictures they need uploaded.
        let trial = PictureAccess::trial();
        let scope = self.scope(job, definition, &trial).ok_or_else(unreadable_picture)?;
        self.profile.build_submission(definition, &scope).map_err(|error| unbuildable(&error))?;
        let wanted = trial.wanted_uploads();

        let mut uploads = Vec::new();

        for picture in wanted {
            let upload = self.profile.file().upload.as_ref();
            let upload = upload.ok_or_else(|| refused("the profile has no [upload]"))?;
            let access = PictureAccess::new(self.read_picture(), Vec::new());
            let mut scope = TemplateScope::new();
            scope.insert("picture".to_owned(), PictureInput::value(picture, &access));
            scope.insert("key".to_owned(), Value::from(job.key.as_str()));

            let profile = Arc::clone(&self.profile);
            let template = upload.clone();
            let connection = self.connection.clone();
            let upload_scope = scope.clone();
            let encoded = tokio::task::spawn_blocking(move || {
                let request = PreparedRequest::upload(profile.prefix(), &template, &upload_scope)
                    .map_err(|error| unbuildable_with(&access, &error))?;
                Ok(connection.to_vendor_request(request, RESPONSE_BYTES_MAX))
            });
            let request = encoded.await.map_err(|_| unreadable_picture())??;

            let response = self.connection.submit(request).await.map_err(started_nothing)?;
            let name = self
                .profile
                .parse_upload(&upload.name, &self.connection.parse_response(&response), &scope)
                .map_err(|error| self.connection.complete_error(&response, error))?;
            uploads.push((picture, json_to_value(&name)));
        }

        Ok(uploads)
    }

    /// Returns the encoded submission; the pictures are read and encoded on a blocking thread.
    async fn encode_submission(
        &self,
        job: VendorJob,
        uploads: Vec<(Picture, Value)>,
        response_bytes: usize,
    ) -> Result<(VendorRequest, TemplateScope), VendorError> {
        let vendor = self.clone();
        let encoded = tokio::task::spawn_blocking(move || {
            let (definition, _) = vendor.definition(&job.work)?;
            let access = PictureAccess::new(vendor.read_picture(), uploads);
            let scope = vendor.scope(&job, definition, &access).ok_or_else(unreadable_picture)?;
            let request = vendor.profile.build_submission(definition, &scope);
            let mut request = request.map_err(|error| unbuildable_with(&access, &error))?;
            if let Some(header) = vendor.options.key_header.as_deref().or(vendor.profile.key_header()) {
                request.headers.push((header.to_owned(), job.key.as_str().to_owned()));
            }
            let mut scope = scope;
            scope.retain(|name, _| matches!(name.as_str(), "key" | "maps" | "vars"));
            Ok((vendor.connection.to_vendor_request(request, response_bytes), scope))
        });
        encoded.await.map_err(|_| unreadable_picture())?
    }

    fn scope(&self, job: &VendorJob, definition: &JobFile, access: &Arc<PictureAccess>) -> Option<TemplateScope> {
        let webhook = self.options.webhook_url.as_ref().map(|url| url(job.task));
        let scope = work_scope(&job.work, access)?;
        Some(self.profile.submission_scope(definition, scope, job.key.as_str(), webhook))
    }

    fn read_picture(&self) -> ReadPicture {
        let store = self.store.clone();
        Arc::new(move |picture| match store.read(MediaArea::Input, picture) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                tracing::error!(%error, "input picture unreadable");
                None
            }
        })
    }

    /// Returns the maximum size of a response that may contain results.
    fn result_bytes(&self, flow: &FlowFile) -> usize {
        let results = &flow.results;
        if results.base64.is_none() && !results.body && !results.inline {
            return RESPONSE_BYTES_MAX;
        }
        // Base64 has four characters for three bytes.
        self.file_bytes() / 3 * 4 + RESPONSE_BYTES_MAX
    }

    const fn file_bytes(&self) -> usize {
        match self.options.gateway {
            Gateway::Image | Gateway::Music => INPUT_BYTES_MAX,
            Gateway::Video => Clip::BYTES_MAX,
        }
    }

    /// Stores the results of a job that finished at once. Results that cannot be stored stay in memory for the next
    /// polls.
    async fn store_or_keep(
        &self,
        reference: VendorReference,
        key: VendorKey,
        items: Vec<ResultItem>,
    ) -> SubmissionReply {
        if let Ok(results) = self.fetch_results(&items, self.options.gateway, reference.as_str()).await {
            return SubmissionReply::Finished { reference, results };
        }
        let mut unstored = self.unstored.lock();
        unstored.discard_unwanted(&self.options.is_wanted);
        unstored.keep(reference.clone(), key, items);
        SubmissionReply::Accepted(reference)
    }

    async fn fetch_results(
        &self,
        items: &[ResultItem],
        gateway: Gateway,
        job: &str,
    ) -> Result<TaskResults, ResultFetchError> {
        match gateway {
            Gateway::Image | Gateway::Music => Ok(self.result_fetcher.fetch_pictures(items, job).await?.into()),
            Gateway::Video => Ok(TaskResults::Video(self.result_fetcher.fetch_creation(items, job).await?)),
        }
    }

    async fn poll_job(&self, reference: &VendorReference) -> Result<JobProgress, VendorError> {
        // This vendor cannot have issued the reference, so it never accepted the job.
        let Some((family, id, job)) = self.parse_reference(reference) else { return Ok(JobProgress::Forgotten) };

        let items = {
            let mut unstored = self.unstored.lock();
            unstored.discard_unwanted(&self.options.is_wanted);
            unstored.get(reference)
        };
        if let Some(items) = items {
            return Ok(match self.fetch_results(&items, self.options.gateway, id).await {
                // Kept until the task has ended: if the completion cannot be recorded, the next poll stores it again.
                Ok(results) => JobProgress::Done(results),
                Err(error) => JobProgress::FetchFailed(error),
            });
        }

        match self.poll_report(family, job, id).await? {
            JobReport::Queued { queue_position } => Ok(JobProgress::Queued { queue_position }),
            JobReport::Running { permille } => Ok(JobProgress::Running { permille }),
            JobReport::Lost | JobReport::Absent | JobReport::DoneElsewhere(_) => Ok(JobProgress::Lost),
            JobReport::Failed(failure) => Ok(JobProgress::Failed(failure)),
            JobReport::DoneWithoutResult(failure) => Ok(JobProgress::FetchFailed(ResultFetchError::Malformed(failure))),
            JobReport::Done(items) => Ok(self
                .fetch_results(&items, self.options.gateway, id)
                .await
                .map_or_else(JobProgress::FetchFailed, JobProgress::Done)),
        }
    }

    /// Sends the poll requests of the profile in order until one returns the state of the job.
    async fn poll_report(&self, family: &str, job: &JobFile, id: &str) -> Result<JobReport, VendorError> {
        let Some(flow) = self.profile.flow(job) else { return Ok(JobReport::Lost) };
        let scope = self.profile.job_scope(family, job, id);

        for poll in &flow.poll {
            let parts = (&poll.path, &poll.query);
            let request =
                PreparedRequest::from_parts(self.profile.prefix(), poll.method, parts, poll.json.as_ref(), &scope);
            let request = request.map_err(|error| unbuildable(&error))?;
            let failure_message = "the vendor did not report the status of the task";
            let response = self.connection.read(request, self.result_bytes(flow), failure_message).await?;
            let report = self
                .profile
                .parse_poll(flow, poll, &self.connection.parse_response(&response), (id, &scope))
                .map_err(|error| self.connection.complete_error(&response, error))?;
            match report {
                JobReport::Absent => {}
                JobReport::DoneElsewhere(call) => {
                    let response = self.connection.read(call.0, self.result_bytes(flow), failure_message).await?;
                    let report = self.profile.parse_results(flow, &self.connection.parse_response(&response), &scope);
                    return report.map_err(|error| self.connection.complete_error(&response, error));
                }
                report => return Ok(report),
            }
        }

        Ok(JobReport::Lost)
    }

    /// Returns family, id and job of a reference; `None` if this vendor cannot have issued it.
    fn parse_reference<'r>(&self, reference: &'r VendorReference) -> Option<(&'r str, &'r str, &JobFile)> {
        let text = reference.as_str();
        let with_family = text.split_once(':').and_then(|(family, id)| {
            let (_, job) = self.profile.job_of_family(family)?;
            Some((family, id, job))
        });
        with_family.or_else(|| Some(("", text, self.profile.job_of_family("")?.1)))
    }

    async fn find_job(&self, job: VendorJob) -> Result<Option<VendorReference>, VendorError> {
        let name = job.work.job_name();
        let (definition, flow) = self.definition(&job.work)?;
        let family = Profile::family(name, definition);
        let key = job.key.as_str();
        let unsearchable = || {
            let message = format!("{} cannot be searched for {key}", self.options.name);
            VendorError::new(VendorErrorKind::Unserved, message)
        };

        let search = flow.search.as_ref().ok_or_else(unsearchable)?;
        let scope = self.profile.submission_scope(definition, TemplateScope::new(), key, None);

        if let Some(condition) = &search.requires
            && !self.meets_condition(condition, &scope).await?
        {
            let message = "the vendor cannot be searched: it does not meet the condition of its profile";
            return Err(VendorError::new(VendorErrorKind::Unserved, message));
        }

        if let Some(template) = &search.by_id {
            let id = template.render(&scope).map_err(|error| unbuildable(&error))?;
            let report = self.poll_report(family, definition, &id).await?;
            return Ok((report != JobReport::Lost).then(|| vendor_reference(family, &id)));
        }

        let path = search.path.as_ref().ok_or_else(unsearchable)?;
        let request =
            PreparedRequest::from_parts(self.profile.prefix(), search.method, (path, &search.query), None, &scope);
        let mut request = request.map_err(|error| unbuildable(&error))?;
        if let Some(path) = &self.options.search_path {
            request.path = path.replace("{key}", &encode_segment(key));
        }

        let failure_message = "the vendor did not answer the search for the task";
        let response = self.connection.read(request, RESPONSE_BYTES_MAX, failure_message).await?;
        let found = self
            .profile
            .parse_search(search, &self.connection.parse_response(&response), &scope)
            .map_err(|error| self.connection.complete_error(&response, error))?;
        Ok(found.map(|id| vendor_reference(family, &id)))
    }

    async fn meets_condition(
        &self,
        condition: &VendorConditionFile,
        scope: &TemplateScope,
    ) -> Result<bool, VendorError> {
        let parts = (&condition.path, &IndexMap::new());
        let request = PreparedRequest::from_parts(self.profile.prefix(), HttpMethod::Get, parts, None, scope);
        let request = request.map_err(|error| unbuildable(&error))?;
        let failure_message = "the vendor did not report whether it meets the condition of its profile";
        let response = self.connection.read(request, RESPONSE_BYTES_MAX, failure_message).await?;
        self.profile
            .parse_condition(condition, &self.connection.parse_response(&response))
            .map_err(|error| self.connection.complete_error(&response, error))
    }

    async fn cancel_job(&self, reference: &VendorReference) -> Result<(), VendorError> {
        self.unstored.lock().discard(reference);
        let Some((family, id, job)) = self.parse_reference(reference) else { return Ok(()) };
        let Some(flow) = self.profile.flow(job) else { return Ok(()) };
        let scope = self.profile.job_scope(family, job, id);

        if let Some(condition) = &flow.cancel_requires
            && !self.meets_condition(condition, &scope).await?
        {
            tracing::info!(
                vendor = self.options.name,
                "cancellation not passed on, the vendor does not meet its condition"
            );
            return Ok(());
        }

        for call in &flow.cancel {
            let request = PreparedRequest::call(self.profile.prefix(), call, &scope);
            let request = request.map_err(|error| unbuildable(&error))?;
            let failure_message = "the vendor did not confirm that the task is cancelled";
            let response = self.connection.read(request, RESPONSE_BYTES_MAX, failure_message).await?;
            self.profile
                .parse_cancel(&self.connection.parse_response(&response))
                .map_err(|error| self.connection.complete_error(&response, error))?;
        }
        Ok(())
    }

    /// Sends the health check of the profile, or polls a job that does not exist.
    async fn check_health(&self) -> Result<(), VendorError> {
        let gateway = self.options.gateway;
        let request = match &self.profile.file().health {
            Some(call) => Some(PreparedRequest::call(self.profile.prefix(), call, &TemplateScope::new())),
            None => self.profile.health_poll(gateway, NONEXISTENT_JOB_ID),
        };
        let Some(request) = request else { return Ok(()) };
        let request = request.map_err(|error| unbuildable(&error))?;
        let failure_message = "the vendor did not answer the health check";
        let response = self.connection.read(request, RESPONSE_BYTES_MAX, failure_message).await?;
        self.profile
            .parse_health_check(&self.connection.parse_response(&response))
            .map_err(|error| self.connection.complete_error(&response, error))
    }
}

impl Vendor for ProfileVendor {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn recovery(&self) -> SubmissionRecovery {
        if self.ignores_ids.load(Ordering::Relaxed) {
            return SubmissionRecovery::Nothing;
        }
        self.options.recovery.unwrap_or_else(|| self.profile.recovery())
    }

    fn serves(&self, work: &TaskWork) -> bool {
        work.gateway() == self.options.gateway && self.profile.serves(work)
    }

    fn extends_by_id(&self) -> bool {
        self.profile.extends_by_id()
    }

    fn prepare(&self, job: VendorJob) -> BoxFuture<'_, Result<SubmissionCall<'_>, VendorError>> {
        async move { Ok(self.send(self.prepare_job(job).await?).boxed()) }.boxed()
    }

    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<JobProgress, VendorError>> {
        let reference = reference.clone();
        async move { self.poll_job(&reference).await }.boxed()
    }

    fn find(&self, job: VendorJob) -> BoxFuture<'_, Result<Option<VendorReference>, VendorError>> {
        self.find_job(job).boxed()
    }

    fn cancel(&self, reference: &VendorReference) -> BoxFuture<'_, Result<(), VendorError>> {
        let reference = reference.clone();
        async move { self.cancel_job(&reference).await }.boxed()
    }

    fn health_check(&self) -> BoxFuture<'_, Result<(), VendorError>> {
        self.check_health().boxed()
    }

    fn progress_notify(&self) -> Arc<Notify> {
        Arc::clone(&self.progress_notify)
    }
}

/// Returns `<family>:<id>`, from which [`TaskVendor::job_id`](crate::domain::task::TaskVendor::job_id) gets the id.
fn vendor_reference(family: &str, id: &str) -> VendorReference {
    let is_bare = family.is_empty() && !id.contains(':');
    Text::from_recorded(if is_bare { id.to_owned() } else { format!("{family}:{id}") })
}

/// Returns the size of the input pictures.
fn picture_bytes(work: &TaskWork) -> u64 {
    let sum = |sources: &mut dyn Iterator<Item = &PictureSource>| {
        sources.filter_map(PictureSource::stored).map(|picture| picture.bytes).sum()
    };
    match work {
        TaskWork::Image(work) => sum(&mut work.sources()),
        TaskWork::Video(work) => sum(&mut work.sources()),
        TaskWork::Music(_) => 0,
    }
}

fn refused(message: &str) -> VendorError {
    VendorError::new(VendorErrorKind::Refused, message)
}

/// Returns the error of a job with an input that cannot be read. Nothing was sent, so the job is submitted again later.
fn unreadable_picture() -> VendorError {
    VendorError::new(VendorErrorKind::InputUnreadable, "cannot read an input picture; nothing was sent")
}

fn unbuildable_with(access: &PictureAccess, error: &TemplateError) -> VendorError {
    if access.has_failed() { unreadable_picture() } else { unbuildable(error) }
}

/// Returns the error of a request that the profile cannot express; nothing was sent.
fn unbuildable(error: &TemplateError) -> VendorError {
    refused(&format!("the profile of the vendor cannot express the job: {error}; nothing was sent"))
}

/// Returns the error of a call before the submission: no job was started, even if the outcome of the call is unknown.
fn started_nothing(mut error: VendorError) -> VendorError {
    if error.kind == VendorErrorKind::Unknown {
        error.kind = VendorErrorKind::Unreached;
    }
    error
}

/// Returns the number of permits for pictures of this size, at most the whole budget.
fn permits(bytes: u64) -> u32 {
    u32::try_from(bytes.clamp(1, IN_FLIGHT_BYTES_MAX).div_ceil(BYTES_PER_PERMIT)).unwrap_or(u32::MAX)
}
