//! Video codec behind two traits, implemented by H.264 in Rust.
//!
//! The codec crate does not write the colour description, so the container (`mp4`) contains it. The level is chosen
//! here by size. Parameter sets precede every key frame, so separately encoded groups form one stream.

use rusty_h264::{Decoder as H264Decoder, Encoder as H264Encoder, EncoderConfig, Preset, YuvFrame};

use super::raster::{Raster, Size};

/// Frames per second of every generated video.
pub const FPS: u32 = 24;

/// Picture in the codec's format: luma, and two chroma samples for every four pixels (BT.709, limited range).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Yuv {
    /// Size of the picture.
    pub size: Size,
    /// Luma of every pixel.
    pub luma: Vec<u8>,
    /// Blue chroma of every four pixels.
    pub blue: Vec<u8>,
    /// Red chroma of every four pixels.
    pub red: Vec<u8>,
}

/// Luma weights of red, green and blue (BT.709).
const WEIGHTS: [f32; 3] = [0.2126, 0.7152, 0.0722];
/// Range of the difference of blue and luma: twice one minus the weight of blue.
const BLUE_RANGE: f32 = 1.8556;
/// Range of the difference of red and luma: twice one minus the weight of red.
const RED_RANGE: f32 = 1.5748;

impl Yuv {
    /// Converts a picture with even sides.
    #[must_use]
    pub(crate) fn from_raster(raster: &Raster) -> Self {
        let Size { width, height } = raster.size();
        let mut yuv = Self {
            size: raster.size(),
            luma: Vec::with_capacity(width * height),
            blue: Vec::with_capacity(width * height / 4),
            red: Vec::with_capacity(width * height / 4),
        };

        let luma = |pixel: &[f32; 4]| WEIGHTS[0] * pixel[0] + WEIGHTS[1] * pixel[1] + WEIGHTS[2] * pixel[2];
        let byte = |value: f32| value.clamp(0.0, 255.0) as u8;

        for pixel in raster.pixels() {
            yuv.luma.push(byte(16.5 + 219.0 * luma(pixel).clamp(0.0, 1.0)));
        }

        for y in (0..height).step_by(2) {
            let rows = raster.row(y).as_chunks::<2>().0.iter().zip(raster.row(y + 1).as_chunks::<2>().0);
            for ([a, b], [c, d]) in rows {
                let mean: [f32; 4] = std::array::from_fn(|at| 0.25 * (a[at] + b[at] + c[at] + d[at]).clamp(0.0, 4.0));
                let luma = luma(&mean);
                yuv.blue.push(byte(128.5 + 224.0 * (mean[2] - luma) / BLUE_RANGE));
                yuv.red.push(byte(128.5 + 224.0 * (mean[0] - luma) / RED_RANGE));
            }
        }

        yuv
    }

    /// Converts back to RGB.
    #[must_use]
    pub(crate) fn to_raster(&self) -> Raster {
        let half = self.size.width / 2;
        Raster::from_fn(self.size, |x, y| {
            let luma = (f32::from(self.luma[y * self.size.width + x]) - 16.0) / 219.0;
            let at = (y / 2).min(self.blue.len() / half.max(1) - 1) * half + (x / 2).min(half - 1);
            let blue = (f32::from(self.blue[at]) - 128.0) / 224.0 * BLUE_RANGE;
            let red = (f32::from(self.red[at]) - 128.0) / 224.0 * RED_RANGE;
            let green = -(WEIGHTS[0] * red + WEIGHTS[2] * blue) / WEIGHTS[1];
            let [red, green, blue] = [red, green, blue].map(|part| (luma + part).clamp(0.0, 1.0));
            [red, green, blue, 1.0]
        })
    }
}

/// Failure of the codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(pub String);

/// Quality of the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodingQuality {
    /// Smaller files with coarser quantization.
    Compact,
    /// Nearly no visible loss.
    High,
}

/// Encoder of one group of pictures.
pub trait Encoder {
    /// Encodes the next picture as an access unit with start codes. The first one is a key frame.
    ///
    /// # Errors
    /// Returns an error if the codec fails.
    fn encode(&mut self, frame: &Yuv) -> Result<Vec<u8>, CodecError>;
}

/// Decoder of a stream.
pub trait Decoder {
    /// Returns a picture and its display order, which restarts at every key frame, or `None` if the unit contains no
    /// picture.
    ///
    /// # Errors
    /// Returns an error if the stream is damaged or uses an unsupported feature.
    fn decode(&mut self, access_unit: &[u8]) -> Result<Option<(i32, Yuv)>, CodecError>;
}

