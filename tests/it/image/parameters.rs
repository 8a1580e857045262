//! Parameters of all image jobs, as the OpenAPI document lists them: every value makes a visible difference.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt, stream};
use image::{RgbImage, imageops};
use serde_json::{Map, Value, json};

use super::{PRECISION, RELIGHT, SKIN, STYLE, UPSCALER, result_of, submit, wait_for_end};
use crate::support::{TestApp, TestUser};

const DESCRIPTION: &str = include_str!("../../../openapi.json");
/// Threshold of visibility: mean difference of two pictures, in steps of 255.
const VISIBLE: f64 = 0.2;
/// Number of concurrent jobs.
const AT_ONCE: usize = 4;

/// Fields that need not change the pixels of a result, with the reason.
const EXCLUDED: [(&str, &str); 4] = [
    ("image", "the input of every job"),
    ("webhook_url", "receives the result"),
    ("scale_factor", "changes the size: mediary_engine tests every factor"),
    ("fixed_generation", "fixes the seed: image::results tests it"),
];

/// Job that tries one value.
struct Trial {
    path: &'static str,
    name: String,
    body: Value,
    /// Body without the value, for comparison.
    default_body: Value,
}

/// Returns a detail of a photograph in the repository, as base64.
fn photograph(name: &str, [left, top, width, height]: [u32; 4]) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/photographs").join(name);
    let full_picture = image::load_from_memory(&std::fs::read(path).unwrap()).unwrap().into_rgb8();
    let mut png = std::io::Cursor::new(Vec::new());
    let part = imageops::crop_imm(&full_picture, left, top, width, height).to_image();
    part.write_to(&mut png, image::ImageFormat::Png).unwrap();
    STANDARD.encode(png.into_inner()).into()
}

/// Returns the other fields that a field needs to have an effect, with a fixed seed.
fn with_neighbour(path: &str, field: &str, other: &Value) -> Value {
    match (path, field) {
        (UPSCALER, _) => json!({}),
        (PRECISION, "smart_grain") => json!({"ultra_detail": 0}),
        (STYLE, "portrait_style" | "portrait_beautifier") => json!({"fixed_generation": true, "is_portrait": true}),
        (STYLE, _) => json!({"fixed_generation": true}),
        (RELIGHT, "transfer_light_from_reference_image" | "transfer_light_from_lightmap" | "prompt" | "style") => {
            json!({"advanced_settings": {"fixed_generation": true}})
        }
        (RELIGHT, _) => {
            json!({"advanced_settings": {"fixed_generation": true}, "transfer_light_from_reference_image": other})
        }
        _ => json!({"smart_grain": 0}),
    }
}

/// Returns the values of a field to compare with its default: all others of an enumeration; the ends of a range, except
/// one within a tenth of the range from the default.
fn values(field: &str, schema: &Value, other: &Value) -> Vec<Value> {
    if let (Some(minimum), Some(maximum), Some(default)) =
        (schema["minimum"].as_i64(), schema["maximum"].as_i64(), schema["default"].as_i64())
    {
        let is_far_from_default = |end: &i64| 10 * (end - default).abs() > maximum - minimum;
        return [minimum, maximum].into_iter().filter(is_far_from_default).map(Value::from).collect();
    }
    // A nullable field is an enumeration or null.
    let form = schema["anyOf"].get(0).unwrap_or(schema);
    let candidates = match (&form["enum"], &schema["default"]) {
        (Value::Array(allowed), _) => allowed.clone(),
        (_, Value::Bool(default)) => vec![(!default).into()],
        _ if field == "prompt" => vec!["warm sunset".into()],
        _ => vec![other.clone()],
    };
    candidates.into_iter().filter(|value| *value != schema["default"]).collect()
}

fn with_field(body: &Value, field: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[field] = value;
    body
}

