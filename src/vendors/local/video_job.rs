//! Mapping of a video job to a plan of the engine.

use mediary_engine::video::{
    BackgroundMusic, EncodingQuality, Material, MotionAmount, Size, SoundContent, SoundPlan, Transition, VideoPlan,
    Watermark, WatermarkCorner, footage_size, size_of,
};

use crate::domain::image::{Picture, PictureSource};
use crate::domain::video::{
    AspectRatio, AudioType, Clip, ExtendJob, GenerateJob, MovementAmplitude, MultiframeJob, Resolution, VideoJob,
    VideoModel, VideoStyle, VideoWork, WatermarkPosition,
};
use crate::media::input::Pixels;

/// Reader of a job's inputs.
pub(super) trait Inputs {
    /// Reason for an unreadable input.
    type Failure;

    /// Returns the pixels of a picture; `name` is its field, for messages.
    fn picture(&self, source: &PictureSource, name: &str) -> Result<Pixels, Self::Failure>;

    /// Returns the bytes of a video.
    fn footage(&self, clip: Option<&Clip>) -> Result<Vec<u8>, Self::Failure>;
}

/// Returns all stored pictures of a job, for the estimate of decoding costs.
pub(super) fn pictures(work: &VideoWork) -> impl Iterator<Item = &Picture> {
    work.sources().filter_map(PictureSource::stored)
}

/// Returns the size of the requested video.
pub(super) fn size(work: &VideoWork) -> Size {
    let dimensions = |source: Option<&PictureSource>| {
        source.and_then(PictureSource::stored).map(|picture| (picture.width, picture.height))
    };
    match &work.job {
        VideoJob::StartEnd(job) => {
            size_of(job.resolution.lines(), job.aspect_ratio.map(AspectRatio::sides), dimensions(work.images.first()))
        }
        // References do not determine the aspect ratio of the scene.
        VideoJob::Reference(job) => size_of(job.resolution.lines(), job.aspect_ratio.map(AspectRatio::sides), None),
        VideoJob::Extend(job) => size_of(Resolution::from(job.resolution).lines(), None, None),
        VideoJob::Multiframe(job) => {
            let start = job.start_image.as_ref().or_else(|| job.key_frames.first().map(|frame| &frame.image));
            size_of(Resolution::from(job.resolution).lines(), None, dimensions(start))
        }
    }
}

const fn motion(amplitude: MovementAmplitude) -> MotionAmount {
    match amplitude {
        MovementAmplitude::Auto => MotionAmount::Auto,
        MovementAmplitude::Small => MotionAmount::Small,
        MovementAmplitude::Medium => MotionAmount::Medium,
        MovementAmplitude::Large => MotionAmount::Large,
    }
}

const fn sound(content: AudioType) -> SoundContent {
    match content {
        AudioType::All => SoundContent::All,
        AudioType::SpeechOnly => SoundContent::SpeechOnly,
        AudioType::SoundEffectOnly => SoundContent::SoundEffectOnly,
    }
}

const fn corner(position: WatermarkPosition) -> WatermarkCorner {
    match position {
        WatermarkPosition::TopLeft => WatermarkCorner::TopLeft,
        WatermarkPosition::TopRight => WatermarkCorner::TopRight,
        WatermarkPosition::BottomRight => WatermarkCorner::BottomRight,
        WatermarkPosition::BottomLeft => WatermarkCorner::BottomLeft,
    }
}

/// Returns the encoding quality of a model.
const fn quality(model: VideoModel) -> EncodingQuality {
    match model {
        VideoModel::Vq2ProFast | VideoModel::Vq2Turbo => EncodingQuality::Compact,
        VideoModel::Vq3Pro | VideoModel::Vq2Pro | VideoModel::Vq1 | VideoModel::Vq1Classic | VideoModel::V2 => {
            EncodingQuality::High
        }
    }
}

/// Returns a plan with the defaults of a job.
fn base_plan(work: &VideoWork) -> VideoPlan<'static> {
    VideoPlan {
        size: size(work),
        material: Material::Words { seconds: 1 },
        prompt: String::new(),
        amplitude: MotionAmount::Auto,
        seed: work.seed.get(),
        anime: false,
        enhance: false,
        recommended: false,
        quality: EncodingQuality::High,
        watermark: None,
        sound: None,
    }
}

