//! `mediary demo`: loads a sample registry into a running service and runs one job of each kind, through the public
//! API.

mod archive;
mod load;
mod media;
mod picture;
mod progress;
mod sample;
mod task;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};

use self::load::SampleLoader;
use self::progress::{DemoProgress, ResourceCount, ResourceCounts};
use self::sample::{SamplePublisher, load_samples};
use super::token::{NamedService, token_for};
use super::{CliError, DirectoryFlags, SettingFlags, print};
use crate::app;
use crate::data_dir::DataDir;
use crate::outbound::api_client::{ApiClient, probe};
use crate::outbound::client::CallFailure;

/// Number of publishers that are loaded concurrently.
const PUBLISHER_CONCURRENCY: usize = 4;
/// Maximum number of refusals that are printed.
const REFUSALS_SHOWN: usize = 10;

pub(super) const HELP: &str = "\
Existing resources stay unchanged, so the command can be interrupted and repeated. The service keeps
picture, video and music as long as other results; the music is also written to a local file.

Examples:
  mediary demo
  mediary demo --only saltmarsh --music waltz.opus
  mediary demo --url https://registry.example.org --token \"$TOKEN\"";

#[derive(Debug, Args)]
pub(super) struct DemoArguments {
    /// URL of the service [default: `MEDIARY_URL` unless --data-dir is given, otherwise the service that runs on the data
    /// directory, otherwise the listen address of the settings]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Administrator token [default: `MEDIARY_TOKEN`, otherwise `MEDIARY_ADMIN_TOKEN`; for the service of the data
    /// directory also the settings file or the file admin-token in that directory]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Load only this sample publisher (repeatable)
    #[arg(long, value_name = "PUBLISHER")]
    only: Vec<String>,
    /// File for a copy of the piece of music; the service also stores it
    #[arg(long, value_name = "FILE", default_value = "mediary-demo.opus")]
    music: PathBuf,
    #[command(flatten)]
    directory: DirectoryFlags,
}

pub(super) fn run(arguments: DemoArguments, outer: SettingFlags) -> Result<(), CliError> {
    let DemoArguments { url, token, only, music, directory } = arguments;
    let service = NamedService::new(url, token, directory.names_data_dir(&outer));
    let configuration = directory.configuration(outer)?;
    let settings = &configuration.settings;
    let samples = load_samples(&only)?;
    let base = service.url.map_or_else(|| service_address(&settings.data_dir, settings.listen), Ok)?;

    // Check the service before the token: with the wrong URL, the message about the service helps more.
    app::block_on(ensure_reachable(&base))?;
    let token = token_for(&base, service.token, &configuration)?;
    let api = ApiClient::new(&base, &token).map_err(anyhow::Error::from)?;
    app::block_on(async {
        ensure_admin(&api, &base).await?;
        demo(&api, &base, &samples, &music).await
    })?;
    Ok(())
}

/// Returns the address of the service that runs on the data directory, otherwise the listen address of the settings.
fn service_address(data_dir: &Path, listen: SocketAddr) -> anyhow::Result<String> {
    // A recorded address may belong to another service by now.
    if !DataDir::is_in_use(data_dir)
        .context("cannot determine whether a service runs on the data directory; name it with --url")?
    {
        return app::expected_local_url(listen);
    }
    let address = app::read_address_file(data_dir)?;
    address.map_or_else(|| app::expected_local_url(listen), Ok)
}

async fn demo(api: &ApiClient, base: &str, samples: &[SamplePublisher], music: &Path) -> anyhow::Result<()> {
    // Check the output file before doing any work.
    let music_file = media::create_music_file(music)?;

    let progress = DemoProgress::new(sample_totals(samples));
    let loader = SampleLoader { api, progress: &progress };
    let refusals: Result<Vec<_>, CallFailure> =
        stream::iter(samples.iter().map(|sample| loader.load_publisher(sample)))
            .buffer_unordered(PUBLISHER_CONCURRENCY)
            .try_collect()
            .await;
    progress.finish();

    let refusals: Vec<String> =
        refusals.context("the service stopped responding; run this command again to continue")?.concat();
    print(&format!("\nThe sample registry at {base}:\n{}", progress.counts())).context("cannot write to stdout")?;
    if !refusals.is_empty() {
        bail!("some of the samples could not be loaded:\n  {}", limit_refusals(refusals).join("\n  "));
    }

    print("\nGenerating a picture, a video and a piece of music …\n").context("cannot write to stdout")?;
    let mut results = media::DemoResults::new(base);
    let result = media::run_all_jobs(api, music_file, music, &mut results).await;
    print(&results.to_string()).context("cannot write to stdout")?;
    result?;
    print(&format!("\n{}", next_steps(base, &samples[0]))).context("cannot write to stdout")?;
    Ok(())
}

