//! Cells of the sheet: every preset and both ends of every parameter of the image jobs.

use serde_json::{Map, Value, json};

use mediary::domain::image::{
    OptimizedFor, PortraitBeautifier, PortraitStyle, PrecisionFlavor, RelightEngine, RelightStyle, SkinFocus,
    StyleEngine, StyleFlavor, TransferLightA, TransferLightB, UpscaleEngine,
};

/// Job of one cell.
pub struct Cell {
    pub group: &'static str,
    pub label: String,
    /// Endpoint of the job.
    pub path: &'static str,
    /// Request body without pictures.
    pub body: Map<String, Value>,
    /// Field for a second photograph, if any.
    pub reference: Option<&'static str>,
    /// `true` if the others of the group are compared with this cell.
    pub is_baseline: bool,
    /// Tested field, or field value for enumerations; empty for the default cell.
    pub tested_value: String,
    /// Part of the photograph that is submitted.
    pub crop: PhotographCrop,
}

/// Part of a photograph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhotographCrop {
    Whole,
    /// Close-up of faces or letters.
    Close,
    /// Small detail for upscaling.
    Detail,
}

const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";
const PRECISION: &str = "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2";
const STYLE: &str = "/proxy/imagevendor/v1/ai/image-style-transfer";
const CREATIVE: &str = "/proxy/imagevendor/v1/ai/skin-enhancer/creative";
const FAITHFUL: &str = "/proxy/imagevendor/v1/ai/skin-enhancer/faithful";
const FLEXIBLE: &str = "/proxy/imagevendor/v1/ai/skin-enhancer/flexible";
const RELIGHT: &str = "/proxy/imagevendor/v1/ai/image-relight";

/// Builder for the cells of a group.
struct Group {
    name: &'static str,
    path: &'static str,
    /// Fields of all cells.
    base_body: Value,
    reference: Option<&'static str>,
    crop: PhotographCrop,
    cells: Vec<Cell>,
}

impl Group {
    fn new(name: &'static str, path: &'static str, base_body: Value) -> Self {
        let crop = if path == UPSCALER || path == PRECISION { PhotographCrop::Detail } else { PhotographCrop::Whole };
        Self { name, path, base_body, reference: None, crop, cells: Vec::new() }.cell("as usual", "", json!({}))
    }

    /// Uses the close-up.
    fn for_faces(name: &'static str, path: &'static str, base_body: Value) -> Self {
        let crop = PhotographCrop::Close;
        Self { name, path, base_body, reference: None, crop, cells: Vec::new() }.cell("as usual", "", json!({}))
    }

    /// Adds a second photograph in this field.
    fn with_reference(name: &'static str, path: &'static str, base_body: Value, field: &'static str) -> Self {
        let reference = Some(field);
        let crop = PhotographCrop::Whole;
        Self { name, path, base_body, reference, crop, cells: Vec::new() }.cell("as usual", "", json!({}))
    }

    fn cell(mut self, label: &str, tested_value: &str, change: Value) -> Self {
        let objects = [self.base_body.clone(), change].into_iter().filter_map(|value| value.as_object().cloned());
        let body = objects.flatten().collect();
        let group = self.name;
        let label = label.to_owned();
        let reference = self.reference;
        let is_baseline = tested_value.is_empty();
        let tested_value = tested_value.to_owned();
        let crop = self.crop;
        self.cells.push(Cell { group, label, path: self.path, body, reference, is_baseline, tested_value, crop });
        self
    }

    fn set(self, field: &str, value: &Value) -> Self {
        let (label, tested_value) = label_and_value(field, value);
        self.cell(&label, &tested_value, json!({field: value}))
    }

    fn advanced(self, field: &str, value: &Value) -> Self {
        let (label, tested_value) = label_and_value(field, value);
        let label = if value.is_string() { format!("{field} {label}") } else { label };
        self.cell(&label, &tested_value, json!({"advanced_settings": {"fixed_generation": true, field: value}}))
    }

    /// Adds a cell for every value except the default.
    fn cell_per_value(self, field: &str, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |group, value| group.set(field, &value.into()))
    }

    fn extremes(self, fields: &[&str], ends: [i64; 2]) -> Self {
        let pairs = fields.iter().flat_map(|field| ends.map(|end| (*field, end)));
        pairs.fold(self, |group, (field, end)| group.set(field, &end.into()))
    }
}

/// Returns the caption of a cell and the field or field value that it tests.
fn label_and_value(field: &str, value: &Value) -> (String, String) {
    match value.as_str() {
        Some(text) => (text.to_owned(), format!("{field} {text}")),
        None => (format!("{field} {value}"), field.to_owned()),
    }
}

/// Returns all cells by group.
pub fn cells() -> Vec<Cell> {
    let groups = [upscaler(), precision()].into_iter().chain(style()).chain(skin()).chain(relight());
    groups.flat_map(|group| group.cells).collect()
}

