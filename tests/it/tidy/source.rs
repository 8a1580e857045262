//! Source file as the rules see it: its text, and its code without the content of comments and literals.

use std::ops::Range;

pub struct SourceFile {
    /// Path from the root of the repository: `src/http/api/node.rs`.
    pub path: String,
    pub text: String,
    /// Code with the length of `text`, with spaces for comments and for the content of literals.
    pub code: String,
    tests: Vec<Range<usize>>,
}

impl SourceFile {
    pub fn new(path: &str, text: &str) -> Self {
        let code = without_comments_and_literals(text);
        let tests = test_items(&code);
        Self { path: path.to_owned(), text: text.to_owned(), code, tests }
    }

    /// Returns the path below the `src/` of the service; `None` for other crates, tests and benches.
    pub fn in_src(&self) -> Option<&str> {
        self.path.strip_prefix("src/")
    }

    /// `true` if the code at `offset` is compiled only for tests: in a test item, or in a separate test file.
    pub fn is_test(&self, offset: usize) -> bool {
        below_src(&self.path).is_none_or(|(_, file)| file == "tests.rs" || file.ends_with("/tests.rs"))
            || self.tests.iter().any(|range| range.contains(&offset))
    }

    /// Returns the line number of `offset`, starting at 1.
    pub fn line_of(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }

    /// Returns the number of `mod name { … }` blocks around `offset`.
    pub fn inline_modules_around(&self, offset: usize) -> usize {
        let opens = words(&self.code, "mod").filter_map(|at| self.code[at..].find(['{', ';']).map(|end| at + end));
        opens
            .filter(|&open| self.code.as_bytes()[open] == b'{' && (open..block_end(&self.code, open)).contains(&offset))
            .count()
    }
}

/// Returns the directory of a crate's modules and the path below it: `src/` of the service, `crates/<name>/src/` of the
/// others. `None` for tests and benches.
pub fn below_src(path: &str) -> Option<(&str, &str)> {
    let in_package = match path.strip_prefix("crates/") {
        Some(member) => member.split_once('/')?.1,
        None => path,
    };
    let file = in_package.strip_prefix("src/")?;
    Some((&path[..path.len() - file.len()], file))
}

/// Returns the offsets of `word` as a whole word in `text`.
pub fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let outside = |byte: Option<&u8>| byte.is_none_or(|&byte| !is_word(byte));
    let bytes = text.as_bytes();
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| outside(bytes.get(at.wrapping_sub(1))) && outside(bytes.get(at + word.len())))
}

/// Returns the name that begins at `at`, or an empty text.
pub fn name_at(code: &str, at: usize) -> &str {
    let length = code.as_bytes()[at..].iter().take_while(|&&byte| is_word(byte)).count();
    &code[at..at + length]
}

/// Returns the offset of the brace that closes the block opened at `open`.
pub fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Returns the items after `#[cfg(test)]`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let item = |(at, _)| {
        let end = code[at..].find(['{', ';']).map_or(code.len(), |end| at + end);
        at..if code[end..].starts_with('{') { block_end(code, end) } else { end }
    };
    code.match_indices("#[cfg(test)]").map(item).collect()
}

fn without_comments_and_literals(text: &str) -> String {
    let mut code = text.as_bytes().to_vec();
    let mut at = 0;
    while at < code.len() {
        match blank_range(text.as_bytes(), at) {
            None => at += 1,
            Some((blank, next)) => {
                code[blank].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                at = next;
            }
        }
    }
    String::from_utf8(code).expect("only whole comments and literals became spaces")
}

/// Comment or literal that begins at `at`: the range to blank, and the offset at which the code continues.
fn blank_range(text: &[u8], at: usize) -> Option<(Range<usize>, usize)> {
    let literal = |open: usize, close: usize| Some((open..close.min(text.len()), (close + 1).min(text.len())));
    match &text[at..] {
        [b'/', b'/', rest @ ..] => {
            let end = at + 2 + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            Some((at..end, end))
        }
        [b'/', b'*', ..] => {
            let end = comment_end(text, at);
            Some((at..end, end))
        }
        [b'"', ..] => literal(at + 1, string_end(text, at + 1)),
        [b'r', rest @ ..] if begins_raw_string(text, at) => {
            let hashes = rest.iter().take_while(|&&byte| byte == b'#').count();
            let open = at + 1 + hashes + 1;
            let closing = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
            literal(open, find(text, open, &closing))
        }
        [b'\'', b'\\', ..] => literal(at + 1, find(text, at + 3, b"'")),
        [b'\'', first, ..] => {
            let close = at
                + 1
                + std::str::from_utf8(&text[at + 1..])
                    .map_or(1, |remaining| remaining.chars().next().map_or(1, char::len_utf8));
            (*first != b'\'' && text.get(close) == Some(&b'\'')).then(|| literal(at + 1, close)).flatten()
        }
        _ => None,
    }
}

fn comment_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut depth = 0;
    while at < text.len() {
        let step = match &text[at..] {
            [b'/', b'*', ..] => 1,
            [b'*', b'/', ..] => -1,
            _ => 0,
        };
        depth += step;
        at += if step == 0 { 1 } else { 2 };
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn string_end(text: &[u8], open: usize) -> usize {
    let mut at = open;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at
}

fn begins_raw_string(text: &[u8], at: usize) -> bool {
    let start = text[..at].iter().rposition(|&byte| !is_word(byte)).map_or(0, |before| before + 1);
    let quote = text[at + 1..].iter().find(|&&byte| byte != b'#');
    matches!(&text[start..=at], b"r" | b"br" | b"cr") && quote == Some(&b'"')
}

fn find(text: &[u8], from: usize, needle: &[u8]) -> usize {
    (from..text.len()).find(|&at| text[at..].starts_with(needle)).unwrap_or(text.len())
}
