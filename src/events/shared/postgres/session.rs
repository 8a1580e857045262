//! Connections to the server: each is checked before it is used, and replaced when it is lost.

use std::collections::HashMap;
use std::error::Error as _;
use std::fs;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Config, Error, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresOptions;
use super::suitability;
use crate::events::shared::engine::EngineOpenError;

/// Time for a connection to the only server, with the resolution of its name, which has no other limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a connection to one of several servers.
const CONNECT_TIMEOUT_OF_SEVERAL: Duration = Duration::from_secs(3);
/// Time without a response from the network after which both ends close a connection. The first probe is sent after a
/// third of it.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(15);
/// Settings of every connection. The server must neither cancel a group that waits for the standby, which would show
/// what a failover loses, nor fail one because another node is faster. Connections without groups set a limit.
const SETTINGS: &str = "SET statement_timeout = 0; SET idle_session_timeout = 0; \
     SET idle_in_transaction_session_timeout = 0; SET default_transaction_isolation = 'read committed'; \
     SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 2; \
     SET tcp_user_timeout = 15000";

/// Failure of a statement.
#[derive(Debug, thiserror::Error)]
pub enum PostgresFailure {
    /// There is no connection, so the server has not received it.
    #[error("no connection to PostgreSQL: {0}")]
    NotConnected(EngineOpenError),
    /// The server has refused it, and nothing was changed.
    #[error("PostgreSQL refuses: {reason}")]
    Refused { code: SqlState, reason: String },
    /// The server may have run it.
    #[error("{0}")]
    NoResponse(String),
}

impl PostgresFailure {
    fn from_error(error: &Error) -> Self {
        let reason = describe(error);
        match error.as_db_error().map(tokio_postgres::error::DbError::code) {
            // A transaction fails as a whole. After errors of these classes it may have been committed: lost connection,
            // intervention of an operator, system error, internal error.
            Some(code) if !["08", "57", "58", "XX"].iter().any(|class| code.code().starts_with(class)) => {
                Self::Refused { code: code.clone(), reason }
            }
            _ => Self::NoResponse(reason),
        }
    }

    /// Returns `true` if the server has no such table or schema.
    pub fn is_missing_table(&self) -> bool {
        let missing = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
        matches!(self, Self::Refused { code, .. } if missing.contains(code))
    }
}

/// Makes connections.
#[derive(Clone)]
pub struct PostgresConnector {
    pub options: Arc<PostgresOptions>,
    config: Config,
    /// The same for each server.
    servers: Arc<[Config]>,
    /// Index of the server that was connected last.
    last_server: Arc<AtomicUsize>,
    tls: MakeRustlsConnect,
    /// Number of lost connections.
    losses: Arc<AtomicU64>,
}

impl PostgresConnector {
    /// Reads the password file and the certificates that the machine trusts.
    pub fn new(options: PostgresOptions) -> Result<Self, EngineOpenError> {
        let mut config = options.config.clone();
        if let Some(path) = &options.password_file {
            let password = fs::read_to_string(path).map_err(|error| {
                let path = path.display();
                EngineOpenError::Unsuitable(format!(
                    "the credentials file {path} is not readable: {error}; it must contain the password of the PostgreSQL user"
                ))
            })?;
            config.password(password.trim_end_matches(['\r', '\n']));
        }
        config.application_name("mediary").connect_timeout(options.connect_timeout);
        config.tcp_user_timeout(NETWORK_TIMEOUT).keepalives_idle(NETWORK_TIMEOUT / 3);
        config.keepalives_interval(NETWORK_TIMEOUT / 3).keepalives_retries(2);
        let servers = servers_of(&config);

        let (tls, errors) = MakeRustlsConnect::with_native_certs().unwrap_or_else(|errors| {
            let none = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
            (MakeRustlsConnect::new(none), errors)
        });
        for error in errors {
            tracing::debug!(%error, "certificate of the machine not read");
        }
        let (last_server, losses) = Default::default();
        Ok(Self { options: Arc::new(options), config, servers: servers.into(), last_server, tls, losses })
    }

