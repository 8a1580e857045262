//! Tests of every command in every stage of an image task; `record/tests.rs` covers the other tasks.

use super::*;
use crate::domain::decider::testing::{NOW, RECORDED_AT, given_when, state_after};
use crate::domain::image::{ImageFormat, ImageJob, ImageWork, PictureSource, UpscaleJob};
use crate::domain::value::Digest;
use proptest::prelude::*;
use std::time::Duration;
use uuid::Uuid;

type Answer = Result<Vec<TaskEvent>, TaskRejection>;

pub(super) fn picture(nth: u8) -> Picture {
    Picture { digest: Digest([nth; 32]), format: ImageFormat::Png, bytes: 100, width: 8, height: 8 }
}

fn submission_of(image: PictureSource) -> Submission {
    let job = ImageJob::Upscale(UpscaleJob::default());
    Submission {
        task: TaskId(Uuid::from_u128(1)),
        owner: Some(UserId(Uuid::from_u128(2))),
        work: TaskWork::Image(ImageWork { job, image, reference: None, seed: None }),
        webhook: None,
    }
}

fn submission() -> Submission {
    submission_of(PictureSource::Stored(picture(1)))
}

/// Returns a submission whose picture is at a URL.
fn remote() -> Submission {
    submission_of(PictureSource::Remote(CallbackUrl::parse("https://a.example/x.png").unwrap()))
}

pub(super) fn text<const MAX: usize, const MULTILINE: bool>(text: &str) -> Text<MAX, MULTILINE> {
    Text::parse(text).unwrap()
}

fn failure(code: &str, message: &str) -> TaskFailure {
    TaskFailure { code: text(code), message: text(message) }
}

pub(super) fn busy() -> TaskFailure {
    failure("vendor_busy", "the vendor has no place")
}

fn submitted() -> TaskEvent {
    TaskEvent::TaskSubmitted(submission())
}

pub(super) fn started(attempt: u32) -> TaskEvent {
    TaskEvent::SubmissionStarted { attempt, key: text("key") }
}

