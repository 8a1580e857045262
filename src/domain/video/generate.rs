//! `start-end2video` and `reference2video`: one body, two ways to use its pictures.

use serde::{Deserialize, Serialize};

use super::{AspectRatio, Seconds, VideoPrompt, WatermarkPosition};
use crate::domain::image::Source;
use crate::domain::value::{Text, named_values};

named_values! {
    /// The models of the interface.
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
    /// The longest video that the model makes, in seconds (seed; contract 7 for those that the seed leaves open).
    #[must_use]
    pub const fn seconds_max(self) -> u8 {
        match self {
            Self::Vq2ProFast => 10,
            Self::Vq2Pro | Self::Vq2Turbo => 8,
            Self::Vq3Pro | Self::Vq1 | Self::Vq1Classic | Self::V2 => Seconds::MAX,
        }
    }

    /// Whether sound is made when nothing is said (seed).
    #[must_use]
    pub const fn usually_has_audio(self) -> bool {
        matches!(self, Self::Vq3Pro)
    }

    /// Whether `audio_type`, `bgm` and `voice_id` mean anything to the model (seed).
    #[must_use]
    pub const fn heeds_sound_settings(self) -> bool {
        !matches!(self, Self::Vq3Pro)
    }

    /// Whether `movement_amplitude` means anything to the model (seed).
    #[must_use]
    pub const fn heeds_amplitude(self) -> bool {
        matches!(self, Self::Vq1 | Self::Vq1Classic | Self::V2)
    }
}

named_values! {
    /// How many lines a picture of the video has, on its shorter side.
    Resolution {
        P360 = "360p",
        P540 = "540p",
        P720 = "720p",
        P1080 = "1080p",
        K2 = "2K",
    }
}

impl Resolution {
    /// The length of the shorter side in pixels.
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
    /// What is heard when there is sound: both, voices, or sounds.
    AudioType {
        All = "all",
        SpeechOnly = "speech_only",
        SoundEffectOnly = "sound_effect_only",
    }
}

named_values! {
    /// How much moves.
    MovementAmplitude {
        Auto = "auto",
        Small = "small",
        Medium = "medium",
        Large = "large",
    }
}

named_values! {
    /// How it is drawn.
    VideoStyle {
        General = "general",
        Anime = "anime",
    }
}

/// A mark in a corner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark<P = Source> {
    pub position: WatermarkPosition,
    /// The picture that is the mark; ours when absent.
    pub image: Option<P>,
}

/// A `start-end2video` or `reference2video` job: every parameter of the seed but the pictures, the seed, the callback and what
/// is only handed back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the interface")]
pub struct Generate<P = Source> {
    pub model: VideoModel,
    pub resolution: Resolution,
    pub seconds: Seconds,
    /// As it was asked for; else that of the first picture, else [`AspectRatio::USUAL`].
    pub aspect_ratio: Option<AspectRatio>,
    pub movement_amplitude: MovementAmplitude,
    pub style: VideoStyle,
    pub audio: bool,
    pub audio_type: AudioType,
    pub bgm: bool,
    pub voice_id: Option<Text<200>>,
    pub enhance: bool,
    pub is_rec: bool,
    pub off_peak: bool,
    /// Which of the tasks that wait goes first: the highest.
    pub priority: i32,
    pub prompt: Option<VideoPrompt>,
    pub watermark: Option<Watermark<P>>,
}

impl<P> Generate<P> {
    /// A model with the defaults of contract 7.
    #[must_use]
    pub const fn of(model: VideoModel) -> Self {
        Self {
            model,
            resolution: Resolution::P720,
            seconds: Seconds::USUAL,
            aspect_ratio: None,
            movement_amplitude: MovementAmplitude::Auto,
            style: VideoStyle::General,
            audio: model.usually_has_audio(),
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

    /// The same job with other pictures, as `each` makes them.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn with_pictures<Q, E>(self, each: &mut impl FnMut(P) -> Result<Q, E>) -> Result<Generate<Q>, E> {
        let watermark = match self.watermark {
            None => None,
            Some(Watermark { position, image }) => Some(Watermark { position, image: image.map(each).transpose()? }),
        };
        Ok(Generate {
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

    /// How much moves, as far as the model heeds it.
    #[must_use]
    pub const fn amplitude(&self) -> MovementAmplitude {
        if self.model.heeds_amplitude() { self.movement_amplitude } else { MovementAmplitude::Auto }
    }

    /// What is heard, if there is sound.
    #[must_use]
    pub const fn sound(&self) -> Option<AudioType> {
        match (self.audio, self.model.heeds_sound_settings()) {
            (false, _) => None,
            (true, true) => Some(self.audio_type),
            (true, false) => Some(AudioType::All),
        }
    }

    /// Whether there is music below it, as far as the model heeds it.
    #[must_use]
    pub const fn music(&self) -> bool {
        self.bgm && self.model.heeds_sound_settings()
    }
}

impl<P> Default for Generate<P> {
    /// The model that makes it when none is named.
    fn default() -> Self {
        Self::of(VideoModel::Vq3Pro)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_its_longest_video() {
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
    fn what_means_nothing_to_a_model_has_no_effect() {
        let loud = |model| Generate::<Source> {
            audio: true,
            audio_type: AudioType::SpeechOnly,
            bgm: true,
            movement_amplitude: MovementAmplitude::Large,
            ..Generate::of(model)
        };
        let third = loud(VideoModel::Vq3Pro);
        assert_eq!((third.sound(), third.music()), (Some(AudioType::All), false));
        assert_eq!(third.amplitude(), MovementAmplitude::Auto);
        let second = loud(VideoModel::Vq2Turbo);
        assert_eq!((second.sound(), second.music()), (Some(AudioType::SpeechOnly), true));
        assert_eq!(second.amplitude(), MovementAmplitude::Auto);
        assert_eq!(loud(VideoModel::Vq1).amplitude(), MovementAmplitude::Large);
    }

    #[test]
    fn only_the_third_model_has_sound_when_nothing_is_said() {
        let with_sound = VideoModel::ALL.iter().filter(|model| Generate::<Source>::of(**model).sound().is_some());
        assert!(with_sound.eq([&VideoModel::Vq3Pro]));
    }
}
