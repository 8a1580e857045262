//! Tokenization for search: lowercase words, split at characters other than letters and digits.

/// Returns the words of a text.
///
/// In scripts without spaces, every character is a word.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let tokens = text.split(|c: char| !c.is_alphanumeric()).filter(|token| !token.is_empty());
    tokens.flat_map(|token| split_unspaced(&token.to_lowercase()))
}

/// Returns the words of a name, also split at capitals, with adjacent words joined, and with the whole name as one
/// word. `face tools`, `facetools` and `face-tools` all find `FaceTools`.
#[must_use]
pub fn words_of_name(name: &str) -> Vec<String> {
    let separate: Vec<String> = words(name).collect();
    let camel_case: Vec<String> = words(&split_camel_case(name)).collect();
    let pairs = adjacent_pairs(&separate).chain(adjacent_pairs(&camel_case));

    let mut all: Vec<String> = pairs.map(|(a, b)| format!("{a}{b}")).collect();
    all.extend(separate.into_iter().chain(camel_case));
    all.push(join_words(name));
    all.retain(|word| !word.is_empty());
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns each two adjacent words that may be written as one. Excludes single characters and scripts without spaces.
pub fn adjacent_pairs(words: &[String]) -> impl Iterator<Item = (&str, &str)> {
    let pairs = words.iter().zip(words.iter().skip(1)).map(|(a, b)| (a.as_str(), b.as_str()));
    pairs.filter(|(a, b)| a.len() + b.len() > 2 && ![a, b].iter().any(|word| word.chars().all(is_unspaced)))
}

/// Returns the text as one word.
#[must_use]
pub fn join_words(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Splits at capitals: `faceTools` becomes `face Tools`, `VAELoader` becomes `VAE Loader`.
fn split_camel_case(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut spaced = String::with_capacity(name.len() + 8);
    for (index, c) in characters.iter().enumerate() {
        let previous = index.checked_sub(1).map(|at| characters[at]);
        let next = characters.get(index + 1);
        let follows_lowercase = previous.is_some_and(|previous| previous.is_lowercase() || previous.is_ascii_digit());
        let ends_acronym = previous.is_some_and(char::is_uppercase) && next.is_some_and(|next| next.is_lowercase());

        if c.is_uppercase() && (follows_lowercase || ends_acronym) {
            spaced.push(' ');
        }
        spaced.push(*c);
    }
    spaced
}

/// Splits a word so that each character of a script without spaces is a word.
fn split_unspaced(word: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut was_unspaced = true;
    for c in word.chars() {
        let is_unspaced_char = is_unspaced(c);
        match parts.last_mut().filter(|_| !was_unspaced && !is_unspaced_char) {
            Some(last) => last.push(c),
            None => parts.push(c.to_string()),
        }
        was_unspaced = is_unspaced_char;
    }
    parts
}

/// Returns `true` for Kana and Han, which are written without spaces.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_in(text: &str) -> Vec<String> {
        words(text).collect()
    }

    #[test]
    fn words_are_split_at_separators_and_lowercase() {
        assert_eq!(words_in("Face-Tools, v2.1 (ÄRGER_x)"), ["face", "tools", "v2", "1", "ärger", "x"]);
        assert_eq!(words_in(" -- "), [""; 0]);
        assert_eq!(words_in("Upscale 顔を x"), ["upscale", "顔", "を", "x"]);
        assert_eq!(words_in("顔abc顔"), ["顔", "abc", "顔"]);
    }

    #[test]
    fn names_are_found_however_their_words_are_joined() {
        const MY_LOADER: [&str; 9] =
            ["loader2", "loader2x", "my", "myvae", "myvaeloader2x", "vae", "vaeloader2", "vaeloader2x", "x"];
        assert_eq!(words_of_name("Face-Tools"), ["face", "facetools", "tools"]);
        assert_eq!(words_of_name("FaceTools"), ["face", "facetools", "tools"]);
        assert_eq!(words_of_name("my.VAELoader2X"), MY_LOADER);
        assert_eq!(words_of_name("My Face Swap"), ["face", "faceswap", "my", "myface", "myfaceswap", "swap"]);
        assert_eq!(words_of_name("日本"), ["日", "日本", "本"]);
        assert_eq!(words_of_name("--"), [""; 0]);
    }
}
