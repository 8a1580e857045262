//! Source of the events: the data directory of a stopped service, or a running service.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::Value;

use crate::app::{self, files_of, read_address_file};
use crate::audit::Audit;
use crate::audit::redaction::ErasedUserScan;
use crate::audit::replay::ReplayedState;
use crate::audit::source::{EventSource, StoppedEventSource};
use crate::audit::subject::AuditSubject;
use crate::cli::token::{NamedService, read_error, token_for};
use crate::cli::{CliError, DirectoryFlags, SettingFlags, existing_data_dir};
use crate::config::{Configuration, Settings};
use crate::data_dir::{DataDir, DataDirError, is_directory};
use crate::domain::ids::{StreamKind, UserId};
use crate::environment::Environment;
use crate::http::request::as_of::render_state;
use crate::outbound::api_client::{ApiClient, ServiceResponse};
use crate::outbound::client::CallFailure;
use crate::pii::Keyring;
use crate::projections::node::view::Links;

#[derive(Debug, Args)]
pub(in crate::cli) struct AuditTargetArguments {
    /// URL of the service to query [default: `MEDIARY_URL` unless --data-dir is given, otherwise the data directory, or
    /// the service that runs on it]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Administrator token for that service [default: `MEDIARY_TOKEN`, otherwise `MEDIARY_ADMIN_TOKEN`; for the service
    /// of the data directory also the settings file or the file admin-token in that directory]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    #[command(flatten)]
    directory: DirectoryFlags,
}

/// Source of the events.
pub(super) enum AuditTarget {
    /// Journal in a data directory, which is locked during the query.
    Stopped { audit: Audit, data: DataDir },
    /// Running service.
    Running(ServiceClient),
}

/// Client of a running service.
pub(super) struct ServiceClient {
    api: ApiClient,
    pub(super) base: String,
}

impl AuditTarget {
    pub(super) fn open(arguments: AuditTargetArguments, outer: SettingFlags) -> Result<Self, CliError> {
        let AuditTargetArguments { url, token, directory } = arguments;
        let NamedService { url, token } = NamedService::new(url, token, directory.names_data_dir(&outer));
        let configuration = directory.configuration(outer)?;
        if let Some(base) = url {
            return Ok(Self::Running(ServiceClient::new(&base, token, &configuration)?));
        }

        let root = existing_data_dir(&configuration.settings)?;
        match DataDir::open_shared(root) {
            Ok(data) => Ok(Self::stopped(data, &configuration.settings)?),
            Err(DataDirError::InUse(_)) => {
                let base = read_address_file(root)?;
                let base = base.with_context(|| {
                    format!(
                        "{} is in use, but the address of its service is unknown: name the service with --url",
                        root.display()
                    )
                })?;
                Ok(Self::Running(ServiceClient::new(&base, token, &configuration)?))
            }
            Err(other) => Err(anyhow::Error::from(other).into()),
        }
    }

    fn stopped(data: DataDir, settings: &Settings) -> anyhow::Result<Self> {
        let log = data.path("log");
        let exists = is_directory(&log.join("journal")).map_err(|error| read_error(&log, &error))?;
        anyhow::ensure!(exists, "there is no event log in {}", data.root().display());

        let public_url = settings.public_url.clone().unwrap_or_else(|| format!("http://{}", settings.listen));
        let keyring = Keyring::open_with(&files_of(data.root(), &settings.cluster, &Environment::system())?);

        let source: Arc<dyn EventSource> = Arc::new(StoppedEventSource::open(&log)?);
        let scan = Arc::new(ErasedUserScan::new(Arc::clone(&source)));
        let user_scan = Arc::clone(&scan);
        let render = move |state: &ReplayedState, subject: &AuditSubject| {
            // Other kinds contain no personal data.
            if matches!(subject.kind(), StreamKind::User | StreamKind::Publisher) {
                user_scan.users()?.iter().for_each(|user| keyring.mark_erased(*user));
            }
            Ok(render_state(state, subject, &keyring))
        };

        let is_erased = move |user: UserId| Ok(scan.users()?.contains(&user));
        let audit = Audit::new(source, Links { public_url }, Arc::new(render), Arc::new(is_erased));
        Ok(Self::Stopped { audit, data })
    }
}

impl ServiceClient {
    pub(super) fn new(base: &str, token: Option<String>, configuration: &Configuration) -> anyhow::Result<Self> {
        let token = token_for(base, token, configuration)?;
        let api = ApiClient::new(base, &token)?;
        Ok(Self { api, base: base.trim_end_matches('/').to_owned() })
    }

    pub(super) fn api(&self) -> &ApiClient {
        &self.api
    }

    /// Sends a query. A 400 is a usage error, as an invalid query of a data directory is.
    pub(super) fn get(&self, path: &str) -> Result<Value, CliError> {
        let reply = app::block_on(self.api.get(path)).map_err(|failure| self.unreachable_error(&failure))?;
        if reply.status == 200 { Ok(reply.json()) } else { Err(self.response_error(&reply, path)) }
    }

    /// Returns the error for a missing response.
    pub(super) fn unreachable_error(&self, failure: &CallFailure) -> CliError {
        anyhow!("no service answers at {}: {failure}", self.base).into()
    }

    /// Returns the error for an error response to the query at `path`.
    pub(super) fn response_error(&self, reply: &ServiceResponse, path: &str) -> CliError {
        let body = reply.json();
        let detail = super::text::printable(body["detail"].as_str().unwrap_or("no reason given"));
        match reply.status {
            400 => CliError::Usage(with_option_names(&detail, path)),
            401 => anyhow!("the service at {} rejects this token: give another with --token", self.base).into(),
            403 => anyhow!("the service at {} requires the token of an administrator: give --token", self.base).into(),
            status => anyhow!("the service at {} answered {status}: {detail}", self.base).into(),
        }
    }
}

/// API parameters that have a command line argument.
const PARAMETERS: [&str; 8] = ["actor", "from", "position", "request", "stream", "time", "to", "type"];

/// Replaces API parameters in an error message (`/position`) with command line arguments (`WHEN`, `--stream`).
fn with_option_names(detail: &str, path: &str) -> String {
    let replace_parameter = |word: &str| {
        let pointer = word.strip_prefix('/').unwrap_or_default();
        let name = pointer.trim_end_matches([',', '.', ';', ':']);
        if !PARAMETERS.contains(&name) {
            return word.to_owned();
        }
        let option = match name {
            "position" | "time" => "WHEN".to_owned(),
            "from" | "to" if path.starts_with("/admin/diff") => name.to_uppercase(),
            _ => format!("--{name}"),
        };
        option + &pointer[name.len()..]
    };
    detail.split(' ').map(replace_parameter).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_name_the_command_line_arguments() {
        let diff = "/from is position 3, but must not be after /to (position 2)";
        assert_eq!(
            with_option_names(diff, "/admin/diff?from=3"),
            "FROM is position 3, but must not be after TO (position 2)"
        );
        assert_eq!(with_option_names("/position is beyond it", "/admin/as-of/node/a"), "WHEN is beyond it");
        assert_eq!(with_option_names("/to is /nothing", "/admin/events?to=3"), "--to is /nothing");
    }
}
