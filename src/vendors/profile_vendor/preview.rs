//! The exact requests of a job, for the operator who writes a profile or connects a vendor.

use std::fmt::Write as _;
use std::sync::Arc;

use minijinja::Value;
use serde_json::Value as Json;

use super::connection::VendorConnection;
use super::music::accepted_media;
use crate::domain::image::Picture;
use crate::domain::task::TaskWork;
use crate::environment::Environment;
use crate::outbound::vendor_client::{RESPONSE_BYTES_MAX, VendorClient};
use crate::vendors::credential_mask::CredentialMask;
use crate::vendors::profile::Profile;
use crate::vendors::profile::picture::{PictureAccess, PictureInput, ReadPicture};
use crate::vendors::profile::request::{FormContent, PreparedBody, PreparedRequest};
use crate::vendors::profile::scope::work_scope;
use crate::vendors::profile::template::TemplateScope;

/// Length in characters of the longest text that is shown completely.
const SHOWN_TEXT_MAX: usize = 120;
/// Number of characters that are shown of a longer text.
const SHOWN_BEGINNING: usize = 40;

/// Reads the bytes of a picture.
pub type ReadPictureBytes = Arc<dyn Fn(&Picture) -> Option<Vec<u8>> + Send + Sync>;

/// Destination and credentials of the requests of a preview.
pub struct PreviewTarget<'t> {
    pub client: &'t VendorClient,
    pub api_key: Option<&'t str>,
    /// Header with the key of a submission, instead of the profile's.
    pub key_header: Option<&'t str>,
}

/// Returns the requests that a vendor would get for this work, in order: the uploads of its pictures, then the
/// submission. The API key is masked, and long texts are shortened.
///
/// # Errors
/// If the profile has no such job, or cannot express one of its values.
pub fn preview_submission(
    profile: &Profile,
    target: &PreviewTarget<'_>,
    work: &TaskWork,
    key: &str,
    read: ReadPictureBytes,
) -> Result<Vec<String>, String> {
    let name = work.job_name();
    let job = profile.job(name).ok_or_else(|| format!("the profile {} has no job {name}", profile.name()))?;
    let read: ReadPicture = read;

    let trial = PictureAccess::trial();
    let scope = work_scope(work, &trial).ok_or("an input picture is missing")?;
    let scope = profile.submission_scope(job, scope, key, None);
    profile.build_submission(job, &scope).map_err(|error| error.to_string())?;

    let mut requests = Vec::new();
    let mut uploads = Vec::new();
    for picture in trial.wanted_uploads() {
        let upload = profile.file().upload.as_ref().ok_or("the profile has no [upload]")?;
        let access = PictureAccess::new(Arc::clone(&read), Vec::new());
        let mut scope = TemplateScope::new();
        scope.insert("picture".to_owned(), PictureInput::value(picture, &access));
        scope.insert("key".to_owned(), Value::from(key));
        let request = PreparedRequest::upload(profile.prefix(), upload, &scope).map_err(|error| error.to_string())?;
        requests.push(describe(target, request));
        uploads.push((picture, Value::from(format!("<name of {}>", picture.file_name()))));
    }

    let scope = work_scope(work, &PictureAccess::new(read, uploads)).ok_or("an input picture is missing")?;
    let scope = profile.submission_scope(job, scope, key, None);
    let mut request = profile.build_submission(job, &scope).map_err(|error| error.to_string())?;
    if let Some(stream) = profile.file().stream.as_ref().filter(|_| name == "music") {
        request.headers.push(("accept".to_owned(), accepted_media(stream.format).to_owned()));
    }
    if let Some(header) = target.key_header.or(profile.key_header()) {
        request.headers.push((header.to_owned(), key.to_owned()));
    }
    requests.push(describe(target, request));
    Ok(requests)
}

fn describe(target: &PreviewTarget<'_>, request: PreparedRequest) -> String {
    let mask = CredentialMask::new(target.api_key);
    let connection =
        VendorConnection { client: target.client.clone(), mask: mask.clone(), environment: Environment::system() };
    let body = request.body.clone();
    let head = target.client.describe(&connection.to_vendor_request(request, RESPONSE_BYTES_MAX));

    let mut text = mask.apply(&head.join("\n"));
    text.push_str("\n\n");
    match body {
        PreparedBody::Empty => {}
        PreparedBody::Json(json) => {
            text.push_str(&serde_json::to_string_pretty(&shorten(json)).unwrap_or_default());
            text.push('\n');
        }
        PreparedBody::Form(parts) => {
            for part in parts {
                // Writing to a string cannot fail.
                let _ = match part.content {
                    FormContent::Text(content) => writeln!(text, "{} = {}", part.name, shorten_text(content)),
                    FormContent::File { file_name, media_type, bytes } => {
                        writeln!(text, "{} = file {file_name}, {media_type}, {} bytes", part.name, bytes.len())
                    }
                };
            }
        }
    }
    text
}

fn shorten(json: Json) -> Json {
    match json {
        Json::String(text) => Json::String(shorten_text(text)),
        Json::Array(items) => Json::Array(items.into_iter().map(shorten).collect()),
        Json::Object(fields) => Json::Object(fields.into_iter().map(|(name, field)| (name, shorten(field))).collect()),
        other => other,
    }
}

fn shorten_text(text: String) -> String {
    let characters = text.chars().count();
    if characters <= SHOWN_TEXT_MAX {
        return text;
    }
    let beginning: String = text.chars().take(SHOWN_BEGINNING).collect();
    format!("{beginning}… ({characters} characters)")
}
