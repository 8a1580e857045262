//! Location that all nodes use, a mounted directory or a bucket. It has their files, and records where each generation of
//! the log begins and where clusters have ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use super::bucket_files::{self, BucketFilesError};
use super::generation::{GenerationRecord, LeaveRecord};
use super::membership::LocationKind;
use super::shared_files::{self, SharedFilesError};
use crate::environment::Environment;
use crate::events::shared::generation::LogGeneration;
use crate::file_tree::{Bucket, FileTree};

/// Directory of the records of where the generations begin, by number.
const GENERATIONS: &str = "log-generations";
/// Directory of the records of where clusters have ended, by the number of their last generation.
const ENDED_CLUSTERS: &str = "log-left";

/// A directory that all nodes mount, or a bucket.
#[derive(Clone)]
pub enum SharedLocation {
    Directory(PathBuf),
    Bucket(Arc<Bucket>),
}

/// Reason why the location cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SharedLocationError {
    #[error(transparent)]
    Directory(#[from] SharedFilesError),
    #[error(transparent)]
    Bucket(#[from] BucketFilesError),
    /// A record exists, but is malformed.
    #[error("{name} {reason}")]
    Record { name: String, reason: String },
}

impl SharedLocationError {
    /// Returns `true` if no cluster has used the location yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(
            self,
            Self::Directory(SharedFilesError::NotMounted(_)) | Self::Bucket(BucketFilesError::NoOwner { .. })
        )
    }

    /// Returns `true` if the location does not respond as it should, so that nothing is known about it.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Bucket(error) if error.is_outage())
    }
}

/// The files.
impl SharedLocation {
    #[must_use]
    pub fn kind(&self) -> LocationKind {
        match self {
            Self::Directory(_) => LocationKind::Directory,
            Self::Bucket(_) => LocationKind::Bucket,
        }
    }

    /// Returns the files of a data directory, which are links into the directory, or copies of what the bucket has.
    #[must_use]
    pub fn file_tree(&self, data_dir: &Path, environment: &Environment) -> FileTree {
        match self {
            Self::Directory(_) => FileTree::local(data_dir),
            Self::Bucket(bucket) => FileTree::with_bucket(data_dir, Arc::clone(bucket), environment),
        }
    }

    /// Checks that the first node of a new cluster may move its files to the location. Changes nothing.
    ///
    /// # Errors
    /// If the location has other files, or is not suitable.
    pub fn check_vacant(
        &self,
        data_dir: &Path,
        log_id: Uuid,
        environment: &Environment,
    ) -> Result<(), SharedLocationError> {
        match self {
            Self::Directory(directory) => shared_files::check_vacant(directory, log_id)?,
            Self::Bucket(bucket) => bucket_files::check_vacant(data_dir, bucket, log_id, environment)?,
        }
        Ok(())
    }

    /// Moves the files of the first node to the location. Run again, it continues an interrupted attempt.
    ///
    /// # Errors
    /// If the location has other files, or a file cannot be moved.
    pub fn share(&self, data_dir: &Path, log_id: Uuid, environment: &Environment) -> Result<(), SharedLocationError> {
        match self {
            Self::Directory(directory) => shared_files::share(data_dir, directory, log_id)?,
            Self::Bucket(bucket) => {
                bucket_files::share(&self.file_tree(data_dir, environment), bucket, log_id, environment)?;
            }
        }
        Ok(())
    }

    /// Prepares the data directory of a node: links its trees, or removes copies that a restored backup has.
    ///
    /// # Errors
    /// If the location is not that of the log, or not suitable.
    pub fn prepare(&self, data_dir: &Path, log_id: Uuid, environment: &Environment) -> Result<(), SharedLocationError> {
        match self {
            Self::Directory(directory) => shared_files::link(data_dir, directory, log_id)?,
            Self::Bucket(bucket) => bucket_files::prepare(data_dir, bucket, log_id, environment)?,
        }
        Ok(())
    }

    /// Checks that the location has the files of the log. Changes nothing.
    ///
    /// # Errors
    /// If the check fails.
    pub fn check(&self, data_dir: &Path, log_id: Uuid) -> Result<(), SharedLocationError> {
        match self {
            Self::Directory(directory) => shared_files::check(data_dir, directory, log_id)?,
            Self::Bucket(bucket) => bucket_files::check_owner(bucket, log_id)?,
        }
        Ok(())
    }

