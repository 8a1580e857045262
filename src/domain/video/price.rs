//! Prices of videos, in credits (contract 7). The amounts are configuration; the rules are in this module.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ExtendModel, ExtendResolution, GenerateJob, Resolution, VideoJob, VideoModel};
use crate::domain::value::InvalidValue;

/// Whole credits.
pub type Credits = u32;

/// Maximum of a single price. Keeps the price of a video within an int32, which clients use for `credits` (seed
/// specification).
const ENTRY_MAX: Credits = 1_000_000;

/// Price by length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Prices of 1 second, 2 seconds, and so on.
    pub seconds: Vec<Credits>,
    /// Price of each further second.
    pub more: Credits,
}

impl Price {
    /// Returns the price of a length in seconds.
    #[must_use]
    pub fn for_seconds(&self, seconds: u32) -> Credits {
        let listed = u32::try_from(self.seconds.len()).unwrap_or(u32::MAX).min(seconds);
        let base = (listed as usize).checked_sub(1).and_then(|last| self.seconds.get(last)).copied().unwrap_or(0);
        base.saturating_add(self.more.saturating_mul(seconds - listed))
    }

    /// Returns the price of one second.
    fn first_second(&self) -> Credits {
        self.seconds.first().copied().unwrap_or(0)
    }
}

/// Prices by model and resolution, both by their API names.
pub type PriceList = BTreeMap<String, BTreeMap<String, Price>>;

/// Part of the price of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PriceItem {
    /// Priced item: a job, a length, a surcharge or a discount.
    pub item: String,
    /// Negative for a reduction.
    pub credits: i64,
}

impl PriceItem {
    fn new(item: impl Into<String>, credits: impl Into<i64>) -> Self {
        Self { item: item.into(), credits: credits.into() }
    }

    /// Returns the price that consists of these parts.
    #[must_use]
    pub fn sum(items: &[Self]) -> Credits {
        let sum = items.iter().fold(0_i64, |sum, item| sum.saturating_add(item.credits));
        Credits::try_from(sum.max(0)).unwrap_or(Credits::MAX)
    }
}

/// Price of music.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MusicPrice {
    /// Price of each task.
    pub task: Credits,
    /// Price of each requested second, in addition.
    pub second: Credits,
}

/// All prices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tariff {
    /// `start-end2video` and `reference2video`.
    pub generate: PriceList,
    /// `extend`; `multiframe` prices are derived from it.
    pub extend: PriceList,
    /// Surcharge for the recommended prompt.
    pub is_rec: Credits,
    /// Off-peak price in percent of the normal price, rounded up.
    pub off_peak_percent: u32,
    /// Prices of image tasks by kind; 0 for kinds that are absent.
    #[serde(default)]
    pub image: BTreeMap<String, Credits>,
    #[serde(default)]
    pub music: MusicPrice,
}

impl Tariff {
    /// Validates that every model and resolution exists and that no price exceeds its maximum.
    ///
    /// # Errors
    /// If an entry is invalid; the reason names the entry.
    pub fn check(&self) -> Result<(), InvalidValue> {
        let check_generate =
            |model: &str, resolution: &str| VideoModel::parse(model).and(Resolution::parse(resolution).map(drop));
        let check_extend = |model: &str, resolution: &str| {
            ExtendModel::parse(model).and(ExtendResolution::parse(resolution).map(drop))
        };

        check_list("generate", &self.generate, check_generate)?;
        check_list("extend", &self.extend, check_extend)?;
        check_entry("is_rec", self.is_rec)?;
        self.image.iter().try_for_each(|(kind, credits)| check_entry(&format!("image.\"{kind}\""), *credits))?;
        check_entry("music.task", self.music.task)?;
        check_entry("music.second", self.music.second)?;

        if self.off_peak_percent > 100 {
            return Err(InvalidValue::new("off_peak_percent must be from 0 to 100"));
        }
        Ok(())
    }

    /// Returns the price of an image task of this kind.
    #[must_use]
    pub fn image_price(&self, kind: &str) -> Credits {
        self.image.get(kind).copied().unwrap_or(0)
    }

    /// Returns the parts of the price of music of this length.
    #[must_use]
    pub fn music_breakdown(&self, seconds: u16) -> Vec<PriceItem> {
        let length = PriceItem::new(format!("{seconds} s"), i64::from(self.music.second) * i64::from(seconds));
        vec![PriceItem::new("music", self.music.task), length]
    }

    /// Returns the parts of the price of an image task of this kind.
    #[must_use]
    pub fn image_breakdown(&self, kind: &str) -> Vec<PriceItem> {
        vec![PriceItem::new(kind, self.image_price(kind))]
    }

    /// Returns the price of a job, or `None` if its model and resolution have none.
    #[must_use]
    pub fn credits<P>(&self, job: &VideoJob<P>) -> Option<Credits> {
        self.breakdown(job).map(|items| PriceItem::sum(&items))
    }

