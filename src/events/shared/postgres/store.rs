//! Tables of a log in PostgreSQL: sends and reads groups, and reads the number of the last one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::announcements::RESPONSE_TIMEOUT;
use super::schema;
use super::session::{PostgresConnector, PostgresFailure, PostgresLink, PostgresSession, describe};
use super::suitability;
use crate::events::shared::engine::{EngineOpenError, EngineUnreachable, SendResult};
use crate::events::shared::engine_check::{CheckStatus, EngineCheck};
use crate::events::shared::generation::LogGeneration;

/// Maximum number of groups that one query returns.
pub const READ_MAX: i64 = 32;

/// Access to the tables of a log. Cheap to clone.
#[derive(Clone)]
pub struct PostgresStore(Arc<PostgresStoreState>);

struct PostgresStoreState {
    connector: PostgresConnector,
    schema: String,
    /// Id of this set of tables; tables that were dropped and created again have another one.
    incarnation: Uuid,
    statements: StoreStatements,
    writer: PostgresLink,
    reader: PostgresLink,
    announcer: PostgresLink,
    /// Number of the last group that this client has stored.
    stored: watch::Sender<u64>,
}

struct StoreStatements {
    send: String,
    read: String,
    head: String,
}

/// End of the log in the tables.
pub struct StoreHead {
    /// Number of the last group.
    pub last: u64,
    /// `false` if the tables were dropped and created again since they were opened.
    pub is_same_store: bool,
}

impl PostgresStore {
    /// Creates the tables of a log.
    pub async fn create(connector: PostgresConnector, log: LogGeneration) -> Result<Self, EngineOpenError> {
        let session = connector.connect().await?;
        schema::create(&session, log, connector.options.request_timeout).await?;
        drop(session);
        Self::open(connector, log).await
    }

    /// Opens and checks the tables of a log.
    pub async fn open(connector: PostgresConnector, log: LogGeneration) -> Result<Self, EngineOpenError> {
        let session = connector.connect().await?;
        let incarnation = schema::check(&session, log, connector.options.request_timeout).await?;
        warn_of_risks(&session).await;

        let schema = schema::schema_of(log);
        let statements = StoreStatements {
            // The row lock is held until the commit, so groups are committed in the order of their numbers.
            send: format!(
                "WITH raised AS (UPDATE {schema}.head SET seq = seq + 1 WHERE incarnation = $2 RETURNING seq) \
                 INSERT INTO {schema}.groups (seq, body) SELECT seq, $1 FROM raised RETURNING seq"
            ),
            read: format!("SELECT seq, body FROM {schema}.groups WHERE seq > $1 ORDER BY seq LIMIT $2"),
            head: format!(
                "SELECT seq, incarnation, current_setting('transaction_read_only') = 'on' FROM {schema}.head"
            ),
        };
        let link = |settings: String| PostgresLink::new(connector.clone(), settings);
        // While a group waits for the standby, later ones wait for its row lock. They fail before their sender drops
        // the connection, so that they do not use up the connections of the server.
        let lock_timeout = connector.options.ack_timeout.mul_f64(0.75).as_millis();
        // The server cancels other statements before the client drops their connection: it would not notice that, and
        // continue them.
        let statement_timeout =
            |limit: Duration| format!("SET statement_timeout = {}", limit.mul_f64(0.75).as_millis());

        let state = PostgresStoreState {
            writer: link(format!("SET lock_timeout = {lock_timeout}")),
            reader: link(statement_timeout(connector.options.request_timeout)),
            announcer: link(format!("{}; SET synchronous_commit = off", statement_timeout(RESPONSE_TIMEOUT))),
            connector,
            schema,
            incarnation,
            statements,
            stored: watch::Sender::new(0),
        };
        Ok(Self(Arc::new(state)))
    }

    /// Checks the server and, if `log` is `Some`, the tables of that log.
    pub async fn check(
        connector: PostgresConnector,
        log: Option<LogGeneration>,
    ) -> Result<Vec<EngineCheck>, EngineOpenError> {
        let session = connector.connect_unchecked().await?;
        let mut checks = suitability::server_checks(&session.client).await.map_err(|error| {
            EngineOpenError::Unreachable(format!("the settings of PostgreSQL cannot be read: {}", describe(&error)))
        })?;

        if let Some(log) = log {
            let schema = schema::schema_of(log);
            checks.push(match schema::check(&session, log, connector.options.request_timeout).await {
                Ok(_) => EngineCheck::met(format!("schema {schema}"), "it has every group from 1 on"),
                Err(error @ EngineOpenError::Unreachable(_)) => return Err(error),
                Err(error) => EngineCheck::failed(format!("schema {schema}"), error.to_string()),
            });
        }
        Ok(checks)
    }

    /// Deletes the tables of a log. Returns `false` if there are none.
    pub async fn delete(connector: PostgresConnector, log: LogGeneration) -> Result<bool, EngineOpenError> {
        let session = connector.connect().await?;
        schema::delete(&session, log, connector.options.request_timeout).await
    }

