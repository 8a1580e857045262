//! Loading and checking of profiles. The error for an invalid profile contains the file, the line and the allowed
//! values.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use super::file::{CallFile, FlowFile, JobFile, ProfileFile, ResultsFile, StreamFormat, VendorConditionFile};
use super::request::Documents;
use super::scope::{JOB_NAMES, parameter_names};
use super::template::ResponseSources;
use super::{Profile, ProfileError, SHIPPED_PROFILES, maps_value, shipped};
use crate::domain::task::Gateway;
use crate::domain::value::Digest;

/// Names that the templates of a submission can use, besides the parameters of the job.
const SUBMISSION_NAMES: [&str; 5] = ["key", "webhook", "maps", "vars", "document"];
/// Names that the templates of requests about an accepted job can use.
const JOB_SCOPE_NAMES: [&str; 4] = ["id", "family", "maps", "vars"];
/// Names that expressions over a response can use.
const RESPONSE_NAMES: [&str; 6] = ["response", "status", "id", "family", "maps", "vars"];

/// Longest chain of profiles that extend each other.
const EXTENDS_MAX: usize = 4;

/// Returns the gateway of a job.
pub(super) fn gateway_of(job: &str) -> Gateway {
    match job {
        "start-end2video" | "reference2video" | "extend" | "multiframe" => Gateway::Video,
        "music" => Gateway::Music,
        _ => Gateway::Image,
    }
}

/// Location of a profile and of the files that it names.
enum ProfileSource<'d> {
    Shipped,
    Directory(&'d Path),
}

impl ProfileSource<'_> {
    /// Reads a file; `path` is relative to the location.
    fn read(&self, path: &str) -> Result<String, String> {
        match self {
            Self::Shipped => shipped::find(path).map(str::to_owned).ok_or_else(|| "there is no such file".to_owned()),
            Self::Directory(directory) => {
                std::fs::read_to_string(directory.join(path)).map_err(|error| error.to_string())
            }
        }
    }
}

/// Loads the profile `name`, from the operator's directory if it exists there, otherwise from the shipped profiles.
pub(super) fn load(name: &str, directory: Option<&Path>) -> Result<Profile, ProfileError> {
    let path = format!("{name}.toml");
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));

    if let Some(directory) = directory.filter(|directory| is_plain && directory.join(&path).is_file()) {
        return Loader::new(ProfileSource::Directory(directory), &path).load(name, Some(directory));
    }
    if SHIPPED_PROFILES.contains(&name) {
        return Loader::new(ProfileSource::Shipped, &path).load(name, directory);
    }

    let operator_names = directory.map(Profile::names_in).unwrap_or_default();
    let names: Vec<_> = SHIPPED_PROFILES.iter().map(|name| (*name).to_owned()).chain(operator_names).collect();
    let message = format!("there is no such profile; the profiles are {}", names.join(", "));
    Err(ProfileError { file: name.to_owned(), line: None, message })
}

/// Loads the profile in a file.
pub(super) fn load_file(path: &Path) -> Result<Profile, ProfileError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
    let mut loader = Loader::new(ProfileSource::Directory(directory), file);
    loader.shown = path.display().to_string();
    loader.load(name, Some(directory))
}

/// Loader of one file.
struct Loader<'d> {
    source: ProfileSource<'d>,
    path: String,
    /// Name of the file in messages.
    shown: String,
}

impl<'d> Loader<'d> {
    fn new(source: ProfileSource<'d>, path: &str) -> Self {
        let shown = match source {
            ProfileSource::Shipped => format!("data/vendors/{path}"),
            ProfileSource::Directory(directory) => directory.join(path).display().to_string(),
        };
        Self { source, path: path.to_owned(), shown }
    }

