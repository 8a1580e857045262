//! Checks of an image submission: fields first, then pictures; stores the pictures once all checks pass.

use std::cell::Cell;

use crate::domain::ids::TaskId;
use crate::domain::image::{ImageJob, ImageWork, Source, Upscale};
use crate::domain::value::{CallbackUrl, Invalid};
use crate::http::body::Json;
use crate::http::error::Problem;
use crate::http::fields::{self, Fields};
use crate::media::decoders::{DecodeError, Decoders, measure};
use crate::media::input::{Given, Inspected};
use crate::media::store::{Area, Store};
use crate::space::Space;

/// Parsed submission; its pictures are not checked yet.
pub(super) struct Asked {
    pub job: ImageJob,
    /// Second picture, beside the main one, and its field.
    pub reference: Option<(&'static str, Given)>,
    /// `true` if the result is random, so that equal requests give different pictures.
    pub varies: bool,
}

/// Reader of one endpoint's fields. An invalid field is reported and replaced by its default, so that the other checks
/// continue.
pub(super) type ReadJob = fn(&mut Fields<'_, '_>) -> Asked;

/// Submission that passed all checks; nothing is stored yet.
pub(super) struct Checked {
    job: ImageJob,
    image: Looked,
    reference: Option<Looked>,
    varies: bool,
    webhook: Option<CallbackUrl>,
}

/// Checked picture, or the URL of one still to be fetched.
enum Looked {
    Here { bytes: Vec<u8>, inspected: Inspected },
    Remote(CallbackUrl),
}

/// Checks the fields, then the pictures. The main picture is decoded only if its result would be small enough. Blocks.
pub(super) fn check(body: &Json, read: ReadJob, decoders: &Decoders) -> Result<Checked, Problem> {
    let is_busy = Cell::new(false);
    let inspect = |bytes: &[u8]| inspect(decoders, bytes, &is_busy);
    let checked = fields::read(body, |fields| {
        let Asked { job, reference, varies } = read(fields);
        let webhook = fields.text("webhook_url", read_webhook).flatten();
        let image = fields.required_text("image", Given::parse);
        let reference = reference.map(|(field, given)| look(fields, field, given, inspect, |_, _| Some(())));
        let image = look(fields, "image", image?, inspect, |fields, measured| check_output(fields, &job, measured))?;

        // An invalid picture was reported already.
        let reference = match reference {
            None => None,
            Some(looked) => Some(looked?),
        };

        Some(Checked { job, image, reference, varies, webhook })
    });
    if is_busy.get() { Err(Problem::overloaded()) } else { checked }
}

/// Decodes a picture. If the memory for that is exhausted, `is_busy` is set and the client may retry the whole
/// submission.
pub(in crate::http) fn inspect(decoders: &Decoders, bytes: &[u8], is_busy: &Cell<bool>) -> Result<Inspected, Invalid> {
    decoders.inspect(bytes).map_err(|error| match error {
        DecodeError::Invalid(reason) => reason,
        DecodeError::Busy => {
            is_busy.set(true);
            Invalid::new("was not checked: the service is busy")
        }
    })
}

/// Parses the webhook URL; an empty one counts as absent (contract 4).
fn read_webhook(text: &str) -> Result<Option<CallbackUrl>, Invalid> {
    if text.is_empty() { Ok(None) } else { CallbackUrl::parse(text).map(Some) }
}

/// Decodes an inline picture if its header passes `check_measured`. A picture at a URL is checked when it is fetched.
fn look(
    fields: &mut Fields<'_, '_>,
    field: &'static str,
    given: Given,
    inspect: impl Fn(&[u8]) -> Result<Inspected, Invalid>,
    check_measured: impl FnOnce(&mut Fields<'_, '_>, &Inspected) -> Option<()>,
) -> Option<Looked> {
    let bytes = match given {
        Given::Url(url) => return Some(Looked::Remote(url)),
        Given::Bytes(bytes) => bytes,
    };

    let noted = |fields: &mut Fields<'_, '_>, inspected: Result<Inspected, Invalid>| {
        inspected.map_err(|reason| fields.fault(field, reason)).ok()
    };

    let measured = noted(fields, measure(&bytes))?;
    check_measured(fields, &measured)?;

    let inspected = noted(fields, inspect(&bytes))?;
    Some(Looked::Here { bytes, inspected })
}

/// Checks the size of the result. Reports the picture if no factor fits, else the factor.
fn check_output(fields: &mut Fields<'_, '_>, job: &ImageJob, measured: &Inspected) -> Option<()> {
    let Inspected { width, height, .. } = *measured;
    let reason = match job.check_output(width, height) {
        Ok(()) => return Some(()),
        Err(reason) => reason,
    };
    let fits = ImageJob::Upscale(Upscale::default()).check_output(width, height).is_ok();
    fields.fault(if fits { "scale_factor" } else { "image" }, format!("makes the result too large: {reason}"));
    None
}

/// Returns the random seed of a task, derived from its id.
pub fn drawn_from(task: TaskId) -> u32 {
    let (high, low) = task.0.as_u64_pair();
    #[expect(clippy::cast_possible_truncation, reason = "the lower half of each is as random as the upper")]
    let drawn = high as u32 ^ low as u32;
    drawn
}

impl Checked {
    /// Writes the pictures to the store. Blocks.
    pub(super) fn keep(
        self,
        store: &Store,
        space: &Space,
        drawn: u32,
    ) -> Result<(ImageWork, Option<CallbackUrl>), Problem> {
        let Self { job, image, reference, varies, webhook } = self;
        let image = image.keep(store, space)?;
        let reference = reference.map(|picture| picture.keep(store, space)).transpose()?;
        Ok((ImageWork { job, image, reference, seed: varies.then_some(drawn) }, webhook))
    }
}

impl Looked {
    fn keep(self, store: &Store, space: &Space) -> Result<Source, Problem> {
        match self {
            Self::Remote(url) => Ok(Source::Remote(url)),
            Self::Here { bytes, inspected: Inspected { format, width, height } } => {
                let kept = store.put(Area::Input, &bytes, format, width, height);
                kept.map(Source::Kept).map_err(|error| Problem::of_disk(&error, space))
            }
        }
    }
}
