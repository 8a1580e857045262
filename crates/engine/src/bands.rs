//! Tile-by-tile processing of a picture, from pixels to pixels, so that memory does not depend on the working set.

use image::{RgbImage, RgbaImage};
use rayon::prelude::*;

use crate::colour::{Planes, join_row};
use crate::picture::Pixels;
use crate::plane::{Region, clamped, copy_clamped};

/// Minimum number of rows of a tile. The planes of a tile should fit into the cache of a core.
const ROWS_MIN: usize = 128;
/// Maximum number of rows of a tile.
const ROWS_MAX: usize = 256;
/// Rows of a tile per row of the margin, which would otherwise dominate the work.
const ROWS_PER_MARGIN: usize = 12;
/// Columns of a tile per row.
const COLUMNS_PER_ROW: usize = 4;

/// Radius in pixels of the neighbourhood whose mean colour hidden pixels take (see [`Planes`]).
const HIDDEN_REACH: usize = 8;

/// Processes every tile with `transform`, which receives the planes of the tile and their region. Both include `margin`
/// samples on every side that are discarded afterwards. Alpha is kept.
#[must_use]
pub fn transform_tiles(pixels: &Pixels, margin: usize, transform: impl Fn(&mut Planes, Region) + Sync) -> Pixels {
    match pixels {
        Pixels::Opaque(source) => {
            let mut result = RgbImage::new(source.width(), source.height());
            for_each_tile::<3>(&mut result, source.width() as usize, margin, |region| {
                let grown = region.grown(margin);
                let mut planes = Planes::from_pixels(&Pixels::Opaque(
                    RgbImage::from_vec(
                        grown.width as u32,
                        grown.height as u32,
                        copy_region::<3>(source, source.width() as usize, grown),
                    )
                    .unwrap_or_default(),
                ));

                transform(&mut planes, grown);
                planes
            });

            Pixels::Opaque(result)
        }
        Pixels::Transparent(source) => {
            let mut result = source.clone();
            let margin = margin.max(HIDDEN_REACH);
            for_each_tile::<4>(&mut result, source.width() as usize, margin, |region| {
                let grown = region.grown(margin);
                let mut planes = Planes::from_pixels(&Pixels::Transparent(
                    RgbaImage::from_vec(
                        grown.width as u32,
                        grown.height as u32,
                        copy_region::<4>(source, source.width() as usize, grown),
                    )
                    .unwrap_or_default(),
                ));

                transform(&mut planes, grown);
                planes
            });

            Pixels::Transparent(result)
        }
    }
}

/// Writes the colours of each tile without the margin of its planes.
fn for_each_tile<const N: usize>(
    samples: &mut [u8],
    width: usize,
    margin: usize,
    render_tile: impl Fn(Region) -> Planes + Sync,
) {
    let rows = (ROWS_PER_MARGIN * margin).clamp(ROWS_MIN, ROWS_MAX);
    let tile_columns = COLUMNS_PER_ROW * rows;

    samples.par_chunks_mut(N * width * rows).enumerate().for_each(|(band, samples)| {
        let height = samples.len() / (N * width);
        for left in (0..width).step_by(tile_columns) {
            let columns = tile_columns.min(width - left);
            let region = Region { left: left as isize, top: (band * rows) as isize, width: columns, height };

            let planes = render_tile(region);

            for (y, row) in samples.chunks_exact_mut(N * width).enumerate() {
                let [luma, blue, red] =
                    [&planes.luma, &planes.blue, &planes.red].map(|plane| &plane.row(y + margin)[margin..]);
                join_row([luma, blue, red], &mut row.as_chunks_mut::<N>().0[left..left + columns]);
            }
        }
    });
}

/// Copies a region. Beyond the borders the outermost pixels are repeated.
fn copy_region<const N: usize>(samples: &[u8], width: usize, region: Region) -> Vec<u8> {
    let last = samples.len() / (N * width) - 1;
    let mut copy = vec![0; N * region.width * region.height];
    for (y, target) in (region.top..).zip(copy.chunks_exact_mut(N * region.width)) {
        let row = &samples[N * width * clamped(y, last)..][..N * width];
        copy_clamped(row.as_chunks::<N>().0, region.left, target.as_chunks_mut::<N>().0);
    }
    copy
}
