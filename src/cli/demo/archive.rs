//! Archive of a sample version: a small, uncompressed zip, identical for identical versions.

use super::sample::{SampleNode, SampleVersion};

/// 1980-01-01, the earliest date in a zip.
const DOS_DATE: u16 = 0x21;
/// Format version 1.0, needed to extract.
const VERSION_NEEDED: u16 = 10;
/// Flag for UTF-8 names.
const UTF8: u16 = 1 << 11;

/// Packs the files of a version.
pub(super) fn archive(node: &SampleNode, version: &SampleVersion) -> Vec<u8> {
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
    zip(&files)
}

/// Sample names and sizes are far below the limits of the two- and four-byte fields.
#[expect(clippy::cast_possible_truncation, reason = "a few files of a few kilobytes")]
fn zip(files: &[(String, String)]) -> Vec<u8> {
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for (name, text) in files {
        let offset = archive.len() as u32;
        let header = shared_header(name, text.as_bytes());
        archive.extend_from_slice(b"PK\x03\x04");
        archive.extend_from_slice(&header);
        archive.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(text.as_bytes());

        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&VERSION_NEEDED.to_le_bytes());
        directory.extend_from_slice(&header);
        // No comment, the first disk, no attributes.
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }

    let count = (files.len() as u16).to_le_bytes();
    let start = archive.len() as u32;
    archive.extend_from_slice(&directory);
    archive.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    archive.extend_from_slice(&[count, count].concat());
    archive.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    archive.extend_from_slice(&start.to_le_bytes());
    archive.extend_from_slice(&[0; 2]);
    archive
}

/// Returns the fields that both headers of an entry share.
#[expect(clippy::cast_possible_truncation, reason = "a few files of a few kilobytes")]
fn shared_header(name: &str, bytes: &[u8]) -> Vec<u8> {
    let size = (bytes.len() as u32).to_le_bytes();
    let mut header = Vec::with_capacity(26);
    for field in [VERSION_NEEDED, UTF8, 0, 0, DOS_DATE] {
        header.extend_from_slice(&field.to_le_bytes());
    }
    header.extend_from_slice(&crc32(bytes).to_le_bytes());
    header.extend_from_slice(&[size, size].concat());
    header.extend_from_slice(&(name.len() as u16).to_le_bytes());
    header.extend_from_slice(&[0; 2]);
    header
}

/// CRC-32 of zip (ISO 3309), which differs from the checksum of the journal.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::sample::load_samples;

    #[test]
    fn the_checksum_matches_the_check_value() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn an_archive_ends_with_a_directory_of_its_files() {
        let samples = load_samples(&["kitetail".to_owned()]).unwrap();
        let node = &samples[0].nodes[0];
        let packed = archive(node, &node.versions[0]);
        assert_eq!(packed, archive(node, &node.versions[0]));
        assert!(packed.starts_with(b"PK\x03\x04"));
        let end = &packed[packed.len() - 22..];
        assert_eq!(&end[..4], b"PK\x05\x06");
        assert_eq!(end[10], 4);
        let read_u32 = |offset: usize| u32::from_le_bytes(end[offset..offset + 4].try_into().unwrap()) as usize;
        let size = read_u32(12);
        let start = read_u32(16);
        assert_eq!(start + size + 22, packed.len());
        assert!(packed[start..].starts_with(b"PK\x01\x02"));
    }
}
