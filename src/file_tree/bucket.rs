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
use object_store::client::HttpError;
use object_store::path::Path;
use object_store::{Error as StoreError, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client_thread::ClientThread;
use crate::domain::value::{Digest, Timestamp};

/// Deadlines of calls.
#[derive(Debug, Clone, Copy)]
pub struct CallTimes {
    /// Deadline of a call without content, of a page of a list, and of the next bytes of a download.
    pub call: Duration,
    /// Additional time for each MiB of content.
    pub per_mib: Duration,
}

impl Default for CallTimes {
    fn default() -> Self {
        Self { call: Duration::from_secs(15), per_mib: Duration::from_secs(4) }
    }
}

impl CallTimes {
    fn with_content(self, bytes: u64) -> Duration {
        self.call + self.per_mib * u32::try_from(bytes >> 20).unwrap_or(u32::MAX).min(6 * 3600)
    }
}

/// Size from which a file is uploaded in parts of this size, so that it is never in memory as a whole.
pub(super) const PART_BYTES: u64 = 8 << 20;
/// Maximum number of downloads and uploads of files at the same time. Each occupies a thread of its caller.
pub const TRANSFERS_MAX: usize = 64;
/// Maximum number of other calls at the same time, so that transfers do not delay keys and erasures.
const CALLS_MAX: usize = 64;
/// Time after a failed call in which further calls fail at once, so that their callers do not all wait for a deadline.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);

/// Reason why the bucket did not do what was asked. The source of an [`io::Error`]; see [`is_unavailable`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{bucket}: {reason}")]
pub struct BucketUnavailable {
    bucket: String,
    reason: String,
    /// `true` if other calls would fail too.
    is_outage: bool,
}

/// Returns `true` if an operation on a file failed because the bucket could not be used. It may succeed later.
#[must_use]
pub fn is_unavailable(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<BucketUnavailable>)
}

/// Returns `true` if other operations on files would fail too, because the bucket does not respond as it should.
#[must_use]
pub fn is_outage(error: &io::Error) -> bool {
    let unavailable = error.get_ref().and_then(|error| error.downcast_ref::<BucketUnavailable>());
    unavailable.is_some_and(|unavailable| unavailable.is_outage)
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
    times: CallTimes,
    transfers: AtomicUsize,
    calls: AtomicUsize,
    /// Time from which one call may find out whether an outage has ended; `None` without an outage.
    probe_at: Mutex<Option<Instant>>,
}

/// A call or transfer in progress.
struct CallSlot<'b>(&'b AtomicUsize);

