//! How far the demo is: one line that is rewritten on a terminal, a line for each publisher elsewhere.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use crate::words::count;

/// How many of one kind there are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) made: usize,
    /// There before.
    pub(super) found: usize,
    /// In the whole sample.
    pub(super) all: usize,
}

impl Count {
    /// Counts one.
    pub(super) fn note(&mut self, made: bool) {
        *(if made { &mut self.made } else { &mut self.found }) += 1;
    }
}

/// `8 new, 2 there before`.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.made, self.found) {
            (made, 0) => write!(f, "{made} new"),
            (0, found) => write!(f, "{found} there before"),
            (made, found) => write!(f, "{made} new, {found} there before"),
        }
    }
}

/// What has been counted so far.
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

/// Shows and counts.
pub(super) struct Progress {
    counts: RefCell<Counts>,
    terminal: bool,
}

impl Progress {
    /// Nothing counted yet; `all` is what the sample has.
    pub(super) fn new(all: Counts) -> Self {
        Self { counts: RefCell::new(all), terminal: io::stdout().is_terminal() }
    }

    /// What has been counted.
    pub(super) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Counts, and shows it on a terminal.
    pub(super) fn note(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.counts.borrow_mut());
        if self.terminal {
            say(&format!("\r{}", line(&self.counts())));
        }
    }

    /// A publisher is there with all that is its own.
    pub(super) fn publisher_done(&self, name: &str, nodes: usize, versions: usize) {
        if !self.terminal {
            say(&format!("{name}: {}, {}\n", count(nodes as u64, "node"), count(versions as u64, "version")));
        }
    }

    /// Leaves the line as it is and goes to the next one.
    pub(super) fn end(&self) {
        if self.terminal {
            say("\n");
        }
    }
}

/// That nobody reads it is no reason to stop.
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
        assert!(counts.to_string().contains("nodes       1 new, 1 there before\n"), "{counts}");
    }
}
