//! Vendors outside of a running service, for the commands that show the requests to a vendor, or try the vendor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;

use super::tariff::open_tariff;
use super::vendors::{endpoint, if_mediary_profile, music_endpoint, result_fetcher};
use crate::config::{Secret, Settings, VendorProfile, VendorSelection, VendorSettings};
use crate::domain::ids::TaskId;
use crate::domain::image::INPUT_BYTES_MAX;
use crate::domain::music::{MusicJob, MusicStreamItem};
use crate::domain::task::{Gateway, TaskResults, TaskWork, VendorKey};
use crate::domain::value::Text;
use crate::domain::video::{Clip, Tariff};
use crate::environment::Environment;
use crate::media::store::{MediaArea, MediaStore};
use crate::outbound::vendor_client::{VendorClient, VendorEndpoint};
use crate::vendors::music::{MusicStreamError, MusicVendor as _};
use crate::vendors::profile::Profile;
use crate::vendors::profile_vendor::{
    PreviewTarget, ProfileMusic, ProfileMusicOptions, ProfileVendor, ProfileVendorOptions, ReadPictureBytes,
    preview_submission,
};
use crate::vendors::{JobProgress, ResultFetchError, SubmissionReply, Vendor as _, VendorError, VendorJob};

/// Maximum number of attempts to fetch results that are not available yet.
const FETCH_ATTEMPTS_MAX: u32 = 4;

/// A vendor of the settings, or a profile with an address.
pub struct VendorTool {
    gateway: Gateway,
    profile: Arc<Profile>,
    endpoint: VendorEndpoint,
    selection: VendorSelection,
    key_header: Option<String>,
    settings: Settings,
}

/// Command-line arguments that override the settings.
#[derive(Debug, Clone, Default)]
pub struct VendorToolOverrides {
    pub url: Option<String>,
    pub api_key: Option<String>,
}

/// A file that a vendor made.
pub struct VendorResultFile {
    /// Name extension of its format.
    pub extension: String,
    pub bytes: Vec<u8>,
}

/// Returns the prices of videos. A video job must have a price to be accepted.
///
/// # Errors
/// If the operator's file is invalid.
pub fn video_tariff(settings: &Settings) -> Result<Tariff, String> {
    open_tariff(settings.video.pricing.as_deref()).map_err(|error| error.to_string())
}

impl VendorTool {
    /// Returns the vendor of this name in the settings, or else one with the profile of this name.
    ///
    /// # Errors
    /// If there is neither, or the vendor has no address.
    pub fn find(
        settings: &Settings,
        name: &str,
        gateway: Gateway,
        overrides: VendorToolOverrides,
    ) -> Result<Self, String> {
        let mut settings = settings.clone();
        let is_configured = match gateway {
            Gateway::Image => keep_named(&mut settings.image_vendors, name, |vendor| &vendor.selection.name),
            Gateway::Video => keep_named(&mut settings.video_vendors, name, |vendor| &vendor.selection.name),
            Gateway::Music => keep_named(&mut settings.music_vendors, name, |vendor| &vendor.selection.name),
        };
        if !is_configured {
            let profile = VendorProfile::find(name, settings.vendor_profiles.as_deref())
                .map_err(|error| format!("there is no vendor of this name in the settings, and {error}"))?;
            use_profile(&mut settings, &profile);
        }

        override_settings(&mut settings, overrides);
        Self::from_settings(settings, gateway)
    }

    fn from_settings(settings: Settings, gateway: Gateway) -> Result<Self, String> {
        let no_url = "the vendor has no URL: name one with --url, or in the settings";
        let (selection, key_header) = match gateway {
            Gateway::Image => (&settings.image_vendors[0].selection, &settings.image_vendors[0].key_header),
            Gateway::Video => (&settings.video_vendors[0].selection, &settings.video_vendors[0].key_header),
            Gateway::Music => (&settings.music_vendors[0].selection, &settings.music_vendors[0].key_header),
        };
        let profile = selection.profile.load();
        let profile = profile.ok_or("the built-in engine receives no requests; name a remote vendor or a profile")?;
        let key_header = if_mediary_profile(selection, key_header);
        let selection = selection.clone();

        let endpoint = match gateway {
            Gateway::Image | Gateway::Video => {
                let vendor = vendor_settings(&settings, gateway);
                endpoint(vendor.url.as_deref().ok_or(no_url)?, vendor, &profile)
            }
            Gateway::Music => {
                let vendor = &settings.music_vendors[0];
                music_endpoint(vendor.url.as_deref().ok_or(no_url)?, vendor, &profile)
            }
        };
        Ok(Self { gateway, profile, endpoint, selection, key_header, settings })
    }

