//! The tables of a log: their names, how they are made, and checks of their content.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::session::{PostgresFailure, PostgresSession};
use crate::events::shared::engine::EngineOpenError;
use crate::events::shared::generation::LogGeneration;

/// Time for the server to make or delete the tables, and the standby to have done so.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to count the groups.
const COUNT_TIMEOUT: Duration = Duration::from_mins(5);

const NAME_PREFIX: &str = "mdy_";

/// Returns the name of the schema of a log.
#[must_use]
pub fn schema_of(log: LogGeneration) -> String {
    format!("{NAME_PREFIX}{}", log.name())
}

/// Returns the generations of a log that have a schema.
pub async fn list(
    session: &PostgresSession,
    log_id: Uuid,
    limit: Duration,
) -> Result<Vec<LogGeneration>, EngineOpenError> {
    let first = schema_of(log_id.into());
    let sql = "SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname::text, $1)";
    let rows = session.query(sql, &[&first], limit).await.map_err(|failure| unreachable(&first, &failure))?;
    let generation =
        |row: &tokio_postgres::Row| LogGeneration::parse_name(log_id, row.get::<_, &str>(0).strip_prefix(NAME_PREFIX)?);
    Ok(rows.iter().filter_map(generation).collect())
}

/// Creates the tables of a log.
pub async fn create(session: &PostgresSession, log: LogGeneration, limit: Duration) -> Result<(), EngineOpenError> {
    let schema = schema_of(log);
    if exists(session, &schema, limit).await? {
        return Err(EngineOpenError::Unsuitable(format!(
            "schema {schema} exists, but {log} needs a new one: a cluster with this log may be using it, to which a restored \
             backup of a node would be added"
        )));
    }

    let log_id = log.log_id;
    // Bodies are read once by each node and hardly compressible; the row of `head` is rewritten for every group.
    let sql = format!(
        "BEGIN; \
         CREATE SCHEMA {schema}; \
         CREATE TABLE {schema}.groups (seq bigint PRIMARY KEY, body bytea NOT NULL); \
         ALTER TABLE {schema}.groups ALTER COLUMN body SET STORAGE EXTERNAL; \
         CREATE TABLE {schema}.head (seq bigint NOT NULL, log_id uuid NOT NULL, incarnation uuid NOT NULL) \
             WITH (fillfactor = 10); \
         INSERT INTO {schema}.head VALUES (0, '{log_id}', gen_random_uuid()); \
         CREATE UNLOGGED TABLE {schema}.announcements (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
             sent_at timestamptz NOT NULL DEFAULT clock_timestamp(), body bytea NOT NULL); \
         COMMIT"
    );
    match session.run(&sql, CHANGE_TIMEOUT).await {
        Ok(()) => Ok(()),
        Err(PostgresFailure::Refused { code, reason }) => {
            let remedy = if code == SqlState::INSUFFICIENT_PRIVILEGE {
                "; allow it: GRANT CREATE ON DATABASE … TO …"
            } else {
                ""
            };
            Err(EngineOpenError::Unsuitable(format!("PostgreSQL does not make schema {schema}: {reason}{remedy}")))
        }
        Err(failure) => Err(unreachable(&schema, &failure)),
    }
}

async fn exists(session: &PostgresSession, schema: &str, limit: Duration) -> Result<bool, EngineOpenError> {
    let found = session.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", &[&schema], limit).await;
    Ok(!found.map_err(|failure| unreachable(schema, &failure))?.is_empty())
}

/// Deletes the tables of a log. Returns `false` if there are none.
pub async fn delete(session: &PostgresSession, log: LogGeneration, limit: Duration) -> Result<bool, EngineOpenError> {
    let schema = schema_of(log);
    if !exists(session, &schema, limit).await? {
        return Ok(false);
    }
    match session.run(&format!("DROP SCHEMA {schema} CASCADE"), CHANGE_TIMEOUT).await {
        Ok(()) => Ok(true),
        Err(PostgresFailure::Refused { reason, .. }) => {
            Err(EngineOpenError::Unsuitable(format!("PostgreSQL does not delete schema {schema}: {reason}")))
        }
        Err(failure) => Err(unreachable(&schema, &failure)),
    }
}

