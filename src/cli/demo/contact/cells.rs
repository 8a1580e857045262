//! Every preset and both ends of every parameter of the image jobs: one cell of the sheet each.

use serde_json::{Map, Value, json};

use crate::domain::image::{
    OptimizedFor, PortraitBeautifier, PortraitStyle, PrecisionFlavor, RelightEngine, RelightStyle, SkinFocus,
    StyleEngine, StyleFlavor, TransferLightA, TransferLightB, UpscaleEngine,
};

/// What is asked for in one cell.
pub struct Cell {
    pub group: &'static str,
    pub label: String,
    /// Where it is submitted.
    pub path: &'static str,
    /// The body without its pictures.
    pub body: Map<String, Value>,
    /// The field in which another photograph is given, if one is.
    pub reference: Option<&'static str>,
    /// Whether it is the one with which the others of its group are compared.
    pub is_usual: bool,
    /// Whether a part of the photograph is scaled up.
    pub enlarges: bool,
}

const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";
const PRECISION: &str = "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2";
const STYLE: &str = "/proxy/imagevendor/v1/ai/image-style-transfer";
const CREATIVE: &str = "/proxy/imagevendor/v1/ai/skin-enhancer/creative";
const FAITHFUL: &str = "/proxy/imagevendor/v1/ai/skin-enhancer/faithful";
const FLEXIBLE: &str = "/proxy/imagevendor/v1/ai/skin-enhancer/flexible";
const RELIGHT: &str = "/proxy/imagevendor/v1/ai/image-relight";

/// Collects the cells of one group.
struct Group {
    name: &'static str,
    path: &'static str,
    /// What all of them ask for.
    usual: Value,
    reference: Option<&'static str>,
    cells: Vec<Cell>,
}

impl Group {
    fn new(name: &'static str, path: &'static str, usual: Value) -> Self {
        Self { name, path, usual, reference: None, cells: Vec::new() }.cell("as usual", json!({}), true)
    }

    /// The same with another photograph in this field.
    fn with_reference(name: &'static str, path: &'static str, usual: Value, field: &'static str) -> Self {
        Self { name, path, usual, reference: Some(field), cells: Vec::new() }.cell("as usual", json!({}), true)
    }

    fn cell(mut self, label: &str, change: Value, is_usual: bool) -> Self {
        let objects = [self.usual.clone(), change].into_iter().filter_map(|value| value.as_object().cloned());
        let body = objects.flatten().collect();
        let enlarges = self.path == UPSCALER || self.path == PRECISION;
        let (group, label, reference) = (self.name, label.to_owned(), self.reference);
        self.cells.push(Cell { group, label, path: self.path, body, reference, is_usual, enlarges });
        self
    }

    fn set(self, field: &str, value: &Value) -> Self {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let label = if value.is_string() { shown } else { format!("{field} {shown}") };
        self.cell(&label, json!({field: value}), false)
    }

    /// Every value that is not the usual one.
    fn each(self, field: &str, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |group, value| group.set(field, &value.into()))
    }

    fn ends(self, fields: &[&str], ends: [i64; 2]) -> Self {
        let both = fields.iter().flat_map(|field| ends.map(|end| (*field, end)));
        both.fold(self, |group, (field, end)| group.set(field, &end.into()))
    }
}

/// All cells, the ones of a group together.
pub fn cells() -> Vec<Cell> {
    let groups = [upscaler(), precision()].into_iter().chain(style()).chain(skin()).chain(relight());
    groups.flat_map(|group| group.cells).collect()
}

fn upscaler() -> Group {
    Group::new("image-upscaler 2x", UPSCALER, json!({"scale_factor": "2x"}))
        .each("engine", UpscaleEngine::ALL[1..].iter().map(|value| value.as_str()))
        .each("optimized_for", OptimizedFor::ALL[1..].iter().map(|value| value.as_str()))
        .ends(&["creativity", "hdr", "resemblance", "fractality"], [-10, 10])
}

fn precision() -> Group {
    let usual = PrecisionFlavor::Photo;
    let others = PrecisionFlavor::ALL.iter().filter(|flavor| **flavor != usual);
    Group::new("image-upscaler-precision-v2 2x", PRECISION, json!({"scale_factor": 2}))
        .each("flavor", others.map(|value| value.as_str()))
        .ends(&["sharpen", "smart_grain", "ultra_detail"], [0, 100])
}

