//! Log lines on stderr, for people or for machines.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt};

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people; with colours on a terminal, unless `NO_COLOR` is set.
    Text,
    /// One JSON object per line.
    Json,
}

/// Selection of log lines.
#[derive(Debug, Clone, PartialEq)]
pub struct LogFilter(Targets);

impl LogFilter {
    /// Parses levels separated by commas, for everything (`info`) or for a target (`mediary::http=debug`). `None` if a
    /// part is neither, so that a misspelt level is not taken for a target.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.split(',')
            .try_fold(Targets::new(), |targets, directive| {
                Some(match directive.trim().split_once('=') {
                    None => targets.with_default(parse_level(directive.trim())?),
                    Some((target, level)) => targets.with_target(parse_target(target)?, parse_level(level)?),
                })
            })
            .map(Self)
    }
}

fn parse_level(name: &str) -> Option<LevelFilter> {
    Some(match name {
        "off" => LevelFilter::OFF,
        "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => return None,
    })
}

fn parse_target(target: &str) -> Option<&str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    (!target.is_empty() && target.chars().all(allowed)).then_some(target)
}

/// Starts logging to stderr, including panics. Only the first call in a process has an effect.
pub fn init_logging(format: LogFormat, filter: LogFilter) {
    let lines = match format {
        LogFormat::Text => fmt::layer().with_writer(io::stderr).with_ansi(use_color()).boxed(),
        LogFormat::Json => fmt::layer().with_writer(io::stderr).json().flatten_event(true).boxed(),
    };
    if Registry::default().with(lines).with(filter.0).try_init().is_err() {
        tracing::debug!("logging already set up, first configuration kept");
        return;
    }
    super::panic_hook::install_hook();
}

fn use_color() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn targets_can_have_different_levels() {
        let LogFilter(targets) = LogFilter::parse("warn, mediary::http=debug").unwrap();

        assert!(targets.would_enable("mediary::http", &Level::DEBUG));
        assert!(!targets.would_enable("mediary::actors", &Level::INFO));
        assert!(targets.would_enable("mediary::actors", &Level::WARN));
    }

    #[test]
    fn invalid_filters_are_rejected() {
        for bad in ["", "verbose", "INFO", "info,", "=debug", "mediary=", "mediary=loud", "a=b=info", "[span]=info"] {
            assert_eq!(LogFilter::parse(bad), None, "{bad}");
        }
    }
}
