//! Generation of mutants: a few random changes of a real file, the same for the same number.

use std::ops::Range;

use rand::Rng;
use rand::rngs::StdRng;

use super::parts::{Format, mend, parts};

/// Values for lengths and counts.
const ODD: [u64; 14] =
    [0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0xFFFF, 0x1_0000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF];
/// Largest mutant, in bytes: repeated doubling would only be slow.
const BYTES_MAX: usize = 256 << 10;

/// Mutant of a file; `others` are of the same kind.
pub fn mutant(file: &[u8], others: &[Vec<u8>], chance: &mut StdRng) -> Vec<u8> {
    let format = Format::of(file);
    let mut mutant = file.to_vec();
    for _ in 0..=chance.gen_range(0..4) {
        if mutant.is_empty() || mutant.len() > BYTES_MAX {
            break;
        }
        change(&mut mutant, others, format, chance);
    }
    // Checksums protect against accidents: an attacker sends correct ones.
    if chance.gen_bool(0.75) {
        mend(&mut mutant, format);
    }
    mutant
}

fn change(file: &mut Vec<u8>, others: &[Vec<u8>], format: Format, chance: &mut StdRng) {
    match chance.gen_range(0..12) {
        0 | 1 => flip(file, chance),
        2 => {
            let at = chance.gen_range(0..file.len());
            file[at] = chance.r#gen();
        }
        3 => file.truncate(chance.gen_range(0..file.len())),
        4 => splice(file, &others[chance.gen_range(0..others.len())], chance),
        5 => {
            let range = some_of(file.len(), chance);
            file.drain(range);
        }
        6 => {
            let range = some_of(file.len(), chance);
            let (part, at) = (file[range].to_vec(), chance.gen_range(0..=file.len()));
            file.splice(at..at, part);
        }
        7 => {
            let at = chance.gen_range(0..file.len());
            write_odd(file, at, chance);
        }
        8 | 9 => attack_length(file, format, chance),
        _ => rearrange(file, format, chance),
    }
}

/// Flips up to five bits, half of the time near the beginning, where the headers are.
fn flip(file: &mut [u8], chance: &mut StdRng) {
    for _ in 0..chance.gen_range(1..=5) {
        let within = if chance.gen_bool(0.5) { file.len() } else { file.len().min(256) };
        file[chance.gen_range(0..within)] ^= 1 << chance.gen_range(0..8);
    }
}

/// Overwrites bytes of this file with bytes of another.
fn splice(file: &mut Vec<u8>, other: &[u8], chance: &mut StdRng) {
    let from = some_of(other.len(), chance);
    let at = if chance.gen_bool(0.5) { from.start.min(file.len()) } else { chance.gen_range(0..=file.len()) };
    let until = (at + from.len()).min(file.len());
    file.splice(at..until, other[from].iter().copied());
}

/// Random range, mostly short.
fn some_of(length: usize, chance: &mut StdRng) -> Range<usize> {
    let at = chance.gen_range(0..length);
    let most = if chance.gen_bool(0.8) { 64 } else { length };
    at..at + chance.gen_range(0..=most.min(length - at))
}

/// Writes an edge-case number of 1, 2, 4 or 8 bytes, in either byte order.
fn write_odd(file: &mut [u8], at: usize, chance: &mut StdRng) {
    let length = file.len() as u64;
    let value = match chance.gen_range(0..4) {
        0 => length.wrapping_add(chance.gen_range(0..5)).wrapping_sub(2),
        1 => chance.r#gen(),
        _ => ODD[chance.gen_range(0..ODD.len())],
    };
    let width = 1 << chance.gen_range(0..4);
    let bytes = if chance.gen_bool(0.6) {
        value.to_be_bytes()[8 - width..].to_vec()
    } else {
        value.to_le_bytes()[..width].to_vec()
    };
    let until = (at + width).min(file.len());
    file[at..until].copy_from_slice(&bytes[..until - at]);
}

/// Changes the length of a part, or a number in its header.
fn attack_length(file: &mut [u8], format: Format, chance: &mut StdRng) {
    let parts = parts(file, format);
    let Some(part) = choose(&parts, chance) else { return };
    let head = chance.gen_range(0..24.min(part.len().max(1)));
    let at = if chance.gen_bool(0.5) { part.start + format.length_at() } else { part.start + head };
    if at < file.len() {
        write_odd(file, at, chance);
    }
}

/// Duplicates or removes a part, or exchanges two.
fn rearrange(file: &mut Vec<u8>, format: Format, chance: &mut StdRng) {
    let parts = parts(file, format);
    let Some(part) = choose(&parts, chance) else { return };
    let bytes = file[part.clone()].to_vec();
    match chance.gen_range(0..3) {
        0 => {
            for _ in 0..chance.gen_range(1..=3) {
                file.splice(part.start..part.start, bytes.iter().copied());
            }
        }
        1 => {
            file.drain(part);
        }
        _ => {
            let Some(other) = choose(&parts, chance).filter(|other| other.end <= part.start) else { return };
            file.drain(part);
            file.splice(other.start..other.start, bytes);
        }
    }
}

fn choose(parts: &[Range<usize>], chance: &mut StdRng) -> Option<Range<usize>> {
    (!parts.is_empty()).then(|| parts[chance.gen_range(0..parts.len())].clone())
}
