//! `mediary health`: readiness of the service as an exit code, for supervisors.

use std::path;

use anyhow::{Context, anyhow, bail};
use clap::Args;

use super::token::NamedService;
use super::{CliError, DirectoryFlags, SettingFlags, print};
use crate::app;
use crate::config::Settings;
use crate::data_dir::DataDir;
use crate::outbound::api_client::probe;

pub(super) const HELP: &str = "\
Sends one GET /ready, with a timeout of 5 s, and reports the result in the exit code. Needs no token.

Examples:
  mediary health
  mediary health --url https://registry.example.org
  mediary --data-dir /srv/mediary health || echo 'not ready'

Exit codes: 0 ready, 1 not ready (starting or not accepting changes) or unreachable. Without a URL,
only a service that runs on the data directory is checked.";

#[derive(Debug, Args)]
pub(super) struct HealthArguments {
    /// URL of the service [default: `MEDIARY_URL` unless --data-dir is given, otherwise the address recorded by the service
    /// that runs on the data directory, otherwise the listen address of the settings]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    directory: DirectoryFlags,
}

pub(super) fn run(arguments: HealthArguments, outer: SettingFlags) -> Result<(), CliError> {
    let HealthArguments { url, directory } = arguments;
    let service = NamedService::new(url, None, directory.names_data_dir(&outer));
    let settings = directory.settings(outer)?;
    let base = service.url.map_or_else(|| service_address(&settings), Ok)?;

    let reply = app::block_on(probe(&base, "/ready")).map_err(anyhow::Error::from)?;
    let reply = reply.map_err(|failure| anyhow!("no service answers at {base}: {failure}"))?;
    if reply.status != 200 {
        let body = reply.json();
        let detail = body["detail"].as_str().unwrap_or("no reason given");
        return Err(anyhow!("the service at {base} is not ready: {} {detail:?}", reply.status).into());
    }
    print(&format!("the service at {base} is ready\n")).context("cannot write to stdout")?;
    Ok(())
}

/// Returns the address of the service that runs on the data directory. Without a running service this is an error: the
/// recorded or configured address may belong to another service by now.
fn service_address(settings: &Settings) -> anyhow::Result<String> {
    let root = &settings.data_dir;
    if !DataDir::is_in_use(root)
        .context("cannot determine whether a service runs on the data directory; name it with --url")?
    {
        bail!(
            "no service runs on {}: start one with `mediary`, or name its data directory with --data-dir, or the service with --url",
            path::absolute(root).unwrap_or_else(|_| root.clone()).display()
        );
    }
    app::read_address_file(root)?.map_or_else(|| app::expected_local_url(settings.listen), Ok)
}
