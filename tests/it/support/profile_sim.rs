//! Simulated vendors, one per shipped profile: they respond as the vendor's documentation says, inject faults, and
//! count charges.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::picture;
use super::receiver::ReceivedRequest;
use super::scripted_vendor::{Delivery, ScriptedReply, ScriptedVendor};
use super::vendor_sim::CLIP;

/// Purpose of a request to the vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPhase {
    Upload,
    /// Starts a job, which is charged.
    Submission,
    Poll,
    /// Lists the results of a finished job.
    Results,
    /// Returns a file.
    Download,
    Other,
}

/// End of a job at the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimJobEnd {
    Result,
    /// A file that is neither a picture nor a video.
    WrongFile,
    /// Done, without a result.
    Nothing,
    Failed,
    /// The vendor no longer knows the job.
    Forgotten,
}

/// Fault of the simulated vendor, and the requests that it affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimFault {
    pub phase: RequestPhase,
    /// Number of requests that it affects.
    pub times: u32,
    pub effect: FaultEffect,
}

/// Effect of a fault on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultEffect {
    /// An error before anything begins.
    Error(u16),
    /// Like [`FaultEffect::Error`], with `Retry-After: 0`.
    ErrorWithPause(u16),
    /// An error after the request had its effect.
    LateError(u16),
    /// An HTML page instead of JSON.
    Html,
    /// JSON of another shape.
    OtherJson,
    /// The usual response, delivered in this way.
    Delivered(Delivery),
}

/// Protocol of one profile: the job that is tested, and its server.
#[derive(Clone, Copy)]
pub struct SimProtocol {
    pub profile: &'static str,
    /// Name of the job, because a profile may be tested with several.
    pub job: &'static str,
    /// Path of the service to which the test submits the job.
    pub path: &'static str,
    /// Body of the submission.
    pub body: fn() -> Value,
    /// `true` if the response to a submission is the result.
    pub is_synchronous: bool,
    /// `true` if a job can be found by the key that the service sends.
    pub is_searchable: bool,
    /// Returns the purpose of a request to the vendor.
    phase: fn(&ReceivedRequest) -> RequestPhase,
    /// Returns the response without faults.
    reply: fn(&mut SimWorld, &ReceivedRequest, RequestPhase) -> ScriptedReply,
    /// Returns the body of an error with a status.
    error: fn(u16) -> Value,
}

impl SimProtocol {
    pub fn is_video(&self) -> bool {
        self.path.starts_with("/proxy/videovendor/")
    }

    pub fn has_uploads(&self) -> bool {
        matches!(self.profile, "comfyui" | "replicate")
    }

    /// Returns `true` if the file of a result is downloaded by a request of its own.
    pub fn has_downloads(&self) -> bool {
        !self.is_synchronous && self.profile != "stability"
    }
}

/// State of a simulated server.
pub struct SimWorld {
    base: String,
    makes_videos: bool,
    /// Polls so far, by the id of the job.
    polls_by_job: HashMap<String, u32>,
    charges: usize,
    end: SimJobEnd,
    /// Number of polls for which a job keeps running.
    running_polls: u32,
    fault: Option<SimFault>,
}

impl SimWorld {
    /// Charges a job and starts it.
    fn start_job(&mut self, id: &str) {
        self.charges += 1;
        self.polls_by_job.insert(id.to_owned(), 0);
    }

    /// Returns the id of the next job.
    fn new_id(&self) -> String {
        format!("{:064}", self.charges + 1)
    }

    /// Counts a poll and returns the state of the job.
    fn poll(&mut self, id: &str) -> SimJobState {
        let end = self.end;
        match self.polls_by_job.get_mut(id) {
            None => SimJobState::Unknown,
            Some(_) if end == SimJobEnd::Forgotten => SimJobState::Unknown,
            Some(polls) => {
                *polls += 1;
                if *polls > self.running_polls { SimJobState::Ended(end) } else { SimJobState::Running }
            }
        }
    }

    /// Returns the result file of an image job.
    fn picture(&self) -> Vec<u8> {
        if self.end == SimJobEnd::WrongFile { b"<html>no picture</html>".to_vec() } else { picture::png(16, 16) }
    }

