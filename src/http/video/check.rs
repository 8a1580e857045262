//! The checks of a submission: every field, the price, the pictures; and what is written when all is well.

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

/// A submission that passed every check; nothing of it is written yet.
pub(super) struct Checked {
    job: VideoJob<Looked>,
    images: Vec<Looked>,
    seed: Option<Seed>,
    payload: Option<String>,
    meta_data: Option<String>,
    pub callback: Option<CallbackUrl>,
    credits: Credits,
}

/// A picture that was looked at, as far as it is here.
enum Looked {
    Here { bytes: Vec<u8>, inspected: Inspected },
    Remote(CallbackUrl),
}

/// Checks everything, the pictures last. Blocks.
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
        // Each picture is looked at, so that every one that is none is named.
        let images: Vec<_> = images.into_iter().map(|picked| look(fields, picked)).collect();
        let Ok(job) = job.with_pictures(&mut |picked| Ok::<_, Infallible>(look(fields, picked)));
        let images = images.into_iter().collect::<Option<Vec<_>>>()?;
        let job = job.with_pictures(&mut |looked| looked.ok_or(())).ok()?;
        Some(Checked { job, images, seed, payload, meta_data, callback, credits: credits? })
    });
    if is_busy.get() { Err(Problem::overloaded()) } else { checked }
}

/// What is not in the price list is not made.
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

/// Decodes a picture that is here; one at a URL is looked at when it was fetched.
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
    /// Writes pictures and texts to the store; `drawn` is the seed where none was given. Blocks.
    pub(super) fn keep(self, store: &Store, space: &Space, drawn: u32) -> Result<VideoWork, Problem> {
        let refused = |error: std::io::Error| Problem::of_disk(&error, space);
        let mut keep = |looked: Looked| looked.keep(store).map_err(refused);
        let images = self.images.into_iter().map(&mut keep).collect::<Result<_, _>>()?;
        let job = self.job.with_pictures(&mut keep)?;
        let document = |text: Option<String>| text.map(|text| store.put_document(&text)).transpose().map_err(refused);
        let (payload, meta_data) = (document(self.payload)?, document(self.meta_data)?);
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
