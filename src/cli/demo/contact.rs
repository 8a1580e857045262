//! `mediary demo --contact-sheet`: runs every preset and both ends of every parameter on three photographs through the
//! public API, and writes single files and a sheet. Parameters without a visible effect are reported.

mod cells;
mod letters;
mod photographs;
mod sheet;

use std::cell::{Cell as Slot, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt, TryStreamExt, stream};
use image::codecs::jpeg::JpegEncoder;
use image::{ImageFormat, RgbImage};

use self::cells::{Cell, Shows, cells};
use self::photographs::{Photograph, photographs};
use self::sheet::{CaptionedPicture, Section, sheet};
use super::task;
use crate::cli::print;
use crate::cli::progress::{ProgressLine, ProgressUnit};
use crate::outbound::api_client::ApiClient;
use crate::pluralize::pluralize;

/// Concurrent jobs.
const AT_ONCE: usize = 4;
/// Smallest visible mean difference, on a scale of 0 to 255.
const VISIBLE: f64 = 0.2;
const JPEG_QUALITY: u8 = 88;

/// Writes the sheet and the single files to `directory`.
///
/// # Errors
/// If the service rejects or fails a job, a file cannot be written, or a parameter has no effect on any photograph.
pub async fn contact_sheet(api: &ApiClient, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let photographs = photographs()?;
    let cells = cells();
    let mut sections = Vec::new();
    let mut seen = vec![0.0_f64; cells.len()];
    for (nth, photograph) in photographs.iter().enumerate() {
        say(&format!("{}: {} …\n", photograph.name, pluralize(cells.len() as u64, "picture")))?;
        let other = &photographs[(nth + 1) % photographs.len()];
        let tally = Tally::new(photograph.name, cells.len());
        let made = stream::iter(cells.iter().map(async |cell| {
            let picture = make(api, cell, photograph, other).await?;
            tally.note()?;
            anyhow::Ok(picture)
        }));
        let made: Vec<RgbImage> = made.buffered(AT_ONCE).try_collect().await?;
        tally.end();
        let differences = differences(&cells, &made);
        for (seen, difference) in seen.iter_mut().zip(&differences) {
            *seen = seen.max(*difference);
        }
        save(directory, photograph, &cells, &made)?;
        let own = laid_out(photograph, &cells, made, &differences);
        draw(directory, &format!("contact-sheet.{}.jpg", photograph.name), &own)?;
        sections.extend(own);
    }
    draw(directory, "contact-sheet.jpg", &sections)?;
    let idle = idle(&cells, &seen);
    if !idle.is_empty() {
        bail!("these settings have no visible effect:\n  {}", idle.join("\n  "));
    }
    Ok(())
}

/// Progress of one photograph: a bar on a terminal, otherwise a line for every tenth of the pictures.
struct Tally {
    all: usize,
    done: Slot<usize>,
    bar: RefCell<ProgressLine>,
}

impl Tally {
    fn new(name: &'static str, all: usize) -> Self {
        let mut bar = ProgressLine::new(name, ProgressUnit::Pictures);
        bar.update(0, Some(all as u64));
        Self { all, done: Slot::new(0), bar: RefCell::new(bar) }
    }

    fn note(&self) -> anyhow::Result<()> {
        let done = self.done.get() + 1;
        self.done.set(done);
        let mut bar = self.bar.borrow_mut();
        bar.update(done as u64, Some(self.all as u64));
        if bar.is_visible() { Ok(()) } else { line(done, self.all).map_or(Ok(()), |line| say(&line)) }
    }

    fn end(self) {
        self.bar.into_inner().finish();
    }
}

/// Line for output that is not a terminal, after every tenth of the work.
fn line(done: usize, all: usize) -> Option<String> {
    let tenths = |done: usize| done * 10 / all.max(1);
    (tenths(done) > tenths(done - 1)).then(|| format!("  {done} of {all}\n"))
}

fn draw(directory: &Path, name: &str, sections: &[Section]) -> anyhow::Result<()> {
    let path = directory.join(name);
    let mut file = Vec::new();
    JpegEncoder::new_with_quality(&mut file, JPEG_QUALITY).encode_image(&sheet(sections))?;
    fs::write(&path, file).with_context(|| format!("cannot write {}", path.display()))?;
    say(&format!("{}\n", path.display()))
}

