//! Interpretation of a prompt for a video: camera moves, weather, light, places and speed.
//!
//! The engine matches keywords. A direction applies to the last move named before it ("pan slowly to the left"). "No",
//! "not", "without", "never" and "avoid" cancel the next known word. The seed decides on everything else.

use crate::prompt::words;
use crate::prompt_report::PromptReport;

/// Camera move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CameraMove {
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
pub enum Scenery {
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
pub enum TimeOfDay {
    Dawn,
    Day,
    Dusk,
    Night,
}

/// Moving element of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MovingElement {
    Water,
    Clouds,
    Leaves,
}

/// Effects that the keywords of a prompt request.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoKeywords {
    /// Camera moves, combined into one motion.
    pub moves: Vec<CameraMove>,
    pub weather: Vec<Weather>,
    /// Changes of the light.
    pub moods: Vec<Mood>,
    /// Moving parts of a still picture.
    pub elements: Vec<MovingElement>,
    /// Place of a generated picture; without a keyword, it shows hills.
    pub scenery: Option<Scenery>,
    pub time_of_day: Option<TimeOfDay>,
    /// Speed of all moves; 1 is normal.
    pub speed: f32,
    /// `true` if the camera does not move.
    pub still: bool,
}

/// Groups of synonyms, each with its meaning.
type Table<T> = &'static [(&'static [&'static str], T)];

/// Moves that take a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectedMove {
    Pan,
    Tilt,
    Zoom,
    Dolly,
    Truck,
    Orbit,
    Turn,
}

const DIRECTED_MOVES: Table<DirectedMove> = &[
    (&["pan", "pans", "panning", "sweep", "sweeps"], DirectedMove::Pan),
    (&["tilt", "tilts", "tilting"], DirectedMove::Tilt),
    (&["zoom", "zooms", "zooming", "closeup", "closer"], DirectedMove::Zoom),
    (
        &["dolly", "dollies", "push", "pushes", "pull", "pulls", "move", "moves", "fly", "flies", "walk"],
        DirectedMove::Dolly,
    ),
    (&["truck", "trucks", "track", "tracks", "tracking", "slide", "slides", "glide", "glides"], DirectedMove::Truck),
    (&["orbit", "orbits", "orbiting", "circle", "circles", "around", "arc"], DirectedMove::Orbit),
    (
        &["rotate", "rotates", "rotating", "rotation", "roll", "rolls", "spin", "spins", "turn", "turns"],
        DirectedMove::Turn,
    ),
];

/// Direction of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Left,
    Right,
    Up,
    Down,
    In,
    Out,
}

const DIRECTIONS: Table<Direction> = &[
    (&["left", "leftwards", "counterclockwise", "anticlockwise"], Direction::Left),
    (&["right", "rightwards", "clockwise"], Direction::Right),
    (&["up", "upwards", "upward", "skyward"], Direction::Up),
    (&["down", "downwards", "downward"], Direction::Down),
    (&["in", "into", "inward", "forward", "forwards", "towards", "toward", "through"], Direction::In),
    (&["out", "outward", "back", "backward", "backwards", "away"], Direction::Out),
];