    /// Returns the requests that the vendor would get for this work.
    ///
    /// # Errors
    /// If the profile cannot express the work, or the settings are invalid.
    pub fn preview(&self, work: &TaskWork, key: &str, read: ReadPictureBytes) -> Result<Vec<String>, String> {
        let client = VendorClient::new(&self.endpoint).map_err(|error| error.to_string())?;
        let target = PreviewTarget {
            client: &client,
            api_key: self.endpoint.api_key.as_deref(),
            key_header: self.key_header.as_deref(),
        };
        preview_submission(&self.profile, &target, work, key, read)
    }

    /// Submits this work once, waits for its end within `limit`, and returns the files that the vendor made. `report`
    /// is called with each step.
    ///
    /// # Errors
    /// If the vendor returns no result; the message says whether it may have charged for the job.
    pub async fn run(
        &self,
        work: TaskWork,
        task: TaskId,
        store: &MediaStore,
        limit: Duration,
        report: impl FnMut(&str),
    ) -> Result<Vec<VendorResultFile>, String> {
        match work {
            TaskWork::Music(_) => self.run_stream(work, task, report).await,
            _ => self.run_job(work, task, store, limit, report).await,
        }
    }

    async fn run_job(
        &self,
        work: TaskWork,
        task: TaskId,
        store: &MediaStore,
        limit: Duration,
        mut report: impl FnMut(&str),
    ) -> Result<Vec<VendorResultFile>, String> {
        let vendor = self.vendor(store)?;
        let key: VendorKey = Text::from_recorded(task.to_string());
        let submitted = vendor.submit(VendorJob { task, account: None, key, work }).await;
        let reference = match submitted.map_err(|error| describe_error(&error))? {
            SubmissionReply::Finished { results, .. } => return read_results(store, &results),
            SubmissionReply::Accepted(reference) => reference,
        };
        report(&format!("accepted as {}", reference.as_str()));

        let pause = vendor_settings(&self.settings, self.gateway).poll_min;
        let started = Instant::now();
        let mut failures = 0;
        while started.elapsed() < limit {
            match vendor.poll(&reference).await {
                Ok(JobProgress::Done(results)) => return read_results(store, &results),
                Ok(JobProgress::Failed(failure)) => return Err(failure.message.as_str().to_owned()),
                Ok(JobProgress::FetchFailed(error)) => {
                    failures += 1;
                    let (ResultFetchError::Transient(failure) | ResultFetchError::Malformed(failure)) = error;
                    if failures >= FETCH_ATTEMPTS_MAX {
                        return Err(failure.message.as_str().to_owned());
                    }
                    report(failure.message.as_str());
                }
                Ok(JobProgress::Lost | JobProgress::Forgotten) => report("unknown to the vendor"),
                Ok(JobProgress::Queued { .. }) => report("queued"),
                Ok(JobProgress::Running { permille: Some(permille) }) => {
                    report(&format!("running, {} %", permille / 10));
                }
                Ok(JobProgress::Running { permille: None }) => report("running"),
                Err(error) => report(&error.message),
            }
            tokio::time::sleep(pause).await;
        }
        Err(format!("not finished within {} s; the vendor continues it as {}", limit.as_secs(), reference.as_str()))
    }

    fn vendor(&self, store: &MediaStore) -> Result<ProfileVendor, String> {
        let settings = vendor_settings(&self.settings, self.gateway);
        let environment = Environment::system();
        let client = VendorClient::new(&self.endpoint).map_err(|error| error.to_string())?;
        let body_bytes = if self.gateway == Gateway::Video { Clip::BYTES_MAX } else { INPUT_BYTES_MAX };
        let fetcher = result_fetcher(&self.settings, settings, body_bytes, &environment);
        let options = ProfileVendorOptions {
            name: self.selection.name.clone(),
            gateway: self.gateway,
            recovery: None,
            key_header: self.key_header.clone(),
            search_path: None,
            webhook_url: None,
            api_key: self.endpoint.api_key.clone(),
            is_wanted: Arc::new(|_| true),
        };
        let fetcher = fetcher.map_err(|error| error.to_string())?;
        Ok(ProfileVendor::new(Arc::clone(&self.profile), client, options, store.clone(), fetcher, environment))
    }

    async fn run_stream(
        &self,
        work: TaskWork,
        task: TaskId,
        mut report: impl FnMut(&str),
    ) -> Result<Vec<VendorResultFile>, String> {
        let TaskWork::Music(work) = work else { return Err("the job is not a music job".to_owned()) };
        let settings = &self.settings.music_vendors[0];
        let options = ProfileMusicOptions {
            name: self.selection.name.clone(),
            key_header: self.key_header.clone(),
            line_timeout: settings.line_timeout,
            line_bytes: usize::try_from(settings.line_bytes).unwrap_or(usize::MAX),
            api_key: self.endpoint.api_key.clone(),
        };
        let client = VendorClient::new(&self.endpoint).map_err(|error| error.to_string())?;
        let vendor = ProfileMusic::new(Arc::clone(&self.profile), client, options, Environment::system());
        let vendor = vendor.ok_or_else(|| format!("the profile {} has no music", self.profile.name()))?;

        let mut stream = vendor.play(MusicJob { task, account: None, work });
        let mut files: Vec<VendorResultFile> = Vec::new();
        while let Some(item) = stream.next().await {
            match item.map_err(|error| describe_stream_error(&error))? {
                MusicStreamItem::Accepted { .. } => report("accepted"),
                MusicStreamItem::Title { title, .. } => report(&format!("title: {}", title.as_str())),
                MusicStreamItem::Sound { index, format, data } => {
                    let index = usize::from(index.stream);
                    while files.len() <= index {
                        files.push(VendorResultFile {
                            extension: format.encoding.as_str().to_owned(),
                            bytes: Vec::new(),
                        });
                    }
                    files[index].bytes.extend(data);
                }
                MusicStreamItem::Length { .. } | MusicStreamItem::Finished { .. } => {}
            }
        }
        Ok(files)
    }
}

