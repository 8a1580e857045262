//! Answers that are kept for idempotency keys: one sealed file a key, which nobody can read without the key itself.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::web::Bytes;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::super::error::Problem;
use super::asked::Asked;
use crate::clock::Surroundings;
use crate::data_dir::{DataDir, read_private, write_private};
use crate::domain::claim::KEPT;
use crate::domain::value::{Digest, Timestamp};

/// Answers of more bytes than this are not kept.
const ANSWER_MAX: usize = 8 << 20;
/// Bytes of answers to requests without commands that are kept between two sweeps.
const WITHOUT_COMMANDS_MAX: u64 = 128 << 20;
/// What a file takes on the disk at least, in bytes.
const FILE_MIN: u64 = 4096;
/// Refusals that stay the same when the request comes again; after any other the caller may try again.
const REFUSALS_KEPT: [u16; 4] = [400, 404, 409, 410];

/// The form of the files; another one is not read.
const FORM: u8 = 1;
const NONCE_BYTES: usize = 24;

/// Why answers cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum VaultFailure {
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    /// A damaged secret is never replaced: what was sealed with it would be lost.
    #[error("{path}: does not hold 64 hexadecimal digits", path = path.display())]
    Malformed { path: PathBuf },
}

/// The kept answers.
pub struct Vault {
    root: PathBuf,
    secret: [u8; 32],
    /// How many bytes of answers to requests without commands were written since the last sweep.
    without_commands: AtomicU64,
}

/// An answer as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// When the request was first carried out.
    pub at: Timestamp,
    pub fingerprint: Digest,
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
}

/// All of a kept answer but its body, as it is written before it.
#[derive(Serialize, Deserialize)]
struct Head {
    at_micros: i64,
    fingerprint: String,
    status: u16,
    headers: Vec<(String, String)>,
}

impl Kept {
    /// What is kept of an answer; nothing when the request may be tried again, or the answer is too large.
    #[must_use]
    pub fn new(at: Timestamp, fingerprint: Digest, head: &HttpResponse<()>, body: Bytes) -> Option<Self> {
        let status = head.status();
        let stays = status.is_success() || REFUSALS_KEPT.contains(&status.as_u16());
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        // What every answer has is added later, to a replay as well.
        let headers = head.headers().iter().filter_map(text).collect();
        (stays && body.len() <= ANSWER_MAX).then_some(Self { at, fingerprint, status: status.as_u16(), headers, body })
    }

    /// The answer once more.
    ///
    /// # Errors
    /// When the file holds a status that does not exist, which it never does.
    pub fn respond(self) -> Result<HttpResponse, Problem> {
        let status = StatusCode::from_u16(self.status).map_err(Problem::internal)?;
        let mut response = HttpResponse::build(status);
        for header in self.headers {
            response.append_header(header);
        }
        Ok(response.body(self.body))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Self { at, fingerprint, status, headers, body } = self;
        let (at_micros, fingerprint, headers) = (at.micros(), fingerprint.to_string(), headers.clone());
        let head = Head { at_micros, fingerprint, status: *status, headers };
        let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(body);
        bytes
    }

    fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let line = bytes.iter().position(|byte| *byte == b'\n')?;
        let Head { at_micros, fingerprint, status, headers } = serde_json::from_slice(&bytes[..line]).ok()?;
        let (at, fingerprint) = (Timestamp::from_micros(at_micros), Digest::parse(&fingerprint).ok()?);
        Some(Self { at, fingerprint, status, headers, body: Bytes::from(bytes).slice(line + 1..) })
    }
}

impl Vault {
    /// Opens the answers below `<data dir>/answers` with the secret in `<data dir>/idempotency-key`, which is made when it
    /// is not there.
    ///
    /// # Errors
    /// [`VaultFailure`], when the secret cannot be read or written.
    pub fn open(data: &DataDir, surroundings: &Surroundings) -> Result<Self, VaultFailure> {
        let path = data.path("idempotency-key");
        let failed = |source| VaultFailure::File { path: path.clone(), source };
        let secret = if let Some(text) = read_private(&path).map_err(failed)? {
            Digest::parse(text.trim()).map_err(|_| VaultFailure::Malformed { path: path.clone() })?
        } else {
            let secret = Digest(surroundings.secret());
            write_private(&path, format!("{secret}\n").as_bytes()).map_err(failed)?;
            secret
        };
        Ok(Self { root: data.path("answers"), secret: secret.0, without_commands: AtomicU64::new(0) })
    }

    /// What the chance of a request follows from. `first` is when it was first carried out: a key that is used again after
    /// it was forgotten must not bring the old ids again.
    #[must_use]
    pub fn seed(&self, asked: &Asked, first: Timestamp) -> [u8; 32] {
        self.derive(b"seed", &[asked.named.as_bytes(), &asked.fingerprint.0, &first.micros().to_le_bytes()])
    }

