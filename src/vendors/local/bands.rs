//! Changing a picture tile by tile, pixels in and pixels out, so that memory does not grow with what the work needs.

use image::{RgbImage, RgbaImage};
use rayon::prelude::*;

use super::colour::{Planes, join_row};
use super::plane::{Region, clamped, copy_clamped};
use crate::media::input::Pixels;

/// Fewest rows of a tile: its planes are to fit into the cache of a core.
const ROWS_MIN: usize = 128;
/// Most rows of a tile.
const ROWS_MAX: usize = 256;
/// Rows of a tile for one of the margin, which would be most of the work otherwise.
const ROWS_PER_MARGIN: usize = 12;
/// Columns of a tile for each row.
const COLUMNS_PER_ROW: usize = 4;

/// How far the colour of hidden pixels looks around (see [`Planes`]).
const HIDDEN_REACH: usize = 8;

/// Changes every tile by `work`, which gets its planes and the region that they cover: `margin` samples more on every side
/// than what is kept of them. Alpha stays as it is.
#[must_use]
pub fn change(pixels: &Pixels, margin: usize, work: impl Fn(&mut Planes, Region) + Sync) -> Pixels {
    match pixels {
        Pixels::Opaque(source) => {
            let mut result = RgbImage::new(source.width(), source.height());
            each_tile::<3>(&mut result, source.width() as usize, margin, |region| {
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
                planes
            });
            Pixels::Opaque(result)
        }
        Pixels::Transparent(source) => {
            let mut result = source.clone();
            let margin = margin.max(HIDDEN_REACH);
            each_tile::<4>(&mut result, source.width() as usize, margin, |region| {
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
                planes
            });
            Pixels::Transparent(result)
        }
    }
}

/// Writes the colours of each tile, of whose planes the margin is left out.
fn each_tile<const N: usize>(samples: &mut [u8], width: usize, margin: usize, of: impl Fn(Region) -> Planes + Sync) {
    let rows = (ROWS_PER_MARGIN * margin).clamp(ROWS_MIN, ROWS_MAX);
    let tile_columns = COLUMNS_PER_ROW * rows;
    samples.par_chunks_mut(N * width * rows).enumerate().for_each(|(band, samples)| {
        let height = samples.len() / (N * width);
        for left in (0..width).step_by(tile_columns) {
            let columns = tile_columns.min(width - left);
            let region = Region { left: left as isize, top: (band * rows) as isize, width: columns, height };
            let planes = of(region);
            for (y, row) in samples.chunks_exact_mut(N * width).enumerate() {
                let [luma, blue, red] =
                    [&planes.luma, &planes.blue, &planes.red].map(|plane| &plane.row(y + margin)[margin..]);
                join_row([luma, blue, red], &mut row.as_chunks_mut::<N>().0[left..left + columns]);
            }
        }
    });
}

/// A copy of a region, which may reach beyond the borders: there the outermost pixels are repeated.
fn part<const N: usize>(samples: &[u8], width: usize, region: Region) -> Vec<u8> {
    let last = samples.len() / (N * width) - 1;
    let mut copy = vec![0; N * region.width * region.height];
    for (y, target) in (region.top..).zip(copy.chunks_exact_mut(N * region.width)) {
        let row = &samples[N * width * clamped(y, last)..][..N * width];
        copy_clamped(row.as_chunks::<N>().0, region.left, target.as_chunks_mut::<N>().0);
    }
    copy
}
