//! What was asked for with a task, for people: its kind, what it is made from, every parameter. Files are a word each.

use serde_json::{Map, Value};

use super::input::in_words;

/// What was asked for.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    /// The names of its kind, such as `Image` and `Upscale`.
    pub(super) kind: Vec<String>,
    /// Each by the way to it; what it is made from comes first.
    pub(super) fields: Vec<(Vec<String>, Value)>,
}

/// What the data of an event ask for, if they are those of a submission; hashes are whole where that is wanted.
pub(super) fn asked(data: &Value, whole: bool) -> Option<Asked> {
    let mut asked = Asked { kind: Vec::new(), fields: Vec::new() };
    let inside = variant(data.get("work")?, &mut asked.kind)?;
    let Value::Object(mut inside) = in_words(&Value::Object(inside.clone()), whole) else { return None };
    // The oldest kind has kept its shape: one name and `input`.
    if asked.kind == ["ImageUpscale"] {
        asked.kind = ["Image", "Upscale"].map(str::to_owned).to_vec();
        let picture = inside.remove("input").unwrap_or_default();
        inside.insert("image".to_owned(), picture);
    }
    // The parameters stand in a job of their own kind; older events have them beside the picture.
    let job = inside.remove("job");
    let job = job.as_ref().and_then(|job| variant(job, &mut asked.kind)).cloned().map(Value::Object);
    let parameters = inside.remove("parameters").or(job).unwrap_or_default();
    for part in [Value::Object(inside), parameters] {
        collect(&mut Vec::new(), part, &mut asked.fields);
    }
    if let Some(webhook) = data.get("webhook") {
        asked.fields.push((vec!["webhook".to_owned()], webhook.clone()));
    }
    Some(asked)
}

/// The fields of `{"Variant": {…}}`.
fn variant<'v>(value: &'v Value, kind: &mut Vec<String>) -> Option<&'v Map<String, Value>> {
    let (name, inside) = value.as_object()?.iter().next()?;
    kind.push(name.clone());
    inside.as_object()
}

fn collect(way: &mut Vec<String>, value: Value, fields: &mut Vec<(Vec<String>, Value)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                way.push(name);
                collect(way, member, fields);
                way.pop();
            }
        }
        Value::Null => {}
        value => fields.push((way.clone(), value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(data: &Value) -> (String, Vec<String>) {
        let Asked { kind, fields } = asked(data, false).unwrap();
        let fields = fields.into_iter().map(|(way, value)| format!("{}={value}", way.join(".")));
        (kind.join(" "), fields.collect())
    }

    #[test]
    fn a_submission_tells_its_kind_what_it_is_made_from_and_its_parameters() {
        let picture = json!({"bytes": 259, "digest": "3".repeat(64), "format": "png", "height": 16, "width": 18});
        let word = "\"png:18x16:259B:333333333333\"";
        let old = json!({"task": "t", "work": {"ImageUpscale": {"input": picture, "parameters": {"hdr": 0}}}});
        let job = json!({"Relight": {"prompt": "dusk", "advanced": {"engine": "Soft"}}});
        let new = json!({"webhook": "https://a.example/", "work": {"Image": {"image": {"Kept": picture}, "job": job}}});
        let music = json!({"work": {"Music": {"prompt": "waltz", "seconds": 20}}});

        assert_eq!(told(&old), ("Image Upscale".to_owned(), vec![format!("image={word}"), "hdr=0".to_owned()]));
        let fields =
            [&format!("image={word}"), "advanced.engine=\"Soft\"", "prompt=\"dusk\"", "webhook=\"https://a.example/\""];
        assert_eq!(told(&new), ("Image Relight".to_owned(), fields.map(str::to_owned).to_vec()));
        let fields = ["prompt=\"waltz\"", "seconds=20"];
        assert_eq!(told(&music), ("Music".to_owned(), fields.map(str::to_owned).to_vec()));
    }

    #[test]
    fn other_events_ask_for_nothing() {
        for data in [json!({}), json!({"work": "x"}), json!({"publisher": "acme"})] {
            assert_eq!(asked(&data, false), None, "{data}");
        }
    }
}
