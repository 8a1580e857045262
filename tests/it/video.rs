//! Video gateway: accepted input, processing, cost, and visibility. The vendor is a simulator.

use std::time::Duration;

use mediary::config::Settings;
use mediary::domain::ids::TaskId;
use mediary::environment::Environment;
use serde_json::{Value, json};

use crate::support::eventually::eventually_on;
use crate::support::vendor_sim::{SimBehavior, SimMode, SimOptions, SimRequest, VendorSim};
use crate::support::{TestApp, TestUser};

mod access;
pub mod credits;
mod engine;
mod extend;
mod lifecycle;
mod limits;
mod queue;
mod refusals;

pub const START_END: &str = "/proxy/videovendor/start-end2video";
pub const REFERENCE: &str = "/proxy/videovendor/reference2video";
pub const EXTEND: &str = "/proxy/videovendor/extend";
pub const MULTIFRAME: &str = "/proxy/videovendor/multiframe";

/// Starts a vendor that needs this time for every video.
pub async fn vendor(
    job_duration: Duration,
    behavior: impl Fn(&SimRequest) -> SimBehavior + Send + Sync + 'static,
) -> VendorSim {
    VendorSim::with_behavior(SimOptions { mode: SimMode::HonoursKeys, job_duration, result: Vec::new() }, behavior)
        .await
}

/// Settings that send videos to the vendor at this address, with short waits.
pub fn made_by(settings: &mut Settings, base: &str) {
    let vendor = &mut settings.video_vendors[0];
    vendor.selection.profile = mediary::config::VendorProfile::Mediary;
    vendor.url = Some(base.to_owned());
    vendor.recovery = mediary::config::RecoverySetting::Key;
    (vendor.poll_min, vendor.poll_max) = (Duration::from_millis(10), Duration::from_millis(20));
    (vendor.retry_min, vendor.retry_max) = (Duration::from_millis(10), Duration::from_millis(50));
    vendor.breaker_failures = 1_000_000;
}

/// Service whose vendor completes videos at once.
pub struct VideoFixture {
    pub app: TestApp,
    pub sim: VendorSim,
    pub alice: TestUser,
}

impl VideoFixture {
    pub async fn start() -> Self {
        Self::with_vendor(vendor(Duration::ZERO, |_| SimBehavior::Normal).await, |_| {}).await
    }

    pub async fn with_vendor(sim: VendorSim, change: impl FnOnce(&mut Settings)) -> Self {
        let base = sim.base();
        let change = |settings: &mut Settings| {
            made_by(settings, &base);
            change(settings);
        };
        let app = TestApp::start_with(change, Environment::system()).await;
        let alice = app.user("alice").await;
        Self { app, sim, alice }
    }

    /// Submits a valid job and returns the response.
    pub async fn submit(&self, path: &str, body: Value) -> Value {
        self.app.post_as(&self.alice.token, path, body).await.expect(200).json()
    }

    /// Waits until a task of this user has ended, and returns its creations.
    pub async fn wait_for_end(&self, task: &Value) -> Value {
        let id = task["task_id"].as_str().expect("a task id");
        wait_for_task_end(&self.app, id).await;
        let path = format!("/proxy/videovendor/tasks/{id}/creations");
        self.app.get_as(&self.alice.token, &path).await.expect(200).json()
    }

    pub async fn credits(&self) -> Value {
        self.app.get_as(&self.alice.token, "/users/credits").await.expect(200).json()
    }
}

/// Waits until a task has ended.
pub async fn wait_for_task_end(app: &TestApp, task: &str) {
    let (models, id) = (app.app.models(), TaskId::parse(task).expect("a task id"));
    let has_ended = async || models.task(id).await.expect("readable").expect("known").is_terminal();
    eventually_on(models.task_changes(), "the task ends", has_ended).await;
}

/// Returns a job that the simulator identifies by its prompt.
pub fn of_prompt(prompt: &str) -> Value {
    json!({"prompt": prompt, "model": "vq2-turbo", "duration": 1})
}
