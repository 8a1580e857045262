//! Image engine compared with Pillow: `benches/engine/run [ROUNDS]`.
//!
//! Every job runs in its own process, the engine with one thread, to measure the speed of one core and the job's peak
//! memory. File I/O is excluded on both sides. A second part reduces photographs to a quarter and enlarges them again,
//! with the engine and with bicubic interpolation, and compares the results with the originals.

use std::env;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::time::Instant;

use image::imageops::{self, FilterType};
use mediary::media::decoders::PictureDecoders;
use mediary_engine::{
    DecodedPicture, PictureJob, PictureRelight, PictureUpscale, Pixels, PrecisionJob, PrecisionPreset, SkinJob,
    SkinTreatment, StyleJob, StylePreset, UpscaleFactor,
};

mod similarity;

type Failure = Box<dyn std::error::Error>;

/// Allocator of the program, because the engine frequently allocates and frees large planes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Jobs, each with the factor by which its input, the portrait, is enlarged beforehand.
const JOBS: [(&str, u32); 9] = [
    ("upscale 2x", 2),
    ("upscale 4x", 1),
    ("precision 2x", 2),
    ("precision 4x", 1),
    ("precision 2x, photo_denoiser", 2),
    ("skin, creative", 3),
    ("relight", 3),
    ("style, balanced", 3),
    ("style, colorful_anime", 3),
];
/// Default number of rounds.
const ROUNDS: &str = "3";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let outcome = match &arguments[..] {
        [job, name, picture, rounds] if job == "--job" => measure(name, Path::new(picture), rounds),
        [python, remaining @ ..] => compare(python, remaining.first().map_or(ROUNDS, String::as_str)),
        [] => Err("needs the Python that has Pillow: start it by benches/engine/run".into()),
    };
    if let Err(failure) = outcome {
        eprintln!("{failure}");
        exit(2);
    }
}

/// Returns the path of a photograph of the sample data.
fn photograph_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/photographs").join(name)
}

/// Runs one job in this process. Prints the seconds of the best round, the peak memory in KiB, and the pixels of the
/// result.
fn measure(name: &str, picture: &Path, rounds: &str) -> Result<(), Failure> {
    let decoded = PictureDecoders::default().decode(&std::fs::read(picture)?).map_err(|error| error.to_string())?;
    let mut best = f64::MAX;
    let mut pixels = 0;
    for _ in 0..rounds.parse::<u32>()? {
        let input = DecodedPicture { pixels: decoded.pixels.clone(), profile: None };
        let started = Instant::now();
        let result = black_box(job(name)?.run(input, None, 1));
        best = best.min(started.elapsed().as_secs_f64());
        pixels = u64::from(result.dimensions().0) * u64::from(result.dimensions().1);
    }
    println!("{best} {} {pixels}", peak_kib()?);
    Ok(())
}

/// Returns the job of a name in [`JOBS`].
fn job(name: &str) -> Result<PictureJob, Failure> {
    let precise =
        |scale_factor, flavor| PictureJob::Precision(PrecisionJob { scale_factor, flavor, ..PrecisionJob::default() });
    let styled = |engine| PictureJob::Style(StyleJob { engine, ..StyleJob::default() });
    Ok(match name {
        "upscale 2x" => PictureJob::Upscale(PictureUpscale::default()),
        "upscale 4x" => PictureJob::Upscale(four_times()),
        "precision 2x" => precise(2, PrecisionPreset::Photo),
        "precision 4x" => precise(4, PrecisionPreset::Photo),
        "precision 2x, photo_denoiser" => precise(2, PrecisionPreset::PhotoDenoiser),
        "skin, creative" => PictureJob::Skin(SkinJob::new(SkinTreatment::Creative)),
        "relight" => PictureJob::Relight(PictureRelight::default()),
        "style, balanced" => styled(StylePreset::Balanced),
        "style, colorful_anime" => styled(StylePreset::ColorfulAnime),
        other => return Err(format!("there is no job {other:?}").into()),
    })
}

fn four_times() -> PictureUpscale {
    PictureUpscale { scale_factor: UpscaleFactor::X4, ..PictureUpscale::default() }
}

/// Returns the peak of the resident memory of this process, in KiB.
fn peak_kib() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