impl Drop for CallSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
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
    /// If the thread of the client cannot be started, or the prefix is not a path.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str, name: String) -> io::Result<Self> {
        let prefix = Path::parse(prefix).map_err(io::Error::other)?;
        let thread = ClientThread::start("bucket")?;
        Ok(Self {
            store,
            prefix,
            name,
            thread,
            times: CallTimes::default(),
            transfers: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            probe_at: Mutex::default(),
        })
    }

    /// Replaces the deadlines.
    #[must_use]
    pub fn with_times(self, times: CallTimes) -> Self {
        Self { times, ..self }
    }

    /// Returns an empty bucket in memory.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Arc<Self> {
        let store = Arc::new(object_store::memory::InMemory::new());
        Arc::new(Self::new(store, "some/prefix", "memory".to_owned()).expect("a thread"))
    }

    /// Lets all calls fail for a time.
    #[cfg(test)]
    pub fn interrupt(&self, time: Duration) {
        *self.probe_at.lock() = Some(Instant::now() + time);
    }

    /// Returns the name for operators.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stores a small object that does not exist. Returns `false`, and changes nothing, if it exists.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn create(&self, key: &str, bytes: Bytes) -> io::Result<bool> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let time = self.times.with_content(bytes.len() as u64);
        self.call(time, async move { put(&*store, &path, bytes.into(), PutMode::Create).await })
    }

    /// Stores a small object, replacing an existing one. Returns the version that the bucket gave it, if it keeps
    /// versions.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn put(&self, key: &str, bytes: Bytes) -> io::Result<Option<String>> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let time = self.times.with_content(bytes.len() as u64);
        let result = self.call(time, async move { store.put(&path, bytes.into()).await })?;
        // With suspended versioning, new objects have the version "null" and are really deleted.
        Ok(result.version.filter(|version| version != "null"))
    }

    /// Stores the content of a file of at most [`PART_BYTES`] as an object that does not exist. Returns `false`, and changes
    /// nothing, if it exists.
    ///
    /// # Errors
    /// If the file cannot be read, or the bucket cannot be used.
    pub(super) fn create_from_file(&self, key: &str, file: &FilePath) -> io::Result<bool> {
        self.put_file(key, file, PutMode::Create)
    }

    fn put_file(&self, key: &str, file: &FilePath, mode: PutMode) -> io::Result<bool> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let _slot = self.transfer_slot()?;
        let content = std::fs::read(file)?;
        let time = self.times.with_content(content.len() as u64);
        self.probe(within_transfer(time, async move { put(&*store, &path, content.into(), mode).await }))
    }

    /// Stores the content of a file, replacing an existing object.
    ///
    /// # Errors
    /// If the file cannot be read, or the bucket cannot be used.
    pub fn upload(&self, key: &str, file: &FilePath) -> io::Result<()> {
        let bytes = std::fs::metadata(file)?.len();
        if bytes <= PART_BYTES {
            return self.put_file(key, file, PutMode::Overwrite).map(drop);
        }

        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let (file, times) = (file.to_owned(), self.times);
        let _slot = self.transfer_slot()?;
        let mut upload = self.probe(within(times.call, async move { store.put_multipart(&path).await }))?;
        self.transfer(async move {
            let sent = async {
                let mut file = File::open(&file).await.map_err(file_error)?;
                loop {
                    let mut part = Vec::new();
                    (&mut file).take(PART_BYTES).read_to_end(&mut part).await.map_err(file_error)?;
                    if part.is_empty() {
                        return within_transfer(times.with_content(PART_BYTES), upload.complete()).await.map(drop);
                    }
                    within_transfer(times.with_content(PART_BYTES), upload.put_part(part.into())).await?;
                }
            };
            let sent = within_transfer(times.with_content(bytes), sent).await;
            if sent.is_err() {
                // The bucket removes what this leaves if it has a rule for incomplete uploads.
                let _ = within_transfer(times.call, upload.abort()).await;
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
        self.call(self.times.call, async move {
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
        let (to, times) = (to.to_owned(), self.times);
        let _slot = self.transfer_slot()?;
        let get = async move {
            match store.get(&path).await {
                Ok(found) => Ok(Some(found)),
                Err(StoreError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let found = self.probe(within(times.call, get))?.ok_or(io::ErrorKind::NotFound)?;
        self.transfer(async move {
            within_transfer(times.with_content(found.meta.size), write(found, &to, times.call)).await
        })
    }

    /// Returns length and age of an object; `None` if there is none.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn head(&self, key: &str) -> io::Result<Option<BucketEntry>> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let found = self.call(self.times.call, async move {
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
        self.call(self.times.call, async move {
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
        let page_time = self.times.call;
        let _slot = self.call_slot()?;
        let found = self.probe(async move {
            let mut found: Vec<ObjectMeta> = Vec::new();
            let mut objects = store.list(Some(&path));
            // Only the first object of a page takes a request.
            while let Some(object) = within(page_time, objects.try_next()).await? {
                found.push(object);
            }
            Ok(found)
        })?;
        Ok(found.iter().filter_map(|found| self.entry(found)).collect())
    }

    /// Returns `true` if there is no object.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn is_empty(&self) -> io::Result<bool> {
        let (store, prefix) = (Arc::clone(&self.store), self.prefix.clone());
        self.call(
            self.times.call,
            async move { store.list(Some(&prefix)).try_next().await.map(|found| found.is_none()) },
        )
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

    /// Makes a call with a deadline.
    fn call<T: Send + 'static>(
        &self,
        time: Duration,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> io::Result<T> {
        let _slot = self.call_slot()?;
        self.probe(within(time, call))
    }

    fn call_slot(&self) -> io::Result<CallSlot<'_>> {
        self.slot(&self.calls, CALLS_MAX)
    }

    fn transfer_slot(&self) -> io::Result<CallSlot<'_>> {
        self.slot(&self.transfers, TRANSFERS_MAX)
    }

    fn slot<'b>(&self, used: &'b AtomicUsize, max: usize) -> io::Result<CallSlot<'b>> {
        let is_free = used.fetch_add(1, Ordering::Relaxed) < max;
        let slot = CallSlot(used);
        if is_free { Ok(slot) } else { Err(self.unavailable("too many calls at the same time")) }
    }

    /// Makes a call, unless there is an outage. After a pause, one call at a time finds out whether it has ended.
    fn probe<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> io::Result<T> {
        let is_probe = {
            let mut probe_at = self.probe_at.lock();
            if probe_at.is_some_and(|at| Instant::now() < at) {
                return Err(self.error("it could not be used a moment ago", true));
            }
            // Another call tries it if this one takes longer.
            let is_outage = probe_at.is_some();
            *probe_at = is_outage.then(|| Instant::now() + self.times.call);
            is_outage
        };
        self.finish(self.thread.run(call), is_probe)
    }

    /// Transfers the content of an object whose call has succeeded.
    fn transfer<T: Send + 'static>(
        &self,
        transfer: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> io::Result<T> {
        self.finish(self.thread.run(transfer), false)
    }

    fn finish<T>(&self, result: Option<Result<T, StoreError>>, is_probe: bool) -> io::Result<T> {
        match result {
            Some(Ok(value)) => {
                if self.probe_at.lock().take().is_some() {
                    tracing::info!(bucket = self.name, "bucket usable again");
                }
                Ok(value)
            }
            Some(Err(error)) if is_outage_error(&error) => Err(self.record_outage(&describe(&error), is_probe)),
            None => Err(self.record_outage("its client has stopped", is_probe)),
            Some(Err(error)) => {
                if is_probe {
                    // Says nothing about other calls, so the next one is a probe.
                    *self.probe_at.lock() = Some(Instant::now());
                }
                if let StoreError::Generic { store: FILE, source } = error {
                    return Err(source.downcast::<io::Error>().map_or_else(io::Error::other, |error| *error));
                }
                let reason = describe(&error);
                tracing::warn!(bucket = self.name, reason, "bucket refused a call");
                Err(self.unavailable(&reason))
            }
        }
    }

    fn record_outage(&self, reason: &str, is_probe: bool) -> io::Error {
        let mut probe_at = self.probe_at.lock();
        if probe_at.is_none() {
            tracing::warn!(bucket = self.name, reason, "bucket unusable");
        }
        // The end of a call that began before the outage does not allow another probe during one.
        if probe_at.is_none() || is_probe {
            *probe_at = Some(Instant::now() + OUTAGE_PAUSE);
        }
        self.error(reason, true)
    }

    /// Returns the error of an operation that concerns this operation alone.
    pub(super) fn unavailable(&self, reason: &str) -> io::Error {
        self.error(reason, false)
    }

    fn error(&self, reason: &str, is_outage: bool) -> io::Error {
        io::Error::other(BucketUnavailable { bucket: self.name.clone(), reason: reason.to_owned(), is_outage })
    }
}

/// Marks errors of files among those of the store.
const FILE: &str = "file";

fn file_error(error: io::Error) -> StoreError {
    StoreError::Generic { store: FILE, source: error.into() }
}

/// Returns `false` if the object exists and the mode does not replace it.
async fn put(store: &dyn ObjectStore, path: &Path, content: PutPayload, mode: PutMode) -> Result<bool, StoreError> {
    match store.put_opts(path, content, mode.into()).await {
        Ok(_) => Ok(true),
        Err(StoreError::AlreadyExists { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Marks the failure of a call that took too long.
const CALL_DEADLINE: &str = "deadline";
/// Marks the failure of a transfer that took too long, which may be the fault of its size or of the network.
const TRANSFER_DEADLINE: &str = "transfer";

/// Runs a call with a deadline.
async fn within<T>(time: Duration, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    with_deadline(time, CALL_DEADLINE, call).await
}

/// Runs a transfer, or a part of one, with a deadline.
async fn within_transfer<T>(
    time: Duration,
    transfer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    with_deadline(time, TRANSFER_DEADLINE, transfer).await
}

async fn with_deadline<T>(
    time: Duration,
    store: &'static str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let timed_out = |_| StoreError::Generic { store, source: format!("no response within {time:?}").into() };
    tokio::time::timeout(time, call).await.map_err(timed_out).flatten()
}

/// Beginning of the message of the client about a failure of the server. Its type is private.
const SERVER_FAILURE: &str = "Server returned non-2xx status code: 5";

/// Returns `true` if the server cannot be reached, does not respond, or responds that it has failed, so that other calls
/// would fail too.
fn is_outage_error(error: &StoreError) -> bool {
    let StoreError::Generic { store, source } = error else { return false };
    let source: &(dyn Error + 'static) = source.as_ref();
    let mut causes = std::iter::successors(Some(source), |&error| error.source());
    *store == CALL_DEADLINE
        || causes.any(|cause| cause.is::<HttpError>() || cause.to_string().starts_with(SERVER_FAILURE))
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

async fn write(found: GetResult, to: &FilePath, chunk_time: Duration) -> Result<Digest, StoreError> {
    let mut options = tokio::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(to).await.map_err(file_error)?;
    let mut hash = Sha256::new();
    let mut chunks = found.into_stream();
    while let Some(chunk) = within_transfer(chunk_time, chunks.try_next()).await? {
        hash.update(&chunk);
        file.write_all(&chunk).await.map_err(file_error)?;
    }
    file.flush().await.map_err(file_error)?;
    file.sync_all().await.map_err(file_error)?;
    Ok(Digest(hash.finalize().into()))
}