    fn picture_base64(&self) -> String {
        STANDARD.encode(self.picture())
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

/// State of a job as a poll sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SimJobState {
    Unknown,
    Running,
    Ended(SimJobEnd),
}

/// Running simulator.
pub struct ProfileSim {
    pub protocol: SimProtocol,
    vendor: ScriptedVendor,
    world: Arc<Mutex<SimWorld>>,
}

impl ProfileSim {
    pub async fn start(protocol: SimProtocol) -> Self {
        let world = SimWorld {
            base: String::new(),
            makes_videos: protocol.is_video(),
            polls_by_job: HashMap::new(),
            charges: 0,
            end: SimJobEnd::Result,
            running_polls: 1,
            fault: None,
        };
        let world = Arc::new(Mutex::new(world));
        let shared = Arc::clone(&world);
        let vendor = ScriptedVendor::start(move |base| {
            shared.lock().base = base;
            move |requests: &[ReceivedRequest]| {
                respond(protocol, &mut shared.lock(), requests.last().expect("a request"))
            }
        })
        .await;
        Self { protocol, vendor, world }
    }

    pub fn base(&self) -> String {
        self.vendor.base()
    }

    /// Sets how later jobs end, for how many polls they run, and a fault. Resets the number of charges.
    pub fn prepare(&self, end: SimJobEnd, running_polls: u32, fault: Option<SimFault>) {
        let mut world = self.world.lock();
        (world.end, world.running_polls, world.fault, world.charges) = (end, running_polls, fault, 0);
    }

    /// Returns the submissions so far.
    pub fn submissions(&self) -> Vec<ReceivedRequest> {
        let phase = self.protocol.phase;
        let posts = self.vendor.requests("POST", "/");
        posts.into_iter().filter(|request| phase(request) == RequestPhase::Submission).collect()
    }

    pub fn charges(&self) -> usize {
        self.world.lock().charges
    }
}

/// Returns the response to a request, with the prepared fault if the request is affected.
fn respond(protocol: SimProtocol, world: &mut SimWorld, request: &ReceivedRequest) -> ScriptedReply {
    let phase = (protocol.phase)(request);
    let effect = match &mut world.fault {
        Some(fault) if fault.phase == phase && fault.times > 0 => {
            fault.times -= 1;
            Some(fault.effect)
        }
        _ => None,
    };

    let error = |status| ScriptedReply::json(status, &(protocol.error)(status));
    match effect {
        Some(FaultEffect::Error(status)) => return error(status),
        Some(FaultEffect::ErrorWithPause(status)) => return error(status).with_header("retry-after", "0"),
        _ => {}
    }
    let reply = (protocol.reply)(world, request, phase);
    match effect {
        Some(FaultEffect::LateError(status)) => error(status),
        Some(FaultEffect::Html) => ScriptedReply::new(200, "text/html", b"<html>Welcome</html>".to_vec()),
        Some(FaultEffect::OtherJson) => ScriptedReply::json(200, &json!({"hello": "world"})),
        Some(FaultEffect::Delivered(delivery)) => reply.with_delivery(delivery),
        _ => reply,
    }
}

fn not_found() -> ScriptedReply {
    ScriptedReply::json(404, &json!({"detail": "not found"}))
}

fn last_segment(path: &str) -> &str {
    path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default()
}

/// Returns the first segment of the path after `marker`.
fn segment_after<'p>(path: &'p str, marker: &str) -> &'p str {
    let remaining = path.split_once(marker).map_or("", |(_, after)| after.trim_start_matches('/'));
    remaining.split(['/', '?']).next().unwrap_or_default()
}

fn image_body() -> Value {
    json!({"image": picture::base64_png(16, 16), "prompt": "a cat"})
}

fn precision_body() -> Value {
    json!({"image": picture::base64_png(16, 16), "scale_factor": 4})
}

