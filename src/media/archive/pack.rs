//! Packing of archives: the same files make the same bytes, on every machine and at any time.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// Mode of a file, and of one that can be executed.
const FILE_MODE: u32 = 0o644;
const EXECUTABLE_MODE: u32 = 0o755;

/// File to pack.
pub struct PackedFile<R> {
    pub content: R,
    pub is_executable: bool,
}

/// Writes an archive of the files, sorted by name, without times. `open` opens the file of a name; it is called for one
/// file at a time.
///
/// # Errors
/// If a file cannot be read, or the archive cannot be written.
pub fn pack<T, R: Read>(
    files: &BTreeMap<String, T>,
    mut open: impl FnMut(&T) -> io::Result<PackedFile<R>>,
    out: impl Write + Seek,
) -> io::Result<()> {
    let mut writer = ZipWriter::new(out);

    for (name, file) in files {
        let PackedFile { mut content, is_executable } = open(file)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(if is_executable { EXECUTABLE_MODE } else { FILE_MODE });
        writer.start_file(name.as_str(), options)?;
        io::copy(&mut content, &mut writer)?;
    }

    writer.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::media::archive::check;

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let files: BTreeMap<_, _> = files.iter().map(|(name, content)| ((*name).to_owned(), *content)).collect();
        let mut out = Cursor::new(Vec::new());
        pack(&files, |content| Ok(PackedFile { content: *content, is_executable: false }), &mut out).unwrap();
        out.into_inner()
    }

    #[test]
    fn the_order_of_the_files_does_not_matter_and_the_archive_is_accepted() {
        let one = packed(&[("node/b.py", b"b"), ("node/a.py", &b"a".repeat(5000)), ("README.md", b"")]);
        let other = packed(&[("README.md", b""), ("node/a.py", &b"a".repeat(5000)), ("node/b.py", b"b")]);

        assert_eq!(one, other);
        assert!(one.len() < 1000, "{}", one.len());
        check::check(Cursor::new(one)).unwrap();
    }
}
