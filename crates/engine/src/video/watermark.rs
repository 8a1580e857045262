//! Watermark in a corner of the frame.

use super::plan::Watermark;
use super::raster::{Raster, Size};
use crate::picture::Pixels;
use crate::video::WatermarkCorner;

/// Height of the default mark as a fraction of the shorter side.
const DEFAULT_HEIGHT: f32 = 0.042;
/// Maximum side of a custom mark as a fraction of the same side of the frame.
const CUSTOM_SIDE_MAX: f32 = 0.16;
/// Distance from the border as a fraction of the shorter side.
const MARGIN: f32 = 0.035;
/// Opacity of the mark.
const OPACITY: f32 = 0.62;

/// Columns of a letter of the default mark.
const LETTER_COLUMNS: usize = 5;
/// Rows of a letter.
const LETTER_ROWS: usize = 7;
/// Columns from one letter to the next: one is empty.
const LETTER_STEP: usize = LETTER_COLUMNS + 1;

/// Default mark (`MEDIARY`). Each row of a letter is a number with one bit per column.
const WORD: [[u8; LETTER_ROWS]; 7] = [
    [0b10001, 0b11011, 0b10101, 0b10101, 0b10001, 0b10001, 0b10001],
    [0b11111, 0b10000, 0b10000, 0b11110, 0b10000, 0b10000, 0b11111],
    [0b11110, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b11110],
    [0b01110, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110],
    [0b01110, 0b10001, 0b10001, 0b11111, 0b10001, 0b10001, 0b10001],
    [0b11110, 0b10001, 0b10001, 0b11110, 0b10100, 0b10010, 0b10001],
    [0b10001, 0b10001, 0b01010, 0b00100, 0b00100, 0b00100, 0b00100],
];

/// Watermark prepared for frames of one size.
#[derive(Debug, Clone)]
pub struct PreparedWatermark {
    left: usize,
    top: usize,
    picture: Raster,
}

impl PreparedWatermark {
    /// Resizes or draws the picture of a watermark and places it in frames of the size `frame`.
    #[must_use]
    pub fn new(watermark: &Watermark, frame: Size) -> Self {
        let picture = match &watermark.picture {
            Some(pixels) => resize_mark(pixels, frame),
            None => default_mark(frame),
        };

        let Size { width, height } = picture.size();
        let margin = (MARGIN * frame.width.min(frame.height) as f32) as usize;
        let right = frame.width - width.min(frame.width);
        let bottom = frame.height - height.min(frame.height);

        let (left, top) = match watermark.position {
            WatermarkCorner::TopLeft => (margin, margin),
            WatermarkCorner::TopRight => (right.saturating_sub(margin), margin),
            WatermarkCorner::BottomRight => (right.saturating_sub(margin), bottom.saturating_sub(margin)),
            WatermarkCorner::BottomLeft => (margin, bottom.saturating_sub(margin)),
        };

        Self { left: left.min(right), top: top.min(bottom), picture }
    }

    /// Draws the mark over a frame.
    pub fn draw(&self, frame: &mut Raster) {
        let mark = self.picture.size();
        let size = frame.size();
        for y in 0..mark.height.min(size.height - self.top) {
            for x in 0..mark.width.min(size.width - self.left) {
                let [red, green, blue, cover] = self.picture.row(y)[x];
                if cover > 0.0 {
                    frame.blend_pixel(self.left + x, self.top + y, [red, green, blue], OPACITY * cover);
                }
            }
        }
    }
}

/// Resizes a custom mark.
fn resize_mark(pixels: &Pixels, frame: Size) -> Raster {
    let (width, height) = match pixels {
        Pixels::Opaque(picture) => picture.dimensions(),
        Pixels::Transparent(picture) => picture.dimensions(),
    };
    let scale = (CUSTOM_SIDE_MAX * frame.width as f32 / width as f32)
        .min(CUSTOM_SIDE_MAX * frame.height as f32 / height as f32);
    let side = |length: u32| ((length as f32 * scale).round() as usize).max(2);
    Raster::from_pixels(pixels, Size { width: side(width), height: side(height) })
}

