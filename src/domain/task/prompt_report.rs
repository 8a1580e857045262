//! Report of the words that the built-in engine understands in a prompt.

use serde::Serialize;

/// Words of a prompt that have an effect, and those that have none (contract 11).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PromptReport {
    pub understood: Vec<String>,
    pub ignored: Vec<String>,
}
