//! `mediary tasks` and `mediary watch`: the tasks of the caller.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::complete;
use super::service::{ServiceArguments, ServiceConnection};
use crate::app;
use crate::cli::atomic_file::AtomicFile;
use crate::cli::audit::text::{printable, truncate};
use crate::cli::progress::{ProgressLine, ProgressUnit, format_bytes};
use crate::cli::suggestions::SuggestedValues;
use crate::cli::table::{RowColor, TextTable};
use crate::cli::task_events::{FollowError, follow_task, is_failure, is_success};
use crate::cli::{CliError, print_text};
use crate::domain::ids::TaskId;
use crate::domain::value::Timestamp;
use crate::environment::Environment;

/// States of tasks in these commands. The API has other names for some of them in videos and music.
const STATES: [&str; 5] = ["created", "queueing", "in_progress", "completed", "failed"];
/// Maximum size of a page of tasks.
const PAGE_MAX: usize = 100;
/// Maximum number of pages that are searched for tasks of one mode (`skin-enhancer/faithful`), in addition to those
/// that `--limit` needs: the API can only select by kind (`skin-enhancer`).
const PAGES_SEARCHED_MAX: usize = 50;
/// Maximum characters of a note in a table.
const NOTE_MAX: usize = 100;
/// Characters of a task id in the name of a file.
const ID_CHARS: usize = 8;

pub(super) const TASKS_HELP: &str = "\
Lists your tasks, newest first; administrators see those of all users.

Examples:
  mediary tasks
  mediary tasks --state failed --limit 5
  mediary tasks --job image-upscaler --job music --json";

pub(super) const WATCH_HELP: &str = "\
Follows a task to its end. Ctrl-C ends the command, not the task. With -o, the result is written to a
file.

Examples:
  mediary watch 5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11
  mediary watch 5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11 -o result.png

Exit codes: 0 the task succeeded, 1 it failed, 130 interrupted.";

#[derive(Debug, Args)]
pub(in crate::cli) struct TasksArguments {
    /// Only tasks in this state: created, queueing, `in_progress`, completed or failed (repeatable)
    #[arg(long, value_name = "STATE", value_parser = SuggestedValues(&STATES), hide_possible_values = true)]
    state: Vec<String>,
    /// Only tasks of this job, as `mediary run --list` prints it (repeatable); with a mode, only the newest 5,000 count
    #[arg(long, alias = "kind", value_name = "JOB", add = ArgValueCompleter::new(complete::jobs))]
    job: Vec<String>,
    /// Number of tasks to list
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    service: ServiceArguments,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WatchArguments {
    /// Task
    #[arg(value_name = "ID", value_parser = |text: &str| TaskId::parse(text), add = ArgValueCompleter::new(complete::tasks))]
    task: TaskId,
    /// File for the result; `-` is stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    #[command(flatten)]
    service: ServiceArguments,
}

#[derive(Deserialize)]
struct ListedTasks {
    tasks: Vec<Value>,
    next_cursor: Option<String>,
}

/// Fields of a task that these commands show.
#[derive(Deserialize)]
pub(super) struct ShownTask {
    pub(super) task_id: String,
    kind: String,
    /// Absent in responses of older services.
    job: Option<String>,
    state: String,
    progress: f64,
    cost: u64,
    cost_state: Option<String>,
    vendor: Option<ShownVendor>,
    created_at: String,
    updated_at: Option<String>,
    generated: Vec<String>,
    cover_url: Option<String>,
    expires_at: Option<String>,
    #[serde(default)]
    expired: bool,
    queue_position: Option<u64>,
    blocked_by: Option<TaskReason>,
    error: Option<TaskReason>,
    prompt_report: Option<ShownPromptReport>,
}

#[derive(Deserialize)]
struct ShownVendor {
    name: String,
}

#[derive(Deserialize)]
struct TaskReason {
    code: String,
    message: String,
    /// Only set in the reason why a task is blocked.
    next_attempt_at: Option<String>,
}

#[derive(Deserialize)]
struct ShownPromptReport {
    understood: Vec<String>,
    ignored: Vec<String>,
}

impl ShownTask {
    /// Returns the job as `mediary run` names it.
    pub(super) fn job(&self) -> &str {
        self.job.as_deref().unwrap_or(&self.kind)
    }

