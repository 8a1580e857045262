//! Source of the events: the data directory of a stopped service, or a running service.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::Value;

use crate::app::{self, kept_address};
use crate::audit::Audit;
use crate::audit::erased::Scan;
use crate::audit::fold::Folded;
use crate::audit::source::{Source, Stopped};
use crate::audit::thing::Thing;
use crate::cli::token::{token_for, unreadable};
use crate::cli::{DirectoryFlags, Failure, SettingFlags};
use crate::config::{Configuration, Settings};
use crate::data_dir::{DataDir, DataDirError, is_directory};
use crate::domain::ids::{StreamKind, UserId};
use crate::http::as_of::state_of;
use crate::outbound::api::{Api, Reply};
use crate::outbound::client::CallFailure;
use crate::personal::Keyring;
use crate::projections::node::view::Links;

#[derive(Debug, Args)]
pub(in crate::cli) struct PlaceArguments {
    /// URL of the service to query [default: the data directory, or the service that runs on it]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Administrator token for that service [default: `MEDIARY_ADMIN_TOKEN`; for the service of the data directory also
    /// the settings file or the file admin-token in that directory]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    #[command(flatten)]
    directory: DirectoryFlags,
}

/// Source of the events.
pub(super) enum Place {
    /// Journal in a data directory, which is locked during the query.
    Stopped { audit: Audit, data: DataDir },
    /// Running service.
    Running(Service),
}

/// Client of a running service.
pub(super) struct Service {
    api: Api,
    pub(super) base: String,
}

impl Place {
    pub(super) fn open(arguments: PlaceArguments, outer: SettingFlags) -> Result<Self, Failure> {
        let PlaceArguments { url, token, directory } = arguments;
        let configuration = directory.configuration(outer)?;
        if let Some(base) = url {
            return Ok(Self::Running(Service::new(&base, token, &configuration)?));
        }
        let root = &configuration.settings.data_dir;
        if !is_directory(root).map_err(|error| unreadable(root, &error))? {
            return Err(anyhow!("there is no data directory at {}: name one with --data-dir", root.display()).into());
        }
        match DataDir::hold(root) {
            Ok(data) => Ok(Self::stopped(data, &configuration.settings)?),
            Err(DataDirError::InUse(_)) => {
                let base = kept_address(root)?;
                let base = base.with_context(|| {
                    format!(
                        "{} is in use, but the address of its service is unknown: name the service with --url",
                        root.display()
                    )
                })?;
                Ok(Self::Running(Service::new(&base, token, &configuration)?))
            }
            Err(other) => Err(anyhow::Error::from(other).into()),
        }
    }

    fn stopped(data: DataDir, settings: &Settings) -> anyhow::Result<Self> {
        let log = data.path("log");
        let is_there = is_directory(&log.join("journal")).map_err(|error| unreadable(&log, &error))?;
        anyhow::ensure!(is_there, "there is no event log in {}", data.root().display());
        let public_url = settings.public_url.clone().unwrap_or_else(|| format!("http://{}", settings.listen));
        let personal = Keyring::open(data.root());
        let source: Arc<dyn Source> = Arc::new(Stopped::open(&log)?);
        let scan = Arc::new(Scan::new(Arc::clone(&source)));
        let erased = Arc::clone(&scan);
        let shown = move |folded: &Folded, thing: &Thing| {
            // Other kinds contain no personal data.
            if matches!(thing.kind(), StreamKind::User | StreamKind::Publisher) {
                erased.users()?.iter().for_each(|user| personal.mark_erased(*user));
            }
            Ok(state_of(folded, thing, &personal))
        };
        let erased = move |user: UserId| Ok(scan.users()?.contains(&user));
        let audit = Audit::new(source, Links { public_url }, Arc::new(shown), Arc::new(erased));
        Ok(Self::Stopped { audit, data })
    }
}

impl Service {
    pub(super) fn new(base: &str, token: Option<String>, configuration: &Configuration) -> anyhow::Result<Self> {
        let token = token_for(base, token, configuration)?;
        let api = Api::new(base, &token)?;
        Ok(Self { api, base: base.trim_end_matches('/').to_owned() })
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    /// Sends a query. A 400 is wrong usage, as it is for a data directory.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        let reply = app::block_on(self.api.get(path)).map_err(|failure| self.silent(&failure))?;
        if reply.status == 200 { Ok(reply.json()) } else { Err(self.refused(&reply, path)) }
    }

    pub(super) fn silent(&self, failure: &CallFailure) -> Failure {
        anyhow!("no service answers at {}: {failure}", self.base).into()
    }

    /// Failure for an error response to the query at `path`.
    pub(super) fn refused(&self, reply: &Reply, path: &str) -> Failure {
        let told = reply.json();
        let detail = super::text::printable(told["detail"].as_str().unwrap_or("it does not say why"));
        match reply.status {
            400 => Failure::Usage(by_options(&detail, path)),
            401 => anyhow!("the service at {} does not know this token: give --token, or set MEDIARY_ADMIN_TOKEN as the service has it", self.base).into(),
            403 => anyhow!("the service at {} answers only administrators: give --token", self.base).into(),
            status => anyhow!("the service at {} answered {status}: {detail}", self.base).into(),
        }
    }
}

/// API parameters that have a command line argument.
const PARAMETERS: [&str; 8] = ["actor", "from", "position", "request", "stream", "time", "to", "type"];

/// Replaces API parameters in an error message (`/position`) with command line arguments (`WHEN`, `--stream`).
fn by_options(detail: &str, path: &str) -> String {
    let word = |word: &str| {
        let named = word.strip_prefix('/').unwrap_or_default();
        let name = named.trim_end_matches([',', '.', ';', ':']);
        if !PARAMETERS.contains(&name) {
            return word.to_owned();
        }
        let option = match name {
            "position" | "time" => "WHEN".to_owned(),
            "from" | "to" if path.starts_with("/admin/diff") => name.to_uppercase(),
            _ => format!("--{name}"),
        };
        option + &named[name.len()..]
    };
    detail.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_stands_on_the_command_line() {
        let diff = "/from is position 3, and must not be after /to, which is position 2";
        assert_eq!(
            by_options(diff, "/admin/diff?from=3"),
            "FROM is position 3, and must not be after TO, which is position 2"
        );
        assert_eq!(by_options("/position is beyond it", "/admin/as-of/node/a"), "WHEN is beyond it");
        assert_eq!(by_options("/to is /nothing", "/admin/events?to=3"), "--to is /nothing");
    }
}
