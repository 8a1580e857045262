//! Profiles that are compiled into the binary.

/// File that is compiled into the binary.
pub(super) struct ShippedFile {
    /// Path below `data/vendors`.
    pub path: &'static str,
    pub text: &'static str,
}

/// Includes files of `data/vendors`.
macro_rules! shipped {
    ($($path:literal),+ $(,)?) => {
        &[$(ShippedFile { path: $path, text: include_str!(concat!("../../../data/vendors/", $path)) }),+]
    };
}

/// All profiles and the documents that they name.
const FILES: &[ShippedFile] = shipped![
    "a1111.toml",
    "comfyui.toml",
    "comfyui/image-to-image.json",
    "comfyui/upscale.json",
    "fal.toml",
    "magnific.toml",
    "mediary.toml",
    "openai.toml",
    "replicate.toml",
    "sonilo.toml",
    "stability.toml",
    "vidu.toml",
];

/// Names of the shipped profiles.
pub const SHIPPED_PROFILES: [&str; 10] =
    ["mediary", "magnific", "vidu", "sonilo", "comfyui", "a1111", "replicate", "fal", "openai", "stability"];

/// Returns the text of a shipped file.
pub(super) fn find(path: &str) -> Option<&'static str> {
    FILES.iter().find(|file| file.path == path).map(|file| file.text)
}
