//! `mediary vendors`: lists and checks vendor profiles, shows the requests of a job, and sends one.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::job_inputs::place_files;
use super::{CliError, DirectoryFlags, SettingFlags, print};
use crate::app;
use crate::app::{VendorTool, VendorToolOverrides, video_tariff};
use crate::config::{Settings, VendorSelection};
use crate::disk_space::DiskSpace;
use crate::domain::ids::TaskId;
use crate::domain::task::{RecordedVendor, TaskWork};
use crate::environment::Environment;
use crate::http::job_body::{JobContext, field_names, read_work};
use crate::media::store::{MediaArea, MediaStore};
use crate::vendors::profile::{JOB_NAMES, Profile, SHIPPED_PROFILES};

pub(super) const HELP: &str = "\
Examples:
  mediary vendors list
  mediary vendors check /etc/mediary/vendors/studio.toml
  mediary vendors show comfyui image-upscaler --image photo.png
  mediary vendors try studio image-upscaler --image photo.png --output results";

const LIST_HELP: &str = "\
Examples:
  mediary vendors list
  mediary vendors list --config /etc/mediary.toml";

const CHECK_HELP: &str = "\
Examples:
  mediary vendors check studio.toml
  mediary vendors check /etc/mediary/vendors/studio.toml

Exit codes: 0 valid, 1 invalid. The message names the file, the line and what is allowed.";

const SHOW_HELP: &str = "\
NAME is a vendor of the settings, or a profile. Nothing is sent; the API key is masked, and long
texts are shortened.

Examples:
  mediary vendors show comfyui image-upscaler --image photo.png
  mediary vendors show stability image-style-transfer --image photo.png --image style.png
  mediary vendors show vidu start-end2video --image first.png --set prompt=waves --set duration=4
  mediary vendors show sonilo music --set prompt=piano --set duration=30";

const TRY_HELP: &str = "\
Sends one job to the vendor, which may charge for it, waits for its end and writes the results. NAME
is a vendor of the settings, or a profile; VENDOR_API_KEY overrides the API key. The service does not
record the job.

Examples:
  mediary vendors try studio image-upscaler --image photo.png
  mediary vendors try a1111 image-upscaler --image photo.png --url http://10.0.0.5:7860
  mediary vendors try vidu start-end2video --image first.png --set prompt=waves --output results";

