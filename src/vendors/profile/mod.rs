//! Vendor profiles: the protocol of a vendor as data. `docs/vendor-profiles.md` explains the format.
//!
//! A profile defines how to call a vendor and how to read its responses. Code (`response`) defines the effect of an
//! outcome on a task: a response that is neither clearly an acceptance nor clearly a refusal leaves the outcome
//! unknown.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use minijinja::Value;
use serde_json::Value as Json;

use crate::domain::task::{Gateway, TaskWork};
use crate::domain::value::Digest;
use crate::vendors::SubmissionRecovery;

mod check;
pub(in crate::vendors) mod file;
pub(in crate::vendors) mod music;
pub(in crate::vendors) mod picture;
pub(in crate::vendors) mod request;
pub(in crate::vendors) mod response;
pub(in crate::vendors) mod scope;
mod shipped;
pub(in crate::vendors) mod template;

pub use scope::JOB_NAMES;
pub use shipped::SHIPPED_PROFILES;

use file::{FlowFile, JobFile, ProfileFile};
use request::{Documents, PreparedRequest};
use scope::ValueMap;
use template::{TemplateError, TemplateScope};

/// A checked profile.
#[derive(Debug)]
pub struct Profile {
    name: String,
    digest: Digest,
    file: ProfileFile,
    documents: Documents,
    /// Value maps, as templates see them.
    maps: Value,
}

/// Name and hash of a profile. The log records them with each task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileIdentity {
    pub name: String,
    /// SHA-256 of its files: the profile, those that it extends, and its documents.
    pub digest: Digest,
}

/// Error of a profile: where, what, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1, if known.
    pub line: Option<usize>,
    pub message: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for ProfileError {}

/// Location of the API key in the requests of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileAuth {
    /// The key is in a header, after the scheme if there is one.
    Header {
        name: String,
        scheme: Option<String>,
    },
    /// The key is in a query parameter.
    Query {
        name: String,
    },
    None,
}

impl Profile {
    /// Loads the profile `<name>.toml` from the operator's directory if it exists there, otherwise the shipped profile.
    ///
    /// # Errors
    /// If there is no such profile, or it is invalid.
    pub fn load(name: &str, directory: Option<&Path>) -> Result<Arc<Self>, ProfileError> {
        check::load(name, directory).map(Arc::new)
    }

    /// Loads the profile in a file, with other profiles and documents from its directory.
    ///
    /// # Errors
    /// If the file cannot be read, or is invalid.
    pub fn load_file(path: &Path) -> Result<Arc<Self>, ProfileError> {
        check::load_file(path).map(Arc::new)
    }

    /// Returns the names of the profiles in the operator's directory, in order.
    #[must_use]
    pub fn names_in(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let stem = |path: &Path| {
            let is_profile = path.extension().is_some_and(|extension| extension == "toml");
            is_profile.then(|| path.file_stem()?.to_str().map(str::to_owned)).flatten()
        };
        let mut names: Vec<_> = entries.filter_map(|entry| stem(&entry.path())).collect();
        names.sort();
        names
    }

    /// Returns name and hash.
    #[must_use]
    pub fn identity(&self) -> ProfileIdentity {
        ProfileIdentity { name: self.name.clone(), digest: self.digest }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the sentence about the vendor.
    #[must_use]
    pub fn description(&self) -> &str {
        self.file.description.as_deref().unwrap_or_default()
    }

    /// Returns the source of the description of the protocol, and the date of its last check.
    #[must_use]
    pub fn source(&self) -> (&str, &str) {
        (self.file.source.as_deref().unwrap_or_default(), self.file.checked.as_deref().unwrap_or_default())
    }

    /// Returns the base URL of the vendor; `None` if the operator must configure it.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.file.url.as_deref()
    }

    /// Returns the location of the API key in a request.
    #[must_use]
    pub fn auth(&self) -> ProfileAuth {
        match &self.file.auth {
            None => ProfileAuth::None,
            Some(auth) => match (&auth.header, &auth.query) {
                (_, Some(name)) => ProfileAuth::Query { name: name.clone() },
                (Some(name), None) => ProfileAuth::Header { name: name.clone(), scheme: auth.scheme.clone() },
                (None, None) => ProfileAuth::None,
            },
        }
    }

    /// Returns the recovery for submissions with an unknown outcome.
    #[must_use]
    pub fn recovery(&self) -> SubmissionRecovery {
        self.file.recovery.map_or(SubmissionRecovery::Nothing, SubmissionRecovery::from)
    }

    /// Returns the header with the key of a submission.
    #[must_use]
    pub fn key_header(&self) -> Option<&str> {
        self.file.key_header.as_deref()
    }

    /// Returns the time that a submission may take, if it is longer than usual.
    #[must_use]
    pub fn submit_timeout(&self) -> Option<Duration> {
        self.file.submit_seconds.map(u64::from).map(Duration::from_secs)
    }

    /// Returns the shortest pause between two polls of a job, if it is longer than usual.
    #[must_use]
    pub fn poll_min(&self) -> Option<Duration> {
        self.file.poll_seconds.map(u64::from).map(Duration::from_secs)
    }

