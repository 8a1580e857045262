//! Encrypted store of responses for idempotency keys: one sealed file for each key, readable only with the key itself.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use hmac::{Hmac, Mac};
use parking_lot::{Mutex, RwLock};
use sha2::Sha256;

use super::idempotent_request::IdempotentRequest;
use super::stored_response::StoredResponse;
use crate::data_dir::{DataDir, read_private, to_help, write_private};
use crate::domain::claim::RETENTION;
use crate::domain::value::{Digest, Timestamp};
use crate::environment::Environment;

/// Maximum size of all stored responses, in bytes. A response over it is not stored, and rebuilt on replay.
const STORE_MAX: u64 = 1 << 30;
/// Share of [`STORE_MAX`] for responses to requests without commands, in bytes.
const WITHOUT_COMMANDS_MAX: u64 = 128 << 20;
/// File extension of responses to requests without commands.
const WITHOUT_COMMANDS_EXTENSION: &str = "bare";
/// File extension of responses being written.
const DRAFT_EXTENSION: &str = "draft";
/// Minimum size of a file on disk, in bytes.
const FILE_MIN: u64 = 4096;
/// Version of the file format; other versions are ignored.
const FORMAT_VERSION: u8 = 1;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// Reason why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ResponseStoreError {
    #[error("{path}: {source}{}", to_help(path, source), path = path.display())]
    File { path: PathBuf, source: io::Error },
    /// A damaged secret is never replaced: everything sealed with it would be lost.
    #[error("{path}: must contain 64 hexadecimal digits", path = path.display())]
    Malformed { path: PathBuf },
}

/// Store of sealed responses.
pub struct ResponseStore {
    root: PathBuf,
    secret: [u8; 32],
    usage: Mutex<ResponseStoreUsage>,
    /// Number of [`ResponseStore::purge`] calls. Writers hold the read lock, `purge` the write lock, so a response from
    /// before a `purge` is never written after it.
    purge_epoch: RwLock<PurgeEpoch>,
}

/// Time at which a request began, counted in calls of [`ResponseStore::purge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurgeEpoch(u64);

/// Kind of the request that a stored response belongs to. The log bounds the number of requests with commands;
/// responses to all others have a size limit of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    WithCommands,
    WithoutCommands,
}

impl RequestKind {
    const ALL: [Self; 2] = [Self::WithCommands, Self::WithoutCommands];
}

/// Bytes of stored responses. A replaced file counts until the next sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ResponseStoreUsage {
    total: u64,
    /// Bytes of responses to requests without commands.
    without_commands: u64,
}

impl ResponseStoreUsage {
    fn from_file_size(bytes: u64, kind: RequestKind) -> Self {
        let size = bytes.max(FILE_MIN);
        let without_commands = match kind {
            RequestKind::WithCommands => 0,
            RequestKind::WithoutCommands => size,
        };
        Self { total: size, without_commands }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            total: self.total.saturating_add(other.total),
            without_commands: self.without_commands.saturating_add(other.without_commands),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            total: self.total.saturating_sub(other.total),
            without_commands: self.without_commands.saturating_sub(other.without_commands),
        }
    }
}

impl ResponseStore {
    /// Opens the store in `<data dir>/answers` and sums up its files. Reads the secret from `<data
    /// dir>/idempotency-key` and creates it if it is missing.
    ///
    /// # Errors
    /// [`ResponseStoreError`] if the secret cannot be read or written.
    pub fn open(data: &DataDir, environment: &Environment) -> Result<Self, ResponseStoreError> {
        let path = data.path("idempotency-key");
        let failed = |source| ResponseStoreError::File { path: path.clone(), source };

        let secret = if let Some(text) = read_private(&path).map_err(failed)? {
            Digest::parse(text.trim()).map_err(|_| ResponseStoreError::Malformed { path: path.clone() })?
        } else {
            let secret = Digest(environment.random_bytes());
            write_private(&path, format!("{secret}\n").as_bytes()).map_err(failed)?;
            secret
        };

        let root = data.path("answers");
        let usage =
            files(&root).map(|path| file_usage(&path)).fold(ResponseStoreUsage::default(), ResponseStoreUsage::plus);
        Ok(Self { root, secret: secret.0, usage: Mutex::new(usage), purge_epoch: RwLock::default() })
    }

