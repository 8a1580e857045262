//! Files and addresses that an event names, a word each: people want to know which ones, and how large, not every field of them.

use serde_json::{Map, Value};

/// What a job is given, by the names of the fields.
const INPUTS: [&str; 8] = ["input", "image", "images", "reference", "start_image", "key_frames", "url", "clip"];

/// Digits of a hash that tell files apart.
const DIGEST_SHORT: usize = 12;

/// Whether a field, such as `Video.images`, is what a job is given.
pub(super) fn is_input(name: &str) -> bool {
    INPUTS.contains(&name.rsplit('.').next().unwrap_or(name))
}

/// The same with a word for each file and each address: `png:160x160:25964B:30c605eb627d`. Hashes are whole when that is wanted.
pub(super) fn in_words(value: &Value, whole: bool) -> Value {
    match value {
        Value::Object(members) => word(members, whole).map_or_else(
            || members.iter().map(|(name, member)| (name.clone(), in_words(member, whole))).collect(),
            Value::String,
        ),
        Value::Array(entries) => entries.iter().map(|entry| in_words(entry, whole)).collect(),
        plain => plain.clone(),
    }
}

/// The word for a file that is kept, or for an address; nothing for anything else.
fn word(members: &Map<String, Value>, whole: bool) -> Option<String> {
    if let Some(address) = members.get("Remote") {
        return address.as_str().map(str::to_owned);
    }
    let file = members.get("Kept").and_then(Value::as_object).unwrap_or(members);
    let (digest, bytes) = (file.get("digest")?.as_str()?, file.get("bytes")?.as_u64()?);
    let digest = digest.get(..DIGEST_SHORT).filter(|_| !whole).unwrap_or(digest);
    let format = file.get("format").and_then(Value::as_str).map(|format| format!("{format}:"));
    let size = file.get("width").zip(file.get("height")).map(|(width, height)| format!("{width}x{height}:"));
    Some(format!("{}{}{bytes}B:{digest}", format.unwrap_or_default(), size.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_and_addresses_are_a_word_each() {
        let digest = "30c605eb627d8231bd589f0df6ca661ba37b043f1e3fc5f6aa106701c20260c9";
        let picture = json!({"bytes": 259, "digest": digest, "format": "png", "height": 16, "width": 18});
        let given = json!({"image": {"Kept": picture}, "reference": {"Remote": "https://example.org/b.png"}, "seed": 7,
            "key_frames": [{"image": {"Kept": picture}, "seconds": 5}], "payload": {"bytes": 5, "digest": digest},
            "clip": {"bytes": 8, "digest": digest, "format": "mp4"}});

        let expected = json!({"image": "png:18x16:259B:30c605eb627d", "reference": "https://example.org/b.png", "seed": 7,
            "key_frames": [{"image": "png:18x16:259B:30c605eb627d", "seconds": 5}], "payload": "5B:30c605eb627d",
            "clip": "mp4:8B:30c605eb627d"});
        assert_eq!(in_words(&given, false), expected);
        assert_eq!(in_words(&picture, true), json!(format!("png:18x16:259B:{digest}")));
    }

    #[test]
    fn what_a_job_is_given_is_told_by_its_name() {
        assert!(is_input("Video.images") && is_input("input") && is_input("Image.reference"));
        assert!(!is_input("Video.job.StartEnd.prompt") && !is_input("images.count"));
    }
}
