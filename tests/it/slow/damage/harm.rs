//! Kinds of damage to the files of a closed log.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::history::{self, LogHistory};

const PAGE_BYTES: u64 = 4096;

/// One damage; paths are relative to the directory of the log.
#[derive(Debug, Clone)]
pub enum Harm {
    /// One flipped bit.
    Flip { file: PathBuf, offset: u64, bit: u8 },
    /// Truncated file.
    Cut { file: PathBuf, length: u64 },
    /// Page of zeros.
    ZeroPage { file: PathBuf, offset: u64 },
    /// Two files with their names exchanged.
    Swap(PathBuf, PathBuf),
    /// File, or everything below the directory, in its state of yesterday.
    Stale(PathBuf),
    /// Several files in their state of yesterday.
    StaleTogether(Vec<PathBuf>),
    /// Missing file or directory.
    Missing(PathBuf),
    /// Copy of the file under another name.
    Doubled(PathBuf, PathBuf),
}

impl Harm {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Flip { .. } => "flipped bit",
            Self::Cut { .. } => "cut file",
            Self::ZeroPage { .. } => "zeroed page",
            Self::Swap(..) => "swapped files",
            Self::Stale(_) | Self::StaleTogether(_) => "older copy",
            Self::Missing(_) => "missing file",
            Self::Doubled(..) => "doubled file",
        }
    }

    /// Returns the damaged file, if there is exactly one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Flip { file, .. }
            | Self::Cut { file, .. }
            | Self::ZeroPage { file, .. }
            | Self::Stale(file)
            | Self::Missing(file) => Some(file),
            Self::Swap(..) | Self::StaleTogether(_) | Self::Doubled(..) => None,
        }
    }

    /// Applies the damage to a copy of today's log.
    pub fn inflict(&self, directory: &Path, yesterday: &Path) {
        let open = |file: &Path| OpenOptions::new().read(true).write(true).open(directory.join(file)).unwrap();
        match self {
            Self::Flip { file, offset, bit } => {
                let (file, mut byte) = (open(file), [0]);
                file.read_exact_at(&mut byte, *offset).unwrap();
                file.write_all_at(&[byte[0] ^ (1 << bit)], *offset).unwrap();
            }
            Self::Cut { file, length } => open(file).set_len(*length).unwrap(),
            Self::ZeroPage { file, offset } => {
                let length = fs::metadata(directory.join(file)).unwrap().len().min(offset + PAGE_BYTES) - offset;
                open(file).write_all_at(&vec![0; usize::try_from(length).unwrap()], *offset).unwrap();
            }
            Self::Swap(first, other) => {
                let (first, other, aside) = (directory.join(first), directory.join(other), directory.join("aside"));
                fs::rename(&first, &aside).unwrap();
                fs::rename(&other, &first).unwrap();
                fs::rename(&aside, &other).unwrap();
            }
            Self::Stale(relative_path) => put_back(relative_path, directory, yesterday),
            Self::StaleTogether(files) => {
                for relative_path in files {
                    put_back(relative_path, directory, yesterday);
                }
            }
            Self::Missing(relative_path) => remove(&directory.join(relative_path)),
            Self::Doubled(file, name) => drop(fs::copy(directory.join(file), directory.join(name)).unwrap()),
        }
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

fn remove(file: &Path) {
    if file.is_dir() { fs::remove_dir_all(file).unwrap() } else { fs::remove_file(file).unwrap() }
}

/// Restores yesterday's state of a file or directory; removes what did not exist then.
fn put_back(file: &Path, directory: &Path, yesterday: &Path) {
    let (target, source) = (directory.join(file), yesterday.join(file));
    remove(&target);
    if source.is_dir() {
        history::copy(&source, &target);
    } else {
        fs::copy(source, target).unwrap();
    }
}

/// Size of the log, and number of cases of each kind.
#[derive(Clone, Copy)]
pub struct HarmPlan {
    pub events: u64,
    pub flips: usize,
    pub cuts: usize,
    pub zeroed: usize,
    pub misplaced: usize,
}

/// Draws the cases: every file once, then random ones.
pub fn draw(plan: HarmPlan, history: &LogHistory, rng: &mut StdRng) -> Vec<Harm> {
    let files = HarmTargets::from_history(history);
    let flips = (0..plan.flips).map(|index| files.flip(index, rng)).collect::<Vec<_>>();
    let cuts = (0..plan.cuts).map(|index| files.cut(index, rng)).collect::<Vec<_>>();
    let zeroed = (0..plan.zeroed).map(|index| files.zero_page(index, rng)).collect::<Vec<_>>();
    let certain = files.typical_mistakes();
    let misplaced = certain.into_iter().chain((0..).map(|_| files.misplaced(rng)));
    let misplaced: Vec<_> = misplaced.take(plan.misplaced).collect();
    [flips, cuts, zeroed, misplaced].concat()
}

/// Files of the log by purpose.
struct HarmTargets {
    root: PathBuf,
    segments: Vec<PathBuf>,
    /// Segments that existed yesterday.
    old_segments: Vec<PathBuf>,
    sled: Vec<PathBuf>,
    other_files: Vec<PathBuf>,
}

impl HarmTargets {
    fn from_history(history: &LogHistory) -> Self {
        let (segments, remaining): (Vec<_>, Vec<_>) =
            history.files().into_iter().partition(|file| file.extension().is_some_and(|kind| kind == "seg"));
        let (sled, other_files): (Vec<_>, Vec<_>) = remaining.into_iter().partition(|file| file.starts_with("sled"));
        assert!(
            segments.len() > 4 && !sled.is_empty() && other_files.len() > 1,
            "{segments:?} {sled:?} {other_files:?}"
        );
        let old = segments.iter().filter(|segment| history.yesterday().join(segment).exists());
        Self { root: history.today().to_owned(), old_segments: old.cloned().collect(), segments, sled, other_files }
    }

    /// Half of the cases are in segments, a quarter in sled, a quarter in HEAD, the key, the snapshot and so on.
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

    /// Returns a random offset, mostly within used parts of the file.
    fn offset(&self, file: &Path, rng: &mut StdRng) -> u64 {
        let (handle, length) = (File::open(self.root.join(file)).unwrap(), self.length(file));
        let tries = if rng.gen_bool(0.1) { 1 } else { 200 };
        let mut offset = 0;
        for _ in 0..tries {
            offset = rng.gen_range(0..length);
            let mut byte = [0];
            handle.read_exact_at(&mut byte, offset).unwrap();
            if byte != [0] {
                break;
            }
        }
        offset
    }

    fn flip(&self, index: usize, rng: &mut StdRng) -> Harm {
        let file = self.pick(index, rng);
        Harm::Flip { file: file.to_owned(), offset: self.offset(file, rng), bit: rng.gen_range(0..8) }
    }

    fn cut(&self, index: usize, rng: &mut StdRng) -> Harm {
        let file = self.pick(index, rng);
        Harm::Cut { file: file.to_owned(), length: self.offset(file, rng) }
    }

    fn zero_page(&self, index: usize, rng: &mut StdRng) -> Harm {
        let file = self.pick(index, rng);
        Harm::ZeroPage { file: file.to_owned(), offset: self.offset(file, rng) / PAGE_BYTES * PAGE_BYTES }
    }

    /// Returns typical operator mistakes with a directory.
    fn typical_mistakes(&self) -> Vec<Harm> {
        let path = PathBuf::from;
        let (head, last) = (path("journal/HEAD"), self.segments.last().unwrap().clone());
        let changed = self.old_segments.last().unwrap().clone();
        let copy = |name: &str| path("journal").join(name);
        vec![
            Harm::Stale(head.clone()),
            Harm::Stale(changed.clone()),
            Harm::Stale(path("sled")),
            Harm::Stale(path("snapshots")),
            Harm::Stale(path("journal")),
            Harm::StaleTogether(vec![head.clone(), changed.clone()]),
            Harm::StaleTogether(vec![head.clone(), path("sled")]),
            Harm::StaleTogether(vec![changed.clone(), path("sled")]),
            Harm::Missing(head.clone()),
            Harm::Missing(path("signing.key")),
            Harm::Missing(path("journal")),
            Harm::Missing(path("sled")),
            Harm::Missing(last.clone()),
            Harm::Missing(self.segments[0].clone()),
            Harm::Swap(head.clone(), last.clone()),
            Harm::Swap(path("snapshots/models"), last.clone()),
            Harm::Doubled(head, copy("HEAD.draft")),
            Harm::Doubled(last.clone(), copy("next.tmp")),
            Harm::Doubled(last, copy("99999999999999999999.seg")),
            Harm::Doubled(changed, copy("a copy.seg")),
        ]
    }

    fn misplaced(&self, rng: &mut StdRng) -> Harm {
        let segment = |rng: &mut StdRng| self.segments.choose(rng).unwrap().clone();
        let any_file = |rng: &mut StdRng| {
            let nth = rng.gen_range(0..4);
            self.pick(nth, rng).to_owned()
        };
        match rng.gen_range(0..10) {
            0..4 => {
                let pair: Vec<_> = self.segments.choose_multiple(rng, 2).cloned().collect();
                Harm::Swap(pair[0].clone(), pair[1].clone())
            }
            4..6 => Harm::StaleTogether(self.old_segments.choose_multiple(rng, 3).cloned().collect()),
            6..9 => Harm::Missing(any_file(rng)),
            _ => {
                let position: u64 = rng.gen_range(1..15_000);
                Harm::Doubled(segment(rng), format!("journal/{position:020}.seg").into())
            }
        }
    }
}
