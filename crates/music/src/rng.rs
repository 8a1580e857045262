//! Deterministic random numbers: the same prompt gives the same sequence on every machine.

use sha2::{Digest, Sha256};

/// Pseudorandom sequence (`SplitMix64`, Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub struct SeededRng(u64);

impl SeededRng {
    /// Creates the sequence that a text seeds.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(first_bytes(&Sha256::digest(text.as_bytes())))
    }

    /// Creates an independent sequence for one part of the work, so that its draws do not affect other parts.
    #[must_use]
    pub fn fork(&self, part: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0.to_le_bytes());
        hash.update(part.as_bytes());
        Self(first_bytes(&hash.finalize()))
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to less than 1.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1_u32 << 24) as f32
    }

    /// Returns a number from `low` to less than `high`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// Returns an integer less than `count`, or 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }

    /// Returns `true` with the given probability.
    pub fn odds(&mut self, probability: f32) -> bool {
        self.unit() < probability
    }

    /// Returns one of the choices, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns an index, drawn in proportion to its weight, or 0 if no weight is positive.
    pub fn weighted(&mut self, weights: &[f32]) -> usize {
        let mut remaining = self.unit() * weights.iter().map(|weight| weight.max(0.0)).sum::<f32>();
        for (index, weight) in weights.iter().enumerate() {
            remaining -= weight.max(0.0);
            if remaining < 0.0 {
                return index;
            }
        }
        0
    }
}

/// Returns the first 8 bytes as a big-endian number.
fn first_bytes(digest: &[u8]) -> u64 {
    digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_forks_differ() {
        let draw = |mut rng: SeededRng| -> Vec<u64> { (0..8).map(|_| rng.bits()).collect() };
        assert_eq!(draw(SeededRng::from_text("rain")), draw(SeededRng::from_text("rain")));
        assert_ne!(draw(SeededRng::from_text("rain")), draw(SeededRng::from_text("snow")));
        assert_ne!(draw(SeededRng::from_text("rain").fork("bass")), draw(SeededRng::from_text("rain").fork("drums")));
    }

    #[test]
    fn weights_decide_how_often_something_is_drawn() {
        let mut rng = SeededRng::from_text("weights");
        let mut counts = [0_u32; 3];
        for _ in 0..1_000 {
            counts[rng.weighted(&[3.0, 0.0, 1.0])] += 1;
        }
        assert!(counts[0] > 650 && counts[1] == 0 && counts[2] > 150, "{counts:?}");
        assert_eq!(rng.weighted(&[0.0, 0.0]), 0);
    }
}
