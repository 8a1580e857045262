//! Requests to a vendor, built from the templates of a profile. Only reading pictures has a side effect.

use std::sync::Arc;

use bytes::Bytes;
use indexmap::IndexMap;
use minijinja::Value;
use serde_json::Value as Json;
use url::form_urlencoded;

use super::file::{CallFile, HttpMethod, JobFile, UploadFile};
use super::picture::PictureInput;
use super::template::{BodyTemplate, TemplateError, TemplateScope, TextTemplate, json_to_value, value_to_text};

/// A request to a vendor, below its base URL and without credentials.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::vendors) struct PreparedRequest {
    pub method: HttpMethod,
    /// Path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: PreparedBody,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::vendors) enum PreparedBody {
    Empty,
    Json(Json),
    Form(Vec<FormPart>),
}

/// A part of a multipart form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) struct FormPart {
    pub name: String,
    pub content: FormContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) enum FormContent {
    Text(String),
    File { file_name: String, media_type: &'static str, bytes: Vec<u8> },
}

/// An encoded body with its media type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) struct EncodedBody {
    pub content_type: Option<String>,
    pub bytes: Bytes,
}

impl PreparedRequest {
    /// Builds the submission of a job. `document` is its document, if it has one.
    pub fn submission(
        prefix: &str,
        job: &JobFile,
        document: Option<&Json>,
        scope: &TemplateScope,
    ) -> Result<Self, TemplateError> {
        let mut scope = scope.clone();

        if let Some(document) = document {
            let mut document = document.clone();
            for (pointer, template) in &job.set {
                let Some(value) = template.to_json(&scope)? else { continue };
                let target = document.pointer_mut(pointer);
                *target.ok_or_else(|| TemplateError(format!("the document has nothing at `{pointer}`")))? = value;
            }
            scope.insert("document".to_owned(), json_to_value(&document));
        }

        let headers = job.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let body = build_body(job.json.as_ref(), job.form.as_ref(), &scope)?;
        Ok(Self { method: job.method, path: build_path(prefix, &job.path, &job.query, &scope)?, headers, body })
    }

    /// Builds the upload of a picture.
    pub fn upload(prefix: &str, upload: &UploadFile, scope: &TemplateScope) -> Result<Self, TemplateError> {
        let body = build_body(upload.json.as_ref(), upload.form.as_ref(), scope)?;
        let path = build_path(prefix, &upload.path, &IndexMap::new(), scope)?;
        Ok(Self { method: upload.method, path, headers: Vec::new(), body })
    }

    /// Builds a request other than a submission or an upload.
    pub fn call(prefix: &str, call: &CallFile, scope: &TemplateScope) -> Result<Self, TemplateError> {
        Self::from_parts(prefix, call.method, (&call.path, &call.query), call.json.as_ref(), scope)
    }

    /// Builds a request from its parts.
    pub fn from_parts(
        prefix: &str,
        method: HttpMethod,
        (path_template, query): (&TextTemplate, &IndexMap<String, BodyTemplate>),
        json: Option<&BodyTemplate>,
        scope: &TemplateScope,
    ) -> Result<Self, TemplateError> {
        let path = build_path(prefix, path_template, query, scope)?;
        Ok(Self { method, path, headers: Vec::new(), body: build_body(json, None, scope)? })
    }
}

/// Renders path and query.
fn build_path(
    prefix: &str,
    template: &TextTemplate,
    query: &IndexMap<String, BodyTemplate>,
    scope: &TemplateScope,
) -> Result<String, TemplateError> {
    let mut path = format!("{prefix}{}", template.render_path(scope)?);
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    let mut is_empty = true;

    for (name, template) in query {
        for value in template.to_values(scope)? {
            pairs.append_pair(name, &value_to_text(&value));
            is_empty = false;
        }
    }

    if !is_empty {
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(&pairs.finish());
    }
    Ok(path)
}

/// Renders the JSON body or the form; without both, the body is empty.
fn build_body(
    json: Option<&BodyTemplate>,
    form: Option<&IndexMap<String, BodyTemplate>>,
    scope: &TemplateScope,
) -> Result<PreparedBody, TemplateError> {
    if let Some(template) = json {
        return Ok(template.to_json(scope)?.map_or(PreparedBody::Empty, PreparedBody::Json));
    }
    let Some(fields) = form else { return Ok(PreparedBody::Empty) };

    let mut parts = Vec::new();
    for (name, template) in fields {
        for value in template.to_values(scope)? {
            parts.push(FormPart { name: name.clone(), content: form_content(&value)? });
        }
    }
    Ok(PreparedBody::Form(parts))
}

fn form_content(value: &Value) -> Result<FormContent, TemplateError> {
    let Some(picture) = value.downcast_object_ref::<PictureInput>() else {
        return Ok(FormContent::Text(value_to_text(value)));
    };
    let bytes = picture.bytes().map_err(|error| TemplateError::from(&error))?;
    let media_type = picture.picture.format.media_type();
    Ok(FormContent::File { file_name: picture.picture.file_name(), media_type, bytes })
}

impl PreparedBody {
    /// Encodes the body. `boundary` separates the parts of a form; it must be random, and is extended until no text
    /// contains it.
    pub fn encode(self, boundary: &str) -> EncodedBody {
        match self {
            Self::Empty => EncodedBody { content_type: None, bytes: Bytes::new() },
            Self::Json(json) => {
                EncodedBody { content_type: Some("application/json".to_owned()), bytes: json.to_string().into() }
            }
            Self::Form(parts) => encode_form(parts, boundary),
        }
    }
}

fn encode_form(parts: Vec<FormPart>, boundary: &str) -> EncodedBody {
    let mut boundary = boundary.to_owned();
    let has_boundary = |part: &FormPart, boundary: &str| match &part.content {
        FormContent::Text(text) => text.contains(boundary),
        // A picture was chosen before the boundary, so it contains a random one only by chance.
        FormContent::File { .. } => false,
    };
    while parts.iter().any(|part| has_boundary(part, &boundary)) {
        boundary.push('-');
    }

    let mut body = Vec::new();
    for FormPart { name, content } in parts {
        body.extend_from_slice(format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"").as_bytes());
        match content {
            FormContent::Text(text) => body.extend_from_slice(format!("\r\n\r\n{text}\r\n").as_bytes()),
            FormContent::File { file_name, media_type, bytes } => {
                let head = format!("; filename=\"{file_name}\"\r\nContent-Type: {media_type}\r\n\r\n");
                body.extend_from_slice(head.as_bytes());
                body.extend_from_slice(&bytes);
                body.extend_from_slice(b"\r\n");
            }
        }
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());

    EncodedBody { content_type: Some(format!("multipart/form-data; boundary={boundary}")), bytes: body.into() }
}

/// Documents of jobs by file name.
pub(in crate::vendors) type Documents = IndexMap<String, Arc<Json>>;
