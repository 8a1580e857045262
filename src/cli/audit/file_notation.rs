//! Short notation for files and URLs in events: which file and how large, rather than all its fields.

use serde_json::{Map, Value};

/// Field names of job inputs.
const INPUTS: [&str; 8] = ["input", "image", "images", "reference", "start_image", "key_frames", "url", "clip"];

/// Digits of a shortened hash.
const DIGEST_SHORT: usize = 12;

/// Fields of a stored file. An object with any other field is not a stored file.
const FILE_FIELDS: [&str; 5] = ["digest", "bytes", "format", "width", "height"];

/// Returns `true` if a field, such as `Video.images`, is an input of a job.
pub(super) fn is_input(name: &str) -> bool {
    INPUTS.contains(&name.rsplit('.').next().unwrap_or(name))
}

/// Replaces each file and URL in the fields of an event with its short notation, such as
/// `png:160x160:25964B:30c605eb627d`. `wide` keeps complete hashes.
pub(super) fn shorten_files(data: &Value, wide: bool) -> Value {
    match data {
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), shorten_field(name, member, wide))).collect()
        }
        _ => data.clone(),
    }
}

fn shorten_field(name: &str, value: &Value, wide: bool) -> Value {
    match value {
        Value::Object(members) => {
            file_or_url(name, members, wide).map_or_else(|| shorten_files(value, wide), Value::String)
        }
        Value::Array(entries) => entries.iter().map(|entry| shorten_field(name, entry, wide)).collect(),
        _ => value.clone(),
    }
}

/// Returns the short notation of a stored file or URL; `None` for any other object.
fn file_or_url(name: &str, members: &Map<String, Value>, wide: bool) -> Option<String> {
    // A job input is recorded as `{"Remote": url}` or `{"Kept": file}`.
    if is_input(name) && members.len() == 1 {
        if let Some(url) = members.get("Remote") {
            return url.as_str().map(str::to_owned);
        }
        if let Some(Value::Object(file)) = members.get("Kept") {
            return file_notation(file, wide);
        }
    }
    file_notation(members, wide)
}

/// Returns the short notation of a stored file; `None` if the object is not one.
fn file_notation(file: &Map<String, Value>, wide: bool) -> Option<String> {
    if !file.keys().all(|name| FILE_FIELDS.contains(&name.as_str())) {
        return None;
    }
    let digest = file.get("digest")?.as_str()?;
    let bytes = file.get("bytes")?.as_u64()?;
    let digest = digest.get(..DIGEST_SHORT).filter(|_| !wide).unwrap_or(digest);
    let format = file.get("format").and_then(Value::as_str).map(|format| format!("{format}:"));
    let size = file.get("width").zip(file.get("height")).map(|(width, height)| format!("{width}x{height}:"));
    Some(format!("{}{}{bytes}B:{digest}", format.unwrap_or_default(), size.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_and_urls_have_a_short_notation() {
        let digest = "30c605eb627d8231bd589f0df6ca661ba37b043f1e3fc5f6aa106701c20260c9";
        let picture = json!({"bytes": 259, "digest": digest, "format": "png", "height": 16, "width": 18});
        let input = json!({"image": {"Kept": picture}, "reference": {"Remote": "https://example.org/b.png"}, "seed": 7,
            "key_frames": [{"image": {"Kept": picture}, "seconds": 5}], "payload": {"bytes": 5, "digest": digest},
            "clip": {"bytes": 8, "digest": digest, "format": "mp4"}});

        let expected = json!({"image": "png:18x16:259B:30c605eb627d", "reference": "https://example.org/b.png", "seed": 7,
            "key_frames": [{"image": "png:18x16:259B:30c605eb627d", "seconds": 5}], "payload": "5B:30c605eb627d",
            "clip": "mp4:8B:30c605eb627d"});
        assert_eq!(shorten_files(&input, false), expected);
        let wide = shorten_files(&json!({"results": [picture]}), true);
        assert_eq!(wide, json!({"results": [format!("png:18x16:259B:{digest}")]}));
    }

    #[test]
    fn other_fields_are_not_shortened() {
        let digest = "30c605eb627d8231bd589f0df6ca661ba37b043f1e3fc5f6aa106701c20260c9";
        let archive = json!({"version": "v", "digest": digest, "bytes": 123});
        let translation = json!({"language": "de", "texts": {"Remote": "harmless", "description": "not"}, "image": {"Remote": "a", "x": "b"}});
        let lone_remote = json!({"texts": {"Remote": "harmless"}});
        for data in [archive, translation, lone_remote, json!({"digest": digest, "bytes": 5})] {
            assert_eq!(shorten_files(&data, false), data);
        }
    }

    #[test]
    fn inputs_of_a_job_are_recognized_by_name() {
        for name in ["Video.images", "input", "Image.reference"] {
            assert!(is_input(name), "{name}");
        }
        for name in ["Video.job.StartEnd.prompt", "images.count"] {
            assert!(!is_input(name), "{name}");
        }
    }
}
