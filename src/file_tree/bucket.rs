//! Client of the bucket that has the files of a cluster. Callers wait for it, like for a disk; every call has a deadline.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error as StoreError, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client_thread::ClientThread;
use crate::domain::value::{Digest, Timestamp};

/// Time for a call without the transfer of a large file.
const CALL_TIME: Duration = Duration::from_secs(15);
/// Additional time for each MiB that is transferred.
const TIME_PER_MIB: Duration = Duration::from_secs(4);
/// Size from which a file is uploaded in parts of this size, so that it is never in memory as a whole.
pub(super) const PART_BYTES: u64 = 8 << 20;
/// Maximum number of calls at the same time. Each occupies a thread of its caller.
const CALLS_MAX: usize = 128;
/// Time after a failed call in which further calls fail at once, so that their callers do not all wait for a deadline.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);

/// Reason why the bucket did not do what was asked. The source of an [`io::Error`]; see [`is_unavailable`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{bucket}: {reason}")]
pub struct BucketUnavailable {
    bucket: String,
    reason: String,
}

/// Returns `true` if an operation on a file failed because the bucket could not be used. It may succeed later.
#[must_use]
pub fn is_unavailable(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<BucketUnavailable>)
}

/// An object, by its key below the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketEntry {
    pub key: String,
    pub bytes: u64,
    pub modified: Timestamp,
}

/// Bucket, or the part of one below a prefix.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Name for operators, such as `s3://bucket/prefix`.
    name: String,
    thread: ClientThread,
    calls: AtomicUsize,
    /// Time of the last failure, if no call has succeeded since.
    failed_at: Mutex<Option<Instant>>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.name).finish()
    }
}

