//! Tests of every command in every stage of an image task, and of video tasks, which are queued, and music tasks, which
//! are streamed.

use std::time::Duration;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::domain::decider::testing::{NOW, RECORDED_AT, given};
use crate::domain::image::{ImageFormat, ImageJob, ImageWork, PictureSource, UpscaleJob};
use crate::domain::music::{MusicPrompt, MusicWork};
use crate::domain::value::Digest;
use crate::domain::video::{
    ExtendJob, ExtendModel, ExtendResolution, Footage, GenerateJob, Seed, VideoFormat, VideoJob, VideoSeconds,
    VideoWork,
};

type TaskDecision = Result<Vec<TaskEvent>, TaskRejection>;

fn picture(nth: u8) -> Picture {
    Picture { digest: Digest([nth; 32]), format: ImageFormat::Png, bytes: 100, width: 8, height: 8 }
}

fn image_submission(image: PictureSource) -> Submission {
    let job = ImageJob::Upscale(UpscaleJob::default());
    Submission {
        task: TaskId(Uuid::from_u128(1)),
        owner: Some(UserId(Uuid::from_u128(2))),
        work: TaskWork::Image(ImageWork { job, image, reference: None, seed: None, credits: 0 }),
        webhook: None,
        payers: None,
    }
}

fn submission() -> Submission {
    image_submission(PictureSource::Stored(picture(1)))
}

/// Returns a submission whose picture is at a URL.
fn remote() -> Submission {
    image_submission(PictureSource::Remote(CallbackUrl::parse("https://a.example/x.png").unwrap()))
}

fn text<const MAX: usize, const MULTILINE: bool>(text: &str) -> Text<MAX, MULTILINE> {
    Text::parse(text).unwrap()
}

fn failure(code: &str, message: &str) -> TaskFailure {
    TaskFailure { code: text(code), message: text(message) }
}

fn busy() -> TaskFailure {
    failure("vendor_busy", "the vendor has no capacity")
}

fn submitted() -> TaskEvent {
    TaskEvent::TaskSubmitted(submission())
}

fn started(attempt: u32) -> TaskEvent {
    TaskEvent::SubmissionStarted { attempt, key: text("key"), vendor: None }
}

fn accepted() -> TaskEvent {
    TaskEvent::VendorAccepted { reference: text("job-7") }
}

fn refused() -> TaskEvent {
    TaskEvent::VendorRefused { failure: busy() }
}

fn fetched() -> TaskEvent {
    TaskEvent::InputsFetched { inputs: vec![picture(1)] }
}

fn undelivered() -> TaskEvent {
    TaskEvent::SubmissionUndelivered { reason: text("no connection") }
}

fn unknown() -> TaskEvent {
    TaskEvent::OutcomeUnknown { reason: text("timed out") }
}

fn completed() -> TaskEvent {
    TaskEvent::TaskCompleted { results: vec![picture(2)] }
}

fn failed(failure: TaskFailure) -> TaskEvent {
    TaskEvent::TaskFailed { failure }
}

