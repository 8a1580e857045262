//! The shared log on clusters of NATS servers: the log contract, unsuitable streams, and servers that are killed or
//! paused.
//!
//! These tests need nats-server, so `cargo test` ignores them and `tests/cluster/run` runs them.

use std::sync::OnceLock;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use mediary::events::shared::engine::{Engine, EngineOpenError, EngineSignal, SendResult};
use mediary::events::shared::nats::{NatsEngine, NatsOptions};
use uuid::Uuid;

use crate::engine_suite::{
    self, EngineFollower, TestEngine, TestedEngine, TestedServers, new_log_id, survive_faults, unsuitable,
};
use crate::support::eventually::eventually_blocking;
use crate::support::nats_servers::{NatsServerSettings, NatsServers};

impl TestedEngine for NatsEngine {
    type Options = NatsOptions;

    fn create(options: NatsOptions, log_id: Uuid) -> Result<Self, EngineOpenError> {
        Self::create(options, log_id)
    }

    fn open(options: NatsOptions, log_id: Uuid) -> Result<Self, EngineOpenError> {
        Self::open(options, log_id)
    }
}

impl TestedServers for NatsServers {
    type Engine = NatsEngine;

    fn start() -> Self {
        Self::start()
    }

    fn options(&self) -> NatsOptions {
        self.options()
    }

    fn set_paused(&mut self, is_paused: bool) {
        (0..3).for_each(|index| if is_paused { self.pause(index) } else { self.resume(index) });
    }

    fn set_running(&mut self, is_running: bool) {
        (0..3).for_each(|index| if is_running { self.restart(index) } else { self.kill(index) });
    }

    fn delete_log(&self, log_id: Uuid) {
        self.administer(async |context| {
            context.delete_stream(stream_name(log_id)).await.unwrap();
        });
    }
}

/// Returns the cluster of the tests that do it no harm.
fn cluster() -> &'static NatsServers {
    static CLUSTER: OnceLock<NatsServers> = OnceLock::new();
    CLUSTER.get_or_init(NatsServers::start)
}

