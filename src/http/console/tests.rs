//! Checks of the console files. Serving is tested in `tests/it/console.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::files::FILES;
use super::{INDEX, blank_comment_lines, media_type};
use crate::domain::value::hex;

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/console/assets");
const VENDORED: &str = "vendor/";

/// Returns the project's own text files.
fn own_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let files = FILES.iter().filter(|(name, _)| !name.starts_with(VENDORED) && media_type(name) != "image/webp");
    files.map(|(name, bytes)| (*name, std::str::from_utf8(bytes).expect("UTF-8")))
}

fn list_files(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry"));
    let names = entries.flat_map(|entry| {
        let name = format!("{prefix}{}", entry.file_name().to_str().expect("UTF-8"));
        if entry.path().is_dir() { list_files(&entry.path(), &format!("{name}/")) } else { vec![name] }
    });
    names.collect()
}

fn is_script(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, kind)| kind == "js")
}

#[test]
fn every_console_file_is_embedded() {
    let on_disk: BTreeSet<String> = list_files(Path::new(ASSETS), "").into_iter().collect();
    let embedded: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(on_disk, embedded, "left: src/http/console/assets, right: src/http/console/files.rs");
}

#[test]
fn vendored_files_match_the_lock_file() {
    let files: BTreeMap<&str, &[u8]> = FILES.iter().copied().collect();
    let lock = std::str::from_utf8(files["vendor/vendor.lock"]).expect("UTF-8");
    let locked: BTreeMap<&str, &str> =
        lock.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' ')).collect();
    let scripts = files.iter().filter(|(name, _)| name.starts_with(VENDORED) && is_script(name));
    let found: BTreeMap<&str, String> =
        scripts.map(|(name, bytes)| (&name[VENDORED.len()..], hex(&Sha256::digest(bytes)))).collect();

    assert_eq!(locked.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
    for (name, hash) in found {
        let parts: Vec<_> = locked[name].splitn(3, ' ').collect();
        assert_eq!(parts[0], hash, "{name}");
        assert!(parts[1].contains('@'), "{name} has no version");
    }
    for licence in ["vendor/LICENSE-htm", "vendor/LICENSE-marked", "vendor/LICENSE-preact"] {
        assert!(files.contains_key(licence), "{licence}");
    }
}

#[test]
fn scripts_use_no_unsafe_dom_or_network_api() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "dangerouslySetInnerHTML",
        "eval(",
        "new Function",
        "setTimeout('",
        "javascript:",
        "srcdoc",
        "localStorage.token",
        "createContextualFragment",
        "DOMParser",
        "style=\"",
        "onclick=\"",
        "http://",
        "https://",
    ];
    for (name, text) in own_files() {
        for (index, line) in text.lines().enumerate() {
            // The SVG namespace, and URLs in placeholders and in requests for a price, load nothing.
            let line = line.replace("http://www.w3.org/2000/svg", "").replace("https://…", "");
            let line = line.replace("'https://example.org/video.mp4'", "").replace("`${scheme}://example.org/a`", "");
            let found: Vec<_> = forbidden.iter().filter(|word| line.contains(**word)).collect();
            assert!(found.is_empty(), "{name}:{}: {found:?}", index + 1);
        }
    }
}

