//! The engine of a cluster, chosen by the scheme of its URL.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use uuid::Uuid;

use super::StartError;
use crate::config::ClusterSettings;
use crate::events::shared::engine::{Engine, EngineOpenError};
use crate::events::shared::engine_check::EngineCheck;
use crate::events::shared::generation::LogGeneration;
use crate::events::shared::nats::{self, NatsEngine, NatsOptions};
use crate::events::shared::postgres::{self, PostgresEngine, PostgresOptions, is_postgres_url};

/// Opens the stream of a generation of a log.
pub type EngineOpener = Arc<dyn Fn(LogGeneration) -> Result<Arc<dyn Engine>, EngineOpenError> + Send + Sync>;

/// Pause between two attempts of a start to reach the engine.
const ENGINE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Opens the engine of the settings. Waits while its servers do not respond.
pub(super) fn open_engine(settings: &ClusterSettings, log: LogGeneration) -> Result<Arc<dyn Engine>, StartError> {
    loop {
        match open(settings, log) {
            Ok(engine) => return Ok(engine),
            Err(error @ EngineOpenError::Unreachable(_)) => {
                tracing::warn!(%error, "engine does not respond, waiting for it");
                thread::sleep(ENGINE_RETRY_DELAY);
            }
            Err(error) => return Err(StartError::part("the engine", &error)),
        }
    }
}

/// Creates the log in the engine of the settings; uses one that an interrupted attempt has left empty.
///
/// # Errors
/// If the engine has this generation of the log with events, or does not meet the requirements.
pub fn create_engine(settings: &ClusterSettings, log: LogGeneration) -> anyhow::Result<Arc<dyn Engine>> {
    match create(settings, log) {
        Ok(engine) => Ok(engine),
        Err(error) => match open(settings, log) {
            Ok(engine) if engine.last().is_ok_and(|last| last == 0) => Ok(engine),
            _ => Err(error.into()),
        },
    }
}

/// Opens the log in the engine of the settings, for a command that does not wait.
///
/// # Errors
/// If the servers do not respond, or do not meet the requirements.
pub fn connect_engine(settings: &ClusterSettings, log: LogGeneration) -> anyhow::Result<Arc<dyn Engine>> {
    Ok(open(settings, log)?)
}

/// Deletes a generation of a log from the engine of the settings, if it is there.
///
/// # Errors
/// If the servers do not respond, or do not allow it.
pub fn delete_engine(settings: &ClusterSettings, log: LogGeneration) -> anyhow::Result<()> {
    match EngineOptions::new(settings)? {
        EngineOptions::Nats(options) => NatsEngine::delete(options, log)?,
        EngineOptions::Postgres(options) => PostgresEngine::delete(*options, log)?,
    };
    Ok(())
}

/// Returns the generations of a log that the engine of the settings has.
///
/// # Errors
/// If the servers do not respond.
pub fn list_generations(settings: &ClusterSettings, log_id: Uuid) -> anyhow::Result<Vec<LogGeneration>> {
    Ok(match EngineOptions::new(settings)? {
        EngineOptions::Nats(options) => NatsEngine::list(options, log_id)?,
        EngineOptions::Postgres(options) => PostgresEngine::list(*options, log_id)?,
    })
}

/// Returns the command or statement with which an operator deletes a generation of a log from the engine of the settings.
#[must_use]
pub fn deletion_command(settings: &ClusterSettings, log: LogGeneration) -> String {
    if settings.engine.iter().any(|url| is_postgres_url(url)) {
        format!("DROP SCHEMA {} CASCADE", postgres::schema_of(log))
    } else {
        format!("nats stream rm {}", nats::stream_name(log))
    }
}

/// Checks the servers of the settings and, if there is one already, the stored log.
///
/// # Errors
/// If the servers do not respond or do not accept the client.
pub fn check_engine(settings: &ClusterSettings, log: Option<LogGeneration>) -> anyhow::Result<Vec<EngineCheck>> {
    Ok(match EngineOptions::new(settings)? {
        EngineOptions::Nats(options) => NatsEngine::check(options, log)?,
        EngineOptions::Postgres(options) => PostgresEngine::check(*options, log)?,
    })
}

fn create(settings: &ClusterSettings, log: LogGeneration) -> Result<Arc<dyn Engine>, EngineOpenError> {
    Ok(match EngineOptions::new(settings)? {
        EngineOptions::Nats(options) => Arc::new(NatsEngine::create(options, log)?),
        EngineOptions::Postgres(options) => Arc::new(PostgresEngine::create(*options, log)?),
    })
}

fn open(settings: &ClusterSettings, log: LogGeneration) -> Result<Arc<dyn Engine>, EngineOpenError> {
    Ok(match EngineOptions::new(settings)? {
        EngineOptions::Nats(options) => Arc::new(NatsEngine::open(options, log)?),
        EngineOptions::Postgres(options) => Arc::new(PostgresEngine::open(*options, log)?),
    })
}

/// Options of one of the engines.
enum EngineOptions {
    Nats(NatsOptions),
    Postgres(Box<PostgresOptions>),
}

impl EngineOptions {
    fn new(settings: &ClusterSettings) -> Result<Self, EngineOpenError> {
        let credentials = settings.credentials.clone();
        match &settings.engine[..] {
            [url] if is_postgres_url(url) => {
                let mut options = PostgresOptions::from_url(url).ok_or_else(|| {
                    EngineOpenError::Unsuitable("cluster.engine is not a valid PostgreSQL URL".to_owned())
                })?;
                options.password_file = credentials;
                Ok(Self::Postgres(Box::new(options)))
            }
            servers => {
                let options = NatsOptions::new(servers.to_vec());
                Ok(Self::Nats(NatsOptions { credentials, monitors: settings.monitor.clone(), ..options }))
            }
        }
    }
}
