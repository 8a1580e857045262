//! Archive of a sample version: a small zip, identical for identical versions.

use std::collections::BTreeMap;
use std::io::{self, Cursor};

use super::sample::{SampleNode, SampleVersion};
use crate::media::archive::pack::{PackedFile, pack};

/// Packs the archive of a version.
///
/// # Errors
/// If a name does not fit in an archive.
pub(super) fn pack_version(node: &SampleNode, version: &SampleVersion) -> io::Result<Vec<u8>> {
    let description = node.other_fields.get("description").and_then(|text| text.as_str()).unwrap_or_default();
    let changelog = version.other_fields.get("changelog").and_then(|text| text.as_str()).unwrap_or_default();
    let id = &node.id;
    let name = node.name();
    let number = &version.version;
    let readme = format!("# {name}\n\n{description}\n\nThis is a sample: it holds no working node.\n");
    let changes = format!("# Changes\n\n## {number}\n\n{changelog}\n");
    let manifest = serde_json::json!({"id": id, "name": name, "version": number});
    let files = [
        (format!("{id}/README.md"), readme),
        (format!("{id}/CHANGELOG.md"), changes),
        (format!("{id}/node.json"), format!("{manifest:#}\n")),
        (format!("{id}/__init__.py"), format!("\"\"\"{name} {number}\"\"\"\n\nNODES = {{}}\n")),
    ];
    let open = |text: &String| Ok(PackedFile { content: Cursor::new(text.clone()), is_executable: false });
    let mut archive = Cursor::new(Vec::new());
    pack(&BTreeMap::from(files), open, &mut archive)?;
    Ok(archive.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::sample::load_samples;
    use crate::media::archive::unpack::unpack;

    #[test]
    fn an_archive_has_the_files_of_its_version() {
        let samples = load_samples(&["kitetail".to_owned()]).unwrap();
        let node = &samples[0].nodes[0];
        let packed = pack_version(node, &node.versions[0]).unwrap();

        assert_eq!(packed, pack_version(node, &node.versions[0]).unwrap());
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(unpack(Cursor::new(packed), folder.path()).unwrap(), 4);
        for name in ["CHANGELOG.md", "README.md", "__init__.py", "node.json"] {
            assert!(folder.path().join(&node.id).join(name).is_file(), "{name}");
        }
    }
}