/// Jobs with which the profiles are tested.
pub const PROTOCOLS: [SimProtocol; 11] = [
    SimProtocol {
        profile: "mediary",
        job: "image-upscaler",
        path: "/proxy/imagevendor/v1/ai/image-upscaler",
        body: image_body,
        is_synchronous: false,
        is_searchable: false,
        phase: |request| match (request.method.as_str(), request.path.as_str()) {
            ("POST", _) => RequestPhase::Submission,
            (_, "/result.png") => RequestPhase::Download,
            _ => RequestPhase::Poll,
        },
        reply: data_task,
        error: |_| json!({"message": "as the test wants"}),
    },
    SimProtocol {
        profile: "magnific",
        job: "image-upscaler",
        path: "/proxy/imagevendor/v1/ai/image-upscaler",
        body: image_body,
        is_synchronous: false,
        is_searchable: false,
        phase: |request| match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/ai/image-upscaler") => RequestPhase::Submission,
            (_, "/result.png") => RequestPhase::Download,
            ("GET", path) if path.starts_with("/v1/ai/image-upscaler/") => RequestPhase::Poll,
            _ => RequestPhase::Other,
        },
        reply: data_task,
        error: |_| json!({"message": "as the test wants"}),
    },
    SimProtocol {
        profile: "comfyui",
        job: "image-upscaler-precision-v2",
        path: "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2",
        body: precision_body,
        is_synchronous: false,
        is_searchable: true,
        phase: |request| match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/upload/image") => RequestPhase::Upload,
            ("POST", "/prompt") => RequestPhase::Submission,
            ("GET", path) if path.starts_with("/view?") => RequestPhase::Download,
            ("GET", "/queue" | "/system_stats") => RequestPhase::Other,
            ("GET", _) => RequestPhase::Poll,
            _ => RequestPhase::Other,
        },
        reply: comfyui,
        error: |_| {
            let error = json!({"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation", "details": "", "extra_info": {}});
            let node = json!({"type": "value_not_in_list", "message": "as the test wants", "details": "image", "extra_info": {"input_name": "image"}});
            let nodes = json!({"1": {"errors": [node], "dependent_outputs": ["3"], "class_type": "LoadImage"}});
            json!({"error": error, "node_errors": nodes})
        },
    },
    SimProtocol {
        profile: "a1111",
        job: "image-upscaler-precision-v2",
        path: "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2",
        body: precision_body,
        is_synchronous: true,
        is_searchable: false,
        phase: |request| match request.path.as_str() {
            "/sdapi/v1/extra-single-image" => RequestPhase::Submission,
            _ => RequestPhase::Other,
        },
        reply: |world, _, phase| match (phase, world.end) {
            (RequestPhase::Other, _) => ScriptedReply::json(200, &json!([])),
            (_, SimJobEnd::Failed) => {
                world.charges += 1;
                ScriptedReply::json(
                    500,
                    &json!({"error": "OutOfMemoryError", "detail": "", "body": "", "errors": "CUDA out of memory"}),
                )
            }
            (_, SimJobEnd::Nothing) => {
                world.charges += 1;
                ScriptedReply::json(200, &json!({"html_info": "<p></p>", "image": ""}))
            }
            _ => {
                world.charges += 1;
                ScriptedReply::json(200, &json!({"html_info": "<p></p>", "image": world.picture_base64()}))
            }
        },
        error: |_| json!({"error": "HTTPException", "detail": "as the test wants", "body": "", "errors": ""}),
    },
    SimProtocol {
        profile: "replicate",
        job: "image-upscaler-precision-v2",
        path: "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2",
        body: precision_body,
        is_synchronous: false,
        is_searchable: false,
        phase: |request| match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/files") => RequestPhase::Upload,
            ("POST", "/v1/models/topazlabs/image-upscale/predictions") => RequestPhase::Submission,
            ("GET", path) if path.starts_with("/v1/predictions/") => RequestPhase::Poll,
            ("GET", "/result.png") => RequestPhase::Download,
            _ => RequestPhase::Other,
        },
        reply: replicate,
        error: |status| json!({"title": "as the test wants", "detail": "as the test wants", "status": status}),
    },
    SimProtocol {
        profile: "fal",
        job: "image-upscaler-precision-v2",
        path: "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2",
        body: precision_body,
        is_synchronous: false,
        is_searchable: false,
        phase: |request| match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/fal-ai/esrgan") => RequestPhase::Submission,
            ("GET", "/result.png") => RequestPhase::Download,
            ("GET", path) if path.ends_with("/status") => RequestPhase::Poll,
            ("GET", path) if path.starts_with("/fal-ai/esrgan/requests/") => RequestPhase::Results,
            _ => RequestPhase::Other,
        },
        reply: fal,
        error: |_| json!({"detail": "as the test wants"}),
    },
    SimProtocol {
        profile: "openai",
        job: "image-relight",
        path: "/proxy/imagevendor/v1/ai/image-relight",
        body: image_body,
        is_synchronous: true,
        is_searchable: false,
        phase: |request| match request.path.as_str() {
            "/v1/images/edits" => RequestPhase::Submission,
            _ => RequestPhase::Other,
        },
        reply: |world, _, phase| {
            if phase == RequestPhase::Other {
                return ScriptedReply::json(200, &json!({"object": "list", "data": []}));
            }
            world.charges += 1;
            let images = match world.end {
                SimJobEnd::Nothing => json!([]),
                SimJobEnd::Failed => {
                    let error = json!({"message": "Your request was rejected by the safety system.", "type": "image_generation_user_error", "param": null, "code": "moderation_blocked"});
                    return ScriptedReply::json(400, &json!({"error": error}));
                }
                _ => json!([{"b64_json": world.picture_base64()}]),
            };
            let usage = json!({"total_tokens": 100, "input_tokens": 50, "output_tokens": 50});
            ScriptedReply::json(
                200,
                &json!({"created": 1_713_833_628, "data": images, "output_format": "png", "usage": usage}),
            )
        },
        error: |status| json!({"error": {"message": "as the test wants", "type": "invalid_request_error", "param": null, "code": format!("status_{status}")}}),
    },
    SimProtocol {
        profile: "stability",
        job: "image-upscaler-precision-v2",
        path: "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2",
        body: precision_body,
        is_synchronous: true,
        is_searchable: false,
        phase: |request| match request.path.as_str() {
            "/v2beta/stable-image/upscale/fast" => RequestPhase::Submission,
            _ => RequestPhase::Other,
        },
        reply: |world, _, phase| {
            if phase == RequestPhase::Other {
                return ScriptedReply::json(200, &json!({"credits": 0.079}));
            }
            world.charges += 1;
            match world.end {
                SimJobEnd::Failed => stability_picture("CONTENT_FILTERED", &world.picture_base64()),
                SimJobEnd::Nothing => stability_picture("SUCCESS", ""),
                _ => stability_picture("SUCCESS", &world.picture_base64()),
            }
        },
        error: stability_error,
    },
    SimProtocol {
        profile: "stability",
        job: "image-upscaler",
        path: "/proxy/imagevendor/v1/ai/image-upscaler",
        body: || json!({"image": picture::base64_png(16, 16), "prompt": "a cat", "scale_factor": "4x"}),
        is_synchronous: false,
        is_searchable: false,
        phase: |request| match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v2beta/stable-image/upscale/creative") => RequestPhase::Submission,
            ("GET", path) if path.starts_with("/v2beta/results/") => RequestPhase::Poll,
            _ => RequestPhase::Other,
        },
        reply: |world, request, phase| match phase {
            RequestPhase::Submission => {
                let id = world.new_id();
                world.start_job(&id);
                ScriptedReply::json(200, &json!({"id": id}))
            }
            RequestPhase::Poll => {
                let id = last_segment(&request.path);
                match world.poll(id) {
                    SimJobState::Unknown => ScriptedReply::json(
                        404,
                        &json!({"id": "2bca35116bc5431d6dc4b4ea2ef3da2f", "name": "generation_not_found", "errors": ["id: the generation either does not exist or has expired."]}),
                    ),
                    SimJobState::Running => ScriptedReply::json(202, &json!({"id": id, "status": "in-progress"})),
                    SimJobState::Ended(SimJobEnd::Failed) => ScriptedReply::json(
                        403,
                        &json!({"id": "x", "name": "content_moderation", "errors": ["Your request was flagged"]}),
                    ),
                    SimJobState::Ended(SimJobEnd::Nothing) => stability_picture("SUCCESS", ""),
                    SimJobState::Ended(_) => stability_picture("SUCCESS", &world.picture_base64()),
                }
            }
            _ => ScriptedReply::json(200, &json!({"credits": 0.079})),
        },
        error: stability_error,
    },
    SimProtocol {
        profile: "vidu",
        job: "start-end2video",
        path: "/proxy/videovendor/start-end2video",
        body: || json!({"prompt": "waves", "model": "vq2-turbo", "duration": 1, "images": [picture::base64_png(16, 16)]}),
        is_synchronous: false,
        is_searchable: false,
        phase: |request| match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/ent/v2/start-end2video") => RequestPhase::Submission,
            ("GET", path) if path.ends_with("/creations") => RequestPhase::Poll,
            ("GET", "/result.mp4") => RequestPhase::Download,
            _ => RequestPhase::Other,
        },
        reply: vidu,
        error: |_| json!({"code": 400, "reason": "AsTheTestWants", "message": "as the test wants"}),
    },
    SimProtocol {
        profile: "replicate",
        job: "start-end2video",
        path: "/proxy/videovendor/start-end2video",
        body: || json!({"prompt": "waves", "model": "vq2-turbo", "duration": 2, "resolution": "720p", "images": [picture::base64_png(16, 16)]}),
        is_synchronous: false,
        is_searchable: false,
        phase: |request| match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/files") => RequestPhase::Upload,
            ("POST", "/v1/models/bytedance/seedance-2.0/predictions") => RequestPhase::Submission,
            ("GET", path) if path.starts_with("/v1/predictions/") => RequestPhase::Poll,
            ("GET", "/result.mp4") => RequestPhase::Download,
            _ => RequestPhase::Other,
        },
        reply: replicate,
        error: |status| json!({"title": "as the test wants", "detail": "as the test wants", "status": status}),
    },
];