/// Returns every value of every field of the body at `path`.
fn trials(path: &'static str, fields: &Map<String, Value>, other: &Value) -> Vec<Trial> {
    let is_excluded = |field: &str| EXCLUDED.iter().any(|(excluded, _)| *excluded == field);
    let mut trials = Vec::new();
    for (field, schema) in fields.iter().filter(|(field, _)| !is_excluded(field)) {
        let default_body = with_neighbour(path, field, other);
        let mut add = |name: &str, value: &Value, body: Value| {
            let value_text: String = value.to_string().chars().take(30).collect();
            let name = format!("{path} {name} {value_text}");
            trials.push(Trial { path, name, body, default_body: default_body.clone() });
        };

        let Some(inner) = schema["properties"].as_object() else {
            for value in values(field, schema, other) {
                add(field, &value, with_field(&default_body, field, value.clone()));
            }
            continue;
        };

        // An object is tried with every value of each of its fields.
        for (name, schema) in inner.iter().filter(|(name, _)| *name != "fixed_generation") {
            for value in values(name, schema, other) {
                let object = with_field(&default_body[field], name, value.clone());
                add(name, &value, with_field(&default_body, field, object));
            }
        }
    }
    trials
}

async fn render(app: &TestApp, user: &TestUser, path: &str, body: &Value, picture: &Value) -> RgbImage {
    let family = if path.starts_with(SKIN) { SKIN } else { path };
    let task = submit(app, user, path, with_field(body, "image", picture.clone())).await;
    let file = result_of(app, &wait_for_end(app, user, family, &task).await).await;
    image::load_from_memory(&file).unwrap().into_rgb8()
}

/// Returns the mean over all samples, in steps of 255.
fn difference(first: &RgbImage, other: &RgbImage) -> f64 {
    assert_eq!(first.dimensions(), other.dimensions());
    let sum: u64 = first.as_raw().iter().zip(other.as_raw()).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    #[expect(clippy::cast_precision_loss, reason = "small pictures")]
    let mean = sum as f64 / first.as_raw().len() as f64;
    mean
}

#[actix_web::test]
async fn every_parameter_value_changes_the_result() {
    // Given a face, another picture, and the OpenAPI schema of each endpoint
    let face = photograph("portrait.jpg", [184, 84, 80, 96]);
    let other = photograph("fur.jpg", [120, 60, 96, 72]);
    let document: Value = serde_json::from_str(DESCRIPTION).unwrap();
    let modes = ["creative", "faithful", "flexible"].map(|mode| &*format!("{SKIN}/{mode}").leak());
    let mut compared = Vec::new();
    for path in [UPSCALER, PRECISION, STYLE, RELIGHT].into_iter().chain(modes) {
        let body = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let name = body.as_str().unwrap().strip_prefix("#/components/schemas/").unwrap();
        let fields = document["components"]["schemas"][name]["properties"].as_object().unwrap();
        compared.extend(trials(path, fields, &other));
    }
    assert!(compared.len() > 80, "only {} values were found", compared.len());

    // When each value is tried
    let app = TestApp::start().await;
    let user = app.user("alice").await;
    let mut default_pictures: Vec<(&str, &Value, RgbImage)> = Vec::new();
    for trial in &compared {
        if !default_pictures.iter().any(|(path, body, _)| *path == trial.path && *body == &trial.default_body) {
            default_pictures.push((
                trial.path,
                &trial.default_body,
                render(&app, &user, trial.path, &trial.default_body, &face).await,
            ));
        }
    }
    let results = stream::iter(&compared).map(|trial| render(&app, &user, trial.path, &trial.body, &face));
    let results: Vec<RgbImage> = results.buffered(AT_ONCE).collect().await;

    // Then each makes a visible difference
    let unseen: Vec<_> = compared
        .iter()
        .zip(&results)
        .filter_map(|(trial, result)| {
            let (.., before) =
                default_pictures.iter().find(|(path, body, _)| *path == trial.path && *body == &trial.default_body)?;
            let difference = difference(before, result);
            (difference < VISIBLE).then(|| format!("{}: {difference:.2}", trial.name))
        })
        .collect();
    assert!(unseen.is_empty(), "of {} values these are not seen:\n{}", compared.len(), unseen.join("\n"));
    app.stop().await;
}
