//! Progress of the demo: one rewritten line on a terminal, otherwise one line per publisher.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use crate::pluralize::pluralize;

/// Counts of one kind of resource.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResourceCount {
    pub(super) created: usize,
    /// Existed before the demo.
    pub(super) existing: usize,
    /// Number in the sample.
    pub(super) total: usize,
}

impl ResourceCount {
    /// Counts one resource: as created if `is_new`, otherwise as existing.
    pub(super) fn count(&mut self, is_new: bool) {
        *(if is_new { &mut self.created } else { &mut self.existing }) += 1;
    }
}

/// Formats as `8 new, 2 existing`.
impl fmt::Display for ResourceCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.created, self.existing) {
            (created, 0) => write!(f, "{created} new"),
            (0, existing) => write!(f, "{existing} existing"),
            (created, existing) => write!(f, "{created} new, {existing} existing"),
        }
    }
}

/// Counts of all kinds of resources.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResourceCounts {
    pub(super) publishers: ResourceCount,
    pub(super) nodes: ResourceCount,
    pub(super) versions: ResourceCount,
    pub(super) archives: ResourceCount,
}

impl fmt::Display for ResourceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { publishers, nodes, versions, archives } = self;
        for (name, count) in [("publishers", publishers), ("nodes", nodes), ("versions", versions)] {
            writeln!(f, "  {name:<10}  {count}")?;
        }
        writeln!(f, "  {:<10}  {archives}", "archives")
    }
}

/// Counts and displays progress.
pub(super) struct DemoProgress {
    counts: RefCell<ResourceCounts>,
    terminal: bool,
}

impl DemoProgress {
    /// Starts at zero; `totals` are the numbers in the sample.
    pub(super) fn new(totals: ResourceCounts) -> Self {
        Self { counts: RefCell::new(totals), terminal: io::stdout().is_terminal() }
    }

    /// Returns the current counts.
    pub(super) fn counts(&self) -> ResourceCounts {
        *self.counts.borrow()
    }

    /// Changes the counts and updates the line on a terminal.
    pub(super) fn update(&self, change: impl FnOnce(&mut ResourceCounts)) {
        change(&mut self.counts.borrow_mut());
        if self.terminal {
            print_text(&format!("\r{}", format_line(&self.counts())));
        }
    }

    /// Prints a line for a completed publisher, unless stdout is a terminal.
    pub(super) fn publisher_done(&self, name: &str, nodes: usize, versions: usize) {
        if !self.terminal {
            print_text(&format!(
                "{name}: {}, {}\n",
                pluralize(nodes as u64, "node"),
                pluralize(versions as u64, "version")
            ));
        }
    }

    /// Ends the progress line on a terminal.
    pub(super) fn finish(&self) {
        if self.terminal {
            print_text("\n");
        }
    }
}

/// Prints to stdout. A closed stdout is not an error.
fn print_text(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn format_line(ResourceCounts { publishers, nodes, versions, .. }: &ResourceCounts) -> String {
    let part = |name: &str, count: &ResourceCount| format!("{name} {}/{}", count.created + count.existing, count.total);
    [part("publishers", publishers), part("nodes", nodes), part("versions", versions)].join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_counts_and_totals() {
        let mut counts = ResourceCounts {
            nodes: ResourceCount { total: 200, ..ResourceCount::default() },
            ..ResourceCounts::default()
        };
        for is_new in [true, false] {
            counts.nodes.count(is_new);
        }
        assert_eq!(format_line(&counts), "publishers 0/0 · nodes 2/200 · versions 0/0");
        assert!(counts.to_string().contains("nodes       1 new, 1 existing\n"), "{counts}");
    }
}
