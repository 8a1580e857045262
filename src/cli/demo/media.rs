//! One job of each kind: an upscaled picture, a video, and a piece of music that is saved to a file.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::load::rejection;
use super::picture;
use super::task::run_job;
use crate::cli::atomic_file::AtomicFile;
use crate::cli::music_stream::{MusicInfo, read_music};
use crate::cli::progress::with_progress_bar;
use crate::environment::Environment;
use crate::outbound::api_client::ApiClient;

const UPSCALER_PATH: &str = "/proxy/imagevendor/v1/ai/image-upscaler";
const VIDEO_PATH: &str = "/proxy/videovendor/start-end2video";
const MUSIC_PATH: &str = "/proxy/musicvendor/t2m/generate";
const LANDSCAPE: &[u8] = include_bytes!("../../../data/photographs/landscape.jpg");

/// Picture or video that a job has generated.
struct DemoFile {
    kind: &'static str,
    task: String,
    url: String,
}

/// Results of the jobs, for the report at the end.
pub(super) struct DemoResults {
    base: String,
    files: Vec<DemoFile>,
    /// The music and the path of its file.
    piece: Option<(MusicInfo, String)>,
}

impl DemoResults {
    /// Creates empty results for the service at `base`.
    pub(super) fn new(base: &str) -> Self {
        Self { base: base.to_owned(), files: Vec::new(), piece: None }
    }
}

/// Creates the file for the music.
///
/// # Errors
/// If the file cannot be created.
pub(super) fn create_music_file(file: &Path) -> anyhow::Result<AtomicFile> {
    AtomicFile::create(file, Environment::system().random_uuid()).with_context(|| write_context(file))
}

fn write_context(file: &Path) -> String {
    format!("cannot write {}; name another file with --music", file.display())
}

/// Runs one job of each kind and records its result in `results`. Writes the music to `audio_file`, which becomes
/// `file` once the music is complete.
///
/// # Errors
/// If the service does not respond or rejects or fails a job, or the file cannot be written.
pub(super) async fn run_all_jobs(
    api: &ApiClient,
    mut audio_file: AtomicFile,
    file: &Path,
    results: &mut DemoResults,
) -> anyhow::Result<()> {
    for (kind, activity, path, body) in [
        ("picture", "a picture, four times as wide", UPSCALER_PATH, upscale_request()?),
        ("video", "a video of two seconds", VIDEO_PATH, video_request()),
    ] {
        let job = with_progress_bar(activity, async |on_progress| {
            run_job(api, path, &body, &mut |fraction| on_progress(fraction)).await
        })
        .await;
        let job = job.with_context(|| format!("the {kind} could not be generated"))?;
        results.files.push(DemoFile { kind, task: job.task.clone(), url: job.into_first()? });
    }

    let form = [("prompt", "calm solo piano, a waltz in A minor"), ("duration", "20")];
    let music = with_progress_bar("twenty seconds of music", async |on_progress| {
        match api.post_form_streaming(MUSIC_PATH, &form).await? {
            Ok(body) => read_music(body, &mut audio_file, on_progress).await,
            Err(reply) => Err(rejection(&reply, "music".to_owned()).into()),
        }
    });
    let piece = music.await.context("the music could not be generated")?;
    audio_file.commit().with_context(|| write_context(file))?;
    let saved = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()).display().to_string();
    results.piece = Some((piece, saved));
    Ok(())
}

fn upscale_request() -> anyhow::Result<Value> {
    let picture = STANDARD.encode(picture::png()?);
    Ok(json!({
        "image": picture, "scale_factor": "4x", "engine": "premium_sparkle", "optimized_for": "nature_n_landscapes"
    }))
}

/// Returns the request for a video that is small and short, so that it finishes soon even in a debug build.
fn video_request() -> Value {
    json!({
        "images": [STANDARD.encode(LANDSCAPE)], "prompt": "slow push in at dusk, fog", "model": "vq3-pro",
        "duration": 2, "resolution": "540p", "seed": 7
    })
}

impl fmt::Display for DemoResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, files, piece } = self;
        if files.is_empty() {
            return Ok(());
        }
        writeln!(f, "Results, with their tasks in the console:")?;
        for DemoFile { kind, task, url } in files {
            writeln!(f, "  {kind:<8} {url}\n  {:<8} {base}/#/tasks/{task}", "")?;
        }
        let Some((MusicInfo { title, task, seconds }, saved)) = piece else { return Ok(()) };
        writeln!(f, "  {:<8} {saved} ({title:?}, {seconds:.0} s)\n  {:<8} {base}/#/tasks/{task}", "music", "")
    }
}