    /// Returns the names of its jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &str> {
        self.file.jobs.keys().map(String::as_str)
    }

    /// Returns the gateway of a job; `None` if there is no job of this name in any profile.
    #[must_use]
    pub fn gateway_of_job(name: &str) -> Option<Gateway> {
        scope::JOB_NAMES.contains(&name).then(|| check::gateway_of(name))
    }

    /// Returns `true` if the profile has a job of this gateway.
    #[must_use]
    pub fn serves_gateway(&self, gateway: Gateway) -> bool {
        self.jobs().any(|job| check::gateway_of(job) == gateway)
    }

    /// Returns `true` if the profile can express this work: it has the job, and its value maps have all its values.
    #[must_use]
    pub fn serves(&self, work: &TaskWork) -> bool {
        let name = work.job_name();
        if name == "music" && self.file.stream.is_none() {
            return false;
        }
        let Some(job) = self.file.jobs.get(name) else { return false };
        // Work with inputs that are not stored yet has no scope, and is assumed to be expressible.
        let access = picture::PictureAccess::trial();
        let Some(scope) = scope::work_scope(work, &access) else { return true };
        let scope = self.submission_scope(job, scope, "key", None);
        PreparedRequest::submission(self.prefix(), job, self.document(job), &scope).is_ok()
    }

    /// Returns `true` if the request for an extension contains the id that the maker of the video gave it.
    pub(in crate::vendors) fn extends_by_id(&self) -> bool {
        let names = self.job("extend").map(JobFile::variables).unwrap_or_default();
        names.iter().any(|name| name == scope::VENDOR_CREATION_ID)
    }

    pub(in crate::vendors) fn file(&self) -> &ProfileFile {
        &self.file
    }

    pub(in crate::vendors) fn prefix(&self) -> &str {
        self.file.prefix.as_deref().unwrap_or_default()
    }

    pub(in crate::vendors) fn job(&self, name: &str) -> Option<&JobFile> {
        self.file.jobs.get(name)
    }

    /// Returns the flow that a job names, or the only flow.
    pub(in crate::vendors) fn flow(&self, job: &JobFile) -> Option<&FlowFile> {
        let flows = &self.file.flows;
        match &job.flow {
            Some(name) => flows.get(name),
            None => flows.values().next(),
        }
    }

    pub(in crate::vendors) fn document(&self, job: &JobFile) -> Option<&Json> {
        self.documents.get(job.document.as_ref()?).map(AsRef::as_ref)
    }

    /// Returns the first part of the reference of a job.
    pub(in crate::vendors) fn family<'p>(job_name: &'p str, job: &'p JobFile) -> &'p str {
        job.family.as_deref().unwrap_or(job_name)
    }

    /// Returns the first job of a family.
    pub(in crate::vendors) fn job_of_family(&self, family: &str) -> Option<(&str, &JobFile)> {
        let mut jobs = self.file.jobs.iter().map(|(name, job)| (name.as_str(), job));
        jobs.find(|(name, job)| Self::family(name, job) == family)
    }

    /// Returns the values for the templates of a submission.
    pub(in crate::vendors) fn submission_scope(
        &self,
        job: &JobFile,
        mut scope: TemplateScope,
        key: &str,
        webhook: Option<String>,
    ) -> TemplateScope {
        scope.insert("key".to_owned(), Value::from(key));
        if let Some(webhook) = webhook {
            scope.insert("webhook".to_owned(), Value::from(webhook));
        }
        scope.insert("maps".to_owned(), self.maps.clone());
        scope.insert("vars".to_owned(), job_vars(job));
        scope
    }

    /// Returns the values for the templates of requests about an accepted job.
    pub(in crate::vendors) fn job_scope(&self, family: &str, job: &JobFile, id: &str) -> TemplateScope {
        let mut scope = TemplateScope::new();
        scope.insert("id".to_owned(), Value::from(id));
        scope.insert("family".to_owned(), Value::from(family));
        scope.insert("maps".to_owned(), self.maps.clone());
        scope.insert("vars".to_owned(), job_vars(job));
        scope
    }

    /// Builds a poll of the job with this id, for a health check. The poll is that of the first job of the gateway that
    /// has one; `None` if there is none.
    pub(in crate::vendors) fn health_poll(
        &self,
        gateway: Gateway,
        id: &str,
    ) -> Option<Result<PreparedRequest, TemplateError>> {
        let mut jobs = self.file.jobs.iter().filter(|(name, _)| check::gateway_of(name) == gateway);
        let (name, job, poll) = jobs.find_map(|(name, job)| Some((name, job, self.flow(job)?.poll.first()?)))?;
        let scope = self.job_scope(Self::family(name, job), job, id);
        let parts = (&poll.path, &poll.query);
        Some(PreparedRequest::from_parts(self.prefix(), poll.method, parts, poll.json.as_ref(), &scope))
    }

    /// Builds the submission of a job from the values of its templates.
    pub(in crate::vendors) fn build_submission(
        &self,
        job: &JobFile,
        scope: &TemplateScope,
    ) -> Result<PreparedRequest, TemplateError> {
        let mut request = PreparedRequest::submission(self.prefix(), job, self.document(job), scope)?;
        let common = self.file.headers.iter().filter(|(name, _)| !job.headers.contains_key(*name));
        request.headers.extend(common.map(|(name, value)| (name.clone(), value.clone())));
        Ok(request)
    }
}

fn job_vars(job: &JobFile) -> Value {
    Value::from_pairs(job.vars.iter().map(|(name, value)| (name.as_str(), template::json_to_value(value))))
}

fn maps_value(file: &ProfileFile) -> Value {
    Value::from_pairs(file.maps.iter().map(|(name, entries)| {
        let entries = entries.iter().map(|(word, value)| (word.clone(), value.clone()));
        (name.as_str(), ValueMap::value(name, entries))
    }))
}

#[cfg(test)]
mod tests;
