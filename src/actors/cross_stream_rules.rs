//! Rules that span streams: a node has a publisher, and submissions stay within their budgets.
//!
//! An aggregate sees only its own stream, so the writer checks these rules. It serializes all appends of this service,
//! so nothing changes between the check of an append and the append itself. Where several cluster nodes share the log,
//! another node may append in between, so the checked append carries guards, which the log checks again.

use std::collections::{HashMap, HashSet};

use super::writer::AppendError;
use crate::domain::budget::BudgetSubject;
use crate::domain::event::Event;
use crate::domain::ids::PublisherId;
use crate::domain::node::NodeEvent;
use crate::domain::publisher::PublisherEvent;
use crate::domain::task::{Submission, TaskEvent};
use crate::domain::value::Timestamp;
use crate::events::envelope::Append;
use crate::events::guard::{Guard, Tag};
use crate::events::shared::admission::{guarded_tags, spending_of};
use crate::events::stream::Position;
use crate::projections::ReadModels;

/// Changes by the appends of one group to publishers, their nodes and budgets, on top of the read models.
pub struct CrossStreamRules<'m> {
    models: &'m ReadModels,
    /// Position that the read models have reached at least.
    position: Position,
    /// Publishers that receive a node in this group.
    gaining_nodes: HashSet<PublisherId>,
    /// Publishers that are deleted in this group.
    deleted: HashSet<PublisherId>,
    /// Credits of the submissions in this group, by budget and the start of its period.
    submitted_credits: HashMap<(BudgetSubject, Timestamp), u64>,
}

impl<'m> CrossStreamRules<'m> {
    /// Returns the rules for a group of appends. `models` contain everything appended before the group.
    #[must_use]
    pub fn new(models: &'m ReadModels) -> Self {
        let position = models.read().position;
        let gaining_nodes = HashSet::new();
        let deleted = HashSet::new();
        Self { models, position, gaining_nodes, deleted, submitted_credits: HashMap::new() }
    }

    /// Checks that the append may follow those checked before: a deleted publisher gets no node, a publisher with
    /// nodes is not deleted, and no submission exceeds a budget. Returns the guards of the append.
    ///
    /// # Errors
    /// [`AppendError::CrossStreamConflict`] or [`AppendError::BudgetExceeded`].
    pub fn check(&mut self, append: &Append) -> Result<Vec<Guard>, AppendError> {
        let mut tags: Vec<Tag> = guarded_tags(&append.stream, &append.events).collect();
        for new_event in &append.events {
            let is_allowed = match &new_event.event {
                Event::Node(NodeEvent::NodeCreated { publisher, .. }) => self.try_gain_node(publisher),
                Event::Publisher(PublisherEvent::PublisherDeleted) => {
                    PublisherId::parse(append.stream.key()).is_ok_and(|publisher| self.try_delete(publisher))
                }
                Event::Task(TaskEvent::TaskSubmitted(submission)) => {
                    tags.extend(self.check_budgets(submission, append.context.at)?);
                    true
                }
                _ => true,
            };
            if !is_allowed {
                return Err(AppendError::CrossStreamConflict);
            }
        }
        Ok(tags.into_iter().map(|tag| Guard { tag, position: self.position }).collect())
    }

    /// Checks all budgets that count a submission, then counts it. Returns the tags of these budgets.
    fn check_budgets(&mut self, submission: &Submission, at: Timestamp) -> Result<Vec<Tag>, AppendError> {
        let credits = u64::from(submission.work.credits());
        if credits == 0 {
            return Ok(Vec::new());
        }

        let models = self.models.read();
        let mut budget_periods = Vec::new();
        for subject in submission.budget_subjects() {
            if let Some(account) = models.budgets.get(&subject) {
                let budget_period = (subject, account.limit.period.start(at));
                let pending = self.submitted_credits.get(&budget_period).copied().unwrap_or(0);
                account.check(&budget_period.0, credits, pending, at).map_err(AppendError::BudgetExceeded)?;
                budget_periods.push(budget_period);
            }
        }
        drop(models);

        let tags = budget_periods.iter().filter_map(|(subject, _)| spending_of(subject)).collect();
        for budget_period in budget_periods {
            *self.submitted_credits.entry(budget_period).or_default() += credits;
        }
        Ok(tags)
    }

    /// Returns `true` if the publisher may get a node, which then prevents its deletion in this group.
    fn try_gain_node(&mut self, publisher: &PublisherId) -> bool {
        if self.deleted.contains(publisher) || self.models.read().publishers.was_deleted(publisher) {
            return false;
        }
        self.gaining_nodes.insert(publisher.clone());
        true
    }

    /// Returns `true` if the publisher may be deleted, which then prevents new nodes in this group.
    fn try_delete(&mut self, publisher: PublisherId) -> bool {
        let has_nodes =
            self.gaining_nodes.contains(&publisher) || self.models.read().nodes.count_of_publisher(&publisher) > 0;
        if !has_nodes {
            self.deleted.insert(publisher);
        }
        !has_nodes
    }
}
