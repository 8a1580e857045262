//! Tests of what budgets count.

use uuid::Uuid;

use super::*;
use crate::domain::budget::BudgetPeriod;
use crate::domain::ids::{PublisherId, TaskId, TokenId, UserId};
use crate::domain::music::{MusicPrompt, MusicWork};
use crate::domain::task::{Payers, Submission, TaskEvent, TaskStage, TaskWork};
use crate::events::stream::Position;

const HOUR: i64 = 3_600_000_000;
/// Noon of the second day of 1970.
const NOON: Timestamp = Timestamp::from_micros(36 * HOUR);
const NEXT_NOON: Timestamp = Timestamp::from_micros(60 * HOUR);

fn user() -> UserId {
    UserId(Uuid::from_u128(1))
}

fn token() -> TokenId {
    TokenId(Uuid::from_u128(2))
}

fn acme() -> PublisherId {
    PublisherId::parse("acme").unwrap()
}

/// Returns the user's account before it was erased.
fn former() -> UserId {
    UserId(Uuid::from_u128(3))
}

fn subjects() -> [BudgetSubject; 4] {
    let [user, former] = [user(), former()].map(BudgetSubject::User);
    [user, former, BudgetSubject::Token(token()), BudgetSubject::Publisher(acme())]
}

/// Returns a task of the user that all subjects pay for.
fn task(number: u128, credits: u32, status: TaskStatus, created_at: Timestamp) -> TaskRecord {
    let work = MusicWork { prompt: MusicPrompt::parse("rain").unwrap(), seconds: None, credits };
    TaskRecord {
        submission: Submission {
            task: TaskId(Uuid::from_u128(100 + number)),
            owner: Some(user()),
            work: TaskWork::Music(work),
            webhook: None,
            payers: Payers { token: Some(token()), former_accounts: vec![former()], publishers: vec![acme()] }
                .into_option(),
        },
        stage: TaskStage::Streaming,
        status,
        vendor: None,
        created_at,
        updated_at: created_at,
    }
}

/// Returns the budgets of all subjects, set at noon after these tasks.
fn budgets(credits: u64, period: BudgetPeriod, earlier: &[TaskRecord]) -> Budgets {
    let mut index = TaskIndex::default();
    for (position, task) in (1..).zip(earlier) {
        let submitted = TaskRecord { status: TaskStatus::Created, ..task.clone() };
        index.apply(&submitted, &TaskEvent::TaskSubmitted(task.submission.clone()), Position(position));
        index.apply(task, &TaskEvent::WorkBegan, Position(position));
    }

    let mut budgets = Budgets::default();
    for subject in subjects() {
        budgets.apply(subject, &BudgetEvent::BudgetSet(BudgetLimit { credits, period }), NOON, &index);
    }
    budgets
}

#[track_caller]
fn assert_used(budgets: &Budgets, at: Timestamp, held: u64, spent: u64) {
    for subject in subjects() {
        assert_eq!(budgets.get(&subject).map(|account| account.used(at)), Some(BudgetUse { held, spent }), "{subject}");
    }
}

#[test]
fn credits_are_held_then_spent_or_given_back() {
    let mut budgets = budgets(100, BudgetPeriod::Day, &[]);
    for number in 0..2 {
        budgets.apply_task(None, &task(number, 30, TaskStatus::Created, NOON));
    }
    assert_used(&budgets, NOON, 60, 0);

    for (number, status) in [(0, TaskStatus::Completed), (1, TaskStatus::Failed)] {
        budgets.apply_task(Some(TaskStatus::Created), &task(number, 30, TaskStatus::InProgress, NOON));
        budgets.apply_task(Some(TaskStatus::InProgress), &task(number, 30, status, NOON));
    }
    assert_used(&budgets, NOON, 0, 30);
}

#[test]
fn a_new_budget_counts_the_earlier_tasks_of_its_period() {
    let earlier = [
        task(0, 1, TaskStatus::Completed, Timestamp::from_micros(23 * HOUR)),
        task(1, 2, TaskStatus::Completed, NOON),
        task(2, 4, TaskStatus::InProgress, NOON),
        task(3, 8, TaskStatus::Failed, NOON),
    ];
    assert_used(&budgets(100, BudgetPeriod::Day, &earlier), NOON, 4, 2);
    assert_used(&budgets(100, BudgetPeriod::Total, &earlier), NOON, 4, 3);
}

