//! Conventions of the source code as tests. Every violation is listed with file and line.
//!
//! The rules scan text and do not understand its meaning; that is sufficient here.

mod failures;
mod hazards;
mod rules;
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rules::RULES;
use source::{SourceFile, below_src, words};

#[test]
fn the_source_follows_its_conventions() {
    let paths = files(&["src", "crates", "tests", "benches"]);
    // The samples below break the rules on purpose.
    let is_source = |path: &&String| is_rust(path) && !path.starts_with("tests/it/tidy");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read_source =
        |path: &String| SourceFile::new(path, &fs::read_to_string(root.join(path)).expect("a file that was listed"));
    let sources: Vec<_> = paths.iter().filter(is_source).map(read_source).collect();
    assert!(sources.iter().any(|source| source.path == "src/main.rs"), "the files were not found");

    let violations =
        [sources.iter().flat_map(broken_rules).collect(), single_entry_directories(&paths), undeclared_files(&sources)]
            .concat();

    assert!(violations.is_empty(), "{} violations of the conventions:\n{}", violations.len(), violations.join("\n"));
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Returns every file below the directories, relative to the root of the repository, sorted.
fn files(folders: &[&str]) -> Vec<String> {
    let mut unread: Vec<_> = folders.iter().map(|&folder| folder.to_owned()).collect();
    let mut files = Vec::new();
    while let Some(folder) = unread.pop() {
        for entry in
            fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder)).expect("a folder of the repository")
        {
            let entry = entry.expect("an entry of a folder");
            let path = format!("{folder}/{}", entry.file_name().to_str().expect("file names are UTF-8"));
            let is_folder = entry.file_type().expect("the type of an entry").is_dir();
            if is_folder { unread.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

fn broken_rules(source: &SourceFile) -> Vec<String> {
    let findings = RULES.iter().flat_map(|(name, check)| check(source).into_iter().map(move |finding| (name, finding)));
    findings.map(|(name, finding)| format!("{}:{}: {}: {name}", source.path, finding.line, finding.problem)).collect()
}

/// Returns the directories with a single entry, which should be a file instead. Exceptions: `node/tests.rs` beside
/// `node.rs` is Rust's convention for a separate test file, and a crate may consist of `src/lib.rs`.
fn single_entry_directories(paths: &[String]) -> Vec<String> {
    let mut entries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, (src, _)) in paths.iter().filter_map(|path| Some((path, below_src(path)?))) {
        let folders = path.match_indices('/').filter(|(at, _)| at + 1 >= src.len());
        let parents = folders.map(|(at, _)| (&path[..at], path[at + 1..].split('/').next()));
        for (folder, entry) in parents {
            let names = entries.entry(folder).or_default();
            names.extend(entry.filter(|entry| !names.contains(entry)));
        }
    }
    let single =
        entries.iter().filter(|(_, entries)| entries.len() == 1 && !matches!(entries[0], "tests.rs" | "lib.rs"));
    single
        .map(|(folder, entries)| {
            format!("{folder}/{}:1: the only entry of its directory: replace the directory by a file", entries[0])
        })
        .collect()
}

/// Returns the files that no `mod` declares, which the compiler ignores silently.
fn undeclared_files(sources: &[SourceFile]) -> Vec<String> {
    let by_path: BTreeMap<_, _> = sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let is_declared = |source: &&SourceFile| {
        let Some((src, file)) = below_src(&source.path) else { return true };
        if matches!(file, "lib.rs" | "main.rs") {
            return true;
        }
        let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let (parent, name) = module.rsplit_once('/').map_or(("lib", module), |(parent, name)| (parent, name));
        let parents = [format!("{src}{parent}.rs"), format!("{src}{parent}/mod.rs")];
        parents.iter().filter_map(|path| by_path.get(path.as_str())).any(|parent| declares(&parent.code, name))
    };
    let undeclared = sources.iter().filter(|source| !is_declared(source));
    undeclared.map(|source| format!("{}:1: no `mod` declares the file: the compiler ignores it", source.path)).collect()
}

fn declares(code: &str, module: &str) -> bool {
    words(code, module).any(|at| code[..at].ends_with("mod ") && code[at + module.len()..].starts_with(';'))
}

/// Violations: the beginning of the rule's name, the path and the text of the file, and the line of the violation.
const BAD: &[(&str, &str, &str, usize)] = &[
    ("every file says", "src/domain/x.rs", "use std::fmt;\n", 1),
    ("every file says", "tests/it/x.rs", "//!\nfn f() {}\n", 1),
    ("dependencies", "src/domain/x.rs", "//! x\nuse crate::events::log;\n", 2),
    ("dependencies", "src/domain/x.rs", "//! x\nuse std::fmt;\nfn f() { crate::environment::now() }\n", 3),
    ("dependencies", "src/events/x.rs", "//! x\nuse crate::{domain::a, http::{b, c}};\n", 2),
    ("dependencies", "src/events/x.rs", "//! x\nuse crate::{\n    domain::{a, b},\n    media::c,\n};\n", 4),
    ("dependencies", "src/http/x.rs", "//! x\nuse crate::outbound::client;\n", 2),
    ("dependencies", "src/actors/x.rs", "//! x\nuse crate::config::Settings;\n", 2),
    ("dependencies", "src/environment.rs", "//! x\nuse super::telemetry;\n", 2),
    ("dependencies", "src/environment.rs", "//! x\nmod tests {\n    use super::super::http::x;\n}\n", 3),
    ("dependencies", "src/events/log.rs", "//! x\nuse super::super::{domain, actors};\n", 2),
    ("dependencies", "src/events/mod.rs", "//! x\nuse super::vendors;\n", 2),
    ("dependencies", "src/app.rs", "//! x\nuse crate::*;\n", 2),
    ("dependencies", "src/main.rs", "//! x\nfn main() { mediary::config::load() }\n", 2),
    ("dependencies", "src/attic/x.rs", "//! x\n", 1),
    ("a crate", "src/http/x.rs", "//! x\nuse reqwest::Client;\n", 2),
    ("a crate", "src/events/journal.rs", "//! x\nfn f(db: &::sled::Db) {}\n", 2),
    ("a crate", "src/events/journal.rs", "//! x\nuse bincode;\n", 2),
    ("a crate", "src/http/x.rs", "//! x\n#[actix::main]\nasync fn f() {}\n", 2),
    ("a crate", "src/actors/x.rs", "//! x\nuse actix_web::web;\n", 2),
    ("a crate", "src/domain/x.rs", "//! x\nuse {std::fmt, rand::Rng};\n", 2),
    ("a crate", "crates/engine/src/x.rs", "//! x\nuse fast_image_resize::Resizer;\n", 2),
    ("a crate", "src/http/x.rs", "//! x\nuse mediary_music::compose;\n", 2),
    ("nothing panics", "crates/music/src/x.rs", "//! x\nfn f() { g().unwrap() }\n", 2),
    ("nothing panics", "src/domain/x.rs", "//! x\n#[cfg(test)]\nmod tests {}\nfn f() { g().unwrap() }\n", 4),
    ("nothing panics", "src/domain/x.rs", "//! x\nfn f() { g().expect(\"\") }\n", 2),
    ("nothing panics", "crates/journal/src/x.rs", "//! x\nfn f() { g().unwrap() }\n", 2),
    ("nothing is left", "src/domain/x.rs", "//! x\nfn f() { todo!() }\n", 2),
    ("nothing is left", "src/domain/x.rs", "//! x\nfn f() { unimplemented!() }\n", 2),
    ("nothing is left", "src/domain/x.rs", "//! x\nfn f() { dbg!(1); }\n", 2),
    ("nothing is left", "tests/it/x.rs", "//! x\n#[test]\n#[ignore = \"slow\"]\nfn f() {}\n", 3),
    ("nothing is left", "src/domain/x.rs", "//! x\n// FIXME: later\n", 2),
    ("nothing is left", "src/domain/x.rs", "//! x\n/* XXX */\n", 2),
    ("nothing is left", "src/domain/x.rs", "//! x\n//! TODO\n", 2),
    ("no paths", "src/domain/x.rs", "//! x\nconst A: &str = \"/home/me\";\n", 2),
    ("no paths", "tests/it/x.rs", "//! x\n// see /tmp/x\n", 2),
];

#[test]
fn every_rule_detects_its_sample_violation() {
    for (rule, path, text, line) in BAD.iter().copied() {
        let found = broken_rules(&SourceFile::new(path, text));

        assert_eq!(found.len(), 1, "{text}\n{found:?}");
        assert!(found[0].starts_with(&format!("{path}:{line}: ")), "{text}\n{found:?}");
        assert!(found[0].contains(&format!(": {rule}")), "{text}\n{found:?}");
    }
    let is_tried = |name: &str| BAD.iter().any(|(rule, ..)| name.starts_with(rule));
    let untried: Vec<_> = RULES.iter().map(|(name, _)| name).filter(|name| !is_tried(name)).collect();
    assert!(untried.is_empty(), "rules without a sample violation: {untried:?}");
}

#[test]
fn lookalikes_are_not_violations() {
    let harmless = r##"//! Never write `.unwrap()`, nor todo!().
use super::stream::Position;
use crate::{domain::{a, b}, events::c};

/* use crate::http::x; /* nested */ todo!() */
const TEXT: &str = "todo!() \" crate::http .unwrap()";
const RAW: &[u8] = br#"dbg!(1) " sled::open"#;
const QUOTES: [char; 3] = ['"', '\'', '\u{22}'];

fn lifetimes<'a>(sled: &'a str) -> &'a str {
    let r#type = self::rand::ratio(sled).expect("only text: todo!()");
    r#type
}

trait Declared {
    fn declared(&self) -> [u8; 3];
}

#[cfg(test)]
mod tests {
    use super::super::super::domain::x;
    use super::*;

    #[test]
    fn test() {
        f().unwrap();
    }
}
"##;

    assert_eq!(broken_rules(&SourceFile::new("src/events/x.rs", harmless)), [""; 0]);
    let tests_apart =
        SourceFile::new("src/domain/node/tests.rs", "//! x\nuse super::super::ids;\nfn f() { g().unwrap() }\n");
    assert_eq!(broken_rules(&tests_apart), [""; 0]);
    let crate_page = "//! The modules.\n\npub mod http;\npub use crate::http::x;\n";
    assert_eq!(broken_rules(&SourceFile::new("src/lib.rs", crate_page)), [""; 0]);
}