/// Draws the default mark: white letters with a dark shadow, readable on any background.
fn default_mark(frame: Size) -> Raster {
    let dot = (DEFAULT_HEIGHT * frame.width.min(frame.height) as f32 / LETTER_ROWS as f32).max(1.0);
    let columns = LETTER_STEP * WORD.len() - 1;
    let rows = LETTER_ROWS;

    let blur = dot.max(1.0);
    let size = Size {
        width: (columns as f32 * dot + 2.0 * blur).ceil() as usize,
        height: (rows as f32 * dot + 2.0 * blur).ceil() as usize,
    };

    let is_set = |x: f32, y: f32| {
        let column = (x / dot).floor();
        let row = (y / dot).floor();
        if column < 0.0 || row < 0.0 || column >= columns as f32 || row >= rows as f32 {
            return false;
        }
        let letter = column as usize / LETTER_STEP;
        let bit = column as usize % LETTER_STEP;
        bit < LETTER_COLUMNS && WORD[letter][row as usize] >> (LETTER_COLUMNS - 1 - bit) & 1 == 1
    };

    // Supersampling with 4 × 4 samples per pixel.
    let cover = |x: f32, y: f32| {
        let samples = (0..16)
            .filter(|at| is_set(x + (0.5 + (at % 4) as f32) / 4.0 - blur, y + (0.5 + (at / 4) as f32) / 4.0 - blur));
        samples.count() as f32 / 16.0
    };

    Raster::from_fn(size, |x, y| {
        let x = x as f32;
        let y = y as f32;
        let letter = cover(x, y);
        let offset = 0.5 * blur;
        let shadow = 0.5 * cover(x - offset, y - offset);
        let opacity = letter + (1.0 - letter) * shadow;
        let white = if opacity > 0.0 { letter / opacity } else { 0.0 };
        [white, white, white, opacity]
    })
}

#[cfg(test)]
mod tests {
    use image::{Rgba, RgbaImage};

    use super::*;

    const FRAME: Size = Size { width: 192, height: 108 };

    /// Returns the centre of the pixels that a mark changes, as fractions of the frame, and their number.
    fn changed_pixels(watermark: &Watermark) -> ([f32; 2], usize) {
        let before = Raster::from_fn(FRAME, |_, _| [0.4, 0.4, 0.4, 1.0]);
        let mut after = before.clone();
        PreparedWatermark::new(watermark, FRAME).draw(&mut after);
        let points = (0..FRAME.area())
            .filter(|at| before.pixels()[*at].map(f32::to_bits) != after.pixels()[*at].map(f32::to_bits));
        let points: Vec<[usize; 2]> = points.map(|at| [at % FRAME.width, at / FRAME.width]).collect();
        let mean = |axis: usize| points.iter().map(|point| point[axis] as f32).sum::<f32>() / points.len() as f32;
        ([mean(0) / FRAME.width as f32, mean(1) / FRAME.height as f32], points.len())
    }

    #[test]
    fn marks_are_drawn_in_their_corners() {
        for (position, across, down) in [
            (WatermarkCorner::TopLeft, 0.0, 0.0),
            (WatermarkCorner::TopRight, 1.0, 0.0),
            (WatermarkCorner::BottomRight, 1.0, 1.0),
            (WatermarkCorner::BottomLeft, 0.0, 1.0),
        ] {
            for picture in [None, Some(Pixels::Transparent(RgbaImage::from_pixel(40, 20, Rgba([255, 0, 0, 128]))))] {
                let ([x, y], count) = changed_pixels(&Watermark { position, picture });
                assert!((x - across).abs() < 0.25 && (y - down).abs() < 0.2, "{position:?} {x} {y}");
                assert!(count > 40 && count < FRAME.area() / 20, "{count}");
            }
        }
    }

    #[test]
    fn a_mark_fits_into_any_frame() {
        for (width, height) in [(16, 16), (16, 400), (400, 16)] {
            let mut frame = Raster::new(Size { width, height });
            let watermark = Watermark { position: WatermarkCorner::BottomRight, picture: None };
            PreparedWatermark::new(&watermark, frame.size()).draw(&mut frame);
        }
    }
}