#[test]
fn another_limit_of_the_same_period_keeps_what_was_used() {
    let mut budgets = budgets(100, BudgetPeriod::Day, &[task(0, 30, TaskStatus::Completed, NOON)]);
    let set = |budgets: &mut Budgets, period| {
        for subject in subjects() {
            let limit = BudgetLimit { credits: 7, period };
            budgets.apply(subject, &BudgetEvent::BudgetSet(limit), NOON, &TaskIndex::default());
        }
    };

    // Without reading tasks: this index has none
    set(&mut budgets, BudgetPeriod::Day);
    assert_used(&budgets, NOON, 0, 30);
    assert!(budgets.iter().all(|(_, account)| account.limit.credits == 7));

    set(&mut budgets, BudgetPeriod::Month);
    assert_used(&budgets, NOON, 0, 0);
}

#[test]
fn a_new_budget_knows_the_previous_period_in_case_the_clock_is_set_back() {
    let yesterday = Timestamp::from_micros(23 * HOUR);
    let two_days_ago = Timestamp::from_micros(-HOUR);
    let earlier =
        [(0, two_days_ago), (1, yesterday), (2, NOON)].map(|(n, at)| task(n, 1 << n, TaskStatus::Completed, at));
    let budgets = budgets(100, BudgetPeriod::Day, &earlier);
    assert_used(&budgets, NOON, 0, 4);
    assert_used(&budgets, yesterday, 0, 2);
    assert_used(&budgets, two_days_ago, 0, 0);
}

#[test]
fn the_next_period_begins_empty_and_late_ends_count_where_the_task_was_submitted() {
    let mut budgets = budgets(100, BudgetPeriod::Day, &[]);
    budgets.apply_task(None, &task(0, 30, TaskStatus::Created, NOON));
    budgets.apply_task(None, &task(1, 40, TaskStatus::Created, NEXT_NOON));
    budgets.apply_task(Some(TaskStatus::Created), &task(0, 30, TaskStatus::Completed, NOON));
    assert_used(&budgets, NOON, 0, 30);
    assert_used(&budgets, NEXT_NOON, 40, 0);

    // Only two periods are remembered
    let later = Timestamp::from_micros(84 * HOUR);
    budgets.apply_task(None, &task(2, 50, TaskStatus::Created, later));
    budgets.apply_task(Some(TaskStatus::Created), &task(3, 9, TaskStatus::Completed, NOON));
    assert_used(&budgets, NOON, 0, 0);
    assert_used(&budgets, NEXT_NOON, 40, 0);
    assert_used(&budgets, later, 50, 0);
}

#[test]
fn a_submission_fits_exactly_or_is_rejected_with_what_is_used() {
    let budgets = budgets(100, BudgetPeriod::Day, &[task(0, 30, TaskStatus::Completed, NOON)]);
    let [subject, ..] = subjects();
    let account = budgets.get(&subject).unwrap();
    assert_eq!(account.check(&subject, 50, 20, NOON), Ok(()));

    let exceeded = account.check(&subject, 51, 20, NOON).unwrap_err();
    assert_eq!(exceeded.used, BudgetUse { held: 20, spent: 30 });
    assert_eq!(exceeded.resets_at, Some(Timestamp::from_micros(48 * HOUR)));
    assert_eq!(account.check(&subject, 100, 0, NEXT_NOON), Ok(()));
}

#[test]
fn a_removed_budget_counts_nothing() {
    let mut budgets = budgets(100, BudgetPeriod::Day, &[]);
    for subject in subjects() {
        budgets.apply(subject, &BudgetEvent::BudgetRemoved, NOON, &TaskIndex::default());
    }
    budgets.apply_task(None, &task(0, 30, TaskStatus::Created, NOON));
    assert_eq!(budgets, Budgets::default());
}
