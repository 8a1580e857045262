//! Starts from a snapshot: the start skips the log before the snapshot, and a background check reads it.

use std::path::Path;

use mediary::app::{OpenedLog, open_models};
use mediary::environment::Environment;
use mediary::events::sled_log::ScrubState;
use mediary::projections::node::view::Links;

use super::history::{self, LogHistory};
use super::kinds::Damage;
use super::{Outcome, ServedContents, judge_contents, judge_refusal, run_with_deadline};
use crate::support::eventually::eventually_blocking;

/// Result of one start and its background check.
enum Started {
    /// The check found nothing: the content, and the reports of the start.
    Complete(Box<ServedContents>, Vec<String>),
    /// The service did not start, for this reason.
    Refused(String),
    /// The check found this damage.
    DamageDetected(String),
}

/// Starts, waits until the background check is complete, and then reads everything.
fn start(directory: &Path) -> Started {
    let options = history::options(directory);
    let snapshots = history::snapshot_policy(directory);
    match open_models(&options, Some(&snapshots), &Environment::system(), &Links::default()) {
        Err(error) => Started::Refused(error.to_string()),
        Ok(OpenedLog { log, models, reports, .. }) => {
            let detected = eventually_blocking("the background check ends", || match log.verification().state {
                ScrubState::Checking => None,
                ScrubState::Intact => Some(None),
                ScrubState::Damaged { reason } => Some(Some(reason)),
            });
            let Some(reason) = detected else {
                return Started::Complete(Box::new(ServedContents::from_log(&log, models)), reports);
            };
            assert!(log.state().is_err(), "the log is writable although damage was detected");
            Started::DamageDetected(reason)
        }
    }
}

/// Returns the outcome of a start from the snapshot. If the background check finds damage, the next start must repair
/// or name it.
pub fn outcome_of_snapshot_start(history: &LogHistory, damage: &Damage, directory: &Path) -> Outcome {
    match start_with_deadline(directory) {
        Err(outcome) => outcome,
        Ok(Started::Refused(reason)) => judge_refusal(damage, directory, reason),
        Ok(Started::Complete(contents, reports)) => {
            judge_reports(judge_contents(&contents, &reports, history), damage, &reports)
        }
        Ok(Started::DamageDetected(reason)) => match start_with_deadline(directory) {
            Err(outcome) => outcome,
            Ok(Started::Refused(refusal)) => judge_refusal(damage, directory, refusal),
            Ok(Started::Complete(contents, reports)) if !reports.is_empty() => {
                judge_contents(&contents, &reports, history)
            }
            Ok(Started::Complete(..)) => {
                Outcome::Defect(format!("the next start reports nothing of the detected damage: {reason}"))
            }
            Ok(Started::DamageDetected(repeated)) => {
                Outcome::Defect(format!("the next start neither repairs nor refuses: {reason}, then {repeated}"))
            }
        },
    }
}

/// Starts in a thread; a panic or a hang is a defect.
fn start_with_deadline(directory: &Path) -> Result<Started, Outcome> {
    let directory = directory.to_owned();
    run_with_deadline(move || start(&directory))
}

/// Returns the outcome, or a defect if the start did not report a damaged snapshot.
fn judge_reports(outcome: Outcome, damage: &Damage, reports: &[String]) -> Outcome {
    let is_snapshot = damage.file().is_some_and(|file| file == Path::new("snapshots/models"));
    let is_invalid = matches!(damage, Damage::Flip { .. } | Damage::Cut { .. });
    if is_snapshot && is_invalid && !reports.iter().any(|report| report.contains("snapshots/models: ")) {
        return Outcome::Defect(format!("the snapshot is not named: {reports:?}"));
    }
    outcome
}
