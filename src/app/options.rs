//! Converts settings to the options of the modules.

use std::num::NonZero;

use super::limits;
use crate::actors::router::RouterOptions;
use crate::actors::system::ActorOptions;
use crate::config::{AllowedOrigins, Settings};
use crate::http::middleware::allowed_hosts::AllowedHosts;
use crate::http::server::{CorsOrigins, HttpOptions, MusicGatewayOptions};

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
        video_needs_token: settings.auth.video_required
            || settings.video_vendors.iter().any(|vendor| vendor.url.is_some()),
        video_max_images: settings.video.max_images,
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
        },
    }
}
