//! Participants that are never killed: vendors that fail half of the time, and a receiver of webhooks.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::support::music_sim::{self, MusicSim, StreamAction};
use crate::support::picture;
use crate::support::receiver::Receiver;
use crate::support::vendor_sim::{SimBehavior, SimMode, SimOptions, SimRequest, SimRequestKind, VendorSim};

/// Time that the vendor needs for a job.
const JOB_DURATION: Duration = Duration::from_millis(300);
/// One in so many webhooks is rejected at its first delivery.
const REJECT_ONE_IN: u64 = 10;

/// The vendors and the receiver.
pub struct Outside {
    /// Vendor of images and videos, which honours idempotency keys and records every charge.
    pub vendor: VendorSim,
    pub music: MusicSim,
    pub receiver: Receiver,
}

impl Outside {
    pub async fn start() -> Self {
        let options =
            SimOptions { mode: SimMode::HonoursKeys, job_duration: JOB_DURATION, result: picture::png(16, 16) };
        let rejected_ids = Mutex::<HashSet<String>>::default();
        let receiver = Receiver::with_replies(move |_, received| {
            let id = received.header("webhook-id").to_owned();
            let is_rejected = hash(&id).is_multiple_of(REJECT_ONE_IN) && rejected_ids.lock().insert(id);
            if is_rejected { "HTTP/1.1 500 Internal Server Error" } else { "HTTP/1.1 204 No Content" }.to_owned()
        });
        let turn = AtomicU64::new(0);
        let music = MusicSim::with_behavior(move |_| music_behavior(turn.fetch_add(1, Ordering::Relaxed)));
        Self { vendor: VendorSim::with_behavior(options, behavior).await, music: music.await, receiver: receiver.await }
    }
}

/// Makes half of all requests fail. The attempts of a request fail in different ways, but in the same ways every time
/// that the test runs.
fn behavior(request: &SimRequest) -> SimBehavior {
    let draw = hash(&(format!("{:?}", request.kind), &request.prompt, request.count)) % 100;
    let error_body = || r#"{"message": "not now"}"#.to_owned();
    match draw {
        0..50 => SimBehavior::Normal,
        50..62 => SimBehavior::Reject("503 Service Unavailable", error_body()),
        62..70 => SimBehavior::Reject("429 Too Many Requests\r\nretry-after: 1", error_body()),
        70..80 => SimBehavior::Respond("500 Internal Server Error", error_body()),
        80..88 => SimBehavior::HangUp,
        88..95 => SimBehavior::Raw("HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"data\": {\"task".to_owned()),
        // An HTML page instead of a result would rightly fail the task, which must not happen here.
        _ if request.kind == SimRequestKind::Result => SimBehavior::HangUp,
        _ => SimBehavior::Respond("200 OK", "<!doctype html><title>Welcome</title>".to_owned()),
    }
}

/// Makes half of all streams fail.
fn music_behavior(turn: u64) -> Vec<StreamAction> {
    let complete: Vec<Value> = music_sim::normal_lines();
    match hash(&turn) % 4 {
        0 | 1 => music_sim::lines(&complete),
        2 => music_sim::error_response("503 Service Unavailable", "{}"),
        // The stream breaks off after some sound.
        _ => music_sim::lines(&complete[..3]),
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
