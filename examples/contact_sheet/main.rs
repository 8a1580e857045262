//! Contact sheet of the image jobs: runs every preset and both ends of every parameter on three photographs through
//! the public API of a running service. Writes single files and a sheet, and reports parameters without a visible
//! effect.
//!
//! `cargo run --release --example contact_sheet -- URL TOKEN DIRECTORY`

mod cells;
mod letters;
mod photographs;
mod sheet;

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt, TryStreamExt, stream};
use image::codecs::jpeg::JpegEncoder;
use image::{ImageFormat, RgbImage};
use mediary::outbound::api_client::ApiClient;
use mediary::pluralize::pluralize;
use serde_json::Value;

use self::cells::{Cell, PhotographCrop, cells};
use self::photographs::{Photograph, photographs};
use self::sheet::{CaptionedPicture, Section, sheet};

/// Concurrent jobs.
const CONCURRENCY: usize = 4;
/// Smallest visible mean difference, on a scale of 0 to 255.
const VISIBLE_DIFFERENCE: f64 = 0.2;
const JPEG_QUALITY: u8 = 88;
/// Polls of a job before giving up, and the pause between them.
const POLLS: usize = 3000;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, token, directory] = &arguments[..] else {
        bail!("usage: contact_sheet URL TOKEN DIRECTORY (the token of a user of the running service)");
    };
    let api = ApiClient::new(url, token)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(contact_sheet(&api, Path::new(directory)))
}

/// Writes the sheet and the single files to `directory`.
///
/// # Errors
/// If the service rejects or fails a job, a file cannot be written, or a parameter has no effect on any photograph.
async fn contact_sheet(api: &ApiClient, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let photographs = photographs()?;
    let cells = cells();
    let mut sections = Vec::new();
    let mut max_differences = vec![0.0_f64; cells.len()];

    for (index, photograph) in photographs.iter().enumerate() {
        println!("{}: {} …", photograph.name, pluralize(cells.len() as u64, "picture"));
        let other = &photographs[(index + 1) % photographs.len()];

        let pictures = stream::iter(cells.iter().map(async |cell| generate(api, cell, photograph, other).await));
        let pictures: Vec<RgbImage> = pictures.buffered(CONCURRENCY).try_collect().await?;

        let differences = differences(&cells, &pictures);
        for (max, difference) in max_differences.iter_mut().zip(&differences) {
            *max = max.max(*difference);
        }

        save(directory, photograph, &cells, &pictures)?;
        let own_sections = layout_sections(photograph, &cells, pictures, &differences);
        draw(directory, &format!("contact-sheet.{}.jpg", photograph.name), &own_sections)?;
        sections.extend(own_sections);
    }

    draw(directory, "contact-sheet.jpg", &sections)?;
    let ineffective = ineffective_values(&cells, &max_differences);
    if !ineffective.is_empty() {
        bail!("these settings have no visible effect:\n  {}", ineffective.join("\n  "));
    }
    Ok(())
}