    fn load(&self, name: &str, directory: Option<&Path>) -> Result<Profile, ProfileError> {
        let mut hasher = Sha256::new();
        let mut documents = Documents::new();
        let (file, text) = self.read_merged(directory, &mut hasher, &mut documents, EXTENDS_MAX)?;

        let findings = Checker { file: &file, documents: &documents }.findings();
        if let Some((near, message)) = findings.into_iter().next() {
            let table = message.split(':').next().unwrap_or_default();
            return Err(ProfileError { file: self.shown.clone(), line: line_near(&text, table, &near), message });
        }

        let maps = maps_value(&file);
        Ok(Profile { name: name.to_owned(), digest: Digest(hasher.finalize().into()), file, documents, maps })
    }

    /// Reads the file and merges it onto the profile that it extends, if any. Returns the merged profile and the text
    /// of the file itself. Every file that is read is added to `hasher`.
    fn read_merged(
        &self,
        directory: Option<&Path>,
        hasher: &mut Sha256,
        documents: &mut Documents,
        depth: usize,
    ) -> Result<(ProfileFile, String), ProfileError> {
        let error = |line, message| ProfileError { file: self.shown.clone(), line, message };
        let text =
            self.source.read(&self.path).map_err(|reason| error(None, format!("cannot read the file: {reason}")))?;
        hasher.update(text.as_bytes());

        let file: ProfileFile = toml::from_str(&text).map_err(|invalid| {
            let line = invalid.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            error(line, invalid.message().to_owned())
        })?;

        for (name, job) in &file.jobs {
            let Some(path) = &job.document else { continue };
            let near = path.as_str();
            let invalid = |reason: String| {
                let message = format!("document `{path}` of jobs.{name}: {reason}");
                error(line_of(&text, near), message)
            };
            let is_below = PathBuf::from(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
            if !is_below {
                return Err(invalid("must be a path below the directory of the profile".to_owned()));
            }
            let content = self.source.read(path).map_err(&invalid)?;
            hasher.update(content.as_bytes());
            let json: Json = serde_json::from_str(&content).map_err(|error| invalid(error.to_string()))?;
            documents.entry(path.clone()).or_insert_with(|| Arc::new(json));
        }

        let Some(base) = file.extends.clone() else { return Ok((file, text)) };

        let line = line_of(&text, "extends");
        if depth == 0 {
            return Err(error(line, format!("at most {EXTENDS_MAX} profiles in a row may extend each other")));
        }

        let path = format!("{base}.toml");
        let own = directory.filter(|directory| path != self.path && directory.join(&path).is_file());
        let loader = match own {
            Some(directory) => Loader::new(ProfileSource::Directory(directory), &path),
            None if SHIPPED_PROFILES.contains(&base.as_str()) => Loader::new(ProfileSource::Shipped, &path),
            None => {
                let message = format!("there is no profile `{base}`; shipped ones are {}", SHIPPED_PROFILES.join(", "));
                return Err(error(line, message));
            }
        };

        let (base, _) = loader.read_merged(directory, hasher, documents, depth - 1)?;
        Ok((file.merged_onto(base), text))
    }
}

/// Returns the line number, from 1, of the first occurrence of `near`.
fn line_of(text: &str, near: &str) -> Option<usize> {
    let offset = text.find(near).filter(|_| !near.is_empty())?;
    Some(text[..offset].matches('\n').count() + 1)
}

/// Returns the line number, from 1, of the first occurrence of the word `near` in the table `table`, such as
/// `jobs.music`. Without such an occurrence, returns the line of the table.
fn line_near(text: &str, table: &str, near: &str) -> Option<usize> {
    let table = table_offset(text, table);
    let start = table.unwrap_or(0);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut matches = text[start..].match_indices(near).filter(|_| !near.is_empty());
    let word = matches.find(|(offset, _)| {
        let before = text[..start + offset].chars().next_back();
        let after = text[start + offset + near.len()..].chars().next();
        !(near.ends_with(is_name) && after.is_some_and(is_name)
            || near.starts_with(is_name) && before.is_some_and(is_name))
    });
    let offset = word.map(|(offset, _)| start + offset).or(table)?;
    Some(text[..offset].matches('\n').count() + 1)
}

/// Returns the offset of the table `table`, or of its nearest parent that exists.
fn table_offset(text: &str, table: &str) -> Option<usize> {
    let mut table = table;
    loop {
        let quoted = table.split_once('.').map(|(kind, name)| format!("[{kind}.\"{name}\""));
        let offset = text.find(&format!("[{table}")).or_else(|| text.find(&quoted?));
        if offset.is_some() {
            return offset;
        }
        table = table.rsplit_once('.')?.0;
    }
}

/// Problem in a profile: a text of the file near the problem, and the error message.
type Finding = (String, String);

/// Checks of a parsed profile that involve several values.
struct Checker<'f> {
    file: &'f ProfileFile,
    documents: &'f Documents,
}