fn stability_error(status: u16) -> Value {
    json!({"id": "ed14db44362126aab3cbd25cca51ffe3", "name": format!("status_{status}"), "errors": ["as the test wants"]})
}

fn stability_picture(reason: &str, picture: &str) -> ScriptedReply {
    let body = json!({"image": picture, "seed": 343_940_597, "finish_reason": reason});
    ScriptedReply::new(200, "application/json; type=image/png", body.to_string().into_bytes())
}

/// Profiles `mediary` and `magnific`: the image API of this service, and the original API that it follows.
fn data_task(world: &mut SimWorld, request: &ReceivedRequest, phase: RequestPhase) -> ScriptedReply {
    let task = |id: &str, status: &str, generated: Value| {
        ScriptedReply::json(200, &json!({"data": {"task_id": id, "status": status, "generated": generated}}))
    };
    match phase {
        RequestPhase::Submission => {
            let id = world.new_id();
            world.start_job(&id);
            task(&id, "CREATED", json!([]))
        }
        RequestPhase::Poll => {
            let id = last_segment(&request.path);
            match world.poll(id) {
                SimJobState::Unknown => ScriptedReply::json(404, &json!({"message": "Not found"})),
                SimJobState::Running => task(id, "IN_PROGRESS", json!([])),
                SimJobState::Ended(SimJobEnd::Failed) => task(id, "FAILED", json!([])),
                SimJobState::Ended(SimJobEnd::Nothing) => task(id, "COMPLETED", json!([])),
                SimJobState::Ended(_) => task(id, "COMPLETED", json!([world.url("/result.png")])),
            }
        }
        RequestPhase::Download => ScriptedReply::png(world.picture()),
        _ => not_found(),
    }
}

