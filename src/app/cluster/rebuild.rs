//! `mediary cluster rebuild-engine`: continues the log in a new stream, because the engine has lost the former one, or to
//! free its space.
//!
//! The former stream ends with a closing group, or is lost. Then the location that all nodes use records where the next
//! generation begins. Only one directory can write this record, and a start requires the latest generation. So only one
//! of several directories begins a generation, and only those with the same log join it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use uuid::Uuid;

use super::alone::{self, AloneEvidence};
use super::generation::settle_generation;
use super::setup::{end_log, remove_derived_personal_data};
use super::verify::read_groups;
use super::{ClusterMember, ensure_checkpoint};
use crate::app::cluster_engine::deletion_command;
use crate::app::open_data_dir;
use crate::app::recovery::log_options;
use crate::cluster::generation::GenerationRecord;
use crate::cluster::leave_marker::LeaveMarker;
use crate::cluster::membership::Membership;
use crate::cluster::shared_location::SharedLocation;
use crate::config::Settings;
use crate::data_dir::DataDir;
use crate::environment::{Environment, FailPoint, RebuildStep};
use crate::events::journal::JournalHead;
use crate::events::log::LogFailure;
use crate::events::shared::checkpoint::EngineCheckpoint;
use crate::events::shared::engine::{Engine, EngineFault, EngineOpenError};
use crate::events::shared::generation::LogGeneration;
use crate::events::shared::shared_log::SharedLog;
use crate::events::sled_log::SledLog;

/// Number of times that the servers must report the stream as missing.
const LOSS_CONFIRMATIONS: usize = 4;
const LOSS_CONFIRMATION_INTERVAL: Duration = Duration::from_secs(1);

/// Decisions of the operator.
#[derive(Debug, Clone, Copy)]
pub struct RebuildOptions {
    pub evidence: AloneEvidence,
    /// Continue without the former stream if the engine does not have it.
    pub is_lost: bool,
    /// Delete the streams of earlier generations.
    pub deletes_former: bool,
}

/// Access to the streams of a log by generation.
pub struct EngineAccess<'e> {
    /// Opens a stream. Fails with [`EngineOpenError::Missing`] if there is none.
    pub open: &'e dyn Fn(LogGeneration) -> anyhow::Result<Arc<dyn Engine>>,
    /// Creates a stream, or opens an empty one. Fails if it has groups.
    pub create: &'e dyn Fn(LogGeneration) -> anyhow::Result<Arc<dyn Engine>>,
    /// Returns the generations of a log that have a stream.
    pub list: &'e dyn Fn(Uuid) -> anyhow::Result<Vec<LogGeneration>>,
    /// Deletes a stream, if there is one.
    pub delete: &'e dyn Fn(LogGeneration) -> anyhow::Result<()>,
}

/// Begins the next generation of the log with the data directory of a stopped node. Run again, it completes an
/// interrupted attempt. Returns the beginning of the generation.
///
/// # Errors
/// If another node is present or has ended the log, the engine does not respond or has lost groups, or the directory lacks
/// changes of a generation that has begun.
pub fn rebuild_engine(
    settings: &Settings,
    environment: &Environment,
    options: RebuildOptions,
    engine: &EngineAccess<'_>,
) -> anyhow::Result<GenerationRecord> {
    let data = open_data_dir(&settings.data_dir)?;
    let Some(membership) = Membership::read(data.root())? else {
        anyhow::bail!("{} is not a node of a cluster", data.root().display());
    };
    let member = ClusterMember::open(membership, &settings.cluster)?;
    let (local, _) = SledLog::open(&log_options(data.root(), settings), environment, |_| {})?;
    member.membership.check(data.root(), local.log_id())?;
    member.prepare_files(&data, environment)?;

    let ClusterMember { membership, location } = member;
    let mut membership = settle_generation(membership, data.root(), &location, local.journal_head())?;
    let is_recorded = LeaveMarker::is_outdated(data.root(), membership.log())?;
    if !is_recorded {
        ensure_checkpoint(&membership, data.root())?;
        let command = RebuildCommand { data: &data, location: &location, settings, environment, options, engine };
        let head = command.end_former(membership.log(), local)?;
        let record = command.begin_next(membership.log().next(), head)?;
        membership = membership.in_generation(record.log().number, record.base().clone());
        membership.write(data.root())?;
    }
    environment.hit(FailPoint::Rebuild(RebuildStep::MembershipWritten), "");

    if options.deletes_former {
        let LogGeneration { log_id, number } = membership.log();
        // Earlier rebuilds may have kept their former streams.
        for number in LogGeneration::FIRST..number {
            (engine.delete)(LogGeneration { log_id, number })?;
        }
    }
    environment.hit(FailPoint::Rebuild(RebuildStep::FormerDeleted), "");
    // Remove the marker last: without it, another run would begin one more generation.
    LeaveMarker::remove(data.root())?;
    Ok(membership.record())
}