impl Checker<'_> {
    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.check_head(&mut findings);
        for (name, flow) in &self.file.flows {
            check_flow(name, flow, &mut findings);
        }
        for (name, job) in &self.file.jobs {
            self.check_job(name, job, &mut findings);
        }
        self.check_stream(&mut findings);
        findings
    }

    fn check_head(&self, findings: &mut Vec<Finding>) {
        let file = self.file;
        if file.jobs.is_empty() {
            let message = format!("a profile needs at least one job, such as [jobs.{}]", JOB_NAMES[0]);
            findings.push((String::new(), message));
        }

        if let Some(url) = &file.url {
            let parsed = url::Url::parse(url).ok().filter(|parsed| matches!(parsed.scheme(), "http" | "https"));
            if parsed.is_none() || url.ends_with('/') {
                findings.push((url.clone(), "url: must be http or https, without a slash at the end".to_owned()));
            }
        }
        if let Some(prefix) = file.prefix.as_ref().filter(|prefix| !prefix.is_empty())
            && (!prefix.starts_with('/') || prefix.ends_with('/'))
        {
            let message = "prefix: must begin with a slash and not end with one".to_owned();
            findings.push((prefix.clone(), message));
        }

        if let Some(auth) = &file.auth
            && auth.header.is_some() == auth.query.is_some()
        {
            findings.push(("[auth]".to_owned(), "auth: must have either `header` or `query`".to_owned()));
        }

        if file.recovery == Some(super::file::RecoveryFile::Key) && file.key_header.is_none() {
            let message = "recovery = \"key\": needs key_header, the header with the key".to_owned();
            findings.push(("recovery".to_owned(), message));
        }

        if let Some(upload) = &file.upload {
            if upload.json.is_some() == upload.form.is_some() {
                findings.push(("[upload]".to_owned(), "upload: must have either `json` or `form`".to_owned()));
            }
            let mut names = Vec::new();
            upload.path.collect_variables(&mut names);
            upload.json.iter().for_each(|body| body.collect_variables(&mut names));
            upload.form.iter().flat_map(IndexMap::values).for_each(|field| field.collect_variables(&mut names));
            check_names("upload", names, &["picture", "key", "maps"], &[], findings);
        }

        for status in self.listed_statuses().filter(|status| !(300..=599).contains(status)) {
            let message = format!("statuses: {status} must be a status from 300 to 599");
            findings.push((status.to_string(), message));
        }
        if let Some(health) = &file.health {
            check_call("health", health, &["maps"], findings);
        }
    }

    fn listed_statuses(&self) -> impl Iterator<Item = u16> {
        let statuses = &self.file.statuses;
        let lists = [&statuses.refused, &statuses.busy, &statuses.unserved, &statuses.unknown];
        lists.into_iter().flatten().chain(statuses.lost.iter().flatten()).copied()
    }

    fn check_job(&self, name: &str, job: &JobFile, findings: &mut Vec<Finding>) {
        let table = format!("jobs.{name}");
        let near = format!("jobs.{}", if name.contains('/') { format!("\"{name}\"") } else { name.to_owned() });

        if !JOB_NAMES.contains(&name) {
            findings.push((near, format!("{table}: there is no such job; the jobs are {}", JOB_NAMES.join(", "))));
            return;
        }
        if job.json.is_some() && job.form.is_some() {
            findings.push((near.clone(), format!("{table}: must have either `json` or `form`")));
        }

        let flows: Vec<_> = self.file.flows.keys().map(String::as_str).collect();
        match &job.flow {
            _ if name == "music" => {}
            Some(flow) if !self.file.flows.contains_key(flow) => {
                let message = format!("{table}.flow: there is no flow `{flow}`; the flows are {}", flows.join(", "));
                findings.push((near.clone(), message));
            }
            None if flows.len() != 1 => {
                findings.push((near.clone(), format!("{table}: needs `flow`, one of {}", flows.join(", "))));
            }
            Some(_) | None => {}
        }

        check_names(&table, job.variables(), &SUBMISSION_NAMES, parameter_names(name), findings);

        let document = job.document.as_ref().and_then(|path| self.documents.get(path));
        for pointer in job.set.keys() {
            if document.is_none_or(|document| document.pointer(pointer).is_none()) {
                let file = job.document.as_deref().unwrap_or("no document is named");
                let message = format!("{table}.set: the document has nothing at `{pointer}` ({file})");
                findings.push((pointer.clone(), message));
            }
        }
    }

    fn check_stream(&self, findings: &mut Vec<Finding>) {
        let near = "[stream".to_owned();
        let has_music = self.file.jobs.contains_key("music");
        let Some(stream) = &self.file.stream else {
            if has_music {
                findings
                    .push(("jobs.music".to_owned(), "jobs.music: needs [stream], the form of the music".to_owned()));
            }
            return;
        };

        let is_binary = stream.format == StreamFormat::Binary;
        if stream.sample_rate.is_none() || stream.channels.is_none() {
            findings.push((near.clone(), "stream: needs `sample_rate` and `channels`".to_owned()));
        }
        if !is_binary && stream.data.is_none() {
            findings.push((near.clone(), "stream: needs `data`, the location of the sound in base64".to_owned()));
        }
        if !is_binary && stream.kinds.is_empty() {
            findings.push((near, "stream: needs `kinds`, the meaning of each kind of message".to_owned()));
        }
    }
}

