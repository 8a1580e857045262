//! Disk with simulated power cuts: a mounted image file. A loop device with direct I/O bypasses the page cache of the
//! host, so a copy of the image has only the data that the file system has written to its device.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::eventually::eventually_blocking;

/// Size of the image in bytes without cuts: the service's reserve of disk space, and the data written before the first
/// cut.
const BASE_BYTES: u64 = 96 << 20;
/// Additional size in bytes for each cut: the data written before the next one.
const BYTES_PER_CUT: u64 = 8 << 20;
/// Maximum number of attempts to copy the image; a copy is repeated if the kernel wrote to the image meanwhile.
const COPY_ATTEMPTS: usize = 20;

/// Mounted image; unmounted and detached on drop.
pub struct SimulatedDisk {
    folder: TempDir,
    device: String,
    mounted: bool,
}

impl SimulatedDisk {
    /// Creates a file system large enough for `cuts` power cuts, and mounts it.
    ///
    /// # Errors
    /// Returns the reason if this machine does not support it.
    pub fn new(cuts: u64) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let image = folder.path().join("image");
        let file = fs::File::create(&image).and_then(|file| file.set_len(BASE_BYTES + cuts * BYTES_PER_CUT));
        file.map_err(|error| error.to_string())?;
        // A small journal, and no initialization in the background, which would keep the device busy.
        let options = ["-q", "-F", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        run(Command::new("mkfs.ext4").args(options).arg(&image))?;
        Self::attach(folder)
    }

    /// Mounts the image in `folder`.
    fn attach(folder: TempDir) -> Result<Self, String> {
        let image = folder.path().join("image");
        let device = run(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(image))?;
        let mut disk = Self { folder, device: device.trim().to_owned(), mounted: false };
        if disk.read_attribute("loop/dio")?.trim() != "1" {
            return Err("the loop device goes through the cache of the host".to_owned());
        }
        fs::create_dir(disk.root()).map_err(|error| error.to_string())?;
        run(Command::new("mount").arg(&disk.device).arg(disk.root()))?;
        disk.mounted = true;
        Ok(disk)
    }

    /// Returns the mount point.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Returns a copy of the disk as it would be after a power cut now: the page cache is lost, but writes that the
    /// kernel has started are completed. No process may write to the file system during the copy.
    pub fn after_power_cut(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        for _ in 0..COPY_ATTEMPTS {
            let before = self.wait_until_settled();
            fs::copy(self.folder.path().join("image"), &image).unwrap();
            if self.read_attribute("stat").unwrap() == before {
                return Self::attach(folder).expect("the file system mounts after a power cut");
            }
        }
        panic!("the kernel writes to {} all the time", self.device);
    }

    /// Waits until the device is idle, and returns its write counters.
    fn wait_until_settled(&self) -> String {
        let mut last = String::new();
        eventually_blocking("the device is idle", || {
            let idle = self.read_attribute("inflight").unwrap().split_whitespace().all(|count| count == "0");
            let before = std::mem::replace(&mut last, self.read_attribute("stat").unwrap());
            (idle && last == before).then_some(before)
        })
    }

    /// Reads an attribute of the device in `/sys/block`.
    fn read_attribute(&self, attribute: &str) -> Result<String, String> {
        let name = Path::new(&self.device).file_name().ok_or("a device without a name")?;
        let path = Path::new("/sys/block").join(name).join(attribute);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for SimulatedDisk {
    fn drop(&mut self) {
        if self.mounted
            && let Err(reason) = run(Command::new("umount").arg(self.root()))
        {
            eprintln!("{reason}");
            let _ = run(Command::new("umount").arg("--lazy").arg(self.root()));
        }
        if let Err(reason) = run(Command::new("losetup").args(["--detach", &self.device])) {
            eprintln!("{reason}");
        }
    }
}

/// Runs a program. Returns its output, or an error with its name and what it printed.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{}: {}", command.get_program().display(), String::from_utf8_lossy(&output.stderr).trim()))
}
