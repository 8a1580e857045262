//! Tests of the shipped profiles against recorded requests and responses, and of the errors for invalid profiles.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::file::{FlowFile, PollFile};
use super::music::VendorMusicLine;
use super::picture::PictureAccess;
use super::request::{EncodedBody, FormContent, FormPart, PreparedBody, PreparedRequest};
use super::response::{JobReport, ParsedResponse, ResultItem, ResultLocation, SubmissionMeaning};
use super::scope::{JOB_NAMES, parameter_names, work_scope};
use super::template::TemplateScope;
use super::{Profile, SHIPPED_PROFILES};
use crate::domain::ids::TaskId;
use crate::domain::image::{
    ImageFormat, ImageJob, ImagePrompt, ImageWork, LightSource, Picture, PictureSource, PortraitBeautifier,
    PortraitSettings, PortraitStyle, PrecisionUpscaleJob, RelightJob, ScaleFactor, SkinEnhanceJob, SkinFocus, SkinMode,
    StyleTransferJob, UpscaleEngine, UpscaleJob,
};
use crate::domain::music::{MusicPrompt, MusicSeconds, MusicStreamItem, MusicWork};
use crate::domain::task::{Gateway, TaskWork};
use crate::domain::value::{CallbackUrl, Digest, Text};
use crate::domain::video::{
    AspectRatio, ExtendJob, ExtendModel, ExtendResolution, Footage, GenerateJob, KeyFrame, MultiframeJob, Seed,
    VideoJob, VideoModel, VideoPrompt, VideoSeconds, VideoWork, Watermark, WatermarkPosition,
};
use crate::vendors::credential_mask::CredentialMask;
use crate::vendors::{VendorError, VendorErrorKind};

const WEBHOOK: &str = "https://media.example/vendor-webhooks/t";
const KEY: &str = "0193a0f0-0000-7000-8000-000000000001";

fn mediary_profile() -> Arc<Profile> {
    Profile::load("mediary", None).unwrap()
}

/// Returns a picture whose bytes are `content`.
fn picture(content: &str) -> PictureSource {
    let mut digest = [0; 32];
    digest[..content.len()].copy_from_slice(content.as_bytes());
    let bytes = content.len() as u64;
    PictureSource::Stored(Picture { digest: Digest(digest), format: ImageFormat::Png, bytes, width: 8, height: 8 })
}

fn access(uploads: Vec<(Picture, minijinja::Value)>) -> Arc<PictureAccess> {
    let read = |picture: &Picture| Some(picture.digest.0.iter().copied().take_while(|byte| *byte != 0).collect());
    PictureAccess::new(Arc::new(read), uploads)
}

/// Returns the submission of a job. An upload names each picture `upload-` and its size in bytes.
fn build(profile: &Profile, work: &TaskWork) -> PreparedRequest {
    let job =
        profile.job(work.job_name()).unwrap_or_else(|| panic!("{} has no job {}", profile.name(), work.job_name()));
    let trial = PictureAccess::trial();
    let scope = work_scope(work, &trial).unwrap();
    let scope = profile.submission_scope(job, scope, KEY, Some(WEBHOOK.to_owned()));
    let _ = profile.build_submission(job, &scope);

    let uploads = trial.wanted_uploads().into_iter();
    let uploads = uploads.map(|picture| (picture, format!("upload-{}", picture.bytes).into())).collect();
    let scope = work_scope(work, &access(uploads)).unwrap();
    let scope = profile.submission_scope(job, scope, KEY, Some(WEBHOOK.to_owned()));
    profile.build_submission(job, &scope).unwrap_or_else(|error| panic!("{}: {error}", profile.name()))
}

/// Returns the path of the first poll of a job with this id.
fn poll_path(profile: &Profile, work: &TaskWork, id: &str) -> Option<String> {
    let name = work.job_name();
    let job = profile.job(name)?;
    let poll = profile.flow(job)?.poll.first()?;
    let scope = profile.job_scope(Profile::family(name, job), job, id);
    let request = PreparedRequest::from_parts(
        profile.prefix(),
        poll.method,
        (&poll.path, &poll.query),
        poll.json.as_ref(),
        &scope,
    );
    Some(request.unwrap().path)
}

fn image_work(job: ImageJob) -> TaskWork {
    let reference = match &job {
        ImageJob::StyleTransfer(_) => true,
        ImageJob::Relight(job) => job.source != LightSource::Prompt,
        _ => false,
    };
    TaskWork::Image(ImageWork {
        job,
        image: picture("image"),
        reference: reference.then(|| picture("ref")),
        seed: None,
        credits: 0,
    })
}

fn image_jobs() -> Vec<TaskWork> {
    let prompt = Some(ImagePrompt::from_recorded("soft light".to_owned()));
    let portrait = PortraitSettings { beautifier: Some(PortraitBeautifier::FaceMax), style: PortraitStyle::Pop };
    let style = StyleTransferJob { portrait: Some(portrait), fixed_generation: true, ..StyleTransferJob::default() };
    let skin = |mode| ImageJob::SkinEnhance(SkinEnhanceJob::new(mode));

    let jobs = [
        ImageJob::Upscale(UpscaleJob { prompt: prompt.clone(), ..UpscaleJob::default() }),
        ImageJob::Upscale(UpscaleJob::default()),
        ImageJob::UpscalePrecision(PrecisionUpscaleJob::default()),
        ImageJob::StyleTransfer(style),
        ImageJob::StyleTransfer(StyleTransferJob { prompt: prompt.clone(), ..StyleTransferJob::default() }),
        skin(SkinMode::Creative),
        skin(SkinMode::Faithful { detail: SkinMode::DETAIL_DEFAULT }),
        skin(SkinMode::Flexible { focus: SkinFocus::NoMakeUp }),
        ImageJob::Relight(RelightJob { prompt, source: LightSource::Lightmap, ..RelightJob::default() }),
        ImageJob::Relight(RelightJob { source: LightSource::Reference, ..RelightJob::default() }),
    ];
    jobs.map(image_work).to_vec()
}

