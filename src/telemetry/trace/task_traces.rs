//! Traces that submitted tasks, kept for later calls on behalf of the task. Bounded to the most recent tasks.

use std::collections::{HashMap, VecDeque};

use uuid::Uuid;

use super::SpanContext;

/// Maximum number of tasks.
const TASKS_MAX: usize = 16_384;

/// Traces by task.
#[derive(Default)]
pub struct TaskTraces {
    by_task: HashMap<Uuid, SpanContext>,
    insertion_order: VecDeque<Uuid>,
}

impl TaskTraces {
    /// Returns the trace of a task.
    pub fn get(&self, task: Uuid) -> Option<SpanContext> {
        self.by_task.get(&task).copied()
    }

    /// Adds a task and removes the oldest if there are too many.
    pub fn insert(&mut self, task: Uuid, context: SpanContext) {
        if self.by_task.insert(task, context).is_some() {
            return;
        }
        self.insertion_order.push_back(task);
        if self.insertion_order.len() > TASKS_MAX
            && let Some(oldest) = self.insertion_order.pop_front()
        {
            self.by_task.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_most_recent_tasks_are_kept() {
        let mut traces = TaskTraces::default();
        let context = SpanContext::new_root([1; 24], 100);
        let task = |index: usize| Uuid::from_u128(index as u128);
        for index in 0..TASKS_MAX + 10 {
            traces.insert(task(index), context);
            traces.insert(task(index), context);
        }
        assert_eq!((traces.by_task.len(), traces.insertion_order.len()), (TASKS_MAX, TASKS_MAX));
        assert_eq!((traces.get(task(9)), traces.get(task(10))), (None, Some(context)));
    }
}