    /// Returns the generations of a log that have tables.
    pub async fn list(connector: PostgresConnector, log_id: Uuid) -> Result<Vec<LogGeneration>, EngineOpenError> {
        let session = connector.connect().await?;
        schema::list(&session, log_id, connector.options.request_timeout).await
    }

    /// Sends a group once and waits until it is committed.
    pub async fn send(&self, group: &[u8]) -> SendResult {
        let state = &*self.0;
        let limit = state.connector.options.ack_timeout;
        let sent = state.writer.query(&state.statements.send, &[&group, &state.incarnation], limit).await;

        match sent.as_deref() {
            Ok([row]) => {
                let sequence = row.get::<_, i64>(0).cast_unsigned();
                state.stored.send_replace(sequence);
                SendResult::Stored { sequence }
            }
            Ok(_) => SendResult::NotStored { reason: self.recreated_message() },
            Err(failure) => send_result_of(failure),
        }
    }

    /// Reads up to `count` groups after group `after`, in order.
    pub async fn read(&self, after: u64, count: i64) -> Result<Vec<(u64, Vec<u8>)>, PostgresFailure> {
        let state = &*self.0;
        let limit = state.connector.options.request_timeout;
        let rows = state.reader.query(&state.statements.read, &[&after.cast_signed(), &count], limit).await?;
        Ok(rows.iter().map(|row| (row.get::<_, i64>(0).cast_unsigned(), row.get(1))).collect())
    }

    /// Returns the end of the log; `None` if its row is missing.
    pub async fn head(&self) -> Result<Option<StoreHead>, PostgresFailure> {
        let state = &*self.0;
        let session = state.reader.session().await?;
        let limit = state.connector.options.request_timeout;
        let rows = state.reader.query_on(&session, &state.statements.head, &[], limit).await?;
        if rows.first().is_some_and(|row| row.get(2)) {
            // The server is a former primary, which gets no more groups.
            state.reader.discard(&session).await;
            return Err(PostgresFailure::NoResponse("the server accepts no writes any more".to_owned()));
        }

        let head = |row: &tokio_postgres::Row| StoreHead {
            last: row.get::<_, i64>(0).cast_unsigned(),
            is_same_store: row.get::<_, Uuid>(1) == state.incarnation,
        };
        Ok(rows.first().map(head))
    }

    /// Returns the number of the last group.
    pub async fn last(&self) -> Result<u64, EngineUnreachable> {
        match self.head().await {
            Ok(Some(head)) if head.is_same_store => Ok(head.last),
            Ok(_) => Err(EngineUnreachable(self.recreated_message())),
            Err(failure) => Err(EngineUnreachable(failure.to_string())),
        }
    }

    /// Returns a receiver of the number of the last group that this client has stored.
    pub fn stored(&self) -> watch::Receiver<u64> {
        self.0.stored.subscribe()
    }

    /// Returns the number of lost connections.
    pub fn losses(&self) -> u64 {
        self.0.connector.losses()
    }

    pub fn announcer(&self) -> &PostgresLink {
        &self.0.announcer
    }

    pub fn schema(&self) -> &str {
        &self.0.schema
    }

    /// Returns the message for tables that were dropped and created again.
    pub fn recreated_message(&self) -> String {
        format!("schema {} was created again; the node uses the former one", self.0.schema)
    }
}

/// Logs settings of a usable server that put durability at risk.
async fn warn_of_risks(session: &PostgresSession) {
    match suitability::risk_checks(&session.client).await {
        Ok(checks) => {
            for EngineCheck { subject, finding, .. } in checks.iter().filter(|check| check.status == CheckStatus::Risk)
            {
                tracing::warn!(subject, finding, "postgres durability at risk");
            }
        }
        Err(error) => tracing::warn!(%error, "postgres durability not checked"),
    }
}

/// Converts the failure to send a group.
fn send_result_of(failure: &PostgresFailure) -> SendResult {
    let reason = failure.to_string();
    match failure {
        PostgresFailure::Refused { code, .. } if *code == SqlState::DISK_FULL => SendResult::Full { reason },
        PostgresFailure::Refused { .. } | PostgresFailure::NotConnected(_) => SendResult::NotStored { reason },
        PostgresFailure::NoResponse(_) => SendResult::Unknown { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_differs_from_other_refusals_and_lost_responses() {
        let refused = |code| PostgresFailure::Refused { code, reason: "no".to_owned() };
        assert!(matches!(send_result_of(&refused(SqlState::DISK_FULL)), SendResult::Full { .. }));
        assert!(matches!(send_result_of(&refused(SqlState::LOCK_NOT_AVAILABLE)), SendResult::NotStored { .. }));
        let lost = PostgresFailure::NoResponse("connection closed".to_owned());
        assert!(matches!(send_result_of(&lost), SendResult::Unknown { .. }));
    }
}
