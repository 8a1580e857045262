//! Checks that every entry of `docs/hazards.md` names tests, and that they exist.

use std::fs;
use std::path::Path;

#[test]
fn every_hazard_names_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/hazards.md")).expect("the page of hazards");
    let (guarded, _) = page.split_once("\n## Not guarded\n").expect("the section without tests");
    let entries = list_items(guarded);
    assert!(entries.len() > 150, "the lists were not found");

    let mut mismatches = Vec::new();
    for entry in &entries {
        let named_tests: Vec<_> = entry.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
        if named_tests.is_empty() {
            mismatches.push(format!("no test is named: {entry}"));
        }
        mismatches.extend(
            named_tests.iter().filter(|name| !exists(root, name)).map(|name| format!("there is no test {name}")),
        );
    }
    assert!(mismatches.is_empty(), "{mismatches:#?}");
}

/// Returns the items of all lists, each with its continuation lines, which are indented.
fn list_items(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(first) = line.strip_prefix("- ") {
            items.push(first.to_owned());
        } else if let (Some(rest), Some(item)) = (line.strip_prefix("  "), items.last_mut()) {
            item.push(' ');
            item.push_str(rest);
        }
    }
    items
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
