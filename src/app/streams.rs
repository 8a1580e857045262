//! Ends music streams that a stop or crash interrupted: their listeners are gone, and they are not repeated.

use crate::actors::CommandContext;
use crate::actors::system::Dispatch;
use crate::clock::Surroundings;
use crate::domain::task::{Failure, Gateway, Stage, TaskCommand};
use crate::domain::value::Text;
use crate::projections::ReadModels;

/// Reason recorded for such a stream.
const CUT_OFF: &str = "the service stopped while the stream was being sent; it was not made again";

/// Fails every unfinished stream. If that cannot be recorded, the next start does it.
pub(super) async fn end_interrupted(dispatch: &Dispatch, models: &ReadModels, surroundings: &Surroundings) {
    let unfinished: Vec<_> = {
        let models = models.read();
        let unfinished = models.tasks.unfinished(Gateway::Music);
        unfinished.map(|(task, entry)| (task, entry.last_event, ending(&entry.record.stage))).collect()
    };
    for (task, last_event, command) in unfinished {
        let why = CommandContext::from_system(Some(last_event), surroundings.now());
        if let Err(error) = dispatch.task(task, command, why).await {
            tracing::warn!(%task, %error, "a stream that was interrupted could not be ended");
        }
    }
}

/// Returns the command for a stage. During a submission, the vendor may already have begun.
fn ending(stage: &Stage) -> TaskCommand {
    let unknown = "the service stopped while it asked the vendor, which may have begun; it is not asked again";
    match stage {
        Stage::Submitting { .. } => {
            TaskCommand::RecordUnknown { reason: Text::recorded(unknown.to_owned()), repeatable: false }
        }
        _ => TaskCommand::Fail { failure: Failure::interrupted(CUT_OFF) },
    }
}
