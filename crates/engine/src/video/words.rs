//! Interpretation of a prompt for a video: camera moves, weather, light, places and speed.
//!
//! The engine matches keywords. A direction applies to the last move named before it ("pan slowly to the left"). "No",
//! "not", "without", "never" and "avoid" cancel the next known word. The seed decides on everything else.

use crate::prompt::words;
use crate::prompt_report::PromptReport;

/// Camera move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    PanLeft,
    PanRight,
    TiltUp,
    TiltDown,
    ZoomIn,
    ZoomOut,
    DollyIn,
    DollyOut,
    TruckLeft,
    TruckRight,
    OrbitLeft,
    OrbitRight,
    Rise,
    Sink,
    TurnLeft,
    TurnRight,
    Handheld,
}

/// Particles or fog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weather {
    Rain,
    Snow,
    Dust,
    Fireflies,
    Fog,
    Petals,
}

/// Change of the light.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mood {
    Sunset,
    Sunrise,
    Flicker,
    Storm,
    Pulse,
}

/// Subject of a generated picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ground {
    Hills,
    Sea,
    City,
    Forest,
    Desert,
    Space,
    Abstract,
}

/// Time of day in a generated picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hour {
    Dawn,
    Day,
    Dusk,
    Night,
}

/// Moving element of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Life {
    Water,
    Clouds,
    Leaves,
}

/// Keywords of a prompt: what they ask of the camera, the weather, the light and the scene.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoKeywords {
    pub moves: Vec<Move>,
    pub weather: Vec<Weather>,
    pub moods: Vec<Mood>,
    pub life: Vec<Life>,
    pub ground: Option<Ground>,
    pub hour: Option<Hour>,
    /// Speed of all moves; 1 is normal.
    pub speed: f32,
    /// `true` if the camera does not move.
    pub still: bool,
}

/// Keywords with their meanings.
type Table<T> = &'static [(&'static [&'static str], T)];

/// Moves that take a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Pan,
    Tilt,
    Zoom,
    Dolly,
    Truck,
    Orbit,
    Turn,
}