/// `ComfyUI`: uploads, a queue of prompts, and a history of results.
fn comfyui(world: &mut SimWorld, request: &ReceivedRequest, phase: RequestPhase) -> ScriptedReply {
    match phase {
        RequestPhase::Upload => {
            let form = String::from_utf8_lossy(&request.body);
            let name = form.split("filename=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a file name");
            ScriptedReply::json(200, &json!({"name": name, "subfolder": "", "type": "input"}))
        }
        RequestPhase::Submission => {
            let id = request.json()["prompt_id"].as_str().expect("the id from the service").to_owned();
            world.start_job(&id);
            ScriptedReply::json(200, &json!({"prompt_id": id, "number": 4, "node_errors": {}}))
        }
        RequestPhase::Download => ScriptedReply::png(world.picture()),
        RequestPhase::Poll => {
            let id = last_segment(&request.path);
            let started = json!(["execution_start", {"prompt_id": id, "timestamp": 1_795_662_167_962_u64}]);
            let cached =
                json!(["execution_cached", {"nodes": [], "prompt_id": id, "timestamp": 1_795_662_167_964_u64}]);
            let success = json!(["execution_success", {"prompt_id": id, "timestamp": 1_795_662_168_009_u64}]);
            let done = json!({"status_str": "success", "completed": true, "messages": [started, cached, success]});
            let image = json!({"filename": format!("{id}_00001_.png"), "subfolder": "mediary", "type": "output"});
            let (status, outputs) = match world.poll(id) {
                SimJobState::Unknown | SimJobState::Running => return ScriptedReply::json(200, &json!({})),
                SimJobState::Ended(SimJobEnd::Failed) => {
                    let error = json!(["execution_error", {"prompt_id": id, "node_id": "2", "node_type": "ImageScaleBy", "executed": ["1"],
                        "exception_message": "out of memory\n", "exception_type": "RuntimeError", "traceback": []}]);
                    (
                        json!({"status_str": "error", "completed": false, "messages": [started, cached, error]}),
                        json!({}),
                    )
                }
                SimJobState::Ended(SimJobEnd::Nothing) => (done, json!({})),
                SimJobState::Ended(_) => (done, json!({"3": {"images": [image]}})),
            };
            let prompt = json!([4, id, {}, {}, ["3"]]);
            ScriptedReply::json(200, &json!({id: {"prompt": prompt, "outputs": outputs, "status": status, "meta": {}}}))
        }
        RequestPhase::Other if request.path == "/system_stats" => {
            ScriptedReply::json(200, &json!({"system": {"os": "posix", "comfyui_version": "0.3.64"}, "devices": []}))
        }
        RequestPhase::Other if request.path == "/queue" => {
            // A job is either in the queue or in the history.
            let is_queued = |polls: u32| world.end != SimJobEnd::Forgotten && polls <= world.running_polls;
            let queued = world.polls_by_job.iter().filter(|(_, polls)| is_queued(**polls));
            let running: Vec<_> = queued.map(|(id, _)| json!([4, id, {}, {}, ["3"]])).collect();
            ScriptedReply::json(200, &json!({"queue_running": running, "queue_pending": []}))
        }
        _ => not_found(),
    }
}