/// Runs every job on both sides, and then compares enlarged photographs with their originals.
fn compare(python: &str, rounds: &str) -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let pillow = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/engine/pillow.py");
    println!(
        "| job | input, Mpx | Mpx of result/s | Pillow | ratio | peak, MiB | Pillow |\n|---|---|---|---|---|---|---|"
    );

    for (job, times) in JOBS {
        let picture = image::open(photograph_path("portrait.jpg"))?.into_rgb8();
        let (width, height) = (picture.width() * times, picture.height() * times);
        let path = directory.path().join(format!("{times}.png"));
        imageops::resize(&picture, width, height, FilterType::Lanczos3).save(&path)?;

        let engine_output = run_and_parse(
            Command::new(env::current_exe()?)
                .arg("--job")
                .arg(job)
                .arg(&path)
                .arg(rounds)
                .env("RAYON_NUM_THREADS", "1"),
        )?;
        let pillow_output = run_and_parse(Command::new(python).arg(&pillow).arg(job).arg(&path).arg(rounds))?;
        println!(
            "| {job} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
            f64::from(width * height) / 1e6,
            engine_output.speed,
            pillow_output.speed,
            engine_output.speed / pillow_output.speed,
            engine_output.peak_mib,
            pillow_output.peak_mib,
        );
    }

    println!("\n| photograph, reduced 4x | enlarged by | PSNR, dB | SSIM |\n|---|---|---|---|");
    ["portrait.jpg", "landscape.jpg"].into_iter().try_for_each(print_similarities)
}

/// Result of a job in its own process.
struct BenchOutput {
    /// Megapixels of the result a second.
    speed: f64,
    peak_mib: f64,
}

/// Runs a process that prints seconds, peak KiB and pixels, and returns its result.
fn run_and_parse(command: &mut Command) -> Result<BenchOutput, Failure> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [seconds, kib, pixels] = numbers[..] else { return Err(format!("unexpected output {text:?}").into()) };
    Ok(BenchOutput { speed: pixels / 1e6 / seconds, peak_mib: kib / 1024.0 })
}

/// Reduces a photograph to a quarter, enlarges it in every way, and prints the similarity to the original.
fn print_similarities(name: &str) -> Result<(), Failure> {
    let photograph = image::open(photograph_path(name))?.into_rgb8();
    let (width, height) = (photograph.width() / 4 * 4, photograph.height() / 4 * 4);
    let original = imageops::crop_imm(&photograph, 0, 0, width, height).to_image();
    let small = imageops::resize(&original, width / 4, height / 4, FilterType::CatmullRom);
    let bicubic = imageops::resize(&small, width, height, FilterType::CatmullRom);
    let lanczos = imageops::resize(&small, width, height, FilterType::Lanczos3);
    let mut rows = vec![("bicubic".to_owned(), bicubic), ("Lanczos".to_owned(), lanczos)];

    let to_rgb = |result: DecodedPicture| match result.pixels {
        Pixels::Opaque(pixels) => pixels,
        Pixels::Transparent(pixels) => image::DynamicImage::ImageRgba8(pixels).into_rgb8(),
    };
    let input = || DecodedPicture { pixels: Pixels::Opaque(small.clone()), profile: None };
    rows.push(("image-upscaler".to_owned(), to_rgb(PictureJob::Upscale(four_times()).run(input(), None, 1))));

    for (preset, name) in [
        (PrecisionPreset::Sublime, "sublime"),
        (PrecisionPreset::Photo, "photo"),
        (PrecisionPreset::PhotoDenoiser, "photo_denoiser"),
    ] {
        let defaults = PrecisionJob { scale_factor: 4, flavor: preset, ..PrecisionJob::default() };
        let zeroed = PrecisionJob { sharpen: 0.0, smart_grain: 0.0, ultra_detail: 0.0, ..defaults };
        for (job, suffix) in [(defaults, ""), (zeroed, ", all at 0")] {
            let enlarged = PictureJob::Precision(job).run(input(), None, 1);
            rows.push((format!("precision-v2, {name}{suffix}"), to_rgb(enlarged)));
        }
    }

    for (method, enlarged) in rows {
        let (psnr, ssim) = similarity::psnr_and_ssim(&original, &enlarged);
        println!("| {name} | {method} | {psnr:.2} | {ssim:.4} |");
    }
    Ok(())
}
