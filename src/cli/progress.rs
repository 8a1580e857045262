//! Progress of long commands: a bar on stderr while stderr is a terminal, otherwise nothing.

use std::borrow::Cow;
use std::cell::Cell;
use std::time::Duration;

use indicatif::{BinaryBytes, ProgressBar, ProgressStyle};

/// Update interval of a bar whose work reports a fraction.
const BAR_INTERVAL: Duration = Duration::from_millis(200);
/// Length of a bar whose progress is in thousandths.
const FRACTION_MAX: u64 = 1000;

/// Unit of the progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgressUnit {
    Bytes,
    Events,
    Files,
    /// Thousandths of the whole, not shown as a number.
    Fraction,
}

impl ProgressUnit {
    /// Returns the template of a bar whose total is known.
    const fn bar_template(self) -> &'static str {
        match self {
            Self::Bytes => "{msg}  {bar:24} {percent:>3} %  {binary_bytes} of {binary_total_bytes}, {eta} left",
            Self::Events => "{msg}  {bar:24} {percent:>3} %  {human_pos} of {human_len} events, {eta} left",
            Self::Files => "{msg}  {bar:24} {percent:>3} %  {human_pos} of {human_len} files",
            Self::Fraction => "{msg}  {bar:24} {percent:>3} %, {elapsed}",
        }
    }

    /// Returns the template of a counter, for the time while the total is unknown.
    const fn counter_template(self) -> &'static str {
        match self {
            Self::Bytes => "{msg}  {binary_bytes} …",
            Self::Events => "{msg}  {human_pos} events …",
            Self::Files => "{msg}  {human_pos} files …",
            Self::Fraction => "{msg} …",
        }
    }
}

/// Progress bar. Clones share it.
#[derive(Clone)]
pub(super) struct ProgressLine {
    bar: ProgressBar,
    unit: ProgressUnit,
}

impl ProgressLine {
    /// Shows a bar for the activity `label`.
    pub(super) fn new(label: impl Into<Cow<'static, str>>, unit: ProgressUnit) -> Self {
        Self { bar: ProgressBar::no_length().with_message(label).with_style(style(unit.counter_template())), unit }
    }

    /// Reports progress in the unit of the bar; `total` is `None` if unknown.
    pub(super) fn update(&self, done: u64, total: Option<u64>) {
        if let Some(total) = total.filter(|total| *total > 0 && self.bar.length() != Some(*total)) {
            self.bar.set_style(style(self.unit.bar_template()));
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
    }

    /// Reports progress from 0 to 1.
    pub(super) fn update_fraction(&self, fraction: f64) {
        self.update(thousandths(fraction), Some(FRACTION_MAX));
    }

    /// Changes the activity.
    pub(super) fn describe(&self, label: impl Into<Cow<'static, str>>) {
        self.bar.set_message(label);
    }

    /// Clears the bar and returns the elapsed time.
    pub(super) fn finish(self) -> Duration {
        self.bar.finish_and_clear();
        self.bar.elapsed()
    }
}

/// Shows a progress bar during `work`, which reports its progress from 0 to 1 to the function that it receives.
pub(super) async fn with_progress_bar<T>(
    activity: impl Into<Cow<'static, str>>,
    work: impl AsyncFnOnce(&dyn Fn(f64)) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let progress = ProgressLine::new(activity, ProgressUnit::Fraction);
    let fraction = Cell::new(0.0);
    let on_progress = |value| fraction.set(value);
    let mut tick = tokio::time::interval(BAR_INTERVAL);
    let mut work = std::pin::pin!(work(&on_progress));
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            _ = tick.tick() => progress.update_fraction(fraction.get()),
        }
    };
    progress.finish();
    result
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
fn thousandths(fraction: f64) -> u64 {
    (fraction.clamp(0.0, 1.0) * 1000.0) as u64
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("█░")
}

/// Formats a size in MiB with one decimal place.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn format_mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Formats a size in the largest unit in which it is at least 1.
pub(super) fn format_bytes(bytes: u64) -> String {
    BinaryBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, ProgressDrawTarget};

    use super::*;

    #[test]
    fn the_bar_shows_the_share_and_the_amounts() {
        // Given a terminal
        let terminal = InMemoryTerm::new(4, 100);
        let progress = ProgressLine::new("verifying", ProgressUnit::Bytes);
        progress.bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));

        // Then the amount is shown until the total is known, then the share of it
        progress.update(5 << 20, None);
        progress.bar.force_draw();
        assert_eq!(terminal.contents(), "verifying  5.00 MiB …");
        progress.update(5 << 20, Some(20 << 20));
        progress.bar.force_draw();
        let bar = format!("verifying  {}{}  25 %  5.00 MiB of 20.00 MiB", "█".repeat(6), "░".repeat(18));
        assert!(terminal.contents().starts_with(&bar), "{}", terminal.contents());

        // And nothing is left of it at the end
        progress.finish();
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn every_template_is_valid() {
        for unit in [ProgressUnit::Bytes, ProgressUnit::Events, ProgressUnit::Files, ProgressUnit::Fraction] {
            assert!(ProgressStyle::with_template(unit.bar_template()).is_ok(), "{unit:?}");
            assert!(ProgressStyle::with_template(unit.counter_template()).is_ok(), "{unit:?}");
        }
    }
}