    /// Returns the state by its name in [`STATES`].
    fn state(&self) -> String {
        match self.state.to_lowercase().as_str() {
            "processing" => "in_progress".to_owned(),
            "success" => "completed".to_owned(),
            state => state.to_owned(),
        }
    }

    /// Returns the price, with the state of the credits unless they are charged.
    fn price(&self) -> String {
        match self.cost_state.as_deref() {
            Some(state) if self.cost > 0 && state != "charged" => format!("{} {state}", self.cost),
            _ => self.cost.to_string(),
        }
    }

    /// Returns the time from the submission to the end; `None` while the task runs.
    fn duration(&self) -> Option<String> {
        let has_ended = ["completed", "failed"].contains(&self.state().as_str());
        let time = |text: &str| Timestamp::parse(text).ok();
        let submitted = time(&self.created_at)?;
        let ended = time(self.updated_at.as_deref()?)?;
        let seconds = ended.since(submitted).as_secs_f64();
        has_ended.then(|| if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") })
    }

    fn vendor(&self) -> Option<&str> {
        self.vendor.as_ref().map(|vendor| vendor.name.as_str())
    }

    /// Returns why the task failed or is blocked, or its place in the queue; empty if there is nothing to say.
    fn note(&self) -> String {
        match (&self.error, &self.blocked_by, self.queue_position) {
            (Some(TaskReason { code, message, .. }), _, _) => format!("{code}: {message}"),
            (None, Some(TaskReason { message, next_attempt_at, .. }), _) => {
                let next = next_attempt_at.as_deref().map(|at| format!(", next attempt at {} UTC", format_minute(at)));
                format!("waits: {message}{}", next.unwrap_or_default())
            }
            (None, None, Some(position)) => format!("number {position} in the queue"),
            (None, None, None) if self.expired => "results deleted".to_owned(),
            (None, None, None) => String::new(),
        }
    }

    /// Returns the text beside the progress bar.
    fn activity(&self) -> String {
        let note = self.note();
        let separator = if note.is_empty() { "" } else { ", " };
        printable(&format!("{}{separator}{note}", self.job()))
    }

    /// Returns lines about a task that succeeded, besides its results.
    fn summary(&self) -> Vec<String> {
        let took = self.duration().map(|duration| format!(" in {duration}")).unwrap_or_default();
        let vendor = self.vendor().map(|name| format!(", made by {name}")).unwrap_or_default();
        let mut lines =
            vec![format!("task {}, {}{took}, {} credits{vendor}", self.task_id, self.state(), self.price())];
        lines.extend(self.cover_url.as_ref().map(|url| format!("cover: {url}")));
        lines.extend(self.expires_at.as_deref().map(|time| {
            if self.expired {
                "the results have been deleted".to_owned()
            } else {
                format!("the results are deleted at {} UTC", format_minute(time))
            }
        }));
        if let Some(ShownPromptReport { understood, ignored }) = &self.prompt_report {
            for (name, words) in [("understood", understood), ("ignored", ignored)] {
                lines.extend((!words.is_empty()).then(|| format!("{name} in the prompt: {}", words.join(", "))));
            }
        }
        lines
    }

    /// Returns the name of a file for a result.
    fn file_name(&self, url: &str) -> String {
        let extension = url.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("bin", |(_, end)| end);
        let id: String = self.task_id.chars().take(ID_CHARS).collect();
        format!("{}-{id}.{extension}", self.job().replace('/', "-"))
    }
}

pub(super) fn tasks(arguments: &TasksArguments) -> Result<(), CliError> {
    let service = ServiceConnection::open_signed_in(&arguments.service)?;
    let tasks = app::block_on(list(&service, arguments))?;
    if service.json {
        return ServiceConnection::print_json(&json!({"tasks": tasks}));
    }
    if tasks.is_empty() {
        return print_text("No tasks match.\n");
    }

    let headers = ["TASK", "JOB", "STATE", "DONE", "CREDITS", "VENDOR", "SUBMITTED (UTC)", "TOOK", "NOTE"];
    let mut table = TextTable::new(&headers).right_align(&[3, 4, 7]);
    for task in tasks {
        let color = match (is_success(&task), is_failure(&task)) {
            (true, _) => RowColor::Good,
            (_, true) => RowColor::Bad,
            _ => RowColor::Pending,
        };
        let task: ShownTask = service.parse(task)?;
        let cells = [
            task.task_id.clone(),
            task.job().to_owned(),
            task.state(),
            format!("{:.0} %", task.progress * 100.0),
            task.price(),
            task.vendor().unwrap_or("-").to_owned(),
            format_minute(&task.created_at),
            task.duration().unwrap_or_else(|| "-".to_owned()),
            truncate(&task.note(), NOTE_MAX),
        ];
        table.push(color, cells.map(|cell| printable(&cell)));
    }
    print_text(&table.to_string())
}

/// Formats a time without seconds, such as `2026-03-01 09:30`.
fn format_minute(time: &str) -> String {
    time.replace('T', " ").chars().take(16).collect()
}

/// Reads the newest matching tasks, in as many pages as necessary.
async fn list(service: &ServiceConnection, arguments: &TasksArguments) -> Result<Vec<Value>, CliError> {
    let TasksArguments { state, job, limit, .. } = arguments;
    let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
    // The API selects by kind; a mode of a kind is selected here.
    let kinds: Vec<_> = job.iter().map(|job| job.split('/').next().unwrap_or(job)).collect();
    let is_selected = |task: &Value| {
        let kind = task["kind"].as_str();
        let name = task["job"].as_str();
        job.is_empty() || job.iter().any(|job| Some(job.as_str()) == kind || Some(job.as_str()) == name)
    };
    let has_modes = job.iter().any(|job| job.contains('/'));
    let pages_max = (limit / PAGE_MAX).saturating_add(PAGES_SEARCHED_MAX);
    let mut tasks = Vec::new();
    let mut cursor = None::<String>;
    let mut searched = 0;

    for _ in 0..pages_max {
        let page_size = if has_modes { PAGE_MAX } else { (limit - tasks.len()).min(PAGE_MAX) };
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", &page_size.to_string());
        query.extend_pairs(state.iter().map(|state| ("state", api_state(state))));
        query.extend_pairs(kinds.iter().map(|kind| ("kind", kind)));
        query.extend_pairs(cursor.iter().map(|cursor| ("cursor", cursor)));

        let page: ListedTasks = service.read(&format!("/tasks?{}", query.finish())).await?;
        searched += page.tasks.len();
        tasks.extend(page.tasks.into_iter().filter(is_selected));
        tasks.truncate(limit);
        cursor = page.next_cursor;
        if cursor.is_none() || tasks.len() == limit {
            return Ok(tasks);
        }
    }

    let kind = job.iter().find_map(|job| Some(job.split_once('/')?.0));
    let remedy = kind.map(|kind| format!("; --job {kind} without a mode lists all")).unwrap_or_default();
    // stderr may be closed.
    let _ = writeln!(io::stderr(), "searched only the newest {searched} tasks of these kinds{remedy}");
    Ok(tasks)
}

/// Returns a state as the API spells it. States of images are in upper case, and select the same states of other media.
fn api_state(state: &str) -> String {
    let upper = state.to_uppercase();
    if ["CREATED", "IN_PROGRESS", "COMPLETED", "FAILED"].contains(&upper.as_str()) {
        upper
    } else {
        state.to_lowercase()
    }
}

pub(super) fn watch(arguments: &WatchArguments) -> Result<(), CliError> {
    let WatchArguments { task, output, service } = arguments;
    let service = ServiceConnection::open(service)?;
    let output = output.as_deref().map(ResultOutput::create).transpose()?;
    app::block_on(async {
        let ended = wait_for_end(&service, &task.to_string()).await?;
        match output {
            Some(output) => save_and_report(&service, ended, Some(output)).await,
            None => report(&service, &ended, &[], false),
        }
    })
}

/// Follows a task to its end with a progress bar and returns its JSON. Ctrl-C ends the wait, but not the task.
///
/// # Errors
/// If the task failed, the service stopped responding, or the user interrupted the wait.
pub(super) async fn wait_for_end(service: &ServiceConnection, task: &str) -> Result<Value, CliError> {
    let progress = ProgressLine::new(format!("task {task}"), ProgressUnit::Fraction);
    let mut on_view = |view: &Value| {
        if let Ok(view) = service.parse::<ShownTask>(view.clone()) {
            progress.describe(view.activity());
            progress.update_fraction(view.progress);
        }
    };
    let followed = tokio::select! {
        followed = follow_task(&service.api, task, &mut on_view) => followed,
        _ = tokio::signal::ctrl_c() => {
            progress.finish();
            return Err(CliError::Interrupted(format!("interrupted; the task goes on, follow it with `mediary watch {task}`")));
        }
    };
    progress.finish();

    let ended = followed.map_err(|error| match error {
        FollowError::Refused(reply) => service.refusal(&reply),
        FollowError::Unreachable(failure) => service.unreachable(&failure),
        broken => CliError::CannotRun(anyhow!("{broken}; follow the task with `mediary watch {task}`")),
    })?;
    if !is_failure(&ended) {
        return Ok(ended);
    }
    if service.json {
        ServiceConnection::print_json(&json!({"task": ended, "files": []}))?;
    }
    let ended: ShownTask = service.parse(ended)?;
    Err(anyhow!("the task failed: {}", printable(&ended.note())).into())
}

/// Destination of a result.
pub(super) enum ResultOutput {
    Stdout,
    File(AtomicFile, PathBuf),
}

impl ResultOutput {
    /// Opens a file, or stdout for `-`.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(super) fn create(path: &Path) -> Result<Self, CliError> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let file = AtomicFile::create(path, Environment::system().random_uuid());
        let file = file.with_context(|| format!("cannot write {}", path.display())).map_err(CliError::CannotRun)?;
        Ok(Self::File(file, path.to_owned()))
    }

