//! Encodes a sound track as Opus for the MP4 container.

use std::num::{NonZeroU16, NonZeroU32};

use opus_pure::{Application, MAX_PACKET_BYTES, OpusEncoder};
use shiguredo_mp4::FixedPointNumber;
use shiguredo_mp4::boxes::{AudioSampleEntryFields, DopsBox, OpusBox, SampleEntry};

use super::{RATE, Stereo};
use crate::video::VideoError;
use crate::video::mp4::{Packet, Sound};

/// Samples per channel in a packet: 20 ms.
const PACKET_SAMPLES: usize = RATE / 50;
/// Ticks per second: one tick is a sample.
const TIMESCALE: NonZeroU32 = NonZeroU32::new(RATE as u32).expect("a second has samples");
/// Bit rate in bits per second.
const BITRATE: i32 = 96_000;

/// Encodes samples. The durations of the packets add up to the number of samples, without the padding of the last one.
///
/// # Errors
/// Returns an error if the codec fails.
pub(super) fn encode(samples: &[Stereo]) -> Result<Sound, VideoError> {
    let internal = |error: opus_pure::Error| VideoError::Internal(error.to_string());
    let mut encoder = OpusEncoder::new(RATE as i32, 2, Application::Audio).map_err(internal)?;
    encoder.bitrate_bps = BITRATE;

    let mut packets = Vec::with_capacity(samples.len().div_ceil(PACKET_SAMPLES));
    let mut bytes = vec![0; MAX_PACKET_BYTES];

    for block in samples.chunks(PACKET_SAMPLES) {
        // The last packet is filled up with silence.
        let mut frame = vec![0.0; 2 * PACKET_SAMPLES];
        for (target, sample) in frame.as_chunks_mut::<2>().0.iter_mut().zip(block) {
            *target = *sample;
        }

        let length = encoder.encode(&frame, PACKET_SAMPLES, &mut bytes).map_err(internal)?;
        packets.push(Packet { bytes: bytes[..length].to_vec(), ticks: block.len() as u32 });
    }

    let entry = SampleEntry::Opus(OpusBox {
        audio: AudioSampleEntryFields {
            data_reference_index: NonZeroU16::MIN,
            channelcount: 2,
            samplesize: 16,
            samplerate: FixedPointNumber::new(RATE as u16, 0),
        },
        dops_box: DopsBox {
            output_channel_count: 2,
            pre_skip: encoder.lookahead() as u16,
            input_sample_rate: RATE as u32,
            output_gain: 0,
        },
        unknown_boxes: Vec::new(),
    });

    Ok(Sound { entry, timescale: TIMESCALE, packets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_as_long_as_the_sound() {
        let samples: Vec<Stereo> = (0..RATE / 4 + 100).map(|at| [(at as f32 * 0.03).sin() * 0.3; 2]).collect();
        let sound = encode(&samples).unwrap();
        assert_eq!(sound.packets.iter().map(|packet| packet.ticks as usize).sum::<usize>(), samples.len());
        assert!(sound.packets.iter().all(|packet| !packet.bytes.is_empty()));
    }
}
