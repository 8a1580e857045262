//! The shared log on PostgreSQL: the suite of engines, unsuitable servers and tables, and a server that is stopped and
//! started while nodes append.
//!
//! These tests need the programs of PostgreSQL, so `cargo test` ignores them and `tests/cluster/run` runs them.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use mediary::events::shared::engine::{Engine, EngineOpenError, EngineSignal, SendResult};
use mediary::events::shared::postgres::{PostgresEngine, PostgresOptions};
use uuid::Uuid;

use crate::engine_suite::{
    self, EngineFollower, TestEngine, TestedEngine, TestedServers, new_log_id, survive_faults, unsuitable,
};
use crate::support::eventually::eventually_blocking;
use crate::support::postgres_server::{PASSWORD, PostgresServer};

impl TestedEngine for PostgresEngine {
    type Options = PostgresOptions;

    fn create(options: PostgresOptions, log_id: Uuid) -> Result<Self, EngineOpenError> {
        Self::create(options, log_id)
    }

    fn open(options: PostgresOptions, log_id: Uuid) -> Result<Self, EngineOpenError> {
        Self::open(options, log_id)
    }
}

impl TestedServers for PostgresServer {
    type Engine = PostgresEngine;

    fn start() -> Self {
        Self::start()
    }

    fn options(&self) -> PostgresOptions {
        options_of(&self.url())
    }

    fn set_paused(&mut self, is_paused: bool) {
        if is_paused { self.pause() } else { self.resume() }
    }

    fn set_running(&mut self, is_running: bool) {
        if is_running { self.restart() } else { self.stop_immediately() }
    }

    fn delete_log(&self, log_id: Uuid) {
        self.administer(&format!("DROP SCHEMA {} CASCADE", schema_of(log_id)));
    }
}

/// Returns the server of the tests that do it no harm.
fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(PostgresServer::start)
}

fn options_of(url: &str) -> PostgresOptions {
    PostgresOptions::from_url(url).expect("a valid URL")
}

