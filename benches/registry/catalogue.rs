//! Catalogue of any size, from the words of the sample registry in `data/seed`. The same size gives the same
//! catalogue.

use std::path::Path;

use serde_json::{Value, json};

/// Length of a changelog, for events of about 400 bytes.
pub const CHANGELOG: usize = 300;
const SYSTEMS: [&[&str]; 5] = [&["Linux", "Windows", "macOS"], &["Linux", "Windows"], &["Linux"], &["Windows"], &[]];
const ACCELERATORS: [&[&str]; 4] = [&[], &["CUDA"], &["CUDA", "ROCm"], &["CUDA", "DirectML", "Metal"]];
const HOSTS: [&str; 4] = [">=0.2.0", ">=0.3.0", ">=0.3.10,<0.7.0", ">=0.5.0"];

/// Reproducible random numbers (splitmix64).
#[derive(Debug, Clone)]
pub struct BenchRng(u64);

impl BenchRng {
    /// Creates a generator. The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Returns a random number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % end.max(1) as u64).expect("below a usize")
    }

    /// Returns a random element of `items`.
    pub fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }
}

/// Size of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub publishers: usize,
    pub nodes: usize,
    pub versions: usize,
}

/// Generator of the catalogue: its size, and the vocabulary of its texts.
#[derive(Debug, Clone)]
pub struct Catalogue {
    pub size: Size,
    /// Distinct words of the sample's names, descriptions and tags.
    pub words: Vec<String>,
    sentences: Vec<String>,
}

impl Catalogue {
    /// Reads the sample registry.
    pub fn new(size: Size) -> Self {
        let mut words = Vec::new();
        let mut sentences = Vec::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/seed");
        let mut files: Vec<_> =
            std::fs::read_dir(folder).expect("the sample").map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(file).expect("a file of the sample");
            let sample: Value = serde_json::from_str(&text).expect("JSON");
            for node in sample["nodes"].as_array().expect("nodes") {
                let description = node["description"].as_str().expect("a description");
                sentences.extend(description.split_inclusive(". ").map(|sentence| sentence.trim().to_owned()));
                let texts = [node["name"].as_str().expect("a name"), description];
                let tags = node["tags"].as_array().expect("tags").iter().filter_map(Value::as_str);
                for text in texts.into_iter().chain(tags) {
                    words.extend(text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase));
                }
            }
        }
        words.sort();
        words.dedup();
        words.retain(|word| word.chars().count() > 2);
        Self { size, words, sentences }
    }

    /// Returns the id of the publisher number `index`.
    pub fn publisher(index: usize) -> String {
        format!("publisher-{index}")
    }

    /// Returns the id of the publisher that owns the node number `node`.
    pub fn owner(&self, node: usize) -> String {
        Self::publisher(node % self.size.publishers)
    }

    /// Returns the id of the node number `index`.
    pub fn node(index: usize) -> String {
        format!("node-{index:06}")
    }

    /// Returns the body that creates a node with its first version, including administrators' fields.
    pub fn node_body(&self, index: usize) -> String {
        let mut rng = BenchRng::new(index as u64);
        let name: Vec<_> = (0..2 + index % 2).map(|_| rng.pick(&self.words).clone()).collect();
        let description: Vec<_> = (0..=rng.below(3)).map(|_| rng.pick(&self.sentences).clone()).collect();
        let tags: Vec<_> = (0..rng.below(5)).map(|_| rng.pick(&self.words).clone()).collect();
        let body = json!({
            "id": Self::node(index),
            "name": name.join(" "),
            "description": description.join(" "),
            "author": format!("{} studio", rng.pick(&self.words)),
            "repository": format!("https://example.org/{}/{}", self.owner(index), Self::node(index)),
            "icon": format!("https://example.org/icons/{index}.png"),
            "license": "LICENSE",
            "tags": tags,
            "supported_os": rng.pick(&SYSTEMS),
            "supported_accelerators": rng.pick(&ACCELERATORS),
            "supported_host_version": rng.pick(&HOSTS),
            "downloads": rng.below(1000) * rng.below(1000),
            "github_stars": rng.below(20_000),
            "rating": rng.below(500) as f64 / 100.0,
            "latest_version": {"version": "1.0.0", "changelog": self.changelog(index, 0), "dependencies": ["numpy>=1.26"]},
        });
        body.to_string()
    }

    /// Returns the body that publishes the version 1.`version`.0.
    pub fn version_body(&self, index: usize, version: usize) -> String {
        let changelog = self.changelog(index, version);
        let version = format!("1.{version}.0");
        json!({"node": {}, "node_version": {"version": version, "changelog": changelog, "dependencies": ["numpy>=1.26"]}})
            .to_string()
    }

    /// Returns a changelog of [`CHANGELOG`] characters.
    fn changelog(&self, index: usize, version: usize) -> String {
        let mut rng = BenchRng::new((index * 64 + version) as u64 ^ 0xC0FF_EE00);
        let mut text = String::new();
        while text.chars().count() < CHANGELOG {
            text.push_str(rng.pick::<String>(&self.sentences));
            text.push(' ');
        }
        text.chars().take(CHANGELOG).collect()
    }

    /// Returns a search for two random words.
    pub fn search_terms(&self, rng: &mut BenchRng) -> String {
        format!("{}+{}", rng.pick(&self.words), rng.pick(&self.words))
    }
}
