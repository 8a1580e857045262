//! Kinds of damage to the files of a closed log, and the random choice of cases.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::history::{self, LogHistory};

const PAGE_BYTES: u64 = 4096;

/// Damage to one or more files; paths are relative to the directory of the log.
#[derive(Debug, Clone)]
pub enum Damage {
    /// One flipped bit.
    Flip { file: PathBuf, offset: u64, bit: u8 },
    /// Truncated file.
    Cut { file: PathBuf, length: u64 },
    /// Page of zeros.
    ZeroPage { file: PathBuf, offset: u64 },
    /// Two files with their names exchanged.
    Swap(PathBuf, PathBuf),
    /// File or whole directory replaced by the one in the older copy.
    Stale(PathBuf),
    /// Several files or directories replaced by those in the older copy.
    StaleTogether(Vec<PathBuf>),
    /// Missing file or directory.
    Missing(PathBuf),
    /// Additional copy of the first file under the second name.
    Duplicated(PathBuf, PathBuf),
}

impl Damage {
    /// Returns the name of the kind, for the summary.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Flip { .. } => "flipped bit",
            Self::Cut { .. } => "cut file",
            Self::ZeroPage { .. } => "zeroed page",
            Self::Swap(..) => "swapped files",
            Self::Stale(_) | Self::StaleTogether(_) => "older copy",
            Self::Missing(_) => "missing file",
            Self::Duplicated(..) => "duplicated file",
        }
    }

    /// Returns the damaged file; `None` if several are involved.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Flip { file, .. }
            | Self::Cut { file, .. }
            | Self::ZeroPage { file, .. }
            | Self::Stale(file)
            | Self::Missing(file) => Some(file),
            Self::Swap(..) | Self::StaleTogether(_) | Self::Duplicated(..) => None,
        }
    }

    /// Damages the copy of the log in `directory`; `older` is the directory of the older copy.
    pub fn apply(&self, directory: &Path, older: &Path) {
        let open = |file: &Path| OpenOptions::new().read(true).write(true).open(directory.join(file)).unwrap();
        match self {
            Self::Flip { file, offset, bit } => {
                let file = open(file);
                let mut byte = [0];
                file.read_exact_at(&mut byte, *offset).unwrap();
                file.write_all_at(&[byte[0] ^ (1 << bit)], *offset).unwrap();
            }
            Self::Cut { file, length } => open(file).set_len(*length).unwrap(),
            Self::ZeroPage { file, offset } => {
                let length = fs::metadata(directory.join(file)).unwrap().len().min(offset + PAGE_BYTES) - offset;
                open(file).write_all_at(&vec![0; usize::try_from(length).unwrap()], *offset).unwrap();
            }
            Self::Swap(first, second) => {
                let (first, second) = (directory.join(first), directory.join(second));
                let aside = directory.join("aside");
                fs::rename(&first, &aside).unwrap();
                fs::rename(&second, &first).unwrap();
                fs::rename(&aside, &second).unwrap();
            }
            Self::Stale(relative_path) => restore_older(relative_path, directory, older),
            Self::StaleTogether(files) => {
                for relative_path in files {
                    restore_older(relative_path, directory, older);
                }
            }
            Self::Missing(relative_path) => remove(&directory.join(relative_path)),
            Self::Duplicated(file, name) => drop(fs::copy(directory.join(file), directory.join(name)).unwrap()),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Removes a file or directory.
fn remove(path: &Path) {
    if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
}

/// Replaces a file or directory by the one in the older copy.
fn restore_older(path: &Path, directory: &Path, older: &Path) {
    let (target, source) = (directory.join(path), older.join(path));
    remove(&target);
    if source.is_dir() {
        history::copy(&source, &target);
    } else {
        fs::copy(source, target).unwrap();
    }
}

/// Size of the log, and number of cases of each kind.
#[derive(Clone, Copy)]
pub struct DamagePlan {
    pub events: u64,
    pub flips: usize,
    pub cuts: usize,
    pub zeroed: usize,
    /// Swapped, stale, missing and duplicated files.
    pub misplaced: usize,
}

/// Draws the cases at random; the misplaced files begin with the typical mistakes.
pub fn draw_cases(plan: DamagePlan, history: &LogHistory, rng: &mut StdRng) -> Vec<Damage> {
    let files = DamageTargets::from_history(history);
    let flips = (0..plan.flips).map(|index| files.flip(index, rng)).collect::<Vec<_>>();
    let cuts = (0..plan.cuts).map(|index| files.cut(index, rng)).collect::<Vec<_>>();
    let zeroed = (0..plan.zeroed).map(|index| files.zero_page(index, rng)).collect::<Vec<_>>();
    let misplaced = files.typical_mistakes().into_iter().chain((0..).map(|_| files.misplaced(rng)));
    let misplaced: Vec<_> = misplaced.take(plan.misplaced).collect();
    [flips, cuts, zeroed, misplaced].concat()
}

/// Files of the log by purpose.
struct DamageTargets {
    root: PathBuf,
    segments: Vec<PathBuf>,
    /// Segments that the older copy has too.
    old_segments: Vec<PathBuf>,
    sled: Vec<PathBuf>,
    other_files: Vec<PathBuf>,
}

impl DamageTargets {
    fn from_history(history: &LogHistory) -> Self {
        let (segments, remaining): (Vec<_>, Vec<_>) =
            history.files().into_iter().partition(|file| file.extension().is_some_and(|kind| kind == "seg"));
        let (sled, other_files): (Vec<_>, Vec<_>) = remaining.into_iter().partition(|file| file.starts_with("sled"));
        assert!(
            segments.len() > 4 && !sled.is_empty() && other_files.len() > 1,
            "too few files to damage: {segments:?} {sled:?} {other_files:?}"
        );
        let old_segments = segments.iter().filter(|segment| history.older().join(segment).exists());
        Self {
            root: history.current().to_owned(),
            old_segments: old_segments.cloned().collect(),
            segments,
            sled,
            other_files,
        }
    }

    /// Picks a file that is not empty. Of four successive indexes, two pick a segment, one a file of sled, and one
    /// another file: HEAD, the signing key, the snapshot and so on.
    fn pick<'f>(&'f self, index: usize, rng: &mut StdRng) -> &'f Path {
        let candidates = match index % 4 {
            0 | 2 => &self.segments,
            1 => &self.sled,
            _ => &self.other_files,
        };
        loop {
            let file = candidates.choose(rng).unwrap();
            if self.length(file) > 0 {
                return file;
            }
        }
    }

    fn length(&self, file: &Path) -> u64 {
        fs::metadata(self.root.join(file)).unwrap().len()
    }

    /// Returns a random offset, in nine cases of ten at a byte other than zero, because much of the files is unused.
    fn offset(&self, file: &Path, rng: &mut StdRng) -> u64 {
        let handle = File::open(self.root.join(file)).unwrap();
        let length = self.length(file);
        let attempts = if rng.gen_bool(0.1) { 1 } else { 200 };
        let mut offset = 0;
        for _ in 0..attempts {
            offset = rng.gen_range(0..length);
            let mut byte = [0];
            handle.read_exact_at(&mut byte, offset).unwrap();
            if byte != [0] {
                break;
            }
        }
        offset
    }

    fn flip(&self, index: usize, rng: &mut StdRng) -> Damage {
        let file = self.pick(index, rng);
        Damage::Flip { file: file.to_owned(), offset: self.offset(file, rng), bit: rng.gen_range(0..8) }
    }

    fn cut(&self, index: usize, rng: &mut StdRng) -> Damage {
        let file = self.pick(index, rng);
        Damage::Cut { file: file.to_owned(), length: self.offset(file, rng) }
    }

    fn zero_page(&self, index: usize, rng: &mut StdRng) -> Damage {
        let file = self.pick(index, rng);
        Damage::ZeroPage { file: file.to_owned(), offset: self.offset(file, rng) / PAGE_BYTES * PAGE_BYTES }
    }

    /// Returns the cases of typical operator mistakes with the directory.
    fn typical_mistakes(&self) -> Vec<Damage> {
        let path = PathBuf::from;
        let in_journal = |name: &str| path("journal").join(name);
        let head = in_journal("HEAD");
        let last = self.segments.last().unwrap().clone();
        // The last segment of the older copy has more events in the current log.
        let changed = self.old_segments.last().unwrap().clone();
        vec![
            Damage::Stale(head.clone()),
            Damage::Stale(changed.clone()),
            Damage::Stale(path("sled")),
            Damage::Stale(path("snapshots")),
            Damage::Stale(path("journal")),
            Damage::StaleTogether(vec![head.clone(), changed.clone()]),
            Damage::StaleTogether(vec![head.clone(), path("sled")]),
            Damage::StaleTogether(vec![changed.clone(), path("sled")]),
            Damage::Missing(head.clone()),
            Damage::Missing(path("signing.key")),
            Damage::Missing(path("journal")),
            Damage::Missing(path("sled")),
            Damage::Missing(last.clone()),
            Damage::Missing(self.segments[0].clone()),
            Damage::Swap(head.clone(), last.clone()),
            Damage::Swap(path("snapshots/models"), last.clone()),
            Damage::Duplicated(head, in_journal("HEAD.draft")),
            Damage::Duplicated(last.clone(), in_journal("next.tmp")),
            Damage::Duplicated(last, in_journal("99999999999999999999.seg")),
            Damage::Duplicated(changed, in_journal("a copy.seg")),
        ]
    }

    /// Returns a random case with swapped, stale, missing or duplicated files.
    fn misplaced(&self, rng: &mut StdRng) -> Damage {
        let segment = |rng: &mut StdRng| self.segments.choose(rng).unwrap().clone();
        let any_file = |rng: &mut StdRng| {
            let index = rng.gen_range(0..4);
            self.pick(index, rng).to_owned()
        };
        match rng.gen_range(0..10) {
            0..4 => {
                let pair: Vec<_> = self.segments.choose_multiple(rng, 2).cloned().collect();
                Damage::Swap(pair[0].clone(), pair[1].clone())
            }
            4..6 => Damage::StaleTogether(self.old_segments.choose_multiple(rng, 3).cloned().collect()),
            6..9 => Damage::Missing(any_file(rng)),
            _ => {
                let position: u64 = rng.gen_range(1..15_000);
                Damage::Duplicated(segment(rng), format!("journal/{position:020}.seg").into())
            }
        }
    }
}
