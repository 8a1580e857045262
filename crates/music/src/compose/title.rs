//! Title and tags of a piece.

use super::clock::PieceEnding;
use super::ensemble::Performer;
use super::plan::PiecePlan;
use crate::instrument::{Instrument, Role};
use crate::prompt::MusicRequest;
use crate::prompt::words::Word;
use crate::style::Genre;

/// Maximum length of a title in characters.
pub const TITLE_MAX: usize = 60;
/// Maximum number of tags.
pub const TAGS_MAX: usize = 10;

/// Words that introduce the subject of a prompt: "a song about dragons", "under the stars".
const BEFORE_SUBJECTS: &[&str] = &["about", "of", "for", "through", "under", "across", "beneath", "over", "near", "by"];
/// Words that may stand between the introducing word and the subject.
const ARTICLES: &[&str] = &["a", "an", "the", "my", "our", "some", "old", "great", "big", "little"];
/// Words that are never a subject.
const NO_SUBJECTS: &[&str] = &[
    "music",
    "song",
    "track",
    "piece",
    "tune",
    "melody",
    "seconds",
    "second",
    "minutes",
    "minute",
    "bpm",
    "beats",
    "loop",
    "background",
    "video",
    "intro",
    "outro",
    "style",
    "mood",
    "feel",
    "feeling",
    "sound",
    "sounds",
    "key",
    "kind",
    "it",
    "this",
    "that",
    "them",
    "me",
    "you",
    "use",
    "with",
    "and",
    "major",
    "minor",
    "lots",
    "bit",
    "couple",
    "about",
    "long",
    "short",
];

/// Adjectives by mood. The first row that contains the first mood of the prompt counts.
const QUALITIES: &[(&[&str], &[&str])] = &[
    (&["happy", "uplifting", "playful"], &["Golden", "Bright", "Open", "Paper", "Lemon", "First"]),
    (&["triumphant", "epic"], &["Rising", "Iron", "Last", "Crowned", "Towering", "Burning"]),
    (&["romantic", "warm"], &["Tender", "Amber", "Gentle", "Velvet", "Evening"]),
    (&["calm", "sleepy", "chill"], &["Still", "Quiet", "Soft", "Slow", "Low", "Drifting"]),
    (&["dreamy", "nostalgic"], &["Faded", "Half-Remembered", "Silver", "Distant", "Floating"]),
    (&["sad", "emotional"], &["Empty", "Pale", "Falling", "Unsent", "Fading", "Winter"]),
    (&["mysterious", "dark", "scary"], &["Hollow", "Black", "Buried", "Nameless", "Sunken"]),
    (&["tense", "aggressive"], &["Broken", "Red", "Narrow", "Sharpened", "Cold"]),
    (&["energetic", "groovy"], &["Electric", "Running", "Loose", "Neon", "Quick"]),
];
/// Adjectives for a prompt without a mood.
const ANY_QUALITY: &[&str] = &["Blue", "Long", "Second", "Open", "Wandering", "Early", "Northern", "Hidden"];

/// Returns subjects for a title if the prompt names none.
const fn subjects(genre: Genre) -> &'static [&'static str] {
    match genre {
        Genre::Lofi | Genre::HipHop => &["Windows", "Rooftops", "Corner Store", "Notebook", "Last Train", "Tape"],
        Genre::House | Genre::Techno | Genre::Trance | Genre::Disco => {
            &["Signal", "Basement", "Daybreak", "Motion", "Mirror", "Strobe"]
        }
        Genre::DrumAndBass | Genre::Trap => &["Circuit", "Underpass", "Pressure", "Static", "Night Bus"],
        Genre::Synthwave | Genre::Chiptune => &["Highway", "Arcade", "Horizon", "Skyline", "Cartridge", "Grid"],
        Genre::Ambient => &["Tides", "Orbit", "Lichen", "Haze", "Glass Lake", "Afterlight"],
        Genre::Pop => &["Letters", "Summer", "Lights", "Weather", "Promises", "Daylight"],
        Genre::Rock | Genre::Metal => &["Engine", "Thunder", "Asphalt", "Gravel", "Horizon Line"],
        Genre::Blues | Genre::Country => &["River", "Porch", "Freight", "County Road", "Dust"],
        Genre::Folk | Genre::Latin | Genre::Reggae => &["Harbour", "Orchard", "Hillside", "Market Day", "Lantern"],
        Genre::Funk => &["Pockets", "Sidewalk", "Shoes", "Strut", "Saturday"],
        Genre::Jazz => &["Avenue", "Closing Time", "Umbrellas", "Smoke", "Last Call"],
        Genre::Classical => &["Rooms", "Letters", "Garden", "Snow", "Interlude", "Portrait"],
        Genre::Cinematic => &["Kingdom", "Summit", "Banners", "Storm", "Passage", "Horizon"],
        Genre::Lullaby => &["Lamp", "Moonboat", "Snowglobe", "Feather", "Carousel"],
    }
}