/// Keeps the first errors, followed by the number of the others.
fn limit_refusals(mut refusals: Vec<String>) -> Vec<String> {
    let omitted = refusals.len().saturating_sub(REFUSALS_SHOWN);
    refusals.truncate(REFUSALS_SHOWN);
    refusals.extend((omitted > 0).then(|| format!("and {omitted} more")));
    refusals
}

/// Checks that a service responds.
async fn ensure_reachable(base: &str) -> anyhow::Result<()> {
    let context = || {
        format!("no service answers at {base}; start one with `mediary` in another terminal, or name one with --url")
    };
    probe(base, "/health").await?.with_context(context)?;
    Ok(())
}

/// Checks that the token belongs to an administrator.
async fn ensure_admin(api: &ApiClient, base: &str) -> anyhow::Result<()> {
    let reply = api.get("/users").await.with_context(|| format!("the service at {base} stopped responding"))?;
    match reply.status {
        200 if reply.json()["isAdmin"] == true => Ok(()),
        200 => bail!("`mediary demo` needs the token of an administrator"),
        401 => bail!(
            "the service at {base} rejects this token: does it use another data directory or MEDIARY_ADMIN_TOKEN?"
        ),
        status => bail!("the service at {base} returned {status} for GET /users"),
    }
}

/// Counts the resources in the samples, as the totals of the progress.
fn sample_totals(samples: &[SamplePublisher]) -> ResourceCounts {
    let count = |total| ResourceCount { total, ..ResourceCount::default() };
    let nodes = || samples.iter().flat_map(|sample| &sample.nodes);
    let versions = || nodes().flat_map(|node| &node.versions);
    ResourceCounts {
        publishers: count(samples.len()),
        nodes: count(nodes().count()),
        versions: count(versions().count()),
        archives: count(versions().filter(|version| !version.is_pending()).count()),
    }
}

/// Formats next steps as lines for a POSIX shell.
fn next_steps(base: &str, sample: &SamplePublisher) -> String {
    let node = sample.nodes.first().map_or("", |node| &node.id);
    let lines = [
        ("the most downloaded nodes", "/nodes?limit=5&sort=downloads;desc".to_owned()),
        ("nodes for Linux, by rating", "/nodes?limit=5&supported_os=linux&sort=rating;desc".to_owned()),
        ("a search for two words", "/nodes/search?search=masks+hair".to_owned()),
        ("one node", format!("/nodes/{node}")),
        ("its versions", format!("/nodes/{node}/versions")),
        ("what a client installs", format!("/nodes/{node}/install")),
    ];
    let lines = lines.map(|(description, path)| format!("  # {description}\n  curl -s '{base}{path}'\n"));
    format!("Next steps, in the console at {base}/ or here:\n\n{}", lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_address_is_used_only_while_the_service_runs() {
        // Given a data directory whose service has recorded its address
        let directory = tempfile::tempdir().unwrap();
        let listen = "127.0.0.1:8080".parse().unwrap();
        std::fs::write(directory.path().join("address"), "http://127.0.0.1:9471\n").unwrap();
        let service = DataDir::open(directory.path()).unwrap();

        // Then that address is used while the service runs, and afterwards the configured one
        assert_eq!(service_address(directory.path(), listen).unwrap(), "http://127.0.0.1:9471");
        drop(service);
        assert_eq!(service_address(directory.path(), listen).unwrap(), "http://127.0.0.1:8080");
    }

    #[test]
    fn the_totals_cover_the_whole_sample() {
        let counts = sample_totals(&load_samples(&[]).unwrap());
        let all = [counts.publishers.total, counts.nodes.total, counts.versions.total, counts.archives.total];
        assert_eq!(all, [25, 200, 660, 659]);
    }
}
