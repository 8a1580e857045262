//! Results that were received and could not be stored yet.

use std::collections::VecDeque;

use crate::domain::task::{VendorKey, VendorReference};
use crate::vendors::local::IsJobWanted;
use crate::vendors::profile::response::ResultItem;

/// Maximum bytes of results that wait in memory to be stored. Beyond that, the oldest results are discarded.
const UNSTORED_BYTES_MAX: usize = 512 << 20;

/// Results that were received and could not be stored yet, the oldest first.
#[derive(Default)]
pub(super) struct UnstoredResults(VecDeque<UnstoredJob>);

struct UnstoredJob {
    reference: VendorReference,
    key: VendorKey,
    items: Vec<ResultItem>,
}

impl UnstoredJob {
    fn bytes(&self) -> usize {
        self.items.iter().map(|item| item.file.inline_bytes()).sum()
    }
}

impl UnstoredResults {
    /// Keeps the results of a job and replaces its earlier results. May discard the oldest results of other jobs.
    pub(super) fn keep(&mut self, reference: VendorReference, key: VendorKey, items: Vec<ResultItem>) {
        self.keep_within(UNSTORED_BYTES_MAX, UnstoredJob { reference, key, items });
    }

    fn keep_within(&mut self, limit: usize, job: UnstoredJob) {
        self.discard(&job.reference);
        self.0.push_back(job);
        let mut total: usize = self.0.iter().map(UnstoredJob::bytes).sum();

        while total > limit && self.0.len() > 1 {
            let Some(oldest) = self.0.pop_front() else { break };
            total -= oldest.bytes();
            let reference = oldest.reference.as_str();
            tracing::error!(reference, "unstored result discarded, too many are kept in memory");
        }
    }

    /// Returns the results of a job.
    pub(super) fn get(&self, reference: &VendorReference) -> Option<Vec<ResultItem>> {
        self.0.iter().find(|job| job.reference == *reference).map(|job| job.items.clone())
    }

    pub(super) fn discard(&mut self, reference: &VendorReference) {
        self.0.retain(|job| job.reference != *reference);
    }

    /// Discards the results of jobs whose tasks have ended, because those jobs are no longer polled.
    pub(super) fn discard_unwanted(&mut self, is_wanted: &IsJobWanted) {
        self.0.retain(|job| is_wanted(&job.key));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::domain::value::Text;
    use crate::vendors::profile::response::ResultLocation;

    fn job(name: &str, bytes: usize) -> UnstoredJob {
        let file = ResultLocation::Inline(Bytes::from(vec![0; bytes]));
        let items = vec![ResultItem { file, cover: None, watermarked: None, vendor_id: None }];
        UnstoredJob { reference: text(name), key: text(name), items }
    }

    fn text<const N: usize>(name: &str) -> Text<N> {
        Text::from_recorded(name.to_owned())
    }

    fn names(jobs: &UnstoredResults) -> Vec<&str> {
        jobs.0.iter().map(|job| job.reference.as_str()).collect()
    }

    #[test]
    fn a_job_that_is_kept_again_counts_once() {
        // Given space for two jobs, one of which is kept twice
        let mut jobs = UnstoredResults::default();
        jobs.keep_within(20, job("a", 10));
        jobs.keep_within(20, job("b", 10));
        jobs.keep_within(20, job("b", 10));

        // Then both are there, and a third one displaces the oldest
        assert_eq!(names(&jobs), ["a", "b"]);
        jobs.keep_within(20, job("c", 10));
        assert_eq!(names(&jobs), ["b", "c"]);
    }

    #[test]
    fn jobs_of_ended_tasks_are_discarded() {
        let mut jobs = UnstoredResults::default();
        jobs.keep_within(100, job("ended", 10));
        jobs.keep_within(100, job("open", 10));
        let is_wanted: IsJobWanted = Arc::new(|key: &VendorKey| key.as_str() == "open");
        jobs.discard_unwanted(&is_wanted);
        assert_eq!(names(&jobs), ["open"]);
        assert!(jobs.get(&text("ended")).is_none() && jobs.get(&text("open")).is_some());
    }
}