/// Parameters that have no visible effect at any value.
fn idle(cells: &[Cell], seen: &[f64]) -> Vec<String> {
    let mut tried: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (cell, seen) in cells.iter().zip(seen).filter(|(cell, _)| !cell.is_usual) {
        let most = tried.entry((cell.group, &cell.tried)).or_default();
        *most = most.max(*seen);
    }
    let idle = tried.into_iter().filter(|(_, seen)| *seen < VISIBLE);
    idle.map(|((group, tried), seen)| format!("{group}: {tried} ({seen:.2})")).collect()
}

fn say(text: &str) -> anyhow::Result<()> {
    print(text).context("cannot write to stdout")
}

impl Photograph {
    fn part(&self, shows: Shows) -> &RgbImage {
        match shows {
            Shows::Whole => &self.whole,
            Shows::Close => &self.close,
            Shows::Detail => &self.detail,
        }
    }
}

/// Generates one cell.
async fn make(api: &ApiClient, cell: &Cell, photograph: &Photograph, other: &Photograph) -> anyhow::Result<RgbImage> {
    let mut body = cell.body.clone();
    body.insert("image".to_owned(), base64_png(photograph.part(cell.shows))?.into());
    if let Some(field) = cell.reference {
        body.insert(field.to_owned(), base64_png(&other.whole)?.into());
    }
    let what = || format!("{} of {}: {}", cell.group, photograph.name, cell.label);
    let done = task::run_job(api, cell.path, &body.into(), &mut |_| {}).await.with_context(what)?;
    let url = done.into_first().with_context(what)?;
    let name = url.rsplit('/').next().unwrap_or_default();
    let file = api.get(&format!("/media/{name}")).await?;
    Ok(image::load_from_memory(&file.body).with_context(what)?.into_rgb8())
}

fn base64_png(picture: &RgbImage) -> anyhow::Result<String> {
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, ImageFormat::Png)?;
    Ok(STANDARD.encode(file.into_inner()))
}

/// Mean difference of each picture from the default one of its group, on a scale of 0 to 255.
fn differences(cells: &[Cell], made: &[RgbImage]) -> Vec<f64> {
    let usual = |cell: &Cell| cells.iter().position(|other| other.group == cell.group && other.is_usual);
    let all = cells.iter().zip(made);
    all.map(|(cell, picture)| usual(cell).map_or(0.0, |usual| difference(&made[usual], picture))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "pictures have less than 2^52 samples")]
fn difference(one: &RgbImage, other: &RgbImage) -> f64 {
    let samples = one.as_raw().iter().zip(other.as_raw());
    samples.map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>() / one.as_raw().len().max(1) as f64
}

fn save(directory: &Path, photograph: &Photograph, cells: &[Cell], made: &[RgbImage]) -> anyhow::Result<()> {
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
    for (cell, picture) in cells.iter().zip(made) {
        let name = format!("{}.{}.{}.png", photograph.name, plain(cell.group), plain(&cell.label));
        let path = directory.join(name);
        picture.save(&path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Sections of one photograph, starting with the photograph itself.
fn laid_out(photograph: &Photograph, cells: &[Cell], made: Vec<RgbImage>, differences: &[f64]) -> Vec<Section> {
    let original = |picture: &RgbImage, label: &str| CaptionedPicture {
        label: label.to_owned(),
        note: String::new(),
        picture: picture.clone(),
    };
    let sources = vec![
        original(&photograph.whole, "the photograph"),
        original(&photograph.close, "the part with faces or letters"),
        original(&photograph.detail, "the part that is scaled up"),
    ];
    let mut sections = vec![Section { heading: photograph.name.to_uppercase(), pictures: sources }];
    for ((cell, picture), difference) in cells.iter().zip(made).zip(differences) {
        let note = if cell.is_usual { String::new() } else { format!("differs by {difference:.1}") };
        let shown = CaptionedPicture { label: cell.label.clone(), note, picture };
        let heading = format!("{}: {}", photograph.name, cell.group);
        match sections.last_mut().filter(|section| section.heading == heading) {
            Some(section) => section.pictures.push(shown),
            None => sections.push(Section { heading, pictures: vec![shown] }),
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_watches_a_line_is_told_for_every_tenth() {
        let lines = |all: usize| -> Vec<String> { (1..=all).filter_map(|done| line(done, all)).collect() };
        assert_eq!(lines(120).len(), 10);
        assert_eq!((lines(120)[0].as_str(), lines(120)[9].as_str()), ("  12 of 120\n", "  120 of 120\n"));
        assert_eq!(lines(3), ["  1 of 3\n", "  2 of 3\n", "  3 of 3\n"]);
    }
}