/// Returns a history that ends in each stage. A lost job waits for resubmission, but its status is not set back.
fn stages() -> [(&'static str, Vec<TaskEvent>); 9] {
    [
        ("absent", vec![]),
        ("inputs missing", vec![TaskEvent::TaskSubmitted(remote())]),
        ("created", vec![submitted()]),
        ("submitting", vec![submitted(), started(1)]),
        ("undelivered", vec![submitted(), started(1), undelivered()]),
        ("in progress", vec![submitted(), started(1), accepted()]),
        ("forgotten", vec![submitted(), started(1), accepted(), TaskEvent::VendorForgot]),
        ("completed", vec![submitted(), started(1), accepted(), completed()]),
        ("failed", vec![submitted(), failed(busy())]),
    ]
}

/// Stages of an unfinished task, by their names in [`stages`].
const UNFINISHED: [&str; 6] = ["inputs missing", "created", "submitting", "undelivered", "in progress", "forgotten"];

/// Returns every command with the stages that accept it, and the names of the events that follow there.
fn commands() -> Vec<(TaskCommand, Vec<&'static str>, &'static str)> {
    use TaskCommand::{
        Cancel, Complete, Fail, RecordAcceptance, RecordFinished, RecordInputs, RecordLostJob, RecordRefusal,
        RecordUndelivered, RecordUnknownOutcome, RecordWorkStarted, StartSubmission, Submit,
    };

    let start_once = StartSubmission { key: text("key"), repeatable: false, vendor: None };
    let start_repeatable = StartSubmission { key: text("key"), repeatable: true, vendor: None };
    let record_unknown = RecordUnknownOutcome { reason: text("timed out"), repeatable: false };
    let record_repeatable_unknown = RecordUnknownOutcome { reason: text("timed out"), repeatable: true };
    let record_inputs = RecordInputs { inputs: vec![picture(1)] };
    let record_acceptance = RecordAcceptance { reference: text("job-7") };
    let record_finished = RecordFinished { reference: text("job-7"), results: vec![picture(2)].into() };
    let record_refusal = RecordRefusal { failure: busy() };
    let record_undelivered = RecordUndelivered { reason: text("no connection") };
    let complete = Complete { results: vec![picture(2)].into() };
    let fail = Fail { failure: busy() };

    vec![
        (Submit(submission()), vec!["absent"], "TaskSubmitted"),
        (record_inputs, vec!["inputs missing"], "InputsFetched"),
        (start_once, vec!["created", "undelivered", "forgotten"], "SubmissionStarted"),
        (start_repeatable, vec!["created", "submitting", "undelivered", "forgotten"], "SubmissionStarted"),
        (record_acceptance, vec!["submitting"], "VendorAccepted"),
        (record_finished, vec!["submitting"], "VendorAccepted TaskCompleted"),
        (record_refusal, vec!["submitting"], "VendorRefused TaskFailed"),
        (record_undelivered, vec!["submitting"], "SubmissionUndelivered"),
        (record_unknown, vec!["submitting"], "OutcomeUnknown TaskFailed"),
        (record_repeatable_unknown, vec!["submitting"], "OutcomeUnknown"),
        (RecordWorkStarted, vec!["in progress"], ""),
        (RecordLostJob, vec!["in progress"], "VendorForgot"),
        (complete, vec!["in progress"], "TaskCompleted"),
        (fail, UNFINISHED.to_vec(), "TaskFailed"),
        (Cancel, UNFINISHED.to_vec(), "TaskCancelled"),
    ]
}

/// Returns the outcome of a command in a stage that does not accept it: a rejection, or nothing for a cancellation.
fn outcome_otherwise(command: &TaskCommand, stage: &str) -> &'static str {
    match command {
        TaskCommand::Submit(_) => "AlreadyExists",
        _ if stage == "absent" => "NotFound",
        TaskCommand::Cancel => "",
        _ => "WrongStage",
    }
}

fn status_of(state: &Task) -> Option<TaskStatus> {
    if let Task::Present(task) = state { Some(task.status) } else { None }
}

fn status_after(history: &[TaskEvent]) -> Option<TaskStatus> {
    status_of(&given::<Task>(history).state)
}

fn record(history: &[TaskEvent]) -> TaskRecord {
    match given::<Task>(history).state {
        Task::Absent => panic!("no task"),
        Task::Present(task) => *task,
    }
}

/// Returns the names of the events, or of the rejection.
fn describe(result: TaskDecision, status: Option<TaskStatus>) -> String {
    match result {
        Ok(events) => events.iter().map(TaskEvent::name).collect::<Vec<_>>().join(" "),
        Err(TaskRejection::AlreadyExists) => "AlreadyExists".to_owned(),
        Err(TaskRejection::NotFound) => "NotFound".to_owned(),
        Err(TaskRejection::WrongStage { status: rejected_status }) => {
            assert_eq!(Some(rejected_status), status, "the rejection names the status of the task");
            "WrongStage".to_owned()
        }
    }
}

/// Returns `true` if a client may see `after` right after `before` (contract 5). A task may fail before a vendor
/// accepted it.
fn is_legal_transition(before: Option<TaskStatus>, after: Option<TaskStatus>) -> bool {
    use TaskStatus::{Completed, Created, Failed, InProgress};
    before == after
        || matches!(
            (before, after),
            (None, Some(Created))
                | (Some(Created), Some(InProgress | Failed))
                | (Some(InProgress), Some(Completed | Failed))
        )
}