/// Checks the tables of a log. Returns the id of this set of tables: another set with the same name is another log.
pub async fn check(session: &PostgresSession, log: LogGeneration, limit: Duration) -> Result<Uuid, EngineOpenError> {
    let LogGeneration { log_id, .. } = log;
    let schema = schema_of(log);
    let introduction = format!("schema {schema} of PostgreSQL is not suitable for a log");
    let unsuitable = |reason: &str| EngineOpenError::Unsuitable(format!("{introduction}: {reason}"));
    let damaged = |reason: &str| EngineOpenError::Damaged(format!("{introduction}: {reason}"));
    let failed = |failure: PostgresFailure| match failure {
        failure if failure.is_missing_table() => EngineOpenError::Missing(format!(
            "PostgreSQL has no schema {schema} with the tables of {log}; check that the URL and its database are those of the \
             cluster"
        )),
        PostgresFailure::Refused { reason, .. } => {
            unsuitable(&format!("{reason}; the user of the URL must be the owner of the schema"))
        }
        failure => unreachable(&schema, &failure),
    };

    let timeout = format!("SET statement_timeout = {}", COUNT_TIMEOUT.as_millis());
    session.run(&timeout, limit).await.map_err(failed)?;
    let head = format!("SELECT seq, log_id, incarnation FROM {schema}.head");
    let rows = session.query(&head, &[], limit).await.map_err(failed)?;
    let [row] = &rows[..] else {
        return Err(damaged(&format!("table head has {} rows; it must have 1: {LOST}", rows.len())));
    };
    let (last, found_id, incarnation): (i64, Uuid, Uuid) = (row.get(0), row.get(1), row.get(2));
    if found_id != log_id {
        return Err(unsuitable(&format!(
            "it has the log {found_id}, but this node has the log {log_id}; use the database of this cluster"
        )));
    }

    let persistence = format!(
        "SELECT count(*) FROM pg_class WHERE oid IN ('{schema}.groups'::regclass, '{schema}.head'::regclass) \
         AND relpersistence <> 'p'"
    );
    let unlogged: i64 = single(&session.query(&persistence, &[], limit).await.map_err(failed)?)?;
    if unlogged > 0 {
        return Err(unsuitable(&format!(
            "a table is UNLOGGED, so a crash empties it: ALTER TABLE {schema}.groups SET LOGGED; ALTER TABLE {schema}.head SET \
             LOGGED"
        )));
    }

    let count = format!("SELECT count(*), coalesce(min(seq), 1), coalesce(max(seq), 0) FROM {schema}.groups");
    let rows = session.query(&count, &[], COUNT_TIMEOUT).await.map_err(failed)?;
    let row = rows.first().ok_or_else(|| unsuitable("table groups cannot be counted"))?;
    let (groups, first, last_group): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    // Other nodes may have added groups since the first question.
    if first != 1 || groups != last_group || last_group < last {
        return Err(damaged(&format!(
            "it has {groups} groups from {first} to {last_group}, and the last one was {last}; it must have every group from 1 \
             on: {LOST}"
        )));
    }
    Ok(incarnation)
}

/// Remedy for missing groups.
const LOST: &str = "groups are lost, see `mediary cluster rebuild-engine`";

fn single(rows: &[tokio_postgres::Row]) -> Result<i64, EngineOpenError> {
    let row = rows.first().ok_or_else(|| EngineOpenError::Unreachable("PostgreSQL returned no row".to_owned()))?;
    Ok(row.get(0))
}

fn unreachable(schema: &str, failure: &PostgresFailure) -> EngineOpenError {
    match failure {
        PostgresFailure::NotConnected(error) => error.clone(),
        failure => EngineOpenError::Unreachable(format!(
            "schema {schema} of PostgreSQL: {failure}; check that the server and its synchronous standby run"
        )),
    }
}
