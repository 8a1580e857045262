//! `start-end2video` and `reference2video`: the same parameters, but different uses of the pictures.

use serde::{Deserialize, Serialize};

use super::{AspectRatio, VideoPrompt, VideoSeconds, WatermarkPosition};
use crate::domain::image::PictureSource;
use crate::domain::value::{Text, named_values};

named_values! {
    /// Models of the API.
    VideoModel {
        Vq3Pro = "vq3-pro",
        Vq2ProFast = "vq2-pro-fast",
        Vq2Pro = "vq2-pro",
        Vq2Turbo = "vq2-turbo",
        Vq1 = "vq1",
        Vq1Classic = "vq1-classic",
        V2 = "v2.0",
    }
}

impl VideoModel {
    /// Returns the maximum length in seconds (seed specification; contract 7 where that leaves it open).
    #[must_use]
    pub const fn seconds_max(self) -> u8 {
        match self {
            Self::Vq2ProFast => 10,
            Self::Vq2Pro | Self::Vq2Turbo => 8,
            Self::Vq3Pro | Self::Vq1 | Self::Vq1Classic | Self::V2 => VideoSeconds::MAX,
        }
    }

    /// Returns the default of `audio` (seed specification).
    #[must_use]
    pub const fn has_audio_by_default(self) -> bool {
        matches!(self, Self::Vq3Pro)
    }

    /// Returns `true` if the model uses `audio_type`, `bgm` and `voice_id` (seed specification).
    #[must_use]
    pub const fn supports_sound_settings(self) -> bool {
        !matches!(self, Self::Vq3Pro)
    }

    /// Returns `true` if the model uses `movement_amplitude` (seed specification).
    #[must_use]
    pub const fn supports_movement_amplitude(self) -> bool {
        matches!(self, Self::Vq1 | Self::Vq1Classic | Self::V2)
    }
}

named_values! {
    /// Resolution: the length of the shorter side.
    Resolution {
        P360 = "360p",
        P540 = "540p",
        P720 = "720p",
        P1080 = "1080p",
        K2 = "2K",
    }
}

impl Resolution {
    /// Returns the length of the shorter side in pixels.
    #[must_use]
    pub const fn lines(self) -> u32 {
        match self {
            Self::P360 => 360,
            Self::P540 => 540,
            Self::P720 => 720,
            Self::P1080 => 1080,
            Self::K2 => 1440,
        }
    }
}

named_values! {
    /// Content of the sound track: everything, speech only, or sound effects only.
    AudioType {
        All = "all",
        SpeechOnly = "speech_only",
        SoundEffectOnly = "sound_effect_only",
    }
}

named_values! {
    /// Amount of movement.
    MovementAmplitude {
        Auto = "auto",
        Small = "small",
        Medium = "medium",
        Large = "large",
    }
}

named_values! {
    /// Visual style.
    VideoStyle {
        General = "general",
        Anime = "anime",
    }
}

/// A watermark in a corner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark<P = PictureSource> {
    pub position: WatermarkPosition,
    /// The picture of the watermark; `None` is the built-in one.
    pub image: Option<P>,
}

/// A `start-end2video` or `reference2video` job: every parameter of the request except the pictures, the seed, the
/// callback, and the payload and metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the interface")]
pub struct GenerateJob<P = PictureSource> {
    pub model: VideoModel,
    pub resolution: Resolution,
    pub seconds: VideoSeconds,
    /// Requested ratio. `None` is that of the first picture or, without pictures, [`AspectRatio::DEFAULT`].
    pub aspect_ratio: Option<AspectRatio>,
    pub movement_amplitude: MovementAmplitude,
    pub style: VideoStyle,
    pub audio: bool,
    pub audio_type: AudioType,
    pub bgm: bool,
    pub voice_id: Option<Text<200>>,
    /// More sharpness, contrast and colour.
    pub enhance: bool,
    /// Recommended prompt: a slow move in and dust in the light, unless the prompt sets camera or weather.
    pub is_rec: bool,
    /// `true` if the video costs less, and may wait until all others have started.
    pub off_peak: bool,
    /// Priority among waiting tasks; the highest runs first.
    pub priority: i32,
    pub prompt: Option<VideoPrompt>,
    pub watermark: Option<Watermark<P>>,
}

