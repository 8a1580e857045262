//! Differences between the files of two archives.

use std::io::{self, Read, Seek};
use std::time::{Duration, Instant};

use similar::TextDiff;

use super::contents::{ArchiveContents, ArchivedFile};

/// Maximum size of a file whose text is compared, in bytes.
const TEXT_BYTES_MAX: u64 = 512 * 1024;
/// Maximum size of all compared texts together, in bytes.
const COMPARED_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Time to find the shortest patches of a comparison. The patches after it may be longer than necessary.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(1);

/// File that differs between two archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveChange {
    pub path: String,
    /// Size in the older archive; `None` if the file is new.
    pub old_bytes: Option<u64>,
    /// Size in the newer archive; `None` if the file was removed.
    pub new_bytes: Option<u64>,
    pub patch: ArchivePatch,
}

/// Change of the text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchivePatch {
    /// Unified diff with three lines of context.
    Text(String),
    /// The content is not text.
    Binary,
    /// The file, or the whole comparison, exceeds its maximum size.
    TooLarge,
}

/// The part of a file that is compared.
enum ComparedContent {
    Bytes(Vec<u8>),
    TooLarge,
}

/// Compares two archives. Returns the files and links that differ, ordered by path.
///
/// # Errors
/// If an archive cannot be read.
pub fn compare<F: Read + Seek>(
    old: &mut ArchiveContents<F>,
    new: &mut ArchiveContents<F>,
) -> io::Result<Vec<ArchiveChange>> {
    let deadline = Instant::now() + SEARCH_TIME_MAX;
    let mut changes = Vec::new();
    let mut budget = COMPARED_BYTES_MAX;

    for (old_file, new_file) in pairs(&old.files()?, &new.files()?) {
        // A checksum can be forged, so equal checksums prove nothing.
        if let (Some(old_file), Some(new_file)) = (old_file, new_file)
            && old_file == new_file
            && old.has_same_data(old_file, new)?
        {
            continue;
        }

        let before = read_content(old, old_file, &mut budget)?;
        let after = read_content(new, new_file, &mut budget)?;
        let Some(file_path) = new_file.or(old_file).map(|file| file.path.clone()) else { continue };
        let patch = match ArchivePatch::between(&file_path, before, after, deadline) {
            Some(patch) => patch,
            None if old_file == new_file => continue,
            // The content is the same, but one of the two is a link, or an empty file is new or gone.
            None => ArchivePatch::Text(String::new()),
        };

        let bytes = |file: Option<&ArchivedFile>| file.map(|file| file.bytes);
        changes.push(ArchiveChange { path: file_path, old_bytes: bytes(old_file), new_bytes: bytes(new_file), patch });
    }

    Ok(changes)
}

impl ArchivePatch {
    /// Returns the change between two contents; `None` if they are equal.
    fn between(path: &str, old: ComparedContent, new: ComparedContent, deadline: Instant) -> Option<Self> {
        let (ComparedContent::Bytes(old), ComparedContent::Bytes(new)) = (old, new) else {
            return Some(Self::TooLarge);
        };
        if old == new {
            return None;
        }
        let (Ok(old), Ok(new)) = (text_of(old), text_of(new)) else { return Some(Self::Binary) };
        Some(Self::Text(unified(path, &old, &new, deadline)))
    }
}

/// Returns all pairs of files with the same path of two sorted lists, ordered by path.
fn pairs<'f>(
    old: &'f [ArchivedFile],
    new: &'f [ArchivedFile],
) -> Vec<(Option<&'f ArchivedFile>, Option<&'f ArchivedFile>)> {
    let find = |files: &'f [ArchivedFile], path: &str| {
        files.binary_search_by(|file| file.path.as_str().cmp(path)).ok().and_then(|index| files.get(index))
    };
    let removed = old.iter().filter(|file| find(new, &file.path).is_none()).map(|file| (Some(file), None));
    let present = new.iter().map(|file| (find(old, &file.path), Some(file)));
    let mut pairs: Vec<_> = removed.chain(present).collect();
    pairs.sort_unstable_by_key(|(old, new)| new.or(*old).map(|file| file.path.as_str()));
    pairs
}

