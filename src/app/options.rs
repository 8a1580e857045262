//! Converts settings to the options of the modules.

use std::num::NonZero;

use super::limits;
use crate::actors::router::RouterOptions;
use crate::actors::system::ActorOptions;
use crate::config::{AllowedOrigins, OidcSettings, Settings, VendorSelection, VendorSettings};
use crate::domain::task::{Gateway, PromptReport, TaskKind};
use crate::http::middleware::allowed_hosts::AllowedHosts;
use crate::http::prompt_reports::PromptReports;
use crate::http::server::{CorsOrigins, HttpOptions, IssuerSignIn, MusicGatewayOptions, VendorJobs};
use crate::vendors::local;

/// Maximum number of commands of one kind that wait for their router.
const ROUTER_QUEUE: usize = 8192;

pub(super) fn actor_options(settings: &Settings) -> ActorOptions {
    let router = RouterOptions { queue: ROUTER_QUEUE, mailbox: settings.actors.mailbox, idle: settings.actors.idle };
    ActorOptions { writer_queue: settings.journal.queue, router }
}

/// Returns the number of HTTP worker threads.
pub(super) fn workers(settings: &Settings) -> usize {
    match settings.workers {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        workers => workers,
    }
}

pub(super) fn http_options(settings: &Settings, public_url: &str) -> HttpOptions {
    HttpOptions {
        public_url: public_url.to_owned(),
        allowed_hosts: AllowedHosts::new(settings.listen, settings.public_url.as_deref(), &settings.allowed_hosts),
        workers: workers(settings),
        max_connections: settings.limits.connections,
        connections_per_address: limits::connections_per_address(&settings.limits),
        write_timeout: settings.limits.write_timeout,
        cors_origins: match &settings.cors.allowed_origins {
            AllowedOrigins::Any => CorsOrigins::Any,
            AllowedOrigins::Listed(origins) => CorsOrigins::Only(origins.clone()),
        },
        require_approval: settings.auth.require_approval,
        issuer_sign_in: settings.auth.oidc.as_ref().and_then(issuer_sign_in),
        video_needs_token: settings.auth.video_token_required
            || settings.video_vendors.iter().any(|vendor| vendor.url.is_some()),
        video_max_images: settings.video.max_images,
        prompt_reports: prompt_reports(settings),
        vendor_jobs: vendor_jobs(settings),
        quotas: limits::quotas(&settings.limits),
        daily_limits: limits::daily_limits(&settings.limits),
        rate_limits: limits::rates(&settings.limits),
        proxies: limits::trusted_proxies(&settings.limits),
        log_client: settings.log.client,
        callbacks_per_account: settings.callbacks.pending_per_account,
        moderation: settings.registry.moderation,
        media_retention: settings.media.retention,
        heartbeat: settings.streams.heartbeat,
        music: MusicGatewayOptions {
            streams: settings.music.streams,
            deadline: settings.tasks.deadline,
            billing_rate_per_sec: settings.music.billing_rate_per_sec,
            seconds_of: local::music::seconds_of,
        },
    }
}

/// Returns the sign-in of the console, if the issuer knows the console.
fn issuer_sign_in(oidc: &OidcSettings) -> Option<IssuerSignIn> {
    let client_id = oidc.client_id.clone()?;
    Some(IssuerSignIn { issuer: oidc.issuer.clone(), client_id, audience: oidc.audience.clone() })
}

/// Returns the jobs that the settings give to each vendor.
fn vendor_jobs(settings: &Settings) -> Vec<VendorJobs> {
    let jobs_of = |gateway, selection: &VendorSelection, kinds: &[TaskKind]| VendorJobs {
        gateway,
        vendor: selection.name.clone(),
        kinds: kinds.to_vec(),
        jobs: selection.profile.load().map(|profile| profile.jobs().map(str::to_owned).collect()),
    };

    let mut jobs = Vec::new();
    for vendor in &settings.image_vendors {
        jobs.push(jobs_of(Gateway::Image, &vendor.selection, &vendor.jobs.kinds));
    }
    for vendor in &settings.video_vendors {
        jobs.push(jobs_of(Gateway::Video, &vendor.selection, &vendor.jobs.kinds));
    }
    for vendor in &settings.music_vendors {
        jobs.push(jobs_of(Gateway::Music, &vendor.selection, &[]));
    }
    jobs
}

/// Returns the reports on prompts, for the media that only the built-in engine serves.
fn prompt_reports(settings: &Settings) -> PromptReports {
    let is_built_in = |vendors: &[VendorSettings]| vendors.iter().all(|vendor| vendor.url.is_none());
    let mut built_in = Vec::new();
    if is_built_in(&settings.image_vendors) {
        built_in.push(Gateway::Image);
    }
    if is_built_in(&settings.video_vendors) {
        built_in.push(Gateway::Video);
    }
    if settings.music_vendors.iter().all(|vendor| vendor.url.is_none()) {
        built_in.push(Gateway::Music);
    }

    let is_strict = settings.engine.strict_prompts && built_in.contains(&Gateway::Video);
    let report_strict_video: Option<fn(&str) -> PromptReport> = is_strict.then_some(local::video_prompt_report);
    PromptReports::new(built_in, local::prompt_report, report_strict_video)
}