fn check_call(table: &str, call: &CallFile, allowed: &[&str], findings: &mut Vec<Finding>) {
    let mut names = Vec::new();
    call.path.collect_variables(&mut names);
    call.query.values().chain(&call.json).for_each(|template| template.collect_variables(&mut names));
    check_names(table, names, allowed, &[], findings);
}

fn check_sources<'s>(table: &str, sources: impl Iterator<Item = &'s ResponseSources>, findings: &mut Vec<Finding>) {
    let mut names = Vec::new();
    sources.for_each(|source| source.collect_variables(&mut names));
    check_names(table, names, &RESPONSE_NAMES, &[], findings);
}

fn check_names(table: &str, names: Vec<String>, allowed: &[&str], parameters: &[&str], findings: &mut Vec<Finding>) {
    let is_allowed = |name: &str| allowed.contains(&name) || parameters.contains(&name);
    let unknown: BTreeSet<_> = names.into_iter().filter(|name| !is_allowed(name)).collect();
    for name in unknown {
        let all: Vec<_> = parameters.iter().chain(allowed).copied().collect();
        let message = format!("{table}: `{name}` is not a name here; the names are {}", all.join(", "));
        findings.push((name, message));
    }
}

fn check_condition(table: &str, condition: &VendorConditionFile, allowed: &[&str], findings: &mut Vec<Finding>) {
    let mut path_names = Vec::new();
    condition.path.collect_variables(&mut path_names);
    check_names(&format!("{table}.path"), path_names, allowed, &[], findings);

    let mut valid_names = Vec::new();
    condition.valid.collect_variables(&mut valid_names);
    check_names(&format!("{table}.valid"), valid_names, &["response"], &[], findings);
}

