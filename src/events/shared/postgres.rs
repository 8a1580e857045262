//! Engine of a shared log on PostgreSQL: a table of groups, and a row with the number of the last one.
//!
//! The client runs on a thread of its own, and calls of the engine wait for it. Only this module names the client.
//!
//! | Promise of the engine | Kept by |
//! |---|---|
//! | durable | `synchronous_commit`, and a synchronous standby if there is one |
//! | ordered | one statement raises the last number and inserts the group: its row lock makes the order of commits that of the numbers |
//! | alive | a response from a server that is not in recovery; to promote a standby, stop the former primary first |
//!
//! Each node has three connections, so that a group that waits for the standby delays no reads and no beats.

mod announcements;
mod follower;
mod schema;
mod session;
mod store;
mod suitability;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use uuid::Uuid;

use super::engine::{
    Engine, EngineFault, EngineIncidents, EngineOpenError, EngineSignal, EngineUnreachable, SendResult,
};
use super::engine_check::EngineCheck;
use super::engine_events;
use super::generation::LogGeneration;
use crate::client_thread::ClientThread;
pub use schema::schema_of;
use session::PostgresConnector;
use store::PostgresStore;

/// Options of the connections.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Parsed URL.
    config: tokio_postgres::Config,
    /// File with the password, which replaces that of the URL.
    pub password_file: Option<PathBuf>,
    /// Time for one server to accept a connection.
    pub connect_timeout: Duration,
    /// Time for the server to respond to a query.
    pub request_timeout: Duration,
    /// Time for the server to store a group.
    pub ack_timeout: Duration,
}

impl PostgresOptions {
    /// Creates options with defaults; `None` if the URL is not valid. The error of the client could quote a password.
    #[must_use]
    pub fn from_url(url: &str) -> Option<Self> {
        if !is_postgres_url(url) {
            return None;
        }
        // The client always checks certificates.
        let url = url.replace("sslmode=verify-full", "sslmode=require");
        let config: tokio_postgres::Config = url.parse().ok()?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return None;
        }
        Some(Self {
            config,
            password_file: None,
            connect_timeout: Duration::from_millis(1500),
            request_timeout: Duration::from_secs(2),
            ack_timeout: Duration::from_secs(2),
        })
    }
}

/// Returns `true` if the URL has the scheme of this engine.
#[must_use]
pub fn is_postgres_url(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// Connections to the tables of a log. Dropping it ends its thread.
pub struct PostgresEngine {
    store: PostgresStore,
    thread: ClientThread,
}

impl PostgresEngine {
    /// Creates the tables of a log.
    ///
    /// # Errors
    /// If they exist, or the server does not answer or does not meet the requirements.
    pub fn create(options: PostgresOptions, log: impl Into<LogGeneration>) -> Result<Self, EngineOpenError> {
        let log = log.into();
        Self::start(options, move |connector| PostgresStore::create(connector, log))
    }

    /// Opens the tables of a log.
    ///
    /// # Errors
    /// If there are none, or the server does not answer or does not meet the requirements.
    pub fn open(options: PostgresOptions, log: impl Into<LogGeneration>) -> Result<Self, EngineOpenError> {
        let log = log.into();
        Self::start(options, move |connector| PostgresStore::open(connector, log))
    }

    fn start<F>(options: PostgresOptions, open: impl FnOnce(PostgresConnector) -> F) -> Result<Self, EngineOpenError>
    where
        F: Future<Output = Result<PostgresStore, EngineOpenError>> + Send + 'static,
    {
        let connector = PostgresConnector::new(options)?;
        let thread = Self::start_thread()?;
        let store = thread.run(open(connector)).ok_or_else(client_ended)??;
        Ok(Self { store, thread })
    }

    /// Checks the server and, if there is one already, the tables of a log.
    ///
    /// # Errors
    /// If the server does not answer or does not accept the client.
    pub fn check(options: PostgresOptions, log: Option<LogGeneration>) -> Result<Vec<EngineCheck>, EngineOpenError> {
        let connector = PostgresConnector::new(options)?;
        Self::start_thread()?.run(PostgresStore::check(connector, log)).ok_or_else(client_ended)?
    }

    /// Deletes the tables of a log. Returns `false` if there are none.
    ///
    /// # Errors
    /// If the server does not answer or does not allow it.
    pub fn delete(options: PostgresOptions, log: LogGeneration) -> Result<bool, EngineOpenError> {
        let connector = PostgresConnector::new(options)?;
        Self::start_thread()?.run(PostgresStore::delete(connector, log)).ok_or_else(client_ended)?
    }

    /// Returns the generations of a log that have tables.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn list(options: PostgresOptions, log_id: Uuid) -> Result<Vec<LogGeneration>, EngineOpenError> {
        let connector = PostgresConnector::new(options)?;
        Self::start_thread()?.run(PostgresStore::list(connector, log_id)).ok_or_else(client_ended)?
    }

    fn start_thread() -> Result<ClientThread, EngineOpenError> {
        ClientThread::start("postgres-client")
            .map_err(|error| EngineOpenError::Unreachable(format!("the PostgreSQL client does not start: {error}")))
    }
}

impl Engine for PostgresEngine {
    fn send(&self, group: &[u8]) -> SendResult {
        let store = self.store.clone();
        let group = group.to_vec();
        let sent = self.thread.run(async move { store.send(&group).await });
        sent.unwrap_or_else(|| SendResult::Unknown { reason: CLIENT_ENDED.to_owned() })
    }

    fn follow(&self, after: u64, each: &mut dyn FnMut(EngineSignal) -> ControlFlow<()>) -> Result<(), EngineFault> {
        let events = follower::start(&self.thread, self.store.clone(), after);
        engine_events::forward_signals(events, each)
            .unwrap_or_else(|| Err(EngineFault::Unsuitable(CLIENT_ENDED.to_owned())))
    }

    fn last(&self) -> Result<u64, EngineUnreachable> {
        let store = self.store.clone();
        let last = self.thread.run(async move { store.last().await });
        last.unwrap_or_else(|| Err(EngineUnreachable(CLIENT_ENDED.to_owned())))
    }

    fn incidents(&self) -> EngineIncidents {
        EngineIncidents { connections_lost: self.store.losses(), ..EngineIncidents::default() }
    }

    fn announce(&self, message: &[u8]) {
        self.thread.spawn(announcements::announce(self.store.clone(), message.to_vec()));
    }

    fn listen(&self, each: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>) {
        let messages = announcements::listen(&self.thread, self.store.clone());
        engine_events::forward_messages(messages, each);
    }
}

/// A task of the client has panicked, or its thread has ended.
const CLIENT_ENDED: &str = "the PostgreSQL client has ended";

fn client_ended() -> EngineOpenError {
    EngineOpenError::Unreachable(CLIENT_ENDED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_may_name_several_servers_and_check_certificates() {
        for url in [
            "postgres://mediary@db:5433/mediary",
            "postgresql://a:5432,b:5432/log?sslmode=require",
            "postgres://u:p@db/log?sslmode=verify-full",
            "postgres:///log?host=/var/run/postgresql",
        ] {
            assert!(PostgresOptions::from_url(url).is_some(), "{url}");
        }
        for url in ["nats://db:4222", "postgres:///log", "postgres://db:port/log", "postgres://db/log?sslmode=maybe"] {
            assert!(PostgresOptions::from_url(url).is_none(), "{url}");
        }
    }
}