fn schema_of(log_id: Uuid) -> String {
    format!("mdy_{}", log_id.simple())
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn the_shared_log_over_postgres_meets_the_log_contract() {
    engine_suite::the_shared_log_meets_the_log_contract(server());
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn two_nodes_have_equal_journals() {
    engine_suite::two_nodes_have_equal_journals(server());
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_follower_hears_if_the_engine_is_alive() {
    engine_suite::a_follower_hears_if_the_engine_is_alive::<PostgresServer>();
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn appends_end_in_time_while_no_server_runs_and_continue_later() {
    engine_suite::appends_end_in_time_while_no_server_runs_and_continue_later::<PostgresServer>();
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_node_stops_when_its_schema_was_dropped_or_created_again() {
    engine_suite::a_node_stops_when_its_log_was_deleted_or_created_again(server());
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn an_engine_ends_at_once_even_without_servers() {
    engine_suite::an_engine_ends_at_once_even_without_servers::<PostgresServer>();
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn announcements_reach_every_listener_and_are_not_stored() {
    engine_suite::announcements_reach_every_listener_and_are_not_stored(server());
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_schema_is_created_once_and_opened_by_the_id_of_its_log() {
    let options = server().options();
    let log_id = new_log_id();
    let schema = schema_of(log_id);
    let reason = unsuitable(PostgresEngine::open(options.clone(), log_id));
    assert!(reason.contains(&format!("no schema {schema}")) && reason.contains("check that the URL"), "{reason}");

    let created = PostgresEngine::create(options.clone(), log_id).unwrap();
    let reason = unsuitable(PostgresEngine::create(options.clone(), log_id));
    assert!(reason.contains(&format!("schema {schema} exists")), "{reason}");

    let opened = PostgresEngine::open(options, log_id).unwrap();
    assert_eq!(created.send(b"a group"), SendResult::Stored { sequence: 1 });
    assert_eq!(opened.last(), Ok(1));

    // Other tables of the same name are another log
    server().delete_log(log_id);
    let other = PostgresEngine::create(server().options(), log_id).unwrap();
    let sent = created.send(b"a group");
    assert!(matches!(&sent, SendResult::NotStored { reason } if reason.contains("created again")), "{sent:?}");
    assert!(opened.last().is_err_and(|error| error.0.contains("created again")));
    assert_eq!(other.last(), Ok(0));
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_schema_that_has_lost_groups_or_belongs_to_another_log_is_refused() {
    let lost = "it must have every group from 1 on";
    let cases = [
        ("DELETE FROM {schema}.groups WHERE seq = 1", lost),
        ("DELETE FROM {schema}.groups WHERE seq = 2", lost),
        ("DELETE FROM {schema}.groups WHERE seq = 3", lost),
        ("DELETE FROM {schema}.head", "table head has 0 rows"),
        ("DROP TABLE {schema}.head", "no schema"),
        (
            "UPDATE {schema}.head SET log_id = '00000000-0000-0000-0000-00000000abcd'",
            "use the database of this cluster",
        ),
        ("ALTER TABLE {schema}.groups SET UNLOGGED", "SET LOGGED"),
    ];
    for (change, expected) in cases {
        let engine = TestEngine::create(server());
        (1..=3).for_each(|sequence| assert_eq!(engine.send(b"group"), SendResult::Stored { sequence }));
        drop(engine.clone());

        server().administer(&change.replace("{schema}", &schema_of(engine.log_id)));

        let reason = unsuitable(PostgresEngine::open(engine.options.clone(), engine.log_id));
        assert!(reason.contains(expected) && reason.contains(&schema_of(engine.log_id)), "{expected}: {reason}");
    }
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_missing_group_is_a_gap_for_followers() {
    let engine = TestEngine::create(server());
    (1..=3).for_each(|sequence| assert_eq!(engine.send(b"group"), SendResult::Stored { sequence }));
    server().administer(&format!("DELETE FROM {}.groups WHERE seq = 2", schema_of(engine.log_id)));

    let followed = engine.follow(0, &mut |_| std::ops::ControlFlow::Continue(()));
    assert_eq!(followed.unwrap_err().to_string(), "the engine returned group 3 instead of group 2");
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_server_that_may_lose_groups_is_refused_with_the_remedy() {
    // Given a server whose settings are changed, and a log
    let mut server = PostgresServer::start();
    let log_id = new_log_id();
    drop(PostgresEngine::create(server.options(), log_id).unwrap());
    for (setting, value) in
        [("synchronous_commit", "off"), ("synchronous_commit", "local"), ("full_page_writes", "off"), ("fsync", "off")]
    {
        server.set(setting, value);
        for opened in
            [PostgresEngine::open(server.options(), log_id), PostgresEngine::create(server.options(), new_log_id())]
        {
            let reason = unsuitable(opened);
            let expected = format!("{setting} is {value}; it must be on");
            assert!(reason.contains(&expected) && reason.contains(&format!("set `{setting} = on`")), "{reason}");
        }
        server.set(setting, "on");
    }
    drop(PostgresEngine::open(server.options(), log_id).unwrap());

    // A user of its own may have other settings than the server
    server.administer("ALTER ROLE mediary SET synchronous_commit = off");
    let reason = unsuitable(PostgresEngine::open(server.options(), log_id));
    assert!(reason.contains("synchronous_commit is off"), "{reason}");
    server.administer("ALTER ROLE mediary RESET synchronous_commit");

    // A standby is not a primary
    server.restart_in_recovery();
    let reason = unsuitable(PostgresEngine::open(server.options(), log_id));
    assert!(reason.contains("in recovery") && reason.contains("name the primary"), "{reason}");
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_node_leaves_a_server_whose_settings_become_unsafe() {
    // Given an engine, and a server that is restarted with other settings
    let mut server = PostgresServer::start();
    let engine = TestEngine::create(&server);
    assert_eq!(engine.send(b"first"), SendResult::Stored { sequence: 1 });
    server.set("synchronous_commit", "off");
    server.stop_immediately();
    server.restart();

    // Then nothing is stored until they are safe
    eventually_blocking("the former connection has ended", || engine.last().is_err());
    let sent = engine.send(b"second");
    assert!(matches!(&sent, SendResult::Unknown { .. } | SendResult::NotStored { .. }), "{sent:?}");
    let sent = engine.send(b"second");
    assert!(
        matches!(&sent, SendResult::NotStored { reason } if reason.contains("synchronous_commit is off")),
        "{sent:?}"
    );
    server.set("synchronous_commit", "on");
    assert_eq!(engine.send(b"second"), SendResult::Stored { sequence: 2 });
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn servers_that_do_not_answer_are_unreachable_not_unsuitable() {
    let mut server = PostgresServer::start();
    let log_id = new_log_id();
    drop(PostgresEngine::create(server.options(), log_id).unwrap());

    server.stop_immediately();
    let opened = PostgresEngine::open(server.options(), log_id);
    assert!(
        matches!(&opened, Err(EngineOpenError::Unreachable(reason)) if reason.contains("127.0.0.1")),
        "{:?}",
        opened.err()
    );
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_first_server_that_hangs_or_accepts_no_writes_is_passed_over() {
    // Given two servers, and a log on the second one
    let servers = [(); 2].map(|()| PostgresServer::start());
    let log_id = new_log_id();
    drop(PostgresEngine::create(servers[1].options(), log_id).unwrap());
    let url = url_of_both(&servers);

    // Then it is found while the first one accepts connections and does not answer
    servers[0].pause();
    let engine = PostgresEngine::open(options_of(&url), log_id).unwrap();
    assert_eq!(engine.send(b"first"), SendResult::Stored { sequence: 1 });

    // When the connected one becomes read-only, then the engine is not alive there
    servers[1].set("default_transaction_read_only", "on");
    eventually_blocking("the read-only server is left", || engine.last().is_err());
    let sent = engine.send(b"second");
    assert!(!matches!(sent, SendResult::Stored { .. }), "{sent:?}");

    // And it continues when that is over
    servers[1].administer("ALTER SYSTEM RESET default_transaction_read_only");
    servers[1].administer("SELECT pg_reload_conf()");
    eventually_blocking("a group is stored", || matches!(engine.send(b"third"), SendResult::Stored { .. }));
}

/// Returns a URL that names two servers.
fn url_of_both(servers: &[PostgresServer; 2]) -> String {
    let [first, second] = servers.each_ref().map(PostgresServer::url);
    let host = |url: &str| url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    first.replace(&host(&first), &format!("{},{}", host(&first), host(&second)))
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_wrong_password_or_database_is_named_without_the_password() {
    let log_id = new_log_id();
    let wrong = server().url().replace(PASSWORD, "not-the-password");
    let reason = unsuitable(PostgresEngine::open(options_of(&wrong), log_id));
    assert!(reason.contains("correct the user") && !reason.contains("not-the-password"), "{reason}");

    let other = format!("{}nowhere", server().url().strip_suffix("mediary").unwrap());
    let reason = unsuitable(PostgresEngine::open(options_of(&other), log_id));
    assert!(reason.contains("createdb nowhere") && !reason.contains(PASSWORD), "{reason}");

    let encrypted = format!("{}?sslmode=verify-full", server().url());
    let reason = unsuitable(PostgresEngine::open(options_of(&encrypted), log_id));
    assert!(reason.contains("TLS") && !reason.contains(PASSWORD), "{reason}");

    // The password of the file replaces that of the URL
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let mut options = options_of(&wrong);
    options.password_file = Some(file);
    drop(PostgresEngine::create(options, log_id).unwrap());
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_server_that_is_stopped_and_started_loses_and_doubles_no_append() {
    survive_faults("immediate stop of the server", |server: &mut PostgresServer, _, _| {
        server.stop_immediately();
        thread::sleep(Duration::from_secs(1));
        server.restart();
    });
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_paused_server_costs_no_append() {
    survive_faults("SIGSTOP of the server", |server: &mut PostgresServer, _, _| {
        server.pause();
        thread::sleep(Duration::from_secs(4));
        server.resume();
    });
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn ended_connections_cost_no_append() {
    survive_faults("end of all connections", |server: &mut PostgresServer, _, wait| {
        for _ in 0..5 {
            server.administer(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mediary'",
            );
            wait();
        }
    });
}

#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn a_group_that_waits_for_an_absent_standby_delays_no_beats_and_no_reads() {
    // Given a server that waits for a standby that does not exist
    let server = PostgresServer::start();
    let engine = TestEngine::create(&server);
    assert_eq!(engine.send(b"first"), SendResult::Stored { sequence: 1 });
    let follower = EngineFollower::start(&engine);
    follower.expect(&EngineSignal::Group { sequence: 1, group: b"first".to_vec() });
    server.set("synchronous_standby_names", "absent");

    // When groups are sent, then they are not stored, and the engine is alive
    for _ in 0..3 {
        let sent = engine.send(b"second");
        assert!(matches!(sent, SendResult::Unknown { .. } | SendResult::NotStored { .. }), "{sent:?}");
    }
    follower.expect(&EngineSignal::Alive);
    assert_eq!(engine.last(), Ok(1));
    let (sender, heard) = std::sync::mpsc::channel();
    let listener = engine.clone();
    thread::spawn(move || {
        listener.listen(&mut |message| match message.map(|message| sender.send(message.to_vec())) {
            None => std::ops::ControlFlow::Continue(()),
            Some(_) => std::ops::ControlFlow::Break(()),
        });
    });
    eventually_blocking("an announcement is heard", || {
        engine.announce(b"beat");
        heard.recv_timeout(Duration::from_millis(100)).is_ok()
    });

    // And they continue when it is no longer needed
    server.set("synchronous_standby_names", "");
    eventually_blocking("a group is stored", || matches!(engine.send(b"third"), SendResult::Stored { .. }));
    follower.stop();
}

/// Prints how fast the engine is, on a server without a standby.
#[test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
fn measure_throughput() {
    let server = PostgresServer::start();
    engine_suite::print_throughput::<PostgresEngine>(&server.options());
}
