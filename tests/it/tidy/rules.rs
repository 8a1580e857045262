//! Rules for single files. Each has a name, and a function that finds violations.

use super::source::{SourceFile, below_src, block_end, name_at, words};

/// Violation of a rule in one file.
pub struct TidyFinding {
    pub line: usize,
    pub problem: String,
}

/// Name of a rule, and the function that finds its violations.
pub type TidyRule = (&'static str, fn(&SourceFile) -> Vec<TidyFinding>);

pub const RULES: &[TidyRule] = &[
    ("every file says on its first line, after //!, what it is for", first_line),
    ("dependencies between modules go one way", dependencies),
    ("a crate is used only where it is listed", homes_of_crates),
    ("nothing panics for convenience", convenience_panics),
    ("nothing is left unfinished", unfinished),
    ("no paths of somebody's machine", machine_paths),
];

/// Modules by layer, lowest first: a module may use only lower layers, not the modules of its own.
const LAYERS: &[&[&str]] = &[
    &[
        "client_thread",
        "data_dir",
        "disk_space",
        "domain",
        "environment",
        "fairness",
        "pluralize",
        "priority",
        "telemetry",
    ],
    &["file_tree"],
    &["pii", "quota"],
    &["events", "media", "outbound"],
    &["oidc", "vendors", "projections"],
    &["audit", "cluster"],
    &["verification"],
    &["backup"],
    &["actors"],
    &["http"],
    &["config"],
    &["app"],
    &["cli"],
    &["main"],
];

/// Modules of the same layer that may be used nevertheless.
const ALLOWED_IN_LAYER: &[(&str, &str)] = &[("environment", "domain")];

/// Dependencies that the layers would allow and that are forbidden.
const FORBIDDEN: &[(&str, &str)] = &[("http", "events"), ("http", "vendors"), ("http", "outbound"), ("main", "config")];

/// Files and directories that may use a crate: below `src/`, or in a member of the workspace. `tests` and `benches` may
/// use all.
const HOMES: &[(&str, &[&str])] = &[
    ("reqwest", &["outbound"]),
    ("async_nats", &["events/shared/nats"]),
    ("object_store", &["file_tree/bucket.rs", "outbound/bucket_client.rs"]),
    ("tokio_postgres", &["events/shared/postgres"]),
    ("tokio_postgres_rustls", &["events/shared/postgres"]),
    ("bincode", &["events/codec.rs"]),
    ("fast_image_resize", &["crates/engine/src/resample.rs"]),
    ("rusty_h264", &["crates/engine/src/video/codec.rs"]),
    ("shiguredo_mp4", &["crates/engine/src/video"]),
    ("opus_pure", &["crates/music/src", "crates/engine/src/video/sound/opus.rs"]),
    ("mediary_engine", &["vendors/local", "media/input.rs"]),
    ("mediary_music", &["vendors/local"]),
    ("minijinja", &["vendors/profile", "vendors/profile_vendor"]),
    ("sled", &["events/sled_log.rs", "events/sled_log"]),
    ("mediary_journal", &["events", "data_dir.rs", "disk_space.rs"]),
    ("quick_cache", &["projections/node/cache.rs", "pii", "http/prompt_reports.rs", "media/thumbnail.rs"]),
    ("rand", &["environment"]),
    ("ring", &["oidc"]),
    ("similar", &["media/archive/compare.rs"]),
    (
        "zip",
        &["media/archive/check.rs", "media/archive/contents.rs", "media/archive/pack.rs", "media/archive/unpack.rs"],
    ),
    ("http_body", &["outbound/upload_body.rs"]),
    ("http_body_util", &["outbound/bucket_client.rs"]),
    ("comfy_table", &["cli/table.rs"]),
    ("ignore", &["cli/client/package.rs"]),
    ("chacha20poly1305", &["http/idempotency/response_store.rs", "pii/seal.rs"]),
    ("actix", &["actors", "app"]),
    ("actix_rt", &["actors", "app"]),
    ("actix_web", &["http", "app"]),
    ("actix_http", &["http", "app"]),
    ("actix_service", &["http/connection.rs"]),
    ("socket2", &["http/connection.rs"]),
    ("actix_cors", &["http", "app"]),
    ("actix_files", &["http", "app"]),
    ("actix_multipart", &["http", "app"]),
];

fn first_line(source: &SourceFile) -> Vec<TidyFinding> {
    let summary = source
        .text
        .strip_prefix("//!")
        .and_then(|remaining| remaining.lines().next())
        .is_some_and(|line| !line.trim().is_empty());
    if summary {
        Vec::new()
    } else {
        vec![TidyFinding { line: 1, problem: "the file does not begin with //! and a sentence".to_owned() }]
    }
}

fn dependencies(source: &SourceFile) -> Vec<TidyFinding> {
    let Some(module) = source.in_src().map(module_of).filter(|module| *module != "lib") else { return Vec::new() };
    if layer_of(module).is_none() {
        return vec![TidyFinding {
            line: 1,
            problem: format!("module {module} is in no layer (tests/it/tidy/rules.rs)"),
        }];
    }
    let finding = |(at, other): (usize, &str)| {
        let problem = forbidden_reason(module, other)?;
        Some(TidyFinding { line: source.line_of(at), problem })
    };
    named_modules(source).into_iter().filter_map(finding).collect()
}

fn forbidden_reason(module: &str, other: &str) -> Option<String> {
    let Some(layer) = layer_of(other) else { return Some(format!("crate::{other} is not a module")) };
    let below = layer_of(module).is_some_and(|own_layer| layer < own_layer) && !FORBIDDEN.contains(&(module, other));
    let allowed = module == other || below || ALLOWED_IN_LAYER.contains(&(module, other));
    (!allowed).then(|| format!("{module} must not name {other}"))
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// Returns the module of a file: its first directory below `src/`, or its own name.
fn module_of(in_src: &str) -> &str {
    in_src.split('/').next().unwrap_or(in_src).trim_end_matches(".rs")
}

/// Returns the modules that the source names by a path from the root of the crate, in any form, with their offsets.
fn named_modules(source: &SourceFile) -> Vec<(usize, &str)> {
    let code = &source.code;
    let after = |root: &'static str| words(code, root).map(move |at| at + root.len());
    let roots = after("crate").chain(after("mediary")).filter(|&at| code[at..].starts_with("::")).map(|at| at + 2);
    let supers =
        words(code, "super").filter(|&at| !code[..at].ends_with("::")).filter_map(|at| root_by_supers(source, at));
    roots.chain(supers).flat_map(|at| names_of(code, at)).collect()
}

/// Returns the offset after a `super::` path that begins at `at`, if it leads to the root of the crate.
fn root_by_supers(source: &SourceFile, at: usize) -> Option<usize> {
    let path = &source.code[at..];
    let length = path.len() - path.trim_start_matches("super::").len();
    let file = source.in_src()?;
    let is_root = matches!(file, "lib.rs" | "main.rs");
    let depth = if is_root { 0 } else { file.trim_end_matches("/mod.rs").split('/').count() };
    (length / "super::".len() == depth + source.inline_modules_around(at)).then_some(at + length)
}

/// Returns the names at `at`: a single one, or the first name of each path in a group such as `{a::b, c::{d, e}}`.
fn names_of(code: &str, at: usize) -> Vec<(usize, &str)> {
    let first = |at: usize| if code[at..].starts_with('*') { (at, "*") } else { (at, name_at(code, at)) };
    if !code[at..].starts_with('{') {
        return vec![first(at)];
    }
    let mut depth = 0;
    let mut expected = true;
    let mut names = Vec::new();
    for (offset, byte) in code.bytes().enumerate().take(block_end(code, at)).skip(at + 1) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => expected = true,
            _ if byte.is_ascii_whitespace() => {}
            _ if expected => {
                names.push(first(offset));
                expected = false;
            }
            _ => {}
        }
    }
    names
}