/// Returns `true` if stage and status are consistent.
fn status_matches_stage(state: &Task) -> bool {
    let Task::Present(task) = state else { return true };
    match task.stage {
        TaskStage::Waiting { attempts: 0 } => task.status == TaskStatus::Created,
        TaskStage::Waiting { .. } | TaskStage::Submitting { .. } => !task.is_terminal(),
        TaskStage::InProgress { .. } | TaskStage::Streaming => task.status == TaskStatus::InProgress,
        TaskStage::Completed { .. } => task.status == TaskStatus::Completed,
        TaskStage::Failed { .. } => task.status == TaskStatus::Failed,
    }
}

fn any_command() -> impl Strategy<Value = TaskCommand> {
    let commands: Vec<_> = commands().into_iter().map(|(command, ..)| command).collect();
    proptest::sample::select(commands)
}

fn any_event() -> impl Strategy<Value = TaskEvent> {
    let events = [
        submitted(),
        started(1),
        accepted(),
        refused(),
        unknown(),
        TaskEvent::VendorForgot,
        completed(),
        failed(busy()),
        fetched(),
        undelivered(),
        TaskEvent::TaskCancelled,
    ];
    proptest::sample::select(events.to_vec())
}

fn work(job: VideoJob, images: Vec<PictureSource>) -> TaskWork {
    TaskWork::Video(VideoWork { job, images, seed: Seed::from_random(1), payload: None, meta_data: None, credits: 150 })
}

fn submission_with(work: TaskWork) -> Submission {
    Submission { task: TaskId(Uuid::from_u128(1)), owner: None, work, webhook: None, payers: None }
}

fn url(name: &str) -> CallbackUrl {
    CallbackUrl::parse(&format!("https://a.example/{name}")).unwrap()
}

/// Returns a video whose picture is stored.
fn video() -> Submission {
    submission_with(work(VideoJob::StartEnd(GenerateJob::default()), vec![PictureSource::Stored(picture(1))]))
}

/// Returns a video extension whose video and end picture are not stored.
fn extension() -> Submission {
    let video =
        Footage { creation: Some(TaskId(Uuid::from_u128(3))), url: url("x.mp4"), stored: None, vendor_id: None };
    let model = ExtendModel::Vq2Pro;
    let resolution = ExtendResolution::P540;
    let job = ExtendJob { model, resolution, seconds: VideoSeconds::DEFAULT, prompt: None, video };
    submission_with(work(VideoJob::Extend(job), vec![PictureSource::Remote(url("end.png"))]))
}

fn music() -> Submission {
    submission_with(TaskWork::Music(MusicWork {
        prompt: MusicPrompt::parse("a waltz").unwrap(),
        seconds: None,
        credits: 0,
    }))
}

fn clip() -> Clip {
    Clip { digest: Digest([7; 32]), format: VideoFormat::Mp4, bytes: 70 }
}

fn creation() -> Creation {
    Creation { video: clip(), cover: Some(picture(2)), watermarked: None, vendor_id: None }
}

fn stream() -> MusicStream {
    MusicStream { title: text("Waltz"), millis: 30_000, bytes: 480_000, files: None }
}

/// Returns the events of each command, run in order, and the status after it.
fn run_commands(commands: Vec<TaskCommand>) -> Vec<(Vec<TaskEvent>, Option<TaskStatus>)> {
    let mut state = Task::default();
    let mut run = |command| {
        let events = Task::decide(&state, command, NOW).unwrap_or_else(|rejection| panic!("{rejection:?}"));
        for event in &events {
            Task::evolve(&mut state, event, NOW);
        }
        (events, status_of(&state))
    };
    commands.into_iter().map(&mut run).collect()
}

fn start() -> TaskCommand {
    TaskCommand::StartSubmission { key: text("key"), repeatable: false, vendor: None }
}

fn accept() -> TaskCommand {
    TaskCommand::RecordAcceptance { reference: text("job-7") }
}