    /// Moves the file to its final path and returns the path; `None` for stdout.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn commit(self) -> Result<Option<PathBuf>, CliError> {
        let Self::File(file, path) = self else { return Ok(None) };
        file.commit().with_context(|| format!("cannot write {}", path.display())).map_err(CliError::CannotRun)?;
        Ok(Some(path))
    }

    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }
}

impl Write for ResultOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout => io::stdout().write(bytes),
            Self::File(file, _) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().flush(),
            Self::File(file, _) => file.flush(),
        }
    }
}

/// Downloads the results of a task that succeeded, and prints a report. The first result goes to `output`, the others
/// to files named after the task.
///
/// # Errors
/// If a result cannot be downloaded or written.
pub(super) async fn save_and_report(
    service: &ServiceConnection,
    ended: Value,
    mut output: Option<ResultOutput>,
) -> Result<(), CliError> {
    let task: ShownTask = service.parse(ended.clone())?;
    let is_stdout = output.as_ref().is_some_and(ResultOutput::is_stdout);
    let mut files = Vec::new();
    for (index, url) in task.generated.iter().enumerate() {
        let name = task.file_name(url);
        let name = if index == 0 { name } else { format!("{}-{name}", index + 1) };
        let mut target = output.take().map_or_else(|| ResultOutput::create(Path::new(&name)), Ok)?;
        let bytes = service.download(url, u64::MAX, &mut target).await?;
        files.extend(target.commit()?.map(|path| (path, bytes)));
    }
    report(service, &ended, &files, is_stdout)
}