/// One run of the command.
struct RebuildCommand<'a> {
    data: &'a DataDir,
    location: &'a SharedLocation,
    settings: &'a Settings,
    environment: &'a Environment,
    options: RebuildOptions,
    engine: &'a EngineAccess<'a>,
}

impl RebuildCommand<'_> {
    /// Applies everything that the former stream has, ends it, and closes the local log. Returns its end.
    fn end_former(&self, former: LogGeneration, local: SledLog) -> anyhow::Result<JournalHead> {
        let Self { data, settings, environment, options, .. } = *self;
        let marker_written = FailPoint::Rebuild(RebuildStep::MarkerWritten);
        let local = Arc::new(local);
        match self.open_former(former) {
            Ok(stream) => {
                alone::check(&*stream, options.evidence, environment)?;
                remove_derived_personal_data(data, environment)?;
                end_log(data, &local, former, Arc::clone(&stream), settings, environment, marker_written)
                    .map_err(|error| self.with_remedy(former, error, Some(&*stream)))?;
            }
            Err(error) if options.is_lost && is_missing(&error) => {
                self.check_loss(former, &local)?;
                LeaveMarker::begin(data.root(), former, environment)?;
                environment.hit(marker_written, "");
            }
            Err(error) => return Err(self.with_remedy(former, error, None)),
        }

        environment.hit(FailPoint::Rebuild(RebuildStep::LogEnded), "");
        let head = local.journal_head();
        local.close()?;
        Ok(head)
    }

    /// Opens the former stream. It counts as lost only after the servers have reported it missing several times: after
    /// a restart, they may not know all streams immediately.
    fn open_former(&self, former: LogGeneration) -> anyhow::Result<Arc<dyn Engine>> {
        let mut opened = (self.engine.open)(former);
        for _ in 1..LOSS_CONFIRMATIONS {
            if self.options.is_lost && opened.as_ref().is_err_and(is_missing) {
                thread::sleep(LOSS_CONFIRMATION_INTERVAL);
                opened = (self.engine.open)(former);
            }
        }
        opened
    }

    /// Checks everything that can be checked without the former stream, before the log continues without it.
    fn check_loss(&self, former: LogGeneration, local: &SledLog) -> anyhow::Result<()> {
        let Self { data, location, options, .. } = *self;
        anyhow::ensure!(
            options.evidence == AloneEvidence::Stated,
            "without the stream, this command cannot hear running nodes: make sure that all nodes are stopped, and add \
             --all-stopped"
        );
        SharedLog::read_checkpoint(local, &data.root().join("log"), former)?;

        let own_attempt = LeaveMarker::read(data.root(), former)?.map(|marker| marker.attempt());
        if let Some(leave) = location.read_leave(former.log_id)?
            && leave.log().number >= former.number
            && own_attempt != Some(leave.attempt())
        {
            anyhow::bail!(
                "`mediary cluster leave` on another directory has ended the cluster of {} at {}. Use that directory, with \
                 `mediary cluster init` for a new cluster. If it is lost with all its backups, remove {}",
                leave.log(),
                leave.end(),
                location.leave_record_name(leave.log())
            );
        }
        anyhow::ensure!(
            former.is_first() || location.read_generation(former.log_id)?.is_some_and(|record| record.log() == former),
            "the location in cluster.files has no record of {former}, to which this directory belongs: correct it, or restore {}",
            location.generation_name(former)
        );
        // An interrupted attempt may have created the empty stream of the next generation.
        self.check_none_after(if own_attempt.is_some() { former.next() } else { former })
    }

    /// Checks that the engine has no stream of a later generation than `latest`.
    fn check_none_after(&self, latest: LogGeneration) -> anyhow::Result<()> {
        let listed = (self.engine.list)(latest.log_id)?;
        match listed.into_iter().find(|listed| listed.number > latest.number) {
            None => Ok(()),
            Some(later) => anyhow::bail!(
                "the engine has the stream of {later}, of which the location in cluster.files has no record: correct it, restore \
                 {}, or complete `mediary cluster rebuild-engine` on the directory that has created the stream. If that \
                 directory is lost, see \"Make a new stream\" in docs/cluster.md",
                self.location.generation_name(later)
            ),
        }
    }

    /// Creates the stream of the next generation and records that it begins at the end of the local log.
    fn begin_next(&self, next: LogGeneration, head: JournalHead) -> anyhow::Result<GenerationRecord> {
        let Self { location, environment, engine, .. } = *self;
        self.check_none_after(next)?;
        (engine.create)(next)?;
        environment.hit(FailPoint::Rebuild(RebuildStep::StreamCreated), "");

        let own = GenerationRecord::new(next, head.into());
        let recorded = location.record_generation(&own, environment.uuid())?;
        anyhow::ensure!(
            recorded == own,
            "another directory has begun {next} at {}, but this one ends at {}: replace this one by a backup of that one",
            recorded.base(),
            own.base()
        );
        environment.hit(FailPoint::Rebuild(RebuildStep::GenerationRecorded), "");
        Ok(recorded)
    }

    /// Adds the remedy to an error: if the engine has lost the stream or a part of it, or if this directory differs
    /// from it.
    fn with_remedy(&self, former: LogGeneration, error: anyhow::Error, stream: Option<&dyn Engine>) -> anyhow::Error {
        let choice =
            "choose the data directory with the highest position among those that agree (`mediary audit verify`)";
        if is_missing(&error) {
            return anyhow::anyhow!("{error:#}. If they have lost it, {choice} and add --lost --all-stopped");
        }

        let is_damaged = matches!(error.downcast_ref(), Some(EngineOpenError::Damaged(_)));
        let is_diverged = matches!(error.downcast_ref(), Some(LogFailure::Diverged { .. }));
        if is_damaged || is_diverged && stream.is_some_and(|stream| self.has_lost_groups(former, stream)) {
            let delete = deletion_command(&self.settings.cluster, former);
            return anyhow::anyhow!(
                "{error:#}. The engine has lost groups: {choice}, delete the rest of the stream with `{delete}` and add --lost \
                 --all-stopped"
            );
        }
        if is_diverged {
            return anyhow::anyhow!(
                "{error:#}. Use another directory, and replace this one by a backup of a node. If every directory is refused, \
                 see \"Make a new stream\" in docs/cluster.md"
            );
        }
        error
    }

    /// Returns `true` if the stream lacks groups, or ends before the last one that this directory has applied.
    fn has_lost_groups(&self, former: LogGeneration, stream: &dyn Engine) -> bool {
        let checkpoint = EngineCheckpoint::read(&self.data.root().join("log"), former);
        let applied = checkpoint.ok().flatten().map_or(0, |checkpoint| checkpoint.sequence);
        let Ok(last) = stream.last() else { return false };
        let read = read_groups(stream, 0, last, |_, _| ControlFlow::Continue(()));
        last < applied || matches!(read, Ok(Some(EngineFault::Gap { .. } | EngineFault::Shorter { .. })))
    }
}

pub(super) fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(EngineOpenError::Missing(_)))
}
