//! Form of a piece: four-bar phrases with their function and intensity.

use crate::instrument::Role;

/// Function of a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    Intro,
    Verse,
    Chorus,
    Bridge,
    Outro,
}

/// Consecutive bars with one function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phrase {
    pub label: Label,
    /// Number of earlier phrases with the same label.
    pub occurrence: u32,
    /// First step.
    pub start: u32,
    /// Number of steps: whole bars, except in pieces shorter than a bar.
    pub steps: u32,
    /// From quiet (0) to full (1).
    pub intensity: f32,
    /// `true` if the phrase before has another label or none precedes.
    pub opens: bool,
    /// `true` if the next phrase has another label or none follows.
    pub closes: bool,
    /// `true` for the last phrase.
    pub last: bool,
}

/// Input of [`phrases`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    /// Steps of the whole piece.
    pub steps: u32,
    /// Steps per bar.
    pub bar: u32,
    /// `true` if the piece has an introduction even when it is short.
    pub intro: bool,
    /// `true` if the intensity grows from beginning to end.
    pub build: bool,
    /// `true` if the piece loops, so it has neither introduction nor ending.
    pub seamless: bool,
    /// From quiet (-1) to driving (1).
    pub energy: f32,
}

/// Bars per phrase.
const PHRASE_BARS: u32 = 4;

/// Returns consecutive phrases without gaps.
#[must_use]
pub fn phrases(shape: &Shape) -> Vec<Phrase> {
    let bars = shape.steps / shape.bar;
    let labels = choose_labels((bars / PHRASE_BARS) as usize, shape);
    let mut remaining = shape.steps - PHRASE_BARS * shape.bar * (bars / PHRASE_BARS);

    let mut phrases: Vec<Phrase> = Vec::new();
    let mut start = 0;
    let mut push = |label: Label, steps: u32| {
        phrases.push(Phrase {
            label,
            occurrence: 0,
            start,
            steps,
            intensity: 0.0,
            opens: false,
            closes: false,
            last: false,
        });
        start += steps;
    };

    // Bars that do not fill a phrase extend the introduction, if there is one, otherwise the end.
    if remaining > 0 && labels.first() == Some(&Label::Intro) {
        push(Label::Intro, remaining);
        remaining = 0;
    }

    for label in &labels {
        push(*label, PHRASE_BARS * shape.bar);
    }

    if remaining > 0 {
        push(labels.last().copied().unwrap_or(Label::Verse), remaining);
    }

    complete(&mut phrases, shape);
    phrases
}

/// Returns the labels of the given number of four-bar phrases.
fn choose_labels(count: usize, shape: &Shape) -> Vec<Label> {
    use Label::{Bridge, Chorus, Intro, Outro, Verse};
    const CYCLE: [Label; 12] =
        [Verse, Verse, Chorus, Chorus, Verse, Verse, Chorus, Chorus, Bridge, Bridge, Chorus, Chorus];
    if shape.seamless {
        return [Verse, Verse, Chorus, Chorus].into_iter().cycle().take(count).collect();
    }

    let mut labels = match count {
        0 => vec![],
        1 => vec![Verse],
        2 if shape.intro => vec![Intro, Verse],
        2 => vec![Verse, Chorus],
        3 => vec![Intro, Verse, Chorus],
        4 => vec![Intro, Verse, Chorus, Chorus],
        5 => vec![Intro, Verse, Chorus, Chorus, Outro],
        6 => vec![Intro, Verse, Verse, Chorus, Chorus, Outro],
        7 => vec![Intro, Verse, Verse, Chorus, Bridge, Chorus, Outro],
        8 => vec![Intro, Verse, Verse, Chorus, Chorus, Bridge, Chorus, Outro],
        _ => Vec::new(),
    };

    if count > 8 {
        let intros = 1 + usize::from(shape.intro || count > 16);
        labels.extend(vec![Intro; intros]);
        let middle = count - intros - 1;
        labels.extend(CYCLE.into_iter().cycle().take(middle - 3));
        // The bridge precedes the last chorus wherever the cycle ended.
        labels.extend([Bridge, Chorus, Chorus, Outro]);
    }
    labels
}

