//! Generation of mutants: a few random changes of a real file, the same for the same number.

use std::ops::Range;

use rand::Rng;
use rand::rngs::StdRng;

use super::parts::{FileFormat, correct_checks, parts};

/// Numbers at which parsers of lengths and counts fail most often.
const EDGE_VALUES: [u64; 14] =
    [0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0xFFFF, 0x1_0000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF];
/// Number of bytes at the start of a part that are taken for its header.
const HEADER_BYTES: usize = 24;
/// Size in bytes from which a mutant is not changed further. Repeated duplication would only make it slow.
const BYTES_MAX: usize = 256 << 10;

/// Returns a mutant of a file; parts of `other_files`, which are of the same kind, may be copied into it.
pub fn mutant(file: &[u8], other_files: &[Vec<u8>], rng: &mut StdRng) -> Vec<u8> {
    let format = FileFormat::detect(file);
    let mut mutant = file.to_vec();
    for _ in 0..=rng.gen_range(0..4) {
        if mutant.is_empty() || mutant.len() > BYTES_MAX {
            break;
        }
        change(&mut mutant, other_files, format, rng);
    }
    // Most mutants get correct checksums, as an attacker would send.
    if rng.gen_bool(0.75) {
        correct_checks(&mut mutant, format);
    }
    mutant
}

/// Makes one random change.
fn change(file: &mut Vec<u8>, other_files: &[Vec<u8>], format: FileFormat, rng: &mut StdRng) {
    match rng.gen_range(0..12) {
        0 | 1 => flip(file, rng),
        2 => {
            let at = rng.gen_range(0..file.len());
            file[at] = rng.r#gen();
        }
        3 => file.truncate(rng.gen_range(0..file.len())),
        4 => splice(file, &other_files[rng.gen_range(0..other_files.len())], rng),
        5 => {
            let range = random_range(file.len(), rng);
            file.drain(range);
        }
        6 => {
            let range = random_range(file.len(), rng);
            let (part, at) = (file[range].to_vec(), rng.gen_range(0..=file.len()));
            file.splice(at..at, part);
        }
        7 => {
            let at = rng.gen_range(0..file.len());
            write_edge_value(file, at, rng);
        }
        8 | 9 => falsify_length(file, format, rng),
        _ => rearrange(file, format, rng),
    }
}

/// Flips up to five bits, half of the time near the beginning, where the headers are.
fn flip(file: &mut [u8], rng: &mut StdRng) {
    for _ in 0..rng.gen_range(1..=5) {
        let limit = if rng.gen_bool(0.5) { file.len() } else { file.len().min(256) };
        file[rng.gen_range(0..limit)] ^= 1 << rng.gen_range(0..8);
    }
}

/// Overwrites bytes of this file with bytes of another.
fn splice(file: &mut Vec<u8>, other: &[u8], rng: &mut StdRng) {
    let from = random_range(other.len(), rng);
    let at = if rng.gen_bool(0.5) { from.start.min(file.len()) } else { rng.gen_range(0..=file.len()) };
    let end = (at + from.len()).min(file.len());
    file.splice(at..end, other[from].iter().copied());
}

/// Returns a random range, mostly a short one.
fn random_range(length: usize, rng: &mut StdRng) -> Range<usize> {
    let at = rng.gen_range(0..length);
    let maximum = if rng.gen_bool(0.8) { 64 } else { length };
    at..at + rng.gen_range(0..=maximum.min(length - at))
}

/// Writes an edge value, or a number near the length of the file, with 1, 2, 4 or 8 bytes in either byte order.
fn write_edge_value(file: &mut [u8], at: usize, rng: &mut StdRng) {
    let length = file.len() as u64;
    let value = match rng.gen_range(0..4) {
        0 => length.wrapping_add(rng.gen_range(0..5)).wrapping_sub(2),
        1 => rng.r#gen(),
        _ => EDGE_VALUES[rng.gen_range(0..EDGE_VALUES.len())],
    };
    let width = 1 << rng.gen_range(0..4);
    let bytes = if rng.gen_bool(0.6) {
        value.to_be_bytes()[8 - width..].to_vec()
    } else {
        value.to_le_bytes()[..width].to_vec()
    };
    let end = (at + width).min(file.len());
    file[at..end].copy_from_slice(&bytes[..end - at]);
}

/// Changes the length of a part, or a number in its header.
fn falsify_length(file: &mut [u8], format: FileFormat, rng: &mut StdRng) {
    let parts = parts(file, format);
    let Some(part) = choose(&parts, rng) else { return };
    let header_offset = rng.gen_range(0..HEADER_BYTES.min(part.len().max(1)));
    let at = part.start + if rng.gen_bool(0.5) { format.length_offset() } else { header_offset };
    if at < file.len() {
        write_edge_value(file, at, rng);
    }
}

/// Duplicates or removes a part, or exchanges two.
fn rearrange(file: &mut Vec<u8>, format: FileFormat, rng: &mut StdRng) {
    let parts = parts(file, format);
    let Some(part) = choose(&parts, rng) else { return };
    let bytes = file[part.clone()].to_vec();
    match rng.gen_range(0..3) {
        0 => {
            for _ in 0..rng.gen_range(1..=3) {
                file.splice(part.start..part.start, bytes.iter().copied());
            }
        }
        1 => {
            file.drain(part);
        }
        _ => {
            let Some(other) = choose(&parts, rng).filter(|other| other.end <= part.start) else { return };
            file.drain(part);
            file.splice(other.start..other.start, bytes);
        }
    }
}

fn choose(parts: &[Range<usize>], rng: &mut StdRng) -> Option<Range<usize>> {
    (!parts.is_empty()).then(|| parts[rng.gen_range(0..parts.len())].clone())
}
