//! Enlarging in tiles: every core works on one, so that memory does not grow with the picture.

use image::{RgbImage, RgbaImage};
use rayon::prelude::*;

use super::colour::{Planes, join};
use super::detail::{Detailer, Tile};
use super::plane::{Plane, Region};
use crate::media::input::Pixels;

/// Rows of the result that are computed together, about.
const TILE_ROWS: usize = 256;
/// Columns of the result that are computed together, about.
const TILE_COLUMNS: usize = 1024;
/// Fewest rows of the source in a tile: with less, the margins would be most of the work.
const SOURCE_ROWS_MIN: usize = 32;
/// Fewest columns of the source in a tile.
const SOURCE_COLUMNS_MIN: usize = 128;

/// Rows and columns of the source in a tile that is enlarged by `factor`.
fn tile_size(factor: usize) -> (usize, usize) {
    ((TILE_ROWS / factor).max(SOURCE_ROWS_MIN), (TILE_COLUMNS / factor).max(SOURCE_COLUMNS_MIN))
}

/// An enlargement that is to be enlarged again.
#[must_use]
pub fn enlarge(source: &Planes, detailer: &Detailer) -> Planes {
    let factor = detailer.factor();
    let (width, height) = (source.luma.width() * factor, source.luma.height() * factor);
    let mut result = Planes::new(width, height);
    let mut alpha = source.alpha.as_ref().map(|_| Plane::new(width, height));
    let rows = tile_size(factor).0 * factor;
    let bands = result.par_bands_mut(rows);
    match &mut alpha {
        None => render(detailer, source, bands, |[luma, blue, red], tile, left| {
            for (band, plane) in [(luma, &tile.luma), (blue, &tile.blue), (red, &tile.red)] {
                copy_rows(band, plane, left, width);
            }
        }),
        Some(alpha) => {
            let bands = bands.zip(alpha.values_mut().par_chunks_mut(rows * width));
            render(detailer, source, bands, |([luma, blue, red], alpha), tile, left| {
                let colours = [(luma, &tile.luma), (blue, &tile.blue), (red, &tile.red)];
                for (band, plane) in colours.into_iter().chain(tile.alpha.as_ref().map(|plane| (alpha, plane))) {
                    copy_rows(band, plane, left, width);
                }
            });
        }
    }
    Planes { alpha, ..result }
}

fn copy_rows(band: &mut [f32], tile: &Plane, left: usize, width: usize) {
    for (target, row) in band.chunks_exact_mut(width).zip(tile.rows()) {
        target[left..left + row.len()].copy_from_slice(row);
    }
}

/// The last enlargement, to pixels.
#[must_use]
pub fn finish(source: &Planes, detailer: &Detailer) -> Pixels {
    let factor = detailer.factor();
    let (width, height) = (source.luma.width() * factor, source.luma.height() * factor);
    let rows = tile_size(factor).0 * factor;
    if source.alpha.is_some() {
        let mut pixels = RgbaImage::new(width as u32, height as u32);
        let bands = pixels.par_chunks_mut(rows * 4 * width);
        render(detailer, source, bands, |band, tile, left| write_transparent(band, tile, left, width));
        Pixels::Transparent(pixels)
    } else {
        let mut pixels = RgbImage::new(width as u32, height as u32);
        let bands = pixels.par_chunks_mut(rows * 3 * width);
        render(detailer, source, bands, |band, tile, left| write_opaque(band, tile, left, width));
        Pixels::Opaque(pixels)
    }
}

fn write_opaque(band: &mut [u8], tile: &Tile, left: usize, width: usize) {
    for (y, row) in band.chunks_exact_mut(3 * width).enumerate() {
        let planes = tile.luma.row(y).iter().zip(tile.blue.row(y)).zip(tile.red.row(y));
        for (pixel, ((luma, blue), red)) in row.as_chunks_mut::<3>().0[left..].iter_mut().zip(planes) {
            *pixel = join(*luma, *blue, *red);
        }
    }
}

fn write_transparent(band: &mut [u8], tile: &Tile, left: usize, width: usize) {
    let Some(alpha) = &tile.alpha else { return };
    for (y, row) in band.chunks_exact_mut(4 * width).enumerate() {
        let planes = tile.luma.row(y).iter().zip(tile.blue.row(y)).zip(tile.red.row(y)).zip(alpha.row(y));
        for (pixel, (((luma, blue), red), alpha)) in row.as_chunks_mut::<4>().0[left..].iter_mut().zip(planes) {
            let [red, green, blue] = join(*luma, *blue, *red);
            *pixel = [red, green, blue, (alpha * 255.0 + 0.5) as u8];
        }
    }
}

/// Computes the result in bands, each tile by tile, and hands every tile with its left column to
/// `write`.
fn render<B: Send>(
    detailer: &Detailer,
    source: &Planes,
    bands: impl IndexedParallelIterator<Item = B>,
    write: impl Fn(&mut B, &Tile, usize) + Sync,
) {
    let factor = detailer.factor();
    let (rows, columns) = tile_size(factor);
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
