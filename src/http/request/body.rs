//! Reception of request bodies: limits of size, speed, content type, JSON depth and element count (contract 10).

use std::ops::Deref;

use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use actix_web::web::{self, Bytes, BytesMut};
use serde_json::Value;

use self::body_budget::BodyCharge;
use self::json_shape::{BodyParseError, JsonShape};
use crate::http::request::body_chunks::BodyChunks;
use crate::http::request::form;
use crate::http::response::error::{Code, Problem};
use crate::media::uploaded_files::UPLOADED_BYTES_MAX;
use crate::quota::Account;

pub mod body_budget;
mod form_body;
pub mod json_shape;

pub use body_budget::BodyBudget;

/// Maximum nesting depth of a JSON body.
pub const DEPTH_MAX: usize = 64;
/// Maximum number of elements of a JSON body, counted by commas and opening brackets.
pub const ELEMENTS_MAX: usize = 100_000;
/// Size in bytes above which JSON is parsed on a blocking thread.
const PARSED_IN_PLACE_BYTES_MAX: usize = 128 * 1024;

/// Maximum size of the other parts of a form with a file, and of the lines between the parts, in bytes.
const FORM_OVERHEAD_BYTES: usize = 64 << 10;

/// Maximum size and format of the body of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLimit {
    /// The route takes no body.
    None,
    /// JSON without images, 2 MiB.
    Json,
    /// JSON with base64 images, or a form with the images as files, 70 MiB.
    Images,
    /// Archive of a version, of any content type, 100 MiB; always streamed.
    Archive,
    /// Form (`multipart/form-data`), 256 KiB.
    Form,
    /// Picture or video, of any content type, 512 MiB; always streamed.
    InputFile,
    /// Form with a picture or video: 512 MiB, plus the other parts of the form; always streamed. A JSON request to the
    /// same route has the limit [`BodyLimit::Json`], see [`BodyLimit::for_headers`].
    InputForm,
}

impl BodyLimit {
    /// All limits.
    #[cfg(test)]
    pub const ALL: [Self; 7] =
        [Self::None, Self::Json, Self::Images, Self::Archive, Self::Form, Self::InputFile, Self::InputForm];

    /// Returns the maximum size as text, such as `2 MiB`.
    #[must_use]
    pub fn size_text(self) -> String {
        match self.bytes() {
            bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
            bytes => format!("{} KiB", bytes >> 10),
        }
    }

    /// Returns the maximum size in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Json => 2 << 20,
            Self::Images => 70 << 20,
            Self::Archive => 100 << 20,
            Self::Form => 256 << 10,
            Self::InputFile => UPLOADED_BYTES_MAX,
            Self::InputForm => UPLOADED_BYTES_MAX + FORM_OVERHEAD_BYTES,
        }
    }

    /// Returns the limit of a request with these headers, whose content type can select a smaller one.
    #[must_use]
    pub fn for_headers(self, headers: &HeaderMap) -> Self {
        if self == Self::InputForm && check_json_type(headers).is_ok() { Self::Json } else { self }
    }

    /// Returns `true` if a form is accepted in place of JSON.
    #[must_use]
    pub const fn takes_form(self) -> bool {
        matches!(self, Self::Images)
    }

    /// Returns `true` if the pipeline handles idempotency keys of requests with this limit. A streamed body is not
    /// available for the comparison with the first request.
    #[must_use]
    pub const fn accepts_idempotency_key(self) -> bool {
        match self {
            Self::None | Self::Json | Self::Images | Self::Form => true,
            Self::Archive | Self::InputFile | Self::InputForm => false,
        }
    }
}

/// Expected body of a route.
#[derive(Debug, Clone, Copy)]
pub struct BodySpec {
    pub limit: BodyLimit,
    /// Known fields; unknown ones are skipped without building a tree.
    pub shape: &'static JsonShape,
}

/// Buffered request body.
pub struct RequestBody {
    bytes: Bytes,
    charge: BodyCharge,
    shape: &'static JsonShape,
    /// Content type of a form that is read like JSON.
    form: Option<HeaderValue>,
}

/// Known fields of a body. They count against the memory budget until dropped.
pub struct JsonBody {
    value: Value,
    charge: BodyCharge,
}

impl Deref for JsonBody {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl JsonBody {
    /// Moves the charge of the fields to the pool of waiting responses. Returns `false` and changes nothing if that
    /// pool is full; then the response must not wait.
    pub fn move_charge_to_waiting(&mut self, budget: &BodyBudget) -> bool {
        match budget.charge_waiting(&self.charge) {
            Ok(waiting_charge) => {
                self.charge = waiting_charge;
                true
            }
            Err(_) => false,
        }
    }
}

impl RequestBody {
    /// Returns the unparsed body.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Parses the body, JSON or a form, on a blocking thread if it is large.
    ///
    /// # Errors
    /// See [`RequestBody::parse`].
    pub async fn json(self) -> Result<JsonBody, Problem> {
        if self.bytes.len() <= PARSED_IN_PLACE_BYTES_MAX {
            return self.parse();
        }
        web::block(move || self.parse()).await.map_err(Problem::internal)?
    }

