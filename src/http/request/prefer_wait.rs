//! `Prefer: wait=n` (RFC 7240): delays the response about a task until the task has ended, for at most n seconds.

use std::time::Duration;

use actix_web::http::header::{HeaderMap, HeaderName};
use tokio::time::{Instant, timeout_at};

use crate::domain::ids::TaskId;
use crate::domain::task::TaskRecord;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::http::server::Services;

/// Maximum wait (contract 5).
const WAIT_MAX: Duration = Duration::from_mins(1);

const PREFER: HeaderName = HeaderName::from_static("prefer");
pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Requested wait for the end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreferWait(Option<Duration>);

impl PreferWait {
    /// No wait.
    pub const NONE: Self = Self(None);

    /// Reads the header. Invalid preferences are ignored, as RFC 7240 requires; long waits are capped.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let preferences =
            headers.get_all(PREFER).filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
        let seconds = preferences.filter_map(|preference| {
            let (name, value) = preference.split(';').next()?.split_once('=')?;
            if !name.trim().eq_ignore_ascii_case("wait") {
                return None;
            }
            value.trim().trim_matches('"').parse::<u64>().ok()
        });
        let first = seconds.map(Duration::from_secs).next();
        Self(first.map(|wait| wait.min(WAIT_MAX)))
    }

    /// Returns `true` if the client requested a wait.
    pub const fn is_requested(self) -> bool {
        self.0.is_some()
    }

    /// Waits until the task has ended, the requested wait is over or the service stops. Returns the task; `None` if it
    /// does not exist.
    ///
    /// # Errors
    /// If the task cannot be read.
    pub async fn wait_until_ended(self, services: &Services, id: TaskId) -> Result<Option<TaskRecord>, Problem> {
        let mut changes = services.models.task_changes();
        let mut closing = services.closing.clone();
        let deadline = Instant::now() + self.0.unwrap_or_default();

        loop {
            let task = services.models.task(id).await?;
            let is_ended = task.as_ref().is_none_or(TaskRecord::is_terminal);
            if is_ended || self.0.is_none() || *closing.borrow() {
                return Ok(task);
            }

            let change = async {
                tokio::select! {
                    change = changes.changed() => change.is_ok(),
                    _ = closing.changed() => false,
                }
            };

            if !matches!(timeout_at(deadline, change).await, Ok(true)) {
                return Ok(services.models.task(id).await?);
            }
        }
    }

    /// Adds `Preference-Applied` if the client requested a wait.
    ///
    /// # Errors
    /// Never: the header value is valid.
    pub fn add_preference_applied(self, response: ApiResponse) -> Result<ApiResponse, Problem> {
        match self.0 {
            None => Ok(response),
            Some(wait) => response.with_header(PREFERENCE_APPLIED, format!("wait={}", wait.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn wait_seconds(preferences: &[&'static str]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for preference in preferences {
            headers.append(PREFER, HeaderValue::from_static(preference));
        }
        PreferWait::from_headers(&headers).0.map(|wait| wait.as_secs())
    }

    #[test]
    fn prefer_wait_is_parsed_in_every_notation() {
        for preferences in
            [&["wait=10"][..], &["Wait = 10"], &["respond-async, wait=10"], &["wait=10;x=1"], &["a", "wait=\"10\""]]
        {
            assert_eq!(wait_seconds(preferences), Some(10), "{preferences:?}");
        }
        assert_eq!(wait_seconds(&["wait=100000"]), Some(60));
    }

    #[test]
    fn unsupported_values_are_ignored() {
        for preferences in [&[][..], &["wait"], &["wait=-1"], &["wait=soon"], &["waiting=10"], &["wait="]] {
            assert_eq!(wait_seconds(preferences), None, "{preferences:?}");
        }
    }
}