fn video_jobs() -> Vec<TaskWork> {
    let prompt = || Some(VideoPrompt::from_recorded("waves at night".to_owned()));
    let watermark = Watermark { position: WatermarkPosition::BottomLeft, image: Some(picture("wm")) };
    let full = GenerateJob {
        aspect_ratio: AspectRatio::parse("9:16").ok(),
        voice_id: Some(Text::from_recorded("narrator".to_owned())),
        prompt: prompt(),
        watermark: Some(watermark),
        off_peak: true,
        priority: -3,
        ..GenerateJob::new(VideoModel::Vq2Pro)
    };

    let url = CallbackUrl::from_recorded("https://media.example/x.mp4".to_owned());
    let video = |vendor_id| Footage { creation: Some(TaskId(Uuid::nil())), url: url.clone(), stored: None, vendor_id };
    let extend_job = |vendor_id| ExtendJob {
        model: ExtendModel::Vq2Pro,
        resolution: ExtendResolution::P1080,
        seconds: VideoSeconds::DEFAULT,
        prompt: prompt(),
        video: video(vendor_id),
    };

    let frame = |image: &str, prompt| KeyFrame { image: picture(image), seconds: VideoSeconds::DEFAULT, prompt };
    let multiframe = MultiframeJob {
        model: ExtendModel::Vq2Turbo,
        resolution: ExtendResolution::P720,
        start_image: Some(picture("start")),
        key_frames: vec![frame("a", prompt()), frame("b", None)],
    };

    let jobs = [
        (VideoJob::StartEnd(full), vec![picture("image")]),
        (VideoJob::Reference(GenerateJob { prompt: prompt(), ..GenerateJob::default() }), Vec::new()),
        (VideoJob::Extend(extend_job(None)), vec![picture("end")]),
        (VideoJob::Extend(extend_job(Some(Text::from_recorded("v-7".to_owned())))), Vec::new()),
        (VideoJob::Multiframe(multiframe), Vec::new()),
    ];
    let work = |(job, images)| {
        let seed = Seed::from_random(7);
        TaskWork::Video(VideoWork { job, images, seed, payload: None, meta_data: None, credits: 0 })
    };
    jobs.map(work).to_vec()
}

fn music_jobs() -> Vec<TaskWork> {
    let jobs = [("calm piano", Some(30)), ("a \"quoted\" line, in Größe: 大", None), ("a mark in it", Some(360))];
    let work = |(prompt, seconds): (&str, Option<i64>)| {
        let prompt = MusicPrompt::from_recorded(prompt.to_owned());
        let seconds = seconds.map(|seconds| MusicSeconds::new(seconds).unwrap());
        TaskWork::Music(MusicWork { prompt, seconds, credits: 0 })
    };
    jobs.map(work).to_vec()
}

fn all_jobs() -> Vec<TaskWork> {
    [image_jobs(), video_jobs(), music_jobs()].concat()
}

/// Returns jobs with other values, for profiles that cannot express those of [`all_jobs`].
fn jobs_with_other_values() -> Vec<TaskWork> {
    let scale_factor = crate::domain::image::PrecisionScaleFactor::new(4).unwrap();
    let prompt = || Some(ImagePrompt::from_recorded("soft light".to_owned()));
    let images = vec![picture("first"), picture("last")];
    let generate =
        GenerateJob { prompt: Some(VideoPrompt::from_recorded("waves".to_owned())), ..GenerateJob::default() };
    let video = |images| {
        let job = VideoJob::StartEnd(generate.clone());
        TaskWork::Video(VideoWork {
            job,
            images,
            seed: Seed::from_random(7),
            payload: None,
            meta_data: None,
            credits: 0,
        })
    };

    vec![
        image_work(ImageJob::Upscale(UpscaleJob { scale_factor: ScaleFactor::X4, ..UpscaleJob::default() })),
        image_work(ImageJob::UpscalePrecision(PrecisionUpscaleJob { scale_factor, ..PrecisionUpscaleJob::default() })),
        image_work(ImageJob::Relight(RelightJob { prompt: prompt(), ..RelightJob::default() })),
        video(images[..1].to_vec()),
        video(images),
    ]
}

/// Reads a file of recordings.
fn recorded(file: &str) -> Vec<Value> {
    let path = golden_path(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn golden_path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/vendor").join(file)
}

fn json_of(request: &PreparedRequest) -> Value {
    match &request.body {
        PreparedBody::Json(json) => json.clone(),
        other => panic!("not JSON: {other:?}"),
    }
}

/// The expected requests were written by hand, from the interface in the seed specification.
#[test]
fn every_request_of_the_mediary_profile_is_as_recorded() {
    let profile = mediary_profile();
    for (file, jobs) in [("requests.json", image_jobs()), ("video-requests.json", video_jobs())] {
        let requests: Vec<_> = jobs
            .iter()
            .map(|work| {
                let request = build(&profile, work);
                json!({"post": request.path, "body": json_of(&request), "get": poll_path(&profile, work, "3f2c")})
            })
            .collect();
        assert_eq!(requests, recorded(file), "requested:\n{}", serde_json::to_string_pretty(&requests).unwrap());
    }
}

#[test]
fn every_multipart_form_of_music_is_as_recorded() {
    let profile = mediary_profile();
    let requests: Vec<_> = music_jobs()
        .iter()
        .map(|work| {
            let request = build(&profile, work);
            let EncodedBody { content_type, bytes } = request.body.encode("mark");
            json!({"post": request.path, "content_type": content_type, "body": String::from_utf8_lossy(&bytes)})
        })
        .collect();
    let expected = recorded("music-requests.json");
    assert_eq!(requests, expected, "requested:\n{}", serde_json::to_string_pretty(&requests).unwrap());
}

/// The expected requests of the other profiles were written by the program (`RECORD_VENDOR_REQUESTS=1`) and then read.
#[test]
fn every_request_of_every_shipped_profile_is_as_recorded() {
    let is_recording = std::env::var_os("RECORD_VENDOR_REQUESTS").is_some();
    for name in SHIPPED_PROFILES.iter().filter(|name| **name != "mediary") {
        let profile = Profile::load(name, None).unwrap();
        let requests: Vec<_> = [all_jobs(), jobs_with_other_values()]
            .concat()
            .iter()
            .filter(|work| profile.serves(work))
            .map(|work| {
                let request = build(&profile, work);
                let body = match request.body.clone() {
                    PreparedBody::Json(json) => json!({"json": json}),
                    other => json!({"form": String::from_utf8_lossy(&other.encode("mark").bytes)}),
                };
                let headers: Vec<_> = request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                json!({
                    "job": work.job_name(),
                    "method": request.method.as_str(),
                    "path": request.path,
                    "headers": headers,
                    "body": body,
                    "poll": poll_path(&profile, work, "3f2c"),
                })
            })
            .collect();
        let file = format!("{name}.json");
        if is_recording {
            std::fs::write(golden_path(&file), format!("{}\n", serde_json::to_string_pretty(&requests).unwrap()))
                .unwrap();
        }
        assert_eq!(requests, recorded(&file), "{name}: {}", serde_json::to_string_pretty(&requests).unwrap());

        // Every job of the profile is recorded.
        for job in profile.jobs() {
            assert!(requests.iter().any(|request| request["job"] == job), "{name}: {job} is not recorded");
        }
    }
}

#[test]
fn booleans_are_written_as_in_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.toml");
    let content = "extends = \"mediary\"\n[maps.words]\ntrue = \"yes\"\n[jobs.image-relight]\nflow = \"image\"\n\
                   path = \"/x/{{ change_background }}\"\nquery = { a = \"{{ change_background }}\" }\n\
                   form = { b = \"{{ change_background }}\", c = \"is {{ change_background }}\", d = \"{{ maps.words[change_background] }}\" }\n";
    std::fs::write(&path, content).unwrap();
    let profile = Profile::load_file(&path).unwrap();
    let request = build(&profile, &image_work(ImageJob::Relight(RelightJob::default())));
    assert_eq!(request.path, "/proxy/x/true?a=true");

    let form = String::from_utf8_lossy(&request.body.encode("mark").bytes).into_owned();
    for expected in ["\"b\"\r\n\r\ntrue", "\"c\"\r\n\r\nis true", "\"d\"\r\n\r\nyes"] {
        assert!(form.contains(expected), "{form}");
    }
}