#[test]
fn directories_with_a_single_file_are_reported() {
    let paths =
        ["src/main.rs", "src/a/mod.rs", "src/b/mod.rs", "src/b/c.rs", "src/d/e/f.rs", "src/d/e/g.rs", "tests/it.rs"];

    let found = single_entry_directories(&paths.map(str::to_owned));

    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("src/a/mod.rs:1: ") && found[1].starts_with("src/d/e:1: "), "{found:?}");
}

#[test]
fn files_without_a_mod_declaration_are_reported() {
    let files = [
        ("src/lib.rs", "pub mod a;\nmod b;\n// mod c;\n"),
        ("src/a.rs", ""),
        ("src/b/mod.rs", "pub(crate) mod d;"),
        ("src/b/d.rs", ""),
        ("src/b/e.rs", ""),
        ("src/c.rs", ""),
        ("crates/x/src/lib.rs", "mod a;"),
        ("crates/x/src/a.rs", ""),
        ("crates/x/src/b.rs", ""),
    ];

    let found = undeclared_files(&files.map(|(path, text)| SourceFile::new(path, text)));

    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("src/b/e.rs:1: ") && found[1].starts_with("src/c.rs:1: "), "{found:?}");
    assert!(found[2].starts_with("crates/x/src/b.rs:1: "), "{found:?}");
}
