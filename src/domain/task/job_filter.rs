//! Selection of jobs by their kind and parameters.

use super::{Gateway, TaskKind, TaskWork};
use crate::domain::image::{
    ImageWork, OptimizedFor, PortraitBeautifier, PortraitStyle, PrecisionFlavor, RelightEngine, RelightStyle,
    SkinFocus, StyleEngine, StyleFlavor, TransferLightA, TransferLightB, UpscaleEngine,
};
use crate::domain::parameter::JobParameters;
use crate::domain::video::{
    AudioType, ExtendModel, ExtendResolution, MovementAmplitude, Resolution, VideoModel, VideoStyle,
};

/// Jobs that a vendor takes, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Kinds of jobs; empty is all kinds.
    pub kinds: Vec<TaskKind>,
    /// Parameters by their API names, each with the values that the vendor does not take.
    pub except: Vec<(String, Vec<String>)>,
}

/// A parameter that a [`JobFilter`] can test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterableParameter {
    /// API name.
    pub name: &'static str,
    /// All values of all jobs; empty for numbers and other values that are not listed.
    pub values: Vec<&'static str>,
}

impl JobFilter {
    /// Returns `true` if the job is selected.
    #[must_use]
    pub fn takes(&self, work: &TaskWork) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&work.kind())) && !self.is_excluded(work)
    }

    fn is_excluded(&self, work: &TaskWork) -> bool {
        !self.except.is_empty()
            && match work {
                TaskWork::Image(ImageWork { job, .. }) => self.excludes(&job.parameters((), None)),
                TaskWork::Video(work) => self.excludes(&work.job.parameters(&[], work.seed)),
                TaskWork::Music(_) => false,
            }
    }

    fn excludes<P>(&self, parameters: &JobParameters<P>) -> bool {
        self.except.iter().any(|(name, values)| values.iter().any(|value| parameters.has_value(name, value)))
    }
}

/// Collects the names of all values of these types, each once.
macro_rules! names {
    ($($values:ty),+) => {{
        let mut names = Vec::new();
        $(for value in <$values>::ALL {
            let name = value.as_str();
            if !names.contains(&name) {
                names.push(name);
            }
        })+
        names
    }};
}

impl FilterableParameter {
    /// Returns the parameters of the jobs of a gateway.
    #[must_use]
    pub fn all(gateway: Gateway) -> Vec<Self> {
        let enumerated = |name, values| Self { name, values };
        let flag = |name| Self { name, values: vec!["true", "false"] };
        let free = |name| Self { name, values: Vec::new() };

        match gateway {
            Gateway::Image => vec![
                free("scale_factor"),
                enumerated("engine", names![UpscaleEngine, StyleEngine, RelightEngine]),
                enumerated("optimized_for", names![OptimizedFor, SkinFocus]),
                free("creativity"),
                free("fractality"),
                free("hdr"),
                free("resemblance"),
                enumerated("flavor", names![PrecisionFlavor, StyleFlavor]),
                free("sharpen"),
                free("smart_grain"),
                free("ultra_detail"),
                free("skin_detail"),
                free("style_strength"),
                free("structure_strength"),
                flag("is_portrait"),
                enumerated("portrait_style", names![PortraitStyle]),
                enumerated("portrait_beautifier", names![PortraitBeautifier]),
                flag("fixed_generation"),
                free("light_transfer_strength"),
                enumerated("style", names![RelightStyle]),
                flag("interpolate_from_original"),
                flag("change_background"),
                flag("preserve_details"),
                enumerated("transfer_light_a", names![TransferLightA]),
                enumerated("transfer_light_b", names![TransferLightB]),
            ],
            Gateway::Video => vec![
                enumerated("model", names![VideoModel, ExtendModel]),
                free("duration"),
                enumerated("resolution", names![Resolution, ExtendResolution]),
                free("aspect_ratio"),
                enumerated("style", names![VideoStyle]),
                enumerated("movement_amplitude", names![MovementAmplitude]),
                flag("enhance"),
                flag("is_rec"),
                flag("audio"),
                enumerated("audio_type", names![AudioType]),
                free("voice_id"),
                flag("bgm"),
                flag("off_peak"),
                free("priority"),
                flag("watermark"),
                free("wm_position"),
            ],
            Gateway::Music => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::{
        ImageFormat, ImageJob, LightSettings, Picture, PictureSource, RelightJob, StyleTransferJob, UpscaleJob,
    };
    use crate::domain::value::Digest;
    use crate::domain::video::{GenerateJob, Seed, VideoJob, VideoWork};

    fn image(job: ImageJob) -> TaskWork {
        let picture = Picture { digest: Digest([0; 32]), format: ImageFormat::Png, bytes: 1, width: 1, height: 1 };
        TaskWork::Image(ImageWork {
            job,
            image: PictureSource::Stored(picture),
            reference: None,
            seed: None,
            credits: 0,
        })
    }

    fn video(job: GenerateJob) -> TaskWork {
        let seed = Seed::from_random(1);
        let job = VideoJob::StartEnd(job);
        TaskWork::Video(VideoWork { job, images: Vec::new(), seed, payload: None, meta_data: None, credits: 0 })
    }

    fn except(name: &str, value: &str) -> JobFilter {
        JobFilter { kinds: Vec::new(), except: vec![(name.to_owned(), vec!["other".to_owned(), value.to_owned()])] }
    }

    #[test]
    fn kinds_and_parameter_values_are_tested() {
        let upscale = image(ImageJob::Upscale(UpscaleJob::default()));
        let style = image(ImageJob::StyleTransfer(StyleTransferJob::default()));
        let only_upscales = JobFilter { kinds: vec![TaskKind::ImageUpscaler], except: Vec::new() };
        assert_eq!([&upscale, &style].map(|work| only_upscales.takes(work)), [true, false]);
        assert!(JobFilter::default().takes(&style));

        let engine = UpscaleJob::default().engine.as_str();
        assert!(!except("engine", engine).takes(&upscale) && except("engine", "magic").takes(&upscale));
        assert!(!except("hdr", "0").takes(&upscale) && !except("is_portrait", "false").takes(&style));
        assert!(!except("off_peak", "true").takes(&video(GenerateJob { off_peak: true, ..GenerateJob::default() })));
        assert!(except("off_peak", "true").takes(&video(GenerateJob::default())));
    }

    #[test]
    fn parameters_in_groups_are_tested_too() {
        let job = RelightJob::default();
        let engine = LightSettings::default().engine.as_str();
        assert!(!except("engine", engine).takes(&image(ImageJob::Relight(job))));
    }

    #[test]
    fn every_parameter_of_a_job_can_be_tested_except_texts_and_files() {
        let jobs = [
            (Gateway::Image, ImageJob::Upscale(UpscaleJob::default()).parameters((), None).names()),
            (Gateway::Image, ImageJob::StyleTransfer(StyleTransferJob::default()).parameters((), None).names()),
            (
                Gateway::Video,
                VideoJob::<()>::StartEnd(GenerateJob::default()).parameters(&[], Seed::from_random(1)).names(),
            ),
        ];
        for (gateway, names) in jobs {
            let known = FilterableParameter::all(gateway);
            for name in names.into_iter().filter(|name| !["image", "prompt", "images", "seed"].contains(name)) {
                assert!(known.iter().any(|parameter| parameter.name == name), "{name}");
            }
        }
    }
}