fn style() -> [Group; 3] {
    let fixed = json!({"fixed_generation": true});
    let presets = Group::new("image-style-transfer", STYLE, fixed.clone())
        .each("engine", StyleEngine::ALL[1..].iter().map(|value| value.as_str()))
        .each("flavor", StyleFlavor::ALL[1..].iter().map(|value| value.as_str()))
        .ends(&["structure_strength", "style_strength"], [0, 50])
        .set("structure_strength", &100.into())
        .set("prompt", &"warm sunset".into());
    let portrait =
        Group::new("image-style-transfer, is_portrait", STYLE, json!({"fixed_generation": true, "is_portrait": true}))
            .each("portrait_style", PortraitStyle::ALL[1..].iter().map(|value| value.as_str()))
            .each("portrait_beautifier", PortraitBeautifier::ALL.iter().map(|value| value.as_str()));
    let reference = Group::with_reference("image-style-transfer, with a reference", STYLE, fixed, "reference_image")
        .ends(&["structure_strength", "style_strength"], [0, 50])
        .each("engine", StyleEngine::ALL[1..].iter().map(|value| value.as_str()));
    [presets, portrait, reference]
}

fn skin() -> [Group; 3] {
    [
        Group::new("skin-enhancer/creative", CREATIVE, json!({})).ends(&["sharpen", "smart_grain"], [0, 100]),
        Group::new("skin-enhancer/faithful", FAITHFUL, json!({})).ends(&["skin_detail"], [0, 100]),
        Group::new("skin-enhancer/flexible", FLEXIBLE, json!({}))
            .each("optimized_for", SkinFocus::ALL[1..].iter().map(|value| value.as_str())),
    ]
}

fn relight() -> [Group; 2] {
    let fixed = json!({"advanced_settings": {"fixed_generation": true}});
    let advanced = |group: Group, field: &'static str, value: Value| {
        let shown = value.as_str().map_or_else(|| value.to_string(), |text| format!("{field} {text}"));
        let label = if value.is_string() { shown } else { format!("{field} {shown}") };
        let settings = json!({"fixed_generation": true, field: value});
        group.cell(&label, json!({"advanced_settings": settings}), false)
    };
    let mut own = Group::new("image-relight", RELIGHT, fixed.clone())
        .each("style", RelightStyle::ALL[1..].iter().map(|value| value.as_str()))
        .set("prompt", &"blue moonlight from the left".into())
        .set("change_background", &false.into())
        .set("preserve_details", &false.into())
        .set("interpolate_from_original", &true.into())
        .set("light_transfer_strength", &0.into());
    for (field, end) in
        ["whites", "blacks", "brightness", "contrast", "saturation"].iter().flat_map(|f| [(*f, 0), (*f, 100)])
    {
        own = advanced(own, field, end.into());
    }
    for engine in &RelightEngine::ALL[1..] {
        own = advanced(own, "engine", engine.as_str().into());
    }
    let lit =
        Group::with_reference("image-relight, with a reference", RELIGHT, fixed, "transfer_light_from_reference_image");
    let mut lit = lit
        .set("light_transfer_strength", &0.into())
        .set("light_transfer_strength", &50.into())
        .set("interpolate_from_original", &true.into())
        .set("change_background", &false.into())
        .set("preserve_details", &false.into());
    for value in &TransferLightA::ALL[1..] {
        lit = advanced(lit, "transfer_light_a", value.as_str().into());
    }
    for value in &TransferLightB::ALL[1..] {
        lit = advanced(lit, "transfer_light_b", value.as_str().into());
    }
    [own, lit]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_one_usual_cell_and_no_cell_is_there_twice() {
        let cells = cells();
        for cell in &cells {
            let group = || cells.iter().filter(|other| other.group == cell.group);
            assert_eq!(group().filter(|other| other.is_usual).count(), 1, "{}", cell.group);
            let same = |other: &&Cell| other.body == cell.body && !other.is_usual;
            assert!(group().filter(same).count() <= 1, "{}: {}", cell.group, cell.label);
        }
    }
}
