//! Zip archives built byte by byte: valid ones, and ones that no tool produces.

use std::io::{Read, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// Entry with freely chosen headers.
#[derive(Clone)]
pub struct ZipTestEntry {
    pub name: Vec<u8>,
    /// Name in the local header; `None` for the same name.
    pub local_name: Option<Vec<u8>>,
    pub flags: u16,
    pub method: u16,
    pub crc: u32,
    pub size: u32,
    pub packed: Vec<u8>,
    /// The upper half is the Unix mode.
    pub attributes: u32,
}

impl ZipTestEntry {
    /// Returns an uncompressed file.
    pub fn stored(name: &str, content: &[u8]) -> Self {
        Self::new(name, 0, content.to_vec(), content)
    }

    /// Returns a file compressed by deflate.
    pub fn deflated(name: &str, mut content: impl Read) -> Self {
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
        let mut crc = Crc::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = content.read(&mut buffer).expect("readable content");
            if count == 0 {
                break;
            }
            crc.update(&buffer[..count]);
            deflate.write_all(&buffer[..count]).expect("deflate in memory");
        }
        let packed = deflate.finish().expect("deflate in memory");
        Self { crc: crc.sum(), size: crc.amount(), ..Self::new(name, 8, packed, &[]) }
    }

    /// Returns a symbolic link.
    pub fn link(name: &str, target: &str) -> Self {
        Self { attributes: 0o120_777 << 16, ..Self::stored(name, target.as_bytes()) }
    }

    /// Returns a file with the mode 0644; `packed` is its compressed content.
    fn new(name: &str, method: u16, packed: Vec<u8>, content: &[u8]) -> Self {
        let mut crc = Crc::new();
        crc.update(content);
        Self {
            name: name.as_bytes().to_vec(),
            local_name: None,
            flags: 0,
            method,
            crc: crc.sum(),
            size: crc.amount(),
            packed,
            attributes: 0o100_644 << 16,
        }
    }

    /// Returns the fields from the flags to the sizes, which both headers share.
    fn shared_header_fields(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend(self.method.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.crc.to_le_bytes());
        bytes.extend(u32::try_from(self.packed.len()).expect("small").to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        bytes
    }
}

/// Returns an archive of `entries`.
pub fn zip(entries: &[ZipTestEntry]) -> Vec<u8> {
    zip_with(entries, entries.len())
}

/// Returns an archive of `entries` that declares `count` entries.
pub fn zip_with(entries: &[ZipTestEntry], count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let offset = length(&bytes);
        let name = entry.local_name.as_ref().unwrap_or(&entry.name);
        bytes.extend(b"PK\x03\x04\x14\x00");
        bytes.extend(entry.shared_header_fields());
        bytes.extend([&u16_bytes(name.len())[..], &[0; 2], name, &entry.packed].concat());

        // Created on Unix, so that readers interpret the attributes as a mode.
        directory.extend(b"PK\x01\x02\x14\x03\x14\x00");
        directory.extend(entry.shared_header_fields());
        directory.extend([&u16_bytes(entry.name.len())[..], &[0; 8]].concat());
        directory.extend(entry.attributes.to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(&entry.name);
    }

    let start = length(&bytes);
    let size = length(&directory);
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([u16_bytes(count), u16_bytes(count)].concat());
    bytes.extend([size.to_le_bytes(), start.to_le_bytes()].concat());
    bytes.extend([0; 2]);
    bytes
}

/// Returns a small archive as a tool creates it.
pub fn valid_archive() -> Vec<u8> {
    zip(&[
        ZipTestEntry::deflated("face_tools/__init__.py", &b"NODES = {}\n".repeat(500)[..]),
        ZipTestEntry::stored("face_tools/README.md", b"# Face tools\n"),
    ])
}

/// Returns the length as it is stored in an archive.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("small")
}

/// Returns a number in little-endian order.
fn u16_bytes(length: usize) -> [u8; 2] {
    u16::try_from(length).expect("small").to_le_bytes()
}
