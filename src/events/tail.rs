//! The newest events in memory: acknowledged, but not yet in sled.

use std::collections::{HashMap, VecDeque};

use super::envelope::Commit;
use super::stream::{Position, StreamId, Version};

/// Commits in order, by position and by stream.
#[derive(Default)]
pub struct Tail {
    head: Position,
    commits: VecDeque<Commit>,
    streams: HashMap<StreamId, VecDeque<Commit>>,
}

impl Tail {
    /// An empty tail of a log that ends at `head`.
    pub fn from_head(head: Position) -> Self {
        Self { head, ..Self::default() }
    }

    /// The last acknowledged position.
    pub fn head(&self) -> Position {
        self.head
    }

    /// Adds a commit that follows the head.
    pub fn push(&mut self, commit: Commit) {
        let Some(last) = commit.last() else { return };
        self.head = last.position;
        if let Some(commits) = self.streams.get_mut(&last.stream) {
            commits.push_back(commit.clone());
        } else {
            self.streams.insert(last.stream.clone(), VecDeque::from([commit.clone()]));
        }
        self.commits.push_back(commit);
    }

    /// Removes the commits up to a position.
    pub fn evict_through(&mut self, position: Position) {
        while let Some(commit) = self.commits.pop_front_if(|commit| commit[0].position <= position) {
            let stream = &commit[0].stream;
            let is_empty = self.streams.get_mut(stream).is_some_and(|commits| {
                commits.pop_front();
                commits.is_empty()
            });
            if is_empty {
                self.streams.remove(stream);
            }
        }
    }

    /// The version of a stream with commits in the tail.
    pub fn stream_version(&self, stream: &StreamId) -> Option<Version> {
        self.streams.get(stream)?.back()?.last().map(|event| event.version)
    }

    /// The commits of a stream, oldest first.
    pub fn stream(&self, stream: &StreamId) -> Vec<Commit> {
        self.streams.get(stream).map(|commits| commits.iter().cloned().collect()).unwrap_or_default()
    }

    /// The position after those in sled: the first one in the tail, or the one after the head.
    pub fn first_position(&self) -> Position {
        self.commits.front().map_or(Position(self.head.0 + 1), |commit| commit[0].position)
    }

    /// Commits that hold events after `after`, oldest first, until there are `limit` events.
    pub fn commits_after(&self, after: Position, limit: usize) -> Vec<Commit> {
        let first = self.commits.partition_point(|commit| commit.last().is_none_or(|event| event.position <= after));
        let mut found = Vec::new();
        let mut events = 0;
        for commit in self.commits.iter().skip(first) {
            if events >= limit {
                break;
            }
            events += commit.iter().filter(|event| event.position > after).count();
            found.push(commit.clone());
        }
        found
    }
}