/// Creates the plan of a job with all its inputs.
///
/// # Errors
/// Returns the first failure of `inputs`.
pub(super) fn plan<'a, I: Inputs>(
    work: &VideoWork,
    inputs: &I,
    background_music: Option<BackgroundMusic<'a>>,
) -> Result<VideoPlan<'a>, I::Failure> {
    match &work.job {
        VideoJob::StartEnd(job) => {
            let seconds = u32::from(job.seconds.get());
            let mut pictures = images(work, inputs)?.into_iter();
            let material = match (pictures.next(), pictures.next()) {
                (None, _) => Material::Words { seconds },
                (Some(picture), None) => Material::Still { picture, seconds },
                (Some(start), Some(picture)) => Material::Transitions {
                    start,
                    transitions: vec![Transition { picture, seconds, prompt: String::new() }],
                },
            };

            generate_plan(work, job, material, inputs, background_music)
        }
        VideoJob::Reference(job) => {
            let seconds = u32::from(job.seconds.get());
            let pictures = images(work, inputs)?;
            let material = if pictures.is_empty() {
                Material::Words { seconds }
            } else {
                Material::References { pictures, seconds }
            };

            generate_plan(work, job, material, inputs, background_music)
        }
        VideoJob::Extend(job) => extend_plan(work, job, inputs),
        VideoJob::Multiframe(job) => multiframe_plan(work, job, inputs),
    }
}

fn images<I: Inputs>(work: &VideoWork, inputs: &I) -> Result<Vec<Pixels>, I::Failure> {
    work.images.iter().map(|source| inputs.picture(source, "images")).collect()
}

fn generate_plan<'a, I: Inputs>(
    work: &VideoWork,
    job: &GenerateJob,
    material: Material,
    inputs: &I,
    background_music: Option<BackgroundMusic<'a>>,
) -> Result<VideoPlan<'a>, I::Failure> {
    let watermark = job.watermark.as_ref().map(|requested| {
        let picture = requested.image.as_ref().map(|source| inputs.picture(source, "wm_url")).transpose()?;
        Ok::<_, I::Failure>(Watermark { position: corner(requested.position), picture })
    });

    let audio = job.effective_audio_type().map(sound);
    let background_music = background_music.filter(|_| job.has_background_music());
    let has_sound_settings = job.model.supports_sound_settings();
    let voice_id = job.voice_id.as_ref().filter(|_| has_sound_settings).map(|voice| voice.as_str().to_owned());

    Ok(VideoPlan {
        material,
        prompt: job.prompt.as_ref().map(|prompt| prompt.as_str().to_owned()).unwrap_or_default(),
        amplitude: motion(job.effective_amplitude()),
        anime: job.style == VideoStyle::Anime,
        enhance: job.enhance,
        recommended: job.is_rec,
        quality: quality(job.model),
        watermark: watermark.transpose()?,
        sound: (audio.is_some() || background_music.is_some()).then_some(SoundPlan {
            audio,
            voice_id,
            background_music,
        }),
        ..base_plan(work)
    })
}

fn extend_plan<'a, I: Inputs>(work: &VideoWork, job: &ExtendJob, inputs: &I) -> Result<VideoPlan<'a>, I::Failure> {
    let base = base_plan(work);
    let file = inputs.footage(job.video.stored.as_ref())?;
    let end = work.images.first().map(|source| inputs.picture(source, "images")).transpose()?;

    Ok(VideoPlan {
        // The video keeps its aspect ratio if it can be read.
        size: footage_size(&file, Resolution::from(job.resolution).lines()).unwrap_or(base.size),
        material: Material::Footage { file, seconds: u32::from(job.seconds.get()), end },
        prompt: job.prompt.as_ref().map(|prompt| prompt.as_str().to_owned()).unwrap_or_default(),
        quality: quality(job.model.into()),
        ..base
    })
}

fn multiframe_plan<'a, I: Inputs>(
    work: &VideoWork,
    job: &MultiframeJob,
    inputs: &I,
) -> Result<VideoPlan<'a>, I::Failure> {
    let transitions = job.key_frames.iter().map(|frame| {
        Ok::<_, I::Failure>(Transition {
            picture: inputs.picture(&frame.image, "image_settings")?,
            seconds: u32::from(frame.seconds.get()),
            prompt: frame.prompt.as_ref().map(|prompt| prompt.as_str().to_owned()).unwrap_or_default(),
        })
    });

    let transitions = transitions.collect::<Result<Vec<Transition>, _>>()?;
    let start_image = job.start_image.as_ref().map(|source| inputs.picture(source, "start_image")).transpose()?;

    // Without a start image the first key frame takes its role (contract 7).
    let start = start_image.or_else(|| transitions.first().map(|transition| transition.picture.clone()));
    let material = start.map_or(Material::Words { seconds: 1 }, |start| Material::Transitions { start, transitions });

    Ok(VideoPlan { material, quality: quality(job.model.into()), ..base_plan(work) })
}