/// Reads a file within the budget. A missing file is empty.
fn read_content<F: Read + Seek>(
    archive: &mut ArchiveContents<F>,
    file: Option<&ArchivedFile>,
    budget: &mut u64,
) -> io::Result<ComparedContent> {
    let Some(file) = file else { return Ok(ComparedContent::Bytes(Vec::new())) };
    let Some(left) = budget.checked_sub(file.bytes).filter(|_| file.bytes <= TEXT_BYTES_MAX) else {
        return Ok(ComparedContent::TooLarge);
    };

    *budget = left;
    archive.read(file).map(ComparedContent::Bytes)
}

/// Returns a content as text.
///
/// # Errors
/// The content, if it is not UTF-8 or has a zero byte.
pub fn text_of(content: Vec<u8>) -> Result<String, Vec<u8>> {
    if content.contains(&0) {
        return Err(content);
    }
    String::from_utf8(content).map_err(std::string::FromUtf8Error::into_bytes)
}

fn unified(path: &str, old: &str, new: &str, deadline: Instant) -> String {
    let diff = TextDiff::configure().deadline(deadline).diff_lines(old, new);
    diff.unified_diff().header(&format!("a/{path}"), &format!("b/{path}")).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Cursor;

    use super::*;
    use crate::media::archive::pack::{PackedFile, pack};

    fn archive(files: &[(&str, &[u8])]) -> ArchiveContents<Cursor<Vec<u8>>> {
        let files: BTreeMap<String, &[u8]> =
            files.iter().map(|(path, content)| ((*path).to_owned(), *content)).collect();
        let mut packed = Cursor::new(Vec::new());
        pack(&files, |content| Ok(PackedFile { content: *content, is_executable: false }), &mut packed).unwrap();
        ArchiveContents::open(packed).unwrap()
    }

    #[test]
    fn added_removed_and_changed_files_have_patches() {
        let mut old = archive(&[("gone.py", b"old\n"), ("same.py", b"same\n"), ("z.py", b"one\ntwo\n")]);
        let mut new = archive(&[("added.py", b"new\n"), ("same.py", b"same\n"), ("z.py", b"one\n2\n")]);

        let changes = compare(&mut old, &mut new).unwrap();

        let sizes: Vec<_> =
            changes.iter().map(|change| (change.path.as_str(), change.old_bytes, change.new_bytes)).collect();
        assert_eq!(sizes, [("added.py", None, Some(4)), ("gone.py", Some(4), None), ("z.py", Some(8), Some(6))]);
        let patch = "--- a/z.py\n+++ b/z.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
        assert_eq!(changes[2].patch, ArchivePatch::Text(patch.to_owned()));
    }

    #[test]
    fn contents_that_are_not_text_or_too_large_have_no_patch() {
        let large = vec![b'a'; usize::try_from(TEXT_BYTES_MAX).unwrap() + 1];
        let mut old = archive(&[("large.txt", b"a"), ("model.bin", b"\xff\x00"), ("zero.txt", b"a")]);
        let mut new = archive(&[("large.txt", &large), ("model.bin", b"\xff\x01"), ("zero.txt", b"\0")]);

        let patches: Vec<_> = compare(&mut old, &mut new).unwrap().into_iter().map(|change| change.patch).collect();

        assert_eq!(patches, [ArchivePatch::TooLarge, ArchivePatch::Binary, ArchivePatch::Binary]);
    }

    #[test]
    fn a_change_with_the_same_checksum_is_found() {
        // Given two words of the same length and the same CRC-32
        let mut old = archive(&[("a.py", b"plumless")]);
        let mut new = archive(&[("a.py", b"buckeroo")]);
        assert_eq!(old.files().unwrap(), new.files().unwrap());

        // When the archives are compared, then the change is still found
        let changes = compare(&mut old, &mut new).unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(compare(&mut archive(&[("a.py", b"plumless")]), &mut old).unwrap(), []);
    }

    #[test]
    fn a_comparison_as_a_whole_is_bounded() {
        let content = vec![b'a'; usize::try_from(TEXT_BYTES_MAX).unwrap()];
        let names: Vec<_> = (0..10).map(|number| format!("{number}.txt")).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), content.as_slice())).collect();

        let changes = compare(&mut archive(&[("a", b"")]), &mut archive(&files)).unwrap();

        let large = changes.iter().filter(|change| change.patch == ArchivePatch::TooLarge).count();
        assert_eq!(large, 2, "8 files of 512 KiB are compared");
    }
}