/// Sets the properties that depend on the other phrases, and the intensity.
fn complete(phrases: &mut [Phrase], shape: &Shape) {
    let count = phrases.len();
    let labels: Vec<Label> = phrases.iter().map(|phrase| phrase.label).collect();
    for (at, phrase) in phrases.iter_mut().enumerate() {
        phrase.occurrence = labels[..at].iter().filter(|label| **label == phrase.label).count() as u32;
        phrase.opens = at == 0 || labels[at - 1] != phrase.label;
        phrase.closes = labels.get(at + 1) != Some(&phrase.label);
        phrase.last = at + 1 == count;

        let base = match phrase.label {
            Label::Intro => 0.35,
            Label::Verse => 0.58 + 0.03 * phrase.occurrence.min(4) as f32,
            Label::Chorus => 0.84 + 0.04 * phrase.occurrence.min(3) as f32,
            Label::Bridge => 0.48,
            Label::Outro => 0.45,
        };

        let grown = 0.05 + 0.95 * (at as f32 + 1.0) / count as f32;
        let intensity = if shape.build { 0.2 * base + 0.8 * grown } else { base };
        phrase.intensity = (intensity + 0.1 * shape.energy).clamp(0.15, 1.0);
    }
}

impl Phrase {
    /// Returns the step after the last one.
    #[must_use]
    pub const fn end(&self) -> u32 {
        self.start + self.steps
    }

    /// Returns `true` if a role plays in this phrase. With `builds`, roles enter as the intensity grows.
    #[must_use]
    pub fn has(&self, role: Role, builds: bool) -> bool {
        let is_quiet = matches!(self.label, Label::Intro | Label::Bridge | Label::Outro);
        let is_at_least = |minimum: f32| self.intensity >= minimum;
        match role {
            Role::Pad => true,
            Role::Lead if builds => is_at_least(0.4),
            Role::Comp if builds => is_at_least(0.3),
            Role::Lead | Role::Comp => self.label != Label::Intro,
            Role::Bass if builds => is_at_least(0.45),
            Role::Bass => self.label != Label::Intro || is_at_least(0.42),
            Role::Arpeggio => !matches!(self.label, Label::Verse) || is_at_least(0.66),
            Role::Drums => is_at_least(if is_quiet { 0.42 } else { 0.5 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(steps: u32) -> Shape {
        Shape { steps, bar: 16, ..Shape::default() }
    }

    #[test]
    fn phrases_cover_every_step_once() {
        for steps in (0..3_000).step_by(4) {
            let phrases = phrases(&shape(steps));
            let mut next = 0;
            for phrase in &phrases {
                assert_eq!(phrase.start, next);
                next = phrase.end();
            }
            assert_eq!(next, steps);
            assert_eq!(phrases.iter().filter(|phrase| phrase.last).count(), usize::from(steps > 0));
        }
    }

    #[test]
    fn long_pieces_have_an_introduction_an_ending_and_a_climax_after_the_first_quarter() {
        for bars in [20, 32, 45, 90, 200] {
            let phrases = phrases(&shape(bars * 16));
            let labels: Vec<_> = phrases.iter().map(|phrase| phrase.label).collect();
            assert_eq!((labels[0], labels[labels.len() - 1]), (Label::Intro, Label::Outro), "{bars}");
            let loudest = phrases.iter().max_by(|a, b| a.intensity.total_cmp(&b.intensity)).unwrap();
            assert_eq!(loudest.label, Label::Chorus);
            assert!(loudest.start >= bars * 16 / 4, "{bars}: {}", loudest.start);
        }
    }

    #[test]
    fn requested_sections_change_the_form() {
        let intro = phrases(&Shape { intro: true, ..shape(128) });
        assert_eq!((intro[0].label, phrases(&shape(128))[0].label), (Label::Intro, Label::Verse));
        let built = phrases(&Shape { build: true, ..shape(640) });
        assert!(built.is_sorted_by(|a, b| a.intensity <= b.intensity + 0.12));
        assert!(built[built.len() - 1].intensity > 0.85);
        let looped = phrases(&Shape { seamless: true, ..shape(640) });
        assert!(looped.iter().all(|phrase| matches!(phrase.label, Label::Verse | Label::Chorus)));
    }
}
