//! Changing a picture tile by tile, pixels in and pixels out, so that memory does not grow with what the work needs.

use image::{RgbImage, RgbaImage};
use rayon::prelude::*;

use super::colour::{Planes, join};
use super::plane::Region;
use crate::media::input::Pixels;

/// Rows of a tile.
const ROWS: usize = 256;
/// Columns of a tile.
const COLUMNS: usize = 1024;

/// How far the colour of hidden pixels looks around (see [`Planes`]).
const HIDDEN_REACH: usize = 8;

/// Changes every tile by `work`, which gets its planes and the region that they cover: `margin` samples more on every side
/// than what is kept of them. Alpha stays as it is.
#[must_use]
pub fn change(pixels: &Pixels, margin: usize, work: impl Fn(&mut Planes, Region) + Sync) -> Pixels {
    match pixels {
        Pixels::Opaque(source) => {
            let mut result = RgbImage::new(source.width(), source.height());
            each_tile::<3>(&mut result, source.width() as usize, |region| {
                let grown = region.grown(margin);
                let mut planes = Planes::of(&Pixels::Opaque(
                    RgbImage::from_vec(
                        grown.width as u32,
                        grown.height as u32,
                        part::<3>(source, source.width() as usize, grown),
                    )
                    .unwrap_or_default(),
                ));
                work(&mut planes, grown);
                (planes, margin)
            });
            Pixels::Opaque(result)
        }
        Pixels::Transparent(source) => {
            let mut result = source.clone();
            each_tile::<4>(&mut result, source.width() as usize, |region| {
                let margin = margin.max(HIDDEN_REACH);
                let grown = region.grown(margin);
                let mut planes = Planes::of(&Pixels::Transparent(
                    RgbaImage::from_vec(
                        grown.width as u32,
                        grown.height as u32,
                        part::<4>(source, source.width() as usize, grown),
                    )
                    .unwrap_or_default(),
                ));
                work(&mut planes, grown);
                (planes, margin)
            });
            Pixels::Transparent(result)
        }
    }
}

/// Writes the colours of each tile, of whose planes the margin is left out.
fn each_tile<const N: usize>(samples: &mut [u8], width: usize, of: impl Fn(Region) -> (Planes, usize) + Sync) {
    samples.par_chunks_mut(N * width * ROWS).enumerate().for_each(|(band, samples)| {
        let height = samples.len() / (N * width);
        for left in (0..width).step_by(COLUMNS) {
            let columns = COLUMNS.min(width - left);
            let region = Region { left: left as isize, top: (band * ROWS) as isize, width: columns, height };
            let (planes, margin) = of(region);
            for (y, row) in samples.chunks_exact_mut(N * width).enumerate() {
                let [luma, blue, red] =
                    [&planes.luma, &planes.blue, &planes.red].map(|plane| &plane.row(y + margin)[margin..]);
                for (x, pixel) in row.as_chunks_mut::<N>().0[left..left + columns].iter_mut().enumerate() {
                    pixel[..3].copy_from_slice(&join(luma[x], blue[x], red[x]));
                }
            }
        }
    });
}

/// A copy of a region, which may reach beyond the borders: there the outermost pixels are repeated.
fn part<const N: usize>(samples: &[u8], width: usize, region: Region) -> Vec<u8> {
    let rows: Vec<&[u8]> = samples.chunks_exact(N * width).collect();
    let clamped = |at: isize, length: usize| usize::try_from(at).unwrap_or(0).min(length - 1);
    let mut copy = Vec::with_capacity(N * region.width * region.height);
    for y in (region.top..).take(region.height) {
        let row = rows[clamped(y, rows.len())].as_chunks::<N>().0;
        for x in (region.left..).take(region.width) {
            copy.extend_from_slice(&row[clamped(x, width)]);
        }
    }
    copy
}
