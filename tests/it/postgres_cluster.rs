//! Clusters of real processes on a real PostgreSQL server: what `nats_cluster.rs` does on NATS.
//!
//! These tests need the programs of PostgreSQL, so `cargo test` ignores them and `tests/cluster/run` runs them.

use std::time::Duration;

use crate::nats_cluster::{
    NodeDirectories, become_a_cluster_and_a_service_again, chaos, lose_the_stream_and_free_its_space,
};
use crate::support::postgres_server::PASSWORD;

#[actix_web::test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
async fn a_service_becomes_a_cluster_on_postgres_and_a_service_again() {
    let printed = become_a_cluster_and_a_service_again(&NodeDirectories::init_on_postgres()).await;

    // And neither logs nor commands have printed the password of the URL
    assert!(printed.iter().all(|text| !text.contains(PASSWORD)), "{printed:?}");
    // A single server without a standby is reported
    assert!(printed.iter().any(|text| text.contains("no synchronous standby")), "{printed:?}");
}

#[actix_web::test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
async fn a_cluster_continues_after_the_loss_of_its_schema_and_frees_its_space() {
    lose_the_stream_and_free_its_space(&NodeDirectories::init_on_postgres()).await;
}

#[actix_web::test]
#[ignore = "needs PostgreSQL; run by tests/cluster/run"]
async fn nothing_is_lost_or_doubled_over_faults_of_nodes_and_postgres() {
    chaos::survive_faults(NodeDirectories::init_on_postgres(), Duration::from_secs(30)).await;
}
