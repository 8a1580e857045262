//! Video engine compared with ffmpeg: `benches/video/run [SECONDS]`.
//!
//! Makes a video from a photograph at each resolution, with one thread. The frames are drawn once and stored in a file,
//! which both encoders read: the engine in groups of 24 as in a video, and x264 (veryfast, one thread) through ffmpeg.
//! Similarity is the PSNR of the luma against the frames, computed by ffmpeg. Then a complete video is made with all
//! cores.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, exit};
use std::time::Instant;

use mediary::media::decoders::PictureDecoders;
use mediary_engine::video::{
    Codec as _, EncodedVideo, EncodingQuality, FPS, H264, Material, MotionAmount, Size, VideoError, VideoPlan, Yuv,
    frames, render, size_of, write_mp4,
};

type Failure = Box<dyn std::error::Error>;

/// Lengths of the shorter side in pixels.
const RESOLUTIONS: [u32; 3] = [360, 720, 1080];
/// Number of frames of a group, which begins with a key frame.
const GROUP: usize = 24;
/// Quality setting of x264, for about the same similarity as the engine.
const CRF: &str = "21";

fn main() {
    let seconds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(4);
    if let Err(failure) = run(seconds) {
        eprintln!("{failure}");
        exit(2);
    }
}

fn run(seconds: u32) -> Result<(), Failure> {
    let work_dir = std::env::temp_dir().join(format!("video-bench-{}", std::process::id()));
    std::fs::create_dir_all(&work_dir)?;
    println!("{seconds} s of video; frames a second, KiB, dB");
    println!("| | drawn | encoded | x264 veryfast | KiB | x264 | dB | x264 | whole video, all cores |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let outcome = RESOLUTIONS.iter().try_for_each(|side| measure(*side, seconds, &work_dir));
    std::fs::remove_dir_all(&work_dir)?;
    outcome
}

/// Returns the plan of a video from a photograph.
fn plan(shorter_side: u32, seconds: u32) -> Result<VideoPlan<'static>, Failure> {
    let photograph = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/photographs/landscape.jpg");
    let decoded = PictureDecoders::default().decode(&std::fs::read(photograph)?).map_err(|error| error.to_string())?;
    Ok(VideoPlan {
        size: size_of(shorter_side, None, None),
        material: Material::Still { picture: decoded.pixels, seconds },
        prompt: "orbit right".to_owned(),
        amplitude: MotionAmount::Medium,
        seed: 7,
        anime: false,
        enhance: false,
        recommended: false,
        quality: EncodingQuality::High,
        watermark: None,
        sound: None,
    })
}

/// Measures a resolution and prints its row.
fn measure(shorter_side: u32, seconds: u32, work_dir: &Path) -> Result<(), Failure> {
    let raw = work_dir.join("frames.y4m");
    let engine_path = work_dir.join("engine.mp4");
    let x264_path = work_dir.join("x264.mp4");
    let single_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let size = plan(shorter_side, seconds)?.size;
    let frame_count = f64::from(seconds * FPS);

    let mut file = BufWriter::new(File::create(&raw)?);
    writeln!(file, "YUV4MPEG2 W{} H{} F{FPS}:1 Ip C420jpeg", size.width, size.height)?;
    let started = Instant::now();
    // Writing the frames is not part of drawing them.
    let mut writing_seconds = 0.0;
    single_thread.install(|| {
        let plan = plan(shorter_side, seconds).map_err(|failure| VideoError::Internal(failure.to_string()))?;
        frames(plan, |frame| {
            let write_started = Instant::now();
            let parts = [&b"FRAME\n"[..], &frame.luma, &frame.blue, &frame.red];
            let written = parts.iter().try_for_each(|part| file.write_all(part));
            writing_seconds += write_started.elapsed().as_secs_f64();
            written.map_err(|error| VideoError::Internal(error.to_string()))
        })
    })?;
    let drawing_seconds = started.elapsed().as_secs_f64() - writing_seconds;
    file.flush()?;

    let started = Instant::now();
    std::fs::write(&engine_path, encode(&raw, size)?)?;
    let encoding_seconds = started.elapsed().as_secs_f64();

    let started = Instant::now();
    ffmpeg(&[
        "-i",
        path_text(&raw),
        "-c:v",
        "libx264",
        "-preset",
        "veryfast",
        "-crf",
        CRF,
        "-threads",
        "1",
        path_text(&x264_path),
    ])?;
    let x264_seconds = started.elapsed().as_secs_f64();

    let started = Instant::now();
    render(plan(shorter_side, seconds)?, &())?;
    let total_seconds = started.elapsed().as_secs_f64();

    println!(
        "| {shorter_side}p | {:.0} | {:.0} | {:.0} | {} | {} | {:.1} | {:.1} | {:.0} |",
        frame_count / drawing_seconds,
        frame_count / encoding_seconds,
        frame_count / x264_seconds,
        std::fs::metadata(&engine_path)?.len() / 1024,
        std::fs::metadata(&x264_path)?.len() / 1024,
        psnr(&engine_path, &raw)?,
        psnr(&x264_path, &raw)?,
        frame_count / total_seconds,
    );
    Ok(())
}

/// Encodes the frames of a YUV4MPEG2 file with one thread.
fn encode(raw: &Path, size: Size) -> Result<Vec<u8>, Failure> {
    let mut file = BufReader::new(File::open(raw)?);

    // Skip the header line.
    let mut byte = [0];
    while byte != *b"\n" {
        file.read_exact(&mut byte)?;
    }

    let mut video = EncodedVideo::default();
    let mut group = Vec::new();
    let mut encoder = None;
    let mut frame_header = [0; b"FRAME\n".len()];
    while file.read_exact(&mut frame_header).is_ok() {
        let mut part = |length: usize| -> Result<Vec<u8>, Failure> {
            let mut bytes = vec![0; length];
            file.read_exact(&mut bytes)?;
            Ok(bytes)
        };
        let luma = part(size.area())?;
        let blue = part(size.area() / 4)?;
        let red = part(size.area() / 4)?;

        if encoder.is_none() || group.len() == GROUP {
            video.groups.push(std::mem::take(&mut group));
            encoder = Some(H264.encoder(size, EncodingQuality::High)?);
        }
        if let Some(encoder) = &mut encoder {
            group.push(encoder.encode(&Yuv { size, luma, blue, red })?);
        }
    }
    video.groups.push(group);
    video.groups.retain(|group| !group.is_empty());
    Ok(write_mp4(&video, None)?)
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Runs ffmpeg. Returns its messages, as the error if it fails.
fn ffmpeg(arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new("ffmpeg").args(["-hide_banner", "-nostdin", "-y"]).args(arguments).output()?;
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(message) } else { Err(message.into()) }
}

/// Returns the similarity (PSNR) of a video to its raw frames, in dB.
fn psnr(video: &Path, raw: &Path) -> Result<f64, Failure> {
    let output = ffmpeg(&["-i", path_text(video), "-i", path_text(raw), "-lavfi", "psnr", "-f", "null", "-"])?;
    let value = output.rsplit("PSNR y:").next().and_then(|remaining| remaining.split(' ').next());
    Ok(value.ok_or("ffmpeg printed no PSNR")?.parse()?)
}