impl<P> GenerateJob<P> {
    /// Creates a job with the defaults of contract 7.
    #[must_use]
    pub const fn new(model: VideoModel) -> Self {
        Self {
            model,
            resolution: Resolution::P720,
            seconds: VideoSeconds::DEFAULT,
            aspect_ratio: None,
            movement_amplitude: MovementAmplitude::Auto,
            style: VideoStyle::General,
            audio: model.has_audio_by_default(),
            audio_type: AudioType::All,
            bgm: false,
            voice_id: None,
            enhance: false,
            is_rec: false,
            off_peak: false,
            priority: 0,
            prompt: None,
            watermark: None,
        }
    }

    /// Converts every picture with `map_picture`.
    ///
    /// # Errors
    /// The first error of `map_picture`.
    pub fn try_map_pictures<Q, E>(self, map_picture: &mut impl FnMut(P) -> Result<Q, E>) -> Result<GenerateJob<Q>, E> {
        let watermark = match self.watermark {
            None => None,
            Some(Watermark { position, image }) => {
                Some(Watermark { position, image: image.map(map_picture).transpose()? })
            }
        };

        Ok(GenerateJob {
            model: self.model,
            resolution: self.resolution,
            seconds: self.seconds,
            aspect_ratio: self.aspect_ratio,
            movement_amplitude: self.movement_amplitude,
            style: self.style,
            audio: self.audio,
            audio_type: self.audio_type,
            bgm: self.bgm,
            voice_id: self.voice_id,
            enhance: self.enhance,
            is_rec: self.is_rec,
            off_peak: self.off_peak,
            priority: self.priority,
            prompt: self.prompt,
            watermark,
        })
    }

    /// Returns the amount of movement; `Auto` if the model ignores it.
    #[must_use]
    pub const fn effective_amplitude(&self) -> MovementAmplitude {
        if self.model.supports_movement_amplitude() { self.movement_amplitude } else { MovementAmplitude::Auto }
    }

    /// Returns the content of the sound track, or `None` without sound.
    #[must_use]
    pub const fn effective_audio_type(&self) -> Option<AudioType> {
        match (self.audio, self.model.supports_sound_settings()) {
            (false, _) => None,
            (true, true) => Some(self.audio_type),
            (true, false) => Some(AudioType::All),
        }
    }

    /// Returns `true` if the sound track has background music.
    #[must_use]
    pub const fn has_background_music(&self) -> bool {
        self.bgm && self.model.supports_sound_settings()
    }
}

impl<P> Default for GenerateJob<P> {
    /// Returns a job for the default model.
    fn default() -> Self {
        Self::new(VideoModel::Vq3Pro)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_a_maximum_length() {
        let longest = VideoModel::ALL.iter().map(|model| (model.as_str(), model.seconds_max()));
        let table = [
            ("vq3-pro", 16),
            ("vq2-pro-fast", 10),
            ("vq2-pro", 8),
            ("vq2-turbo", 8),
            ("vq1", 16),
            ("vq1-classic", 16),
            ("v2.0", 16),
        ];
        assert!(longest.eq(table));
    }

    #[test]
    fn parameters_that_a_model_ignores_have_no_effect() {
        let with_sound_settings = |model| GenerateJob::<PictureSource> {
            audio: true,
            audio_type: AudioType::SpeechOnly,
            bgm: true,
            movement_amplitude: MovementAmplitude::Large,
            ..GenerateJob::new(model)
        };
        let vq3_job = with_sound_settings(VideoModel::Vq3Pro);
        assert_eq!((vq3_job.effective_audio_type(), vq3_job.has_background_music()), (Some(AudioType::All), false));
        assert_eq!(vq3_job.effective_amplitude(), MovementAmplitude::Auto);

        let vq2_job = with_sound_settings(VideoModel::Vq2Turbo);
        assert_eq!(
            (vq2_job.effective_audio_type(), vq2_job.has_background_music()),
            (Some(AudioType::SpeechOnly), true)
        );
        assert_eq!(vq2_job.effective_amplitude(), MovementAmplitude::Auto);
        assert_eq!(with_sound_settings(VideoModel::Vq1).effective_amplitude(), MovementAmplitude::Large);
    }

    #[test]
    fn only_vq3_has_sound_by_default() {
        let models_with_sound = VideoModel::ALL
            .iter()
            .filter(|model| GenerateJob::<PictureSource>::new(**model).effective_audio_type().is_some());
        assert!(models_with_sound.eq([&VideoModel::Vq3Pro]));
    }
}
