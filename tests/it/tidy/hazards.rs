//! Checks that every test named in `docs/hazards.md` exists.

use std::fs;
use std::path::Path;

/// Beginning of the entry of a hazard without a test.
const UNGUARDED: &str = "not guarded";

#[test]
fn every_hazard_names_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/hazards.md")).expect("the page of hazards");
    // The second table lists numbers of runs, not tests.
    let hazards = page.split("## How much").next().unwrap_or_default();
    let rows: Vec<_> = hazards.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| What")).collect();
    assert!(rows.len() > 20, "the table was not found");

    let mut mismatches = Vec::new();
    for row in rows {
        let guards = row.trim_end_matches(" |").rsplit_once(" | ").map_or("", |(_, guards)| guards);
        let named_tests: Vec<_> = guards.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
        if named_tests.is_empty() && !guards.starts_with(UNGUARDED) {
            mismatches.push(format!("no test is named: {row}"));
        }
        mismatches.extend(
            named_tests.iter().filter(|name| !exists(root, name)).map(|name| format!("there is no test {name}")),
        );
    }
    assert!(mismatches.is_empty(), "{mismatches:#?}");
}

/// Returns `true` if a test of this name exists: `slow::crash::name` in `tests/it/slow/crash.rs`, `media::store::name`
/// in `src/media/store.rs`, `mediary_music::mix::name` in `crates/music/src/mix`.
fn exists(root: &Path, name: &str) -> bool {
    let (module, name) = name.rsplit_once("::").expect("a name in a module");
    let path = module.replace("::", "/");
    let (roots, path) = match path.strip_prefix("mediary_").and_then(|path| path.split_once('/')) {
        Some((member, path)) => (vec![format!("crates/{member}/src/")], path.to_owned()),
        None => (vec!["tests/it/".to_owned(), "src/".to_owned()], path),
    };
    let files = roots.iter().flat_map(|root_path| {
        [".rs", "/mod.rs", "/tests.rs"].map(|ending| root.join(format!("{root_path}{path}{ending}")))
    });
    let is_there = |text: &str| text.contains(&format!("fn {name}(")) && text.contains("test]");
    files.filter_map(|file| fs::read_to_string(file).ok()).any(|text| is_there(&text))
}