    /// Returns `true` if the data directory still uses the files of the location.
    ///
    /// # Errors
    /// If the data directory cannot be read.
    pub fn is_used_by(&self, data_dir: &Path) -> Result<bool, SharedLocationError> {
        Ok(match self {
            Self::Directory(_) => shared_files::is_linked(data_dir),
            Self::Bucket(_) => bucket_files::used_bucket(data_dir)?.is_some(),
        })
    }

    /// Copies all files to the data directory, which then no longer uses the location. Run again, it continues an
    /// interrupted attempt.
    ///
    /// # Errors
    /// If a file cannot be copied.
    pub fn unshare(&self, data_dir: &Path, environment: &Environment) -> Result<(), SharedLocationError> {
        match self {
            Self::Directory(_) => shared_files::unshare(data_dir)?,
            Self::Bucket(_) if self.is_used_by(data_dir)? => {
                bucket_files::unshare(&self.file_tree(data_dir, environment))?;
            }
            Self::Bucket(_) => {}
        }
        Ok(())
    }
}

/// The records.
impl SharedLocation {
    /// Returns the beginning of the latest generation of the log; `None` if none is recorded, because earlier releases did
    /// not record the first one.
    ///
    /// # Errors
    /// If the location is not that of the log, or cannot be read.
    pub fn read_generation(&self, log_id: Uuid) -> Result<Option<GenerationRecord>, SharedLocationError> {
        let Some(number) = self.latest_number(log_id, GENERATIONS)? else { return Ok(None) };
        self.require_generation(LogGeneration { log_id, number }).map(Some)
    }

    /// Returns the beginning of a generation; `None` if it has not begun.
    ///
    /// # Errors
    /// If the location cannot be read.
    pub fn find_generation(&self, log: LogGeneration) -> Result<Option<GenerationRecord>, SharedLocationError> {
        self.read_record(&record_name(GENERATIONS, log), |bytes| GenerationRecord::parse(bytes, log))
    }

    /// Records the beginning of a generation durably, unless another node has done so: a generation begins once. Returns
    /// the one that is recorded. `session` is an id that no other caller uses.
    ///
    /// # Errors
    /// If it cannot be written or read.
    pub fn record_generation(
        &self,
        record: &GenerationRecord,
        session: Uuid,
    ) -> Result<GenerationRecord, SharedLocationError> {
        self.create_record(GENERATIONS, record.log(), record, session)?;
        self.require_generation(record.log())
    }

    fn require_generation(&self, log: LogGeneration) -> Result<GenerationRecord, SharedLocationError> {
        let name = record_name(GENERATIONS, log);
        self.find_generation(log)?.ok_or_else(|| self.record_error(&name, &"has disappeared"))
    }

    /// Returns the end of the last cluster of the log that has ended; `None` if none has.
    ///
    /// # Errors
    /// If the location is not that of the log, or cannot be read.
    pub fn read_leave(&self, log_id: Uuid) -> Result<Option<LeaveRecord>, SharedLocationError> {
        let Some(number) = self.latest_number(log_id, ENDED_CLUSTERS)? else { return Ok(None) };
        let log = LogGeneration { log_id, number };
        let name = record_name(ENDED_CLUSTERS, log);
        let record = self.read_record(&name, |bytes| LeaveRecord::parse(bytes, log))?;
        record.map(Some).ok_or_else(|| self.record_error(&name, &"has disappeared"))
    }