fn draw(directory: &Path, name: &str, sections: &[Section]) -> anyhow::Result<()> {
    let path = directory.join(name);
    let mut file = Vec::new();
    JpegEncoder::new_with_quality(&mut file, JPEG_QUALITY).encode_image(&sheet(sections))?;
    fs::write(&path, file).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// Returns the parameters that have no visible effect at any value.
fn ineffective_values(cells: &[Cell], max_differences: &[f64]) -> Vec<String> {
    let mut by_value: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (cell, difference) in cells.iter().zip(max_differences).filter(|(cell, _)| !cell.is_baseline) {
        let max = by_value.entry((cell.group, &cell.tested_value)).or_default();
        *max = max.max(*difference);
    }
    let ineffective = by_value.into_iter().filter(|(_, difference)| *difference < VISIBLE_DIFFERENCE);
    ineffective.map(|((group, value), difference)| format!("{group}: {value} ({difference:.2})")).collect()
}

impl Photograph {
    fn crop(&self, crop: PhotographCrop) -> &RgbImage {
        match crop {
            PhotographCrop::Whole => &self.whole,
            PhotographCrop::Close => &self.close,
            PhotographCrop::Detail => &self.detail,
        }
    }
}

/// Generates one cell.
async fn generate(
    api: &ApiClient,
    cell: &Cell,
    photograph: &Photograph,
    other: &Photograph,
) -> anyhow::Result<RgbImage> {
    let mut body = cell.body.clone();
    body.insert("image".to_owned(), base64_png(photograph.crop(cell.crop))?.into());
    if let Some(field) = cell.reference {
        body.insert(field.to_owned(), base64_png(&other.whole)?.into());
    }
    let context = || format!("{} of {}: {}", cell.group, photograph.name, cell.label);
    let url = run_job(api, cell.path, &body.into()).await.with_context(context)?;
    let name = url.rsplit('/').next().unwrap_or_default();
    let file = api.get(&format!("/media/{name}")).await?;
    Ok(image::load_from_memory(&file.body).with_context(context)?.into_rgb8())
}

/// Runs an image job to its end and returns the URL of its result.
async fn run_job(api: &ApiClient, path: &str, body: &Value) -> anyhow::Result<String> {
    let submitted = api.create(path, body).await?.json();
    let task = submitted["data"]["task_id"].as_str().with_context(|| format!("rejected: {submitted}"))?;
    for _ in 0..POLLS {
        let view = api.get(&format!("/tasks/{task}")).await?.json();
        match view["state"].as_str() {
            Some("COMPLETED") => {
                return view["generated"][0].as_str().map(str::to_owned).context("the task has no result");
            }
            Some("FAILED") => bail!("the task failed: {}", view["error"]),
            _ => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
    bail!("task {task} did not finish in time")
}

fn base64_png(picture: &RgbImage) -> anyhow::Result<String> {
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, ImageFormat::Png)?;
    Ok(STANDARD.encode(file.into_inner()))
}

/// Returns the mean difference of each picture from the default one of its group, on a scale of 0 to 255.
fn differences(cells: &[Cell], pictures: &[RgbImage]) -> Vec<f64> {
    let baseline_index = |cell: &Cell| cells.iter().position(|other| other.group == cell.group && other.is_baseline);
    let all = cells.iter().zip(pictures);
    all.map(|(cell, picture)| baseline_index(cell).map_or(0.0, |baseline| difference(&pictures[baseline], picture)))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "pictures have less than 2^52 samples")]
fn difference(one: &RgbImage, other: &RgbImage) -> f64 {
    let samples = one.as_raw().iter().zip(other.as_raw());
    samples.map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>() / one.as_raw().len().max(1) as f64
}

fn save(directory: &Path, photograph: &Photograph, cells: &[Cell], pictures: &[RgbImage]) -> anyhow::Result<()> {
    let sanitize = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
    for (cell, picture) in cells.iter().zip(pictures) {
        let name = format!("{}.{}.{}.png", photograph.name, sanitize(cell.group), sanitize(&cell.label));
        let path = directory.join(name);
        picture.save(&path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the sections of one photograph, starting with the photograph itself.
fn layout_sections(
    photograph: &Photograph,
    cells: &[Cell],
    pictures: Vec<RgbImage>,
    differences: &[f64],
) -> Vec<Section> {
    let captioned = |picture: &RgbImage, label: &str| CaptionedPicture {
        label: label.to_owned(),
        note: String::new(),
        picture: picture.clone(),
    };
    let sources = vec![
        captioned(&photograph.whole, "the photograph"),
        captioned(&photograph.close, "the part with faces or letters"),
        captioned(&photograph.detail, "the part that is scaled up"),
    ];
    let mut sections = vec![Section { heading: photograph.name.to_uppercase(), pictures: sources }];
    for ((cell, picture), difference) in cells.iter().zip(pictures).zip(differences) {
        let note = if cell.is_baseline { String::new() } else { format!("differs by {difference:.1}") };
        let entry = CaptionedPicture { label: cell.label.clone(), note, picture };
        let heading = format!("{}: {}", photograph.name, cell.group);
        match sections.last_mut().filter(|section| section.heading == heading) {
            Some(section) => section.pictures.push(entry),
            None => sections.push(Section { heading, pictures: vec![entry] }),
        }
    }
    sections
}
