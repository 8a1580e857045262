//! Places the input files of a command in the fields of a job.

use serde_json::{Map, Value, json};

/// Fields of the second picture of an image job.
const REFERENCE_FIELDS: [&str; 2] = ["reference_image", "transfer_light_from_reference_image"];

/// Returns the fields of a job that hold `files`, which are base64 or URLs in the order of the command line.
/// `has(name)` returns `true` if the job has a field called `name`.
///
/// # Errors
/// If the job does not take that many files.
pub(super) fn place_files(has: impl Fn(&str) -> bool, files: Vec<Value>) -> Result<Map<String, Value>, String> {
    let count = files.len();
    let mut fields = Map::new();
    let mut files = files.into_iter();
    let Some(first) = files.next() else { return Ok(fields) };
    let reference = REFERENCE_FIELDS.into_iter().find(|name| has(name));

    if has("video_url") {
        // The pictures of an extension come after the video.
        fields.insert("video_url".to_owned(), first);
        let images: Vec<_> = files.by_ref().collect();
        if !images.is_empty() {
            fields.insert("images".to_owned(), images.into());
        }
    } else if has("image_settings") {
        // The first frame of the video is the first key frame, which is the default of `start_image`.
        let frames = std::iter::once(first).chain(files.by_ref()).map(|file| json!({"key_image": file}));
        fields.insert("image_settings".to_owned(), frames.collect());
    } else if has("images") {
        let images = std::iter::once(first).chain(files.by_ref());
        fields.insert("images".to_owned(), images.collect());
    } else if has("image") {
        fields.insert("image".to_owned(), first);
        if let Some(reference) = reference
            && let Some(second) = files.next()
        {
            fields.insert(reference.to_owned(), second);
        }
    } else {
        return Err("the job takes no file".to_owned());
    }

    match files.len() {
        0 => Ok(fields),
        unused => Err(format!("the job takes {} of these {count} files", count - unused)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(names: &[&str], count: usize) -> Result<Value, String> {
        let files = ["a", "b", "c"][..count].iter().map(|file| Value::from(*file)).collect();
        place_files(|name| names.contains(&name), files).map(Value::Object)
    }

    #[test]
    fn files_are_placed_by_the_fields_of_the_job() {
        assert_eq!(place(&["image"], 1), Ok(json!({"image": "a"})));
        assert_eq!(place(&["image", "reference_image"], 2), Ok(json!({"image": "a", "reference_image": "b"})));
        assert_eq!(place(&["images"], 2), Ok(json!({"images": ["a", "b"]})));
        assert_eq!(place(&["video_url", "images"], 1), Ok(json!({"video_url": "a"})));
        assert_eq!(place(&["video_url", "images"], 2), Ok(json!({"video_url": "a", "images": ["b"]})));
        let frames = json!({"image_settings": [{"key_image": "a"}, {"key_image": "b"}]});
        assert_eq!(place(&["start_image", "image_settings"], 2), Ok(frames));
        assert_eq!(place(&["prompt"], 0), Ok(json!({})));
    }

    #[test]
    fn too_many_files_are_an_error() {
        assert_eq!(place(&["prompt"], 1), Err("the job takes no file".to_owned()));
        assert_eq!(place(&["image"], 2), Err("the job takes 1 of these 2 files".to_owned()));
        assert_eq!(place(&["image", "reference_image"], 3), Err("the job takes 2 of these 3 files".to_owned()));
    }
}
