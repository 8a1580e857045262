//! Bitmap letters of five by seven pixels, for captions and the printed page.

use image::{Rgb, RgbImage};

/// Width of a letter in pixels, including the gap.
pub const ADVANCE: u32 = 6;
/// Height of a line in pixels.
pub const HEIGHT: u32 = 7;

/// Rows of each letter from the top; the leftmost pixel is the highest of five bits.
#[rustfmt::skip]
const LETTERS: [(char, [u8; 7]); 45] = [
    ('A', [14, 17, 17, 31, 17, 17, 17]), ('B', [30, 17, 17, 30, 17, 17, 30]), ('C', [14, 17, 16, 16, 16, 17, 14]),
    ('D', [30, 17, 17, 17, 17, 17, 30]), ('E', [31, 16, 16, 30, 16, 16, 31]), ('F', [31, 16, 16, 30, 16, 16, 16]),
    ('G', [14, 17, 16, 23, 17, 17, 14]), ('H', [17, 17, 17, 31, 17, 17, 17]), ('I', [14, 4, 4, 4, 4, 4, 14]),
    ('J', [7, 2, 2, 2, 2, 18, 12]), ('K', [17, 18, 20, 24, 20, 18, 17]), ('L', [16, 16, 16, 16, 16, 16, 31]),
    ('M', [17, 27, 21, 21, 17, 17, 17]), ('N', [17, 25, 21, 19, 17, 17, 17]), ('O', [14, 17, 17, 17, 17, 17, 14]),
    ('P', [30, 17, 17, 30, 16, 16, 16]), ('Q', [14, 17, 17, 17, 21, 18, 13]), ('R', [30, 17, 17, 30, 20, 18, 17]),
    ('S', [15, 16, 16, 14, 1, 1, 30]), ('T', [31, 4, 4, 4, 4, 4, 4]), ('U', [17, 17, 17, 17, 17, 17, 14]),
    ('V', [17, 17, 17, 17, 17, 10, 4]), ('W', [17, 17, 17, 21, 21, 27, 17]), ('X', [17, 17, 10, 4, 10, 17, 17]),
    ('Y', [17, 17, 10, 4, 4, 4, 4]), ('Z', [31, 1, 2, 4, 8, 16, 31]),
    ('0', [14, 17, 19, 21, 25, 17, 14]), ('1', [4, 12, 4, 4, 4, 4, 14]), ('2', [14, 17, 1, 6, 8, 16, 31]),
    ('3', [30, 1, 1, 14, 1, 1, 30]), ('4', [2, 6, 10, 18, 31, 2, 2]), ('5', [31, 16, 30, 1, 1, 17, 14]),
    ('6', [6, 8, 16, 30, 17, 17, 14]), ('7', [31, 1, 2, 4, 8, 8, 8]), ('8', [14, 17, 17, 14, 17, 17, 14]),
    ('9', [14, 17, 17, 15, 1, 2, 12]),
    ('_', [0, 0, 0, 0, 0, 0, 31]), ('-', [0, 0, 0, 31, 0, 0, 0]), ('.', [0, 0, 0, 0, 0, 12, 12]),
    (',', [0, 0, 0, 0, 12, 4, 8]), ('=', [0, 0, 31, 0, 31, 0, 0]), (':', [0, 12, 12, 0, 12, 12, 0]),
    ('+', [0, 4, 4, 31, 4, 4, 0]), ('/', [1, 1, 2, 4, 8, 16, 16]), ('x', [0, 0, 17, 10, 4, 10, 17]),
];

/// Returns `true` if a letter covers a pixel. Letters without their own bitmap use the capital.
pub fn covers(letter: char, x: u32, y: u32) -> bool {
    let glyph = |c| LETTERS.iter().find(|(candidate, _)| *candidate == c).map(|(_, rows)| rows);
    let rows = glyph(letter).or_else(|| glyph(letter.to_ascii_uppercase()));
    rows.is_some_and(|rows| x < 5 && y < HEIGHT && rows[y as usize] & (16 >> x) != 0)
}

/// Draws a line of text, cut at the width.
pub fn write(page: &mut RgbImage, text: &str, (left, top): (u32, u32), colour: [u8; 3]) {
    for (index, letter) in (0..).zip(text.chars()) {
        for (x, y) in (0..HEIGHT).flat_map(|y| (0..5).map(move |x| (x, y))).filter(|(x, y)| covers(letter, *x, *y)) {
            let pixel = (left + index * ADVANCE + x, top + y);
            if pixel.0 < page.width() && pixel.1 < page.height() {
                page.put_pixel(pixel.0, pixel.1, Rgb(colour));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_clipped_to_the_page() {
        let mut page = RgbImage::new(14, 8);
        write(&mut page, "I_xyz", (1, 1), [255; 3]);
        assert_eq!(page.get_pixel(2, 1).0, [255; 3]);
        assert_eq!(page.get_pixel(7, 7).0, [255; 3]);
        assert_eq!(page.get_pixel(0, 0).0, [0; 3]);
        assert!(covers('a', 0, 3) && !covers('~', 0, 3));
    }
}
