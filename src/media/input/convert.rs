//! Converts decoded pixels to 8-bit RGB or RGBA in place, because a copy of a large picture could exhaust the memory.

use image::{ColorType, RgbImage, RgbaImage};

use super::Pixels;

/// Converts the pixels at the end of `buffer`. `None` for a colour type that no decoder returns.
pub(super) fn into_pixels(mut buffer: Vec<u8>, color: ColorType, (width, height): (u32, u32)) -> Option<Pixels> {
    let count = width as usize * height as usize;
    let narrow_bytes = |low: u8, high: u8| narrow(u16::from_ne_bytes([low, high]));

    match color {
        ColorType::L8 => convert(&mut buffer, count, |[l]: [u8; 1]| [l; 3]),
        ColorType::La8 => convert(&mut buffer, count, |[l, a]: [u8; 2]| [l, l, l, a]),
        ColorType::Rgb8 => convert(&mut buffer, count, |pixel: [u8; 3]| pixel),
        ColorType::Rgba8 => convert(&mut buffer, count, |pixel: [u8; 4]| pixel),
        ColorType::L16 => convert(&mut buffer, count, |[a, b]: [u8; 2]| [narrow_bytes(a, b); 3]),
        ColorType::La16 => convert(&mut buffer, count, |[a, b, c, d]: [u8; 4]| {
            let luma = narrow_bytes(a, b);
            [luma, luma, luma, narrow_bytes(c, d)]
        }),
        ColorType::Rgb16 => convert(&mut buffer, count, |samples: [u8; 6]| narrow_samples::<3>(&samples)),
        ColorType::Rgba16 => convert(&mut buffer, count, |samples: [u8; 8]| narrow_samples::<4>(&samples)),
        ColorType::Rgb32F => convert(&mut buffer, count, |samples: [u8; 12]| quantize_samples::<3>(&samples)),
        ColorType::Rgba32F => convert(&mut buffer, count, |samples: [u8; 16]| quantize_samples::<4>(&samples)),
        _ => return None,
    }

    if !color.has_alpha() {
        return RgbImage::from_raw(width, height, shrink_if_oversized(buffer)).map(Pixels::Opaque);
    }
    if buffer.as_chunks::<4>().0.iter().any(|pixel| pixel[3] != u8::MAX) {
        return RgbaImage::from_raw(width, height, shrink_if_oversized(buffer)).map(Pixels::Transparent);
    }
    convert(&mut buffer, count, |[r, g, b, _]: [u8; 4]| [r, g, b]);

    RgbImage::from_raw(width, height, shrink_if_oversized(buffer)).map(Pixels::Opaque)
}

/// Converts every pixel, front to back, from the end of the buffer to its beginning, so that writes never reach unread
/// pixels. Truncates the rest.
fn convert<const FROM: usize, const TO: usize>(
    buffer: &mut Vec<u8>,
    count: usize,
    pixel: impl Fn([u8; FROM]) -> [u8; TO],
) {
    let start = buffer.len() - count * FROM;

    if FROM != TO || start != 0 {
        for at in 0..count {
            let from = start + at * FROM;
            let mut source = [0; FROM];
            source.copy_from_slice(&buffer[from..from + FROM]);
            buffer[at * TO..(at + 1) * TO].copy_from_slice(&pixel(source));
        }
    }

    buffer.truncate(count * TO);
}

/// Scales a sample to 8 bits.
fn narrow(sample: u16) -> u8 {
    u8::try_from((u32::from(sample) + 128) / 257).unwrap_or(u8::MAX)
}

fn narrow_samples<const N: usize>(samples: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| narrow(u16::from_ne_bytes([samples[2 * at], samples[2 * at + 1]])))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1 first")]
fn quantize_samples<const N: usize>(samples: &[u8]) -> [u8; N] {
    let samples = samples.as_chunks::<4>().0;
    std::array::from_fn(|at| (f32::from_ne_bytes(samples[at]).clamp(0.0, 1.0) * 255.0).round() as u8)
}

/// Shrinks a buffer with much spare capacity, because it may be kept for long.
fn shrink_if_oversized(mut buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() >= 2 * buffer.len() {
        buffer.shrink_to_fit();
    }
    buffer
}