    /// Connects to the first server that accepts it and meets the requirements. Begins with the last one that did.
    pub async fn connect(&self) -> Result<PostgresSession, EngineOpenError> {
        self.connect_to_first(true).await
    }

    /// Connects to the first server that accepts it.
    pub async fn connect_unchecked(&self) -> Result<PostgresSession, EngineOpenError> {
        self.connect_to_first(false).await
    }

    async fn connect_to_first(&self, is_checked: bool) -> Result<PostgresSession, EngineOpenError> {
        let count = self.servers.len();
        let first = self.last_server.load(Ordering::Relaxed);
        let mut failures = Vec::new();
        for index in (first..count).chain(0..first) {
            match self.connect_to(&self.servers[index], is_checked).await {
                Ok(session) => {
                    self.last_server.store(index, Ordering::Relaxed);
                    return Ok(session);
                }
                Err(failure) => failures.push(failure),
            }
        }

        Err(combine(failures))
    }

    /// Connects to a server.
    async fn connect_to(&self, server: &Config, is_checked: bool) -> Result<PostgresSession, ServerFailure> {
        let host = hosts_of(server);
        let unreachable = |reason: &str| {
            ServerFailure::Open(EngineOpenError::Unreachable(format!(
                "no connection to PostgreSQL at {host}: {reason}; check that it runs and that its port is open"
            )))
        };
        let limit = if self.servers.len() > 1 { CONNECT_TIMEOUT_OF_SEVERAL } else { CONNECT_TIMEOUT };
        match timeout(limit, self.connect_and_set(server, is_checked)).await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(PostgresConnectError::Open(error))) => Err(ServerFailure::Open(error)),
            Ok(Err(PostgresConnectError::Client(error))) if is_read_only(&error) => {
                Err(ServerFailure::ReadOnly(format!("PostgreSQL at {host} accepts no writes")))
            }
            Ok(Err(PostgresConnectError::Client(error))) => Err(match self.remedy(&error) {
                Some(remedy) => ServerFailure::Open(EngineOpenError::Unsuitable(format!(
                    "PostgreSQL at {host} cannot be used: {}; {remedy}",
                    describe(&error)
                ))),
                None => unreachable(&describe(&error)),
            }),
            Err(_) => Err(unreachable(&format!("no response within {limit:?}"))),
        }
    }

    async fn connect_and_set(
        &self,
        server: &Config,
        is_checked: bool,
    ) -> Result<PostgresSession, PostgresConnectError> {
        let (client, mut connection) = server.connect(self.tls.clone()).await?;
        tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notice(notice)) => {
                        tracing::warn!(code = notice.code().code(), message = notice.message(), "postgres notice");
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(error = describe(&error), "postgres connection ended");
                        return;
                    }
                }
            }
        });
        let session = PostgresSession { client, statements: Mutex::default() };
        if is_checked {
            suitability::check_server(&session.client).await?;
        }
        session.client.batch_execute(SETTINGS).await?;
        Ok(session)
    }

    /// Returns the number of lost connections.
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    fn count_loss(&self) {
        self.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// Says what to change if the same connection would fail again.
    fn remedy(&self, error: &Error) -> Option<String> {
        // The client tells this kind of error only by its text.
        if error.to_string().contains("TLS") {
            return Some(
                "the certificate must be valid for the host name and issued by an authority that this machine trusts (or that \
                 SSL_CERT_FILE names); `sslmode=disable` in the URL turns TLS off"
                    .to_owned(),
            );
        }
        let code = error.code()?;
        let database = self.config.get_dbname().or_else(|| self.config.get_user()).unwrap_or("postgres");
        match code.code() {
            "28P01" | "28000" => {
                Some("correct the user in the URL, and the password in the credentials file or the URL".to_owned())
            }
            "3D000" => Some(format!("create the database: createdb {database}")),
            "42501" => Some(format!("the user needs the right to connect to the database {database}")),
            _ => None,
        }
    }
}

/// Reason why one of the servers is not used.
#[derive(Debug)]
enum ServerFailure {
    Open(EngineOpenError),
    /// The server is a standby, or its transactions are read-only by default.
    ReadOnly(String),
}

