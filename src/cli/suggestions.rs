//! Values that shells complete, and suggestions for misspelled commands.

use std::env;
use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, Error};

use crate::config::edit_distance;
use crate::domain::event;

/// Maximum edit distance of a suggestion.
const SUGGESTION_DISTANCE_MAX: usize = 2;

/// Value parser that offers the values for completion and accepts any other text, which the caller validates.
#[derive(Clone)]
pub(super) struct SuggestedValues(pub(super) &'static [&'static str]);

impl TypedValueParser for SuggestedValues {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

/// Value parser that offers the event types for completion and accepts any other text; the command validates it.
#[derive(Clone)]
pub(super) struct SuggestedEventTypes;

impl TypedValueParser for SuggestedEventTypes {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(event::names().map(PossibleValue::new)))
    }
}

/// Adds suggestions to the error for an unknown command. clap itself does not suggest short words with swapped letters.
pub(super) fn with_suggestions<C: CommandFactory>(error: Error) -> Error {
    with_suggestions_from(error, &C::command(), env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
}

fn with_suggestions_from(mut error: Error, root: &Command, arguments: impl Iterator<Item = String>) -> Error {
    let unknown = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(unknown)) if error.kind() == ErrorKind::InvalidSubcommand => unknown.clone(),
        _ => return error,
    };
    if error.get(ContextKind::SuggestedSubcommand).is_none() {
        // Search among the subcommands of the last known command.
        let preceding = arguments.take_while(|argument| *argument != unknown);
        let parent = preceding.fold(root, |command, word| command.find_subcommand(&word).unwrap_or(command));
        let names = parent.get_subcommands().map(Command::get_name);
        let similar: Vec<_> =
            names.filter(|name| edit_distance(&unknown, name) <= SUGGESTION_DISTANCE_MAX).map(str::to_owned).collect();
        if !similar.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(similar));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::CliArguments;

    fn error_message(words: &[&str]) -> String {
        let error = CliArguments::try_parse_from(["mediary"].iter().chain(words)).unwrap_err();
        let arguments = words.iter().map(|&word| word.to_owned());
        with_suggestions_from(error, &CliArguments::command(), arguments).to_string()
    }

    #[test]
    fn a_command_with_swapped_letters_is_suggested() {
        assert!(
            error_message(&["audit", "lgo"]).contains("a similar subcommand exists: 'log'"),
            "{}",
            error_message(&["audit", "lgo"])
        );
        assert!(error_message(&["--data-dir", "audit", "srvee"]).contains("'serve'"));
        assert!(!error_message(&["audit", "bananas"]).contains("similar"), "{}", error_message(&["audit", "bananas"]));
    }

    #[test]
    fn log_levels_are_completed_and_any_filter_is_accepted() {
        for level in ["warn", "info,mediary::http=debug"] {
            let parsed = CliArguments::try_parse_from(["mediary", "--log-level", level]).unwrap();
            assert_eq!(parsed.settings.log_level.as_deref(), Some(level));
        }
        let mut script = Vec::new();
        clap_complete::generate(clap_complete::Shell::Fish, &mut CliArguments::command(), "mediary", &mut script);
        let script = String::from_utf8(script).unwrap();
        let offers = |flag: &str, value: &str| script.lines().any(|line| line.contains(flag) && line.contains(value));
        assert!(offers("log-level", "debug") && offers("log-format", "json"), "{script}");
    }
}