fn upscaler() -> Group {
    Group::new("image-upscaler 2x", UPSCALER, json!({"scale_factor": "2x"}))
        .cell_per_value("engine", UpscaleEngine::ALL[1..].iter().map(|value| value.as_str()))
        .cell_per_value("optimized_for", OptimizedFor::ALL[1..].iter().map(|value| value.as_str()))
        .extremes(&["creativity", "hdr", "resemblance", "fractality"], [-10, 10])
}

fn precision() -> Group {
    let default_flavor = PrecisionFlavor::Photo;
    let others = PrecisionFlavor::ALL.iter().filter(|flavor| **flavor != default_flavor);
    Group::new("image-upscaler-precision-v2 2x", PRECISION, json!({"scale_factor": 2}))
        .cell_per_value("flavor", others.map(|value| value.as_str()))
        .extremes(&["sharpen", "smart_grain", "ultra_detail"], [0, 100])
}

fn style() -> [Group; 3] {
    let fixed = json!({"fixed_generation": true});
    let presets = Group::new("image-style-transfer", STYLE, fixed.clone())
        .cell_per_value("engine", StyleEngine::ALL[1..].iter().map(|value| value.as_str()))
        .cell_per_value("flavor", StyleFlavor::ALL[1..].iter().map(|value| value.as_str()))
        .extremes(&["structure_strength"], [0, 100])
        .extremes(&["style_strength"], [0, 50])
        .set("prompt", &"warm sunset".into());
    let portrait = Group::for_faces(
        "image-style-transfer, is_portrait",
        STYLE,
        json!({"fixed_generation": true, "is_portrait": true}),
    )
    .cell_per_value("portrait_style", PortraitStyle::ALL[1..].iter().map(|value| value.as_str()))
    .cell_per_value("portrait_beautifier", PortraitBeautifier::ALL.iter().map(|value| value.as_str()));
    let reference = Group::with_reference("image-style-transfer, with a reference", STYLE, fixed, "reference_image")
        .extremes(&["structure_strength"], [0, 100])
        .extremes(&["style_strength"], [0, 50])
        .cell_per_value("engine", StyleEngine::ALL[1..].iter().map(|value| value.as_str()));
    [presets, portrait, reference]
}

fn skin() -> [Group; 3] {
    // Grain is random for each task: without it, all differences come from the parameters.
    let without_grain = || json!({"smart_grain": 0});
    [
        Group::for_faces("skin-enhancer/creative", CREATIVE, without_grain())
            .extremes(&["sharpen", "smart_grain"], [50, 100]),
        Group::for_faces("skin-enhancer/faithful", FAITHFUL, without_grain()).extremes(&["skin_detail"], [0, 100]),
        Group::for_faces("skin-enhancer/flexible", FLEXIBLE, without_grain())
            .cell_per_value("optimized_for", SkinFocus::ALL[1..].iter().map(|value| value.as_str())),
    ]
}

fn relight() -> [Group; 2] {
    let fixed = json!({"advanced_settings": {"fixed_generation": true}});
    let mut group = Group::new("image-relight", RELIGHT, fixed.clone())
        .cell_per_value("style", RelightStyle::ALL[1..].iter().map(|value| value.as_str()))
        .set("prompt", &"blue moonlight from the left".into())
        .set("change_background", &false.into())
        .set("preserve_details", &false.into())
        .set("interpolate_from_original", &true.into())
        .set("light_transfer_strength", &0.into());
    for field in ["whites", "blacks", "brightness", "contrast", "saturation"] {
        group = group.advanced(field, &0.into()).advanced(field, &100.into());
    }
    for engine in &RelightEngine::ALL[1..] {
        group = group.advanced("engine", &engine.as_str().into());
    }
    let reference_group =
        Group::with_reference("image-relight, with a reference", RELIGHT, fixed, "transfer_light_from_reference_image");
    let mut reference_group = reference_group
        .set("light_transfer_strength", &0.into())
        .set("light_transfer_strength", &50.into())
        .set("interpolate_from_original", &true.into())
        .set("change_background", &false.into())
        .set("preserve_details", &false.into());
    for value in &TransferLightA::ALL[1..] {
        reference_group = reference_group.advanced("transfer_light_a", &value.as_str().into());
    }
    for value in &TransferLightB::ALL[1..] {
        reference_group = reference_group.advanced("transfer_light_b", &value.as_str().into());
    }
    [group, reference_group]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_one_baseline_and_no_duplicate_cells() {
        let cells = cells();
        for cell in &cells {
            let group = || cells.iter().filter(|other| other.group == cell.group);
            assert_eq!(group().filter(|other| other.is_baseline).count(), 1, "{}", cell.group);
            let same = |other: &&Cell| other.body == cell.body && !other.is_baseline;
            assert!(group().filter(same).count() <= 1, "{}: {}", cell.group, cell.label);
        }
    }
}
