//! Progress of long commands: one line on stderr, rewritten while stderr is a terminal, otherwise nothing.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::pluralize::pluralize;

/// Interval between updates of the line.
const SHOW_EVERY: Duration = Duration::from_millis(100);
/// Time before the remaining time is shown, because early estimates are unstable.
const ESTIMATE_AFTER: Duration = Duration::from_secs(1);
const WIDTH: usize = 24;

/// Unit of the progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgressUnit {
    Bytes,
    Events,
    Pictures,
    /// Thousandths of the whole, not shown as a number.
    Fraction,
}

/// Progress line.
pub(super) struct ProgressLine {
    label: &'static str,
    unit: ProgressUnit,
    started: Instant,
    last_shown: Option<Instant>,
    is_terminal: bool,
}

impl ProgressLine {
    /// Starts a progress line for the activity `label`.
    pub(super) fn new(label: &'static str, unit: ProgressUnit) -> Self {
        Self { label, unit, started: Instant::now(), last_shown: None, is_terminal: io::stderr().is_terminal() }
    }

    /// Returns `true` if stderr is a terminal.
    pub(super) fn is_visible(&self) -> bool {
        self.is_terminal
    }

    /// Reports progress; `total` is `None` if unknown.
    pub(super) fn update(&mut self, done: u64, total: Option<u64>) {
        if self.is_terminal && self.last_shown.is_none_or(|last| last.elapsed() >= SHOW_EVERY) {
            self.last_shown = Some(Instant::now());
            // The terminal may be closed.
            let _ =
                write!(io::stderr(), "\r{}\x1b[K", line(self.label, self.unit, done, total, self.started.elapsed()));
        }
    }

    /// Clears the line and returns the elapsed time.
    pub(super) fn finish(self) -> Duration {
        if self.last_shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        self.started.elapsed()
    }
}

fn line(label: &str, unit: ProgressUnit, done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let Some(total) = total.filter(|total| *total > 0) else { return format!("{label}  {} …", amount(unit, done)) };
    if unit == ProgressUnit::Fraction {
        return format!("{label}  {}, {} s", bar(done, total), elapsed.as_secs());
    }
    let fraction = ratio(done.min(total), total);
    let remaining = if elapsed >= ESTIMATE_AFTER && fraction > 0.0 {
        format!(", {} s left", elapsed.mul_f64((1.0 - fraction) / fraction).as_secs())
    } else {
        String::new()
    };
    format!("{label}  {}  {} of {}{remaining}", bar(done, total), to_unit(unit, done), amount(unit, total))
}

fn bar(done: u64, total: u64) -> String {
    let fraction = ratio(done.min(total), total);
    let filled = (0..WIDTH).filter(|index| ratio(*index as u64 + 1, WIDTH as u64) <= fraction).count();
    let percent = done.min(total) * 100 / total;
    format!("{}{} {percent:>3} %", "█".repeat(filled), "░".repeat(WIDTH - filled))
}

#[expect(clippy::cast_precision_loss, reason = "a bar has few places")]
fn ratio(part: u64, total: u64) -> f64 {
    part as f64 / total as f64
}

fn amount(unit: ProgressUnit, done: u64) -> String {
    match unit {
        ProgressUnit::Events => pluralize(done, "event"),
        ProgressUnit::Pictures => pluralize(done, "picture"),
        ProgressUnit::Fraction => String::new(),
        ProgressUnit::Bytes => format!("{} MiB", to_unit(unit, done)),
    }
}

/// Returns the number without its unit.
fn to_unit(unit: ProgressUnit, done: u64) -> u64 {
    if unit == ProgressUnit::Bytes { done >> 20 } else { done }
}

/// Formats a size, the same for all commands.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn format_mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_of_how_much_and_how_long_it_takes() {
        let text =
            |done, total, seconds| line("verifying", ProgressUnit::Bytes, done, total, Duration::from_secs(seconds));
        let bar = format!("{}{}", "█".repeat(6), "░".repeat(18));
        assert_eq!(text(1 << 20, Some(4 << 20), 3), format!("verifying  {bar}  25 %  1 of 4 MiB, 9 s left"));
        assert_eq!(text(1 << 20, Some(4 << 20), 0), format!("verifying  {bar}  25 %  1 of 4 MiB"));
        assert_eq!(text(5 << 20, None, 3), "verifying  5 MiB …");
        assert_eq!(text(0, Some(0), 3), "verifying  0 MiB …");
        assert!(text(9, Some(3), 3).contains("100 %"));
        let pictures = line("portrait", ProgressUnit::Pictures, 30, Some(120), Duration::from_secs(7));
        assert_eq!(pictures, format!("portrait  {bar}  25 %  30 of 120 pictures, 21 s left"));
        let fraction = line("a film", ProgressUnit::Fraction, 250, Some(1000), Duration::from_secs(7));
        assert_eq!(fraction, format!("a film  {bar}  25 %, 7 s"));
    }
}