const VERBS: Table<Verb> = &[
    (&["pan", "pans", "panning", "sweep", "sweeps"], Verb::Pan),
    (&["tilt", "tilts", "tilting"], Verb::Tilt),
    (&["zoom", "zooms", "zooming", "closeup", "closer"], Verb::Zoom),
    (&["dolly", "dollies", "push", "pushes", "pull", "pulls", "move", "moves", "fly", "flies", "walk"], Verb::Dolly),
    (&["truck", "trucks", "track", "tracks", "tracking", "slide", "slides", "glide", "glides"], Verb::Truck),
    (&["orbit", "orbits", "orbiting", "circle", "circles", "around", "arc"], Verb::Orbit),
    (&["rotate", "rotates", "rotating", "rotation", "roll", "rolls", "spin", "spins", "turn", "turns"], Verb::Turn),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CameraWay {
    Left,
    Right,
    Up,
    Down,
    In,
    Out,
}

const WAYS: Table<CameraWay> = &[
    (&["left", "leftwards", "counterclockwise", "anticlockwise"], CameraWay::Left),
    (&["right", "rightwards", "clockwise"], CameraWay::Right),
    (&["up", "upwards", "upward", "skyward"], CameraWay::Up),
    (&["down", "downwards", "downward"], CameraWay::Down),
    (&["in", "into", "inward", "forward", "forwards", "towards", "toward", "through"], CameraWay::In),
    (&["out", "outward", "back", "backward", "backwards", "away"], CameraWay::Out),
];

const SIMPLE_MOVES: Table<Move> = &[
    (&["rise", "rises", "rising", "ascend", "ascends", "crane", "lift", "drone", "aerial"], Move::Rise),
    (&["descend", "descends", "sink", "sinks", "sinking", "lower", "fall"], Move::Sink),
    (&["handheld", "shaky", "shake", "documentary"], Move::Handheld),
    (&["approach", "approaches"], Move::DollyIn),
    (&["reveal", "reveals", "recede", "recedes"], Move::DollyOut),
];

const WEATHERS: Table<Weather> = &[
    (&["rain", "raining", "rainy", "rainfall", "downpour", "drizzle", "shower"], Weather::Rain),
    (&["snow", "snowing", "snowy", "snowfall", "blizzard", "snowflakes"], Weather::Snow),
    (&["dust", "dusty", "particles", "motes", "pollen", "ash", "embers"], Weather::Dust),
    (&["fireflies", "firefly", "sparkles", "sparkle", "glitter", "magic", "magical"], Weather::Fireflies),
    (&["fog", "foggy", "mist", "misty", "haze", "hazy", "smoke", "smoky"], Weather::Fog),
    (&["petals", "petal", "blossom", "blossoms", "leaves", "confetti"], Weather::Petals),
];

const MOODS: Table<Mood> = &[
    (&["sunset", "dusk", "evening", "twilight", "nightfall"], Mood::Sunset),
    (&["sunrise", "dawn", "daybreak", "morning"], Mood::Sunrise),
    (&["flicker", "flickering", "candle", "candlelight", "fire", "campfire", "torch"], Mood::Flicker),
    (&["storm", "stormy", "lightning", "thunder", "thunderstorm"], Mood::Storm),
    (&["pulse", "pulsing", "neon", "glow", "glowing", "shimmer", "shimmering"], Mood::Pulse),
];

const LIVES: Table<Life> = &[
    (
        &["water", "sea", "ocean", "waves", "wave", "river", "lake", "ripples", "rippling", "stream", "pond"],
        Life::Water,
    ),
    (&["clouds", "cloud", "cloudy", "sky", "timelapse"], Life::Clouds),
    (&["wind", "windy", "breeze", "sway", "sways", "swaying", "grass", "trees"], Life::Leaves),
];

const GROUNDS: Table<Ground> = &[
    (
        &["hills", "hill", "mountain", "mountains", "valley", "alps", "peak", "peaks", "landscape", "meadow"],
        Ground::Hills,
    ),
    (&["sea", "ocean", "beach", "waves", "coast", "lake", "water", "ship", "boat"], Ground::Sea),
    (
        &["city", "street", "skyline", "town", "skyscraper", "skyscrapers", "downtown", "cyberpunk", "urban"],
        Ground::City,
    ),
    (&["forest", "woods", "tree", "trees", "jungle", "woodland", "garden"], Ground::Forest),
    (&["desert", "dune", "dunes", "sand", "sahara", "mars"], Ground::Desert),
    (&["space", "galaxy", "nebula", "stars", "cosmos", "planet", "universe", "starship"], Ground::Space),
    (&["abstract", "pattern", "colors", "colours", "paint", "fluid", "ink", "liquid", "fractal"], Ground::Abstract),
];

const HOURS: Table<Hour> = &[
    (&["dawn", "sunrise", "morning", "daybreak"], Hour::Dawn),
    (&["day", "noon", "sunny", "midday", "daylight", "bright"], Hour::Day),
    (&["dusk", "sunset", "evening", "twilight", "golden"], Hour::Dusk),
    (&["night", "midnight", "moon", "moonlight", "stars", "dark", "neon"], Hour::Night),
];

const PACES: Table<f32> = &[
    (&["slow", "slowly", "gentle", "gently", "calm", "subtle", "peaceful", "soft"], 0.6),
    (&["fast", "quick", "quickly", "rapid", "rapidly", "dynamic", "dramatic", "energetic", "sudden"], 1.6),
];

const STILL: &[&str] = &["static", "still", "motionless", "fixed", "tripod", "locked"];
const NEGATORS: &[&str] = &["no", "not", "without", "never", "avoid"];

fn meaning<T: Copy>(table: Table<T>, word: &str) -> Option<T> {
    table.iter().find(|(words, _)| words.contains(&word)).map(|(_, meaning)| *meaning)
}

/// Returns the move of a verb and a direction. Without a direction it is the most common one.
fn directed(verb: Verb, direction: Option<CameraWay>) -> Move {
    match (verb, direction) {
        (Verb::Pan | Verb::Tilt, Some(CameraWay::Up)) | (Verb::Tilt, None) => Move::TiltUp,
        (Verb::Pan | Verb::Tilt, Some(CameraWay::Down)) => Move::TiltDown,
        (Verb::Pan | Verb::Tilt, Some(CameraWay::Left)) => Move::PanLeft,
        (Verb::Pan | Verb::Tilt, _) => Move::PanRight,
        (Verb::Zoom, Some(CameraWay::Out)) => Move::ZoomOut,
        (Verb::Zoom, _) => Move::ZoomIn,
        (Verb::Dolly | Verb::Truck, Some(CameraWay::Left)) => Move::TruckLeft,
        (Verb::Dolly | Verb::Truck, Some(CameraWay::Right)) | (Verb::Truck, None) => Move::TruckRight,
        (Verb::Dolly | Verb::Truck, Some(CameraWay::Up)) => Move::Rise,
        (Verb::Dolly | Verb::Truck, Some(CameraWay::Down)) => Move::Sink,
        (Verb::Dolly | Verb::Truck, Some(CameraWay::Out)) => Move::DollyOut,
        (Verb::Dolly, _) | (Verb::Truck, Some(CameraWay::In)) => Move::DollyIn,
        (Verb::Orbit, Some(CameraWay::Left)) => Move::OrbitLeft,
        (Verb::Orbit, _) => Move::OrbitRight,
        (Verb::Turn, Some(CameraWay::Left)) => Move::TurnLeft,
        (Verb::Turn, _) => Move::TurnRight,
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, found: Option<T>) -> bool {
    let Some(found) = found else { return false };
    if !list.contains(&found) {
        list.push(found);
    }
    true
}

impl VideoKeywords {
    /// Returns the keywords of an empty prompt.
    #[must_use]
    pub fn neutral() -> Self {
        Self {
            moves: Vec::new(),
            weather: Vec::new(),
            moods: Vec::new(),
            life: Vec::new(),
            ground: None,
            hour: None,
            speed: 1.0,
            still: false,
        }
    }

    /// Interprets a prompt.
    #[must_use]
    pub fn from_prompt(prompt: &str) -> Self {
        Self::interpret(prompt).0
    }

    /// Interprets a prompt; also reports which words have an effect.
    pub fn interpret(prompt: &str) -> (Self, PromptReport) {
        let mut keywords = Self::neutral();
        let mut report = PromptReport::default();
        let mut verb: Option<Verb> = None;
        let mut negator: Option<String> = None;

        for word in words(prompt) {
            if NEGATORS.contains(&word.as_str()) {
                negator = Some(word);
                continue;
            }

            if knows(&word)
                && let Some(negator) = negator.take()
            {
                report.add(negator, true);
                report.add(word, true);
                continue;
            }

            let is_understood = if let Some(next) = meaning(VERBS, &word) {
                keywords.end(verb.replace(next), None);
                true
            } else if let (Some(verb_done), Some(direction)) = (verb, meaning(WAYS, &word)) {
                keywords.end(Some(verb_done), Some(direction));
                verb = None;
                true
            } else {
                keywords.apply_word(&word);
                knows(&word) || STILL.contains(&word.as_str())
            };
            report.add(word, is_understood);
        }

        keywords.end(verb, None);
        if let Some(unused) = negator {
            report.add(unused, false);
        }
        (keywords, report)
    }

    fn end(&mut self, verb: Option<Verb>, direction: Option<CameraWay>) {
        push_new(&mut self.moves, verb.map(|verb| directed(verb, direction)));
    }

    /// Adds the effects that a word stands for.
    fn apply_word(&mut self, word: &str) {
        push_new(&mut self.moves, meaning(SIMPLE_MOVES, word));
        push_new(&mut self.weather, meaning(WEATHERS, word));
        push_new(&mut self.moods, meaning(MOODS, word));
        push_new(&mut self.life, meaning(LIVES, word));
        self.ground = self.ground.or(meaning(GROUNDS, word));
        self.hour = self.hour.or(meaning(HOURS, word));
        self.speed = meaning(PACES, word).unwrap_or(self.speed);
        self.still |= STILL.contains(&word);

        if self.moods.contains(&Mood::Storm) {
            push_new(&mut self.weather, Some(Weather::Rain));
        }
    }

    /// Adds recommended effects to a prompt that leaves them open: a slow camera move towards the subject and dust in
    /// the air.
    #[must_use]
    pub fn recommended(mut self) -> Self {
        if self.moves.is_empty() && !self.still {
            self.moves = vec![Move::DollyIn, Move::OrbitRight];
        }

        if self.weather.is_empty() {
            self.weather.push(Weather::Dust);
        }

        self.speed = self.speed.min(0.8);
        self
    }
}

/// Returns `true` if a word has a meaning.
fn knows(word: &str) -> bool {
    meaning(VERBS, word).is_some()
        || meaning(SIMPLE_MOVES, word).is_some()
        || meaning(WEATHERS, word).is_some()
        || meaning(MOODS, word).is_some()
        || meaning(LIVES, word).is_some()
        || meaning(GROUNDS, word).is_some()
        || meaning(PACES, word).is_some()
        || meaning(HOURS, word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camera_moves_are_parsed_with_their_directions() {
        for (prompt, moves) in [
            ("Pan left.", vec![Move::PanLeft]),
            ("the camera pans slowly to the right, then zooms in", vec![Move::PanRight, Move::ZoomIn]),
            ("pull back", vec![Move::DollyOut]),
            ("push in and rotate clockwise", vec![Move::DollyIn, Move::TurnRight]),
            ("rotate counterclockwise", vec![Move::TurnLeft]),
            ("the drone view", vec![Move::Rise]),
            ("orbit", vec![Move::OrbitRight]),
            ("a cat on a mat", vec![]),
            ("do not zoom, tilt down", vec![Move::TiltDown]),
        ] {
            assert_eq!(VideoKeywords::from_prompt(prompt).moves, moves, "{prompt}");
        }
    }

    #[test]
    fn weather_light_and_places_are_parsed() {
        let keywords = VideoKeywords::from_prompt("A stormy sea at night, heavy rain, no snow, fast");
        assert_eq!((&keywords.weather[..], &keywords.moods[..]), (&[Weather::Rain][..], &[Mood::Storm][..]));
        assert_eq!((keywords.ground, keywords.hour), (Some(Ground::Sea), Some(Hour::Night)));
        assert!(keywords.speed > 1.0 && keywords.life == [Life::Water]);
        assert!(VideoKeywords::from_prompt("static shot").still);
    }

    #[test]
    fn each_word_has_one_meaning_per_table() {
        fn single<T>(table: Table<T>) {
            let mut seen = std::collections::HashSet::new();
            assert!(table.iter().flat_map(|(words, _)| words.iter()).all(|word| seen.insert(*word)));
        }
        single(VERBS);
        single(WAYS);
        single(SIMPLE_MOVES);
        single(WEATHERS);
        single(MOODS);
        single(LIVES);
        single(GROUNDS);
        single(HOURS);
        single(PACES);
    }
}
