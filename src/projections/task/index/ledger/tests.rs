//! Tests of holds, charges and refunds against a simple model, with random submissions, ends and crashes.

use std::collections::HashMap;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::domain::decider::Decider;
use crate::domain::ids::{EventId, UserId};
use crate::domain::task::{
    Gateway, Submission, Task, TaskCommand, TaskEvent, TaskFailure, TaskResults, TaskWork, VendorKey, VendorReference,
};
use crate::domain::value::{Digest, Text};
use crate::domain::video::{Clip, Creation, GenerateJob, Seed, VideoFormat, VideoJob, VideoWork};
use crate::events::envelope::{Actor, RecordedEvent};
use crate::events::stream::{Position, StreamId, Version};
use crate::projections::task::Tasks;

/// Operation on a task, given by its number and that of its owner.
#[derive(Debug, Clone, Copy)]
enum Op {
    Submit {
        task: u8,
        owner: u8,
        credits: u16,
    },
    Start(u8),
    Accept(u8),
    Begin(u8),
    Complete(u8),
    Fail(u8),
    Cancel(u8),
    Forget(u8),
    /// Discards the memory and folds the log again.
    Crash,
}

fn any_op() -> impl Strategy<Value = Op> {
    let task = 0_u8..12;
    prop_oneof![
        4 => (task.clone(), 0_u8..3, 0_u16..500).prop_map(|(task, owner, credits)| Op::Submit { task, owner, credits }),
        3 => task.clone().prop_map(Op::Start),
        3 => task.clone().prop_map(Op::Accept),
        1 => task.clone().prop_map(Op::Begin),
        3 => task.clone().prop_map(Op::Complete),
        2 => task.clone().prop_map(Op::Fail),
        2 => task.clone().prop_map(Op::Cancel),
        1 => task.prop_map(Op::Forget),
        1 => Just(Op::Crash),
    ]
}

/// Returns an owner; the third one is anonymous.
fn owner_of(number: u8) -> Option<UserId> {
    (number < 2).then(|| UserId(Uuid::from_u128(u128::from(number) + 1)))
}

fn task(number: u8) -> TaskId {
    TaskId(Uuid::from_u128(u128::from(number) + 100))
}

fn second(seconds: usize) -> Timestamp {
    Timestamp::from_micros(i64::try_from(seconds).unwrap() * 1_000_000)
}

fn command(op: Op) -> Option<(u8, TaskCommand)> {
    let failure =
        || TaskFailure { code: Text::from_recorded("x".to_owned()), message: Text::from_recorded("x".to_owned()) };
    Some(match op {
        Op::Crash => return None,
        Op::Submit { task: task_number, owner, credits } => {
            let job = VideoJob::StartEnd(GenerateJob::default());
            let images = Vec::new();
            let seed = Seed::from_random(1);
            let payload = None;
            let meta_data = None;
            let work = TaskWork::Video(VideoWork { job, images, seed, payload, meta_data, credits: credits.into() });
            let task = task(task_number);
            let owner = owner_of(owner);
            (task_number, TaskCommand::Submit(Submission { task, owner, work, webhook: None, payers: None }))
        }
        Op::Start(task) => (
            task,
            TaskCommand::StartSubmission {
                key: VendorKey::from_recorded("k".to_owned()),
                repeatable: true,
                vendor: None,
            },
        ),
        Op::Accept(task) => {
            (task, TaskCommand::RecordAcceptance { reference: VendorReference::from_recorded("r".to_owned()) })
        }
        Op::Begin(task) => (task, TaskCommand::RecordWorkStarted),
        Op::Complete(task) => {
            let video = Clip { digest: Digest([task; 32]), format: VideoFormat::Mp4, bytes: 1 };
            let creation = Creation { video, cover: None, watermarked: None, vendor_id: None };
            (task, TaskCommand::Complete { results: TaskResults::Video(creation) })
        }
        Op::Fail(task) => (task, TaskCommand::Fail { failure: failure() }),
        Op::Cancel(task) => (task, TaskCommand::Cancel),
        Op::Forget(task) => (task, TaskCommand::RecordLostJob),
    })
}

/// A log, the index folded from it, and the model.
#[derive(Default)]
struct World {
    log: Vec<RecordedEvent>,
    tasks: Tasks,
    states: HashMap<u8, Task>,
    /// Held credits: task → owner and credits.
    held: HashMap<u8, (u8, u64)>,
    charged: [u64; 3],
    refunded: [u64; 3],
}

impl World {
    fn record(&mut self, number: u8, event: &TaskEvent) {
        let sequence = self.log.len() + 1;
        let recorded = RecordedEvent {
            position: Position(sequence as u64),
            stream: StreamId::from(&task(number)),
            version: Version(sequence as u64),
            id: EventId(Uuid::from_u128(sequence as u128)),
            at: second(sequence),
            actor: Actor::System,
            request: None,
            causation: None,
            event: event.clone().into(),
        };
        self.tasks.apply(task(number), event, &recorded);
        self.log.push(recorded);
    }

    fn execute(&mut self, op: Op) {
        let Some((number, command)) = command(op) else { return self.crash() };
        let state = self.states.entry(number).or_default();
        let Ok(events) = Task::decide(state, command, second(0)) else { return };
        for event in &events {
            Task::evolve(state, event, second(self.log.len() + 1));
        }

        if let Op::Submit { task, owner, credits } = op {
            self.held.insert(task, (owner, credits.into()));
        }

        for event in events {
            match event.status_change(Gateway::Video) {
                Some(TaskStatus::Completed) => {
                    let (owner, credits) = self.held.remove(&number).expect("a task ends once");
                    self.charged[usize::from(owner)] += credits;
                }
                Some(TaskStatus::Failed) => {
                    let (owner, credits) = self.held.remove(&number).expect("a task ends once");
                    self.refunded[usize::from(owner)] += credits;
                }
                _ => {}
            }
            self.record(number, &event);
        }
    }

    fn crash(&mut self) {
        let mut tasks = Tasks::default();
        for recorded in &self.log {
            let (Ok(id), Some(event)) = (TaskId::parse(recorded.stream.key()), recorded.event.downcast::<TaskEvent>())
            else {
                panic!("an event of a task");
            };
            tasks.apply(id, event, recorded);
        }
        assert_eq!(tasks, self.tasks, "a rebuild gives the same tasks");
        self.tasks = tasks;
    }

    fn check(&self) {
        for owner in 0..3 {
            let held =
                self.held.values().filter(|(task_owner, _)| *task_owner == owner).map(|(_, credits)| credits).sum();
            let index = usize::from(owner);
            let expected = Ledger { held, charged: self.charged[index], refunded: self.refunded[index] };
            assert_eq!(self.tasks.index.ledger_of(owner_of(owner)), expected);

            let entries = self.tasks.index.ledger_entries(owner_of(owner), None, 100, 1000).tasks;
            let sum = |state| {
                entries.iter().filter(|entry| entry.state == state).map(|entry| u64::from(entry.credits)).sum::<u64>()
            };
            let sums = [EntryState::Held, EntryState::Charged, EntryState::Refunded].map(sum);
            assert_eq!(sums, [expected.held, expected.charged, expected.refunded]);
        }
    }
}

proptest! {
    #[test]
    fn holds_charges_and_refunds_balance_for_every_caller(ops in prop::collection::vec(any_op(), 0..120)) {
        let mut world = World::default();
        for op in ops {
            world.execute(op);
            world.check();
        }
        world.crash();
    }
}
