//! Requirements of the server. One that may lose groups is refused; one that is safe only while its disk is gets a warning.

use tokio_postgres::Client;

use super::session::PostgresConnectError;
use crate::events::shared::engine_check::{EngineCheck, refuse_failed};

/// Oldest version with all settings of a connection.
const VERSION_MIN: i32 = 140_000;

/// Refuses the server of a connection if the settings that apply to it lose groups. They may differ after a failover.
pub async fn check_server(client: &Client) -> Result<(), PostgresConnectError> {
    let checks = DurabilitySettings::of(client).await?.checks();
    Ok(refuse_failed("the PostgreSQL server is not suitable for a log", &checks)?)
}

/// Checks the server of a connection.
pub async fn server_checks(client: &Client) -> Result<Vec<EngineCheck>, tokio_postgres::Error> {
    let mut checks = DurabilitySettings::of(client).await?.checks();
    checks.extend(risk_checks(client).await?);
    Ok(checks)
}

/// Subject of the checks.
const SERVER: &str = "PostgreSQL server";

/// Settings without which a server loses groups.
struct DurabilitySettings {
    version: i32,
    is_in_recovery: bool,
    default_transaction_read_only: String,
    synchronous_commit: String,
    fsync: String,
    full_page_writes: String,
}

impl DurabilitySettings {
    async fn of(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let sql = "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), \
             current_setting('default_transaction_read_only'), current_setting('synchronous_commit'), \
             current_setting('fsync'), current_setting('full_page_writes')";
        let row = client.query_one(sql, &[]).await?;
        Ok(Self {
            version: row.try_get(0)?,
            is_in_recovery: row.try_get(1)?,
            default_transaction_read_only: row.try_get(2)?,
            synchronous_commit: row.try_get(3)?,
            fsync: row.try_get(4)?,
            full_page_writes: row.try_get(5)?,
        })
    }

    fn checks(&self) -> Vec<EngineCheck> {
        let check = |is_met: bool, found: String, remedy: &str| {
            if is_met {
                EngineCheck::met(SERVER, found)
            } else {
                EngineCheck::failed(SERVER, format!("{found}; {remedy}"))
            }
        };

        let version = format!("its version is {}", self.version / 10_000);
        let recovery = if self.is_in_recovery { "it is in recovery, so a standby" } else { "it is the primary" };
        let read_only = &self.default_transaction_read_only;
        let commit = &self.synchronous_commit;
        let mut checks = vec![
            check(self.version >= VERSION_MIN, version, "it must be 14 or newer"),
            check(
                !self.is_in_recovery,
                recovery.to_owned(),
                "it must be the primary: name the primary, or all servers as in postgres://user@a:5432,b:5432/database",
            ),
            check(
                read_only == "off",
                format!("default_transaction_read_only is {read_only}"),
                "it must accept writes: set `default_transaction_read_only = off` for this user and database",
            ),
            check(
                !["off", "local"].contains(&commit.as_str()),
                format!("synchronous_commit is {commit}"),
                "it must be on, or acknowledged groups are lost: set `synchronous_commit = on` for this user and database",
            ),
        ];
        for (setting, value) in [("fsync", &self.fsync), ("full_page_writes", &self.full_page_writes)] {
            let remedy = format!("it must be on, or a power cut damages the database: set `{setting} = on`");
            checks.push(check(value == "on", format!("{setting} is {value}"), &remedy));
        }
        checks
    }
}

/// Checks what the server risks although it can be used.
pub async fn risk_checks(client: &Client) -> Result<[EngineCheck; 2], tokio_postgres::Error> {
    let sql = "SELECT current_setting('synchronous_standby_names'), current_setting('data_checksums'), \
         current_setting('synchronous_commit')";
    let row = client.query_one(sql, &[]).await?;
    let (standbys, checksums, commit): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);

    let standby = if standbys.trim().is_empty() {
        EngineCheck::risk(
            SERVER,
            "it has no synchronous standby: the loss of its disk loses acknowledged changes, and so does a failover; set \
             synchronous_standby_names",
        )
    } else if commit == "remote_write" {
        EngineCheck::risk(
            SERVER,
            "it acknowledges groups before its standby has synced them: the loss of both machines at once loses \
             acknowledged changes; set synchronous_commit = on",
        )
    } else {
        EngineCheck::met(SERVER, format!("synchronous_standby_names is {}", standbys.trim()))
    };

    let checksums = if checksums == "on" {
        EngineCheck::met(SERVER, "data_checksums is on")
    } else {
        EngineCheck::risk(
            SERVER,
            "it has no data checksums: damage on its disk is found late; stop it and run pg_checksums --enable",
        )
    };
    Ok([standby, checksums])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::shared::engine_check::CheckStatus;

    fn settings() -> DurabilitySettings {
        let on = || "on".to_owned();
        DurabilitySettings {
            version: 150_000,
            is_in_recovery: false,
            default_transaction_read_only: "off".to_owned(),
            synchronous_commit: on(),
            fsync: on(),
            full_page_writes: on(),
        }
    }

    #[test]
    fn each_unsafe_setting_is_named_with_its_remedy() {
        let problems = |settings: &DurabilitySettings| -> Vec<String> {
            let failed = settings.checks().into_iter().filter(|check| check.status == CheckStatus::Failed);
            failed.map(|check| check.finding).collect()
        };
        assert!(problems(&settings()).is_empty());
        let off = || "off".to_owned();
        for (settings, expected) in [
            (DurabilitySettings { version: 130_004, ..settings() }, "must be 14 or newer"),
            (DurabilitySettings { is_in_recovery: true, ..settings() }, "name the primary"),
            (
                DurabilitySettings { default_transaction_read_only: "on".to_owned(), ..settings() },
                "set `default_transaction_read_only = off`",
            ),
            (DurabilitySettings { synchronous_commit: off(), ..settings() }, "set `synchronous_commit = on`"),
            (DurabilitySettings { fsync: off(), ..settings() }, "set `fsync = on`"),
            (DurabilitySettings { full_page_writes: off(), ..settings() }, "set `full_page_writes = on`"),
        ] {
            let problems = problems(&settings);
            assert!(problems.len() == 1 && problems[0].contains(expected), "{expected}: {problems:?}");
        }
    }
}