#[cfg(test)]
mod tests {
    use image::RgbImage;

    use super::*;
    use crate::domain::image::ImageFormat;
    use crate::domain::value::{Digest, Text};
    use crate::domain::video::{ExtendModel, ExtendResolution, KeyFrame, Seed, VideoSeconds};

    /// Inputs whose pictures are black and have the declared size.
    struct BlankInputs;

    impl Inputs for BlankInputs {
        type Failure = String;

        fn picture(&self, source: &PictureSource, name: &str) -> Result<Pixels, String> {
            let picture = source.stored().ok_or(name)?;
            Ok(Pixels::Opaque(RgbImage::new(picture.width, picture.height)))
        }

        fn footage(&self, _: Option<&Clip>) -> Result<Vec<u8>, String> {
            Err("none".to_owned())
        }
    }

    fn picture(width: u32, height: u32) -> PictureSource {
        PictureSource::Stored(Picture { digest: Digest([1; 32]), format: ImageFormat::Png, bytes: 9, width, height })
    }

    fn work(job: VideoJob, images: Vec<PictureSource>) -> VideoWork {
        VideoWork { job, images, seed: Seed::from_random(5), payload: None, meta_data: None, credits: 0 }
    }

    fn plan_start_end(job: GenerateJob, images: Vec<PictureSource>) -> VideoPlan<'static> {
        plan(&work(VideoJob::StartEnd(job), images), &BlankInputs, None).unwrap()
    }

    #[test]
    fn the_pictures_determine_material_and_size() {
        let job = || GenerateJob { resolution: Resolution::P360, ..GenerateJob::new(VideoModel::Vq1) };
        let without_pictures = plan_start_end(job(), Vec::new());
        assert!(
            matches!(without_pictures.material, Material::Words { seconds: 5 }) && without_pictures.size.width == 640
        );

        let with_one = plan_start_end(job(), vec![picture(50, 100)]);
        assert!(
            matches!(with_one.material, Material::Still { .. })
                && (with_one.size.width, with_one.size.height) == (360, 720)
        );

        let with_two = plan_start_end(job(), vec![picture(50, 100), picture(9, 9)]);
        assert!(matches!(with_two.material, Material::Transitions { ref transitions, .. } if transitions.len() == 1));
    }

    #[test]
    fn fields_have_an_effect_only_if_the_model_supports_them() {
        let job = |model| GenerateJob {
            audio: true,
            audio_type: AudioType::SpeechOnly,
            voice_id: Some(Text::from_recorded("anna".to_owned())),
            movement_amplitude: MovementAmplitude::Large,
            ..GenerateJob::new(model)
        };
        let [supported, unsupported] =
            [VideoModel::Vq1, VideoModel::Vq3Pro].map(|model| plan_start_end(job(model), Vec::new()));
        let sounds = [&supported, &unsupported]
            .map(|plan| plan.sound.as_ref().map(|sound| (sound.audio, sound.voice_id.clone())));
        assert_eq!(sounds[0], Some((Some(SoundContent::SpeechOnly), Some("anna".to_owned()))));
        assert_eq!(sounds[1], Some((Some(SoundContent::All), None)));
        assert_eq!((supported.amplitude, unsupported.amplitude), (MotionAmount::Large, MotionAmount::Auto));
        assert_eq!(
            plan_start_end(GenerateJob::new(VideoModel::Vq2Turbo), Vec::new()).quality,
            EncodingQuality::Compact
        );
    }

    #[test]
    fn without_a_start_image_the_first_key_frame_is_the_start() {
        let frame = |side| KeyFrame { image: picture(side, side), seconds: VideoSeconds::DEFAULT, prompt: None };
        let job = MultiframeJob {
            model: ExtendModel::Vq2Pro,
            resolution: ExtendResolution::P540,
            start_image: None,
            key_frames: vec![frame(7), frame(8)],
        };
        let plan = plan(&work(VideoJob::Multiframe(job), Vec::new()), &BlankInputs, None).unwrap();
        let Material::Transitions { start: Pixels::Opaque(start), transitions } = plan.material else {
            panic!("the material is not transitions")
        };
        assert_eq!((start.width(), transitions.len(), plan.size.width), (7, 2, 540));
    }
}
