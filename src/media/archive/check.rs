//! Safety check of zip archives: no entry leaves the target directory, no content is hidden from some tools, no entry
//! expands excessively, and every entry can be unpacked.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Seek};
use std::ops::Range;

use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;
use zip::{ZipArchive, ZipReadOptions};

use super::directory::{self, Directory, DirectoryError, Header};
use super::path;

/// Maximum size of all entries together, unpacked.
pub const UNPACKED_MAX: u64 = 1 << 30;
/// Maximum ratio of unpacked to packed size, of a large entry or a large archive: deflated source files stay below 20.
pub const RATIO_MAX: u64 = 200;
/// Entries and archives with more unpacked bytes are large.
const LARGE: u64 = 1 << 20;
/// Maximum number of reported flaws.
pub const FLAWS_TOLD: usize = 20;
/// Maximum length of a reported name, in characters.
const NAME_TOLD: usize = 200;
/// Bytes unpacked at a time.
const CHUNK: usize = 64 * 1024;

/// Flags of an encrypted entry, one per method.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;

/// Flag of an entry followed by a data descriptor with its sizes, and the maximum size of the descriptor.
const DESCRIBED_AFTER: u16 = 1 << 3;
const DESCRIPTION_MAX: u64 = 24;

/// Reason why a file was rejected.
#[derive(Debug)]
pub enum Refusal {
    /// Not a zip, or a harmful one.
    Bad(Flaws),
    /// The file could not be read; not a fault of the file.
    Io(io::Error),
}

/// Flaws of an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flaws {
    told: Vec<String>,
    count: usize,
}

impl Flaws {
    /// Returns at most [`FLAWS_TOLD`] sentences, each about the archive or an entry.
    #[must_use]
    pub fn told(&self) -> &[String] {
        &self.told
    }

    /// Returns the number of flaws, including unreported ones.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    fn add(&mut self, sentence: impl FnOnce() -> String) {
        self.count += 1;
        if self.told.len() < FLAWS_TOLD {
            self.told.push(sentence());
        }
    }
}

impl From<DirectoryError> for Refusal {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Bad(sentence) => whole(sentence),
            DirectoryError::Io(error) => Self::Io(error),
        }
    }
}

/// Returns a refusal of the archive as a whole.
fn whole(sentence: impl Into<String>) -> Refusal {
    Refusal::Bad(Flaws { told: vec![sentence.into()], count: 1 })
}

