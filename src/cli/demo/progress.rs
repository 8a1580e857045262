//! Progress of the demo: one rewritten line on a terminal, otherwise one line per publisher.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use crate::words::count;

/// Counts of one kind of resource.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) made: usize,
    /// Existing before.
    pub(super) found: usize,
    /// Number in the sample.
    pub(super) all: usize,
}

impl Count {
    /// Counts one resource.
    pub(super) fn note(&mut self, made: bool) {
        *(if made { &mut self.made } else { &mut self.found }) += 1;
    }
}

/// Formats as `8 new, 2 existing`.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.made, self.found) {
            (made, 0) => write!(f, "{made} new"),
            (0, found) => write!(f, "{found} existing"),
            (made, found) => write!(f, "{made} new, {found} existing"),
        }
    }
}

/// Counts of all kinds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) publishers: Count,
    pub(super) nodes: Count,
    pub(super) versions: Count,
    pub(super) archives: Count,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { publishers, nodes, versions, archives } = self;
        for (name, count) in [("publishers", publishers), ("nodes", nodes), ("versions", versions)] {
            writeln!(f, "  {name:<10}  {count}")?;
        }
        writeln!(f, "  {:<10}  {archives}", "archives")
    }
}

/// Counts and displays progress.
pub(super) struct Progress {
    counts: RefCell<Counts>,
    terminal: bool,
}

impl Progress {
    /// Starts at zero; `all` are the numbers in the sample.
    pub(super) fn new(all: Counts) -> Self {
        Self { counts: RefCell::new(all), terminal: io::stdout().is_terminal() }
    }

    /// Returns the current counts.
    pub(super) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Counts, and updates the line on a terminal.
    pub(super) fn note(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.counts.borrow_mut());
        if self.terminal {
            say(&format!("\r{}", line(&self.counts())));
        }
    }

    /// Reports a completed publisher.
    pub(super) fn publisher_done(&self, name: &str, nodes: usize, versions: usize) {
        if !self.terminal {
            say(&format!("{name}: {}, {}\n", count(nodes as u64, "node"), count(versions as u64, "version")));
        }
    }

    /// Ends the line.
    pub(super) fn end(&self) {
        if self.terminal {
            say("\n");
        }
    }
}

/// A closed stderr is not an error.
fn say(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn line(Counts { publishers, nodes, versions, .. }: &Counts) -> String {
    let part = |name: &str, count: &Count| format!("{name} {}/{}", count.made + count.found, count.all);
    [part("publishers", publishers), part("nodes", nodes), part("versions", versions)].join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_of_how_much() {
        let mut counts = Counts { nodes: Count { all: 200, ..Count::default() }, ..Counts::default() };
        counts.nodes.note(true);
        counts.nodes.note(false);
        assert_eq!(line(&counts), "publishers 0/0 · nodes 2/200 · versions 0/0");
        assert!(counts.to_string().contains("nodes       1 new, 1 existing\n"), "{counts}");
    }
}