    /// The answer that is kept for a request, however old it is. Blocks. One that cannot be read is as good as none: the
    /// claim in the log keeps the request from being carried out twice.
    #[must_use]
    pub fn read(&self, asked: &Asked) -> Option<Kept> {
        let sealed = match fs::read(self.path(&asked.id)) {
            Ok(sealed) => sealed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%error, "a kept answer cannot be read");
                return None;
            }
        };
        let (form, rest) = sealed.split_first()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().filter(|_| *form == FORM)?;
        let payload = Payload { msg: sealed, aad: &asked.id.0 };
        let opened = self.cipher(asked).decrypt(nonce.into(), payload).ok()?;
        Kept::from_bytes(opened)
    }

    /// Keeps an answer. It appears whole or not at all; whether it survives a power cut does not matter. Blocks.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, asked: &Asked, kept: &Kept, nonce: [u8; NONCE_BYTES], with_commands: bool) -> io::Result<()> {
        if !with_commands && !self.has_room(kept.body.len() as u64) {
            return Ok(());
        }
        let payload = Payload { msg: &kept.to_bytes(), aad: &asked.id.0 };
        let sealed = self.cipher(asked).encrypt(&nonce.into(), payload);
        let sealed = sealed.map_err(|error| io::Error::other(error.to_string()))?;
        let path = self.path(&asked.id);
        let draft = path.with_extension("draft");
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(&self.root))?;
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(&[&[FORM], &nonce[..], &sealed].concat())?;
        // So that the sweep need not open it.
        file.set_modified(system_time(kept.at))?;
        fs::rename(&draft, &path)
    }

    /// Whether `bytes` more of answers to requests without commands may be kept; if so, they count.
    fn has_room(&self, bytes: u64) -> bool {
        let more = bytes.max(FILE_MIN);
        let taken = |taken: u64| taken.checked_add(more).filter(|sum| *sum <= WITHOUT_COMMANDS_MAX);
        self.without_commands.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    /// Removes the answers that are too old. Blocks.
    pub fn sweep(&self, now: Timestamp) {
        self.without_commands.store(0, Ordering::Relaxed);
        for path in entries(&self.root).flat_map(|folder| entries(&folder)) {
            let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
            let old = modified.is_ok_and(|at| at + KEPT <= system_time(now));
            if old && let Err(error) = fs::remove_file(&path) {
                tracing::warn!(%error, path = %path.display(), "an old answer cannot be removed");
            }
        }
    }

    fn path(&self, id: &Digest) -> PathBuf {
        let name = id.to_string();
        self.root.join(&name[..2]).join(name)
    }

    fn cipher(&self, asked: &Asked) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.derive(b"seal", &[asked.named.as_bytes()]).into())
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

/// What is in a folder; nothing when it is not there.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(at.micros()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_micros(1_764_000_000_000_000);

    fn given() -> (tempfile::TempDir, Vault) {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let vault = Vault::open(&data, &Surroundings::manual(AT, 1)).unwrap();
        (folder, vault)
    }

    fn asked(id: u8, named: &str) -> Asked {
        Asked { id: Digest([id; 32]), named: named.to_owned(), fingerprint: Digest([9; 32]) }
    }

    fn kept(status: u16, bytes: usize) -> Option<Kept> {
        let mut response = HttpResponse::build(StatusCode::from_u16(status).unwrap());
        let (head, ()) = response.insert_header(("location", "/x")).finish().set_body(()).into_parts();
        Kept::new(AT, Digest([9; 32]), &head, Bytes::from(vec![b'\n'; bytes]))
    }

    #[test]
    fn only_answers_that_stay_the_same_are_kept() {
        for status in [200, 201, 204, 400, 404, 409, 410] {
            assert!(kept(status, 0).is_some(), "{status}");
        }
        for status in [302, 401, 403, 408, 413, 415, 422, 429, 500, 503] {
            assert!(kept(status, 0).is_none(), "{status}");
        }
        assert!(kept(200, ANSWER_MAX).is_some() && kept(200, ANSWER_MAX + 1).is_none());
    }

    #[test]
    fn an_answer_opens_with_its_key_and_secret_alone() {
        let (folder, vault) = given();
        let answer = kept(201, 3).unwrap();
        vault.write(&asked(1, "key"), &answer, [7; NONCE_BYTES], true).unwrap();
        assert_eq!(vault.read(&asked(1, "key")), Some(answer));
        assert_eq!(vault.read(&asked(1, "other")), None);
        // Nor does it open under another name.
        fs::create_dir_all(vault.path(&Digest([2; 32])).parent().unwrap()).unwrap();
        fs::copy(vault.path(&Digest([1; 32])), vault.path(&Digest([2; 32]))).unwrap();
        assert_eq!(vault.read(&asked(2, "key")), None);
        // Nor with another secret.
        let root = vault.root.clone();
        assert_eq!(Vault { root, secret: [0; 32], without_commands: AtomicU64::new(0) }.read(&asked(1, "key")), None);
        drop(folder);
    }

    #[test]
    fn a_secret_is_kept_and_a_damaged_one_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let first = Vault::open(&data, &Surroundings::manual(AT, 1)).unwrap();
        let second = Vault::open(&data, &Surroundings::manual(AT, 2)).unwrap();
        assert_eq!(first.secret, second.secret);
        fs::write(data.path("idempotency-key"), "no secret").unwrap();
        assert!(matches!(Vault::open(&data, &Surroundings::real()), Err(VaultFailure::Malformed { .. })));
    }

    #[test]
    fn a_sweep_takes_what_is_too_old_and_gives_room_back() {
        let (_folder, vault) = given();
        let later = Kept { at: AT.after(Duration::from_secs(1)), ..kept(200, 3).unwrap() };
        vault.write(&asked(1, "old"), &kept(200, 3).unwrap(), [7; NONCE_BYTES], true).unwrap();
        vault.write(&asked(2, "new"), &later, [7; NONCE_BYTES], true).unwrap();
        vault.sweep(AT.after(KEPT));
        assert_eq!(vault.read(&asked(1, "old")), None);
        assert!(vault.read(&asked(2, "new")).is_some());
        // Answers without commands have a room of their own.
        assert!(vault.has_room(WITHOUT_COMMANDS_MAX));
        vault.write(&asked(3, "k"), &later, [7; NONCE_BYTES], false).unwrap();
        assert_eq!(vault.read(&asked(3, "k")), None);
        vault.sweep(AT);
        vault.write(&asked(3, "k"), &later, [7; NONCE_BYTES], false).unwrap();
        assert!(vault.read(&asked(3, "k")).is_some());
    }
}
