//! The engine of a cluster, chosen by the scheme of its URL.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use uuid::Uuid;

use super::StartError;
use crate::config::ClusterSettings;
use crate::events::shared::engine::{Engine, EngineOpenError};
use crate::events::shared::engine_check::EngineCheck;
use crate::events::shared::nats::{NatsEngine, NatsOptions};
use crate::events::shared::postgres::{PostgresEngine, PostgresOptions, is_postgres_url};

/// Pause between two attempts of a start to reach the engine.
const ENGINE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Opens the engine of the settings. Waits while its servers do not respond.
pub(super) fn open_engine(settings: &ClusterSettings, log_id: Uuid) -> Result<Arc<dyn Engine>, StartError> {
    loop {
        match open(settings, log_id) {
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
/// If the engine has a log of this id with events, or does not meet the requirements.
pub fn create_engine(settings: &ClusterSettings, log_id: Uuid) -> anyhow::Result<Arc<dyn Engine>> {
    match create(settings, log_id) {
        Ok(engine) => Ok(engine),
        Err(error) => match open(settings, log_id) {
            Ok(engine) if engine.last().is_ok_and(|last| last == 0) => Ok(engine),
            _ => Err(error.into()),
        },
    }
}

/// Opens the log in the engine of the settings, for a command that does not wait.
///
/// # Errors
/// If the servers do not respond, or do not meet the requirements.
pub fn connect_engine(settings: &ClusterSettings, log_id: Uuid) -> anyhow::Result<Arc<dyn Engine>> {
    Ok(open(settings, log_id)?)
}

/// Checks the servers of the settings and, if there is one already, the stored log.
///
/// # Errors
/// If the servers do not respond or do not accept the client.
pub fn check_engine(settings: &ClusterSettings, log_id: Option<Uuid>) -> anyhow::Result<Vec<EngineCheck>> {
    Ok(match EngineOptions::new(settings)? {
        EngineOptions::Nats(options) => NatsEngine::check(options, log_id)?,
        EngineOptions::Postgres(options) => PostgresEngine::check(*options, log_id)?,
    })
}

fn create(settings: &ClusterSettings, log_id: Uuid) -> Result<Arc<dyn Engine>, EngineOpenError> {
    Ok(match EngineOptions::new(settings)? {
        EngineOptions::Nats(options) => Arc::new(NatsEngine::create(options, log_id)?),
        EngineOptions::Postgres(options) => Arc::new(PostgresEngine::create(*options, log_id)?),
    })
}

fn open(settings: &ClusterSettings, log_id: Uuid) -> Result<Arc<dyn Engine>, EngineOpenError> {
    Ok(match EngineOptions::new(settings)? {
        EngineOptions::Nats(options) => Arc::new(NatsEngine::open(options, log_id)?),
        EngineOptions::Postgres(options) => Arc::new(PostgresEngine::open(*options, log_id)?),
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