    /// Parses the known fields of the body. Blocks.
    ///
    /// # Errors
    /// If the body is neither JSON nor a form, is nested too deeply, has too many elements, or exceeds the memory
    /// budget.
    pub fn parse(self) -> Result<JsonBody, Problem> {
        let Self { bytes, mut charge, shape, form } = self;
        let (value, value_bytes) = if let Some(content_type) = form {
            form_body::parse(&content_type, &bytes, shape, &mut charge)?
        } else {
            JsonComplexity::default().add(&bytes)?;
            parse(&bytes, shape, &mut charge)?
        };

        // This function drops the bytes and their charge, unless the caller holds another reference.
        let shared_bytes = if bytes.is_unique() { 0 } else { bytes.len() };
        charge.shrink_to(value_bytes + shared_bytes);
        Ok(JsonBody { value, charge })
    }
}

/// Receives a JSON or form body.
///
/// # Errors
/// If the content type is wrong, if the body is too large, too slow or incomplete, or if the memory budget is
/// exhausted.
pub async fn receive(
    headers: &HeaderMap,
    payload: Payload,
    BodySpec { limit, shape }: BodySpec,
    (budget, account): (&BodyBudget, Account),
) -> Result<RequestBody, Problem> {
    let content_type = headers.get(CONTENT_TYPE);
    let form = content_type.filter(|_| limit.takes_form() && form::is_form(content_type)).cloned();
    if limit == BodyLimit::Form {
        check_form_type(headers, limit)?;
    } else if form.is_none() {
        check_json_type(headers)
            .map_err(|problem| if limit.takes_form() { neither_json_nor_form() } else { problem })?;
    }

    let mut bytes = BytesMut::new();
    let mut charge = budget.charge(limit, account);
    let mut chunks = BodyChunks::new(headers, payload, limit)?;

    while let Some(chunk) = chunks.next().await? {
        charge.grow(chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(RequestBody { bytes: bytes.freeze(), charge, shape, form })
}

/// Checks for JSON in UTF-8. A body without a content type counts as JSON.
fn check_json_type(headers: &HeaderMap) -> Result<(), Problem> {
    let unsupported = |detail| Problem::new(Code::UnsupportedMedia, detail);
    let Some(content_type) = headers.get(CONTENT_TYPE) else { return Ok(()) };

    let content_type = content_type.to_str().unwrap_or_default().to_ascii_lowercase();
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();

    let is_json = essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if !is_json {
        return Err(unsupported("the body must be application/json"));
    }

    let charset = parts.find_map(|part| part.strip_prefix("charset=")).map(|charset| charset.trim_matches('"'));
    match charset {
        None | Some("utf-8" | "utf8") => Ok(()),
        Some(_) => Err(unsupported("the body must be in UTF-8")),
    }
}

fn neither_json_nor_form() -> Problem {
    Problem::new(Code::UnsupportedMedia, "the body must be application/json in UTF-8, or multipart/form-data")
}

/// Checks for `multipart/form-data`.
///
/// # Errors
/// 415; the message also names JSON if the route accepts it.
pub fn check_form_type(headers: &HeaderMap, limit: BodyLimit) -> Result<(), Problem> {
    match limit {
        _ if form::is_form(headers.get(CONTENT_TYPE)) => Ok(()),
        BodyLimit::Form => Err(Problem::new(Code::UnsupportedMedia, "the body must be multipart/form-data")),
        _ => Err(neither_json_nor_form()),
    }
}

/// Complexity of the JSON texts of a body. Rejects texts that would need much more memory than their size once parsed.
#[derive(Default)]
struct JsonComplexity {
    elements: usize,
}

impl JsonComplexity {
    /// Adds a text and rejects the body if it is nested too deeply or has too many elements.
    fn add(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let malformed = |detail: String| Err(Problem::new(Code::MalformedBody, detail));
        let JsonMeasure { depth, elements } = measure_json(bytes);
        self.elements += elements;

        if depth > DEPTH_MAX {
            return malformed(format!("the body is nested deeper than {DEPTH_MAX} levels"));
        }
        if self.elements > ELEMENTS_MAX {
            return malformed(format!("the body has more than {ELEMENTS_MAX} elements"));
        }
        Ok(())
    }
}

fn parse(bytes: &[u8], shape: &JsonShape, charge: &mut BodyCharge) -> Result<(Value, usize), Problem> {
    if bytes.is_empty() {
        return Err(Problem::new(Code::MalformedBody, "the request has no body; a JSON body is required"));
    }
    json_shape::parse(bytes, shape, charge).map_err(|failure| match failure {
        BodyParseError::OverBudget(problem) => problem,
        BodyParseError::NotJson(error) => {
            Problem::new(Code::MalformedBody, format!("the body is not valid JSON: {error}"))
        }
    })
}

/// Complexity of one JSON text.
#[derive(Debug, PartialEq, Eq)]
struct JsonMeasure {
    /// Maximum nesting depth.
    depth: usize,
    /// Upper bound of the number of elements.
    elements: usize,
}

/// Measures a JSON text without parsing it. An element follows a comma or an opening bracket outside of strings.
fn measure_json(bytes: &[u8]) -> JsonMeasure {
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut elements = 0;
    let mut in_string = false;
    let mut escaped = false;

    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                elements += 1;
            }
            b',' if !in_string => elements += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }

    JsonMeasure { depth: deepest, elements }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: impl Into<Bytes>) -> RequestBody {
        RequestBody { bytes: text.into(), charge: charge(&BodyBudget::default()), shape: &JsonShape::Whole, form: None }
    }

