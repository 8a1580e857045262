//! Suggestions for the name of a setting that does not exist.

/// Maximum number of suggested names.
const SUGGESTED_MAX: usize = 3;
/// Maximum number of related names, which are shown if no name is similar.
const RELATED_MAX: usize = 8;

/// Points to the complete list, which is available even with invalid settings.
const LIST_HINT: &str = "`mediary config --reference` lists all";

/// Returns the known names most similar to `key`, settings formatted by `format_key` and sections by
/// `format_section`. If none is similar, returns some that share a word with it.
pub(super) fn suggest(
    key: &str,
    known: &[&str],
    format_key: impl Fn(&str) -> String,
    format_section: impl Fn(&str) -> String,
) -> String {
    let candidates = nearest(key, known);
    let names: Vec<_> = candidates
        .iter()
        .map(|name| if known.contains(name) { format_key(name) } else { format_section(name) })
        .collect();

    match names.as_slice() {
        [] => related_settings(key, known, format_key),
        [name] => format!("did you mean {name}? {LIST_HINT}"),
        [names @ .., last] => format!("did you mean {} or {last}? {LIST_HINT}", names.join(", ")),
    }
}

/// Returns settings and sections within a small edit distance, the most similar first. The key of a setting may lack
/// its section.
fn nearest<'k>(key: &str, known: &[&'k str]) -> Vec<&'k str> {
    let mut sections: Vec<_> =
        known.iter().filter_map(|known| known.rsplit_once('.')).map(|(section, _)| section).collect();
    sections.dedup();

    // A key within an existing section means one of its settings.
    sections.retain(|section| key.strip_prefix(section).is_none_or(|rest| !rest.starts_with('.')));

    let settings = known.iter().map(|known| {
        let name = known.rsplit('.').next().unwrap_or(known);
        (edit_distance(key, known).min(edit_distance(key, name)), *known)
    });

    let sections = sections.into_iter().map(|section| (edit_distance(key, section), section));
    let mut candidates: Vec<_> =
        settings.chain(sections).filter(|(distance, _)| *distance <= distance_max(key)).collect();

    // Names of equal distance stay in the order of the documentation.
    candidates.sort_by_key(|(distance, _)| *distance);

    let best = candidates.first().map_or(0, |(distance, _)| *distance);
    candidates
        .into_iter()
        .filter(|(distance, _)| *distance <= best + 1)
        .map(|(_, name)| name)
        .take(SUGGESTED_MAX)
        .collect()
}

/// Returns the largest distance at which a name still counts as similar.
fn distance_max(key: &str) -> usize {
    (key.chars().count() / 4).clamp(1, 4)
}

/// Returns the settings that share a word with `key`.
fn related_settings(key: &str, known: &[&str], format_key: impl Fn(&str) -> String) -> String {
    let words = |key: &str| key.split(['.', '_']).map(str::to_owned).collect::<Vec<_>>();
    let key_words = words(key);
    let related = known.iter().filter(|known| words(known).iter().any(|word| key_words.contains(word)));
    let related: Vec<_> = related.map(|known| format_key(known)).collect();
    match related.len() {
        0 => LIST_HINT.to_owned(),
        1..=RELATED_MAX => format!("related settings: {}; {LIST_HINT}", related.join(", ")),
        _ => format!("related settings: {}, …; {LIST_HINT}", related[..RELATED_MAX].join(", ")),
    }
}

/// Returns the edit distance: the number of insertions, deletions, replacements and swaps of neighbours.
#[must_use]
pub fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    // rows[i][j] is the distance between the first i characters of `left` and the first j of `right`.
    let mut rows = vec![(0..=right.len()).collect::<Vec<_>>()];

    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let is_swap = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            let swapped = if is_swap { rows[i - 2][j - 2] + 1 } else { replaced };
            let deleted = rows[i - 1][j] + 1;
            let inserted = row[j - 1] + 1;
            row.push(replaced.min(swapped).min(deleted).min(inserted));
        }
        rows.push(row);
    }

    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] =
        ["listen", "data_dir", "tasks.deadline", "limits.reads_burst", "limits.reads_per_minute", "log.level"];

    fn hint(key: &str) -> String {
        suggest(key, &KNOWN, str::to_owned, |section| format!("[{section}]"))
    }

    #[test]
    fn the_nearest_names_are_suggested_first() {
        assert_eq!(hint("lisetn"), "did you mean listen? `mediary config --reference` lists all");
        assert_eq!(hint("datadir"), "did you mean data_dir? `mediary config --reference` lists all");
        assert_eq!(
            hint("limits.read_burst"),
            "did you mean limits.reads_burst? `mediary config --reference` lists all"
        );
    }

    #[test]
    fn a_misspelt_or_missing_section_is_found() {
        assert_eq!(hint("task"), "did you mean [tasks]? `mediary config --reference` lists all");
        assert_eq!(hint("deadline"), "did you mean tasks.deadline? `mediary config --reference` lists all");
        assert_eq!(
            suggest("tasks_deadline", &KNOWN, |_| "THAT".to_owned(), str::to_owned),
            "did you mean THAT? `mediary config --reference` lists all"
        );
    }

    #[test]
    fn without_a_similar_name_settings_with_a_common_word_are_listed() {
        let limits =
            "related settings: limits.reads_burst, limits.reads_per_minute; `mediary config --reference` lists all";
        assert_eq!(hint("limits.bananas"), limits);
        assert_eq!(hint("colour"), "`mediary config --reference` lists all");
        let many: Vec<_> = (0..20).map(|index| format!("limits.{}", "x".repeat(index + 9))).collect();
        let message =
            suggest("limits.a", &many.iter().map(String::as_str).collect::<Vec<_>>(), str::to_owned, str::to_owned);
        assert!(message.contains(", …; ") && message.matches("limits.").count() == RELATED_MAX, "{message}");
    }

    #[test]
    fn the_distance_counts_edits() {
        for (one, other, expected) in [("", "abc", 3), ("abc", "acb", 1), ("abc", "abd", 1), ("kitten", "sitting", 3)] {
            assert_eq!((edit_distance(one, other), edit_distance(other, one)), (expected, expected), "{one} {other}");
        }
    }
}