#[test]
fn an_id_stays_one_segment_of_the_path() {
    let path = poll_path(&mediary_profile(), &image_jobs()[9], "a/../b?c#d%e é").unwrap();
    assert_eq!(path, "/proxy/imagevendor/v1/ai/image-relight/a%2F..%2Fb%3Fc%23d%25e%20%C3%A9");
}

/// Returns the flow of a job, and its first poll.
fn flow_of<'p>(profile: &'p Profile, job: &str) -> (&'p FlowFile, &'p PollFile) {
    let flow = profile.flow(profile.job(job).unwrap()).unwrap();
    (flow, &flow.poll[0])
}

fn describe<T>(meaning: Result<T, VendorError>, describe_value: impl FnOnce(T) -> String) -> String {
    meaning.map_or_else(|error| format!("{:?}: {error}", error.kind), describe_value)
}

fn url_of(location: &ResultLocation) -> String {
    match location {
        ResultLocation::Url(url) => url.clone(),
        other => panic!("not a URL: {other:?}"),
    }
}

/// Describes a report in the words of the recordings.
fn describe_report(report: JobReport, gateway: Gateway) -> String {
    match (report, gateway) {
        (JobReport::Running { .. }, Gateway::Image) => "Running".to_owned(),
        (JobReport::Queued { .. }, _) => "Queued".to_owned(),
        (JobReport::Done(items), Gateway::Image) => {
            format!("Done({:?})", items.iter().map(|item| url_of(&item.file)).collect::<Vec<_>>())
        }
        (JobReport::Done(items), _) => {
            let ResultItem { file, cover, watermarked, vendor_id } = &items[0];
            let cover = cover.as_ref().map(url_of);
            let watermarked = watermarked.as_ref().map(url_of);
            format!(
                "Done(VideoResultUrls {{ id: {vendor_id:?}, url: {:?}, cover_url: {cover:?}, watermarked_url: \
                 {watermarked:?} }})",
                url_of(file)
            )
        }
        (other, _) => format!("{other:?}"),
    }
}

/// Returns a recorded response. A JSON string in `body` stands for a body that is not JSON.
fn response_of(recording: &Value) -> ParsedResponse {
    let body = &recording["body"];
    let body = if let Value::String(text) = body { text.clone() } else { body.to_string() };
    ParsedResponse::new(u16::try_from(recording["status"].as_u64().unwrap()).unwrap(), body.into())
}

#[test]
fn every_recorded_response_has_the_recorded_meaning() {
    let profile = mediary_profile();
    let files = [
        ("answers.json", "image-upscaler", Gateway::Image, 20),
        ("video-answers.json", "start-end2video", Gateway::Video, 15),
    ];

    for (file, job, gateway, at_least) in files {
        let (flow, poll) = flow_of(&profile, job);
        let recordings = recorded(file);
        assert!(recordings.len() >= at_least);
        let scope = TemplateScope::new();
        let mut differences = Vec::new();

        for recording in &recordings {
            let response = response_of(recording);
            let submitted = describe(profile.parse_submission(flow, &response, &scope), |meaning| match meaning {
                SubmissionMeaning::Accepted(id) => format!("{id:?}"),
                finished @ SubmissionMeaning::Finished(_) => format!("{finished:?}"),
            });
            let polled = profile.parse_poll(flow, poll, &response, ("3f2c", &scope));
            let polled = describe(polled, |report| describe_report(report, gateway));
            let mut meanings = vec![("submitted", submitted), ("polled", polled)];
            if recording.get("found").is_some() {
                let found = profile.parse_search(flow.search.as_ref().unwrap(), &response, &scope);
                meanings.push(("found", describe(found, |found| format!("{found:?}"))));
            }
            for (field, meaning) in meanings {
                if recording[field] != meaning {
                    differences.push(format!("{}: {field}: {meaning}", recording["name"]));
                }
            }
        }

        assert!(differences.is_empty(), "{file}:\n{}", differences.join("\n"));
    }
}

