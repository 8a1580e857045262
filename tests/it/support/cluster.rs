//! Clusters of services in this process, over an engine in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mediary::app::{EngineAccess, init_cluster};
use mediary::backup::create::create;
use mediary::backup::restore::restore;
use mediary::config::{Settings, SharedFiles};
use mediary::environment::Environment;
use mediary::events::log::EventLog;
use mediary::events::shared::engine::Engine;
use mediary::events::shared::memory_engine::{EngineFaults, MemoryEngine};
use mediary::file_tree::FileTree;
use tempfile::TempDir;

use super::eventually::eventually;
use super::{TestApp, settings};

/// Cluster whose nodes run in this process.
pub struct TestCluster {
    pub engine: MemoryEngine,
    /// Shared directory of the nodes.
    pub files: TempDir,
    pub nodes: Vec<TestApp>,
}

/// Sets the settings of a node with the shared directory `files`.
pub fn node_settings(settings: &mut Settings, files: &Path) {
    settings.cluster.engine = vec!["nats://in-memory".to_owned()];
    settings.cluster.files = Some(SharedFiles::Directory(files.to_owned()));
    settings.cluster.write_timeout = Duration::from_secs(2);
    settings.cluster.stale_after = Duration::from_secs(2);
}

/// Creates the data directory of a cluster's first node, which is not running.
pub async fn init_first(files: &Path, engine: &MemoryEngine) -> TempDir {
    let dir = TestApp::start().await.stop().await;
    let mut settings = settings(&dir);
    node_settings(&mut settings, files);
    init_on(&settings, &Arc::new(engine.clone())).expect("a new cluster");
    dir
}

/// Runs `cluster init` with an engine that has no stream yet.
pub fn init_on(settings: &Settings, engine: &Arc<MemoryEngine>) -> Result<(), String> {
    let access = EngineAccess {
        open: &|log| anyhow::bail!("there is no stream of {log}"),
        create: &|_| Ok(Arc::clone(engine) as Arc<dyn Engine>),
        list: &|_| Ok(Vec::new()),
        delete: &|log| anyhow::bail!("{log} is deleted"),
    };
    init_cluster(settings, &Environment::system(), &access).map_err(|error| format!("{error:#}"))
}

/// Makes a backup of a node's data directory and restores it in a new directory.
pub fn restored_backup_of(node: &Path) -> TempDir {
    let backup = tempfile::tempdir().expect("a temporary directory");
    create(&FileTree::local(node), backup.path(), &Environment::system(), &mut |_, _| {}).expect("a backup");
    let restored = tempfile::tempdir().expect("a temporary directory");
    restore(backup.path(), restored.path(), &mut |_, _| {}).expect("the backup is restored");
    restored
}

impl TestCluster {
    /// Starts a cluster of `nodes` nodes.
    pub async fn start(nodes: usize) -> Self {
        Self::start_with(nodes, |_| {}).await
    }

    /// Starts a cluster whose nodes have changed settings.
    pub async fn start_with(nodes: usize, change: impl Fn(&mut Settings)) -> Self {
        let engine = MemoryEngine::new(EngineFaults::default(), Environment::system());
        let files = tempfile::tempdir().expect("a temporary directory");
        let first = init_first(files.path(), &engine).await;
        let mut dirs: Vec<_> = (1..nodes).map(|_| restored_backup_of(first.path())).collect();
        dirs.insert(0, first);

        let mut cluster = Self { engine, files, nodes: Vec::new() };
        for dir in dirs {
            cluster.start_node(dir, &change).await;
        }
        cluster
    }

    /// Starts a node on a data directory.
    pub async fn start_node(&mut self, dir: TempDir, change: impl Fn(&mut Settings)) {
        self.start_node_on(dir, self.engine.clone(), change).await;
    }

    /// Starts a node with its own connection to the engine.
    pub async fn start_node_on(&mut self, dir: TempDir, engine: MemoryEngine, change: impl Fn(&mut Settings)) {
        let set = |settings: &mut Settings| {
            node_settings(settings, self.files.path());
            change(settings);
        };
        let engine: Arc<dyn Engine> = Arc::new(engine);
        let node = TestApp::start_node(dir, set, Environment::system(), Some(engine)).await;
        self.nodes.push(node);
    }

    /// Waits until all nodes have the same events.
    pub async fn settle(&self) {
        eventually("all nodes have the same events", async || {
            let heads: Vec<_> = self.nodes.iter().map(|node| node.app.log().head()).collect();
            heads.iter().all(|head| *head == heads[0])
        })
        .await;
    }

    /// Stops all nodes; returns their directories.
    pub async fn stop(self) -> Vec<TempDir> {
        let mut dirs = Vec::new();
        for node in self.nodes {
            dirs.push(node.stop().await);
        }
        dirs
    }
}