#[test]
fn every_command_has_its_outcome_in_every_stage() {
    for (command, accepting_stages, events) in commands() {
        for (stage, history) in stages() {
            let is_accepted = accepting_stages.contains(&stage);
            let expected = if is_accepted { events } else { outcome_otherwise(&command, stage) };
            let result = given::<Task>(&history).when(command.clone()).result;
            assert_eq!(describe(result, status_after(&history)), expected, "{command:?} when {stage}");
        }
    }
}

#[test]
fn a_submission_is_recorded_unchanged() {
    given::<Task>([]).when(TaskCommand::Submit(submission())).then([submitted()]);
    let task = record(&[submitted()]);
    assert_eq!(
        (task.submission, task.stage, task.status),
        (submission(), TaskStage::Waiting { attempts: 0 }, TaskStatus::Created)
    );
    assert_eq!((task.created_at, task.updated_at), (RECORDED_AT, RECORDED_AT));
}

#[test]
fn attempts_are_counted_and_the_key_is_kept() {
    let start_repeatable = TaskCommand::StartSubmission { key: text("key"), repeatable: true, vendor: None };
    let mut history = vec![submitted()];
    given::<Task>(&history).when(start()).then([started(1)]);
    history.extend([started(1), unknown()]);
    given::<Task>(&history).when(start_repeatable).then([started(2)]);

    history.extend([started(2), accepted()]);
    let in_progress = TaskStage::InProgress { attempt: 2, key: text("key"), reference: text("job-7") };
    assert_eq!(record(&history).stage, in_progress);

    history.push(TaskEvent::VendorForgot);
    assert_eq!(record(&history).stage, TaskStage::Waiting { attempts: 2 });
    given::<Task>(&history).when(start()).then([started(3)]);
}

#[test]
fn a_refusal_fails_the_task_with_the_vendors_reason() {
    let history = [submitted(), started(1)];
    given::<Task>(&history).when(TaskCommand::RecordRefusal { failure: busy() }).then([refused(), failed(busy())]);
}

#[test]
fn an_unknown_outcome_that_must_not_be_repeated_fails_the_task() {
    let command = TaskCommand::RecordUnknownOutcome { reason: text("timed out"), repeatable: false };
    let failed_event = failed(failure("outcome_unknown", "timed out"));
    given::<Task>([submitted(), started(1)]).when(command).then([unknown(), failed_event]);
}

#[test]
fn only_a_completed_task_has_results() {
    for (stage, history) in stages().into_iter().skip(1) {
        let expected = (stage == "completed").then(|| TaskResults::Pictures(vec![picture(2)]));
        assert_eq!(record(&history).results(), expected.as_ref(), "{stage}");
    }
}

#[test]
fn fetched_inputs_replace_their_urls() {
    let history = [TaskEvent::TaskSubmitted(remote())];
    assert!(record(&history).submission.work.has_missing_inputs());
    assert_eq!(record(&[TaskEvent::TaskSubmitted(remote()), fetched()]).submission, submission());
}

#[test]
fn a_cancelled_task_stays_failed() {
    let task = record(&[submitted(), started(1), accepted(), TaskEvent::TaskCancelled, completed()]);
    assert_eq!(task.stage, TaskStage::Failed { failure: TaskFailure::cancelled() });
}

#[test]
fn an_undelivered_submission_is_repeated_as_the_next_attempt() {
    let history = [submitted(), started(1), undelivered()];
    let start = TaskCommand::StartSubmission { key: text("key"), repeatable: false, vendor: None };
    given::<Task>(&history).when(start).then([started(2)]);
}

#[test]
fn two_statuses_are_terminal() {
    for (stage, history) in stages().into_iter().skip(1) {
        assert_eq!(record(&history).is_terminal(), matches!(stage, "completed" | "failed"), "{stage}");
    }
}

#[test]
fn resubmission_does_not_set_the_status_back() {
    let history = [submitted(), started(1), accepted(), TaskEvent::VendorForgot, started(2), unknown()];
    for events in (3..=history.len()).map(|end| &history[..end]) {
        assert_eq!(status_after(events), Some(TaskStatus::InProgress));
    }
}