pub(super) fn accepted() -> TaskEvent {
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

pub(super) fn failed(failure: TaskFailure) -> TaskEvent {
    TaskEvent::TaskFailed { failure }
}

/// Returns a history that ends in each stage. A lost job waits for resubmission, but its status is not set back.
fn stages() -> [(&'static str, Vec<TaskEvent>); 9] {
    [
        ("absent", vec![]),
        ("lacking", vec![TaskEvent::TaskSubmitted(remote())]),
        ("created", vec![submitted()]),
        ("submitting", vec![submitted(), started(1)]),
        ("undelivered", vec![submitted(), started(1), undelivered()]),
        ("in progress", vec![submitted(), started(1), accepted()]),
        ("forgotten", vec![submitted(), started(1), accepted(), TaskEvent::VendorForgot]),
        ("completed", vec![submitted(), started(1), accepted(), completed()]),
        ("failed", vec![submitted(), failed(busy())]),
    ]
}

/// Returns every command with its outcome in every stage, in the order of [`stages`].
#[rustfmt::skip]
fn table() -> [(TaskCommand, [&'static str; 9]); 14] {
    use TaskCommand::{Cancel, Complete, Fail, StartSubmission, Submit};
    use TaskCommand::{RecordAcceptance, RecordWorkStarted, RecordLostJob, RecordInputs, RecordRefusal, RecordUndelivered, RecordUnknownOutcome};
    let start_submission = |repeatable| StartSubmission { key: text("key"), repeatable };
    let record_unknown = |repeatable| RecordUnknownOutcome { reason: text("timed out"), repeatable };
    let acceptance = RecordAcceptance { reference: text("job-7") };
    let refusal = RecordRefusal { failure: busy() };
    let completion = Complete { results: vec![picture(2)].into() };
    let fail = Fail { failure: busy() };
    let inputs = RecordInputs { inputs: vec![picture(1)] };
    let undeliverable = RecordUndelivered { reason: text("no connection") };
    let not_found = "NotFound";
    let wrong_stage = "WrongStage";
    let already_exists = "AlreadyExists";
    let started = "SubmissionStarted";
    let accepted = "VendorAccepted";
    let failed = "TaskFailed";
    let cancelled = "TaskCancelled";
    let refused = "VendorRefused TaskFailed";
    let unknown_and_failed = "OutcomeUnknown TaskFailed";
    let outcome_unknown = "OutcomeUnknown";
    let vendor_forgot = "VendorForgot";
    let completed = "TaskCompleted";
    let fetched = "InputsFetched";
    let undelivered_event = "SubmissionUndelivered";
    [
        //                         absent           lacking  created  submitting undelivered in progress forgotten completed failed
        (Submit(submission()),    ["TaskSubmitted", already_exists,   already_exists,   already_exists,     already_exists,      already_exists,      already_exists,    already_exists,    already_exists]),
        (inputs,                  [not_found,            fetched, wrong_stage,      wrong_stage,        wrong_stage,         wrong_stage,         wrong_stage,       wrong_stage,       wrong_stage]),
        (start_submission(false),            [not_found,            wrong_stage,      started, wrong_stage,        started,    wrong_stage,         started,  wrong_stage,       wrong_stage]),
        (start_submission(true),             [not_found,            wrong_stage,      started, started,   started,    wrong_stage,         started,  wrong_stage,       wrong_stage]),
        (acceptance,              [not_found,            wrong_stage,      wrong_stage,      accepted,  wrong_stage,         wrong_stage,         wrong_stage,       wrong_stage,       wrong_stage]),
        (RecordWorkStarted,             [not_found,            wrong_stage,      wrong_stage,      wrong_stage,        wrong_stage,         "",         wrong_stage,       wrong_stage,       wrong_stage]),
        (refusal,                 [not_found,            wrong_stage,      wrong_stage,      refused,   wrong_stage,         wrong_stage,         wrong_stage,       wrong_stage,       wrong_stage]),
        (undeliverable,           [not_found,            wrong_stage,      wrong_stage,      undelivered_event,      wrong_stage,         wrong_stage,         wrong_stage,       wrong_stage,       wrong_stage]),
        (record_unknown(false),          [not_found,            wrong_stage,      wrong_stage,      unknown_and_failed,      wrong_stage,         wrong_stage,         wrong_stage,       wrong_stage,       wrong_stage]),
        (record_unknown(true),           [not_found,            wrong_stage,      wrong_stage,      outcome_unknown,    wrong_stage,         wrong_stage,         wrong_stage,       wrong_stage,       wrong_stage]),
        (RecordLostJob,         [not_found,            wrong_stage,      wrong_stage,      wrong_stage,        wrong_stage,         vendor_forgot,     wrong_stage,       wrong_stage,       wrong_stage]),
        (completion,              [not_found,            wrong_stage,      wrong_stage,      wrong_stage,        wrong_stage,         completed,  wrong_stage,       wrong_stage,       wrong_stage]),
        (fail,                 [not_found,            failed,  failed,  failed,    failed,     failed,     failed,   wrong_stage,       wrong_stage]),
        (Cancel,                  [not_found,            cancelled,   cancelled,   cancelled,     cancelled,      cancelled,      cancelled,    "",       ""]),
    ]
}

pub(super) fn status_of(state: &Task) -> Option<TaskStatus> {
    if let Task::Present(task) = state { Some(task.status) } else { None }
}

pub(super) fn status_after(history: &[TaskEvent]) -> Option<TaskStatus> {
    status_of(&state_after::<Task>(history))
}

pub(super) fn record(history: &[TaskEvent]) -> TaskRecord {
    match state_after::<Task>(history) {
        Task::Absent => panic!("no task"),
        Task::Present(task) => *task,
    }
}

/// Returns the names of the events, or of the rejection.
fn describe(result: Answer, status: Option<TaskStatus>) -> String {
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

#[test]
fn every_command_is_answered_in_every_stage() {
    for (command, expected_events) in table() {
        for ((stage, history), expected) in stages().into_iter().zip(expected_events) {
            let result = given_when::<Task>(&history, command.clone());
            assert_eq!(describe(result, status_after(&history)), expected, "{command:?} when {stage}");
        }
    }
}

#[test]
fn a_submission_is_kept_as_it_came() {
    assert_eq!(given_when::<Task>(&[], TaskCommand::Submit(submission())), Ok(vec![submitted()]));
    let task = record(&[submitted()]);
    assert_eq!(
        (task.submission, task.stage, task.status),
        (submission(), TaskStage::Waiting { attempts: 0 }, TaskStatus::Created)
    );
    assert_eq!((task.created_at, task.updated_at), (RECORDED_AT, RECORDED_AT));
}

#[test]
fn attempts_are_counted_and_the_key_is_kept() {
    let start = |repeatable| TaskCommand::StartSubmission { key: text("key"), repeatable };
    let mut history = vec![submitted()];
    assert_eq!(given_when::<Task>(&history, start(false)), Ok(vec![started(1)]));
    history.extend([started(1), unknown()]);
    assert_eq!(given_when::<Task>(&history, start(true)), Ok(vec![started(2)]));
    history.extend([started(2), accepted()]);
    let in_progress = TaskStage::InProgress { attempt: 2, key: text("key"), reference: text("job-7") };
    assert_eq!(record(&history).stage, in_progress);
    history.push(TaskEvent::VendorForgot);
    assert_eq!(record(&history).stage, TaskStage::Waiting { attempts: 2 });
    assert_eq!(given_when::<Task>(&history, start(false)), Ok(vec![started(3)]));
}

#[test]
fn a_refusal_fails_the_task_with_the_vendors_reason() {
    let history = [submitted(), started(1)];
    assert_eq!(
        given_when::<Task>(&history, TaskCommand::RecordRefusal { failure: busy() }),
        Ok(vec![refused(), failed(busy())])
    );
}

#[test]
fn an_unknown_outcome_that_must_not_be_repeated_fails_the_task_and_says_so() {
    let command = TaskCommand::RecordUnknownOutcome { reason: text("timed out"), repeatable: false };
    let failed_event = failed(failure("outcome_unknown", "timed out"));
    assert_eq!(given_when::<Task>(&[submitted(), started(1)], command), Ok(vec![unknown(), failed_event]));
}

#[test]
fn results_appear_with_the_completion_only() {
    for (stage, history) in stages().into_iter().skip(1) {
        let expected = (stage == "completed").then(|| TaskResults::Pictures(vec![picture(2)]));
        assert_eq!(record(&history).results(), expected.as_ref(), "{stage}");
    }
}

#[test]
fn fetched_inputs_take_the_place_of_their_urls() {
    let history = [TaskEvent::TaskSubmitted(remote())];
    assert!(record(&history).submission.work.has_missing_inputs());
    assert_eq!(record(&[TaskEvent::TaskSubmitted(remote()), fetched()]).submission, submission());
}

#[test]
fn a_cancelled_task_failed_of_that_and_stays_so() {
    let task = record(&[submitted(), started(1), accepted(), TaskEvent::TaskCancelled, completed()]);
    assert_eq!(task.stage, TaskStage::Failed { failure: TaskFailure::cancelled() });
}

#[test]
fn what_did_not_arrive_is_submitted_again_under_the_next_number() {
    let history = [submitted(), started(1), undelivered()];
    let start = TaskCommand::StartSubmission { key: text("key"), repeatable: false };
    assert_eq!(given_when::<Task>(&history, start), Ok(vec![started(2)]));
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
    let unfinished = ["lacking", "created", "submitting", "undelivered", "in progress", "forgotten"];
    let events = [
        (submitted(), vec!["absent"]),
        (fetched(), vec!["lacking", "created", "undelivered", "forgotten"]),
        (started(9), vec!["lacking", "created", "submitting", "undelivered", "forgotten"]),
        (accepted(), vec!["submitting"]),
        (refused(), vec!["submitting"]),
        (undelivered(), vec!["submitting"]),
        (unknown(), vec!["submitting"]),
        (TaskEvent::VendorForgot, vec!["in progress"]),
        (completed(), vec!["in progress"]),
        (failed(busy()), unfinished.to_vec()),
        (TaskEvent::TaskCancelled, unfinished.to_vec()),
    ];
    for (event, accepting_stages) in events {
        for (stage, history) in stages() {
            let before = state_after::<Task>(&history);
            let mut after = before.clone();
            Task::evolve(&mut after, &event, NOW);
            assert_eq!(after != before, accepting_stages.contains(&stage), "{event:?} when {stage}");
        }
    }
}

#[test]
fn events_are_told_apart_from_those_of_other_kinds() {
    let event = Event::from(submitted());
    assert_eq!((Task::downcast(&event), event.name()), (Some(&submitted()), "TaskSubmitted"));
    assert_eq!(crate::domain::user::User::downcast(&event), None);
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
    proptest::sample::select(table().map(|(command, _)| command).to_vec())
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

proptest! {
    #[test]
    fn no_sequence_of_commands_leaves_the_path(commands in prop::collection::vec(any_command(), 0..40)) {
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
    fn no_history_leaves_the_path(history in prop::collection::vec(any_event(), 0..40)) {
        let mut state = Task::default();
        for event in history {
            let before = status_of(&state);
            Task::evolve(&mut state, &event, NOW);
            prop_assert!(is_legal_transition(before, status_of(&state)));
            prop_assert!(status_matches_stage(&state));
        }
    }
}