/// Video codec.
pub trait Codec: Sync {
    /// Creates an encoder for one group of pictures. Groups of the same size and quality form one stream.
    ///
    /// # Errors
    /// Returns an error if the codec does not support the size.
    fn encoder(&self, size: Size, quality: EncodingQuality) -> Result<Box<dyn Encoder>, CodecError>;

    /// Creates a decoder at the start of a stream.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// H.264, High profile, without B-frames.
#[derive(Debug, Clone, Copy, Default)]
pub struct H264;

impl Codec for H264 {
    fn encoder(&self, size: Size, quality: EncodingQuality) -> Result<Box<dyn Encoder>, CodecError> {
        let mut config = EncoderConfig::new(size.width, size.height);
        config.level_idc = level(size);
        config.qp = match quality {
            EncodingQuality::Compact => 27,
            EncodingQuality::High => 24,
        };

        config.framerate = FPS as f32;
        config.preset = Preset::Balanced;

        // One group per encoder, and every picture is returned immediately.
        config.gop_size = u32::MAX;
        config.scenecut = 0;
        config.lookahead = 0;
        config.mbtree = false;
        config.num_ref_frames = 1;

        let encoder = H264Encoder::new(config).map_err(|error| CodecError(format!("{error:?}")))?;
        Ok(Box::new(encoder))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(H264Decoder::new())
    }
}

/// Returns the lowest level, times ten, that allows the size at 30 frames per second (H.264, table A-1). Sizes are in
/// macroblocks of 16 by 16 pixels.
fn level(size: Size) -> u8 {
    let blocks = size.width.div_ceil(16) * size.height.div_ceil(16);
    match blocks {
        0..=1350 => 30,
        1351..=3600 => 31,
        3601..=5120 => 32,
        5121..=8192 => 40,
        8193..=8704 => 42,
        8705..=19_660 => 50,
        _ => 51,
    }
}

impl Encoder for H264Encoder {
    fn encode(&mut self, frame: &Yuv) -> Result<Vec<u8>, CodecError> {
        let Size { width, height } = frame.size;
        let frame = YuvFrame { width, height, y: frame.luma.clone(), u: frame.blue.clone(), v: frame.red.clone() };
        self.try_encode(&frame).map_err(|error| CodecError(format!("{error:?}")))
    }
}

impl Decoder for H264Decoder {
    fn decode(&mut self, access_unit: &[u8]) -> Result<Option<(i32, Yuv)>, CodecError> {
        let frame = Self::decode(self, access_unit).map_err(|error| CodecError(error.to_string()))?;
        Ok(frame.map(|frame| {
            let size = Size { width: frame.width, height: frame.height };
            (self.last_poc(), Yuv { size, luma: frame.y, blue: frame.u, red: frame.v })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { width: 48, height: 32 };

    fn picture(shift: usize) -> Raster {
        Raster::from_fn(SIZE, |x, y| [((x + shift) % 48) as f32 / 47.0, y as f32 / 31.0, 0.4, 1.0])
    }

    #[test]
    fn colours_round_trip() {
        for colour in [[0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0], [0.8, 0.1, 0.1, 1.0], [0.1, 0.3, 0.9, 1.0]] {
            let original = Raster::from_fn(SIZE, |_, _| colour);
            let decoded = Yuv::from_raster(&original).to_raster();
            let error = decoded.pixels()[7]
                .iter()
                .zip(colour)
                .map(|(actual, expected)| (actual - expected).abs())
                .fold(0.0, f32::max);
            assert!(error < 0.02, "{colour:?} became {:?}", decoded.pixels()[7]);
        }
        assert_eq!(Yuv::from_raster(&Raster::from_fn(SIZE, |_, _| [1.0; 4])).luma[0], 235);
    }

    #[test]
    fn encoded_video_can_be_decoded() {
        let mut encoder = H264.encoder(SIZE, EncodingQuality::High).unwrap();
        let mut decoder = H264.decoder();
        for shift in 0..4 {
            let original = Yuv::from_raster(&picture(shift));
            let (order, decoded) = decoder.decode(&encoder.encode(&original).unwrap()).unwrap().unwrap();
            let error: f32 = original.luma.iter().zip(&decoded.luma).map(|(a, b)| f32::from(a.abs_diff(*b))).sum();
            assert!(error / (SIZE.area() as f32) < 4.0, "{error}");
            assert_eq!((decoded.size, order >= 0), (SIZE, true));
        }
    }

    #[test]
    fn levels_follow_the_size() {
        let level = |width, height| level(Size { width, height });
        assert_eq!([level(640, 360), level(1280, 720), level(1920, 1080), level(5760, 1440)], [30, 31, 40, 51]);
    }
}
