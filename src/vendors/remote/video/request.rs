//! Request for a video job: path and body of the seed's video interface. Pure.

use super::super::request::{VendorRequest, encode_segment, to_json_fields, with_field};
use crate::domain::task::TaskKind;
use crate::domain::video::{Seed, VideoJob};

/// Path below the vendor's base URL.
const VIDEO_API_PATH: &str = "/proxy/videovendor/";

/// Returns the request for a job with base64 pictures. Every parameter is explicit, so that the vendor's defaults do
/// not matter. The caller's payload is not sent. A video that this vendor made is identified by the vendor's own id.
pub(super) fn build_request(
    job: &VideoJob<String>,
    images: &[String],
    seed: Seed,
    callback: Option<String>,
) -> VendorRequest {
    let vendor_video_id = if let VideoJob::Extend(job) = job { job.video.vendor_id.as_ref() } else { None };
    let body = to_json_fields(&job.parameters(images, seed));
    let body = with_field(body, "video_creation_id", vendor_video_id.map(|id| id.as_str().to_owned()));
    let path = format!("{VIDEO_API_PATH}{}", TaskKind::from_video_job(job).as_str());
    VendorRequest { path, body: with_field(body, "callback_url", callback) }
}

/// Returns the path for polling a job.
pub(super) fn creations_path(id: &str) -> String {
    format!("{VIDEO_API_PATH}tasks/{}/creations", encode_segment(id))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::ids::TaskId;
    use crate::domain::value::{CallbackUrl, Text};
    use crate::domain::video::{
        AspectRatio, ExtendJob, ExtendModel, ExtendResolution, Footage, GenerateJob, KeyFrame, MultiframeJob,
        VideoModel, VideoPrompt, VideoSeconds, Watermark, WatermarkPosition,
    };

    fn jobs() -> Vec<(VideoJob<String>, Vec<String>)> {
        let prompt = || Some(VideoPrompt::from_recorded("waves at night".to_owned()));
        let watermark = Watermark { position: WatermarkPosition::BottomLeft, image: Some("d20=".to_owned()) };
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
        let video = |vendor_id| Footage {
            creation: Some(TaskId(uuid::Uuid::nil())),
            url: url.clone(),
            stored: None,
            vendor_id,
        };
        let extend_job = |vendor_id| ExtendJob {
            model: ExtendModel::Vq2Pro,
            resolution: ExtendResolution::P1080,
            seconds: VideoSeconds::DEFAULT,
            prompt: prompt(),
            video: video(vendor_id),
        };

        let frame = |image: &str, prompt| KeyFrame { image: image.to_owned(), seconds: VideoSeconds::DEFAULT, prompt };
        let multiframe = MultiframeJob {
            model: ExtendModel::Vq2Turbo,
            resolution: ExtendResolution::P720,
            start_image: Some("c3RhcnQ=".to_owned()),
            key_frames: vec![frame("YQ==", prompt()), frame("Yg==", None)],
        };

        vec![
            (VideoJob::StartEnd(full), vec!["aW1hZ2U=".to_owned()]),
            (VideoJob::Reference(GenerateJob { prompt: prompt(), ..GenerateJob::default() }), Vec::new()),
            (VideoJob::Extend(extend_job(None)), vec!["ZW5k".to_owned()]),
            (VideoJob::Extend(extend_job(Some(Text::from_recorded("v-7".to_owned())))), Vec::new()),
            (VideoJob::Multiframe(multiframe), Vec::new()),
        ]
    }

    /// The expected requests are recorded by hand from the seed's interface.
    #[test]
    fn every_request_is_as_recorded() {
        let recorded: Vec<Value> =
            serde_json::from_str(include_str!("../../../../tests/golden/vendor/video-requests.json")).unwrap();
        let requests: Vec<_> = jobs()
            .into_iter()
            .map(|(job, images)| {
                let callback = Some("https://media.example/vendor-webhooks/t".to_owned());
                let VendorRequest { path, body } = build_request(&job, &images, Seed::from_random(7), callback);
                json!({"post": path, "body": body, "get": creations_path("3f2c")})
            })
            .collect();
        assert_eq!(requests, recorded, "requested:\n{}", serde_json::to_string_pretty(&requests).unwrap());
    }
}
