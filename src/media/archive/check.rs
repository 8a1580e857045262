//! Safety check of zip archives: no entry leaves the target directory, no content is hidden from some tools, no entry
//! expands excessively, and every entry can be unpacked.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Seek};
use std::ops::Range;

use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;
use zip::{ZipArchive, ZipReadOptions};

use super::directory::{self, ZipDirectory, ZipDirectoryError, ZipHeader};
use super::path;

/// Maximum size of all entries together, unpacked.
pub const UNPACKED_MAX: u64 = 1 << 30;
/// Maximum ratio of unpacked to packed size, of a large entry or a large archive: deflated source files stay below 20.
pub const RATIO_MAX: u64 = 200;
/// Entries and archives with more unpacked bytes are large.
const LARGE_BYTES: u64 = 1 << 20;
/// Maximum number of reported flaws.
pub const REPORTED_FLAWS_MAX: usize = 20;
/// Maximum length of a reported name, in characters.
const REPORTED_NAME_CHARS_MAX: usize = 200;
/// Bytes unpacked at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// Flags of an encrypted entry, one per method.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;

/// Flag of an entry followed by a data descriptor with its sizes, and the maximum size of the descriptor.
const HAS_DATA_DESCRIPTOR: u16 = 1 << 3;
const DATA_DESCRIPTOR_MAX: u64 = 24;

/// Reason why a file was rejected.
#[derive(Debug)]
pub enum ArchiveError {
    /// The file is not a zip, or a harmful one.
    Rejected(ArchiveFlaws),
    /// The file could not be read; not a fault of the file.
    Io(io::Error),
}

/// Flaws of an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveFlaws {
    reported: Vec<String>,
    count: usize,
}

impl ArchiveFlaws {
    /// Returns at most [`REPORTED_FLAWS_MAX`] sentences, each about the archive or an entry.
    #[must_use]
    pub fn reported(&self) -> &[String] {
        &self.reported
    }

    /// Returns the number of flaws, including unreported ones.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    fn add(&mut self, sentence: impl FnOnce() -> String) {
        self.count += 1;
        if self.reported.len() < REPORTED_FLAWS_MAX {
            self.reported.push(sentence());
        }
    }
}

impl From<ZipDirectoryError> for ArchiveError {
    fn from(error: ZipDirectoryError) -> Self {
        match error {
            ZipDirectoryError::Invalid(sentence) => archive_flaw(sentence),
            ZipDirectoryError::Io(error) => Self::Io(error),
        }
    }
}

/// Returns the error for a flaw of the archive as a whole.
fn archive_flaw(sentence: impl Into<String>) -> ArchiveError {
    ArchiveError::Rejected(ArchiveFlaws { reported: vec![sentence.into()], count: 1 })
}

/// Returns the library's reason, which is a flaw of the file unless the disk failed.
fn zip_flaw(error: ZipError) -> Result<String, io::Error> {
    match error {
        ZipError::Io(error) if error.raw_os_error().is_some() => Err(error),
        ZipError::Io(error) => Ok(error.to_string()),
        ZipError::InvalidArchive(reason) => Ok(reason.into_owned()),
        other => Ok(other.to_string()),
    }
}

/// Checks a file. Takes as long as unpacking at most [`UNPACKED_MAX`] bytes.
///
/// # Errors
/// Returns [`ArchiveError`] with all flaws.
pub fn check(mut file: impl Read + Seek) -> Result<(), ArchiveError> {
    let directory = directory::read(&mut file)?;
    let mut archive = open(file, &directory)?;
    let mut entries = read_entries(&archive, &directory);
    mark_conflicts(&mut entries);

    let ZipEntrySizes { packed, unpacked } = total_sizes(&entries);
    if unpacked > UNPACKED_MAX {
        return Err(archive_flaw(format!(
            "the archive unpacks to {unpacked} bytes; at most {UNPACKED_MAX} are allowed"
        )));
    }

    // Entries may claim to share bytes; together they have at most those before the directory.
    let total = ZipEntrySizes { packed: packed.min(directory.start), unpacked };
    if total.exceeds_ratio() && entries.iter().all(|entry| entry.flaw.is_none()) {
        return Err(archive_flaw(format!("the archive unpacks to more than {RATIO_MAX} times its size")));
    }

    let mut buffer = vec![0; BUFFER_BYTES];
    for (index, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| entry.flaw.is_none()) {
        let flaw = unpack(&mut archive, index, entry, &mut buffer).map_err(ArchiveError::Io)?;
        entry.flaw = flaw.map(ZipEntryFlaw::Message);
    }

    finish(&mut archive, &entries, &directory)
}

