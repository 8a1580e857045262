//! Findings about an engine: what its servers, the stored log and the directories of a node must be like, and what they
//! are like.

use super::engine::EngineOpenError;

/// One requirement of an engine, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineCheck {
    /// Server, stored log or directory that was checked.
    pub subject: String,
    pub status: CheckStatus,
    /// The value; if it is not suitable, the required value and the remedy follow.
    pub finding: String,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStatus {
    Met,
    /// The engine can be used, but may lose acknowledged groups in some cases, or this could not be determined.
    Risk,
    /// The engine must not be used.
    Failed,
}

impl EngineCheck {
    pub fn met(subject: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { subject: subject.into(), status: CheckStatus::Met, finding: finding.into() }
    }

    pub fn risk(subject: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { subject: subject.into(), status: CheckStatus::Risk, finding: finding.into() }
    }

    pub fn failed(subject: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { subject: subject.into(), status: CheckStatus::Failed, finding: finding.into() }
    }
}

/// Refuses an engine with failed checks. `introduction` precedes what was found.
///
/// # Errors
/// If a check has failed.
pub fn refuse_failed(introduction: &str, checks: &[EngineCheck]) -> Result<(), EngineOpenError> {
    let failed = checks.iter().filter(|check| check.status == CheckStatus::Failed);
    let problems: Vec<_> = failed.map(|check| check.finding.as_str()).collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(EngineOpenError::Unsuitable(format!("{introduction}: {}", problems.join("; "))))
}
