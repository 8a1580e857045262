//! Contact sheet: rows of pictures with captions.

use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};

use crate::letters::{self, ADVANCE, HEIGHT};

/// Size of a picture on the sheet.
pub const PICTURE: (u32, u32) = (192, 144);
const COLUMNS: u32 = 10;
const GAP: u32 = 6;
/// Height of the two caption lines.
const CAPTION: u32 = 2 * (HEIGHT + 2) + 2;
const HEADING: u32 = HEIGHT + 8;
const PAPER: [u8; 3] = [250, 250, 248];
const INK: [u8; 3] = [30, 30, 34];
const FAINT: [u8; 3] = [120, 120, 126];

/// A picture with its caption.
pub struct CaptionedPicture {
    pub label: String,
    pub note: String,
    pub picture: RgbImage,
}

/// Pictures under one heading.
pub struct Section {
    pub heading: String,
    pub pictures: Vec<CaptionedPicture>,
}

/// Draws the whole sheet.
pub fn sheet(sections: &[Section]) -> RgbImage {
    let width = COLUMNS * (PICTURE.0 + GAP) + GAP;
    let height = sections.iter().map(height_of).sum::<u32>() + GAP;
    let mut page = RgbImage::from_pixel(width, height, Rgb(PAPER));
    let mut top = GAP;
    for section in sections {
        letters::write(&mut page, &section.heading, (GAP, top + 4), INK);
        for (index, entry) in (0..).zip(&section.pictures) {
            let left = GAP + index % COLUMNS * (PICTURE.0 + GAP);
            draw(&mut page, entry, (left, top + HEADING + index / COLUMNS * (PICTURE.1 + CAPTION + GAP)));
        }
        top += height_of(section);
    }
    page
}

fn height_of(section: &Section) -> u32 {
    let rows = u32::try_from(section.pictures.len()).unwrap_or(u32::MAX).div_ceil(COLUMNS);
    HEADING + rows * (PICTURE.1 + CAPTION + GAP)
}

fn draw(page: &mut RgbImage, entry: &CaptionedPicture, (left, top): (u32, u32)) {
    let fits = entry.picture.dimensions() == PICTURE;
    let thumbnail = if fits {
        entry.picture.clone()
    } else {
        imageops::resize(&entry.picture, PICTURE.0, PICTURE.1, FilterType::Triangle)
    };
    imageops::replace(page, &thumbnail, left.into(), top.into());
    let max_letters = usize::try_from(PICTURE.0 / ADVANCE).unwrap_or_default();
    let label: String = entry.label.chars().take(max_letters).collect();
    letters::write(page, &label, (left, top + PICTURE.1 + 2), INK);
    letters::write(page, &entry.note, (left, top + PICTURE.1 + HEIGHT + 4), FAINT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_laid_out_in_rows() {
        let entry = |shade| CaptionedPicture {
            label: "a".to_owned(),
            note: String::new(),
            picture: RgbImage::from_pixel(PICTURE.0, PICTURE.1, Rgb([shade; 3])),
        };
        let section = Section { heading: "h".to_owned(), pictures: (0..11).map(entry).collect() };
        let page = sheet(&[section]);
        for (index, shade) in (0..11_u32).zip(0_u8..) {
            let pixel = (
                GAP + index % 10 * (PICTURE.0 + GAP) + 1,
                GAP + HEADING + index / 10 * (PICTURE.1 + CAPTION + GAP) + 1,
            );
            assert_eq!(page.get_pixel(pixel.0, pixel.1).0, [shade; 3]);
        }
    }
}