/// Moves that take no direction.
const SIMPLE_MOVES: Table<CameraMove> = &[
    (&["rise", "rises", "rising", "ascend", "ascends", "crane", "lift", "drone", "aerial"], CameraMove::Rise),
    (&["descend", "descends", "sink", "sinks", "sinking", "lower", "fall"], CameraMove::Sink),
    (&["handheld", "shaky", "shake", "documentary"], CameraMove::Handheld),
    (&["approach", "approaches"], CameraMove::DollyIn),
    (&["reveal", "reveals", "recede", "recedes"], CameraMove::DollyOut),
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

const MOVING_ELEMENTS: Table<MovingElement> = &[
    (
        &["water", "sea", "ocean", "waves", "wave", "river", "lake", "ripples", "rippling", "stream", "pond"],
        MovingElement::Water,
    ),
    (&["clouds", "cloud", "cloudy", "sky", "timelapse"], MovingElement::Clouds),
    (&["wind", "windy", "breeze", "sway", "sways", "swaying", "grass", "trees"], MovingElement::Leaves),
];

const SCENERIES: Table<Scenery> = &[
    (
        &["hills", "hill", "mountain", "mountains", "valley", "alps", "peak", "peaks", "landscape", "meadow"],
        Scenery::Hills,
    ),
    (&["sea", "ocean", "beach", "waves", "coast", "lake", "water", "ship", "boat"], Scenery::Sea),
    (
        &["city", "street", "skyline", "town", "skyscraper", "skyscrapers", "downtown", "cyberpunk", "urban"],
        Scenery::City,
    ),
    (&["forest", "woods", "tree", "trees", "jungle", "woodland", "garden"], Scenery::Forest),
    (&["desert", "dune", "dunes", "sand", "sahara", "mars"], Scenery::Desert),
    (&["space", "galaxy", "nebula", "stars", "cosmos", "planet", "universe", "starship"], Scenery::Space),
    (&["abstract", "pattern", "colors", "colours", "paint", "fluid", "ink", "liquid", "fractal"], Scenery::Abstract),
];

const TIMES_OF_DAY: Table<TimeOfDay> = &[
    (&["dawn", "sunrise", "morning", "daybreak"], TimeOfDay::Dawn),
    (&["day", "noon", "sunny", "midday", "daylight", "bright"], TimeOfDay::Day),
    (&["dusk", "sunset", "evening", "twilight", "golden"], TimeOfDay::Dusk),
    (&["night", "midnight", "moon", "moonlight", "stars", "dark", "neon"], TimeOfDay::Night),
];

/// Speeds of all moves; 1 is normal.
const PACES: Table<f32> = &[
    (&["slow", "slowly", "gentle", "gently", "calm", "subtle", "peaceful", "soft"], 0.6),
    (&["fast", "quick", "quickly", "rapid", "rapidly", "dynamic", "dramatic", "energetic", "sudden"], 1.6),
];

/// Words for a camera that does not move.
const STILL: &[&str] = &["static", "still", "motionless", "fixed", "tripod", "locked"];
/// Words that cancel the next known word.
const NEGATORS: &[&str] = &["no", "not", "without", "never", "avoid"];

/// Returns the meaning of a word, if the table contains it.
fn meaning<T: Copy>(table: Table<T>, word: &str) -> Option<T> {
    table.iter().find(|(words, _)| words.contains(&word)).map(|(_, meaning)| *meaning)
}

/// Returns the camera move in a direction. Without a direction, or with one that the move does not have, it is the most
/// common direction.
fn camera_move(directed_move: DirectedMove, direction: Option<Direction>) -> CameraMove {
    match (directed_move, direction) {
        (DirectedMove::Pan | DirectedMove::Tilt, Some(Direction::Up)) | (DirectedMove::Tilt, None) => {
            CameraMove::TiltUp
        }
        (DirectedMove::Pan | DirectedMove::Tilt, Some(Direction::Down)) => CameraMove::TiltDown,
        (DirectedMove::Pan | DirectedMove::Tilt, Some(Direction::Left)) => CameraMove::PanLeft,
        (DirectedMove::Pan | DirectedMove::Tilt, _) => CameraMove::PanRight,
        (DirectedMove::Zoom, Some(Direction::Out)) => CameraMove::ZoomOut,
        (DirectedMove::Zoom, _) => CameraMove::ZoomIn,
        (DirectedMove::Dolly | DirectedMove::Truck, Some(Direction::Left)) => CameraMove::TruckLeft,
        (DirectedMove::Dolly | DirectedMove::Truck, Some(Direction::Right)) | (DirectedMove::Truck, None) => {
            CameraMove::TruckRight
        }
        (DirectedMove::Dolly | DirectedMove::Truck, Some(Direction::Up)) => CameraMove::Rise,
        (DirectedMove::Dolly | DirectedMove::Truck, Some(Direction::Down)) => CameraMove::Sink,
        (DirectedMove::Dolly | DirectedMove::Truck, Some(Direction::Out)) => CameraMove::DollyOut,
        (DirectedMove::Dolly, _) | (DirectedMove::Truck, Some(Direction::In)) => CameraMove::DollyIn,
        (DirectedMove::Orbit, Some(Direction::Left)) => CameraMove::OrbitLeft,
        (DirectedMove::Orbit, _) => CameraMove::OrbitRight,
        (DirectedMove::Turn, Some(Direction::Left)) => CameraMove::TurnLeft,
        (DirectedMove::Turn, _) => CameraMove::TurnRight,
    }
}

/// Adds an item, if there is one, unless the list already contains it.
fn push_new<T: PartialEq>(list: &mut Vec<T>, item: Option<T>) {
    if let Some(item) = item
        && !list.contains(&item)
    {
        list.push(item);
    }
}

impl VideoKeywords {
    /// Returns the keywords of an empty prompt.
    #[must_use]
    pub fn neutral() -> Self {
        Self {
            moves: Vec::new(),
            weather: Vec::new(),
            moods: Vec::new(),
            elements: Vec::new(),
            scenery: None,
            time_of_day: None,
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
        // Move that waits for its direction.
        let mut directed_move: Option<DirectedMove> = None;
        // Negator that waits for the word that it cancels.
        let mut negator: Option<String> = None;

        for word in words(prompt) {
            if NEGATORS.contains(&word.as_str()) {
                negator = Some(word);
                continue;
            }

            if has_own_meaning(&word)
                && let Some(negator) = negator.take()
            {
                report.add(negator, true);
                report.add(word, true);
                continue;
            }

            // A move without a direction ends when the next move begins.
            let is_understood = if let Some(next) = meaning(DIRECTED_MOVES, &word) {
                keywords.add_move(directed_move.replace(next), None);
                true
            } else if let (Some(finished_move), Some(direction)) = (directed_move, meaning(DIRECTIONS, &word)) {
                keywords.add_move(Some(finished_move), Some(direction));
                directed_move = None;
                true
            } else {
                keywords.apply_word(&word);
                has_own_meaning(&word) || STILL.contains(&word.as_str())
            };
            report.add(word, is_understood);
        }

        keywords.add_move(directed_move, None);
        if let Some(unused) = negator {
            report.add(unused, false);
        }
        (keywords, report)
    }

    /// Adds a move, if there is one, in a direction or in its most common direction.
    fn add_move(&mut self, directed_move: Option<DirectedMove>, direction: Option<Direction>) {
        push_new(&mut self.moves, directed_move.map(|directed_move| camera_move(directed_move, direction)));
    }

    /// Adds the effects of a word, except directed moves.
    fn apply_word(&mut self, word: &str) {
        push_new(&mut self.moves, meaning(SIMPLE_MOVES, word));
        push_new(&mut self.weather, meaning(WEATHERS, word));
        push_new(&mut self.moods, meaning(MOODS, word));
        push_new(&mut self.elements, meaning(MOVING_ELEMENTS, word));
        self.scenery = self.scenery.or(meaning(SCENERIES, word));
        self.time_of_day = self.time_of_day.or(meaning(TIMES_OF_DAY, word));
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
            self.moves = vec![CameraMove::DollyIn, CameraMove::OrbitRight];
        }

        if self.weather.is_empty() {
            self.weather.push(Weather::Dust);
        }

        self.speed = self.speed.min(0.8);
        self
    }
}

/// Returns `true` if a word has a meaning that a negation cancels. Directions depend on a move, and nothing negates the
/// words for a still camera.
fn has_own_meaning(word: &str) -> bool {
    meaning(DIRECTED_MOVES, word).is_some()
        || meaning(SIMPLE_MOVES, word).is_some()
        || meaning(WEATHERS, word).is_some()
        || meaning(MOODS, word).is_some()
        || meaning(MOVING_ELEMENTS, word).is_some()
        || meaning(SCENERIES, word).is_some()
        || meaning(PACES, word).is_some()
        || meaning(TIMES_OF_DAY, word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camera_moves_are_parsed_with_their_directions() {
        for (prompt, moves) in [
            ("Pan left.", vec![CameraMove::PanLeft]),
            ("the camera pans slowly to the right, then zooms in", vec![CameraMove::PanRight, CameraMove::ZoomIn]),
            ("pull back", vec![CameraMove::DollyOut]),
            ("push in and rotate clockwise", vec![CameraMove::DollyIn, CameraMove::TurnRight]),
            ("rotate counterclockwise", vec![CameraMove::TurnLeft]),
            ("the drone view", vec![CameraMove::Rise]),
            ("orbit", vec![CameraMove::OrbitRight]),
            ("a cat on a mat", vec![]),
            ("do not zoom, tilt down", vec![CameraMove::TiltDown]),
        ] {
            assert_eq!(VideoKeywords::from_prompt(prompt).moves, moves, "{prompt}");
        }
    }

    #[test]
    fn weather_light_and_places_are_parsed() {
        let keywords = VideoKeywords::from_prompt("A stormy sea at night, heavy rain, no snow, fast");
        assert_eq!((&keywords.weather[..], &keywords.moods[..]), (&[Weather::Rain][..], &[Mood::Storm][..]));
        assert_eq!((keywords.scenery, keywords.time_of_day), (Some(Scenery::Sea), Some(TimeOfDay::Night)));
        assert!(keywords.speed > 1.0);
        assert_eq!(keywords.elements, [MovingElement::Water]);
        assert!(VideoKeywords::from_prompt("static shot").still);
    }

    #[test]
    fn each_word_has_one_meaning_per_table() {
        fn assert_unique<T>(table: Table<T>) {
            let mut seen = std::collections::HashSet::new();
            for word in table.iter().flat_map(|(words, _)| words.iter()) {
                assert!(seen.insert(*word), "{word} has two meanings");
            }
        }
        assert_unique(DIRECTED_MOVES);
        assert_unique(DIRECTIONS);
        assert_unique(SIMPLE_MOVES);
        assert_unique(WEATHERS);
        assert_unique(MOODS);
        assert_unique(MOVING_ELEMENTS);
        assert_unique(SCENERIES);
        assert_unique(TIMES_OF_DAY);
        assert_unique(PACES);
    }
}