impl Bucket {
    /// Returns the part of a store below a prefix, which may be empty.
    ///
    /// # Errors
    /// If the thread of the client cannot be started, or the prefix is no path.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str, name: String) -> io::Result<Self> {
        let prefix = Path::parse(prefix).map_err(io::Error::other)?;
        let thread = ClientThread::start("bucket")?;
        Ok(Self { store, prefix, name, thread, calls: AtomicUsize::new(0), failed_at: Mutex::default() })
    }

    /// Returns an empty bucket in memory.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Arc<Self> {
        let store = Arc::new(object_store::memory::InMemory::new());
        Arc::new(Self::new(store, "some/prefix", "memory".to_owned()).expect("a thread"))
    }

    /// Returns the name for operators.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stores an object that does not exist. Returns `false`, and changes nothing, if it exists.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn create(&self, key: &str, bytes: Bytes) -> io::Result<bool> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let time = time_for(bytes.len() as u64);
        self.call(time, async move {
            match store.put_opts(&path, PutPayload::from(bytes), PutMode::Create.into()).await {
                Ok(_) => Ok(true),
                Err(StoreError::AlreadyExists { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Stores an object, also in place of an existing one. Returns the version that the bucket gave it, if it keeps
    /// versions.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn put(&self, key: &str, bytes: Bytes) -> io::Result<Option<String>> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let time = time_for(bytes.len() as u64);
        let result = self.call(time, async move { store.put(&path, bytes.into()).await })?;
        // With suspended versioning, new objects have the version "null" and are really deleted.
        Ok(result.version.filter(|version| version != "null"))
    }

    /// Stores the content of a file, also in place of an existing object.
    ///
    /// # Errors
    /// If the file cannot be read, or the bucket cannot be used.
    pub fn upload(&self, key: &str, file: &FilePath) -> io::Result<()> {
        let bytes = std::fs::metadata(file)?.len();
        if bytes <= PART_BYTES {
            return self.put(key, std::fs::read(file)?.into()).map(drop);
        }

        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let file = file.to_owned();
        self.call(time_for(bytes), async move {
            let mut file = File::open(&file).await.map_err(file_error)?;
            let mut upload = store.put_multipart(&path).await?;
            let sent = async {
                loop {
                    let mut part = Vec::new();
                    (&mut file).take(PART_BYTES).read_to_end(&mut part).await.map_err(file_error)?;
                    if part.is_empty() {
                        return upload.complete().await.map(drop);
                    }
                    upload.put_part(part.into()).await?;
                }
            };
            let sent = sent.await;
            if sent.is_err() {
                // The bucket removes what this leaves if it has a rule for incomplete uploads.
                let _ = upload.abort().await;
            }
            sent
        })
    }

    /// Returns the content of a small object; `None` if there is none.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn get(&self, key: &str) -> io::Result<Option<Bytes>> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        self.call(CALL_TIME, async move {
            match store.get(&path).await {
                Ok(found) => found.bytes().await.map(Some),
                Err(StoreError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Writes the content of an object to a file, which must not exist, and returns its hash. Syncs the file.
    ///
    /// # Errors
    /// `NotFound` if there is no object. If the file cannot be written, or the bucket cannot be used.
    pub fn download(&self, key: &str, to: &FilePath) -> io::Result<Digest> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let to = to.to_owned();
        let found = self.call(time_for(u64::MAX), async move {
            match within(CALL_TIME, store.get(&path)).await {
                Ok(found) => within(time_for(found.meta.size), write(found, &to)).await.map(Some),
                Err(StoreError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns length and age of an object; `None` if there is none.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn head(&self, key: &str) -> io::Result<Option<BucketEntry>> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let found = self.call(CALL_TIME, async move {
            match store.head(&path).await {
                Ok(found) => Ok(Some(found)),
                Err(StoreError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        Ok(found.and_then(|found| self.entry(&found)))
    }

    /// Removes an object, if it exists.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn delete(&self, key: &str) -> io::Result<()> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        self.call(CALL_TIME, async move {
            match store.delete(&path).await {
                Err(StoreError::NotFound { .. }) => Ok(()),
                result => result,
            }
        })
    }

    /// Returns the objects in a directory and below.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn list(&self, directory: &str) -> io::Result<Vec<BucketEntry>> {
        let (store, path) = (Arc::clone(&self.store), self.path(directory)?);
        // One call lists a thousand objects.
        let found: Vec<ObjectMeta> =
            self.call(20 * CALL_TIME, async move { store.list(Some(&path)).try_collect().await })?;
        Ok(found.iter().filter_map(|found| self.entry(found)).collect())
    }

    /// Returns `true` if there is no object.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn is_empty(&self) -> io::Result<bool> {
        let (store, prefix) = (Arc::clone(&self.store), self.prefix.clone());
        self.call(CALL_TIME, async move { store.list(Some(&prefix)).try_next().await.map(|found| found.is_none()) })
    }

    fn entry(&self, found: &ObjectMeta) -> Option<BucketEntry> {
        let key = found.location.prefix_match(&self.prefix)?;
        let key = key.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
        let modified = Timestamp::from_micros(found.last_modified.timestamp_micros());
        Some(BucketEntry { key, bytes: found.size, modified })
    }

    fn path(&self, key: &str) -> io::Result<Path> {
        let key = Path::parse(key).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(self.prefix.parts().chain(key.parts()).collect())
    }

    fn call<T: Send + 'static>(
        &self,
        time: Duration,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> io::Result<T> {
        if self.failed_at.lock().is_some_and(|at| at.elapsed() < OUTAGE_PAUSE) {
            return Err(self.unavailable("it could not be used a moment ago"));
        }

        let is_permitted = self.calls.fetch_add(1, Ordering::Relaxed) < CALLS_MAX;
        let result = is_permitted.then(|| self.thread.run(within(time, call)));
        self.calls.fetch_sub(1, Ordering::Relaxed);

        let Some(result) = result else { return Err(self.unavailable("too many calls at the same time")) };
        match result {
            Some(Ok(value)) => {
                if self.failed_at.lock().take().is_some() {
                    tracing::info!(bucket = self.name, "bucket usable again");
                }
                Ok(value)
            }
            Some(Err(StoreError::Generic { store: FILE, source })) => {
                Err(source.downcast::<io::Error>().map_or_else(io::Error::other, |error| *error))
            }
            // The server does not respond, or not as it should; other failures concern this call alone.
            Some(Err(error @ StoreError::Generic { .. })) => Err(self.record_outage(&describe(&error))),
            Some(Err(error)) => {
                let reason = describe(&error);
                tracing::warn!(bucket = self.name, reason, "bucket refused a call");
                Err(self.unavailable(&reason))
            }
            None => Err(self.record_outage("its client has stopped")),
        }
    }

    fn record_outage(&self, reason: &str) -> io::Error {
        if self.failed_at.lock().replace(Instant::now()).is_none() {
            tracing::warn!(bucket = self.name, reason, "bucket unusable");
        }
        self.unavailable(reason)
    }

    fn unavailable(&self, reason: &str) -> io::Error {
        io::Error::other(BucketUnavailable { bucket: self.name.clone(), reason: reason.to_owned() })
    }
}

/// Marks errors of files among those of the store.
const FILE: &str = "file";

fn file_error(error: io::Error) -> StoreError {
    StoreError::Generic { store: FILE, source: error.into() }
}

/// Runs a call with a deadline.
async fn within<T>(time: Duration, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let timed_out = |_| {
        let source = format!("no response within {} s", time.as_secs()).into();
        StoreError::Generic { store: "deadline", source }
    };
    tokio::time::timeout(time, call).await.map_err(timed_out).flatten()
}

fn time_for(bytes: u64) -> Duration {
    CALL_TIME + TIME_PER_MIB * u32::try_from(bytes >> 20).unwrap_or(u32::MAX).min(6 * 3600)
}

/// Returns the reason of a failure without the URL.
fn describe(error: &StoreError) -> String {
    match error {
        StoreError::PermissionDenied { .. } => "the credentials lack a permission".to_owned(),
        StoreError::Unauthenticated { .. } => "the credentials are not accepted".to_owned(),
        StoreError::Generic { source, .. } => innermost(source.as_ref()),
        other => innermost(other),
    }
}

/// Returns the innermost cause of a failure. Of a response, only the status and the code: the body may contain credentials.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let text = causes.last().map(ToString::to_string).unwrap_or_default();
    let Some(response) = text.strip_prefix("Server returned ") else { return text };

    let code = response.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let code = code.map(|(code, _)| code).filter(|code| code.chars().all(|c| c.is_ascii_alphanumeric()));
    let status = response.strip_prefix("non-2xx status code: ").and_then(|status| status.split(':').next());
    [Some(status.unwrap_or("an error")), code].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

async fn write(found: GetResult, to: &FilePath) -> Result<Digest, StoreError> {
    let mut options = tokio::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(to).await.map_err(file_error)?;
    let mut hash = Sha256::new();
    let mut chunks = found.into_stream();
    while let Some(chunk) = chunks.try_next().await? {
        hash.update(&chunk);
        file.write_all(&chunk).await.map_err(file_error)?;
    }
    file.flush().await.map_err(file_error)?;
    file.sync_all().await.map_err(file_error)?;
    Ok(Digest(hash.finalize().into()))
}