#[test]
fn only_events_that_fit_the_stage_count() {
    let events = [
        (submitted(), vec!["absent"]),
        (fetched(), vec!["inputs missing", "created", "undelivered", "forgotten"]),
        (started(9), vec!["inputs missing", "created", "submitting", "undelivered", "forgotten"]),
        (accepted(), vec!["submitting"]),
        (refused(), vec!["submitting"]),
        (undelivered(), vec!["submitting"]),
        (unknown(), vec!["submitting"]),
        (TaskEvent::VendorForgot, vec!["in progress"]),
        (completed(), vec!["in progress"]),
        (failed(busy()), UNFINISHED.to_vec()),
        (TaskEvent::TaskCancelled, UNFINISHED.to_vec()),
    ];
    for (event, accepting_stages) in events {
        for (stage, history) in stages() {
            let before = given::<Task>(&history).state;
            let after = given::<Task>(&history).and_now(event.clone()).state;
            assert_eq!(after != before, accepting_stages.contains(&stage), "{event:?} when {stage}");
        }
    }
}

proptest! {
    #[test]
    fn commands_make_only_legal_transitions(commands in prop::collection::vec(any_command(), 0..40)) {
        let mut state = Task::default();
        for (second, command) in (1..).zip(commands) {
            let now = NOW.saturating_add(Duration::from_secs(second));
            for event in Task::decide(&state, command, now).unwrap_or_default() {
                let before = state.clone();
                Task::evolve(&mut state, &event, now);
                prop_assert_ne!(&state, &before, "an event that was decided counts");
                prop_assert!(is_legal_transition(status_of(&before), status_of(&state)));
                prop_assert!(status_matches_stage(&state));
            }
        }
    }

    #[test]
    fn histories_make_only_legal_transitions(history in prop::collection::vec(any_event(), 0..40)) {
        let mut state = Task::default();
        for event in history {
            let before = status_of(&state);
            Task::evolve(&mut state, &event, NOW);
            prop_assert!(is_legal_transition(before, status_of(&state)));
            prop_assert!(status_matches_stage(&state));
        }
    }
}

