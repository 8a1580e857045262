//! Pixel operations on rows, compiled for the baseline instruction set and for AVX2.
//!
//! `likeness` is the likelihood of skin and `face` that of a face, both 0 to 1 for each pixel.

use multiversion::multiversion;

use super::retouch::Retouch;
use crate::light::ramp;

/// Adds the bands of luma with individual amounts on skin and elsewhere. `coarse` is the coarse part of `detail`.
#[multiversion(targets("x86_64+avx2"))]
pub fn mix_bands(luma: &mut [f32], [detail, coarse]: [&[f32]; 2], likeness: &[f32], retouch: &Retouch) {
    let Retouch { even, texture, smooth, .. } = *retouch;
    for (((value, detail), coarse), skin) in luma.iter_mut().zip(detail).zip(coarse).zip(likeness) {
        let fine = detail - coarse;
        let on_skin = texture * fine - even * coarse;
        *value += skin * on_skin - (1.0 - skin) * smooth * (0.5 * fine + 0.8 * coarse);
    }
}

/// Reduces shine: areas brighter and paler than skin are darkened softly and get the colour of skin. `skin_mean` is the
/// mean luma, blue and red of the skin.
#[multiversion(targets("x86_64+avx2"))]
pub fn reduce_shine([lumas, blues, reds]: &mut [&mut [f32]; 3], likeness: &[f32], shine: f32, skin_mean: [f32; 3]) {
    let [mean_luma, mean_blue, mean_red] = skin_mean;
    let samples = lumas.iter_mut().zip(blues.iter_mut()).zip(reds.iter_mut()).zip(likeness);
    for (((luma, blue), red), skin) in samples {
        let amount = shine * skin;
        let above = (*luma - mean_luma - 0.12).max(0.0);
        let lower = above * above / (above + 0.12);
        let colour = 0.6 * amount * ramp(above, 0.0, 0.2);
        *luma -= 0.6 * amount * lower;
        *blue += colour * (mean_blue - *blue);
        *red += colour * (mean_red - *red);
    }
}

/// Reduces make-up: colours in the face that differ from its skin, such as red lips and blue or dark eyelids, move
/// towards skin. The white of eyes and teeth has no colour and is kept. `skin_mean` is the mean luma, blue and red of
/// the skin.
#[multiversion(targets("x86_64+avx2"))]
pub fn reduce_make_up([lumas, blues, reds]: &mut [&mut [f32]; 3], face: &[f32], make_up: f32, skin_mean: [f32; 3]) {
    let [mean_luma, mean_blue, mean_red] = skin_mean;
    let samples = lumas.iter_mut().zip(blues.iter_mut()).zip(reds.iter_mut()).zip(face);
    for (((luma, blue), red), face) in samples {
        let amount = make_up * face;
        let to_blue = *blue - mean_blue;
        let to_red = *red - mean_red;

        let strong = ramp((*blue * *blue + *red * *red).sqrt(), 0.03, 0.09);
        let paint_share = ramp((to_blue * to_blue + to_red * to_red).sqrt(), 0.015, 0.07);
        let share = 0.7 * amount * strong * paint_share;
        let dark = amount * paint_share * ramp(mean_luma - *luma, 0.05, 0.25) * ramp(*luma, 0.08, 0.3) * strong;

        *luma += 0.25 * dark * (mean_luma - *luma);
        *blue -= share * to_blue;
        *red -= share * to_red;
    }
}

/// Adjusts local contrast, overall contrast and colour. Skin gets less local contrast; more would make it look old.
#[multiversion(targets("x86_64+avx2"))]
pub fn grade([lumas, blues, reds]: &mut [&mut [f32]; 3], base: &[f32], likeness: &[f32], retouch: &Retouch) {
    let Retouch { local_contrast, contrast, saturation, warmth, .. } = *retouch;
    let samples = lumas.iter_mut().zip(blues.iter_mut()).zip(reds.iter_mut());
    for (((luma, blue), red), (base, skin)) in samples.zip(base.iter().zip(likeness)) {
        let before = luma.clamp(0.0, 1.0);
        let headroom = 4.0 * before * (1.0 - before);
        let local_contrast = local_contrast * (1.0 - 0.8 * skin);
        *luma += headroom * (local_contrast * (before - base).clamp(-0.3, 0.3) + contrast * (before - 0.5));
        let gain = 1.0 + saturation;
        let tint = 0.05 * warmth * headroom;
        [*blue, *red] = [*blue * gain - tint, *red * gain + tint];
    }
}

/// Amplifies detail finer than `soft` where it exceeds noise, less on skin.
#[multiversion(targets("x86_64+avx2"))]
pub fn sharpen(luma: &mut [f32], soft: &[f32], likeness: &[f32], amount: f32) {
    for ((value, soft), skin) in luma.iter_mut().zip(soft).zip(likeness) {
        let fine = *value - soft;
        let gained = amount * (1.0 - 0.4 * skin) * fine * (fine * fine / (fine * fine + 1e-4));
        // Limits the change to 0.12.
        *value += gained / (1.0 + (gained / 0.12).powi(2)).sqrt();
    }
}
