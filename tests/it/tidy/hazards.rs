//! Tests named in `docs/hazards.md`: all of them exist.

use std::fs;
use std::path::Path;

/// Entry of a hazard without a test.
const UNGUARDED: &str = "not guarded";

#[test]
fn every_hazard_names_tests_that_exist_or_says_that_there_is_none() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/hazards.md")).expect("the page of hazards");
    // The second table has the numbers of runs.
    let hazards = page.split("## How much").next().unwrap_or_default();
    let rows: Vec<_> = hazards.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| What")).collect();
    assert!(rows.len() > 20, "the table was not found");
    let mut wrong = Vec::new();
    for row in rows {
        let guards = row.trim_end_matches(" |").rsplit_once(" | ").map_or("", |(_, guards)| guards);
        let named: Vec<_> = guards.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
        if named.is_empty() && !guards.starts_with(UNGUARDED) {
            wrong.push(format!("no test is named: {row}"));
        }
        wrong.extend(named.iter().filter(|name| !exists(root, name)).map(|name| format!("there is no test {name}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `true` if a test of this name exists: `crash::name` in `tests/it/crash.rs`, `media::store::name` in
/// `src/media/store.rs`, `mediary_journal::frame::name` in `crates/journal/src/frame.rs`.
fn exists(root: &Path, name: &str) -> bool {
    let (module, name) = name.rsplit_once("::").expect("a name in a module");
    let paths = match module.strip_prefix("mediary_").and_then(|module| module.split_once("::")) {
        Some((member, module)) => vec![format!("crates/{member}/src/{}", module.replace("::", "/"))],
        None => ["tests/it", "src"].map(|home| format!("{home}/{}", module.replace("::", "/"))).into(),
    };
    let files = paths
        .iter()
        .flat_map(|path| [".rs", "/mod.rs", "/tests.rs"].map(|ending| root.join(format!("{path}{ending}"))));
    let is_there = |text: &str| text.contains(&format!("fn {name}(")) && text.contains("test]");
    files.filter_map(|file| fs::read_to_string(file).ok()).any(|text| is_there(&text))
}
