//! Requirements of the server. One that may lose groups is refused; one that is safe only while its disk is gets a warning.

use tokio_postgres::Client;

use super::session::PostgresConnectError;
use crate::events::shared::engine::EngineOpenError;

/// Oldest version with all settings of a connection.
const VERSION_MIN: i32 = 140_000;

/// Checks the server of a connection, with the settings that apply to it. They may differ after a failover.
pub async fn check_server(client: &Client) -> Result<(), PostgresConnectError> {
    let sql = "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), \
         current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')";
    let row = client.query_one(sql, &[]).await?;
    let settings = DurabilitySettings {
        version: row.try_get(0)?,
        is_in_recovery: row.try_get(1)?,
        synchronous_commit: row.try_get(2)?,
        fsync: row.try_get(3)?,
        full_page_writes: row.try_get(4)?,
    };
    let problems = settings.problems();
    if problems.is_empty() {
        return Ok(());
    }
    let reason = format!("the PostgreSQL server is not suitable for a log: {}", problems.join("; "));
    Err(EngineOpenError::Unsuitable(reason).into())
}

/// Settings without which a server loses groups.
struct DurabilitySettings {
    version: i32,
    is_in_recovery: bool,
    synchronous_commit: String,
    fsync: String,
    full_page_writes: String,
}

impl DurabilitySettings {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.version < VERSION_MIN {
            problems.push(format!("its version is {}; it must be 14 or newer", self.version / 10_000));
        }
        if self.is_in_recovery {
            problems.push(
                "it is in recovery, so a standby; it must be the primary: name the primary, or all servers as in \
                 postgres://user@a:5432,b:5432/database"
                    .to_owned(),
            );
        }
        if ["off", "local"].contains(&self.synchronous_commit.as_str()) {
            problems.push(format!(
                "synchronous_commit is {}; it must be on, or acknowledged groups are lost: set `synchronous_commit = on` for \
                 this user and database",
                self.synchronous_commit
            ));
        }
        for (setting, value) in [("fsync", &self.fsync), ("full_page_writes", &self.full_page_writes)] {
            if value != "on" {
                problems.push(format!(
                    "{setting} is {value}; it must be on, or a power cut damages the database: set `{setting} = on`"
                ));
            }
        }
        problems
    }
}

/// Warns of what the server risks although it can be used.
pub async fn warn_of_risks(client: &Client) -> Result<(), tokio_postgres::Error> {
    let sql = "SELECT current_setting('synchronous_standby_names'), current_setting('data_checksums'), \
         current_setting('synchronous_commit')";
    let row = client.query_one(sql, &[]).await?;
    let (standbys, checksums, commit): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if standbys.trim().is_empty() {
        tracing::warn!(
            "postgres has no synchronous standby: the loss of its disk loses acknowledged changes, and so does a failover; \
             set synchronous_standby_names"
        );
    } else if commit == "remote_write" {
        tracing::warn!(
            "postgres acknowledges groups before its standby has synced them: the loss of both machines at once loses \
             acknowledged changes; set synchronous_commit = on"
        );
    }
    if checksums != "on" {
        tracing::warn!(
            "postgres has no data checksums: damage on its disk is found late; stop it and run pg_checksums --enable"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> DurabilitySettings {
        let on = || "on".to_owned();
        DurabilitySettings {
            version: 150_000,
            is_in_recovery: false,
            synchronous_commit: on(),
            fsync: on(),
            full_page_writes: on(),
        }
    }

    #[test]
    fn each_unsafe_setting_is_named_with_its_remedy() {
        assert!(settings().problems().is_empty());
        let off = || "off".to_owned();
        for (settings, expected) in [
            (DurabilitySettings { version: 130_004, ..settings() }, "must be 14 or newer"),
            (DurabilitySettings { is_in_recovery: true, ..settings() }, "name the primary"),
            (DurabilitySettings { synchronous_commit: off(), ..settings() }, "set `synchronous_commit = on`"),
            (DurabilitySettings { fsync: off(), ..settings() }, "set `fsync = on`"),
            (DurabilitySettings { full_page_writes: off(), ..settings() }, "set `full_page_writes = on`"),
        ] {
            let problems = settings.problems();
            assert!(problems.len() == 1 && problems[0].contains(expected), "{expected}: {problems:?}");
        }
    }
}
