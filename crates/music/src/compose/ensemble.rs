//! Assignment of instruments to roles: first those of the prompt, then those of the genre.

use super::plan::PiecePlan;
use crate::instrument::{Instrument, Role};
use crate::prompt::MusicRequest;

/// Role and the instrument that plays it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Performer {
    pub role: Role,
    pub instrument: Instrument,
}

/// Order in which roles are filled.
const ROLES: [Role; 6] = [Role::Lead, Role::Comp, Role::Bass, Role::Drums, Role::Pad, Role::Arpeggio];

/// Returns the performers, at most one per role and at least one in total.
#[must_use]
pub fn assign_roles(request: &MusicRequest, plan: &PiecePlan) -> Vec<Performer> {
    let mut rng = request.rng.fork("ensemble");
    let mut performers: Vec<Performer> = Vec::new();
    let is_free = |performers: &Vec<Performer>, role: Role| performers.iter().all(|performer| performer.role != role);

    for instrument in &request.wanted {
        if let Some(role) = instrument.roles().iter().find(|role| is_free(&performers, **role)) {
            performers.push(Performer { role: *role, instrument: *instrument });
        }
    }

    if request.solo {
        add_soloist(&mut performers);
        return performers;
    }

    // If no requested instrument has the melody, the first one that can play it takes it.
    let leads = |performer: &&mut Performer| {
        let roles = performer.instrument.roles();
        roles.contains(&Role::Lead) && !roles.starts_with(&[Role::Pad])
    };
    if is_free(&performers, Role::Lead)
        && performers.len() > 1
        && let Some(performer) = performers.iter_mut().find(leads)
    {
        performer.role = Role::Lead;
    }

    for role in ROLES.into_iter().filter(|role| is_free(&performers.clone(), *role)).collect::<Vec<_>>() {
        let choices = candidates(plan, request, role);
        let probability = match role {
            Role::Lead => plan.style.melody_probability.max(f32::from(u8::from(plan.second.is_some()))),
            Role::Arpeggio => 0.35 + 0.5 * plan.feeling.space,
            Role::Pad => 0.6 + 0.4 * plan.feeling.space,
            _ => 1.0,
        };

        let is_chosen = rng.odds(probability);
        let chosen = rng.below(choices.len());
        if is_chosen && let Some(instrument) = choices.get(chosen) {
            performers.push(Performer { role, instrument: *instrument });
        }
    }

    if performers.is_empty() {
        let any_instrument = Instrument::all().find(|instrument| !request.unwanted.contains(instrument));
        let instrument = any_instrument.unwrap_or(Instrument::Piano);
        performers.push(Performer { role: instrument.roles()[0], instrument });
    }

    if performers.len() == 1 {
        add_soloist(&mut performers);
    }
    performers
}

/// Returns the instruments that the genres use in a role, without the rejected ones.
fn candidates(plan: &PiecePlan, request: &MusicRequest, role: Role) -> Vec<Instrument> {
    let style = plan.style;
    let second_style = plan.second.unwrap_or(style);
    let mut choices = match role {
        // The second genre provides melody and chords.
        Role::Lead => second_style.leads.to_vec(),
        Role::Comp if !second_style.comps.is_empty() && !style.comps.is_empty() => second_style.comps.to_vec(),
        Role::Comp => style.comps.to_vec(),
        Role::Pad => style.pads.to_vec(),
        Role::Arpeggio => style.arpeggios.to_vec(),
        Role::Bass => style.basses.to_vec(),
        Role::Drums if style.groove.is_some() => vec![Instrument::Drums],
        Role::Drums => Vec::new(),
    };

    let basses = [Instrument::ElectricBass, Instrument::UprightBass, Instrument::SynthBass, Instrument::SubBass];
    let is_unwanted = |instrument: &Instrument| {
        // "No bass" and "no guitar" reject the whole family.
        let family = role == Role::Bass && request.unwanted.iter().any(|other| basses.contains(other))
            || instrument.name().contains("guitar")
                && request.unwanted.iter().any(|other| other.name().contains("guitar"))
            || instrument.name().contains("synth") && request.unwanted.contains(&Instrument::SawLead);
        family || request.unwanted.contains(instrument)
    };

    choices.retain(|instrument| !is_unwanted(instrument));
    // A quiet piece has no drums in any genre unless the prompt asks for them.
    if role == Role::Drums && plan.feeling.energy < -0.62 && !request.wanted.contains(&Instrument::Drums) {
        choices.clear();
    }
    choices
}

/// Gives the instruments of a solo piece all roles that they can play; a piano also plays chords and bass.
fn add_soloist(performers: &mut Vec<Performer>) {
    let instruments: Vec<Instrument> = performers.iter().map(|performer| performer.instrument).collect();
    for role in [Role::Lead, Role::Comp, Role::Bass] {
        let can_play = |instrument: &&Instrument| instrument.roles().contains(&role);
        if performers.iter().all(|performer| performer.role != role)
            && let Some(instrument) = instruments.iter().find(can_play)
        {
            performers.push(Performer { role, instrument: *instrument });
        }
    }

    // A single instrument without chords plays the melody.
    if performers.len() == 1 && instruments[0].roles().contains(&Role::Lead) {
        performers[0].role = Role::Lead;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt;
    use Instrument as I;

    fn performers(prompt: &str) -> Vec<Performer> {
        let request = prompt::parse(prompt);
        assign_roles(&request, &PiecePlan::from_request(&request, None))
    }

    #[test]
    fn named_instruments_play_and_unwanted_ones_do_not() {
        for instrument in Instrument::all() {
            let plays = |prompt: String| performers(&prompt).iter().any(|performer| performer.instrument == instrument);
            let name = if instrument == I::Drums { "drums" } else { instrument.name() };
            assert!(plays(format!("a song with {name}")), "{name}");
            for genre in ["rock", "jazz", "house", "classical", "lofi", "cinematic"] {
                assert!(!plays(format!("{genre} without {name}")), "{genre} without {name}");
            }
        }
    }

    #[test]
    fn a_soloist_plays_alone_with_both_hands() {
        let plays = |instrument: I, roles: &[Role]| -> Vec<Performer> {
            roles.iter().map(|role| Performer { role: *role, instrument }).collect()
        };
        assert_eq!(performers("solo piano"), plays(I::Piano, &[Role::Comp, Role::Lead, Role::Bass]));
        assert_eq!(performers("solo flute"), plays(I::Flute, &[Role::Lead]));
        assert_eq!(performers("only drums"), plays(I::Drums, &[Role::Drums]));
        assert!(
            performers("only guitar and flute")
                .iter()
                .all(|performer| [I::NylonGuitar, I::Flute].contains(&performer.instrument))
        );
    }

    #[test]
    fn roles_are_filled_once() {
        for prompt in
            ["rock", "jazz with strings", "epic orchestral", "ambient", "no piano no drums no bass", "piano and organ"]
        {
            let performers = performers(prompt);
            assert!(!performers.is_empty());
            for role in ROLES {
                assert!(
                    performers.iter().filter(|performer| performer.role == role).count() <= 1,
                    "{prompt}: {performers:?}"
                );
            }
        }
    }

    #[test]
    fn two_genres_are_combined() {
        let instruments: Vec<_> =
            performers("lofi chiptune").into_iter().map(|performer| performer.instrument).collect();
        assert!(instruments.contains(&I::Chip), "{instruments:?}");
    }
}
