//! Reading of single files in stored archives, which were checked before they were stored.

use std::io::{self, Read, Seek};

use zip::read::{ArchiveOffset, Config};
use zip::{ZipArchive, ZipReadOptions};

/// File of an archive. Directories are left out, and symbolic links too, because their content is a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArchivedFile {
    /// Path in the archive, with slashes.
    pub path: String,
    /// Unpacked size.
    pub bytes: u64,
    /// CRC-32 of the content.
    pub checksum: u32,
}

/// Stored archive, opened for reading.
pub struct ArchiveContents<F> {
    archive: ZipArchive<F>,
}

impl<F: Read + Seek> ArchiveContents<F> {
    /// Opens an archive that passed `check`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(file: F) -> io::Result<Self> {
        let archive = ZipArchive::with_config(Config { archive_offset: ArchiveOffset::Known(0) }, file)?;
        Ok(Self { archive })
    }

    /// Returns all files, ordered by path.
    ///
    /// # Errors
    /// If the archive cannot be read.
    pub fn files(&mut self) -> io::Result<Vec<ArchivedFile>> {
        let mut files = Vec::new();
        for index in 0..self.archive.len() {
            let entry = self.archive.by_index_with_options(index, ZipReadOptions::new())?;
            if entry.is_dir() || entry.is_symlink() {
                continue;
            }
            files.push(ArchivedFile { path: entry.name()?.into_owned(), bytes: entry.size(), checksum: entry.crc32() });
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Returns the content of a file of `files`.
    ///
    /// # Errors
    /// If the archive cannot be read.
    pub fn read(&mut self, file: &ArchivedFile) -> io::Result<Vec<u8>> {
        let mut content = Vec::with_capacity(usize::try_from(file.bytes).unwrap_or_default());
        // The check has compared the size with the content; the limit holds even so.
        self.archive.by_name(&file.path)?.take(file.bytes).read_to_end(&mut content)?;
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Cursor;

    use super::*;
    use crate::media::archive::pack::{PackedFile, pack};

    #[test]
    fn files_are_listed_by_path_and_read() {
        let files = BTreeMap::from([("node/b.py", "print()\n"), ("README.md", "# Node\n")]);
        let files = files.into_iter().map(|(path, text)| (path.to_owned(), text)).collect();
        let mut packed = Cursor::new(Vec::new());
        pack(
            &files,
            |content: &&str| Ok(PackedFile { content: content.as_bytes(), is_executable: false }),
            &mut packed,
        )
        .unwrap();

        let mut contents = ArchiveContents::open(packed).unwrap();
        let listed = contents.files().unwrap();

        let sizes: Vec<_> = listed.iter().map(|file| (file.path.as_str(), file.bytes)).collect();
        assert_eq!(sizes, [("README.md", 7), ("node/b.py", 8)]);
        assert_ne!(listed[0].checksum, listed[1].checksum);
        assert_eq!(contents.read(&listed[1]).unwrap(), b"print()\n");
    }
}
