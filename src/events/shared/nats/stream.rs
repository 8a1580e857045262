//! The stream of a log.

use std::time::Duration;

use async_nats::datetime::DateTime;
use async_nats::jetstream::stream::{Config, DeleteStatus, DiscardPolicy, Info, RetentionPolicy, StorageType};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::NatsOptions;
use super::api::{self, NatsApiError};
use super::connection::NatsConnection;
use super::suitability;
use crate::events::shared::engine::EngineOpenError;
use crate::events::shared::engine_check::EngineCheck;
use crate::events::shared::generation::LogGeneration;

/// Time for the servers to make or delete a stream.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reason to connect to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamUse {
    Create,
    Open,
}

/// The stream of a log, as it was when it was opened. Cheap to clone.
#[derive(Clone)]
pub struct NatsStream {
    pub connection: NatsConnection,
    pub name: String,
    pub subject: String,
    /// Time when the stream was made: a stream of the same name with another time is another stream.
    pub created: DateTime,
    /// Number of servers that store the stream.
    pub replicas: usize,
}

const NAME_PREFIX: &str = "MDY_";

/// Returns the name of the stream of a log.
#[must_use]
pub fn stream_name(log: LogGeneration) -> String {
    format!("{NAME_PREFIX}{}", log.name())
}

/// A part of the names of all streams.
#[derive(Deserialize)]
struct StreamNamesPage {
    total: usize,
    /// Absent or `null` without a stream.
    streams: Option<Vec<String>>,
}

/// Names of the stream of a log.
struct StreamNames {
    stream: String,
    subject: String,
}

impl StreamNames {
    fn new(log: LogGeneration) -> Self {
        Self { stream: stream_name(log), subject: format!("mdy.{}", log.name()) }
    }

    /// Asks for the state of the stream.
    async fn find(&self, connection: &NatsConnection, log: LogGeneration) -> Result<Info, EngineOpenError> {
        let name = &self.stream;
        info(connection, name).await.map_err(|error| match error {
            error if error.is_stream_not_found() => EngineOpenError::Missing(format!(
                "the NATS servers have no stream {name}, the one of {log}; check that the URLs and the account are those \
                 of the cluster"
            )),
            error => unanswered(name, &error),
        })
    }

    fn opened(self, connection: NatsConnection, info: &Info) -> NatsStream {
        let Self { stream: name, subject } = self;
        NatsStream { connection, name, subject, created: info.created, replicas: info.config.num_replicas }
    }
}

impl NatsStream {
    /// Makes the stream of a log.
    pub async fn create(
        connection: NatsConnection,
        options: &NatsOptions,
        log: LogGeneration,
    ) -> Result<Self, EngineOpenError> {
        let names = StreamNames::new(log);
        let name = &names.stream;
        match info(&connection, name).await {
            Ok(_) => {
                return Err(EngineOpenError::Unsuitable(format!(
                    "stream {name} exists, but {log} needs a new one: a cluster with this log may be using it, to which a \
                     restored backup of a node would be added"
                )));
            }
            Err(error) if error.is_stream_not_found() => {}
            Err(error) => return Err(unanswered(name, &error)),
        }

        let config = config(&names, log, options.replicas);
        let limit = CHANGE_TIMEOUT.max(options.request_timeout);
        let created = api::request::<Info>(&connection, &format!("STREAM.CREATE.{name}"), &config, limit).await;
        let info = created.map_err(|error| match error {
            NatsApiError::Refused(error) => EngineOpenError::Unsuitable(format!(
                "the NATS servers do not make stream {name} with {} replicas: {error}",
                options.replicas
            )),
            error @ NatsApiError::Unanswered(_) => unanswered(name, &error),
        })?;
        suitability::check_stream(&info, &names.subject, options)?;
        Ok(names.opened(connection, &info))
    }

    /// Opens and checks the stream of a log.
    pub async fn open(
        connection: NatsConnection,
        options: &NatsOptions,
        log: LogGeneration,
    ) -> Result<Self, EngineOpenError> {
        let names = StreamNames::new(log);
        let info = names.find(&connection, log).await?;
        suitability::check_stream(&info, &names.subject, options)?;
        Ok(names.opened(connection, &info))
    }

    /// Checks the stream of a log.
    pub async fn checks(
        connection: &NatsConnection,
        options: &NatsOptions,
        log: LogGeneration,
    ) -> Result<Vec<EngineCheck>, EngineOpenError> {
        let names = StreamNames::new(log);
        let info = names.find(connection, log).await?;
        Ok(suitability::stream_checks(&info, &names.subject, options))
    }

    /// Deletes the stream of a log. Returns `false` if there is none.
    pub async fn delete(connection: &NatsConnection, log: LogGeneration) -> Result<bool, EngineOpenError> {
        let name = stream_name(log);
        let subject = format!("STREAM.DELETE.{name}");
        let limit = CHANGE_TIMEOUT.max(connection.request_timeout);
        match api::request::<DeleteStatus>(connection, &subject, &json!({}), limit).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_stream_not_found() => Ok(false),
            Err(NatsApiError::Refused(error)) => {
                Err(EngineOpenError::Unsuitable(format!("the NATS servers do not delete stream {name}: {error}")))
            }
            Err(error) => Err(unanswered(&name, &error)),
        }
    }

    /// Returns the generations of a log that have a stream.
    pub async fn list(connection: &NatsConnection, log_id: Uuid) -> Result<Vec<LogGeneration>, EngineOpenError> {
        let mut generations = Vec::new();
        let mut offset = 0;
        loop {
            let request = json!({ "offset": offset });
            let page =
                api::request::<StreamNamesPage>(connection, "STREAM.NAMES", &request, connection.request_timeout);
            let page = page.await.map_err(|error| {
                EngineOpenError::Unreachable(format!("the NATS servers do not list their streams: {error}"))
            })?;

            let names = page.streams.unwrap_or_default();
            let generation = |name: &String| LogGeneration::parse_name(log_id, name.strip_prefix(NAME_PREFIX)?);
            generations.extend(names.iter().filter_map(generation));
            offset += names.len();
            if names.is_empty() || offset >= page.total {
                return Ok(generations);
            }
        }
    }

    /// Asks the leader for the state of the stream.
    pub async fn info(&self) -> Result<Info, NatsApiError> {
        info(&self.connection, &self.name).await
    }
}

async fn info(connection: &NatsConnection, name: &str) -> Result<Info, NatsApiError> {
    api::request(connection, &format!("STREAM.INFO.{name}"), &json!({}), connection.request_timeout).await
}

fn unanswered(name: &str, error: &NatsApiError) -> EngineOpenError {
    EngineOpenError::Unreachable(format!(
        "stream {name}: {error}; check that JetStream is enabled and that a majority of the servers runs"
    ))
}

fn config(names: &StreamNames, log: LogGeneration, replicas: usize) -> Config {
    Config {
        name: names.stream.clone(),
        description: Some(format!("event {log}")),
        subjects: vec![names.subject.clone()],
        storage: StorageType::File,
        num_replicas: replicas,
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        max_messages: -1,
        max_messages_per_subject: -1,
        max_bytes: -1,
        max_message_size: -1,
        max_consumers: -1,
        deny_delete: true,
        deny_purge: true,
        ..Config::default()
    }
}
