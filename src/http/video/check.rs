//! Checks of a video submission: fields, price, pictures; stores the files once all checks pass.

use std::cell::Cell;
use std::convert::Infallible;

use super::inspect;
use super::jobs::{Asked, Bounds, Picked, ReadJob};
use crate::domain::image::Source;
use crate::domain::value::{CallbackUrl, Invalid};
use crate::domain::video::{Credits, Seed, Tariff, VideoJob, VideoWork};
use crate::http::body::Json;
use crate::http::error::Problem;
use crate::http::fields::{self, Fields};
use crate::media::decoders::Decoders;
use crate::media::input::{Given, Inspected};
use crate::media::store::{Area, Store};
use crate::space::Space;

/// Submission that passed all checks; nothing is stored yet.
pub(super) struct Checked {
    job: VideoJob<Looked>,
    images: Vec<Looked>,
    seed: Option<Seed>,
    payload: Option<String>,
    meta_data: Option<String>,
    pub callback: Option<CallbackUrl>,
    credits: Credits,
}

/// Checked picture, or the URL of one still to be fetched.
enum Looked {
    Here { bytes: Vec<u8>, inspected: Inspected },
    Remote(CallbackUrl),
}

/// Checks the fields, the price, then the pictures. Blocks.
pub(super) fn check(
    body: &Json,
    read: ReadJob,
    bounds: &Bounds,
    tariff: &Tariff,
    decoders: &Decoders,
) -> Result<Checked, Problem> {
    let is_busy = Cell::new(false);
    let look = |fields: &mut Fields<'_, '_>, picked| look(fields, picked, |bytes| inspect(decoders, bytes, &is_busy));

    let checked = fields::read(body, |fields| {
        let Asked { job, images, seed, payload, meta_data, callback } = read(fields, bounds)?;
        let credits = price(fields, &job, tariff);

        // Check all pictures before failing, so that every invalid one is reported.
        let images: Vec<_> = images.into_iter().map(|picked| look(fields, picked)).collect();
        let Ok(job) = job.with_pictures(&mut |picked| Ok::<_, Infallible>(look(fields, picked)));
        let images = images.into_iter().collect::<Option<Vec<_>>>()?;
        let job = job.with_pictures(&mut |looked| looked.ok_or(())).ok()?;
        Some(Checked { job, images, seed, payload, meta_data, callback, credits: credits? })
    });

    if is_busy.get() { Err(Problem::overloaded()) } else { checked }
}

/// Returns the price; adds an error if the tariff has none.
fn price(fields: &mut Fields<'_, '_>, job: &VideoJob<Picked>, tariff: &Tariff) -> Option<Credits> {
    let credits = tariff.credits(job);
    if credits.is_none() {
        let offered: Vec<_> = tariff.resolutions_for(job).collect();
        let model = job.model();
        if offered.is_empty() {
            fields.fault("model", format!("is not made here: there is no price for {model}"));
        } else {
            fields.fault("resolution", format!("must be one of {} with {model}", offered.join(" ")));
        }
    }
    credits
}

/// Decodes an inline picture. A picture at a URL is checked when it is fetched.
fn look(
    fields: &mut Fields<'_, '_>,
    Picked { at, given }: Picked,
    inspect: impl FnOnce(&[u8]) -> Result<Inspected, Invalid>,
) -> Option<Looked> {
    match given {
        Given::Url(url) => Some(Looked::Remote(url)),
        Given::Bytes(bytes) => match inspect(&bytes) {
            Ok(inspected) => Some(Looked::Here { bytes, inspected }),
            Err(reason) => {
                fields.fault_at(&at, reason);
                None
            }
        },
    }
}

impl Checked {
    /// Stores pictures and texts. `drawn` is the seed if the client gave none. Blocks.
    pub(super) fn keep(self, store: &Store, space: &Space, drawn: u32) -> Result<VideoWork, Problem> {
        let refused = |error: std::io::Error| Problem::of_disk(&error, space);
        let mut keep = |looked: Looked| looked.keep(store).map_err(refused);
        let images = self.images.into_iter().map(&mut keep).collect::<Result<_, _>>()?;

        let job = self.job.with_pictures(&mut keep)?;
        let document = |text: Option<String>| text.map(|text| store.put_document(&text)).transpose().map_err(refused);
        let payload = document(self.payload)?;
        let meta_data = document(self.meta_data)?;
        let seed = self.seed.unwrap_or(Seed::drawn(drawn));
        Ok(VideoWork { job, images, seed, payload, meta_data, credits: self.credits })
    }
}

impl Looked {
    fn keep(self, store: &Store) -> std::io::Result<Source> {
        match self {
            Self::Remote(url) => Ok(Source::Remote(url)),
            Self::Here { bytes, inspected: Inspected { format, width, height } } => {
                store.put(Area::Input, &bytes, format, width, height).map(Source::Kept)
            }
        }
    }
}
