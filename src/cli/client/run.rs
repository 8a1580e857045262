//! `mediary run`: submits a job with local files, waits for its end, and saves the result.

use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::complete;
use super::job::Job;
use super::service::{ServiceArguments, ServiceConnection};
use super::task::{ResultOutput, save_and_report, wait_for_end};
use crate::app;
use crate::cli::audit::text::printable;
use crate::cli::job_inputs::place_files;
use crate::cli::music_stream::read_music;
use crate::cli::progress::{ProgressLine, ProgressUnit, with_progress_bar};
use crate::cli::{CliError, print_text};
use crate::environment::Environment;
use crate::outbound::upload_body::UploadBody;
use crate::pluralize::pluralize;

/// Media type of a file whose format the service detects.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Model of an extension unless the user names another; the API requires one. It is the cheaper of the two possible
/// models.
const EXTENSION_MODEL: &str = "vq2-turbo";

/// Maximum size of the response to the request for a price.
const ESTIMATE_BYTES_MAX: usize = 64 << 10;

/// Picture of 8 by 8 pixels, the placeholder for any picture in the request for a price.
const PLACEHOLDER_PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAD0lEQVR42mNowAEYhpYEAILzYAEllbNjAAAAAElFTkSuQmCC";
/// URL, the placeholder for any video in the request for a price.
const PLACEHOLDER_VIDEO: &str = "https://example.org/video.mp4";

pub(super) const HELP: &str = "\
Uploads the files, submits the job, waits for its end, and writes the result to a file: to -o, or to
one named after the job and the task. Music is written while it is made. Ctrl-C ends the command and
leaves the task running, except for music, which ends too. A price is printed first; with --estimate,
nothing else happens.

The first FILE is the picture or the video. The second FILE is the reference of an image job, or the
end frame of `extend`. `multiframe` takes two to nine key frames in order; its prompt applies to each.
`extend` uses the model vq2-turbo unless -s names another. A FILE can be an http(s) URL.

Examples:
  mediary run --list
  mediary run image-upscaler --list
  mediary run image-upscaler photo.jpg -s scale_factor=4x -o large.jpg
  mediary run start-end2video -p waves -s duration=4 --estimate
  mediary run start-end2video first.jpg -p waves -s duration=4
  mediary run multiframe first.jpg second.jpg third.jpg -p waves -o film.mp4
  mediary run extend film.mp4 -p 'the sun sets' -o longer.mp4
  mediary run music -p 'calm solo piano' -s duration=30 -o piano.opus
  mediary run music -p piano -o - | mpv -

Exit codes: 0 the task succeeded, 1 the service refused or the task failed, 2 wrong usage, or the
command could not run, 130 interrupted.";

#[derive(Debug, Args)]
pub(in crate::cli) struct RunArguments {
    /// Job, as --list prints it
    #[arg(value_name = "JOB", required_unless_present = "list", add = ArgValueCompleter::new(complete::jobs))]
    job: Option<String>,
    /// Picture or video, as a file or a URL
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<String>,
    /// Prompt
    #[arg(short, long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Parameter of the job (repeatable)
    #[arg(short, long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// File for the result; `-` is stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// List the jobs, or the parameters of JOB, and run nothing
    #[arg(long)]
    list: bool,
    /// Print the price, and run nothing
    #[arg(long, conflicts_with_all = ["list", "output"])]
    estimate: bool,
    #[command(flatten)]
    service: ServiceArguments,
}

/// A FILE argument: a URL, or a local file, which is opened before anything is sent.
enum InputFileArgument {
    Url(String),
    Local { name: String, file: File, bytes: u64 },
}