    fn charge(budget: &BodyBudget) -> BodyCharge {
        budget.charge(BodyLimit::Json, Account::from_address([192, 0, 2, 1].into()))
    }

    #[test]
    fn the_documented_body_limits_are_current() {
        let page = include_str!("../../../docs/errors.md").split("## Body limits").nth(1).unwrap();
        let section = page.split("\n## ").next().unwrap();
        for limit in BodyLimit::ALL.into_iter().filter(|limit| *limit != BodyLimit::None) {
            assert!(section.contains(&format!("| {}", limit.size_text())), "{limit:?}: {section}");
        }
    }

    #[test]
    fn json_complexity_ignores_strings() {
        let measure = measure_json(br#"{"a": ["[[[,", "\",[", {"b": []}]}"#);
        assert_eq!(measure, JsonMeasure { depth: 4, elements: 6 });
        assert_eq!(measure_json(b"]]]["), JsonMeasure { depth: 1, elements: 1 });
    }

    #[test]
    fn sixty_four_levels_are_allowed() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(body(nested(64)).parse().is_ok());
        assert!(body(nested(65)).parse().is_err());
    }

    #[test]
    fn a_hundred_thousand_elements_are_allowed() {
        let list = |elements: usize| format!("[0{}]", ",0".repeat(elements - 1));
        assert_eq!(body(list(100_000)).parse().ok().and_then(|json| Some(json.as_array()?.len())), Some(100_000));
        let problem = body(list(100_001)).parse().err().expect("too many elements");
        assert_eq!(problem.code(), Code::MalformedBody);
        assert_eq!(problem.to_string(), "the body has more than 100000 elements");
    }

    #[test]
    fn parsed_fields_stay_charged_and_raw_bytes_are_released() {
        let budget = BodyBudget::default();
        let mut charge = charge(&budget);
        charge.grow(5).unwrap();
        let json = RequestBody { bytes: Bytes::from(b"[1,2]".to_vec()), charge, shape: &JsonShape::Whole, form: None }
            .parse()
            .expect("JSON");
        assert_eq!(budget.held_bytes(), [2 * 64, 0, 0]);
        drop(json);
        assert_eq!(budget.held_bytes(), [0; 3]);
    }

    #[test]
    fn fields_of_waiting_requests_move_to_another_pool() {
        let budget = BodyBudget::default();
        let body = RequestBody {
            bytes: Bytes::from(b"[1,2]".to_vec()),
            charge: charge(&budget),
            shape: &JsonShape::Whole,
            form: None,
        };
        let mut json = body.parse().expect("JSON");
        assert!(json.move_charge_to_waiting(&budget));
        assert_eq!(budget.held_bytes(), [0, 0, 2 * 64]);
    }

    #[test]
    fn syntax_errors_have_line_and_column() {
        let parse = |bytes: &'static [u8]| body(bytes).parse().map(drop);
        let detail = parse(b"{\n  \"a\": x}").unwrap_err().to_string();
        assert!(detail.ends_with("line 2 column 8"), "{detail}");
        assert!(parse(b"").is_err() && parse(b"{} x").is_err() && parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn only_json_content_types_are_accepted() {
        let is_accepted = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            check_json_type(&headers).is_ok()
        };
        for good in ["application/json", "Application/JSON; charset=UTF-8", "application/merge-patch+json"] {
            assert!(is_accepted(good), "{good}");
        }

        for bad in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "x+json"] {
            assert!(!is_accepted(bad), "{bad}");
        }
        assert!(check_json_type(&HeaderMap::new()).is_ok());
    }
}
