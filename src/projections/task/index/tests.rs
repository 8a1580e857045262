//! Tests of lists, marks and snapshots of the index against simple lists.

use uuid::Uuid;

use super::*;
use crate::domain::image::{ImageFormat, ImageJob, ImageWork, Picture, PictureSource, UpscaleJob};
use crate::domain::task::{Submission, TaskStage, TaskWork};

/// Number of tasks: more than two blocks, with three owners. Every fourth task ended a second after its start.
const TASKS: u64 = 2 * BLOCK_TASKS as u64 + 100;

fn user(number: u64) -> UserId {
    UserId(Uuid::from_u128(u128::from(number) + 1))
}

fn task(number: u64) -> TaskId {
    TaskId(Uuid::from_u128(u128::from(number) + 1_000_000))
}

fn second(number: u64) -> Timestamp {
    Timestamp::from_micros(i64::try_from(number).unwrap() * 1_000_000)
}

/// Returns a distinct picture for every number.
fn picture(number: u64) -> Picture {
    let mut digest = Digest([7; 32]);
    digest.0[..8].copy_from_slice(&(number + 1).to_le_bytes());
    Picture { digest, format: ImageFormat::Png, bytes: 100, width: 8, height: 8 }
}

fn submission(number: u64) -> Submission {
    let job = ImageJob::Upscale(UpscaleJob::default());
    let work =
        ImageWork { job, image: PictureSource::Stored(picture(number)), reference: None, seed: None, credits: 0 };
    Submission {
        task: task(number),
        owner: Some(user(number % 3)),
        work: TaskWork::Image(work),
        webhook: None,
        payers: None,
    }
}

fn index() -> TaskIndex {
    let mut index = TaskIndex::default();
    for number in 0..TASKS {
        let mut record = TaskRecord {
            submission: submission(number),
            stage: TaskStage::Waiting { attempts: 0 },
            vendor: None,
            status: TaskStatus::Created,
            created_at: second(number),
            updated_at: second(number),
        };
        let position = Position(number * 10 + 1);
        index.apply(&record, &TaskEvent::TaskSubmitted(submission(number)), position);
        if number % 4 == 0 {
            let results: Vec<_> = (1..=3).map(|nth| picture(number + nth * 1_000_000)).collect();
            record.status = TaskStatus::Completed;
            record.updated_at = second(number + 1);
            record.stage = TaskStage::Completed { results: results.clone().into() };
            index.apply(&record, &TaskEvent::TaskCompleted { results }, position);
        }
    }
    index
}

/// Reads a whole list page by page.
fn all(index: &TaskIndex, filter: &TaskFilter, limit: usize, scan_limit: usize) -> Vec<TaskId> {
    let mut part = index.newest(filter, None, limit, scan_limit);
    let mut tasks = part.tasks.clone();
    while let Some(before) = part.continue_before {
        part = index.newest(filter, Some(before), limit, scan_limit);
        assert!(part.tasks.len() <= limit);
        tasks.extend(&part.tasks);
    }
    tasks
}

#[test]
fn an_entry_takes_72_bytes() {
    assert_eq!(size_of::<TaskIndexEntry>(), 72);
}

#[test]
fn pages_contain_the_matching_tasks_newest_first() {
    let index = index();
    let expected =
        |predicate: &dyn Fn(u64) -> bool| (0..TASKS).rev().filter(|n| predicate(*n)).map(task).collect::<Vec<_>>();
    let owned_by = |owner| TaskFilter { owner: Some(user(owner)), ..TaskFilter::default() };
    let completed = TaskFilter { states: vec![TaskStatus::Completed], ..owned_by(1) };
    let in_range = TaskFilter { from: Some(second(1000)), to: Some(second(1030)), ..TaskFilter::default() };
    for (limit, scan_limit) in [(100, 1000), (7, 5), (10_000, 10_000)] {
        assert_eq!(all(&index, &TaskFilter::default(), limit, scan_limit), expected(&|_| true));
        assert_eq!(all(&index, &owned_by(2), limit, scan_limit), expected(&|n| n % 3 == 2));
        assert_eq!(all(&index, &completed, limit, scan_limit), expected(&|n| n % 3 == 1 && n % 4 == 0));
        assert_eq!(all(&index, &in_range, limit, scan_limit), expected(&|n| (1000..1030).contains(&n)));
        assert_eq!(all(&index, &owned_by(3), limit, scan_limit), []);
    }
    assert_eq!(index.len() as u64, TASKS);
}

#[test]
fn files_are_marked_until_their_last_task_is_expired() {
    let index = index();
    let marks = index.marks_since(second(1000));
    let is_needed = |number: u64| marks.contains(&mark_of(&picture(number).digest));
    // Ended after second 1000, ended before, and not ended at all.
    assert!(is_needed(1000) && !is_needed(996) && is_needed(997));
    for nth in 1..=3 {
        assert!(is_needed(1000 + nth * 1_000_000) && !is_needed(996 + nth * 1_000_000), "result {nth}");
    }
}

#[test]
fn a_snapshot_restores_the_index() {
    let index = index();
    let snapshot = index.snapshot_copy();
    let (owners, blocks, marks) = snapshot.snapshot_parts();

    let mut restored = TaskIndex::default();
    restored.restore_owners(owners.to_vec());
    restored.restore_blocks(blocks.cloned().collect());
    restored.restore_extra_marks(marks.clone().into_iter().collect());
    assert!(restored == index);
}