impl std::fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::ReadOnly(reason) => f.write_str(reason),
        }
    }
}

/// Combines the failures of all servers. Waiting helps unless the settings must be changed: a server that does not
/// answer may be the primary, a read-only one is its standby.
fn combine(failures: Vec<ServerFailure>) -> EngineOpenError {
    let reasons: Vec<String> = failures.iter().map(ServerFailure::to_string).collect();
    let mut unsuitable = None;
    for failure in failures {
        match failure {
            ServerFailure::Open(EngineOpenError::Unreachable(_)) => {
                return EngineOpenError::Unreachable(reasons.join("; "));
            }
            ServerFailure::Open(error) => unsuitable = unsuitable.or(Some(error)),
            ServerFailure::ReadOnly(_) => {}
        }
    }
    unsuitable.unwrap_or_else(|| EngineOpenError::Unreachable(reasons.join("; ")))
}

/// Returns `true` if the client has passed the server over because it accepts no writes, which it tells only by its text.
fn is_read_only(error: &Error) -> bool {
    describe(error).contains("does not allow writes")
}

/// Returns the options for each of the servers.
fn servers_of(config: &Config) -> Vec<Config> {
    let count = config.get_hosts().len().max(config.get_hostaddrs().len());
    if count == 1 {
        // There is no other server to prefer, and a read-only one is refused with the remedy.
        let mut server = config.clone();
        server.target_session_attrs(TargetSessionAttrs::Any);
        return vec![server];
    }

    let ports = config.get_ports();
    let server = |index: usize| {
        let mut server = Config::new();
        server.target_session_attrs(TargetSessionAttrs::ReadWrite);
        server
            .application_name("mediary")
            .ssl_mode(config.get_ssl_mode())
            .ssl_negotiation(config.get_ssl_negotiation());
        server.channel_binding(config.get_channel_binding());
        server.port(ports.get(index).or(ports.first()).copied().unwrap_or(5432));
        match config.get_hosts().get(index) {
            Some(Host::Tcp(name)) => _ = server.host(name),
            Some(Host::Unix(path)) => _ = server.host_path(path),
            None => {}
        }
        if let Some(address) = config.get_hostaddrs().get(index) {
            server.hostaddr(*address);
        }

        config.get_user().into_iter().for_each(|user| _ = server.user(user));
        config.get_password().into_iter().for_each(|password| _ = server.password(password));
        config.get_dbname().into_iter().for_each(|name| _ = server.dbname(name));
        config.get_options().into_iter().for_each(|options| _ = server.options(options));
        config.get_connect_timeout().into_iter().for_each(|limit| _ = server.connect_timeout(*limit));
        config.get_tcp_user_timeout().into_iter().for_each(|limit| _ = server.tcp_user_timeout(*limit));
        server.keepalives(config.get_keepalives()).keepalives_idle(config.get_keepalives_idle());
        config.get_keepalives_interval().into_iter().for_each(|interval| _ = server.keepalives_interval(interval));
        config.get_keepalives_retries().into_iter().for_each(|retries| _ = server.keepalives_retries(retries));
        server
    };
    (0..count).map(server).collect()
}

/// Returns the servers of options, without user and password.
fn hosts_of(config: &Config) -> String {
    let ports = config.get_ports();
    let host = |(index, host): (usize, &Host)| {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    };
    config.get_hosts().iter().enumerate().map(host).collect::<Vec<_>>().join(", ")
}

/// Failure of a connection.
pub enum PostgresConnectError {
    Client(Error),
    Open(EngineOpenError),
}

impl From<Error> for PostgresConnectError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<EngineOpenError> for PostgresConnectError {
    fn from(error: EngineOpenError) -> Self {
        Self::Open(error)
    }
}

/// A connection that was checked.
pub struct PostgresSession {
    pub client: Client,
    statements: Mutex<HashMap<String, Statement>>,
}