/// Returns the library's reason, which is a flaw of the file unless the disk failed.
fn refused(error: ZipError) -> Result<String, io::Error> {
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
/// Returns [`Refusal`] with all flaws.
pub fn check(mut file: impl Read + Seek) -> Result<(), Refusal> {
    let directory = directory::read(&mut file)?;
    let mut archive = open(file, &directory)?;
    let mut entries = survey(&archive, &directory);
    note_conflicts(&mut entries);

    let sum = |bytes: fn(&Sizes) -> u64| entries.iter().fold(0, |sum: u64, e| sum.saturating_add(bytes(&e.sizes)));
    let unpacked = sum(|sizes| sizes.unpacked);
    if unpacked > UNPACKED_MAX {
        return Err(whole(format!("the archive unpacks to {unpacked} bytes: at most {UNPACKED_MAX} are taken")));
    }

    // Entries may claim to share bytes; together they have at most those before the directory.
    let together = Sizes { packed: sum(|sizes| sizes.packed).min(directory.start), unpacked };
    if together.swell() && entries.iter().all(|entry| entry.flaw.is_none()) {
        return Err(whole(format!("the archive unpacks to more than {RATIO_MAX} times its size")));
    }

    let mut buffer = vec![0; CHUNK];

    for (index, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| entry.flaw.is_none()) {
        let flaw = unpack(&mut archive, index, entry, &mut buffer).map_err(Refusal::Io)?;
        entry.flaw = flaw.map(Flaw::Said);
    }

    settle(&mut archive, &entries, &directory)
}

/// Opens the archive with the library, which must find the same directory.
fn open<F: Read + Seek>(file: F, directory: &Directory) -> Result<ZipArchive<F>, Refusal> {
    let archive = ZipArchive::with_config(Config { archive_offset: ArchiveOffset::Known(0) }, file);
    let archive = archive.map_err(|error| refused(error).map_or_else(Refusal::Io, whole))?;
    if archive.central_directory_start() != directory.start {
        return Err(whole("the archive can be read in two ways"));
    }
    if archive.len() == directory.headers.len() {
        return Ok(archive);
    }

    let mut flaws = Flaws::default();
    let mut seen = HashSet::new();

    for header in &directory.headers {
        if !seen.insert(&header.name) {
            flaws.add(|| format!("{} is there twice", shown(&String::from_utf8_lossy(&header.name))));
        }
    }

    // The library renames entries whose headers contain a second name.
    Err(if flaws.count == 0 { whole("two entries have the same name") } else { Refusal::Bad(flaws) })
}

/// Properties of an entry before unpacking.
struct Entry {
    name: String,
    key: String,
    kind: Kind,
    /// As claimed by the entry.
    sizes: Sizes,
    /// Place in the file including the header; known after unpacking.
    span: Range<u64>,
    /// `true` if a data descriptor follows the entry.
    described_after: bool,
    flaw: Option<Flaw>,
}

/// Flaw of an entry. Formatted only when reported, because names are long and entries are many.
enum Flaw {
    /// Words that follow the name.
    Said(Cow<'static, str>),
    /// The same file as the entry of this index on some systems.
    SameAs(usize),
    /// Inside the entry of this index, which is not a directory.
    Inside(usize),
}

impl Flaw {
    fn words(&self, entries: &[Entry]) -> Cow<'static, str> {
        match self {
            Self::Said(words) => words.clone(),
            Self::SameAs(index) => {
                format!("is the same file as {} on some systems", shown(&entries[*index].name)).into()
            }
            Self::Inside(index) => {
                format!("lies inside {}, which is no directory", shown(&entries[*index].name)).into()
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Link,
    /// A device, a pipe and so on.
    Other,
}

impl Kind {
    /// Determines the kind from the mode, regardless of the stated system, as unpacking tools do.
    fn of(name: &str, attributes: u32) -> Self {
        match attributes >> 28 {
            0o12 => Self::Link,
            0o4 => Self::Directory,
            0 | 0o10 if name.ends_with(['/', '\\']) => Self::Directory,
            0 | 0o10 => Self::File,
            _ => Self::Other,
        }
    }
}

fn survey<F: Read + Seek>(archive: &ZipArchive<F>, directory: &Directory) -> Vec<Entry> {
    let headers: HashMap<u64, &Header> = directory.headers.iter().map(|header| (header.at, header)).collect();
    let entries = (0..archive.len()).map(|index| {
        let data = archive.by_index_data(index);
        let found = data.ok().and_then(|data| Some((headers.get(&data.central_header_start())?, data)));
        let Some((header, data)) = found else {
            let name = format!("entry {index}");
            let flaw = Some(Flaw::Said("is not where the directory says".into()));
            let key = name.clone();
            let kind = Kind::File;
            let described_after = false;
            return Entry { key, name, kind, sizes: Sizes::default(), span: 0..0, described_after, flaw };
        };
        let name = data.name().map(Cow::into_owned);
        let name = name.unwrap_or_else(|_| String::from_utf8_lossy(data.name_raw()).into_owned());
        let kind = Kind::of(&name, header.attributes);
        let sizes = Sizes { packed: data.compressed_size(), unpacked: data.size() };
        let flaw = flaw(&name, header, kind, sizes).map(Flaw::Said);
        let described_after = header.flags & DESCRIBED_AFTER != 0;
        Entry { key: path::key(&name), name, kind, sizes, span: 0..0, described_after, flaw }
    });

    entries.collect()
}

#[derive(Clone, Copy, Default)]
struct Sizes {
    packed: u64,
    unpacked: u64,
}

impl Sizes {
    /// Returns `true` if something large exceeds the allowed ratio.
    fn swell(&self) -> bool {
        self.unpacked > LARGE && self.unpacked / RATIO_MAX >= self.packed.max(1)
    }
}

fn flaw(name: &str, header: &Header, kind: Kind, sizes: Sizes) -> Option<Cow<'static, str>> {
    // A header may contain a second name, which only some tools use.
    let first_name = String::from_utf8_lossy(&header.name);
    if let Some(flaw) = path::flaw(name).or_else(|| path::flaw(&first_name)) {
        return Some(flaw.into());
    }
    if kind != Kind::Directory && path::key(name).is_empty() {
        return Some("names no file".into());
    }
    if header.flags & ENCRYPTED != 0 {
        return Some("is encrypted".into());
    }

    if !matches!(header.method, 0 | 8) {
        return Some(
            format!("is packed by method {}: only stored and deflated entries are taken", header.method).into(),
        );
    }

    if kind == Kind::Other {
        return Some("is neither a file, a directory nor a symbolic link".into());
    }
    if sizes.swell() {
        return Some(format!("unpacks to more than {RATIO_MAX} times its size").into());
    }

    None
}

/// Records entries that are the same file on some system, and entries inside a non-directory. In tree order each entry
/// needs to be compared with only two others.
fn note_conflicts(entries: &mut [Entry]) {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by(|a, b| in_tree_order(&entries[*a].key).cmp(in_tree_order(&entries[*b].key)));

    let mut first: Option<usize> = None;
    let mut around: Option<usize> = None;

    for index in order {
        let entry = &entries[index];
        let same = first.filter(|first| entries[*first].key == entry.key);
        let outer = around.filter(|around| lies_inside(&entry.key, &entries[*around].key));
        if same.is_none() {
            first = Some(index);
        }
        if outer.is_none() && entry.kind != Kind::Directory {
            around = Some(index);
        }
        let flaw = same.map(Flaw::SameAs).or_else(|| outer.map(Flaw::Inside));
        let known = &mut entries[index].flaw;
        *known = known.take().or(flaw);
    }
}

/// Returns bytes that compare in tree order: the slash sorts first.
fn in_tree_order(key: &str) -> impl Iterator<Item = u16> + '_ {
    key.bytes().map(|byte| if byte == b'/' { 0 } else { u16::from(byte) + 1 })
}

fn lies_inside(key: &str, outer: &str) -> bool {
    key.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

/// Unpacks an entry without storing it, and returns its flaw, if any. The library verifies the checksum and stops if an
/// entry is larger than claimed.
fn unpack<F: Read + Seek>(
    archive: &mut ZipArchive<F>,
    index: usize,
    entry: &mut Entry,
    buffer: &mut [u8],
) -> io::Result<Option<Cow<'static, str>>> {
    let does_not = |error| refused(error).map(|reason| Some(format!("does not unpack: {reason}").into()));
    let mut file = match archive.by_index_with_options(index, ZipReadOptions::new()) {
        Ok(file) => file,
        Err(error) => return does_not(error),
    };

    let data_start = file.data_start().unwrap_or_default();
    entry.span = file.header_start()..data_start.saturating_add(file.compressed_size());

    let mut unpacked = 0;
    let mut target = Vec::new();

    loop {
        let read = match file.read(buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return does_not(error.into()),
        };
        unpacked += read as u64;
        if entry.kind == Kind::Link && target.len() < CHUNK {
            target.extend_from_slice(&buffer[..read]);
        }
    }

    if unpacked != entry.sizes.unpacked {
        return Ok(Some(format!("says that it has {} bytes, and has {unpacked}", entry.sizes.unpacked).into()));
    }

    let target = (entry.kind == Kind::Link).then(|| String::from_utf8_lossy(&target).into_owned());
    Ok(target.and_then(|target| path::target_flaw(&entry.name, &target)).map(Cow::Borrowed))
}

/// Reports all flaws. If there are none, checks that entries and directory agree and that the file contains nothing
/// else.
fn settle<F: Read + Seek>(
    archive: &mut ZipArchive<F>,
    entries: &[Entry],
    directory: &Directory,
) -> Result<(), Refusal> {
    let mut flaws = Flaws::default();

    for entry in entries {
        if let Some(flaw) = &entry.flaw {
            flaws.add(|| format!("{} {}", shown(&entry.name), flaw.words(entries)));
        }
    }

    if flaws.count > 0 {
        return Err(Refusal::Bad(flaws));
    }
    check_gaps(entries, directory)?;

    archive.validate_header_consistency().map_err(|error| match refused(error) {
        Ok(reason) => whole(format!("the entries and the directory of the archive differ: {reason}")),
        Err(error) => Refusal::Io(error),
    })
}

/// Checks that the entries fill the file up to the directory: tools that read a zip from its beginning would find
/// unlisted entries in gaps.
fn check_gaps(entries: &[Entry], directory: &Directory) -> Result<(), Refusal> {
    let mut entries: Vec<&Entry> = entries.iter().collect();
    entries.sort_by_key(|entry| entry.span.start);

    let mut end = 0;
    let mut slack = 0;

    for (start, entry) in entries.iter().map(|entry| (entry.span.start, Some(entry))).chain([(directory.start, None)]) {
        match start.checked_sub(end) {
            None => return Err(whole("entries of the archive overlap")),
            Some(gap) if gap > slack => return Err(whole("the archive holds bytes that belong to no entry")),
            Some(_) => {}
        }
        if let Some(entry) = entry {
            end = entry.span.end;
            slack = if entry.described_after { DESCRIPTION_MAX } else { 0 };
        }
    }

    Ok(())
}

/// Formats a name for a response: shortened and without control characters.
fn shown(name: &str) -> String {
    let cut: String = name.chars().take(NAME_TOLD).collect();
    let more = if cut.len() < name.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}
