//! The check that no node of a cluster is running, for commands that change its log.
//!
//! Nodes announce themselves twice a second. Silence alone proves nothing: the engine may be unreachable, or its user may
//! not be allowed to listen. So the command announces itself too, and silence counts while it hears itself.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cluster::presence::{BEAT_INTERVAL, Beat};
use crate::environment::Environment;
use crate::events::shared::engine::Engine;

/// Time without a node after which none is running.
const LISTEN_TIME: Duration = Duration::from_secs(4);
/// Time after which the command stops waiting to hear itself.
const LISTEN_MAX: Duration = Duration::from_secs(12);
/// Longest time between two own messages within [`LISTEN_TIME`].
const OWN_SILENCE_MAX: Duration = Duration::from_secs(2);

/// Evidence that no node is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AloneEvidence {
    /// The command hears itself, and no node.
    Heard,
    /// Statement of the operator. Accepted if the command hears no node, even if it does not hear itself.
    Stated,
}

/// Message of a command. Nodes ignore it.
#[derive(Serialize, Deserialize)]
struct CommandAnnouncement {
    command: Uuid,
}

/// Checks that no node is running.
///
/// # Errors
/// If a node or another command is heard, or the command cannot tell.
pub(super) fn check(engine: &dyn Engine, evidence: AloneEvidence, environment: &Environment) -> anyhow::Result<()> {
    let own = environment.uuid();
    let announcement = serde_json::to_vec(&CommandAnnouncement { command: own }).context("no announcement")?;
    let deadline = Instant::now() + LISTEN_MAX;
    let mut announced_at: Option<Instant> = None;
    let mut listening = Listening { own, heard_since: None, heard_at: None, other: None };
    engine.listen(&mut |message| {
        if announced_at.is_none_or(|at| at.elapsed() >= BEAT_INTERVAL) {
            engine.announce(&announcement);
            announced_at = Some(Instant::now());
        }
        if let Some(message) = message {
            listening.hear(message, Instant::now());
        }
        let is_over = listening.other.is_some() || listening.is_alone() || Instant::now() >= deadline;
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });

    let is_alone = listening.is_alone();
    match listening.other {
        Some(other) => anyhow::bail!("{other} is running: stop it first"),
        None if is_alone || evidence == AloneEvidence::Stated => Ok(()),
        None => anyhow::bail!(
            "cannot tell whether another node is running, because this command did not hear its own messages through the \
             engine. Check that the engine responds, and that its user may send and receive messages between nodes (NATS: the \
             subjects mdy.>; PostgreSQL: the table announcements). If you have made sure that all nodes are stopped, add \
             --all-stopped"
        ),
    }
}

/// Messages that a command has heard.
struct Listening {
    own: Uuid,
    /// Time since which the command has heard itself without a break.
    heard_since: Option<Instant>,
    /// Last time when it heard itself.
    heard_at: Option<Instant>,
    /// Description of a node or another command that was heard.
    other: Option<String>,
}

impl Listening {
    fn hear(&mut self, message: &[u8], at: Instant) {
        if let Ok(beat) = serde_json::from_slice::<Beat>(message) {
            self.other = Some(format!("the node {}", beat.url));
        } else if let Ok(CommandAnnouncement { command }) = serde_json::from_slice(message) {
            if command == self.own {
                let is_unbroken = self.heard_at.is_some_and(|last| at.duration_since(last) <= OWN_SILENCE_MAX);
                self.heard_since = self.heard_since.filter(|_| is_unbroken).or(Some(at));
                self.heard_at = Some(at);
            } else {
                self.other = Some("another `mediary cluster` command".to_owned());
            }
        }
    }

    /// Returns `true` if the command has heard only itself for long enough.
    fn is_alone(&self) -> bool {
        let heard_for = self.heard_since.zip(self.heard_at).map(|(since, at)| at.duration_since(since));
        self.other.is_none() && heard_for.is_some_and(|heard_for| heard_for >= LISTEN_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_only_while_the_command_hears_itself() {
        let own = Uuid::from_u128(1);
        let message = |command| serde_json::to_vec(&CommandAnnouncement { command }).unwrap();
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let mut listening = Listening { own, heard_since: None, heard_at: None, other: None };
        assert!(!listening.is_alone());

        // After a gap of 3 s, the time starts again.
        for second in [0, 1, 2, 5, 6, 7, 8] {
            listening.hear(&message(own), after(second));
            assert!(!listening.is_alone(), "{second}");
        }
        listening.hear(&message(own), after(9));
        assert!(listening.is_alone());

        listening.hear(&message(Uuid::from_u128(2)), after(9));
        assert!(!listening.is_alone());
    }
}
