//! Entry names: checks that an entry stays inside the target directory on every operating system.

use unicase::UniCase;
use unicode_normalization::UnicodeNormalization as _;

/// Maximum length of a name in bytes: more than any system unpacks comfortably.
const NAME_BYTES_MAX: usize = 1024;

/// Returns the flaw of a name, as words that follow the name. Both kinds of slashes separate, as on Windows.
#[must_use]
pub fn name_flaw(name: &str) -> Option<&'static str> {
    syntax_flaw(name).or_else(|| parts(name).any(is_parent_reference).then_some("leads out of its directory"))
}

/// Returns the flaw of a symbolic link's target. The target may only go up first and then down: since no entry lies
/// behind a link, such a target stays inside on disk if it does so textually.
#[must_use]
pub fn target_flaw(name: &str, target: &str) -> Option<&'static str> {
    // Where a backslash is part of a name, the link is less deep: the lesser depth counts.
    let by_slash = name.split('/').filter(|part| !matches!(*part, "" | ".")).count();
    let depth = normal_parts(name).count().min(by_slash).saturating_sub(1);
    let parents = normal_parts(target).take_while(|part| *part == "..").count();
    let stays_inside = syntax_flaw(target).is_none()
        && parents <= depth
        && !normal_parts(target).skip(parents).any(is_parent_reference);
    (!stays_inside).then_some("is a symbolic link that leaves the archive")
}

fn syntax_flaw(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("is empty");
    }
    if path.len() > NAME_BYTES_MAX {
        return Some("is longer than 1024 bytes");
    }
    if path.chars().any(char::is_control) {
        return Some("contains a control character");
    }
    is_absolute(path).then_some("is an absolute path")
}

/// Returns the key of a name. Names with the same key are one file on some system: macOS compares composed forms,
/// Windows drops dots and spaces at the end of a part, both ignore case, and empty parts and `.` are ignored
/// everywhere.
#[must_use]
pub fn collision_key(name: &str) -> String {
    let normalize_part = |part: &str| {
        let folded = fold(part);
        match folded.trim_end_matches(['.', ' ']) {
            // A part of only dots and spaces is kept; it is not the parent directory.
            "" => folded,
            trimmed => trimmed.to_owned(),
        }
    };
    normal_parts(name).map(normalize_part).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Folds case and composes characters.
fn fold(part: &str) -> String {
    if part.is_ascii() {
        return part.to_ascii_lowercase();
    }
    // Folding may decompose a character, so the result is composed again.
    let composed: String = part.nfc().collect();
    UniCase::unicode(composed).to_folded_case().nfc().collect()
}

fn is_absolute(name: &str) -> bool {
    let drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    drive || name.starts_with(['/', '\\'])
}

fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(['/', '\\']).filter(|part| !part.is_empty())
}

/// Returns the parts except `.`.
fn normal_parts(name: &str) -> impl Iterator<Item = &str> {
    parts(name).filter(|part| *part != ".")
}

/// Returns `true` for `..` and parts that some systems treat as such, because they drop trailing spaces and dots.
fn is_parent_reference(part: &str) -> bool {
    part.len() > 1 && part.chars().all(|c| c == '.' || c == ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stay_inside_have_no_flaw() {
        for good in
            ["a", "a/b.py", "a\\b", "./a", "./", "a//b", "..a/b..", "a.b/...c", "ä/日本", "ab: c", &"x".repeat(1024)]
        {
            assert_eq!(name_flaw(good), None, "{good}");
        }
    }

    #[test]
    fn names_that_lead_outside_are_flawed() {
        for (bad, reason) in [
            ("", "is empty"),
            ("/etc/passwd", "is an absolute path"),
            ("\\\\server\\share", "is an absolute path"),
            ("C:/x", "is an absolute path"),
            ("c:x", "is an absolute path"),
            ("..", "leads out of its directory"),
            ("a/../../b", "leads out of its directory"),
            ("a\\..\\b", "leads out of its directory"),
            ("a/.. /b", "leads out of its directory"),
            ("a/.../b", "leads out of its directory"),
            ("a\0b", "contains a control character"),
            ("a\nb", "contains a control character"),
            (&"x".repeat(1025), "is longer than 1024 bytes"),
        ] {
            assert_eq!(name_flaw(bad), Some(reason), "{bad}");
        }
    }

    #[test]
    fn links_may_go_up_only_first_and_at_most_by_their_depth() {
        for (name, target) in [("a", "b"), ("a/b/c", "../../d"), ("a/b", "./c/d"), ("./a/b", "../x")] {
            assert_eq!(target_flaw(name, target), None, "{name} -> {target}");
        }

        for (name, target) in [
            ("a", ".."),
            ("a", "../b"),
            ("./a", "../b"),
            ("a/b", "../../c"),
            ("a/b", "c/../d"),
            ("a", "/etc"),
            ("a", "C:x"),
            ("a", ""),
            ("a/b", "..\\..\\c"),
            ("a\\b\\c\\l", "../../x"),
            ("a\\b", "../x"),
            ("a/b\\c", "../../x"),
            ("a/b/.\\", "../../x"),
            ("a/b", ".../c"),
            ("a/b", "c\0"),
        ] {
            assert!(target_flaw(name, target).is_some(), "{name} -> {target}");
        }
    }

    #[test]
    fn names_of_the_same_file_on_some_system_share_a_key() {
        for same in ["A/B", "a/b", "a\\b", "./a//B/", "A/./b"] {
            assert_eq!(collision_key(same), "a/b");
        }
        assert_ne!(collision_key("a/b"), collision_key("ab"));
        assert_ne!(collision_key("a/..."), collision_key("a"));

        for (one, other) in [
            // Composed and decomposed, in either case.
            ("caf\u{e9}.py", "CAFE\u{301}.py"),
            ("\u{c5}/x", "a\u{30a}/x"),
            ("\u{212b}", "\u{e5}"),
            // Case folding beyond lower case.
            ("STRASSE", "stra\u{df}e"),
            ("\u{3a3}\u{3c2}", "\u{3c3}\u{3c3}"),
            // Dots and spaces at the end of any part.
            ("a.", "A"),
            ("a /b. .", "a/b"),
            ("nul. ", "nul"),
        ] {
            assert_eq!(collision_key(one), collision_key(other), "{one} and {other}");
        }

        for (one, other) in [("a.b", "ab"), (" a", "a"), (".a", "a"), ("\u{e9}", "e")] {
            assert_ne!(collision_key(one), collision_key(other), "{one} and {other}");
        }
    }
}
