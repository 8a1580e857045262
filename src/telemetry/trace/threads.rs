//! Traces that submitted tasks, kept for later calls on behalf of the task. Bounded to the most recent tasks.

use std::collections::{HashMap, VecDeque};

use uuid::Uuid;

use super::Context;

/// Maximum number of tasks.
const TASKS_MAX: usize = 16_384;

/// Traces by task.
#[derive(Default)]
pub struct Threads {
    of_task: HashMap<Uuid, Context>,
    in_order: VecDeque<Uuid>,
}

impl Threads {
    /// The trace of a task.
    pub fn get(&self, task: Uuid) -> Option<Context> {
        self.of_task.get(&task).copied()
    }

    /// Adds a task, and removes the oldest if there are too many.
    pub fn insert(&mut self, task: Uuid, context: Context) {
        if self.of_task.insert(task, context).is_some() {
            return;
        }
        self.in_order.push_back(task);
        if self.in_order.len() > TASKS_MAX
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.of_task.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered() {
        let mut threads = Threads::default();
        let context = Context::fresh([1; 24], 100);
        let task = |number: usize| Uuid::from_u128(number as u128);
        for number in 0..TASKS_MAX + 10 {
            threads.insert(task(number), context);
            threads.insert(task(number), context);
        }
        assert_eq!((threads.of_task.len(), threads.in_order.len()), (TASKS_MAX, TASKS_MAX));
        assert_eq!((threads.get(task(9)), threads.get(task(10))), (None, Some(context)));
    }
}
