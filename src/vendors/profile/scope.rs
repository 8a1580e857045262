//! Values that templates of a submission can use: the parameters of the job by their API names, its key, and the
//! values and value maps of the profile.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object};
use minijinja::{Error, ErrorKind, Value};
use serde_json::Value as Json;

use super::picture::{PictureAccess, PictureInput};
use super::template::{TemplateScope, json_to_value, value_to_text};
use crate::domain::image::{Picture, PictureSource};
use crate::domain::parameter::{JobParameter, JobParameters};
use crate::domain::task::TaskWork;
use crate::domain::video::VideoJob;

/// Names of all jobs in profiles: the submission endpoints of this service, and `music`.
pub const JOB_NAMES: [&str; 12] = [
    "image-upscaler",
    "image-upscaler-precision-v2",
    "image-style-transfer",
    "skin-enhancer/creative",
    "skin-enhancer/faithful",
    "skin-enhancer/flexible",
    "image-relight",
    "start-end2video",
    "reference2video",
    "extend",
    "multiframe",
    "music",
];

/// Parameter of an extension: the id that the maker of the video gave it.
pub(super) const VENDOR_CREATION_ID: &str = "vendor_creation_id";

/// Returns the parameters that a job can have, for the check of its templates.
pub(in crate::vendors) fn parameter_names(job: &str) -> &'static [&'static str] {
    match job {
        "image-upscaler" => &[
            "image",
            "prompt",
            "scale_factor",
            "engine",
            "optimized_for",
            "creativity",
            "fractality",
            "hdr",
            "resemblance",
            "seed",
        ],
        "image-upscaler-precision-v2" => {
            &["image", "scale_factor", "flavor", "sharpen", "smart_grain", "ultra_detail", "seed"]
        }
        "image-style-transfer" => &[
            "image",
            "reference_image",
            "prompt",
            "engine",
            "flavor",
            "style_strength",
            "structure_strength",
            "is_portrait",
            "portrait_style",
            "portrait_beautifier",
            "fixed_generation",
            "seed",
        ],
        "skin-enhancer/creative" => &["image", "sharpen", "smart_grain", "seed"],
        "skin-enhancer/faithful" => &["image", "sharpen", "smart_grain", "skin_detail", "seed"],
        "skin-enhancer/flexible" => &["image", "sharpen", "smart_grain", "optimized_for", "seed"],
        "image-relight" => &[
            "image",
            "transfer_light_from_reference_image",
            "transfer_light_from_lightmap",
            "prompt",
            "light_transfer_strength",
            "style",
            "interpolate_from_original",
            "change_background",
            "preserve_details",
            "advanced_settings",
            "seed",
        ],
        "start-end2video" | "reference2video" => &[
            "images",
            "prompt",
            "model",
            "duration",
            "resolution",
            "aspect_ratio",
            "style",
            "movement_amplitude",
            "seed",
            "enhance",
            "is_rec",
            "audio",
            "audio_type",
            "voice_id",
            "bgm",
            "off_peak",
            "priority",
            "watermark",
            "wm_position",
            "wm_url",
        ],
        "extend" => &[
            "images",
            "video_creation_id",
            "video_url",
            VENDOR_CREATION_ID,
            "prompt",
            "model",
            "duration",
            "resolution",
            "seed",
        ],
        "multiframe" => &["images", "start_image", "image_settings", "model", "resolution", "seed"],
        "music" => &["prompt", "duration"],
        _ => &[],
    }
}

/// Returns the parameters of the work; `None` if an input is not in the store.
pub(in crate::vendors) fn work_scope(work: &TaskWork, access: &Arc<PictureAccess>) -> Option<TemplateScope> {
    let stored = |source: &PictureSource| source.stored().copied();
    let mut scope = TemplateScope::new();

    match work {
        TaskWork::Image(work) => {
            let reference = match &work.reference {
                Some(source) => Some(stored(source)?),
                None => None,
            };
            add_parameters(&mut scope, &work.job.parameters(stored(&work.image)?, reference), access);
            if let Some(seed) = work.seed {
                scope.insert("seed".to_owned(), Value::from(seed));
            }
        }
        TaskWork::Video(work) => {
            let images = work.images.iter().map(stored).collect::<Option<Vec<_>>>()?;
            let job = work.job.clone().try_map_pictures(&mut |source| stored(&source).ok_or(())).ok()?;
            add_parameters(&mut scope, &job.parameters(&images, work.seed), access);
            if let VideoJob::Extend(job) = &job
                && let Some(id) = &job.video.vendor_id
            {
                scope.insert(VENDOR_CREATION_ID.to_owned(), Value::from(id.as_str()));
            }
            scope.insert("seed".to_owned(), Value::from(work.seed.get()));
        }
        TaskWork::Music(work) => {
            scope.insert("prompt".to_owned(), Value::from(work.prompt.as_str()));
            if let Some(seconds) = work.seconds {
                scope.insert("duration".to_owned(), Value::from(seconds.get()));
            }
        }
    }

    Some(scope)
}

fn add_parameters<P: AsPicture>(scope: &mut TemplateScope, parameters: &JobParameters<P>, access: &Arc<PictureAccess>) {
    for (name, parameter) in parameters.entries() {
        scope.insert(name.to_owned(), parameter_value(parameter, access));
    }
}

fn parameter_value<P: AsPicture>(parameter: &JobParameter<P>, access: &Arc<PictureAccess>) -> Value {
    match parameter {
        JobParameter::Text(text) => Value::from(text.as_str()),
        JobParameter::Number(number) => Value::from(*number),
        JobParameter::Flag(flag) => Value::from(*flag),
        JobParameter::File(picture) => PictureInput::value(picture.as_picture(), access),
        JobParameter::Group(group) => {
            Value::from_pairs(group.entries().map(|(name, field)| (name, parameter_value(field, access))))
        }
        JobParameter::List(items) => {
            Value::from(items.iter().map(|item| parameter_value(item, access)).collect::<Vec<_>>())
        }
    }
}

/// A picture or a reference to one.
trait AsPicture {
    fn as_picture(&self) -> Picture;
}

impl AsPicture for Picture {
    fn as_picture(&self) -> Picture {
        *self
    }
}

impl AsPicture for &Picture {
    fn as_picture(&self) -> Picture {
        **self
    }
}

/// A value map of a profile. A value without an entry is an error, so that no job is submitted with a guess.
#[derive(Debug)]
pub(super) struct ValueMap {
    name: String,
    entries: Vec<(String, Json)>,
}

impl ValueMap {
    /// Returns the map as a value for templates.
    pub fn value(name: &str, entries: impl Iterator<Item = (String, Json)>) -> Value {
        Value::from_object(Self { name: name.to_owned(), entries: entries.collect() })
    }
}

impl Object for ValueMap {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        if key.is_undefined() {
            return None;
        }
        let key = value_to_text(key);
        let entry = self.entries.iter().find(|(name, _)| *name == key);
        Some(entry.map_or_else(
            || {
                let detail = format!("the profile has no `{key}` in maps.{}", self.name);
                Value::from(Error::new(ErrorKind::InvalidOperation, detail))
            },
            |(_, value)| json_to_value(value),
        ))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.entries.iter().map(|(name, _)| Value::from(name.as_str())).collect())
    }
}
