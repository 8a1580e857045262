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
        Self { name, path, base_body, reference: None, crop, cells: Vec::new() }.add_cell("as usual", "", json!({}))
    }

    /// Like [`Group::new`], for the close-up of faces.
    fn for_faces(name: &'static str, path: &'static str, base_body: Value) -> Self {
        let crop = PhotographCrop::Close;
        Self { name, path, base_body, reference: None, crop, cells: Vec::new() }.add_cell("as usual", "", json!({}))
    }

    /// Like [`Group::new`], with a second photograph in `field`.
    fn with_reference(name: &'static str, path: &'static str, base_body: Value, field: &'static str) -> Self {
        let reference = Some(field);
        let crop = PhotographCrop::Whole;
        Self { name, path, base_body, reference, crop, cells: Vec::new() }.add_cell("as usual", "", json!({}))
    }

    /// Adds a cell whose body has the fields of `change` in addition to those of all cells.
    fn add_cell(mut self, label: &str, tested_value: &str, change: Value) -> Self {
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

    /// Adds a cell for a value of a field.
    fn add_value_cell(self, field: &str, value: &Value) -> Self {
        let (label, tested_value) = label_and_value(field, value);
        self.add_cell(&label, &tested_value, json!({field: value}))
    }

    /// Adds a cell for a value of a field in `advanced_settings`.
    fn add_advanced_cell(self, field: &str, value: &Value) -> Self {
        let (label, tested_value) = label_and_value(field, value);
        let label = if value.is_string() { format!("{field} {label}") } else { label };
        self.add_cell(&label, &tested_value, json!({"advanced_settings": {"fixed_generation": true, field: value}}))
    }

    /// Adds a cell for each value of a field.
    fn add_value_cells(self, field: &str, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |group, value| group.add_value_cell(field, &value.into()))
    }

    /// Adds two cells for each field, one for each value in `ends`.
    fn add_extreme_cells(self, fields: &[&str], ends: [i64; 2]) -> Self {
        let pairs = fields.iter().flat_map(|field| ends.map(|end| (*field, end)));
        pairs.fold(self, |group, (field, end)| group.add_value_cell(field, &end.into()))
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
        .add_value_cells("engine", UpscaleEngine::ALL[1..].iter().map(|value| value.as_str()))
        .add_value_cells("optimized_for", OptimizedFor::ALL[1..].iter().map(|value| value.as_str()))
        .add_extreme_cells(&["creativity", "hdr", "resemblance", "fractality"], [-10, 10])
}

fn precision() -> Group {
    let default_flavor = PrecisionFlavor::Photo;
    let others = PrecisionFlavor::ALL.iter().filter(|flavor| **flavor != default_flavor);
    Group::new("image-upscaler-precision-v2 2x", PRECISION, json!({"scale_factor": 2}))
        .add_value_cells("flavor", others.map(|value| value.as_str()))
        .add_extreme_cells(&["sharpen", "smart_grain", "ultra_detail"], [0, 100])
}

fn style() -> [Group; 3] {
    let fixed = json!({"fixed_generation": true});
    let presets = Group::new("image-style-transfer", STYLE, fixed.clone())
        .add_value_cells("engine", StyleEngine::ALL[1..].iter().map(|value| value.as_str()))
        .add_value_cells("flavor", StyleFlavor::ALL[1..].iter().map(|value| value.as_str()))
        .add_extreme_cells(&["structure_strength"], [0, 100])
        .add_extreme_cells(&["style_strength"], [0, 50])
        .add_value_cell("prompt", &"warm sunset".into());
    let portrait = Group::for_faces(
        "image-style-transfer, is_portrait",
        STYLE,
        json!({"fixed_generation": true, "is_portrait": true}),
    )
    .add_value_cells("portrait_style", PortraitStyle::ALL[1..].iter().map(|value| value.as_str()))
    .add_value_cells("portrait_beautifier", PortraitBeautifier::ALL.iter().map(|value| value.as_str()));
    let reference = Group::with_reference("image-style-transfer, with a reference", STYLE, fixed, "reference_image")
        .add_extreme_cells(&["structure_strength"], [0, 100])
        .add_extreme_cells(&["style_strength"], [0, 50])
        .add_value_cells("engine", StyleEngine::ALL[1..].iter().map(|value| value.as_str()));
    [presets, portrait, reference]
}

fn skin() -> [Group; 3] {
    // Grain is random for each task: without it, all differences come from the parameters.
    let without_grain = || json!({"smart_grain": 0});
    [
        Group::for_faces("skin-enhancer/creative", CREATIVE, without_grain())
            .add_extreme_cells(&["sharpen", "smart_grain"], [50, 100]),
        Group::for_faces("skin-enhancer/faithful", FAITHFUL, without_grain())
            .add_extreme_cells(&["skin_detail"], [0, 100]),
        Group::for_faces("skin-enhancer/flexible", FLEXIBLE, without_grain())
            .add_value_cells("optimized_for", SkinFocus::ALL[1..].iter().map(|value| value.as_str())),
    ]
}

fn relight() -> [Group; 2] {
    let fixed = json!({"advanced_settings": {"fixed_generation": true}});
    let mut group = Group::new("image-relight", RELIGHT, fixed.clone())
        .add_value_cells("style", RelightStyle::ALL[1..].iter().map(|value| value.as_str()))
        .add_value_cell("prompt", &"blue moonlight from the left".into())
        .add_value_cell("change_background", &false.into())
        .add_value_cell("preserve_details", &false.into())
        .add_value_cell("interpolate_from_original", &true.into())
        .add_value_cell("light_transfer_strength", &0.into());
    for field in ["whites", "blacks", "brightness", "contrast", "saturation"] {
        group = group.add_advanced_cell(field, &0.into()).add_advanced_cell(field, &100.into());
    }
    for engine in &RelightEngine::ALL[1..] {
        group = group.add_advanced_cell("engine", &engine.as_str().into());
    }
    let reference_group =
        Group::with_reference("image-relight, with a reference", RELIGHT, fixed, "transfer_light_from_reference_image");
    let mut reference_group = reference_group
        .add_value_cell("light_transfer_strength", &0.into())
        .add_value_cell("light_transfer_strength", &50.into())
        .add_value_cell("interpolate_from_original", &true.into())
        .add_value_cell("change_background", &false.into())
        .add_value_cell("preserve_details", &false.into());
    for value in &TransferLightA::ALL[1..] {
        reference_group = reference_group.add_advanced_cell("transfer_light_a", &value.as_str().into());
    }
    for value in &TransferLightB::ALL[1..] {
        reference_group = reference_group.add_advanced_cell("transfer_light_b", &value.as_str().into());
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
