//! Unpacking of archives into a new directory, after all checks of `check`.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use zip::read::{ArchiveOffset, Config};
use zip::{ZipArchive, ZipReadOptions};

use super::check::{self, ArchiveError};
use super::path;

/// Bits of the mode of a file that can be executed.
const EXECUTABLE_BITS: u32 = 0o111;
const EXECUTABLE_MODE: u32 = 0o755;

/// Checks an archive and unpacks it into `directory`, which must be empty. Returns the number of files and links.
///
/// # Errors
/// Returns [`ArchiveError`] if the archive is rejected, or a file cannot be written. Nothing is written before the
/// checks have passed.
pub fn unpack(mut file: impl Read + Seek, directory: &Path) -> Result<u64, ArchiveError> {
    check::check(&mut file)?;
    unpack_checked(file, directory).map_err(ArchiveError::Io)
}

fn unpack_checked(file: impl Read + Seek, directory: &Path) -> io::Result<u64> {
    let mut archive = ZipArchive::with_config(Config { archive_offset: ArchiveOffset::Known(0) }, file)?;
    let mut count = 0;

    for index in 0..archive.len() {
        let mut entry = archive.by_index_with_options(index, ZipReadOptions::new())?;
        let name = entry.name()?.into_owned();
        let target = target_path(directory, &name)?;
        let is_directory = entry.is_dir() || name.ends_with('\\');
        let parent = if is_directory { Some(target.as_path()) } else { target.parent() };
        if let Some(parent) = parent {
            DirBuilder::new().recursive(true).create(parent)?;
        }
        if is_directory {
            continue;
        }

        count += 1;
        if entry.is_symlink() {
            let mut link = String::new();
            entry.read_to_string(&mut link)?;
            // Checked again where it takes effect.
            if path::target_flaw(&name, &link).is_some() {
                return Err(io::Error::other(format!("{name:?} is a symbolic link that leaves the archive")));
            }
            symlink(link, target)?;
            continue;
        }

        let mut out: File = OpenOptions::new().write(true).create_new(true).open(&target)?;
        io::copy(&mut entry, &mut out)?;
        if entry.unix_mode().is_some_and(|mode| mode & EXECUTABLE_BITS != 0) {
            fs::set_permissions(&target, Permissions::from_mode(EXECUTABLE_MODE))?;
        }
    }

    Ok(count)
}

/// Returns the path of an entry below `directory`.
///
/// # Errors
/// If the name leads elsewhere, which the check excludes.
fn target_path(directory: &Path, name: &str) -> io::Result<PathBuf> {
    if let Some(flaw) = path::name_flaw(name) {
        return Err(io::Error::other(format!("{name:?} {flaw}")));
    }
    let parts = name.split('/').filter(|part| !matches!(*part, "" | "."));
    Ok(parts.fold(directory.to_owned(), |path, part| path.join(part)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Cursor;

    use super::*;
    use crate::media::archive::pack::{PackedFile, pack};

    fn archive(files: &[(&str, &[u8], bool)]) -> Cursor<Vec<u8>> {
        let files: BTreeMap<String, (&[u8], bool)> =
            files.iter().map(|(name, content, executable)| ((*name).to_owned(), (*content, *executable))).collect();
        let mut out = Cursor::new(Vec::new());
        pack(
            &files,
            |(content, is_executable)| Ok(PackedFile { content: *content, is_executable: *is_executable }),
            &mut out,
        )
        .unwrap();
        out.set_position(0);
        out
    }

    #[test]
    fn files_have_their_content_and_whether_they_can_be_executed() {
        let folder = tempfile::tempdir().unwrap();
        let packed = archive(&[("node/a.py", b"print()\n", false), ("run.sh", b"#!/bin/sh\n", true)]);

        let count = unpack(packed, folder.path()).unwrap();

        assert_eq!(count, 2);
        assert_eq!(fs::read(folder.path().join("node/a.py")).unwrap(), b"print()\n");
        let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o111;
        assert_eq!((mode("node/a.py"), mode("run.sh")), (0, 0o111));
    }

    #[test]
    fn an_entry_that_leaves_the_directory_is_rejected_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("inner");
        fs::create_dir(&directory).unwrap();

        let rejected = unpack(archive(&[("a.py", b"", false), ("../b.py", b"", false)]), &directory).unwrap_err();

        let ArchiveError::Rejected(flaws) = rejected else { panic!("{rejected:?}") };
        assert!(flaws.reported()[0].contains("leads out of its directory"), "{flaws:?}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        assert!(!folder.path().join("b.py").exists());
    }
}