#[test]
fn every_import_exists_and_every_script_is_imported() {
    let scripts: BTreeMap<&str, &str> = own_files().filter(|(name, _)| is_script(name)).collect();
    let mut imported = BTreeSet::from(["app.js", "start.js"].map(str::to_owned));
    for (name, text) in &scripts {
        for target in static_imports(name, text).chain(imports(name, text, "import('")) {
            let exists = FILES.iter().any(|(file, _)| *file == target);
            assert!(exists, "{name} imports {target}");
            imported.insert(target);
        }
    }
    let unused: Vec<_> = scripts.keys().filter(|name| !imported.contains(**name)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn exactly_the_scripts_of_every_page_are_preloaded() {
    let needed = needed_by(&["app.js"]);

    let index = own_files().find(|(name, _)| *name == INDEX).expect("the page").1;
    let preloads = index.split("<link rel=\"modulepreload\" href=\"console/").skip(1);
    let preloaded: BTreeSet<_> = preloads.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect();
    assert_eq!(preloaded, needed, "left: {INDEX}, right: what app.js imports");
}

/// Entry scripts of each page, by its name in `start.js`. The scripts that they import are preloaded as well.
const PAGE_SCRIPTS: [(&str, &[&str]); 17] = [
    ("account", &["pages/account.js"]),
    ("audit", &["pages/audit.js"]),
    ("audit/…", &["pages/history.js"]),
    ("budgets", &["pages/budgets.js"]),
    ("docs", &["pages/docs.js"]),
    ("docs/…", &["pages/docs.js", "parts/request.js"]),
    ("moderation", &["pages/moderation.js"]),
    ("nodes", &["pages/nodes.js"]),
    ("nodes/…", &["pages/node.js"]),
    ("publishers", &["pages/publishers.js"]),
    ("publishers/…", &["pages/publisher.js"]),
    ("state", &["pages/state.js"]),
    ("studio", &["pages/studio.js"]),
    ("studio/…", &["pages/studio.js", "pages/job.js"]),
    ("tasks", &["pages/tasks.js"]),
    ("tasks/…", &["pages/task.js"]),
    ("users", &["pages/users.js"]),
];

#[test]
fn exactly_the_scripts_of_a_page_are_preloaded_with_it() {
    let always = needed_by(&["app.js"]);
    let entry = |(name, roots): &(&str, &[&str])| {
        let own = needed_by(roots).into_iter().chain(roots.iter().map(|root| (*root).to_owned()));
        let own: BTreeSet<_> = own.filter(|script| !always.contains(script)).collect();
        let own: Vec<_> = own.iter().filter_map(|script| script.strip_suffix(".js")).collect();
        format!("    '{name}': '{}',\n", own.join(" "))
    };
    let expected: String = PAGE_SCRIPTS.iter().map(entry).collect();
    let text = own_files().find(|(name, _)| *name == "start.js").expect("the script").1;
    let found = text.split("MODULES = {\n").nth(1).and_then(|rest| rest.split("  };\n").next());
    assert!(found == Some(&expected), "the entries in start.js must be:\n{expected}");

    let app = own_files().find(|(name, _)| *name == "app.js").expect("the application").1;
    for page in imports("app.js", app, "import('") {
        assert!(PAGE_SCRIPTS.iter().any(|(_, roots)| roots.contains(&page.as_str())), "{page} is in no entry");
    }
}

/// Returns the scripts that `roots` import, directly or through others.
fn needed_by(roots: &[&str]) -> BTreeSet<String> {
    let scripts: BTreeMap<&str, &str> = own_files().filter(|(name, _)| is_script(name)).collect();
    let mut needed = BTreeSet::new();
    let mut pending: Vec<_> = roots.iter().map(|root| (*root).to_owned()).collect();
    while let Some(name) = pending.pop() {
        let text = scripts.get(name.as_str()).copied().unwrap_or_default();
        let targets = static_imports(&name, text).filter(|target| needed.insert(target.clone()));
        pending.extend(targets.collect::<Vec<_>>());
    }
    needed
}

/// Returns the console files that a script imports when it is loaded, with names or only for their effects.
fn static_imports(name: &str, text: &str) -> impl Iterator<Item = String> {
    imports(name, text, " from '").chain(imports(name, text, "\nimport '"))
}

/// Returns the console files that a script imports after `keyword`; packages in `vendor/` are skipped.
fn imports(name: &str, text: &str, keyword: &str) -> impl Iterator<Item = String> {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let paths = text.split(keyword).skip(1).filter_map(|rest| rest.split('\'').next());
    paths.filter(|path| path.starts_with('.')).map(|path| resolve(folder, path))
}

/// Maximum size of the picture of a job.
const PICTURE_BYTES_MAX: usize = 6 * 1024;
/// Maximum size of a sample.
const SAMPLE_BYTES_MAX: usize = 24 * 1024;

#[test]
fn pictures_are_small() {
    let pictures = FILES.iter().filter(|(name, _)| media_type(name) == "image/webp");
    for (name, bytes) in pictures {
        let max = if name.starts_with("jobs/") { PICTURE_BYTES_MAX } else { SAMPLE_BYTES_MAX };
        assert!(bytes.len() <= max, "{name} has {} bytes", bytes.len());
        assert!(bytes.starts_with(b"RIFF"), "{name} is not WebP");
    }
}

/// Resolves a relative import.
fn resolve(folder: &str, import: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in import.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[test]
fn only_comment_lines_are_blanked() {
    assert_eq!(blank_comment_lines("// a\nx; // b\n  // c\n"), "\nx; // b\n\n");
}

#[test]
fn files_have_known_content_types() {
    for (name, _) in FILES.iter().filter(|(name, _)| !name.starts_with(VENDORED)) {
        assert!(!media_type(name).starts_with("text/plain"), "{name}");
    }
}
