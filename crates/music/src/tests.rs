//! Tests of the whole path from a prompt to a file.

use opus_pure::{MAX_PACKET_SAMPLES, OggOpusReader, Trim};

use super::*;
use crate::mix::HOP;

/// Composes and renders a prompt.
fn render_chunks(prompt: &str, seconds: u16) -> Vec<Vec<u8>> {
    let stream = Stream::new(compose(prompt, Some(seconds))).unwrap();
    stream.collect::<Result<_, _>>().unwrap()
}

/// Decodes a file to interleaved samples.
fn decode(file: &[u8]) -> Vec<f32> {
    let mut reader = OggOpusReader::new(file).unwrap();
    let mut decoder = reader.head().decoder(48_000).unwrap();
    let mut trim = Trim::new(reader.head(), 48_000, 2).unwrap();
    let mut block = vec![0.0; MAX_PACKET_SAMPLES * 2];
    let mut samples = Vec::new();
    for packet in reader.packets() {
        let packet = packet.unwrap();
        let count = decoder.decode(&packet.data, MAX_PACKET_SAMPLES, &mut block).unwrap();
        samples.extend_from_slice(trim.keep(&packet, &block[..count * 2]));
    }
    samples
}

#[test]
fn chunks_make_one_file_of_exactly_the_requested_length() {
    for (prompt, seconds) in [("a sting", 1), ("house", 2), ("jazz with brushes", 3)] {
        let chunks = render_chunks(prompt, seconds);
        let samples = decode(&chunks.concat());
        assert_eq!(samples.len(), 2 * 48_000 * usize::from(seconds), "{prompt}");
        assert!(chunks.len() >= usize::from(seconds));
        assert!(chunks.iter().all(|chunk| !chunk.is_empty()));
        assert!(chunks.iter().all(|chunk| chunk.len() < 64 * 1024), "a chunk is about a second");
    }
}

#[test]
fn the_same_prompt_gives_the_same_bytes() {
    assert_eq!(render_chunks("A happy folk song!", 2), render_chunks("a happy folk song", 2));
    assert_ne!(render_chunks("a happy folk song", 2), render_chunks("a sad folk song", 2));
}

#[test]
fn the_decoded_output_peaks_below_minus_one_decibel_without_clicks_at_chunk_borders() {
    let samples = decode(&render_chunks("energetic rock with drums", 4).concat());
    let highest = samples.iter().fold(0.0_f32, |highest, sample| highest.max(sample.abs()));
    assert!(highest < 0.891, "{highest}");
    let left: Vec<f32> = samples.iter().step_by(2).copied().collect();
    // A click raises the second difference far above that of the neighbouring samples.
    let bend = |at: usize| (left[at + 1] - 2.0 * left[at] + left[at - 1]).abs();
    let largest_bend = |range: std::ops::Range<usize>| range.map(bend).fold(0.0_f32, f32::max);
    for border in (HOP..left.len() - 2_001).step_by(HOP) {
        let around = largest_bend(border - 2_000..border - 4).max(largest_bend(border + 4..border + 2_000));
        assert!(largest_bend(border - 4..border + 4) < 1.5 * around + 1e-4, "at {border}");
    }
}

#[test]
fn the_file_has_a_title_and_a_genre() {
    let file = render_chunks("calm piano", 1).concat();
    let reader = OggOpusReader::new(file.as_slice()).unwrap();
    assert_eq!(reader.tags().get("title"), Some(compose("calm piano", Some(1)).title.as_str()));
    assert_eq!(reader.head().channel_count, 2);
}