/// Replicate: uploads, and predictions that are polled.
fn replicate(world: &mut SimWorld, request: &ReceivedRequest, phase: RequestPhase) -> ScriptedReply {
    let prediction = |id: &str, status: &str, output: Value, error: Value| json!({"id": id, "model": "a/b", "version": "hidden", "input": {}, "logs": "", "output": output, "error": error, "status": status, "data_removed": false});
    match phase {
        RequestPhase::Upload => {
            let url = world.url("/v1/files/NGZi");
            ScriptedReply::json(201, &json!({"id": "NGZi", "name": "in.png", "size": 9, "urls": {"get": url}}))
        }
        RequestPhase::Submission => {
            let id = world.new_id();
            world.start_job(&id);
            ScriptedReply::json(201, &prediction(&id, "starting", Value::Null, Value::Null))
        }
        RequestPhase::Poll => {
            let id = last_segment(&request.path);
            let file = if world.makes_videos { "/result.mp4" } else { "/result.png" };
            let reply = match world.poll(id) {
                SimJobState::Unknown => return not_found(),
                SimJobState::Running => prediction(id, "processing", Value::Null, Value::Null),
                SimJobState::Ended(SimJobEnd::Failed) => {
                    prediction(id, "failed", Value::Null, json!("CUDA out of memory"))
                }
                SimJobState::Ended(SimJobEnd::Nothing) => prediction(id, "succeeded", Value::Null, Value::Null),
                SimJobState::Ended(_) => prediction(id, "succeeded", json!(world.url(file)), Value::Null),
            };
            ScriptedReply::json(200, &reply)
        }
        RequestPhase::Download if request.path == "/result.mp4" => ScriptedReply::new(200, "video/mp4", clip(world)),
        RequestPhase::Download => ScriptedReply::png(world.picture()),
        _ => not_found(),
    }
}