/// Prints a task that succeeded, with its files or the URLs of its results. `is_stdout` is `true` if the result itself
/// was written to stdout; the report goes to stderr then.
fn report(
    service: &ServiceConnection,
    ended: &Value,
    files: &[(PathBuf, u64)],
    is_stdout: bool,
) -> Result<(), CliError> {
    if service.json && !is_stdout {
        let files: Vec<_> = files.iter().map(|(path, bytes)| json!({"path": path, "bytes": bytes})).collect();
        return ServiceConnection::print_json(&json!({"task": ended, "files": files}));
    }

    let task: ShownTask = service.parse(ended.clone())?;
    let mut lines: Vec<_> =
        files.iter().map(|(path, bytes)| format!("{} ({})", path.display(), format_bytes(*bytes))).collect();
    if files.is_empty() && !is_stdout {
        lines.extend(task.generated.iter().map(|url| printable(url)));
    }
    lines.extend(task.summary().iter().map(|line| printable(line)));
    let text = format!("{}\n", lines.join("\n"));
    if is_stdout {
        // stderr may be closed.
        let _ = io::stderr().write_all(text.as_bytes());
        return Ok(());
    }
    print_text(&text)
}

/// Returns the ids of the newest tasks with their kinds, for completions.
pub(super) async fn newest(service: &ServiceConnection, count: u64) -> Result<Vec<(String, String)>, CliError> {
    let page: ListedTasks = service.read(&format!("/tasks?limit={count}")).await?;
    let tasks = page.tasks.into_iter().map(|task| service.parse::<ShownTask>(task));
    tasks.map(|task| task.map(|task| (task.task_id.clone(), format!("{}, {}", task.job(), task.state())))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_named_after_its_task() {
        let task: ShownTask = serde_json::from_value(json!({
            "task_id": "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11", "kind": "skin-enhancer", "job": "skin-enhancer/faithful",
            "state": "COMPLETED", "progress": 1.0, "cost": 0, "created_at": "2026-03-01T09:30:00Z", "generated": []
        }))
        .unwrap();
        assert_eq!(task.file_name("http://127.0.0.1/media/abc.png"), "skin-enhancer-faithful-5a7f7a36.png");
        assert_eq!(task.file_name("http://127.0.0.1/media/abc"), "skin-enhancer-faithful-5a7f7a36.bin");
    }

    #[test]
    fn the_summary_has_price_vendor_cover_expiry_and_prompt_report() {
        let task: ShownTask = serde_json::from_value(json!({
            "task_id": "5a7f", "kind": "start-end2video", "job": "start-end2video", "state": "success", "progress": 1.0,
            "cost": 40, "cost_state": "held", "vendor": {"name": "studio"}, "created_at": "2026-03-01T09:30:00Z",
            "updated_at": "2026-03-01T09:30:12Z", "generated": [], "cover_url": "http://x/c.png",
            "expires_at": "2026-04-01T09:30:12Z", "prompt_report": {"understood": ["waves"], "ignored": ["zzz"]}
        }))
        .unwrap();
        let expected = [
            "task 5a7f, completed in 12 s, 40 held credits, made by studio",
            "cover: http://x/c.png",
            "the results are deleted at 2026-04-01 09:30 UTC",
            "understood in the prompt: waves",
            "ignored in the prompt: zzz",
        ];
        assert_eq!(task.summary(), expected);
    }

    #[test]
    fn the_time_of_the_next_attempt_has_its_zone() {
        let task: ShownTask = serde_json::from_value(json!({
            "task_id": "x", "kind": "music", "state": "created", "progress": 0, "cost": 0, "created_at": "x", "generated": [],
            "blocked_by": {"code": "vendor_paused", "message": "paused", "next_attempt_at": "2026-03-01T09:30:12Z"}
        }))
        .unwrap();
        assert_eq!(task.note(), "waits: paused, next attempt at 2026-03-01 09:30 UTC");
    }

    #[test]
    fn states_of_all_media_have_one_set_of_names() {
        let state = |state: &str| {
            let task: ShownTask = serde_json::from_value(json!({
                "task_id": "x", "kind": "music", "state": state, "progress": 0, "cost": 0, "created_at": "x", "generated": []
            }))
            .unwrap();
            task.state()
        };
        let all =
            ["CREATED", "created", "queueing", "IN_PROGRESS", "processing", "COMPLETED", "success", "FAILED", "failed"];
        for name in all {
            assert!(STATES.contains(&state(name).as_str()), "{name}");
        }
        assert_eq!((state("success"), state("processing")), (state("COMPLETED"), state("IN_PROGRESS")));
    }

    #[test]
    fn states_can_be_given_in_any_case() {
        assert_eq!(["failed", "In_Progress", "SUCCESS"].map(api_state), ["FAILED", "IN_PROGRESS", "success"]);
    }
}