fn total_sizes(entries: &[ZipEntry]) -> ZipEntrySizes {
    entries.iter().fold(ZipEntrySizes::default(), |total, entry| ZipEntrySizes {
        packed: total.packed.saturating_add(entry.sizes.packed),
        unpacked: total.unpacked.saturating_add(entry.sizes.unpacked),
    })
}

/// Opens the archive with the library, which must find the same directory.
fn open<F: Read + Seek>(file: F, directory: &ZipDirectory) -> Result<ZipArchive<F>, ArchiveError> {
    let archive = ZipArchive::with_config(Config { archive_offset: ArchiveOffset::Known(0) }, file);
    let archive = archive.map_err(|error| zip_flaw(error).map_or_else(ArchiveError::Io, archive_flaw))?;
    if archive.central_directory_start() != directory.start {
        return Err(archive_flaw("the archive is ambiguous"));
    }
    if archive.len() == directory.headers.len() {
        return Ok(archive);
    }

    let mut flaws = ArchiveFlaws::default();
    let mut seen = HashSet::new();

    for header in &directory.headers {
        if !seen.insert(&header.name) {
            flaws.add(|| format!("{} exists twice", quote_name(&String::from_utf8_lossy(&header.name))));
        }
    }

    // The library renames entries whose headers contain a second name.
    Err(if flaws.count == 0 { archive_flaw("two entries have the same name") } else { ArchiveError::Rejected(flaws) })
}

/// Properties of an entry before unpacking.
struct ZipEntry {
    name: String,
    key: String,
    kind: ZipEntryKind,
    /// Sizes that the entry claims.
    sizes: ZipEntrySizes,
    /// Byte range in the file, including the header; known after unpacking.
    span: Range<u64>,
    /// `true` if a data descriptor follows the entry.
    has_data_descriptor: bool,
    flaw: Option<ZipEntryFlaw>,
}

impl ZipEntry {
    /// Returns the flawed entry for an index without a header in the central directory.
    fn without_header(index: usize) -> Self {
        let name = format!("entry {index}");
        Self {
            key: name.clone(),
            name,
            kind: ZipEntryKind::File,
            sizes: ZipEntrySizes::default(),
            span: 0..0,
            has_data_descriptor: false,
            flaw: Some(ZipEntryFlaw::Message("is not at the offset in the central directory".into())),
        }
    }
}