    /// Derives the random seed of a request. `first_run_at` is the time of its first execution: a key that is used
    /// again after its expiry must not produce the same ids.
    #[must_use]
    pub fn seed(&self, request: &IdempotentRequest, first_run_at: Timestamp) -> [u8; 32] {
        self.derive(
            b"seed",
            &[request.caller_and_key.as_bytes(), &request.fingerprint.0, &first_run_at.micros().to_le_bytes()],
        )
    }

    /// Returns the stored response of a request, regardless of its age. Blocks. An unreadable response counts as
    /// missing: the claim in the log prevents a second execution.
    #[must_use]
    pub fn read(&self, request: &IdempotentRequest) -> Option<StoredResponse> {
        RequestKind::ALL.into_iter().find_map(|kind| self.open_file(request, kind))
    }

    fn open_file(&self, request: &IdempotentRequest, kind: RequestKind) -> Option<StoredResponse> {
        let sealed = match fs::read(self.path(&request.id, kind)) {
            Ok(sealed) => sealed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%error, "stored response unreadable");
                return None;
            }
        };

        let (format_version, remaining) = sealed.split_first()?;
        let (nonce, sealed) =
            remaining.split_first_chunk::<NONCE_BYTES>().filter(|_| *format_version == FORMAT_VERSION)?;

        let payload = Payload { msg: sealed, aad: &request.id.0 };
        let plaintext = self.cipher(request).decrypt(nonce.into(), payload).ok()?;
        StoredResponse::from_bytes(plaintext)
    }

    /// Returns the current epoch, for a request that begins.
    #[must_use]
    pub fn epoch(&self) -> PurgeEpoch {
        *self.purge_epoch.read()
    }

    /// Stores the response to a request that began at `epoch`. Does nothing if the store is full, or if
    /// [`ResponseStore::purge`] was called since: the response may contain data that was erased by then. The write is
    /// atomic, but need not survive a power failure. Blocks.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(
        &self,
        request: &IdempotentRequest,
        response: &StoredResponse,
        nonce: [u8; NONCE_BYTES],
        kind: RequestKind,
        epoch: PurgeEpoch,
    ) -> io::Result<()> {
        let purge_epoch = self.purge_epoch.read();
        if *purge_epoch != epoch {
            return Ok(());
        }

        let plaintext = response.to_bytes();
        // The version of the format is one byte.
        let file_size = 1 + NONCE_BYTES + plaintext.len() + TAG_BYTES;
        let added = ResponseStoreUsage::from_file_size(file_size as u64, kind);
        if !self.reserve(added) {
            return Ok(());
        }

        let result = self.write_file(request, response.at, &plaintext, nonce, kind);
        if result.is_err() {
            let mut usage = self.usage.lock();
            *usage = usage.minus(added);
        }
        result
    }

    fn write_file(
        &self,
        request: &IdempotentRequest,
        at: Timestamp,
        plaintext: &[u8],
        nonce: [u8; NONCE_BYTES],
        kind: RequestKind,
    ) -> io::Result<()> {
        let payload = Payload { msg: plaintext, aad: &request.id.0 };
        let sealed = self.cipher(request).encrypt(&nonce.into(), payload);
        let sealed = sealed.map_err(|error| io::Error::other(error.to_string()))?;

        let path = self.path(&request.id, kind);
        let draft = path.with_extension(DRAFT_EXTENSION);
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(&self.root))?;

        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(&[&[FORMAT_VERSION], &nonce[..], &sealed].concat())?;
            // Lets the sweep read the age without opening the file.
            file.set_modified(system_time(at))?;
            fs::rename(&draft, &path)
        };

        write().inspect_err(|_| {
            // Free the space: the disk may be full.
            let _ = fs::remove_file(&draft);
        })
    }

    /// Reserves the bytes of a response. Returns `false`, and reserves nothing, if the store is full.
    fn reserve(&self, added: ResponseStoreUsage) -> bool {
        let mut usage = self.usage.lock();
        let sum = usage.plus(added);
        let has_room =
            sum.total <= STORE_MAX && (added.without_commands == 0 || sum.without_commands <= WITHOUT_COMMANDS_MAX);

        if has_room {
            *usage = sum;
        }
        has_room
    }

    /// Deletes expired responses and recounts the others. Blocks.
    pub fn sweep(&self, now: Timestamp) {
        let before = *self.usage.lock();
        let mut remaining = ResponseStoreUsage::default();

        for path in files(&self.root) {
            let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
            let is_expired = modified.is_ok_and(|at| at + RETENTION <= system_time(now));
            let size = file_usage(&path);
            if !is_expired {
                remaining = remaining.plus(size);
            } else if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(%error, path = %path.display(), "expired response not removed");
                remaining = remaining.plus(size);
            }
        }

        let mut usage = self.usage.lock();
        // Add the responses written during the scan; those that the scan saw too count twice until the next sweep.
        *usage = remaining.plus(usage.minus(before));
    }

    /// Deletes every response to a request with commands, durably, and stores none for requests that have begun
    /// already. Blocks.
    ///
    /// # Errors
    /// If a file cannot be deleted; all others are.
    pub fn purge(&self) -> io::Result<()> {
        let drafts = {
            // No writer runs while the lock is held, so drafts are leftovers of a crash.
            let mut purge_epoch = self.purge_epoch.write();
            purge_epoch.0 += 1;
            self.purge_files(|extension| extension.is_some_and(|extension| extension == DRAFT_EXTENSION))
        };
        drafts.and(self.purge_files(|extension| extension.is_none()))
    }

    fn purge_files(&self, should_remove: impl Fn(Option<&OsStr>) -> bool) -> io::Result<()> {
        let mut outcome = Ok(());
        for folder in entries(&self.root) {
            let matching: Vec<_> = entries(&folder).filter(|path| should_remove(path.extension())).collect();
            for path in &matching {
                outcome = outcome.and(self.remove(path));
            }

            if !matching.is_empty() {
                outcome = outcome.and(File::open(&folder).and_then(|folder| folder.sync_all()));
            }
        }
        outcome
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let size = file_usage(path);
        match fs::remove_file(path) {
            Ok(()) => {
                let mut usage = self.usage.lock();
                *usage = usage.minus(size);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        }
    }

    fn path(&self, id: &Digest, kind: RequestKind) -> PathBuf {
        let name = id.to_string();
        let path = self.root.join(&name[..2]).join(name);
        match kind {
            RequestKind::WithCommands => path,
            RequestKind::WithoutCommands => path.with_extension(WITHOUT_COMMANDS_EXTENSION),
        }
    }

    fn cipher(&self, request: &IdempotentRequest) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.derive(b"seal", &[request.caller_and_key.as_bytes()]).into())
    }

    fn derive(&self, purpose: &[u8], parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        for part in [purpose].iter().chain(parts) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

/// Returns the files of all responses.
fn files(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    entries(root).flat_map(|folder| entries(&folder))
}

/// Returns the size of a file; zero if it is missing.
fn file_usage(path: &Path) -> ResponseStoreUsage {
    let is_without_commands = path.extension().is_some_and(|extension| extension == WITHOUT_COMMANDS_EXTENSION);
    let kind = if is_without_commands { RequestKind::WithoutCommands } else { RequestKind::WithCommands };
    fs::metadata(path).map(|metadata| ResponseStoreUsage::from_file_size(metadata.len(), kind)).unwrap_or_default()
}

/// Returns the entries of a directory; none if it is missing.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(at.micros()).unwrap_or(0))
}

#[cfg(test)]
mod tests;