impl InputFileArgument {
    fn open(argument: &str) -> Result<Self, CliError> {
        if argument.starts_with("http://") || argument.starts_with("https://") {
            return Ok(Self::Url(argument.to_owned()));
        }
        let open = || -> std::io::Result<(File, u64)> {
            let file = File::open(argument)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(std::io::Error::other("it is a directory"));
            }
            Ok((file, metadata.len()))
        };
        let (file, bytes) = open().with_context(|| format!("cannot read {argument}")).map_err(CliError::CannotRun)?;
        let name = argument.rsplit('/').next().unwrap_or(argument).to_owned();
        Ok(Self::Local { name, file, bytes })
    }

    /// Returns a placeholder for the file in the request for a price, which does not depend on its content.
    fn into_placeholder(self, job: &Job) -> String {
        match self {
            Self::Url(url) => url,
            Self::Local { .. } if job.has_parameter("video_url") => PLACEHOLDER_VIDEO.to_owned(),
            Self::Local { .. } => PLACEHOLDER_PICTURE.to_owned(),
        }
    }
}

/// Price of a job before its submission.
#[derive(Deserialize)]
struct JobEstimate {
    credits: u64,
    breakdown: Vec<JobEstimateItem>,
}

#[derive(Deserialize)]
struct JobEstimateItem {
    item: String,
    credits: i64,
}

impl JobEstimate {
    /// Parses the response to the request for a price.
    ///
    /// # Errors
    /// If the response is not a price. The caller must not submit the job then: a service that does not know the
    /// parameter `estimate` has already run it.
    fn parse(job: &Job, response: Value) -> Result<Self, CliError> {
        serde_json::from_value(response).map_err(|_| {
            CliError::Runtime(anyhow!(
                "the service did not return the price of {}, and may have run the job: see `mediary tasks`",
                printable(&job.name)
            ))
        })
    }

    /// Prints the price, with its parts if it has several.
    fn print(&self, service: &ServiceConnection) -> Result<(), CliError> {
        let Self { credits, breakdown } = self;
        if service.json {
            let parts: Vec<_> =
                breakdown.iter().map(|part| json!({"item": part.item, "credits": part.credits})).collect();
            return ServiceConnection::print_json(&json!({"credits": credits, "breakdown": parts}));
        }

        let mut text = format!("{}\n", pluralize(*credits, "credit"));
        if breakdown.len() > 1 {
            for JobEstimateItem { item, credits } in breakdown {
                let _ = writeln!(text, "  {}: {credits}", printable(item));
            }
        }
        print_text(&text)
    }

    /// Prints the price to stderr before the job runs, unless it is free.
    fn announce(&self, job: &Job) {
        if self.credits > 0 {
            // stderr may be closed.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("{} costs {}\n", printable(&job.name), pluralize(self.credits, "credit")).as_bytes(),
            );
        }
    }
}

/// Requests the price of an image or video job.
async fn request_task_price(
    service: &ServiceConnection,
    job: &Job,
    fields: &Map<String, Value>,
) -> Result<Value, CliError> {
    let path = format!("{}?estimate=true", job.path);
    service.json_of(service.api.create_without_key(&path, &Value::Object(fields.clone())).await)
}

/// Requests the price of a piece of music. Returns `null` if the response is too long for a price or is not JSON.
async fn request_music_price(
    service: &ServiceConnection,
    job: &Job,
    fields: &Map<String, Value>,
) -> Result<Value, CliError> {
    let form = form_fields(fields);
    let form: Vec<_> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let opened = service.api.post_form_streaming(&format!("{}?estimate=true", job.path), &form).await;
    let mut body = opened.map_err(|failure| service.unreachable(&failure))?.map_err(|reply| service.refusal(&reply))?;
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await.map_err(|failure| service.unreachable(&failure))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > ESTIMATE_BYTES_MAX {
            return Ok(Value::Null);
        }
    }
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

