//! Ends music streams that a stop or crash interrupted: their listeners are gone, and they are not repeated.

use std::time::Duration;

use crate::actors::CommandContext;
use crate::actors::system::Dispatch;
use crate::domain::task::{Gateway, TaskCommand, TaskFailure, TaskStage};
use crate::domain::value::Text;
use crate::environment::Environment;
use crate::projections::ReadModels;

/// Reason recorded for such a stream.
const INTERRUPTED_REASON: &str = "the service restarted during the stream; submit again";

/// Fails every unfinished stream that is at least `age_min` old; another node may still be sending a younger one. If
/// the failure cannot be recorded, the next start repeats this.
pub(super) async fn fail_interrupted(
    dispatch: &Dispatch,
    models: &ReadModels,
    environment: &Environment,
    age_min: Duration,
) {
    let now = environment.now();
    let unfinished: Vec<_> = {
        let models = models.read();
        let unfinished = models.tasks.unfinished(Gateway::Music);
        let unfinished = unfinished.filter(|(_, entry)| now.since(entry.record.created_at) >= age_min);
        unfinished.map(|(task, entry)| (task, entry.last_event, final_command(&entry.record.stage))).collect()
    };
    for (task, last_event, command) in unfinished {
        let command_context = CommandContext::from_system(Some(last_event), environment.now());
        if let Err(error) = dispatch.task(task, command, command_context).await {
            tracing::warn!(%task, %error, "interrupted stream not ended");
        }
    }
}

/// Returns the command for a stage. During a submission, the vendor may already have started.
fn final_command(stage: &TaskStage) -> TaskCommand {
    let reason = "the service stopped while it called the vendor, which may have started; the call is not repeated";
    match stage {
        TaskStage::Submitting { .. } => {
            TaskCommand::RecordUnknownOutcome { reason: Text::from_recorded(reason.to_owned()), repeatable: false }
        }
        _ => TaskCommand::Fail { failure: TaskFailure::interrupted(INTERRUPTED_REASON) },
    }
}