fn homes_of_crates(source: &SourceFile) -> Vec<TidyFinding> {
    if below_src(&source.path).is_none() {
        return Vec::new();
    }
    let file = source.in_src().unwrap_or(&source.path);
    let misplaced = HOMES.iter().filter(|(_, homes)| !homes.iter().any(|home| is_within(file, home)));
    let findings = misplaced.flat_map(|(name, homes)| {
        let problem = format!("{name} is named outside {}", homes.join(", "));
        let offsets = words(&source.code, name).filter(|&at| is_path_root(&source.code, at, name));
        offsets.map(move |at| TidyFinding { line: source.line_of(at), problem: problem.clone() })
    });
    findings.collect()
}

/// `true` if `file` is `home`, the module of that name, or below that directory.
fn is_within(file: &str, home: &str) -> bool {
    file.strip_prefix(home)
        .is_some_and(|remaining| remaining.is_empty() || remaining == ".rs" || remaining.starts_with('/'))
}

/// `true` if the name at `at` is a crate: the start of a path, or imported as a whole.
fn is_path_root(code: &str, at: usize, name: &str) -> bool {
    let (before, after) = (&code[..at], &code[at + name.len()..]);
    let continues = |path: &str| path.ends_with(|last: char| last.is_alphanumeric() || "_>".contains(last));
    let inside_path = before.strip_suffix("::").is_some_and(continues) || before.ends_with('.');
    !inside_path && (after.starts_with("::") || before.ends_with("use ") || before.ends_with("extern crate "))
}

fn convenience_panics(source: &SourceFile) -> Vec<TidyFinding> {
    let outside_tests = |finding: &(usize, &str)| !source.is_test(finding.0);
    occurrences(&source.code, &[".unwrap()", ".expect(\"\")"])
        .filter(outside_tests)
        .map(|(at, problem)| TidyFinding { line: source.line_of(at), problem: format!("{problem} outside tests") })
        .collect()
}

/// Start of an `ignore` attribute that is allowed, because its reason names a tool that the test needs.
const NEEDS_TOOL: &str = "#[ignore = \"needs ";

fn unfinished(source: &SourceFile) -> Vec<TidyFinding> {
    let code = occurrences(&source.code, &["todo!", "unimplemented!", "dbg!", "#[ignore"])
        .filter(|&(at, _)| !source.text[at..].starts_with(NEEDS_TOOL));
    let marks =
        ["FIXME", "XXX", "TODO"].into_iter().flat_map(|mark| words(&source.text, mark).map(move |at| (at, mark)));
    code.chain(marks)
        .map(|(at, problem)| TidyFinding { line: source.line_of(at), problem: problem.to_owned() })
        .collect()
}

fn machine_paths(source: &SourceFile) -> Vec<TidyFinding> {
    occurrences(&source.text, &["/home/", "/Users/", "/root/", "/tmp/", "C:\\"])
        .map(|(at, problem)| TidyFinding { line: source.line_of(at), problem: format!("a path with {problem}") })
        .collect()
}

fn occurrences<'t>(text: &'t str, needles: &'t [&'t str]) -> impl Iterator<Item = (usize, &'t str)> {
    needles.iter().flat_map(|needle| text.match_indices(needle))
}