pub(super) fn run(arguments: RunArguments) -> Result<(), CliError> {
    let RunArguments { job, files, prompt, set, output, list, estimate, service } = arguments;
    if list {
        return print_jobs(&ServiceConnection::open(&service)?, job.as_deref());
    }

    let files = files.iter().map(|file| InputFileArgument::open(file)).collect::<Result<Vec<_>, _>>()?;
    let service = ServiceConnection::open_signed_in(&service)?;
    let name = job.unwrap_or_default();

    app::block_on(async {
        let job = Job::find(Job::list(&service).await?, &name)?;
        let mut fields = parameters(&job, prompt.as_deref(), &set)?;
        // Reject a wrong number of files before the first one is uploaded.
        place_files(|field| job.has_parameter(field), vec![Value::Null; files.len()]).map_err(CliError::Usage)?;
        let output = output.as_deref().map(ResultOutput::create).transpose()?;

        if job.medium == "music" {
            let price = request_music_price(&service, &job, &fields).await;
            if estimate {
                return JobEstimate::parse(&job, price?)?.print(&service);
            }
            // If the price cannot be read, the submission reports what is wrong.
            if let Ok(price) = price {
                JobEstimate::parse(&job, price)?.announce(&job);
            }
            return make_music(&service, &job, &fields, output).await;
        }

        let mut inputs = Vec::new();
        for file in files {
            inputs.push(if estimate {
                file.into_placeholder(&job).into()
            } else {
                upload(&service, file).await?.into()
            });
        }
        let placed = place_files(|field| job.has_parameter(field), inputs).map_err(CliError::Usage)?;
        for (field, value) in placed {
            if fields.insert(field.clone(), value).is_some() {
                return Err(CliError::Usage(format!("-s {field}: give it as FILE or with -s, not both")));
            }
        }
        fill_video_fields(&job, prompt, &mut fields);

        let price = request_task_price(&service, &job, &fields).await;
        if estimate {
            return JobEstimate::parse(&job, price?)?.print(&service);
        }
        if let Ok(price) = price {
            JobEstimate::parse(&job, price)?.announce(&job);
        }

        let task = submit(&service, &job, fields).await?;
        let ended = wait_for_end(&service, &task).await?;
        save_and_report(&service, ended, output).await
    })
}

fn print_jobs(service: &ServiceConnection, job: Option<&str>) -> Result<(), CliError> {
    if service.json {
        let mut list = app::block_on(service.get("/models"))?;
        if let Some(job) = job {
            // An unknown job is an error, as without --json.
            Job::find(Job::parse_list(service, list.clone())?, job)?;
            if let Some(models) = list["models"].as_array_mut() {
                models.retain(|model| model["job"] == job);
            }
        }
        return ServiceConnection::print_json(&list);
    }

    let jobs = app::block_on(Job::list(service))?;
    print_text(&match job {
        Some(job) => Job::find(jobs, job)?.describe(),
        None => Job::describe_all(&jobs),
    })
}

/// Returns the fields of the request from `-s` and `-p`.
fn parameters(job: &Job, prompt: Option<&str>, set: &[String]) -> Result<Map<String, Value>, CliError> {
    let assignments = set.iter().map(|assignment| job.parse_assignment(assignment));
    let mut fields = assignments.collect::<Result<Map<_, _>, _>>()?;

    match prompt {
        Some(prompt) if job.has_parameter("prompt") => {
            fields.insert("prompt".to_owned(), prompt.into());
        }
        Some(_) if !job.has_parameter("image_settings") => {
            return Err(CliError::Usage(format!("{} takes no prompt", job.name)));
        }
        _ => {}
    }
    Ok(fields)
}

/// Fills the fields of a video job that the files leave empty: the prompt of each key frame, and the id and the model
/// of an extension.
fn fill_video_fields(job: &Job, prompt: Option<String>, fields: &mut Map<String, Value>) {
    if let (Some(prompt), Some(Value::Array(frames))) = (prompt, fields.get_mut("image_settings")) {
        for frame in frames.iter_mut().filter_map(Value::as_object_mut) {
            frame.entry("prompt").or_insert_with(|| prompt.clone().into());
        }
    }

    let Some(url) = fields.get("video_url").and_then(Value::as_str).map(str::to_owned) else { return };
    if job.has_parameter("video_creation_id") {
        // The URL selects the video. The API also requires an id, and takes any that does not belong to another video.
        let id = url.split(['?', '#']).next().and_then(|path| path.rsplit('/').find(|part| !part.is_empty()));
        fields.entry("video_creation_id").or_insert_with(|| id.unwrap_or("video").into());
        fields.entry("model").or_insert_with(|| EXTENSION_MODEL.into());
    }
}