/// Returns the result file of a video job.
fn clip(world: &SimWorld) -> Vec<u8> {
    if world.end == SimJobEnd::WrongFile { b"<html>no video</html>".to_vec() } else { CLIP.to_vec() }
}

/// fal.ai: a queue with separate paths for status and result.
fn fal(world: &mut SimWorld, request: &ReceivedRequest, phase: RequestPhase) -> ScriptedReply {
    match phase {
        RequestPhase::Submission => {
            let id = world.new_id();
            world.start_job(&id);
            let url = world.url(&format!("/fal-ai/esrgan/requests/{id}"));
            ScriptedReply::json(
                200,
                &json!({"status": "IN_QUEUE", "request_id": id, "queue_position": 0, "response_url": url, "status_url": format!("{url}/status"), "cancel_url": format!("{url}/cancel")}),
            )
        }
        RequestPhase::Poll => {
            let id = segment_after(&request.path, "/requests/");
            match world.poll(id) {
                SimJobState::Unknown => not_found(),
                SimJobState::Running => {
                    ScriptedReply::json(202, &json!({"status": "IN_QUEUE", "request_id": id, "queue_position": 3}))
                }
                SimJobState::Ended(_) => ScriptedReply::json(
                    200,
                    &json!({"status": "COMPLETED", "request_id": id, "logs": null, "metrics": {"inference_time": 3.71}}),
                ),
            }
        }
        // fal.ai reports a failed run as COMPLETED; the request for its result then fails.
        RequestPhase::Results => match world.end {
            SimJobEnd::Failed => ScriptedReply::json(
                422,
                &json!({"detail": [{"loc": ["body", "image_url"], "msg": "Image dimensions are too large", "type": "image_too_large"}]}),
            ),
            SimJobEnd::Nothing => ScriptedReply::json(200, &json!({"seed": 42, "timings": {"inference": 1.22}})),
            _ => ScriptedReply::json(
                200,
                &json!({"image": {"url": world.url("/result.png"), "content_type": "image/png", "file_name": "abc.png"}, "seed": 42}),
            ),
        },
        RequestPhase::Download => ScriptedReply::png(world.picture()),
        _ => not_found(),
    }
}

/// Vidu: video tasks that are polled by their creations.
fn vidu(world: &mut SimWorld, request: &ReceivedRequest, phase: RequestPhase) -> ScriptedReply {
    match phase {
        RequestPhase::Submission => {
            let id = world.new_id();
            world.start_job(&id);
            ScriptedReply::json(200, &json!({"task_id": id, "state": "created", "credits": 4, "model": "viduq2-turbo"}))
        }
        RequestPhase::Poll => {
            let id = segment_after(&request.path, "/tasks/");
            let creation = json!({"id": "v-1", "url": world.url("/result.mp4")});
            let task = |state: &str, code: &str, creations: Value| {
                ScriptedReply::json(200, &json!({"id": id, "state": state, "err_code": code, "creations": creations}))
            };
            match world.poll(id) {
                SimJobState::Unknown => {
                    ScriptedReply::json(404, &json!({"code": 404, "reason": "NotFound", "message": "no such task"}))
                }
                SimJobState::Running => task("processing", "", json!([])),
                SimJobState::Ended(SimJobEnd::Failed) => task("failed", "AuditSubmitIllegal", json!([])),
                SimJobState::Ended(SimJobEnd::Nothing) => task("success", "", json!([])),
                SimJobState::Ended(_) => task("success", "", json!([creation])),
            }
        }
        RequestPhase::Download => ScriptedReply::new(200, "video/mp4", clip(world)),
        _ => not_found(),
    }
}
