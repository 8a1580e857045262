//! Tests of video tasks, which are queued, and of music tasks, which are streamed.

use uuid::Uuid;

use super::*;
use crate::domain::decider::Decider;
use crate::domain::decider::testing::{NOW, given_when};
use crate::domain::ids::TaskId;
use crate::domain::image::PictureSource;
use crate::domain::music::{MusicPrompt, MusicStream, MusicWork};
use crate::domain::task::Task;
use crate::domain::task::tests::{accepted, busy, failed, picture, record, started, status_after, status_of, text};
use crate::domain::value::{CallbackUrl, Digest};
use crate::domain::video::{
    Clip, Creation, ExtendJob, ExtendModel, ExtendResolution, Footage, GenerateJob, Seed, VideoFormat, VideoJob,
    VideoSeconds, VideoWork,
};

fn work(job: VideoJob, images: Vec<PictureSource>) -> TaskWork {
    TaskWork::Video(VideoWork { job, images, seed: Seed::from_random(1), payload: None, meta_data: None, credits: 150 })
}

fn submission_of(work: TaskWork) -> Submission {
    Submission { task: TaskId(Uuid::from_u128(1)), owner: None, work, webhook: None }
}

fn url(name: &str) -> CallbackUrl {
    CallbackUrl::parse(&format!("https://a.example/{name}")).unwrap()
}

/// Returns a video whose picture is stored.
fn submission() -> Submission {
    submission_of(work(VideoJob::StartEnd(GenerateJob::default()), vec![PictureSource::Stored(picture(1))]))
}

/// Returns a video extension whose video and end picture are not stored.
fn extension() -> Submission {
    let video = Footage { creation: TaskId(Uuid::from_u128(3)), url: url("x.mp4"), stored: None, vendor_id: None };
    let model = ExtendModel::Vq2Pro;
    let resolution = ExtendResolution::P540;
    let job = ExtendJob { model, resolution, seconds: VideoSeconds::DEFAULT, prompt: None, video };
    submission_of(work(VideoJob::Extend(job), vec![PictureSource::Remote(url("end.png"))]))
}

fn music() -> Submission {
    submission_of(TaskWork::Music(MusicWork { prompt: MusicPrompt::parse("a waltz").unwrap(), seconds: None }))
}

fn clip() -> Clip {
    Clip { digest: Digest([7; 32]), format: VideoFormat::Mp4, bytes: 70 }
}

fn creation() -> Creation {
    Creation { video: clip(), cover: Some(picture(2)), watermarked: None, vendor_id: None }
}

fn stream() -> MusicStream {
    MusicStream { title: text("Waltz"), millis: 30_000, bytes: 480_000 }
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
    TaskCommand::StartSubmission { key: text("key"), repeatable: false }
}

fn accept() -> TaskCommand {
    TaskCommand::RecordAcceptance { reference: text("job-7") }
}

#[test]
fn a_video_queues_until_its_vendor_begins() {
    let complete = TaskCommand::Complete { results: TaskResults::Video(creation()) };
    let submit = TaskCommand::Submit(submission());
    let outcomes = run_commands(vec![
        submit,
        start(),
        accept(),
        TaskCommand::RecordWorkStarted,
        TaskCommand::RecordWorkStarted,
        complete,
    ]);
    let expected = [
        (vec![TaskEvent::TaskSubmitted(submission()), TaskEvent::TaskQueued], Some(TaskStatus::Queueing)),
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
    let outcomes = run_commands(vec![TaskCommand::Submit(submission()), start(), accept(), complete]);
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
    let first_attempt = [TaskEvent::TaskSubmitted(submission()), TaskEvent::TaskQueued, started(1), accepted()];
    let second_attempt = [TaskEvent::WorkBegan, TaskEvent::VendorForgot, started(2), accepted()];
    let history = [first_attempt, second_attempt].concat();
    for events in (5..=history.len()).map(|end| &history[..end]) {
        assert_eq!(status_after(events), Some(TaskStatus::InProgress));
    }
    assert_eq!(given_when::<Task>(&history, TaskCommand::RecordWorkStarted), Ok(vec![]));
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

    assert_eq!(given_when::<Task>(&created, start()), Ok(vec![started(1)]));
    assert_eq!(given_when::<Task>(&submitting, accept()), Ok(vec![accepted()]));

    let complete = TaskCommand::Complete { results: TaskResults::Music(stream()) };
    let completed = TaskEvent::StreamCompleted { stream: stream() };
    assert_eq!(given_when::<Task>(&accepted_history, complete), Ok(vec![completed]));

    let undelivered = TaskEvent::SubmissionUndelivered { reason: text("busy") };
    for history in [&submitting, &accepted_history, &[submitting.clone(), vec![undelivered]].concat()] {
        for repeatable in [true, false] {
            let start = TaskCommand::StartSubmission { key: text("key"), repeatable };
            assert!(given_when::<Task>(history, start).is_err(), "{history:?}");
        }
    }
}

#[test]
fn a_stream_can_fail_or_be_cancelled_before_and_after_it_begins() {
    let created = vec![TaskEvent::TaskSubmitted(music())];
    let streaming = [created.clone(), vec![TaskEvent::WorkBegan]].concat();
    for history in [&created, &streaming] {
        let fail = TaskCommand::Fail { failure: busy() };
        assert_eq!(given_when::<Task>(history, fail), Ok(vec![failed(busy())]));
        assert_eq!(given_when::<Task>(history, TaskCommand::Cancel), Ok(vec![TaskEvent::TaskCancelled]));
        let rejected = Err(TaskRejection::WrongStage { status: record(history).status });
        assert_eq!(given_when::<Task>(history, accept()), rejected);
    }
    let rejected = Err(TaskRejection::WrongStage { status: record(&streaming).status });
    assert_eq!(given_when::<Task>(&streaming, start()), rejected);
    let complete = TaskCommand::Complete { results: TaskResults::Music(stream()) };
    assert!(given_when::<Task>(&created, complete).is_err());
}
