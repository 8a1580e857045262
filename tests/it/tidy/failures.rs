//! Failure codes of tasks: every code in the source is known and so documented, and every known code is used.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mediary::domain::task::TaskFailure;

use super::source::SourceFile;
use super::{files, is_rust};

/// Text before the code where a failure is constructed.
const HEADS: [&str; 6] =
    ["TaskFailure::new(", "internal_failure(", "rejected(", "failure(", "code: ", "code: Text::from_recorded("];
/// Codes with a constant.
const NAMED: [&str; 3] = ["cancelled", "client_gone", TaskFailure::INTERRUPTED];

#[test]
fn exactly_the_listed_failure_codes_are_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut emitted_codes: BTreeSet<_> = NAMED.map(str::to_owned).into();
    for path in files(&["src", "crates"]).iter().filter(|path| is_rust(path)) {
        let source = SourceFile::new(path, &fs::read_to_string(root.join(path)).expect("a file that was listed"));
        emitted_codes.extend(HEADS.iter().flat_map(|head| codes_after(head, &source)));
    }
    assert_eq!(emitted_codes, TaskFailure::CODES.map(str::to_owned).into());
}

/// String literals after `head`, outside of tests.
fn codes_after(head: &str, source: &SourceFile) -> Vec<String> {
    let is_whole = |at: usize| !source.code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    let heads = source.code.match_indices(head).filter(|(at, _)| is_whole(*at) && !source.is_test(*at));
    let literals = heads.filter_map(|(at, _)| source.text[at + head.len()..].trim_start().strip_prefix('"'));
    let codes = literals.filter_map(|remaining| Some(remaining.split_once('"')?.0));
    codes.filter(|code| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')).map(str::to_owned).collect()
}