/// Returns a title from the subject of the prompt, if it has one, and an adjective for its mood.
#[must_use]
pub fn choose_title(request: &MusicRequest, plan: &PiecePlan) -> String {
    let mut rng = request.rng.fork("title");
    let matches_mood = |moods: &[&str]| request.moods.first().is_some_and(|mood| moods.contains(mood));
    let mood_row = QUALITIES.iter().find(|(moods, _)| matches_mood(moods));
    let qualities = mood_row.map_or(ANY_QUALITY, |(_, adjectives)| *adjectives);
    let quality = rng.pick(qualities);

    let subject_word = subject(&request.words);
    let subject = subject_word.unwrap_or_else(|| rng.pick(subjects(plan.style.genre)).to_owned());

    let title = match (rng.below(4), plan.clock.metre.name) {
        (0, "3/4") => format!("Waltz of the {quality} {subject}"),
        (0 | 1, _) => format!("The {quality} {subject}"),
        (2, _) => format!("{quality} {subject}"),
        _ => format!(
            "{subject} in {}",
            rng.pick(&["Blue", "Motion", "Passing", "Slow Light", "Four Colours", "Silence"])
        ),
    };

    title.chars().take(TITLE_MAX).collect::<String>().trim_end().to_owned()
}

/// Returns the first subject that the prompt names, capitalized.
fn subject(words: &[Word]) -> Option<String> {
    let mut subjects = words.iter().enumerate().filter(|(_, word)| BEFORE_SUBJECTS.contains(&word.text.as_str()));
    subjects.find_map(|(at, _)| noun_at(words, at + 1))
}

/// Returns the word at `at`, after any articles, capitalized; `None` if it cannot be a subject.
fn noun_at(words: &[Word], at: usize) -> Option<String> {
    let skipped = words.get(at..)?.iter().take_while(|word| ARTICLES.contains(&word.text.as_str())).count();
    let word = words.get(at + skipped).filter(|word| !word.after_break && !word.negated)?;
    let letter_count = word.text.chars().count();
    let is_plain = word.text.chars().all(char::is_alphabetic) && (3..=14).contains(&letter_count);
    if !is_plain || NO_SUBJECTS.contains(&word.text.as_str()) {
        return None;
    }

    let mut letters = word.text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect())
}

/// Returns tags for genres, moods, instruments, tempo, key and other unusual properties, at most [`TAGS_MAX`].
#[must_use]
pub fn build_tags(request: &MusicRequest, plan: &PiecePlan, performers: &[Performer]) -> Vec<String> {
    let mut tags = vec![plan.style.names[0].to_owned()];
    let mut add = |tag: String| {
        if tags.len() < TAGS_MAX && !tags.contains(&tag) {
            tags.push(tag);
        }
    };

    plan.second.iter().for_each(|style| add(style.names[0].to_owned()));
    request.moods.iter().take(3).for_each(|mood| add((*mood).to_owned()));
    add(format!("{} bpm", plan.clock.bpm().round()));
    add(plan.key.name());

    if plan.clock.metre.name != "4/4" {
        add(plan.clock.metre.name.to_owned());
    }
    if plan.clock.ending == PieceEnding::Seamless {
        add("loop".to_owned());
    }

    let prominent = performers.iter().filter(|performer| matches!(performer.role, Role::Lead | Role::Comp));
    let instruments: Vec<Instrument> =
        request.wanted.iter().copied().chain(prominent.map(|performer| performer.instrument)).collect();
    instruments.iter().take(3).for_each(|instrument| add(instrument.name().to_owned()));

    if performers.iter().all(|performer| performer.role != Role::Drums) {
        add("no drums".to_owned());
    }

    tags
}
