//! Input pictures in templates, and the filters that encode them for a vendor.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::{Enumerator, Object, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use parking_lot::Mutex;

use crate::domain::image::Picture;

/// Reads the bytes of a picture. Blocks.
pub(in crate::vendors) type ReadPicture = Arc<dyn Fn(&Picture) -> Option<Vec<u8>> + Send + Sync>;

/// Access to the pictures of one request.
pub(in crate::vendors) struct PictureAccess {
    /// `None` in a trial run, in which every picture is empty.
    read: Option<ReadPicture>,
    /// Uploaded pictures, each with the name that the vendor gave it.
    uploads: Vec<(Picture, Value)>,
    /// Pictures that a trial run of the templates needs uploaded.
    wanted: Mutex<Vec<Picture>>,
    /// `true` if a picture could not be read.
    has_failed: AtomicBool,
}

impl PictureAccess {
    /// Returns the access of a trial run of the templates, which finds out which pictures a request needs uploaded.
    pub fn trial() -> Arc<Self> {
        Arc::new(Self { read: None, uploads: Vec::new(), wanted: Mutex::default(), has_failed: AtomicBool::default() })
    }

    /// Returns the access of a request.
    pub fn new(read: ReadPicture, uploads: Vec<(Picture, Value)>) -> Arc<Self> {
        Arc::new(Self { read: Some(read), uploads, wanted: Mutex::default(), has_failed: AtomicBool::default() })
    }

    /// Returns `true` if a picture could not be read. The templates are not at fault then.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Returns the pictures to upload first, each once.
    pub fn wanted_uploads(&self) -> Vec<Picture> {
        self.wanted.lock().clone()
    }
}

/// A picture in a template.
pub(in crate::vendors) struct PictureInput {
    pub picture: Picture,
    access: Arc<PictureAccess>,
}

impl PictureInput {
    /// Returns the picture as a value for templates.
    pub fn value(picture: Picture, access: &Arc<PictureAccess>) -> Value {
        Value::from_object(Self { picture, access: Arc::clone(access) })
    }

    /// Reads the bytes; in a trial run, there are none. Blocks.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        let Some(read) = &self.access.read else { return Ok(Vec::new()) };
        read(&self.picture).ok_or_else(|| {
            self.access.has_failed.store(true, Ordering::Relaxed);
            invalid("cannot read an input picture")
        })
    }
}

impl fmt::Debug for PictureInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "picture {}", self.picture.file_name())
    }
}

impl Object for PictureInput {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Some(match key.as_str()? {
            "width" => Value::from(self.picture.width),
            "height" => Value::from(self.picture.height),
            "bytes" => Value::from(self.picture.bytes),
            "format" => Value::from(self.picture.format.as_str()),
            "media_type" => Value::from(self.picture.format.media_type()),
            "name" => Value::from(self.picture.file_name()),
            _ => return None,
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&["width", "height", "bytes", "format", "media_type", "name"])
    }
}

/// Implements the filter `base64`, which encodes pictures in base64. Blocks.
pub(super) fn base64(value: &Value) -> Result<Value, Error> {
    map_pictures(value, &|picture| Ok(Value::from(STANDARD.encode(picture.bytes()?))))
}

/// Implements the filter `data_uri`, which encodes pictures as `data:` URIs. Blocks.
pub(super) fn data_uri(value: &Value) -> Result<Value, Error> {
    map_pictures(value, &|picture| {
        let media_type = picture.picture.format.media_type();
        Ok(Value::from(format!("data:{media_type};base64,{}", STANDARD.encode(picture.bytes()?))))
    })
}

/// Implements the filter `uploaded`, which returns the name that the vendor gave to an uploaded picture. In a trial
/// run, it notes the picture as one to upload.
pub(super) fn uploaded(value: &Value) -> Result<Value, Error> {
    map_pictures(value, &|picture| {
        let access = &picture.access;
        if access.read.is_none() {
            let mut wanted = access.wanted.lock();
            if !wanted.contains(&picture.picture) {
                wanted.push(picture.picture);
            }
            return Ok(Value::from("uploaded"));
        }

        let upload = access.uploads.iter().find(|(uploaded, _)| *uploaded == picture.picture);
        upload.map(|(_, name)| name.clone()).ok_or_else(|| invalid("an input picture was not uploaded"))
    })
}

/// Converts a picture, or every picture in a list or table. Other values are returned unchanged.
fn map_pictures(value: &Value, convert: &dyn Fn(&PictureInput) -> Result<Value, Error>) -> Result<Value, Error> {
    if let Some(picture) = value.downcast_object_ref::<PictureInput>() {
        return convert(picture);
    }

    Ok(match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.map(|item| map_pictures(&item, convert));
            Value::from(items.collect::<Result<Vec<_>, _>>()?)
        }
        ValueKind::Map => {
            let mut pairs = Vec::new();
            for key in value.try_iter()? {
                pairs.push((key.clone(), map_pictures(&value.get_item(&key)?, convert)?));
            }
            Value::from_pairs(pairs)
        }
        _ => value.clone(),
    })
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}