/// Keeps only the vendor of this name. If no vendor has it, keeps all and returns `false`.
fn keep_named<V>(vendors: &mut Vec<V>, name: &str, name_of: fn(&V) -> &String) -> bool {
    let is_found = vendors.iter().any(|vendor| name_of(vendor) == name);
    if is_found {
        vendors.retain(|vendor| name_of(vendor) == name);
    }
    is_found
}

/// Replaces all vendors by one with this profile and the defaults of the settings.
fn use_profile(settings: &mut Settings, profile: &VendorProfile) {
    let defaults = Settings::default();
    settings.image_vendors = defaults.image_vendors;
    settings.video_vendors = defaults.video_vendors;
    settings.music_vendors = defaults.music_vendors;

    let described = profile.load();
    let url = described.as_ref().and_then(|described| described.url()).map(str::to_owned);
    let submit_timeout = described.as_ref().and_then(|described| described.submit_timeout());
    let poll_min = described.and_then(|described| described.poll_min());
    let select = |selection: &mut VendorSelection| {
        selection.profile = profile.clone();
        profile.name().clone_into(&mut selection.name);
    };
    for vendor in settings.image_vendors.iter_mut().chain(&mut settings.video_vendors) {
        select(&mut vendor.selection);
        vendor.url.clone_from(&url);
        vendor.submit_timeout = submit_timeout.unwrap_or(vendor.submit_timeout);
        vendor.poll_min = poll_min.unwrap_or(vendor.poll_min);
    }
    for vendor in &mut settings.music_vendors {
        select(&mut vendor.selection);
        vendor.url.clone_from(&url);
    }
}

fn override_settings(settings: &mut Settings, overrides: VendorToolOverrides) {
    let VendorToolOverrides { url, api_key } = overrides;
    let api_key = api_key.map(Secret::new);
    for vendor in settings.image_vendors.iter_mut().chain(&mut settings.video_vendors) {
        vendor.url = url.clone().or(vendor.url.take());
        vendor.api_key = api_key.clone().or(vendor.api_key.take());
    }
    for vendor in &mut settings.music_vendors {
        vendor.url = url.clone().or(vendor.url.take());
        vendor.api_key = api_key.clone().or(vendor.api_key.take());
    }
}

fn vendor_settings(settings: &Settings, gateway: Gateway) -> &VendorSettings {
    if gateway == Gateway::Video { &settings.video_vendors[0] } else { &settings.image_vendors[0] }
}

fn read_results(store: &MediaStore, results: &TaskResults) -> Result<Vec<VendorResultFile>, String> {
    let unreadable = |error: std::io::Error| format!("a result cannot be read: {error}");
    match results {
        TaskResults::Pictures(pictures) => {
            let file = |picture: &crate::domain::image::Picture| {
                let bytes = store.read(MediaArea::Result, picture).map_err(unreadable)?;
                Ok(VendorResultFile { extension: picture.format.as_str().to_owned(), bytes })
            };
            pictures.iter().map(file).collect()
        }
        TaskResults::Video(creation) => {
            let bytes = store.read_clip(MediaArea::Result, &creation.video).map_err(unreadable)?;
            Ok(vec![VendorResultFile { extension: creation.video.format.as_str().to_owned(), bytes }])
        }
        TaskResults::Music(_) => Ok(Vec::new()),
    }
}

fn describe_error(error: &VendorError) -> String {
    use crate::vendors::VendorErrorKind::{Busy, InputUnreadable, Refused, Unknown, Unreached, Unserved};
    let outcome = match error.kind {
        Refused => "refused",
        Unreached | InputUnreadable | Busy | Unserved => "no job was started",
        Unknown => "outcome unknown, the job may have been charged",
    };
    format!("{outcome}: {}", error.message)
}

fn describe_stream_error(error: &MusicStreamError) -> String {
    match error {
        MusicStreamError::NotAccepted(error) => describe_error(error),
        MusicStreamError::Failed(failure) | MusicStreamError::Interrupted(failure) => {
            failure.message.as_str().to_owned()
        }
    }
}
