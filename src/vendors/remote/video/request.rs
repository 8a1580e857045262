//! Our job as the vendor is asked for it: the path and the body of the seed's video interface. Pure.

use serde_json::{Map, Value, json};

use super::super::request::{Request, segment};
use crate::domain::task::TaskKind;
use crate::domain::video::{Extend, Generate, Multiframe, Seed, VideoJob, VideoPrompt};

/// Below the vendor's base URL.
const INTERFACE: &str = "/proxy/videovendor/";

/// The request for a job, whose pictures are base64. Every parameter is spelled out, so that the vendor's own defaults decide
/// nothing. What is only handed back to the caller does not leave this house.
pub(super) fn request(job: &VideoJob<String>, images: &[String], seed: Seed, callback: Option<String>) -> Request {
    let mut body = match job {
        VideoJob::StartEnd(job) | VideoJob::Reference(job) => generate(job, seed),
        VideoJob::Extend(job) => extend(job),
        VideoJob::Multiframe(job) => multiframe(job),
    };
    if !images.is_empty() {
        body.insert("images".to_owned(), json!(images));
    }
    if let Some(callback) = callback {
        body.insert("callback_url".to_owned(), json!(callback));
    }
    Request { path: format!("{INTERFACE}{}", TaskKind::of_video(job).as_str()), body }
}

/// Where the vendor is asked how a job stands.
pub(super) fn creations_path(id: &str) -> String {
    format!("{INTERFACE}tasks/{}/creations", segment(id))
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn set(body: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    if let Some(value) = value {
        body.insert(field.to_owned(), value);
    }
}

fn text(prompt: Option<&VideoPrompt>) -> Option<Value> {
    prompt.map(|prompt| json!(prompt.as_str()))
}

fn generate(job: &Generate<String>, seed: Seed) -> Map<String, Value> {
    let mut body = fields([
        ("model", json!(job.model.as_str())),
        ("resolution", json!(job.resolution.as_str())),
        ("duration", json!(job.seconds.get())),
        ("movement_amplitude", json!(job.movement_amplitude.as_str())),
        ("style", json!(job.style.as_str())),
        ("audio", json!(job.audio)),
        ("audio_type", json!(job.audio_type.as_str())),
        ("bgm", json!(job.bgm)),
        ("enhance", json!(job.enhance)),
        ("is_rec", json!(job.is_rec)),
        ("off_peak", json!(job.off_peak)),
        ("priority", json!(job.priority)),
        ("seed", json!(seed.get())),
        ("watermark", json!(job.watermark.is_some())),
    ]);
    set(&mut body, "aspect_ratio", job.aspect_ratio.map(|ratio| json!(ratio.to_string())));
    set(&mut body, "voice_id", job.voice_id.as_ref().map(|voice| json!(voice.as_str())));
    set(&mut body, "prompt", text(job.prompt.as_ref()));
    if let Some(mark) = &job.watermark {
        // The corner's name is its number.
        set(&mut body, "wm_position", mark.position.as_str().parse::<i64>().ok().map(Value::from));
        set(&mut body, "wm_url", mark.image.as_ref().map(|image| json!(image)));
    }
    body
}

/// Of a video that this vendor made it is told its own name for it.
fn extend(job: &Extend) -> Map<String, Value> {
    let own_id = job.video.creation.to_string();
    let id = job.video.at_vendor.as_ref().map_or(own_id.as_str(), |id| id.as_str());
    let mut body = fields([
        ("model", json!(job.model.as_str())),
        ("resolution", json!(job.resolution.as_str())),
        ("duration", json!(job.seconds.get())),
        ("video_creation_id", json!(id)),
        ("video_url", json!(job.video.url.as_str())),
    ]);
    set(&mut body, "prompt", text(job.prompt.as_ref()));
    body
}

fn multiframe(job: &Multiframe<String>) -> Map<String, Value> {
    let settings = job.key_frames.iter().map(|frame| {
        let mut settings = fields([("key_image", json!(frame.image)), ("duration", json!(frame.seconds.get()))]);
        set(&mut settings, "prompt", text(frame.prompt.as_ref()));
        settings
    });
    let mut body = fields([
        ("model", json!(job.model.as_str())),
        ("resolution", json!(job.resolution.as_str())),
        ("image_settings", json!(settings.collect::<Vec<_>>())),
    ]);
    set(&mut body, "start_image", job.start_image.as_ref().map(|image| json!(image)));
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::TaskId;
    use crate::domain::value::{CallbackUrl, Text};
    use crate::domain::video::{
        AspectRatio, ExtendModel, ExtendResolution, Footage, KeyFrame, Seconds, VideoModel, Watermark,
        WatermarkPosition,
    };

    fn jobs() -> Vec<(VideoJob<String>, Vec<String>)> {
        let prompt = || Some(VideoPrompt::recorded("waves at night".to_owned()));
        let watermark = Watermark { position: WatermarkPosition::BottomLeft, image: Some("d20=".to_owned()) };
        let full = Generate {
            aspect_ratio: AspectRatio::parse("9:16").ok(),
            voice_id: Some(Text::recorded("narrator".to_owned())),
            prompt: prompt(),
            watermark: Some(watermark),
            off_peak: true,
            priority: -3,
            ..Generate::of(VideoModel::Vq2Pro)
        };
        let url = CallbackUrl::recorded("https://media.example/x.mp4".to_owned());
        let video =
            |at_vendor| Footage { creation: TaskId(uuid::Uuid::nil()), url: url.clone(), kept: None, at_vendor };
        let longer = |at_vendor| Extend {
            model: ExtendModel::Vq2Pro,
            resolution: ExtendResolution::P1080,
            seconds: Seconds::USUAL,
            prompt: prompt(),
            video: video(at_vendor),
        };
        let frame = |image: &str, prompt| KeyFrame { image: image.to_owned(), seconds: Seconds::USUAL, prompt };
        let joined = Multiframe {
            model: ExtendModel::Vq2Turbo,
            resolution: ExtendResolution::P720,
            start_image: Some("c3RhcnQ=".to_owned()),
            key_frames: vec![frame("YQ==", prompt()), frame("Yg==", None)],
        };
        vec![
            (VideoJob::StartEnd(full), vec!["aW1hZ2U=".to_owned()]),
            (VideoJob::Reference(Generate { prompt: prompt(), ..Generate::default() }), Vec::new()),
            (VideoJob::Extend(longer(None)), vec!["ZW5k".to_owned()]),
            (VideoJob::Extend(longer(Some(Text::recorded("v-7".to_owned())))), Vec::new()),
            (VideoJob::Multiframe(joined), Vec::new()),
        ]
    }

    /// The recording is what the seed's interface takes, kept by hand.
    #[test]
    fn every_job_is_asked_for_as_recorded() {
        let recorded: Vec<Value> =
            serde_json::from_str(include_str!("../../../../tests/golden/vendor/video-requests.json")).unwrap();
        let asked: Vec<_> = jobs()
            .into_iter()
            .map(|(job, images)| {
                let callback = Some("https://media.example/hints/t".to_owned());
                let Request { path, body } = request(&job, &images, Seed::drawn(7), callback);
                json!({"post": path, "body": body, "get": creations_path("3f2c")})
            })
            .collect();
        assert_eq!(asked, recorded, "asked for:\n{}", serde_json::to_string_pretty(&asked).unwrap());
    }
}
