//! Starts from a snapshot: the background check covers what the start itself skips.

use std::path::Path;

use mediary::app::{OpenedLog, open_models};
use mediary::environment::Environment;
use mediary::events::sled_log::ScrubState;
use mediary::projections::node::view::Links;

use super::harm::Harm;
use super::history::{self, LogHistory};
use super::{Outcome, ServedContents, judge_contents, judge_refusal, run_with_deadline};
use crate::support::eventually::eventually_blocking;

/// Outcome of one start.
enum Started {
    /// Content and reports of a start without damage.
    Whole(Box<ServedContents>, Vec<String>),
    Refused(String),
    /// Damage found by the background check.
    FoundLater(String),
}

/// Starts, waits until the background check is complete, and then reads everything.
fn start(directory: &Path) -> Started {
    let (options, snapshots) = (history::options(directory), history::snapshots(directory));
    match open_models(&options, Some(&snapshots), &Environment::system(), &Links::default()) {
        Err(error) => Started::Refused(error.to_string()),
        Ok(OpenedLog { log, models, reports, .. }) => {
            let damage = eventually_blocking("the background check ends", || match log.verification().state {
                ScrubState::Checking => None,
                ScrubState::Intact => Some(None),
                ScrubState::Damaged { reason } => Some(Some(reason)),
            });
            let Some(reason) = damage else {
                return Started::Whole(Box::new(ServedContents::from_log(&log, models)), reports);
            };
            assert!(log.state().is_err(), "changes are taken on top of damage");
            Started::FoundLater(reason)
        }
    }
}

/// Starts from the snapshot. If the background check finds damage, the next start must repair or name it.
pub fn outcome(history: &LogHistory, harm: &Harm, directory: &Path) -> Outcome {
    match start_with_deadline(directory) {
        Err(outcome) => outcome,
        Ok(Started::Refused(reason)) => judge_refusal(harm, directory, reason),
        Ok(Started::Whole(contents, reports)) => {
            judge_reports(judge_contents(&contents, &reports, history), harm, &reports)
        }
        Ok(Started::FoundLater(found)) => match start_with_deadline(directory) {
            Err(outcome) => outcome,
            Ok(Started::Refused(reason)) => judge_refusal(harm, directory, reason),
            Ok(Started::Whole(contents, reports)) if !reports.is_empty() => {
                judge_contents(&contents, &reports, history)
            }
            Ok(Started::Whole(..)) => {
                Outcome::Broken(format!("the next start does not report the damage that was found: {found}"))
            }
            Ok(Started::FoundLater(repeated)) => {
                Outcome::Broken(format!("the next start neither repairs nor names the damage: {found}, {repeated}"))
            }
        },
    }
}

fn start_with_deadline(directory: &Path) -> Result<Started, Outcome> {
    let directory = directory.to_owned();
    run_with_deadline(move || start(&directory))
}

/// Requires that a damaged snapshot is reported.
fn judge_reports(outcome: Outcome, harm: &Harm, reports: &[String]) -> Outcome {
    let is_in_snapshot = harm.file().is_some_and(|file| file == Path::new("snapshots/models"));
    let is_change = matches!(harm, Harm::Flip { .. } | Harm::Cut { .. });
    if is_in_snapshot && is_change && !reports.iter().any(|report| report.contains("snapshots/models: ")) {
        return Outcome::Broken(format!("the snapshot is not named: {reports:?}"));
    }
    outcome
}
