//! Parallel enlargement in tiles, so that memory does not grow with the picture.

use image::{RgbImage, RgbaImage};
use rayon::prelude::*;

use crate::colour::{Planes, join_row};
use crate::detail::{Detailer, Tile};
use crate::picture::Pixels;
use crate::plane::{Plane, Region};

/// Approximate number of rows of the result per tile. The few planes of a tile fit into the cache of a core.
const TILE_ROWS: usize = 128;
/// Approximate number of columns of the result per tile.
const TILE_COLUMNS: usize = 512;
/// Minimum number of source rows per tile; with less, the margins would dominate the work.
const SOURCE_ROWS_MIN: usize = 64;
/// Minimum number of source columns per tile.
const SOURCE_COLUMNS_MIN: usize = 128;

/// Size of a tile before its enlargement.
struct SourceTileSize {
    rows: usize,
    columns: usize,
}

/// Returns the source size of a tile that is enlarged by `factor`.
fn source_tile_size(factor: usize) -> SourceTileSize {
    SourceTileSize {
        rows: (TILE_ROWS / factor).max(SOURCE_ROWS_MIN),
        columns: (TILE_COLUMNS / factor).max(SOURCE_COLUMNS_MIN),
    }
}

/// Enlarges to planes, for another enlargement.
#[must_use]
pub fn enlarge(source: &Planes, detailer: &Detailer) -> Planes {
    let factor = detailer.factor();
    let width = source.luma.width() * factor;
    let height = source.luma.height() * factor;

    let mut result = Planes::new(width, height);
    let mut alpha = source.alpha.as_ref().map(|_| Plane::new(width, height));

    let rows = source_tile_size(factor).rows * factor;
    let bands = result.par_bands_mut(rows);

    match &mut alpha {
        None => render(detailer, source, bands, |[luma, blue, red], tile, left| {
            copy_colours([luma, blue, red], tile, left, width);
        }),
        Some(alpha) => {
            let bands = bands.zip(alpha.values_mut().par_chunks_mut(rows * width));
            render(detailer, source, bands, |([luma, blue, red], alpha), tile, left| {
                copy_colours([luma, blue, red], tile, left, width);

                let rows = tile.alpha.iter().flat_map(Plane::rows);
                alpha.chunks_exact_mut(width).zip(rows).for_each(|(target, row)| {
                    target[left..left + row.len()].copy_from_slice(row);
                });
            });
        }
    }

    Planes { alpha, ..result }
}

fn copy_colours(bands: [&mut [f32]; 3], tile: &Tile, left: usize, width: usize) {
    let columns = left..left + tile.blue.width();
    let [lumas, blues, reds] = bands.map(|band| band.chunks_exact_mut(width));
    for (y, ((luma, blue), red)) in lumas.zip(blues).zip(reds).enumerate() {
        luma[columns.clone()].copy_from_slice(tile.luma_row(y));
        tile.blue.fill(y, &mut blue[columns.clone()]);
        tile.red.fill(y, &mut red[columns.clone()]);
    }
}

/// Enlarges to pixels.
#[must_use]
pub fn enlarge_to_pixels(source: &Planes, detailer: &Detailer) -> Pixels {
    let factor = detailer.factor();
    let width = source.luma.width() * factor;
    let height = source.luma.height() * factor;

    let rows = source_tile_size(factor).rows * factor;

    if source.alpha.is_some() {
        let mut pixels = RgbaImage::new(width as u32, height as u32);
        let bands = pixels.par_chunks_mut(rows * 4 * width);
        render(detailer, source, bands, |band, tile, left| write_transparent(band, tile, left, width));
        Pixels::Transparent(pixels)
    } else {
        let mut pixels = RgbImage::new(width as u32, height as u32);
        let bands = pixels.par_chunks_mut(rows * 3 * width);
        render(detailer, source, bands, |band, tile, left| write_colours::<3>(band, tile, left, width));
        Pixels::Opaque(pixels)
    }
}

/// Writes the colours of a tile from column `left` on.
fn write_colours<const N: usize>(band: &mut [u8], tile: &Tile, left: usize, width: usize) {
    let columns = tile.blue.width();
    let mut blue = vec![0.0; columns];
    let mut red = vec![0.0; columns];
    for (y, row) in band.chunks_exact_mut(N * width).enumerate() {
        tile.blue.fill(y, &mut blue);
        tile.red.fill(y, &mut red);
        join_row([tile.luma_row(y), &blue, &red], &mut row.as_chunks_mut::<N>().0[left..left + columns]);
    }
}

fn write_transparent(band: &mut [u8], tile: &Tile, left: usize, width: usize) {
    write_colours::<4>(band, tile, left, width);
    let Some(alpha) = &tile.alpha else { return };
    for (row, alphas) in band.chunks_exact_mut(4 * width).zip(alpha.rows()) {
        for (pixel, alpha) in row.as_chunks_mut::<4>().0[left..].iter_mut().zip(alphas) {
            pixel[3] = (alpha * 255.0 + 0.5) as u8;
        }
    }
}

/// Computes the result in bands, each tile by tile, and passes every tile with its left column to `write`.
fn render<B: Send>(
    detailer: &Detailer,
    source: &Planes,
    bands: impl IndexedParallelIterator<Item = B>,
    write: impl Fn(&mut B, &Tile, usize) + Sync,
) {
    let factor = detailer.factor();
    let SourceTileSize { rows, columns } = source_tile_size(factor);

    bands.enumerate().for_each(|(band, mut target)| {
        let top = band * rows;
        let height = rows.min(source.luma.height() - top);
        for left in (0..source.luma.width()).step_by(columns) {
            let width = columns.min(source.luma.width() - left);
            let region = Region { left: left as isize, top: top as isize, width, height };
            write(&mut target, &detailer.tile(region), left * factor);
        }
    });
}
