//! `mediary cluster rebuild-engine`: continues the log in a new stream, because the engine has lost the former one, or to
//! free its space.
//!
//! The former stream ends with a closing group, or is lost. Then the place that all nodes use records where the next generation
//! begins, once for all directories, and a start requires the latest generation. So of several directories only one begins
//! it, and only those with the same log join it.

use std::sync::Arc;

use super::alone::{self, AloneEvidence};
use super::generation::settle_generation;
use super::setup::{end_log, remove_derived_personal_data};
use super::{ensure_checkpoint, prepare_files};
use crate::app::bucket::shared_place;
use crate::app::cluster_engine::deletion_command;
use crate::app::open_data_dir;
use crate::app::recovery::log_options;
use crate::cluster::generation::GenerationRecord;
use crate::cluster::leave_marker::LeaveMarker;
use crate::cluster::membership::Membership;
use crate::cluster::shared_place::SharedPlace;
use crate::config::Settings;
use crate::data_dir::DataDir;
use crate::environment::{Environment, FailPoint, RebuildStep};
use crate::events::journal::JournalHead;
use crate::events::log::LogFailure;
use crate::events::shared::engine::{Engine, EngineOpenError};
use crate::events::shared::generation::LogGeneration;
use crate::events::sled_log::SledLog;

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
    /// Creates a stream, or opens an empty one.
    pub create: &'e dyn Fn(LogGeneration) -> anyhow::Result<Arc<dyn Engine>>,
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
    let place = shared_place(&settings.cluster)?;
    let Some(membership) = Membership::read(data.root())? else {
        anyhow::bail!("{} is no node of a cluster", data.root().display());
    };
    let (local, _) = SledLog::open(&log_options(data.root(), settings), environment, |_| {})?;
    membership.check(data.root(), local.log_id())?;
    prepare_files(&data, &settings.cluster, &membership, environment)?;

    let mut membership = settle_generation(membership, data.root(), &place, local.journal_head(), environment)?;
    let is_recorded = LeaveMarker::is_outdated(data.root(), membership.log())?;
    if !is_recorded {
        ensure_checkpoint(&membership, data.root())?;
        let command = RebuildCommand { data: &data, settings, environment, options, engine };
        let head = command.end_former(membership.log(), local)?;
        let record = command.begin_next(membership.log().next(), head, &place)?;
        membership = membership.in_generation(record.log().number, record.base().clone());
        membership.write(data.root())?;
    }
    environment.hit(FailPoint::Rebuild(RebuildStep::MembershipWritten), "");

    if options.deletes_former {
        let LogGeneration { log_id, number } = membership.log();
        // An earlier rebuild may have kept its stream.
        for number in LogGeneration::FIRST..number {
            (engine.delete)(LogGeneration { log_id, number })?;
        }
    }
    environment.hit(FailPoint::Rebuild(RebuildStep::FormerDeleted), "");
    // Last: without it, another run would begin one more generation.
    LeaveMarker::remove(data.root())?;
    Ok(membership.record())
}

/// One run of the command.
struct RebuildCommand<'a> {
    data: &'a DataDir,
    settings: &'a Settings,
    environment: &'a Environment,
    options: RebuildOptions,
    engine: &'a EngineAccess<'a>,
}

impl RebuildCommand<'_> {
    /// Applies everything that the former stream has, ends it, and closes the local log. Returns its end.
    fn end_former(&self, former: LogGeneration, local: SledLog) -> anyhow::Result<JournalHead> {
        let Self { data, settings, environment, options, engine } = *self;
        let marker_written = FailPoint::Rebuild(RebuildStep::MarkerWritten);
        let local = Arc::new(local);
        match (engine.open)(former) {
            Ok(stream) => {
                alone::check(&*stream, options.evidence, environment)?;
                remove_derived_personal_data(data, environment)?;
                end_log(data, &local, former, stream, settings, environment, marker_written)
                    .map_err(|error| self.with_remedy(former, error))?;
            }
            Err(error) if options.is_lost && is_missing(&error) => {
                LeaveMarker::begin(data.root(), former, environment)?;
                environment.hit(marker_written, "");
            }
            Err(error) => return Err(self.with_remedy(former, error)),
        }

        environment.hit(FailPoint::Rebuild(RebuildStep::LogEnded), "");
        let head = local.journal_head();
        local.close()?;
        Ok(head)
    }

    /// Creates the stream of the next generation, and records that it begins at the end of the local log.
    fn begin_next(
        &self,
        next: LogGeneration,
        head: JournalHead,
        place: &SharedPlace,
    ) -> anyhow::Result<GenerationRecord> {
        let Self { settings, environment, engine, .. } = *self;
        let stream = (engine.create)(next)?;
        anyhow::ensure!(
            stream.last()? == 0,
            "the engine has groups of {next} already, although it has not begun: delete them with `{}`",
            deletion_command(&settings.cluster, next)
        );
        environment.hit(FailPoint::Rebuild(RebuildStep::StreamCreated), "");

        let own = GenerationRecord::new(next, head.into());
        let recorded = place.record_generation(&own, environment.uuid())?;
        anyhow::ensure!(
            recorded == own,
            "another directory has begun {next} at {}, but this one ends at {}: replace this one by a backup of that one",
            recorded.base(),
            own.base()
        );
        environment.hit(FailPoint::Rebuild(RebuildStep::GenerationRecorded), "");
        Ok(recorded)
    }

    /// Adds what to do if the engine has lost the stream or a part of it.
    fn with_remedy(&self, former: LogGeneration, error: anyhow::Error) -> anyhow::Error {
        let choice =
            "choose the data directory with the highest position among those that agree (`mediary audit verify`)";
        if is_missing(&error) {
            return anyhow::anyhow!("{error:#}. If they have lost it, {choice} and add --lost");
        }
        let is_damaged = matches!(error.downcast_ref(), Some(EngineOpenError::Damaged(_)))
            || matches!(error.downcast_ref(), Some(LogFailure::Diverged { .. }));
        if !is_damaged {
            return error;
        }
        let delete = deletion_command(&self.settings.cluster, former);
        anyhow::anyhow!(
            "{error:#}. If the engine has lost groups, {choice}, delete the rest of the stream with `{delete}` and add --lost"
        )
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(EngineOpenError::Missing(_)))
}