/// Flaw of an entry. Formatted only when reported, because names are long and entries are many.
enum ZipEntryFlaw {
    /// Words that follow the name.
    Message(Cow<'static, str>),
    /// The same file as the entry of this index on some systems.
    SameAs(usize),
    /// Inside the entry of this index, which is not a directory.
    Inside(usize),
}

impl ZipEntryFlaw {
    fn describe(&self, entries: &[ZipEntry]) -> Cow<'static, str> {
        match self {
            Self::Message(message) => message.clone(),
            Self::SameAs(index) => {
                format!("is the same file as {} on some systems", quote_name(&entries[*index].name)).into()
            }
            Self::Inside(index) => {
                format!("is inside {}, which is not a directory", quote_name(&entries[*index].name)).into()
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ZipEntryKind {
    File,
    Directory,
    Link,
    /// A device, a pipe and so on.
    Other,
}

impl ZipEntryKind {
    /// Determines the kind from the mode, regardless of the stated system, as unpacking tools do.
    fn from_attributes(name: &str, attributes: u32) -> Self {
        match attributes >> 28 {
            0o12 => Self::Link,
            0o4 => Self::Directory,
            0 | 0o10 if name.ends_with(['/', '\\']) => Self::Directory,
            0 | 0o10 => Self::File,
            _ => Self::Other,
        }
    }
}

fn read_entries<F: Read + Seek>(archive: &ZipArchive<F>, directory: &ZipDirectory) -> Vec<ZipEntry> {
    let headers: HashMap<u64, &ZipHeader> = directory.headers.iter().map(|header| (header.offset, header)).collect();
    (0..archive.len())
        .map(|index| read_entry(archive, &headers, index).unwrap_or_else(|| ZipEntry::without_header(index)))
        .collect()
}

/// Returns the entry at an index; `None` if the central directory has no header at the entry's offset.
fn read_entry<F: Read + Seek>(
    archive: &ZipArchive<F>,
    headers: &HashMap<u64, &ZipHeader>,
    index: usize,
) -> Option<ZipEntry> {
    let data = archive.by_index_data(index).ok()?;
    let header = *headers.get(&data.central_header_start())?;
    let name = data.name().map(Cow::into_owned);
    let name = name.unwrap_or_else(|_| String::from_utf8_lossy(data.name_raw()).into_owned());

    let kind = ZipEntryKind::from_attributes(&name, header.attributes);
    let sizes = ZipEntrySizes { packed: data.compressed_size(), unpacked: data.size() };
    let flaw = find_flaw(&name, header, kind, sizes).map(ZipEntryFlaw::Message);
    let has_data_descriptor = header.flags & HAS_DATA_DESCRIPTOR != 0;
    Some(ZipEntry { key: path::collision_key(&name), name, kind, sizes, span: 0..0, has_data_descriptor, flaw })
}

#[derive(Clone, Copy, Default)]
struct ZipEntrySizes {
    packed: u64,
    unpacked: u64,
}

impl ZipEntrySizes {
    /// Returns `true` if something large exceeds the allowed ratio.
    fn exceeds_ratio(&self) -> bool {
        self.unpacked > LARGE_BYTES && self.unpacked / RATIO_MAX >= self.packed.max(1)
    }
}

fn find_flaw(name: &str, header: &ZipHeader, kind: ZipEntryKind, sizes: ZipEntrySizes) -> Option<Cow<'static, str>> {
    // A header may contain a second name, which only some tools use.
    let first_name = String::from_utf8_lossy(&header.name);
    if let Some(flaw) = path::name_flaw(name).or_else(|| path::name_flaw(&first_name)) {
        return Some(flaw.into());
    }
    if kind != ZipEntryKind::Directory && path::collision_key(name).is_empty() {
        return Some("has no file name".into());
    }
    if header.flags & ENCRYPTED != 0 {
        return Some("is encrypted".into());
    }

    if !matches!(header.method, 0 | 8) {
        return Some(
            format!("uses compression method {}; only stored and deflated entries are allowed", header.method).into(),
        );
    }

    if kind == ZipEntryKind::Other {
        return Some("is neither a file, a directory nor a symbolic link".into());
    }
    if sizes.exceeds_ratio() {
        return Some(format!("unpacks to more than {RATIO_MAX} times its size").into());
    }

    None
}

/// Records entries that are the same file on some system, and entries inside a non-directory. In tree order each entry
/// needs to be compared with only two others.
fn mark_conflicts(entries: &mut [ZipEntry]) {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by(|a, b| tree_order_key(&entries[*a].key).cmp(tree_order_key(&entries[*b].key)));

    let mut previous: Option<usize> = None;
    let mut enclosing: Option<usize> = None;

    for index in order {
        let entry = &entries[index];
        let same_as = previous.filter(|previous| entries[*previous].key == entry.key);
        let outer = enclosing.filter(|enclosing| lies_inside(&entry.key, &entries[*enclosing].key));
        if same_as.is_none() {
            previous = Some(index);
        }
        if outer.is_none() && entry.kind != ZipEntryKind::Directory {
            enclosing = Some(index);
        }
        let flaw = same_as.map(ZipEntryFlaw::SameAs).or_else(|| outer.map(ZipEntryFlaw::Inside));
        let entry_flaw = &mut entries[index].flaw;
        *entry_flaw = entry_flaw.take().or(flaw);
    }
}

/// Returns bytes that compare in tree order: the slash sorts first.
fn tree_order_key(key: &str) -> impl Iterator<Item = u16> + '_ {
    key.bytes().map(|byte| if byte == b'/' { 0 } else { u16::from(byte) + 1 })
}

fn lies_inside(key: &str, outer: &str) -> bool {
    key.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

/// Unpacks an entry without storing it and returns its flaw, if any. The library verifies the checksum and stops if an
/// entry is larger than claimed.
fn unpack<F: Read + Seek>(
    archive: &mut ZipArchive<F>,
    index: usize,
    entry: &mut ZipEntry,
    buffer: &mut [u8],
) -> io::Result<Option<Cow<'static, str>>> {
    let unpack_flaw = |error| zip_flaw(error).map(|reason| Some(format!("cannot be unpacked: {reason}").into()));
    let mut file = match archive.by_index_with_options(index, ZipReadOptions::new()) {
        Ok(file) => file,
        Err(error) => return unpack_flaw(error),
    };

    let data_start = file.data_start().unwrap_or_default();
    entry.span = file.header_start()..data_start.saturating_add(file.compressed_size());

    let mut unpacked = 0;
    let mut target = Vec::new();

    loop {
        let count = match file.read(buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return unpack_flaw(error.into()),
        };
        unpacked += count as u64;
        if entry.kind == ZipEntryKind::Link && target.len() < BUFFER_BYTES {
            target.extend_from_slice(&buffer[..count]);
        }
    }

    if unpacked != entry.sizes.unpacked {
        return Ok(Some(format!("declares {} bytes but has {unpacked}", entry.sizes.unpacked).into()));
    }

    let target = (entry.kind == ZipEntryKind::Link).then(|| String::from_utf8_lossy(&target).into_owned());
    Ok(target.and_then(|target| path::target_flaw(&entry.name, &target)).map(Cow::Borrowed))
}

/// Reports all flaws. If there are none, checks that entries and directory agree and that the file contains nothing
/// else.
fn finish<F: Read + Seek>(
    archive: &mut ZipArchive<F>,
    entries: &[ZipEntry],
    directory: &ZipDirectory,
) -> Result<(), ArchiveError> {
    let mut flaws = ArchiveFlaws::default();

    for entry in entries {
        if let Some(flaw) = &entry.flaw {
            flaws.add(|| format!("{} {}", quote_name(&entry.name), flaw.describe(entries)));
        }
    }

    if flaws.count > 0 {
        return Err(ArchiveError::Rejected(flaws));
    }
    check_gaps(entries, directory)?;

    archive.validate_header_consistency().map_err(|error| match zip_flaw(error) {
        Ok(reason) => archive_flaw(format!("the entries and the central directory differ: {reason}")),
        Err(error) => ArchiveError::Io(error),
    })
}

/// Checks that the entries fill the file up to the directory: tools that read a zip from its beginning would find
/// unlisted entries in gaps.
fn check_gaps(entries: &[ZipEntry], directory: &ZipDirectory) -> Result<(), ArchiveError> {
    let mut entries: Vec<&ZipEntry> = entries.iter().collect();
    entries.sort_by_key(|entry| entry.span.start);

    let mut end = 0;
    let mut slack = 0;

    for (start, entry) in entries.iter().map(|entry| (entry.span.start, Some(entry))).chain([(directory.start, None)]) {
        match start.checked_sub(end) {
            None => return Err(archive_flaw("entries of the archive overlap")),
            Some(gap) if gap > slack => return Err(archive_flaw("the archive has bytes that belong to no entry")),
            Some(_) => {}
        }
        if let Some(entry) = entry {
            end = entry.span.end;
            slack = if entry.has_data_descriptor { DATA_DESCRIPTOR_MAX } else { 0 };
        }
    }

    Ok(())
}

/// Formats a name for a response: shortened and without control characters.
fn quote_name(name: &str) -> String {
    let cut: String = name.chars().take(REPORTED_NAME_CHARS_MAX).collect();
    let ellipsis = if cut.len() < name.len() { "…" } else { "" };
    format!("\"{}{ellipsis}\"", cut.escape_debug())
}