    /// Returns the parts of the price of a job, or `None` if its model and resolution have none.
    #[must_use]
    pub fn breakdown<P>(&self, job: &VideoJob<P>) -> Option<Vec<PriceItem>> {
        match job {
            VideoJob::StartEnd(job) | VideoJob::Reference(job) => self.generation_breakdown(job),
            VideoJob::Extend(job) => {
                let model = job.model.as_str();
                let resolution = job.resolution.as_str();
                let seconds = job.seconds.get();
                let price = find(&self.extend, model, resolution)?;
                let item = format!("{seconds} s more of {model} at {resolution}");
                Some(vec![PriceItem::new(item, price.for_seconds(u32::from(seconds)))])
            }
            // Each key frame costs a first second; every second costs the rate of further ones (contract 7).
            VideoJob::Multiframe(job) => {
                let model = job.model.as_str();
                let resolution = job.resolution.as_str();
                let price = find(&self.extend, model, resolution)?;
                let frames = u32::try_from(job.key_frames.len()).unwrap_or(u32::MAX);
                let seconds = job.seconds();
                Some(vec![
                    PriceItem::new(
                        format!("{frames} key frames of {model} at {resolution}"),
                        price.first_second().saturating_mul(frames),
                    ),
                    PriceItem::new(format!("{seconds} s"), price.more.saturating_mul(seconds)),
                ])
            }
        }
    }

    /// Returns the resolutions that have a price for the job's model.
    pub fn resolutions_for<P>(&self, job: &VideoJob<P>) -> impl Iterator<Item = &str> {
        let prices = match job {
            VideoJob::StartEnd(_) | VideoJob::Reference(_) => &self.generate,
            VideoJob::Extend(_) | VideoJob::Multiframe(_) => &self.extend,
        };
        prices.get(job.model()).into_iter().flatten().map(|(resolution, _)| resolution.as_str())
    }

    /// Returns the parts of the price of a generated video. The off-peak reduction excludes the recommended prompt's
    /// surcharge (seed specification: "an additional 10 credits").
    fn generation_breakdown<P>(&self, job: &GenerateJob<P>) -> Option<Vec<PriceItem>> {
        let model = job.model.as_str();
        let resolution = job.resolution.as_str();
        let seconds = job.seconds.get();
        let price = find(&self.generate, model, resolution)?;

        let full_price = i64::from(price.for_seconds(u32::from(seconds)));
        let mut items = vec![PriceItem::new(format!("{seconds} s of {model} at {resolution}"), full_price)];
        if job.off_peak {
            // Rounded up, so the reduction is rounded down.
            let reduction = full_price * i64::from(100 - self.off_peak_percent.min(100)) / 100;
            items.push(PriceItem::new("off_peak", -reduction));
        }
        if job.is_rec {
            items.push(PriceItem::new("is_rec", self.is_rec));
        }
        Some(items)
    }
}

fn check_list(
    name: &str,
    prices: &PriceList,
    is_known: impl Fn(&str, &str) -> Result<(), InvalidValue>,
) -> Result<(), InvalidValue> {
    for (model, by_resolution) in prices {
        for (resolution, price) in by_resolution {
            let path = format!("{name}.\"{model}\".\"{resolution}\"");
            is_known(model, resolution).map_err(|reason| InvalidValue::new(format!("{path}: {reason}")))?;
            if price.seconds.is_empty() {
                return Err(InvalidValue::new(format!("{path}: seconds must have at least one price")));
            }
            price.seconds.iter().chain([&price.more]).try_for_each(|credits| check_entry(&path, *credits))?;
        }
    }
    Ok(())
}

fn check_entry(path: &str, credits: Credits) -> Result<(), InvalidValue> {
    if credits > ENTRY_MAX {
        return Err(InvalidValue::new(format!("{path}: a price must be from 0 to {ENTRY_MAX}, not {credits}")));
    }
    Ok(())
}