#[derive(Debug, Subcommand)]
pub(super) enum VendorsCommand {
    /// List the profiles, and the vendors of the settings
    #[command(after_help = LIST_HELP)]
    List(DirectoryFlags),
    /// Check a profile
    #[command(after_help = CHECK_HELP)]
    Check {
        /// File of the profile
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print the exact requests of a job
    #[command(after_help = SHOW_HELP)]
    Show(JobArguments),
    /// Send a job to a vendor, and write its results
    #[command(after_help = TRY_HELP)]
    Try {
        #[command(flatten)]
        job: JobArguments,
        /// Directory for the results
        #[arg(long, value_name = "DIR", default_value = ".")]
        output: PathBuf,
        /// Seconds to wait for the end of the job
        #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
        wait: u64,
    },
}

/// A job and its vendor.
#[derive(Debug, Args)]
pub(super) struct JobArguments {
    /// Vendor or profile
    #[arg(value_name = "NAME")]
    name: String,
    /// Job, such as image-upscaler
    #[arg(value_name = "JOB")]
    job: String,
    /// Picture; may be repeated: the second one of an image job is its reference
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Parameter as in the API; may be repeated
    #[arg(long, value_name = "PARAMETER=VALUE")]
    set: Vec<String>,
    /// File with the body of the job in JSON, as in the API
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Base URL of the vendor, instead of the configured one
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    directory: DirectoryFlags,
}

pub(super) fn run(command: VendorsCommand, outer: SettingFlags) -> Result<(), CliError> {
    match command {
        VendorsCommand::List(directory) => list(&directory.settings(outer)?),
        VendorsCommand::Check { file } => check(&file),
        VendorsCommand::Show(arguments) => {
            let job = PreparedJob::new(arguments, outer)?;
            let store = job.store.clone();
            let read = Arc::new(move |picture: &_| store.read(MediaArea::Input, picture).ok());
            let requests =
                job.tool.preview(&job.work, &job.task.to_string(), read).map_err(|reason| anyhow!(reason))?;
            print(&requests.join("\n")).context("cannot write to stdout")?;
            Ok(())
        }
        VendorsCommand::Try { job, output, wait } => {
            let job = PreparedJob::new(job, outer)?;
            Ok(try_job(&job, &output, Duration::from_secs(wait))?)
        }
    }
}

fn list(settings: &Settings) -> Result<(), CliError> {
    let mut text = "Profiles:\n".to_owned();
    let directory = settings.vendor_profiles.as_deref();
    let own_names = directory.map(Profile::names_in).unwrap_or_default();
    let shipped = SHIPPED_PROFILES.iter().map(|name| (*name).to_owned()).filter(|name| !own_names.contains(name));

    for name in shipped.chain(own_names.clone()) {
        let origin = if own_names.contains(&name) { " (from vendors.profiles)" } else { "" };
        // Writing to a string cannot fail.
        let _ = match Profile::load(&name, directory) {
            Ok(profile) => {
                let (_, checked_on) = profile.source();
                let jobs = profile.jobs().collect::<Vec<_>>().join(", ");
                let url = profile.url().unwrap_or("needs a URL");
                writeln!(text, "  {name}{origin}: {}\n    {url}; {jobs}; checked {checked_on}", profile.description())
            }
            Err(error) => writeln!(text, "  {name}{origin}: invalid, {error}"),
        };
    }

    text.push_str("\nConfigured vendors:\n");
    let images = settings.image_vendors.iter().map(|vendor| ("image", &vendor.selection, &vendor.url));
    let videos = settings.video_vendors.iter().map(|vendor| ("video", &vendor.selection, &vendor.url));
    let music = settings.music_vendors.iter().map(|vendor| ("music", &vendor.selection, &vendor.url));
    for (medium, VendorSelection { name, profile, .. }, url) in images.chain(videos).chain(music) {
        let protocol = match (profile.name(), url) {
            (RecordedVendor::BUILT_IN_PROFILE, _) => "built-in engine".to_owned(),
            (profile, Some(url)) => format!("profile {profile}, {url}"),
            (profile, None) => format!("profile {profile}, without a URL"),
        };
        let _ = writeln!(text, "  {name}: {medium}, {protocol}");
    }
    print(&text).context("cannot write to stdout")?;
    Ok(())
}

fn check(file: &Path) -> Result<(), CliError> {
    let profile = Profile::load_file(file).map_err(|error| anyhow!("{error}"))?;
    let jobs: Vec<_> = profile.jobs().collect();
    print(&format!("{} is valid; its jobs: {}\n", file.display(), jobs.join(", ")))
        .context("cannot write to stdout")?;
    Ok(())
}

/// A parsed job and its vendor. The pictures of the job are in a temporary directory, which is removed on drop.
struct PreparedJob {
    tool: VendorTool,
    work: TaskWork,
    task: TaskId,
    store: MediaStore,
    _directory: ScratchDirectory,
}

impl PreparedJob {
    fn new(arguments: JobArguments, outer: SettingFlags) -> Result<Self, CliError> {
        let JobArguments { name, job, image, set, body, url, directory } = arguments;
        let settings = directory.settings(outer)?;
        let gateway = Profile::gateway_of_job(&job)
            .ok_or_else(|| CliError::Usage(format!("there is no job {job}; the jobs are {}", JOB_NAMES.join(", "))))?;
        let api_key = std::env::var("VENDOR_API_KEY").ok().filter(|key| !key.is_empty());
        let overrides = VendorToolOverrides { url, api_key };
        let tool = VendorTool::find(&settings, &name, gateway, overrides).map_err(CliError::Usage)?;

        let scratch = ScratchDirectory::create()?;
        let store = MediaStore::open(&scratch.0).context("cannot create a directory for the pictures")?;
        let body = job_body(&job, &image, &set, body.as_deref())?;
        let space = DiskSpace::new(&scratch.0, 0);
        let tariff = video_tariff(&settings).map_err(CliError::Usage)?;
        let environment = Environment::system();
        let task = TaskId(environment.random_uuid());
        let seed = u32::from_le_bytes(environment.random_bytes());
        let context = JobContext { store: &store, space: &space, tariff: &tariff, seed };
        let work = read_work(&job, &body, &context).map_err(CliError::Usage)?;
        if work.has_missing_inputs() {
            return Err(CliError::Usage("give pictures as files, with --image, and not as URLs".to_owned()));
        }
        Ok(Self { tool, work, task, store, _directory: scratch })
    }
}

/// Directory that is removed when it is dropped.
struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    fn create() -> anyhow::Result<Self> {
        let name = format!("mediary-vendors-{}", Environment::system().random_uuid().simple());
        let path = std::env::temp_dir().join(name);
        // Pictures are not for other users of the machine.
        let created = fs::DirBuilder::new().mode(0o700).create(&path);
        created.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the body of the job, as a client of the API would send it.
fn job_body(job: &str, images: &[PathBuf], set: &[String], file: Option<&Path>) -> Result<Value, CliError> {
    let mut body = match file {
        None => json!({}),
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            let invalid = |reason: &dyn std::fmt::Display| CliError::Usage(format!("{}: {reason}", file.display()));
            let body: Value = serde_json::from_str(&text).map_err(|error| invalid(&error))?;
            if !body.is_object() {
                return Err(invalid(&"must be a JSON object"));
            }
            body
        }
    };

    let pictures = images.iter().map(|path| {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Value::from(STANDARD.encode(bytes)))
    });
    let pictures = pictures.collect::<anyhow::Result<Vec<_>>>()?;
    let names = field_names(job);
    // `--image` takes pictures only, so it cannot fill the field for the video that a job extends.
    let has = |name: &str| name != "video_url" && names.iter().any(|known| *known == name);
    for (field, value) in place_files(has, pictures).map_err(|reason| CliError::Usage(format!("--image: {reason}")))? {
        body[field] = value;
    }

    for assignment in set {
        let (name, value) = assignment.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            CliError::Usage(format!("--set {assignment}: must be PARAMETER=VALUE, such as scale_factor=4x"))
        })?;
        body[name] = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    }
    Ok(body)
}

fn try_job(job: &PreparedJob, output: &Path, limit: Duration) -> anyhow::Result<()> {
    fs::create_dir_all(output).with_context(|| format!("cannot create {}", output.display()))?;
    let report = |step: &str| {
        // stderr may be closed; the job continues.
        let _ = writeln!(std::io::stderr(), "{step}");
    };
    let result = app::block_on(job.tool.run(job.work.clone(), job.task, &job.store, limit, report));
    let files = result.map_err(|reason| anyhow!(reason))?;
    ensure!(!files.is_empty(), "the vendor returned no results");

    let mut text = String::new();
    for (number, file) in files.iter().enumerate() {
        let extension = if file.extension.is_empty() { "bin" } else { &file.extension };
        let path = output.join(format!("{}-{}.{extension}", job.task, number + 1));
        fs::write(&path, &file.bytes).with_context(|| format!("cannot write {}", path.display()))?;
        let _ = writeln!(text, "{} ({} bytes)", path.display(), file.bytes.len());
    }
    print(&text).context("cannot write to stdout")?;
    Ok(())
}
