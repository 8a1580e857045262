//! Streams that a stop or a crash cut off: nobody listens to them any more, and they are not made again.

use crate::actors::Circumstances;
use crate::actors::system::Dispatch;
use crate::clock::Surroundings;
use crate::domain::task::{Failure, Gateway, Stage, TaskCommand};
use crate::domain::value::Text;
use crate::projections::ReadModels;

/// What such a stream failed of.
const CUT_OFF: &str = "the service stopped while the stream was being sent; it was not made again";

/// Records of every stream that was not ended that it failed. One of which that cannot be recorded now is left to the next
/// start.
pub(super) async fn end_interrupted(dispatch: &Dispatch, models: &ReadModels, surroundings: &Surroundings) {
    let unfinished: Vec<_> = {
        let models = models.read();
        let unfinished = models.tasks.unfinished(Gateway::Music);
        unfinished.map(|(task, entry)| (task, entry.last_event, ending(&entry.record.stage))).collect()
    };
    for (task, last_event, command) in unfinished {
        let why = Circumstances::of_system(Some(last_event), surroundings.now());
        if let Err(error) = dispatch.task(task, command, why).await {
            tracing::warn!(%task, %error, "a stream that was interrupted could not be ended");
        }
    }
}

/// A vendor that was being asked may have begun.
fn ending(stage: &Stage) -> TaskCommand {
    let unknown = "the service stopped while it asked the vendor, which may have begun; it is not asked again";
    match stage {
        Stage::Submitting { .. } => {
            TaskCommand::RecordUnknown { reason: Text::recorded(unknown.to_owned()), repeatable: false }
        }
        _ => TaskCommand::Fail { failure: Failure::interrupted(CUT_OFF) },
    }
}