/// Uploads a local file. Returns the URL to use in jobs.
async fn upload(service: &ServiceConnection, file: InputFileArgument) -> Result<String, CliError> {
    let (name, file, bytes) = match file {
        InputFileArgument::Url(url) => return Ok(url),
        InputFileArgument::Local { name, file, bytes } => (name, file, bytes),
    };

    let key = Environment::system().random_uuid();
    let announced = service.api.create_once("/files", &json!({"name": name, "bytes": bytes}), key).await;
    let announced = service.json_of(announced)?;
    let text = |field: &str| announced[field].as_str().with_context(|| format!("the response has no {field}"));
    let upload_url = text("upload_url")?;
    let url = text("url")?;

    let progress = ProgressLine::new(format!("uploading {}", printable(&name)), ProgressUnit::Bytes);
    let shown = progress.clone();
    let body = UploadBody::new(file, bytes, move |sent| shown.update(sent, Some(bytes)));
    let uploaded = service.api.upload_file(upload_url, UNKNOWN_TYPE, body).await;
    progress.finish();
    service.json_of(uploaded).map_err(|error| error.context(format!("{name} cannot be used")))?;
    Ok(url.to_owned())
}

/// Submits a job and returns the id of its task.
async fn submit(service: &ServiceConnection, job: &Job, fields: Map<String, Value>) -> Result<String, CliError> {
    let key = Environment::system().random_uuid();
    let submitted = service.json_of(service.api.create_once(&job.path, &Value::Object(fields), key).await)?;
    let task = submitted.get("data").unwrap_or(&submitted)["task_id"].as_str();
    Ok(task.context("the response has no task id")?.to_owned())
}

/// Returns the fields of a form as text.
fn form_fields(fields: &Map<String, Value>) -> Vec<(&str, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    fields.iter().map(|(name, value)| (name.as_str(), text(value))).collect()
}

/// Requests music and writes it to `output` as it arrives, or to a new file in the working directory. Ctrl-C ends the
/// stream, and with it the task.
async fn make_music(
    service: &ServiceConnection,
    job: &Job,
    fields: &Map<String, Value>,
    output: Option<ResultOutput>,
) -> Result<(), CliError> {
    let fields = form_fields(fields);
    let form: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let opened = service.api.post_form_streaming(&job.path, &form).await;
    let body = opened.map_err(|failure| service.unreachable(&failure))?.map_err(|reply| service.refusal(&reply))?;

    // The file is named after the job alone, because the id of the task is known only at the end of the stream.
    let create_file = || ResultOutput::create(&unused_name(&job.name, "opus"));
    let mut output = output.map_or_else(create_file, Ok)?;
    let is_stdout = output.is_stdout();
    let music = tokio::select! {
        music = with_progress_bar("music", async |on_progress| read_music(body, &mut output, on_progress).await) => music?,
        _ = tokio::signal::ctrl_c() => {
            let message = "interrupted; the service ends the piece too, because it makes music while a client reads it";
            return Err(CliError::Interrupted(message.to_owned()));
        }
    };
    let path = output.commit()?;

    let task = service.get(&format!("/tasks/{}", music.task)).await?;
    if service.json && !is_stdout {
        return ServiceConnection::print_json(&json!({"task": task, "music": music, "files": [{"path": path}]}));
    }
    let file_line = path.map(|path| format!("{}\n", path.display())).unwrap_or_default();
    let text = format!(
        "{file_line}{:?}, {:.0} s, task {}, {}\n",
        printable(&music.title),
        music.seconds,
        printable(&music.task),
        pluralize(task["cost"].as_u64().unwrap_or_default(), "credit")
    );
    if is_stdout {
        // stderr may be closed.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        return Ok(());
    }
    print_text(&text)
}

/// Returns the first of `NAME.EXTENSION`, `NAME-2.EXTENSION` and so on that does not exist.
fn unused_name(name: &str, extension: &str) -> PathBuf {
    let names = (1..).map(|number: u32| match number {
        1 => PathBuf::from(format!("{name}.{extension}")),
        number => PathBuf::from(format!("{name}-{number}.{extension}")),
    });
    names.into_iter().find(|path| !path.exists()).unwrap_or_else(|| PathBuf::from(format!("{name}.{extension}")))
}
