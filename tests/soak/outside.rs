//! Remote side, which is never killed: vendors that fail half of the time, and a receiver of webhooks.

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
const WORK: Duration = Duration::from_millis(300);
/// One in this many webhooks is rejected at its first delivery.
const REFUSED_WEBHOOKS: u64 = 10;

/// The vendors and the receiver.
pub struct Outside {
    /// Images and videos. It honours idempotency keys, and its ledger has one entry per charge.
    pub vendor: VendorSim,
    pub music: MusicSim,
    pub receiver: Receiver,
}

impl Outside {
    pub async fn start() -> Self {
        let options = SimOptions { mode: SimMode::HonoursKeys, job_duration: WORK, result: picture::png(16, 16) };
        let known = Mutex::<HashSet<String>>::default();
        let receiver = Receiver::with_replies(move |_, received| {
            let id = received.header("webhook-id").to_owned();
            let refused = hash(&id).is_multiple_of(REFUSED_WEBHOOKS) && known.lock().insert(id);
            if refused { "HTTP/1.1 500 Internal Server Error" } else { "HTTP/1.1 204 No Content" }.to_owned()
        });
        let turn = AtomicU64::new(0);
        let music = MusicSim::with_behavior(move |_| music_behavior(turn.fetch_add(1, Ordering::Relaxed)));
        Self { vendor: VendorSim::with_behavior(options, behavior).await, music: music.await, receiver: receiver.await }
    }
}

/// Makes half of all requests fail, each attempt differently; the same in every run.
fn behavior(asked: &SimRequest) -> SimBehavior {
    let draw = hash(&(format!("{:?}", asked.kind), &asked.prompt, asked.count)) % 100;
    let nothing = || r#"{"message": "not now"}"#.to_owned();
    match draw {
        0..50 => SimBehavior::Normal,
        50..62 => SimBehavior::Reject("503 Service Unavailable", nothing()),
        62..70 => SimBehavior::Reject("429 Too Many Requests\r\nretry-after: 1", nothing()),
        70..80 => SimBehavior::Respond("500 Internal Server Error", nothing()),
        80..88 => SimBehavior::HangUp,
        88..95 => SimBehavior::Raw("HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"data\": {\"task".to_owned()),
        // A file that is not a result fails the task after some attempts, as intended.
        _ if asked.kind == SimRequestKind::Result => SimBehavior::HangUp,
        _ => SimBehavior::Respond("200 OK", "<!doctype html><title>Welcome</title>".to_owned()),
    }
}

fn music_behavior(turn: u64) -> Vec<StreamAction> {
    let usual: Vec<Value> = music_sim::normal_lines();
    match hash(&turn) % 4 {
        0 | 1 => music_sim::lines(&usual),
        2 => music_sim::error_response("503 Service Unavailable", "{}"),
        // Sound, and then the connection is closed.
        _ => music_sim::lines(&usual[..3]),
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