/// Describes results by their locations.
fn describe_items(items: &[ResultItem]) -> String {
    let location = |item: &ResultItem| match &item.file {
        ResultLocation::Url(url) => url.clone(),
        ResultLocation::Inline(bytes) => format!("{} bytes", bytes.len()),
        ResultLocation::Download(call) => call.0.path.clone(),
    };
    format!("[{}]", items.iter().map(location).collect::<Vec<_>>().join(", "))
}

/// The responses are those of the documentation that a profile names as its source. Their meanings were written by the
/// program (`RECORD_VENDOR_REQUESTS=1`) and then read.
#[test]
fn every_documented_response_has_the_recorded_meaning() {
    let file = "documented-answers.json";
    let mut recordings = recorded(file);
    let mut differences = Vec::new();

    for recording in &mut recordings {
        let text = |field: &str| recording[field].as_str().unwrap().to_owned();
        let profile = Profile::load(&text("profile"), None).unwrap();
        let (job, response) = (text("job"), response_of(recording));
        let definition = profile.job(&job).unwrap();
        let flow = profile.flow(definition).unwrap();
        let scope = profile.job_scope(Profile::family(&job, definition), definition, "3f2c");
        let report = |report: JobReport| match report {
            JobReport::Done(items) => format!("Done{}", describe_items(&items)),
            JobReport::DoneElsewhere(call) => format!("Done, results at {}", call.0.path),
            JobReport::Failed(failure) => format!("Failed: {}", failure.message.as_str()),
            JobReport::DoneWithoutResult(failure) => format!("Done without a result: {}", failure.message.as_str()),
            other => format!("{other:?}"),
        };

        let meaning = match text("of").as_str() {
            "submission" => describe(profile.parse_submission(flow, &response, &scope), |meaning| match meaning {
                SubmissionMeaning::Accepted(id) => format!("Accepted: {id}"),
                SubmissionMeaning::Finished(items) => format!("Finished{}", describe_items(&items)),
            }),
            "poll" => describe(profile.parse_poll(flow, &flow.poll[0], &response, ("3f2c", &scope)), report),
            "results" => describe(profile.parse_results(flow, &response, &scope), report),
            other => panic!("{other}"),
        };
        if recording["meaning"] != meaning {
            differences.push(format!("{} {}: {meaning}", text("profile"), text("name")));
            recording["meaning"] = json!(meaning);
        }
    }

    if std::env::var_os("RECORD_VENDOR_REQUESTS").is_some() {
        std::fs::write(golden_path(file), format!("{}\n", serde_json::to_string_pretty(&recordings).unwrap())).unwrap();
    } else {
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

#[test]
fn a_health_check_passes_on_json_and_on_rejections() {
    let profile = mediary_profile();
    let is_healthy =
        |status, body: &'static str| profile.parse_health_check(&ParsedResponse::new(status, body.into())).is_ok();
    assert!(is_healthy(404, "<html>") && is_healthy(400, "") && is_healthy(200, r#"{"data": {"status": "FAILED"}}"#));
    for (status, body) in [(200, "<html>"), (200, ""), (301, ""), (401, "{}"), (403, "{}"), (429, "{}"), (500, "{}")] {
        assert!(!is_healthy(status, body), "{status} {body}");
    }
}

#[test]
fn no_meaningless_response_repeats_or_fails_a_task() {
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "{}",
        "\"x\"",
        "{\"data\":null}",
        "{\"data\":[1]}",
        "<html>",
        "{\"state\":null}",
        "{\"state\":\"success\"}",
        "{\"status\":\"COMPLETED\"}",
    ];
    for name in SHIPPED_PROFILES {
        let profile = Profile::load(name, None).unwrap();
        for job in profile.jobs().filter(|job| *job != "music") {
            let flow = profile.flow(profile.job(job).unwrap()).unwrap();
            let scope = profile.job_scope(job, profile.job(job).unwrap(), "3f2c");
            for (status, body) in (100..=599).flat_map(|status| bodies.map(|body| (status, body))) {
                // A vendor that sends files instead of JSON may send anything.
                if flow.results.body {
                    continue;
                }
                let response = ParsedResponse::new(status, body.into());
                let context = format!("{name}: {job}: {status} {body}");
                let submitted = profile.parse_submission(flow, &response, &scope);
                if (200..=299).contains(&status) {
                    // A list of results of which none is usable is an acceptance too: nothing is repeated.
                    let is_unusable = submitted == Ok(SubmissionMeaning::Finished(Vec::new()));
                    let is_unknown = submitted.is_err_and(|error| error.kind == VendorErrorKind::Unknown);
                    assert!(is_unknown || is_unusable && flow.id.is_none(), "{context}");
                }
                for poll in &flow.poll {
                    let polled = profile.parse_poll(flow, poll, &response, ("3f2c", &scope));
                    assert!(!matches!(polled, Ok(JobReport::Done(_) | JobReport::Failed(_))), "{context}: {polled:?}");
                    let is_refusal = |error: &VendorError| error.kind == VendorErrorKind::Refused;
                    assert!(!polled.as_ref().is_err_and(is_refusal), "{context}");
                }
            }
        }
    }
}

#[test]
fn every_recorded_line_of_music_means_what_is_recorded() {
    let profile = mediary_profile();
    let stream = profile.file().stream.as_ref().unwrap();
    let recordings = recorded("music-lines.json");
    assert!(recordings.len() > 20);
    let mut differences = Vec::new();

    for recording in &recordings {
        // A JSON string stands for a line that is not JSON.
        let line = &recording["line"];
        let line = if let Value::String(text) = line { text.clone() } else { line.to_string() };
        let parsed = profile.parse_music_line(stream, None, line.as_bytes(), &CredentialMask::default());
        let meaning = parsed.map_or_else(|| "nothing".to_owned(), |parsed| format!("{parsed:?}"));
        if recording["meaning"] != meaning {
            differences.push(format!("{}: {meaning}", recording["name"]));
        }
    }

    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn sound_without_an_encoding_has_that_of_the_profile() {
    let profile = Profile::load("sonilo", None).unwrap();
    let line = br#"{"type": "audio_chunk", "sample_rate": 48000, "channels": 2, "data": "aGVhcmQ="}"#;
    let parsed =
        profile.parse_music_line(profile.file().stream.as_ref().unwrap(), None, line, &CredentialMask::default());
    let Some(VendorMusicLine::Item(MusicStreamItem::Sound { format, .. })) = parsed else { panic!("{parsed:?}") };
    assert_eq!(format.encoding.as_str(), "m4a");
}

#[test]
fn a_profile_does_not_serve_a_job_that_it_cannot_express() {
    let magnific = Profile::load("magnific", None).unwrap();
    let sharpy = UpscaleJob { engine: UpscaleEngine::Sharpy, ..UpscaleJob::default() };
    let sharpy = image_work(ImageJob::Upscale(sharpy));
    assert!(magnific.serves(&sharpy) && !magnific.serves(&video_jobs()[0]));
    assert_eq!(json_of(&build(&magnific, &sharpy))["engine"], "magnific_sharpy");

    let comfyui = Profile::load("comfyui", None).unwrap();
    let factor = |factor| {
        let scale_factor = crate::domain::image::PrecisionScaleFactor::new(factor).unwrap();
        image_work(ImageJob::UpscalePrecision(PrecisionUpscaleJob { scale_factor, ..PrecisionUpscaleJob::default() }))
    };
    assert!(comfyui.serves(&factor(8)) && !comfyui.serves(&factor(9)));
}

#[test]
fn every_shipped_profile_names_its_source_and_date() {
    let mut digests = std::collections::HashSet::new();
    for name in SHIPPED_PROFILES {
        let profile = Profile::load(name, None).unwrap_or_else(|error| panic!("{error}"));
        let (source, checked) = profile.source();
        assert!(!source.is_empty() && checked.len() == 10, "{name}");
        assert!(!profile.description().is_empty() && digests.insert(profile.identity().digest.0), "{name}");
    }
}

#[test]
fn the_parameters_of_every_job_are_known_to_the_check() {
    let works = all_jobs();
    for name in JOB_NAMES {
        let known = parameter_names(name);
        let of_job = works.iter().filter(|work| work.job_name() == name);
        let used: Vec<_> = of_job.flat_map(|work| work_scope(work, &access(Vec::new())).unwrap().into_keys()).collect();
        assert!(!used.is_empty(), "{name}");
        for parameter in used {
            assert!(known.contains(&parameter.as_str()), "{name}: {parameter}");
        }
    }
}

/// Returns the error of a profile file with this content.
fn error_of(content: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.toml");
    std::fs::write(&path, content).unwrap();
    let error = Profile::load_file(&path).expect_err(content);
    format!("{}: {}", error.line.map_or_else(|| "-".to_owned(), |line| line.to_string()), error.message)
}

#[test]
fn the_error_of_a_bad_profile_names_the_line_the_problem_and_what_is_allowed() {
    let cases = [
        ("[jobs.image-upscaler]\npath = \"/x\"\ncolour = 1\n", "3: unknown field `colour`, expected one of `flow`"),
        ("recovery = \"perhaps\"\n", "1: unknown variant `perhaps`, expected one of `key`, `search`, `nothing`"),
        ("[jobs.image-upscaler]\npath = \"/{{ id\"\n", "2: syntax error"),
        ("extends = \"mediary\"\n[jobs.paint]\npath = \"/x\"\n", "2: jobs.paint: there is no such job; the jobs are"),
        (
            "extends = \"mediary\"\n[jobs.image-upscaler]\nflow = \"image\"\npath = \"/x\"\njson = { a = \"{{ imag }}\" }\n",
            "5: jobs.image-upscaler: `imag` is not a name here; the names are image, prompt",
        ),
        (
            "extends = \"mediary\"\n[flows.image]\nid = \"data.id\"\n",
            "3: `data.id` is neither a JSON pointer (RFC 6901), such as \"/data/id\", nor an expression",
        ),
        (
            "extends = \"mediary\"\n[jobs.image-upscaler]\nflow = \"image\"\npath = \"/x\"\njson = { a = \"{{ image | url }}\" }\n",
            "5: there is no filter `url`, because this service serves no pictures to vendors",
        ),
        (
            "[jobs.image-upscaler]\npath = \"/x\"\njson = { a = \"{{ image|bas64 }}\" }\n",
            "3: there is no filter `bas64`",
        ),
        ("extends = \"nobody\"\n", "1: there is no profile `nobody`; shipped ones are mediary"),
        ("url = \"ftp://x\"\nextends = \"mediary\"\n", "1: url: must be http or https"),
        ("recovery = \"key\"\n[jobs.music]\npath = \"/\"\n", "1: recovery = \"key\": needs key_header"),
        ("source = \"x\"\n", "-: a profile needs at least one job"),
        (
            "extends = \"comfyui\"\n[jobs.image-upscaler]\nflow = \"workflow\"\npath = \"/prompt\"\ndocument = \"../x.json\"\n",
            "5: document `../x.json` of jobs.image-upscaler: must be a path below",
        ),
    ];
    for (content, expected) in cases {
        let error = error_of(content);
        assert!(error.starts_with(expected), "{content}\nhas the error: {error}");
    }
}

#[test]
fn a_profile_extends_another_with_a_workflow_of_its_own() {
    // Given a directory with a workflow, and a profile that uses it for one job
    let directory = tempfile::tempdir().unwrap();
    let workflow = r#"{"9": {"class_type": "LoadImage", "inputs": {"image": "x"}}}"#;
    std::fs::write(directory.path().join("mine.json"), workflow).unwrap();
    let profile = "extends = \"comfyui\"\nurl = \"http://10.0.0.5:8188\"\n\
                   [jobs.\"skin-enhancer/creative\"]\nflow = \"workflow\"\npath = \"/prompt\"\n\
                   document = \"mine.json\"\njson = { prompt = \"{{ document }}\", prompt_id = \"{{ key }}\" }\n\
                   set = { \"/9/inputs/image\" = \"{{ image | uploaded }}\" }\n";
    std::fs::write(directory.path().join("studio.toml"), profile).unwrap();

    // When it is loaded by name
    let profile = Profile::load("studio", Some(directory.path())).unwrap();

    // Then it has that job and those of the shipped profile, and its own URL
    assert_eq!(profile.url(), Some("http://10.0.0.5:8188"));
    assert!(profile.jobs().any(|job| job == "image-upscaler"));
    let skin = image_work(ImageJob::SkinEnhance(SkinEnhanceJob::new(SkinMode::Creative)));
    let body = json_of(&build(&profile, &skin));
    assert_eq!(body["prompt"]["9"]["inputs"]["image"], "upload-5");
    assert_eq!(body["prompt_id"], KEY);

    // And its hash changes with the workflow
    let before = profile.identity();
    std::fs::write(directory.path().join("mine.json"), workflow.replace('x', "y")).unwrap();
    let after = Profile::load("studio", Some(directory.path())).unwrap().identity();
    assert!(before.name == after.name && before.digest != after.digest);
}

/// Returns the report on a workflow whose polls get these responses.
fn workflow_report(responses: &[Value]) -> JobReport {
    let profile = Profile::load("comfyui", None).unwrap();
    let (flow, _) = flow_of(&profile, "image-upscaler");
    let scope = profile.job_scope("image-upscaler", profile.job("image-upscaler").unwrap(), "a-b");
    for (poll, response) in flow.poll.iter().zip(responses) {
        let response = ParsedResponse::new(200, response.to_string().into());
        match profile.parse_poll(flow, poll, &response, ("a-b", &scope)).unwrap() {
            JobReport::Absent => {}
            report => return report,
        }
    }
    JobReport::Lost
}

#[test]
fn a_workflow_is_looked_for_in_history_and_queue() {
    let queue = |running: Value, pending: Value| json!({"queue_running": running, "queue_pending": pending});
    let entry = json!([4, "a-b", {"1": {}}, {"client_id": "x"}, ["3"]]);
    let other = json!([3, "c-d", {"1": {}}, {"client_id": "x"}, ["3"]]);
    let report = |queue: Value| workflow_report(&[json!({}), queue, json!({})]);

    assert_eq!(report(queue(json!([other]), json!([entry]))), JobReport::Queued { queue_position: None });
    assert_eq!(report(queue(json!([entry]), json!([]))), JobReport::Running { permille: None });
    assert_eq!(report(queue(json!([other]), json!([]))), JobReport::Lost);

    let history = |status: Value, outputs: Value| json!({"a-b": {"status": status, "outputs": outputs}});
    let images = json!({"3": {"images": [
        {"filename": "x y.png", "subfolder": "mediary", "type": "output"},
        {"filename": "preview.png", "subfolder": "", "type": "temp"},
    ]}, "7": {"text": ["x"]}});
    let done = workflow_report(&[history(json!({"status_str": "success"}), images)]);
    let JobReport::Done(items) = done else { panic!("{done:?}") };
    let [ResultItem { file: ResultLocation::Download(call), .. }] = &items[..] else { panic!("{items:?}") };
    assert_eq!(call.0.path, "/view?filename=x+y.png&subfolder=mediary&type=output");

    let message = json!(["execution_error", {"exception_message": "out of memory\n"}]);
    let failed = json!({"status_str": "error", "messages": [["execution_start", {}], message]});
    let JobReport::Failed(failure) = workflow_report(&[history(failed, json!({}))]) else { panic!("not failed") };
    assert_eq!(failure.message.as_str(), "the vendor failed: out of memory");
    let interrupted = json!({"status_str": "error", "messages": [["execution_interrupted", {}]]});
    let report = workflow_report(&[history(interrupted, json!({}))]);
    let JobReport::Failed(failure) = report else { panic!("not failed: {report:?}") };
    assert_eq!(failure.message.as_str(), "the vendor failed: the workflow was interrupted");
}

#[test]
fn a_rejected_workflow_says_what_is_wrong_with_it() {
    // Given rejections of a ComfyUI server of version 0.3.64
    let of_node = |error: Value, class: &str| {
        let top = json!({"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation", "details": "", "extra_info": {}});
        json!({"error": top, "node_errors": {"2": {"errors": [error], "dependent_outputs": ["3"], "class_type": class}}})
    };
    let too_large = json!({"type": "value_bigger_than_max", "message": "Value 16.0 bigger than max of 8.0", "details": "scale_by",
        "extra_info": {"input_name": "scale_by", "input_config": ["FLOAT", {"max": 8.0}], "received_value": 16.0}});
    let no_picture = json!({"type": "custom_validation_failed", "message": "Custom validation failed for node",
        "details": "image - Invalid image file: a.png", "extra_info": {"input_name": "image"}});
    let of_prompt = |kind: &str, message: &str, details: &str| json!({"error": {"type": kind, "message": message, "details": details, "extra_info": {}}, "node_errors": {}});
    let cases = [
        (of_node(too_large, "ImageScaleBy"), "Value 16.0 bigger than max of 8.0 (scale_by)"),
        (of_node(no_picture, "LoadImage"), "Custom validation failed for node (image - Invalid image file: a.png)"),
        (
            of_prompt("invalid_prompt", "Cannot execute because node X does not exist.", "Node ID '#1'"),
            "Cannot execute because node X does not exist. (Node ID '#1')",
        ),
        (of_prompt("prompt_no_outputs", "Prompt has no outputs", ""), "Prompt has no outputs"),
        (json!({"error": "no prompt", "node_errors": []}), "no prompt"),
    ];

    // Then the error contains their reason
    let profile = Profile::load("comfyui", None).unwrap();
    for (body, reason) in cases {
        let error = profile.submission_error(&ParsedResponse::new(400, body.to_string().into()));
        assert_eq!(error.to_string(), format!("the vendor rejected the job (status 400: {reason})"));
    }
}

#[test]
fn a_search_response_of_another_form_does_not_say_that_there_is_no_job() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.toml");
    let content = "[jobs.image-upscaler]\nflow = \"task\"\npath = \"/x\"\n[flows.task]\nid = \"/id\"\n\
                   [[flows.task.poll]]\npath = \"/x/{{ id }}\"\nstate = \"/state\"\nstates = {}\n\
                   [flows.task.results]\nurl = \"/url\"\n[flows.task.search]\npath = \"/x\"\nfound = \"/jobs\"\nid = \"/id\"\n";
    std::fs::write(&path, content).unwrap();
    let profile = Profile::load_file(&path).unwrap();
    let search = profile.flow(profile.job("image-upscaler").unwrap()).unwrap().search.as_ref().unwrap();
    let found = |body: &'static str| {
        profile.parse_search(search, &ParsedResponse::new(200, body.into()), &TemplateScope::new())
    };

    for body in [r#"{"items": []}"#, r#"{"jobs": null}"#, "{}", "null", "[]", "7", r#"{"jobs": [{}]}"#] {
        assert_eq!(found(body).expect_err(body).kind, VendorErrorKind::Unknown, "{body}");
    }
    assert_eq!(found(r#"{"jobs": []}"#), Ok(None));
    assert_eq!(found(r#"{"jobs": [{"id": "a"}]}"#), Ok(Some("a".to_owned())));
}

#[test]
fn a_response_of_another_form_does_not_say_that_a_workflow_is_absent() {
    let profile = Profile::load("comfyui", None).unwrap();
    let (flow, _) = flow_of(&profile, "image-upscaler");
    let scope = profile.job_scope("image-upscaler", profile.job("image-upscaler").unwrap(), "a-b");
    let others = [
        json!([]),
        json!("x"),
        json!(7),
        json!({"queue_running": []}),
        json!({"queue_running": {}, "queue_pending": []}),
        json!({"queue_running": [["4"]], "queue_pending": []}),
        json!({"queue_running": [{"id": "a-b"}], "queue_pending": []}),
        json!({"a-b": {"status": null}}),
        json!({"a-b": []}),
    ];
    for poll in &flow.poll {
        let is_queue = poll.path.as_str() == "/queue";
        for other in others.iter().filter(|other| is_queue || other.get("queue_running").is_none()) {
            let response = ParsedResponse::new(200, other.to_string().into());
            let polled = profile.parse_poll(flow, poll, &response, ("a-b", &scope));
            assert_eq!(polled.expect_err(&other.to_string()).kind, VendorErrorKind::Unknown, "{other}");
        }
    }
}

#[test]
fn only_servers_that_use_the_submitted_id_are_searched() {
    let profile = Profile::load("comfyui", None).unwrap();
    let (flow, _) = flow_of(&profile, "image-upscaler");
    let condition = flow.search.as_ref().and_then(|search| search.requires.as_ref()).unwrap();
    let is_searchable = |stats: Value| {
        profile.parse_condition(condition, &ParsedResponse::new(200, stats.to_string().into())) == Ok(true)
    };
    let version = |version: &str| is_searchable(json!({"system": {"os": "posix", "comfyui_version": version}}));
    for newer in ["0.3.45", "0.3.64", "0.10.0", "1.0"] {
        assert!(version(newer), "{newer}");
    }

    for other in ["0.3.44", "0.2.99", "0.3", "", "next", "0.3.x"] {
        assert!(!version(other), "{other}");
    }
    assert!(!is_searchable(json!({"system": {}})) && !is_searchable(json!([])));
}

#[test]
fn only_servers_that_stop_no_other_job_get_cancel_requests() {
    let profile = Profile::load("comfyui", None).unwrap();
    let (flow, _) = flow_of(&profile, "image-upscaler");
    let condition = flow.cancel_requires.as_ref().unwrap();
    let gets_request = |version: &str| {
        let stats = json!({"system": {"comfyui_version": version}}).to_string();
        profile.parse_condition(condition, &ParsedResponse::new(200, stats.into()))
    };
    assert_eq!(
        (gets_request("0.3.56"), gets_request("0.3.57"), gets_request("1.0.0")),
        (Ok(false), Ok(true), Ok(true))
    );
    assert!(profile.parse_condition(condition, &ParsedResponse::new(503, "{}".into())).is_err(), "no version");
}

#[test]
fn an_extended_profile_keeps_the_errors_and_statuses_that_it_does_not_name() {
    let directory = tempfile::tempdir().unwrap();
    let content = "extends = \"fal\"\n[errors]\nunserved = [\"locked\"]\n[statuses]\nbusy = [418]\n";
    std::fs::write(directory.path().join("own.toml"), content).unwrap();
    let own = Profile::load("own", Some(directory.path())).unwrap();
    let base = Profile::load("fal", None).unwrap();

    let errors = (&own.file().errors, &base.file().errors);
    assert_eq!((&errors.0.busy, &errors.0.failed), (&errors.1.busy, &errors.1.failed));
    assert!(errors.0.code.is_some() && errors.0.unserved == ["locked"] && own.file().statuses.busy == [418]);
}

#[test]
fn an_error_of_the_status_read_fails_no_job_whose_results_have_a_request() {
    let profile = Profile::load("fal", None).unwrap();
    let (flow, poll) = flow_of(&profile, "image-upscaler");
    let scope = profile.job_scope("image-upscaler", profile.job("image-upscaler").unwrap(), "x");
    let body = json!({"detail": "request_timeout", "error_type": "request_timeout"}).to_string();
    let response = ParsedResponse::new(504, body.into());
    assert!(profile.parse_poll(flow, poll, &response, ("x", &scope)).is_err());
    let JobReport::Failed(_) = profile.parse_results(flow, &response, &scope).unwrap() else { panic!("not failed") };
}

#[test]
fn a_submission_is_unknown_after_statuses_that_do_not_say_that_nothing_began() {
    let kind = |name: &str, job: &str, status| {
        let profile = Profile::load(name, None).unwrap();
        let (flow, _) = flow_of(&profile, job);
        let response = ParsedResponse::new(status, "{}".into());
        profile.parse_submission(flow, &response, &TemplateScope::new()).expect_err("no success").kind
    };
    for status in [302, 303, 307, 408, 409, 500, 502, 503, 504] {
        assert_eq!(kind("magnific", "image-upscaler", status), VendorErrorKind::Unknown, "{status}");
    }

    // The API of this service defines which statuses it responds with before it accepts a job.
    for (status, expected) in
        [(307, VendorErrorKind::Unserved), (408, VendorErrorKind::Busy), (503, VendorErrorKind::Busy)]
    {
        assert_eq!(kind("mediary", "image-upscaler", status), expected, "{status}");
    }
}

#[test]
fn a_failed_upload_is_reported_as_an_upload_that_started_nothing() {
    let error = mediary_profile().upload_error(&ParsedResponse::new(500, "{}".into()));
    let message = "the vendor failed during the upload of a picture (status 500)";
    assert_eq!(error, VendorError::new(VendorErrorKind::Unreached, message));
}

#[test]
fn a_status_read_may_be_repeated_after_any_status() {
    let profile = Profile::load("magnific", None).unwrap();
    let (flow, poll) = flow_of(&profile, "image-upscaler");
    let scope = profile.job_scope("image-upscaler", profile.job("image-upscaler").unwrap(), "x");
    for (status, expected) in [(302, VendorErrorKind::Unserved), (503, VendorErrorKind::Busy)] {
        let response = ParsedResponse::new(status, "{}".into());
        let error = profile.parse_poll(flow, poll, &response, ("x", &scope)).expect_err("no success");
        assert_eq!(error.kind, expected, "{status}");
    }
}

#[test]
fn a_key_is_masked_before_a_message_is_shortened() {
    // Given a message whose 400th character is within the key
    let key = "vendor-secret-41-0123456789";
    let message = format!("{}{key} is unknown", "x".repeat(390));
    let mask = CredentialMask::new(Some(key));
    let response = ParsedResponse::new(400, json!({"message": message}).to_string().into()).with_mask(&mask);
    let profile = mediary_profile();
    let (flow, poll) = flow_of(&profile, "image-upscaler");

    // Then no part of the key is in an error, a failure, or a title
    let error = profile.parse_submission(flow, &response, &TemplateScope::new()).expect_err("refused").message;
    assert!(error.contains("xxx") && !error.contains("vendor-"), "{error}");
    let failed = json!({"data": {"task_id": "a", "status": "FAILED", "error": {"message": message}}});
    let response = ParsedResponse::new(200, failed.to_string().into()).with_mask(&mask);
    let report = profile.parse_poll(flow, poll, &response, ("a", &TemplateScope::new()));
    let Ok(JobReport::Failed(failure)) = report else { panic!("{report:?}") };
    assert!(!failure.message.as_str().contains("vendor-s"), "{failure:?}");

    let stream = profile.file().stream.as_ref().unwrap();
    let line = json!({"type": "title", "title": format!("{}{key}", "x".repeat(190))}).to_string();
    let parsed = profile.parse_music_line(stream, None, line.as_bytes(), &mask);
    let Some(VendorMusicLine::Item(MusicStreamItem::Title { title, .. })) = parsed else { panic!("{parsed:?}") };
    assert!(title.as_str().ends_with("********"), "{title:?}");
}

#[test]
fn the_boundary_of_a_form_is_in_no_text_of_it() {
    let part = |text: &str| FormPart { name: "prompt".to_owned(), content: FormContent::Text(text.to_owned()) };
    let encoded = PreparedBody::Form(vec![part("a mark- in it")]).encode("mark");
    assert_eq!(encoded.content_type.as_deref(), Some("multipart/form-data; boundary=mark--"));
}

/// Returns the names that the parser lists for an unknown one.
fn listed_names(content: &str) -> Vec<String> {
    let error = error_of(content);
    let (_, listed) = error.split_once("expected ").unwrap_or_else(|| panic!("{content}: {error}"));
    let mut names: Vec<_> = listed.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn the_json_schema_has_the_keys_and_words_that_the_parser_takes() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/vendor-profile.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();

    // Every object of the schema, and a file with an unknown key in it
    let objects = [
        ("", "zzz = 1\n"),
        ("/$defs/auth", "[auth]\nzzz = 1\n"),
        ("/$defs/statuses", "[statuses]\nzzz = 1\n"),
        ("/$defs/errors", "[errors]\nzzz = 1\n"),
        ("/$defs/call", "[health]\nzzz = 1\n"),
        ("/$defs/upload", "[upload]\nzzz = 1\n"),
        ("/$defs/job", "[jobs.extend]\nzzz = 1\n"),
        ("/$defs/flow", "[flows.a]\nzzz = 1\n"),
        ("/$defs/poll", "[[flows.a.poll]]\nzzz = 1\n"),
        ("/$defs/results", "[flows.a.results]\nzzz = 1\n"),
        ("/$defs/search", "[flows.a.search]\nzzz = 1\n"),
        ("/$defs/condition", "[flows.a.search.requires]\nzzz = 1\n"),
        ("/$defs/stream", "[stream]\nzzz = 1\n"),
    ];
    for (pointer, content) in objects {
        let properties = schema.pointer(&format!("{pointer}/properties")).and_then(Value::as_object);
        let mut keys: Vec<_> = properties.unwrap_or_else(|| panic!("{pointer}")).keys().cloned().collect();
        keys.sort();
        assert_eq!(keys, listed_names(content), "{pointer}");
    }
    let defined = schema["$defs"].as_object().unwrap().values().filter(|object| object.get("properties").is_some());
    assert_eq!(defined.count() + 1, objects.len(), "every object is compared");

    // Every list of words
    let words = [
        ("/properties/recovery", "recovery = \"zzz\"\n"),
        ("/$defs/call/properties/method", "[health]\nmethod = \"zzz\"\n"),
        ("/$defs/poll/properties/other", "[[flows.a.poll]]\nother = \"zzz\"\n"),
        ("/$defs/stream/properties/format", "[stream]\nformat = \"zzz\"\n"),
        ("/$defs/stream/properties/kinds/additionalProperties", "[stream]\nkinds = { a = \"zzz\" }\n"),
    ];
    for (pointer, content) in words {
        let listed = schema.pointer(&format!("{pointer}/enum")).and_then(Value::as_array);
        let listed = listed.unwrap_or_else(|| panic!("{pointer}")).iter();
        let mut listed: Vec<_> = listed.map(|word| word.as_str().unwrap().to_owned()).collect();
        listed.sort();
        assert_eq!(listed, listed_names(content), "{pointer}");
    }
    let jobs: Vec<_> = schema["properties"]["jobs"]["propertyNames"]["enum"].as_array().unwrap().iter().collect();
    assert_eq!(jobs, JOB_NAMES, "the jobs");
}