fn stream_name(log_id: Uuid) -> String {
    format!("MDY_{}", log_id.simple())
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn the_shared_log_over_nats_meets_the_log_contract() {
    engine_suite::the_shared_log_meets_the_log_contract(cluster());
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_stream_is_created_once_and_opened_by_the_id_of_its_log() {
    let options = cluster().options();
    let log_id = new_log_id();
    let reason = unsuitable(NatsEngine::open(options.clone(), log_id));
    assert!(reason.contains(&format!("no stream {}", stream_name(log_id))), "{reason}");

    let created = NatsEngine::create(options.clone(), log_id).unwrap();
    let reason = unsuitable(NatsEngine::create(options.clone(), log_id));
    assert!(reason.contains(&format!("stream {} exists", stream_name(log_id))), "{reason}");

    let opened = NatsEngine::open(options, log_id).unwrap();
    assert_eq!(created.send(b"a group"), SendResult::Stored { sequence: 1 });
    assert_eq!(opened.last(), Ok(1));
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_stream_that_may_lose_groups_is_refused_with_the_remedy() {
    type Change = fn(&mut Config);
    let cases: &[(Change, &str)] = &[
        (|config| config.num_replicas = 1, "num_replicas is 1; it must be 3 or more: nats stream edit"),
        (|config| config.storage = StorageType::Memory, "storage is Memory; it must be File: delete the stream"),
        (|config| config.retention = RetentionPolicy::Interest, "retention is Interest; it must be Limits"),
        (|config| config.discard = DiscardPolicy::Old, "discard is Old; it must be New"),
        (|config| config.max_age = Duration::from_hours(1), "max_age is 3600s; it must be none"),
        (|config| config.max_bytes = 1 << 20, "max_bytes is 1048576; it must be none"),
        (|config| config.max_messages = 9, "max_msgs is 9; it must be none"),
        (|config| config.max_messages_per_subject = 9, "max_msgs_per_subject is 9; it must be none"),
        (|config| config.max_message_size = 1 << 20, "max_msg_size is 1048576; it must be none, or 2097152 or more"),
        (|config| config.deny_delete = false, "deny_delete is false; it must be true"),
        (|config| config.deny_purge = false, "deny_purge is false; it must be true"),
        (|config| config.allow_message_ttl = true, "allow_msg_ttl is true; it must be false"),
        (|config| config.subjects.push(format!("also.{}", config.name)), "subjects is ["),
        (|config| config.first_sequence = Some(5), "it must have every message from 1 on"),
    ];
    for (change, expected) in cases {
        let log_id = new_log_id();
        let mut config = Config {
            name: stream_name(log_id),
            subjects: vec![format!("mdy.{}", log_id.simple())],
            num_replicas: 3,
            discard: DiscardPolicy::New,
            deny_delete: true,
            deny_purge: true,
            ..Config::default()
        };
        change(&mut config);
        cluster().administer(async |context| {
            context.create_stream(config).await.unwrap();
        });

        let reason = unsuitable(NatsEngine::open(cluster().options(), log_id));
        assert!(reason.contains(expected) && reason.contains(&stream_name(log_id)), "{expected}: {reason}");
    }
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn servers_that_may_lose_groups_are_refused_with_the_remedy() {
    // Given a server that syncs every two minutes
    let settings = NatsServerSettings { servers: 1, sync_interval: "2m", ..NatsServerSettings::default() };
    let server = NatsServers::start_with(settings);
    let log_id = new_log_id();
    let reason = unsuitable(NatsEngine::create(server.options(), log_id));
    assert!(reason.contains("set `sync_interval: always`"), "{reason}");

    // Without monitoring URLs it cannot be seen
    let blind = NatsOptions { monitors: Vec::new(), ..server.options() };
    drop(NatsEngine::create(blind.clone(), log_id).unwrap());
    let reason = unsuitable(NatsEngine::open(server.options(), log_id));
    assert!(reason.contains("set `sync_interval: always`"), "{reason}");

    // A single server is not a cluster
    let three = NatsOptions { replicas: 3, ..blind };
    let reason = unsuitable(NatsEngine::open(three.clone(), log_id));
    assert!(reason.contains("num_replicas is 1; it must be 3 or more"), "{reason}");
    let reason = unsuitable(NatsEngine::create(three, new_log_id()));
    assert!(reason.contains("do not make stream") && reason.contains("with 3 replicas"), "{reason}");

    // Given a server that takes small messages only
    let settings = NatsServerSettings { servers: 1, max_payload: "1MB", ..NatsServerSettings::default() };
    let server = NatsServers::start_with(settings);
    let reason = unsuitable(NatsEngine::create(server.options(), log_id));
    assert!(reason.contains("max_payload is 1048576 bytes") && reason.contains("set `max_payload: 2MB`"), "{reason}");
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn servers_that_do_not_answer_are_unreachable_not_unsuitable() {
    let mut server = NatsServers::start_with(NatsServerSettings { servers: 1, ..NatsServerSettings::default() });
    let log_id = new_log_id();
    drop(NatsEngine::create(server.options(), log_id).unwrap());

    server.kill(0);
    let opened = NatsEngine::open(server.options(), log_id);
    assert!(
        matches!(&opened, Err(EngineOpenError::Unreachable(reason)) if reason.contains("127.0.0.1")),
        "{:?}",
        opened.err()
    );
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_server_without_space_refuses_groups_and_keeps_the_others() {
    let settings = NatsServerSettings { servers: 1, max_file_store: "8MB", ..NatsServerSettings::default() };
    let server = NatsServers::start_with(settings);
    let engine = TestEngine::create(&server);
    let group = vec![7; 1 << 20];

    let mut stored = 0;
    let refused = (0..20).map(|_| engine.send(&group)).find(|sent| match sent {
        SendResult::Stored { sequence } => {
            stored += 1;
            assert_eq!(*sequence, stored);
            false
        }
        _ => true,
    });

    assert!(matches!(refused, Some(SendResult::Full { .. })), "{refused:?}");
    assert_eq!(engine.last(), Ok(stored));
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_follower_leaves_a_server_that_is_cut_off_from_the_others() {
    // Given a follower whose only server cannot reach the others
    let mut cluster = NatsServers::start();
    let engine = TestEngine::create(&cluster);
    let follower = EngineFollower::start(&engine);
    follower.expect(&EngineSignal::Alive);
    (0..3).for_each(|index| cluster.kill(index));
    cluster.restart_isolated(0);
    eventually_blocking("the follower is connected", || cluster.has_clients(0));
    let _from_before = follower.signals.try_iter().count();
    follower.expect(&EngineSignal::Silent);

    // When the others run
    cluster.restart(1);
    cluster.restart(2);

    // Then it hears from the engine again
    follower.expect(&EngineSignal::Alive);
    follower.stop();
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_killed_leader_costs_no_append() {
    survive_faults("kill -9 of the leader", |cluster: &mut NatsServers, log_id, wait| {
        let leader = cluster.leader_of(&stream_name(log_id));
        cluster.kill(leader);
        wait();
        cluster.restart(leader);
        cluster.wait_until_healthy();
    });
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_paused_leader_costs_no_append() {
    survive_faults("SIGSTOP of the leader", |cluster: &mut NatsServers, log_id, wait| {
        let leader = cluster.leader_of(&stream_name(log_id));
        cluster.pause(leader);
        wait();
        cluster.resume(leader);
        cluster.wait_until_healthy();
    });
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_paused_follower_costs_no_append() {
    survive_faults("SIGSTOP of a follower", |cluster: &mut NatsServers, log_id, wait| {
        let follower = (cluster.leader_of(&stream_name(log_id)) + 1) % 3;
        cluster.pause(follower);
        wait();
        cluster.resume(follower);
        cluster.wait_until_healthy();
    });
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn two_nodes_have_equal_journals() {
    engine_suite::two_nodes_have_equal_journals(cluster());
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_follower_hears_if_the_engine_is_alive() {
    engine_suite::a_follower_hears_if_the_engine_is_alive::<NatsServers>();
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn appends_end_in_time_while_no_server_runs_and_continue_later() {
    engine_suite::appends_end_in_time_while_no_server_runs_and_continue_later::<NatsServers>();
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_node_stops_when_its_stream_was_deleted_or_created_again() {
    engine_suite::a_node_stops_when_its_log_was_deleted_or_created_again(cluster());
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn an_engine_ends_at_once_even_without_servers() {
    engine_suite::an_engine_ends_at_once_even_without_servers::<NatsServers>();
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn announcements_reach_every_listener_and_are_not_stored() {
    engine_suite::announcements_reach_every_listener_and_are_not_stored(cluster());
}

/// Prints the rates of the engine, with servers that sync every write and with servers that do not.
#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn measure_throughput() {
    for sync_interval in ["always", "2m"] {
        println!("\nthree servers, sync_interval: {sync_interval}");
        let settings = NatsServerSettings { sync_interval, ..NatsServerSettings::default() };
        let cluster = NatsServers::start_with(settings);
        let options = NatsOptions { monitors: Vec::new(), ..cluster.options() };
        engine_suite::print_throughput::<NatsEngine>(&options);
    }
}
