//! `mediary cluster verify`: reads everything that the engine has.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::events::journal::ChainHash;
use crate::events::shared::engine::{Engine, EngineFault, EngineSignal};
use crate::events::shared::format::Group;

/// Time without a group after which the engine counts as silent.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Number of groups whose chain hashes are kept for comparison.
const CHAINS_MAX: usize = 100_000;
/// Number of findings that are reported.
const FINDINGS_MAX: usize = 20;

/// Result of reading the whole engine.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EngineContents {
    pub groups: u64,
    /// Changes that nodes have proposed.
    pub proposals: u64,
    pub bytes: u64,
    /// Descriptions of the first damages.
    pub findings: Vec<String>,
}

/// Reads all groups up to the last one and compares what their nodes had seen.
///
/// # Errors
/// If the engine does not respond.
pub fn verify_engine(engine: &dyn Engine) -> anyhow::Result<EngineContents> {
    let last = engine.last()?;
    let mut reading = EngineReading::default();
    let fault = read_groups(engine, 0, last, |sequence, group| {
        reading.read(sequence, group);
        ControlFlow::Continue(())
    })?;
    if let Some(fault) = fault {
        reading.find(fault.to_string());
    }
    Ok(reading.contents)
}

/// Calls `each` with the groups after `applied` up to `last`, until it breaks. Returns the fault of the engine, if it has
/// one.
///
/// # Errors
/// If the engine does not respond.
pub(super) fn read_groups(
    engine: &dyn Engine,
    applied: u64,
    last: u64,
    mut each: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> anyhow::Result<Option<EngineFault>> {
    if applied >= last {
        return Ok(None);
    }

    let mut read = applied;
    let mut is_complete = false;
    let mut heard_at = Instant::now();
    let followed = engine.follow(applied, &mut |signal| {
        let EngineSignal::Group { sequence, group } = signal else {
            return if heard_at.elapsed() < SILENCE_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        };
        heard_at = Instant::now();
        read = sequence;
        is_complete = each(sequence, &group).is_break() || sequence == last;
        if is_complete { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Err(fault) = followed {
        return Ok(Some(fault));
    }
    anyhow::ensure!(is_complete, "the engine stopped responding after group {read} of {last}");
    Ok(None)
}

/// Returns `true` if the stream has the group with which a command ended it.
///
/// # Errors
/// If the engine does not respond, or has lost groups.
pub(super) fn is_ended(engine: &dyn Engine) -> anyhow::Result<bool> {
    let mut is_ended = false;
    let fault = read_groups(engine, 0, engine.last()?, |_, group| {
        is_ended = Group::decode(group).is_ok_and(|group| group.closing_attempt().is_some());
        if is_ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    fault.map_or(Ok(is_ended), |fault| Err(fault.into()))
}

#[derive(Default)]
struct EngineReading {
    contents: EngineContents,
    /// By group, the chain hash that a node had after it, and the sequence of the first group that contained this hash.
    chains: BTreeMap<u64, (ChainHash, u64)>,
}

impl EngineReading {
    fn read(&mut self, sequence: u64, bytes: &[u8]) {
        self.contents.groups += 1;
        self.contents.bytes += bytes.len() as u64;
        let group = match Group::decode(bytes) {
            Ok(group) => group,
            Err(error) => return self.find(format!("group {sequence} cannot be read: {error}")),
        };
        self.contents.proposals += group.entries.len() as u64;

        let Group { sequence_seen, chain_seen, .. } = group;
        let (chain, by) = *self.chains.entry(sequence_seen).or_insert((chain_seen, sequence));
        if self.chains.len() > CHAINS_MAX {
            self.chains.pop_first();
        }
        if chain != chain_seen {
            self.find(format!(
                "the nodes of groups {by} and {sequence} had different logs after group {sequence_seen}"
            ));
        }
        if sequence_seen >= sequence {
            self.find(format!(
                "the node of group {sequence} had seen group {sequence_seen}, which does not precede it"
            ));
        }
    }

    fn find(&mut self, finding: String) {
        if self.contents.findings.len() < FINDINGS_MAX {
            self.contents.findings.push(finding);
        }
    }
}