fn find<'a>(prices: &'a PriceList, model: &str, resolution: &str) -> Option<&'a Price> {
    prices.get(model)?.get(resolution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::{ImageFormat, Picture, PictureSource};
    use crate::domain::value::{CallbackUrl, Digest};
    use crate::domain::video::{ExtendJob, Footage, KeyFrame, MultiframeJob, VideoSeconds};

    /// Returns the default tariff of contract 7.
    fn default_tariff() -> Tariff {
        toml::from_str(include_str!("../../../data/pricing.toml")).unwrap()
    }

    fn seconds(value: u8) -> VideoSeconds {
        VideoSeconds::with_max(value.into(), VideoSeconds::MAX).unwrap()
    }

    fn generate(model: VideoModel, resolution: Resolution, length: u8) -> GenerateJob {
        GenerateJob { resolution, seconds: seconds(length), ..GenerateJob::new(model) }
    }

    /// Calculates the price as the table of contract 7 defines it; `d` is the length in seconds.
    fn table_price(model: VideoModel, resolution: Resolution, d: u32) -> u32 {
        let full_hd = |d: u32| match model {
            VideoModel::Vq2Pro => 55 + 15 * (d - 1),
            VideoModel::Vq2ProFast => 16 + 4 * (d - 1),
            _ => 35 + 10 * (d - 1),
        };
        match (model, resolution) {
            (VideoModel::Vq3Pro, Resolution::P360 | Resolution::P540) => 14 * d,
            (VideoModel::Vq3Pro, Resolution::P720) => 30 * d,
            (VideoModel::Vq3Pro, Resolution::P1080) => 32 * d,
            (VideoModel::Vq3Pro, Resolution::K2) => 40 * d,
            (VideoModel::Vq1 | VideoModel::Vq1Classic | VideoModel::V2, resolution) => match resolution {
                Resolution::P360 | Resolution::P540 => 20,
                Resolution::P720 => 40,
                Resolution::P1080 => 80,
                Resolution::K2 => 160,
            },
            (VideoModel::Vq2Pro, Resolution::P360 | Resolution::P540) => 10 + 5 * (d - 1),
            (VideoModel::Vq2Pro, Resolution::P720) => 15 + 10 * (d - 1),
            (VideoModel::Vq2ProFast, Resolution::P360 | Resolution::P540) => 5 + (d - 1),
            (VideoModel::Vq2ProFast, Resolution::P720) => 8 + 2 * (d - 1),
            (VideoModel::Vq2Turbo, Resolution::P360 | Resolution::P540) => 5 + 3 * (d - 1),
            (VideoModel::Vq2Turbo, Resolution::P720) => [8, 10].get(d as usize - 1).copied().unwrap_or(10 * (d - 1)),
            (_, Resolution::P1080) => full_hd(d),
            (_, Resolution::K2) => 2 * full_hd(d),
        }
    }

    #[test]
    fn every_model_resolution_and_length_has_the_price_of_the_table() {
        let tariff = default_tariff();
        for model in VideoModel::ALL {
            for resolution in Resolution::ALL {
                for length in 1..=model.seconds_max() {
                    let job = VideoJob::StartEnd(generate(*model, *resolution, length));
                    let expected = Some(table_price(*model, *resolution, length.into()));
                    assert_eq!(tariff.credits(&job), expected, "{} {} {length}", model.as_str(), resolution.as_str());
                }
            }
        }
    }

    #[test]
    fn vq2_turbo_at_720p_costs_8_then_10_then_10_more_per_second() {
        let price_of = |length| {
            default_tariff().credits(&VideoJob::Reference(generate(VideoModel::Vq2Turbo, Resolution::P720, length)))
        };
        assert_eq!([1, 2, 3, 4].map(price_of), [Some(8), Some(10), Some(20), Some(30)]);
    }

    #[test]
    fn off_peak_is_half_rounded_up_and_the_recommended_prompt_is_not_halved() {
        let price_of = |off_peak, is_rec| {
            let job = generate(VideoModel::Vq2ProFast, Resolution::P540, 3);
            default_tariff().credits(&VideoJob::StartEnd(GenerateJob { is_rec, off_peak, ..job }))
        };
        assert_eq!(
            [price_of(false, false), price_of(true, false), price_of(false, true), price_of(true, true)],
            [Some(7), Some(4), Some(17), Some(14)]
        );
    }

    #[test]
    fn extensions_and_key_frames_have_their_own_prices() {
        let tariff = default_tariff();
        let table = [
            (ExtendModel::Vq2Pro, [(20, 8), (30, 10), (60, 15)]),
            (ExtendModel::Vq2Turbo, [(10, 4), (15, 5), (40, 10)]),
        ];
        let picture = Picture { digest: Digest([1; 32]), format: ImageFormat::Png, bytes: 1, width: 8, height: 8 };
        let frame = |length| KeyFrame { image: PictureSource::Stored(picture), seconds: seconds(length), prompt: None };
        for (model, prices) in table {
            for (resolution, (base, rate)) in ExtendResolution::ALL.iter().zip(prices) {
                let url = CallbackUrl::parse("https://a.example/x.mp4").unwrap();
                let video = Footage { creation: None, url, stored: None, vendor_id: None };
                let extend_job = ExtendJob { model, resolution: *resolution, seconds: seconds(7), prompt: None, video };
                assert_eq!(tariff.credits(&VideoJob::<PictureSource>::Extend(extend_job)), Some(base + 6 * rate));
                let key_frames = vec![frame(3), frame(8)];
                let multiframe_job = MultiframeJob { model, resolution: *resolution, start_image: None, key_frames };
                assert_eq!(tariff.credits(&VideoJob::Multiframe(multiframe_job)), Some(2 * base + 11 * rate));
            }
        }
    }

    #[test]
    fn a_model_that_the_tariff_does_not_list_has_no_price() {
        let mut tariff = default_tariff();
        tariff.generate.remove("vq1");
        assert_eq!(tariff.credits(&VideoJob::StartEnd(generate(VideoModel::Vq1, Resolution::P720, 5))), None);
    }
}