#[test]
fn a_video_queues_until_its_vendor_begins() {
    let complete = TaskCommand::Complete { results: TaskResults::Video(creation()) };
    let submit = TaskCommand::Submit(video());
    let outcomes = run_commands(vec![
        submit,
        start(),
        accept(),
        TaskCommand::RecordWorkStarted,
        TaskCommand::RecordWorkStarted,
        complete,
    ]);
    let expected = [
        (vec![TaskEvent::TaskSubmitted(video()), TaskEvent::TaskQueued], Some(TaskStatus::Queueing)),
        (vec![started(1)], Some(TaskStatus::Queueing)),
        (vec![accepted()], Some(TaskStatus::Queueing)),
        (vec![TaskEvent::WorkBegan], Some(TaskStatus::InProgress)),
        (vec![], Some(TaskStatus::InProgress)),
        (vec![TaskEvent::VideoCompleted { creation: creation() }], Some(TaskStatus::Completed)),
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn a_video_completed_before_the_first_poll_was_in_progress() {
    let complete = TaskCommand::Complete { results: TaskResults::Video(creation()) };
    let outcomes = run_commands(vec![TaskCommand::Submit(video()), start(), accept(), complete]);
    let completed = vec![TaskEvent::WorkBegan, TaskEvent::VideoCompleted { creation: creation() }];
    assert_eq!(outcomes.last(), Some(&(completed, Some(TaskStatus::Completed))));
}

#[test]
fn a_video_queues_once_all_inputs_are_fetched() {
    let inputs = vec![picture(1)];
    let clip = clip();
    let record_inputs = [TaskCommand::RecordInputs { inputs: inputs.clone() }, TaskCommand::RecordFootage { clip }];
    let outcomes = run_commands([vec![TaskCommand::Submit(extension())], record_inputs.to_vec()].concat());
    let expected = [
        (vec![TaskEvent::TaskSubmitted(extension())], Some(TaskStatus::Created)),
        (vec![TaskEvent::InputsFetched { inputs }], Some(TaskStatus::Created)),
        (vec![TaskEvent::FootageFetched { clip }, TaskEvent::TaskQueued], Some(TaskStatus::Queueing)),
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn a_resubmitted_video_does_not_queue_again() {
    let first_attempt = [TaskEvent::TaskSubmitted(video()), TaskEvent::TaskQueued, started(1), accepted()];
    let second_attempt = [TaskEvent::WorkBegan, TaskEvent::VendorForgot, started(2), accepted()];
    let history = [first_attempt, second_attempt].concat();
    for events in (5..=history.len()).map(|end| &history[..end]) {
        assert_eq!(status_after(events), Some(TaskStatus::InProgress));
    }
    given::<Task>(&history).when(TaskCommand::RecordWorkStarted).then_nothing();
}

#[test]
fn a_stream_of_the_built_in_engine_begins_and_completes() {
    let complete = TaskCommand::Complete { results: TaskResults::Music(stream()) };
    let outcomes = run_commands(vec![TaskCommand::Submit(music()), TaskCommand::RecordWorkStarted, complete]);
    let expected = [
        (vec![TaskEvent::TaskSubmitted(music())], Some(TaskStatus::Created)),
        (vec![TaskEvent::WorkBegan], Some(TaskStatus::InProgress)),
        (vec![TaskEvent::StreamCompleted { stream: stream() }], Some(TaskStatus::Completed)),
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn a_stream_of_a_vendor_is_requested_only_once() {
    let created = vec![TaskEvent::TaskSubmitted(music())];
    let submitting = [created.clone(), vec![started(1)]].concat();
    let accepted_history = [submitting.clone(), vec![accepted()]].concat();

    given::<Task>(&created).when(start()).then([started(1)]);
    given::<Task>(&submitting).when(accept()).then([accepted()]);

    let complete = TaskCommand::Complete { results: TaskResults::Music(stream()) };
    let completed = TaskEvent::StreamCompleted { stream: stream() };
    given::<Task>(&accepted_history).when(complete).then([completed]);

    for history in [&submitting, &accepted_history] {
        for repeatable in [true, false] {
            let start = TaskCommand::StartSubmission { key: text("key"), repeatable, vendor: None };
            given::<Task>(history).when(start).rejection();
        }
    }
}

#[test]
fn a_stream_can_fail_or_be_cancelled_before_and_after_it_begins() {
    let created = vec![TaskEvent::TaskSubmitted(music())];
    let streaming = [created.clone(), vec![TaskEvent::WorkBegan]].concat();
    for history in [&created, &streaming] {
        let fail = TaskCommand::Fail { failure: busy() };
        given::<Task>(history).when(fail).then([failed(busy())]);
        given::<Task>(history).when(TaskCommand::Cancel).then([TaskEvent::TaskCancelled]);
        let rejected = TaskRejection::WrongStage { status: record(history).status };
        given::<Task>(history).when(accept()).then_rejected(rejected);
    }

    let rejected = TaskRejection::WrongStage { status: record(&streaming).status };
    given::<Task>(&streaming).when(start()).then_rejected(rejected);
    let complete = TaskCommand::Complete { results: TaskResults::Music(stream()) };
    given::<Task>(&created).when(complete).rejection();
}

fn vendor_named(name: &str) -> RecordedVendor {
    RecordedVendor { name: text(name), profile: text("mediary"), profile_hash: None, price: VendorPrice::default() }
}

fn start_at(name: &str) -> TaskCommand {
    TaskCommand::StartSubmission { key: text("key"), repeatable: false, vendor: Some(vendor_named(name)) }
}

fn start_repeatable_at(name: &str) -> TaskCommand {
    TaskCommand::StartSubmission { key: text("key"), repeatable: true, vendor: Some(vendor_named(name)) }
}

fn started_at(name: &str, attempt: u32) -> TaskEvent {
    TaskEvent::SubmissionStarted { attempt, key: text("key"), vendor: Some(vendor_named(name)) }
}

/// Returns the name of the vendor that has, or may have, the job.
fn vendor_after(history: &[TaskEvent]) -> Option<String> {
    record(history).vendor.and_then(|vendor| vendor.recorded).map(|vendor| vendor.name.to_string())
}

#[test]
fn another_vendor_follows_only_one_that_certainly_has_no_job() {
    let at_first = vec![submitted(), started_at("first", 1)];
    let without_job = [
        vec![submitted()],
        [at_first.clone(), vec![undelivered()]].concat(),
        [at_first.clone(), vec![accepted(), TaskEvent::VendorForgot]].concat(),
    ];
    for history in without_job {
        let attempt = u32::from(history.len() > 1) + 1;
        assert_eq!(vendor_after(&history), None);
        given::<Task>(&history).when(start_at("second")).then([started_at("second", attempt)]);
    }

    let may_have_job = [at_first.clone(), [at_first, vec![unknown()]].concat()];
    for history in may_have_job {
        assert_eq!(vendor_after(&history).as_deref(), Some("first"));
        given::<Task>(&history).when(start_repeatable_at("second")).rejection();
        given::<Task>(&history).when(start_repeatable_at("first")).then([started_at("first", 2)]);
    }
}

#[test]
fn a_repeated_submission_that_does_not_arrive_leaves_the_first_one_in_doubt() {
    // Given a submission of unknown outcome whose repetition does not arrive
    let history = [submitted(), started_at("first", 1), unknown(), started_at("first", 2), undelivered()];

    // Then only the same vendor gets the job, however often it does not arrive
    let again = [history.to_vec(), vec![started_at("first", 3), undelivered()]].concat();
    for history in [&history[..], &again] {
        assert_eq!(vendor_after(history).as_deref(), Some("first"));
        given::<Task>(history).when(start_repeatable_at("second")).rejection();
    }
    given::<Task>(&again).when(start_repeatable_at("first")).then([started_at("first", 4)]);

    // And not even this one without a key that it honours: the outcome is unknown
    given::<Task>(&again).when(start_at("first")).rejection();
    let give_up = TaskCommand::RecordUnknownOutcome { reason: text("no answer"), repeatable: false };
    let end = failed(failure("outcome_unknown", "no answer"));
    given::<Task>(&again).when(give_up).then([end]);
    let repeat = TaskCommand::RecordUnknownOutcome { reason: text("no answer"), repeatable: true };
    given::<Task>(&again).when(repeat).rejection();
}

#[test]
fn a_vendor_whose_terms_changed_is_the_same_one() {
    let history = [submitted(), started_at("first", 1)];
    let price = VendorPrice::from_thousandths(7);
    let with_terms = |profile: &str| {
        let vendor = RecordedVendor {
            profile: text(profile),
            profile_hash: Some(Digest([1; 32])),
            price,
            ..vendor_named("first")
        };
        TaskCommand::StartSubmission { key: text("key"), repeatable: true, vendor: Some(vendor) }
    };
    assert!(given::<Task>(&history).when(with_terms("mediary")).result.is_ok());
    given::<Task>(&history).when(with_terms("other")).rejection();
    given::<Task>([submitted(), started(1)]).when(start_repeatable_at("any")).then([started_at("any", 2)]);
}

#[test]
fn an_ended_task_keeps_its_vendor_and_the_reference_of_its_job() {
    let history = [submitted(), started_at("first", 1), accepted()];
    for end in [completed(), failed(busy()), TaskEvent::TaskCancelled] {
        let vendor = record(&[history.to_vec(), vec![end]].concat()).vendor.unwrap();
        assert_eq!((vendor.recorded, vendor.reference), (Some(vendor_named("first")), Some(text("job-7"))));
    }
}

#[test]
fn a_stream_moves_on_only_after_a_vendor_that_did_not_take_it() {
    let created = vec![TaskEvent::TaskSubmitted(music())];
    let at_first = [created.clone(), vec![started_at("first", 1)]].concat();
    let undelivered_history = [at_first.clone(), vec![undelivered()]].concat();

    given::<Task>(&undelivered_history).when(start_at("second")).then([started_at("second", 2)]);
    given::<Task>(&undelivered_history).when(TaskCommand::RecordWorkStarted).then([TaskEvent::WorkBegan]);

    for history in [at_first.clone(), [at_first, vec![accepted()]].concat()] {
        for name in ["first", "second"] {
            given::<Task>(&history).when(start_at(name)).rejection();
            given::<Task>(&history).when(start_repeatable_at(name)).rejection();
        }
    }
}