    /// Records the end of a cluster durably, unless that was done before. `session` is an id that no other caller uses.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record_leave(&self, record: &LeaveRecord, session: Uuid) -> Result<(), SharedLocationError> {
        self.create_record(ENDED_CLUSTERS, record.log(), record, session)
    }

    /// Returns the name of the record of the beginning of a generation, for operators.
    #[must_use]
    pub fn generation_name(&self, log: LogGeneration) -> String {
        self.full_name(&record_name(GENERATIONS, log))
    }

    /// Returns the name of the record of the end of a cluster whose last generation is `log`, for operators.
    #[must_use]
    pub fn leave_record_name(&self, log: LogGeneration) -> String {
        self.full_name(&record_name(ENDED_CLUSTERS, log))
    }

    fn full_name(&self, name: &str) -> String {
        match self {
            Self::Directory(directory) => directory.join(name).display().to_string(),
            Self::Bucket(bucket) => format!("{}/{name}", bucket.name()),
        }
    }

    /// Returns the highest number of the records in a directory of the location.
    fn latest_number(&self, log_id: Uuid, directory: &str) -> Result<Option<u64>, SharedLocationError> {
        let names = match self {
            Self::Directory(shared_dir) => shared_files::list_records(shared_dir, directory, log_id)?,
            Self::Bucket(bucket) => bucket_files::list_records(bucket, directory, log_id)?,
        };
        Ok(names.iter().filter_map(|name| name.parse().ok()).max())
    }

    fn read_record<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, SharedLocationError> {
        let bytes = match self {
            Self::Directory(shared_dir) => shared_files::read_record(&shared_dir.join(name))?,
            Self::Bucket(bucket) => bucket.get(name).map_err(BucketFilesError::Bucket)?.map(Vec::from),
        };
        bytes.map(|bytes| parse(&bytes).map_err(|reason| self.record_error(name, &reason))).transpose()
    }

    fn create_record(
        &self,
        directory: &str,
        log: LogGeneration,
        record: &impl Serialize,
        session: Uuid,
    ) -> Result<(), SharedLocationError> {
        let name = record_name(directory, log);
        let bytes = serde_json::to_vec_pretty(record).map_err(|error| self.record_error(&name, &error))?;
        match self {
            Self::Directory(shared_dir) => shared_files::create_record(&shared_dir.join(name), &bytes, session)?,
            // An existing object stays.
            Self::Bucket(bucket) => {
                bucket.create(&name, bytes.into()).map_err(BucketFilesError::Bucket)?;
            }
        }
        Ok(())
    }

    fn record_error(&self, name: &str, reason: &impl ToString) -> SharedLocationError {
        SharedLocationError::Record { name: self.full_name(name), reason: reason.to_string() }
    }
}

fn record_name(directory: &str, log: LogGeneration) -> String {
    format!("{directory}/{}", log.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::journal::{ChainHash, JournalHead};
    use crate::events::stream::Position;

    const LOG: Uuid = Uuid::from_u128(1);

    fn generation(number: u64) -> LogGeneration {
        LogGeneration { log_id: LOG, number }
    }

    fn head(position: u64) -> JournalHead {
        JournalHead { position: Position(position), chain: ChainHash([7; 32]) }
    }

    /// Calls `test` with a directory and with a bucket that a first node has moved its files to.
    fn in_each_location(test: impl Fn(&SharedLocation)) {
        let shared_dir = tempfile::tempdir().unwrap();
        let directory = SharedLocation::Directory(shared_dir.path().to_owned());
        for location in [directory, SharedLocation::Bucket(Bucket::in_memory())] {
            let node = tempfile::tempdir().unwrap();
            assert!(location.read_generation(LOG).unwrap_err().is_new());
            location.share(node.path(), LOG, &Environment::system()).unwrap();
            test(&location);
        }
    }

    #[test]
    fn a_generation_begins_once_and_the_latest_one_counts() {
        let record = |number, position| GenerationRecord::new(generation(number), head(position).into());
        let [first_session, second_session] = [1, 2].map(Uuid::from_u128);
        in_each_location(|location| {
            assert_eq!(location.read_generation(LOG).unwrap(), None);

            assert_eq!(location.record_generation(&record(9, 5), first_session).unwrap(), record(9, 5));
            assert_eq!(location.record_generation(&record(9, 6), second_session).unwrap(), record(9, 5));
            assert_eq!(location.record_generation(&record(10, 6), second_session).unwrap(), record(10, 6));

            assert_eq!(location.read_generation(LOG).unwrap(), Some(record(10, 6)));
            assert_eq!(location.find_generation(generation(9)).unwrap(), Some(record(9, 5)));
            assert_eq!(location.find_generation(generation(11)).unwrap(), None);
            assert!(location.read_generation(Uuid::from_u128(2)).is_err(), "the records of another log");
        });
    }

    #[test]
    fn the_last_cluster_that_ended_is_known() {
        in_each_location(|location| {
            assert!(location.read_leave(LOG).unwrap().is_none());
            for (number, attempt) in [(1, 7), (2, 8), (2, 9)] {
                let record = LeaveRecord::new(generation(number), head(number).into(), attempt);
                location.record_leave(&record, Uuid::from_u128(attempt.into())).unwrap();
            }
            let leave = location.read_leave(LOG).unwrap().unwrap();
            assert_eq!((leave.log(), leave.attempt()), (generation(2), 8));
        });
    }

    #[test]
    fn a_malformed_record_is_an_error_that_names_it() {
        in_each_location(|location| {
            let record = GenerationRecord::new(generation(2), head(5).into());
            let name = record_name(GENERATIONS, generation(3));
            location.create_record(GENERATIONS, generation(3), &record, LOG).unwrap();

            let reason = location.read_generation(LOG).unwrap_err().to_string();
            assert!(reason.contains(&name) && reason.contains("generation 2"), "{reason}");
        });
    }
}