fn check_flow(name: &str, flow: &FlowFile, findings: &mut Vec<Finding>) {
    let table = format!("flows.{name}");
    let near = format!("[flows.{name}");

    if flow.root.as_ref().is_some_and(|root| root.pointers().count() != root.0.len()) {
        findings.push((near.clone(), format!("{table}.root: must be JSON pointers")));
    }
    if flow.id.is_some() && flow.poll.is_empty() {
        findings.push((near.clone(), format!("{table}: a flow with `id` needs [[flows.{name}.poll]]")));
    }
    if flow.id.is_none() && !flow.poll.is_empty() {
        findings.push((near.clone(), format!("{table}: `poll` needs `id`, the location of the vendor's id")));
    }

    for (part, source) in [("id", &flow.id), ("refusal", &flow.refusal)] {
        let mut names = Vec::new();
        if let Some(source) = source {
            source.collect_variables(&mut names);
        }
        check_names(&format!("{table}.{part}"), names, &["response", "status", "key", "maps", "vars"], &[], findings);
    }

    for poll in &flow.poll {
        let mut names = Vec::new();
        poll.path.collect_variables(&mut names);
        poll.query.values().chain(&poll.json).for_each(|template| template.collect_variables(&mut names));
        check_names(&format!("{table}.poll"), names, &JOB_SCOPE_NAMES, &[], findings);
        let sources = [&poll.valid, &poll.echo, &poll.progress, &poll.queue_position, &poll.failure];
        let sources = sources.into_iter().flatten().chain([&poll.state]);
        check_sources(&format!("{table}.poll"), sources, findings);
    }

    let calls = flow.cancel.iter().map(|call| ("cancel", call));
    for (part, call) in calls.chain(flow.results.request.iter().map(|call| ("results.request", call))) {
        check_call(&format!("{table}.{part}"), call, &JOB_SCOPE_NAMES, findings);
    }
    check_results(name, &flow.results, findings);
    if let Some(condition) = &flow.cancel_requires {
        check_condition(&format!("{table}.cancel_requires"), condition, &JOB_SCOPE_NAMES, findings);
    }

    if let Some(search) = &flow.search {
        let mut names = Vec::new();
        search.by_id.iter().chain(&search.path).for_each(|text| text.collect_variables(&mut names));
        search.query.values().for_each(|template| template.collect_variables(&mut names));
        check_names(&format!("{table}.search"), names, &["key", "maps", "vars"], &[], findings);
        if let Some(condition) = &search.requires {
            check_condition(&format!("{table}.search.requires"), condition, &["key", "maps", "vars"], findings);
        }
        let is_request = search.path.is_some() && search.id.is_some();
        if search.by_id.is_some() == is_request {
            findings.push((near, format!("{table}.search: must have either `by_id`, or `path` and `id`")));
        }
    }
}

fn check_results(flow: &str, results: &ResultsFile, findings: &mut Vec<Finding>) {
    let ways = [results.url.is_some(), results.base64.is_some(), results.download.is_some(), results.body];
    if ways.iter().filter(|is_set| **is_set).count() != 1 {
        let message =
            format!("flows.{flow}.results: must have exactly one of `url`, `base64`, `download` and `body = true`");
        findings.push((format!("[flows.{flow}.results"), message));
    }
    let sources =
        [&results.items, &results.url, &results.base64, &results.cover, &results.watermarked, &results.vendor_id];
    check_sources(&format!("flows.{flow}.results"), sources.into_iter().flatten(), findings);
    if let Some(download) = &results.download {
        let names = [&JOB_SCOPE_NAMES[..], &["item"]].concat();
        check_call(&format!("flows.{flow}.results.download"), download, &names, findings);
    }
}
