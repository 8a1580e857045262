//! The exact request of a job, for the operator who writes a profile.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use minijinja::Value;
use serde_json::Value as Json;

use super::connection::to_vendor_request;
use crate::domain::image::Picture;
use crate::domain::task::TaskWork;
use crate::outbound::vendor_client::{RESPONSE_BYTES_MAX, VendorClient};
use crate::vendors::profile::picture::{PictureAccess, PictureInput, ReadPicture};
use crate::vendors::profile::request::{FormContent, PreparedBody, PreparedRequest};
use crate::vendors::profile::scope::{job_name, work_scope};
use crate::vendors::profile::template::TemplateScope;
use crate::vendors::profile::{PictureUrl, Profile};

/// Longest text that is shown whole.
const SHOWN_TEXT_MAX: usize = 120;

/// Requests of a job as text: the uploads of its pictures, and the submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPreview {
    pub requests: Vec<String>,
    /// Forms in which pictures are sent.
    pub forms: BTreeSet<&'static str>,
}

/// Returns the requests that a vendor would get for this work. The API key is masked, and long texts are shortened.
///
/// # Errors
/// If the profile has no such job, or no words for one of its values.
pub fn preview_submission(
    profile: &Profile,
    client: &VendorClient,
    work: &TaskWork,
    key: &str,
    (read, picture_url): (ReadPictureBytes, Option<PictureUrl>),
) -> Result<RequestPreview, String> {
    let name = job_name(work);
    let job = profile.job(name).ok_or_else(|| format!("the profile {} has no job {name}", profile.name()))?;
    let read: ReadPicture = read;

    let trial = PictureAccess::trial(picture_url.clone());
    let scope = work_scope(work, &trial).ok_or("an input picture is missing")?;
    let scope = profile.submission_scope(job, scope, key, None);
    profile.build_submission(job, &scope).map_err(|error| error.to_string())?;

    let mut requests = Vec::new();
    let mut uploads = Vec::new();
    for picture in trial.wanted_uploads() {
        let upload = profile.file().upload.as_ref().ok_or("the profile has no [upload]")?;
        let access = PictureAccess::new(Arc::clone(&read), None, Vec::new());
        let mut scope = TemplateScope::new();
        scope.insert("picture".to_owned(), PictureInput::value(picture, &access));
        scope.insert("key".to_owned(), Value::from(key));
        let request = PreparedRequest::upload(profile.prefix(), upload, &scope).map_err(|error| error.to_string())?;
        requests.push(describe(client, request, key));
        uploads.push((picture, Value::from(format!("<name of {}>", picture.file_name()))));
    }

    let access = PictureAccess::new(read, picture_url, uploads);
    let scope = work_scope(work, &access).ok_or("an input picture is missing")?;
    let scope = profile.submission_scope(job, scope, key, None);
    let mut request = profile.build_submission(job, &scope).map_err(|error| error.to_string())?;
    if let Some(header) = profile.key_header() {
        request.headers.push((header.to_owned(), key.to_owned()));
    }
    requests.push(describe(client, request, key));
    Ok(RequestPreview { requests, forms: access.used_forms() })
}

/// Reads the bytes of a picture.
pub type ReadPictureBytes = Arc<dyn Fn(&Picture) -> Option<Vec<u8>> + Send + Sync>;

fn describe(client: &VendorClient, request: PreparedRequest, key: &str) -> String {
    let body = request.body.clone();
    let lines = client.describe(&to_vendor_request(request, key, RESPONSE_BYTES_MAX));
    let mut text = lines.join("\n");
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
    let beginning: String = text.chars().take(40).collect();
    format!("{beginning}… ({characters} characters)")
}