impl PostgresSession {
    /// Runs a statement. On failure or after the time limit, it may still be run.
    pub async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
        limit: Duration,
    ) -> Result<Vec<Row>, PostgresFailure> {
        let queried = timeout(limit, async {
            let prepared = self.statements.lock().get(sql).cloned();
            let statement = if let Some(statement) = prepared {
                statement
            } else {
                let statement = self.client.prepare(sql).await?;
                self.statements.lock().insert(sql.to_owned(), statement.clone());
                statement
            };
            self.client.query(&statement, parameters).await
        });
        match queried.await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(PostgresFailure::from_error(&error)),
            Err(_) => Err(PostgresFailure::NoResponse(format!("no response within {limit:?}"))),
        }
    }

    /// Runs statements without parameters. After the time limit, they may still be run.
    pub async fn run(&self, sql: &str, limit: Duration) -> Result<(), PostgresFailure> {
        let run = timeout(limit, self.client.batch_execute(sql)).await;
        let run = run.map_err(|_| PostgresFailure::NoResponse(format!("no response within {limit:?}")))?;
        run.map_err(|error| PostgresFailure::from_error(&error))
    }
}

/// A connection that is made when it is needed, and again after a failure.
pub struct PostgresLink {
    connector: PostgresConnector,
    /// Settings of this connection, beside those of all.
    settings: String,
    session: AsyncMutex<Option<Arc<PostgresSession>>>,
    /// Last reason why there was no connection.
    complaint: Mutex<Option<String>>,
}

impl PostgresLink {
    pub fn new(connector: PostgresConnector, settings: String) -> Self {
        Self { connector, settings, session: AsyncMutex::default(), complaint: Mutex::default() }
    }

    /// Returns the connection.
    pub async fn session(&self) -> Result<Arc<PostgresSession>, PostgresFailure> {
        let mut current = self.session.lock().await;
        if let Some(session) = current.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        if current.take().is_some() {
            self.connector.count_loss();
        }
        let session = self.connect().await.inspect_err(|error| self.complain(error))?;
        *self.complaint.lock() = None;
        Ok(Arc::clone(current.insert(Arc::new(session))))
    }

    async fn connect(&self) -> Result<PostgresSession, PostgresFailure> {
        let session = self.connector.connect().await.map_err(PostgresFailure::NotConnected)?;
        let set = session.run(&self.settings, self.connector.options.request_timeout).await;
        set.map_err(|failure| PostgresFailure::NotConnected(EngineOpenError::Unreachable(failure.to_string())))?;
        Ok(session)
    }

    /// Logs a reason once, not for every attempt.
    fn complain(&self, failure: &PostgresFailure) {
        let reason = failure.to_string();
        let mut complaint = self.complaint.lock();
        if complaint.as_ref() != Some(&reason) {
            tracing::warn!(reason, "postgres connection lost");
            *complaint = Some(reason);
        }
    }

    /// Runs a statement. The next one uses another connection if this one has given no response.
    pub async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
        limit: Duration,
    ) -> Result<Vec<Row>, PostgresFailure> {
        let session = self.session().await?;
        self.query_on(&session, sql, parameters, limit).await
    }

    /// Runs a statement on a connection of this link.
    pub async fn query_on(
        &self,
        session: &Arc<PostgresSession>,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
        limit: Duration,
    ) -> Result<Vec<Row>, PostgresFailure> {
        let queried = session.query(sql, parameters, limit).await;
        let is_of_no_use = match &queried {
            Err(PostgresFailure::NoResponse(_)) => true,
            // The former primary, as a standby or closed to writes.
            Err(PostgresFailure::Refused { code, .. }) => *code == SqlState::READ_ONLY_SQL_TRANSACTION,
            _ => false,
        };
        if is_of_no_use {
            self.discard(session).await;
        }
        queried
    }

    /// Gives a connection up.
    pub async fn discard(&self, session: &Arc<PostgresSession>) {
        let mut current = self.session.lock().await;
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *current = None;
            self.connector.count_loss();
        }
    }
}

/// Describes an error with its causes. The client names only the kind.
pub fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = if text == "db error" { error.to_string() } else { format!("{text}: {error}") };
        cause = error.source();
    }
    text
}
