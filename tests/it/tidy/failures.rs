//! Failure codes of tasks: the source uses exactly the codes of `TaskFailure::CODES`, which are documented.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mediary::domain::task::TaskFailure;

use super::source::SourceFile;
use super::{files, is_rust};

/// Source text that precedes the code wherever a failure is constructed.
const PREFIXES: [&str; 6] =
    ["TaskFailure::new(", "internal_failure(", "rejected(", "failure(", "code: ", "code: Text::from_recorded("];
/// Codes that the source writes as a constant, not as a literal after a prefix.
const CONSTANT_CODES: [&str; 3] = ["cancelled", "client_gone", TaskFailure::INTERRUPTED];

#[test]
fn exactly_the_listed_failure_codes_are_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut emitted_codes: BTreeSet<_> = CONSTANT_CODES.map(str::to_owned).into();
    for path in files(&["src", "crates"]).iter().filter(|path| is_rust(path)) {
        let source = SourceFile::new(path, &fs::read_to_string(root.join(path)).expect("a file that was listed"));
        emitted_codes.extend(PREFIXES.iter().flat_map(|prefix| codes_after(prefix, &source)));
    }
    assert_eq!(emitted_codes, TaskFailure::CODES.map(str::to_owned).into());
}

/// Returns the codes in string literals after `prefix`, outside of tests.
fn codes_after(prefix: &str, source: &SourceFile) -> Vec<String> {
    let begins_word =
        |at: usize| !source.code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    let places = source.code.match_indices(prefix).filter(|(at, _)| begins_word(*at) && !source.is_test(*at));
    let literals = places.filter_map(|(at, _)| source.text[at + prefix.len()..].trim_start().strip_prefix('"'));
    let codes = literals.filter_map(|remaining| Some(remaining.split_once('"')?.0));
    codes.filter(|code| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')).map(str::to_owned).collect()
}
