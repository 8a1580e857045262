//! Reading of single files in stored archives, which were checked before they were stored.

use std::io::{self, Read, Seek};

use zip::read::{ArchiveOffset, Config};
use zip::{ZipArchive, ZipReadOptions};

/// Bytes compared at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// File or symbolic link of an archive. Directories are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedFile {
    /// Path in the archive, with slashes.
    pub path: String,
    /// Unpacked size.
    pub bytes: u64,
    /// CRC-32 of the content. Different contents can have the same one.
    pub checksum: u32,
    /// `true` for a symbolic link, whose content is its target.
    pub is_link: bool,
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

    /// Returns all files and links, ordered by path.
    ///
    /// # Errors
    /// If the archive cannot be read.
    pub fn files(&mut self) -> io::Result<Vec<ArchivedFile>> {
        let mut files = Vec::new();
        for index in 0..self.archive.len() {
            let entry = self.archive.by_index_with_options(index, ZipReadOptions::new())?;
            if entry.is_dir() {
                continue;
            }
            files.push(ArchivedFile {
                path: entry.name()?.into_owned(),
                bytes: entry.size(),
                checksum: entry.crc32(),
                is_link: entry.is_symlink(),
            });
        }
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
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

    /// Returns `true` if a file is stored with the same packed bytes in another archive. This is a quick and certain
    /// sign of equal contents, while equal contents can be packed differently.
    ///
    /// # Errors
    /// If an archive cannot be read.
    pub fn has_same_data(&mut self, file: &ArchivedFile, other: &mut Self) -> io::Result<bool> {
        let (Some(index), Some(other_index)) =
            (self.archive.index_for_name(&file.path), other.archive.index_for_name(&file.path))
        else {
            return Ok(false);
        };
        let mut own_data = self.archive.by_index_raw(index)?;
        let mut other_data = other.archive.by_index_raw(other_index)?;
        if own_data.compression() != other_data.compression()
            || own_data.compressed_size() != other_data.compressed_size()
        {
            return Ok(false);
        }

        let mut own_buffer = vec![0; BUFFER_BYTES];
        let mut other_buffer = vec![0; BUFFER_BYTES];
        let mut left = own_data.compressed_size();
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(BUFFER_BYTES);
            own_data.read_exact(&mut own_buffer[..length])?;
            other_data.read_exact(&mut other_buffer[..length])?;
            if own_buffer[..length] != other_buffer[..length] {
                return Ok(false);
            }
            left -= length as u64;
        }
        Ok(true)
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
