//! Versions of nodes, and the choice of the latest one.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::field_set::field_set;
use super::ids::VersionId;
use super::value::{Digest, InvalidValue, Label, Labels, Reason, Text, TextList, Timestamp, named_values};

named_values! {
    /// States of a version (seed specification, States and transitions).
    VersionStatus {
        /// Installable; can be the latest version.
        Active = "NodeVersionStatusActive",
        /// Waits for its archive or for moderation.
        Pending = "NodeVersionStatusPending",
        /// Suspicious: only members and administrators can get it.
        Flagged = "NodeVersionStatusFlagged",
        Banned = "NodeVersionStatusBanned",
        /// Deleted permanently; its number stays taken.
        Deleted = "NodeVersionStatusDeleted",
    }
}

impl VersionStatus {
    /// Returns `true` if the transition to `to` exists (contract 4). The same status is not a transition.
    #[must_use]
    pub fn can_transition_to(self, to: Self) -> bool {
        use VersionStatus::{Active, Banned, Deleted, Flagged, Pending};
        match self {
            Pending => matches!(to, Active | Flagged | Banned | Deleted),
            Active => matches!(to, Flagged | Banned | Deleted),
            Flagged => matches!(to, Active | Banned | Deleted),
            Banned => matches!(to, Active | Deleted),
            Deleted => false,
        }
    }
}

/// A semantic version (semver.org 2.0.0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SemVer(semver::Version);

impl SemVer {
    /// Parses `major.minor.patch[-pre-release][+build]`.
    ///
    /// # Errors
    /// If the text is not a semantic version or longer than 100 bytes.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let invalid =
            || InvalidValue::new("must be a semantic version such as 1.2.3 or 1.2.3-beta.1, at most 100 characters");
        if text.len() > 100 {
            return Err(invalid());
        }
        semver::Version::parse(text).map(Self).map_err(|_| invalid())
    }

    /// Returns `true` if both have the same precedence; build metadata does not count (semver.org 10).
    #[must_use]
    pub fn has_same_precedence(&self, other: &Self) -> bool {
        self.cmp_precedence(other) == Ordering::Equal
    }

    /// Compares by precedence (semver.org 11).
    #[must_use]
    pub fn cmp_precedence(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }

    /// Returns `true` for a pre-release.
    #[must_use]
    pub fn is_prerelease(&self) -> bool {
        !self.0.pre.is_empty()
    }
}

impl Serialize for SemVer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SemVer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        semver::Version::parse(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for SemVer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A changelog (contract 4).
pub type Changelog = Text<20_000>;
/// Dependencies of a version (contract 4).
pub type Dependencies = TextList<500, 1000>;

field_set! {
    /// Fields that the publisher sets; a change contains only the fields that change.
    VersionFields {
        changelog: Changelog,
        dependencies: Dependencies,
        deprecated: bool,
        supported_accelerators: Labels,
        supported_host_frontend_version: Label,
        supported_host_version: Label,
        supported_os: Labels,
        tags: Labels,
    }
}

field_set! {
    /// Fields that only administrators can set.
    VersionAdminFields { created_at: Timestamp, tags_admin: Labels, host_node_extract_status: Label }
}

/// The zip archive of a version, named by its SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    pub digest: Digest,
    pub bytes: u64,
}

/// A version to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionDraft {
    pub id: VersionId,
    pub number: SemVer,
    pub fields: VersionFields,
}

/// A registered version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVersion {
    pub id: VersionId,
    pub number: SemVer,
    pub status: VersionStatus,
    /// Reason of the status, if any.
    pub status_reason: Option<Reason>,
    pub fields: VersionFields,
    pub tags_admin: Option<Labels>,
    pub host_node_extract_status: Option<Label>,
    pub archive: Option<Archive>,
    pub created_at: Timestamp,
}

impl NodeVersion {
    /// Creates a newly registered version.
    #[must_use]
    pub fn new(draft: &VersionDraft, status: VersionStatus, at: Timestamp) -> Self {
        Self {
            id: draft.id,
            number: draft.number.clone(),
            status,
            status_reason: None,
            fields: draft.fields.clone(),
            tags_admin: None,
            host_node_extract_status: None,
            archive: None,
            created_at: at,
        }
    }

    /// Returns the current values of the fields that only administrators can set.
    #[must_use]
    pub fn admin_fields(&self) -> VersionAdminFields {
        VersionAdminFields {
            created_at: Some(self.created_at),
            tags_admin: self.tags_admin.clone(),
            host_node_extract_status: self.host_node_extract_status.clone(),
        }
    }

    /// Applies fields set by an administrator.
    pub fn apply_admin_fields(&mut self, admin_fields: &VersionAdminFields) {
        let mut merged = self.admin_fields();
        merged.apply(admin_fields);
        self.created_at = merged.created_at.unwrap_or(self.created_at);
        self.tags_admin = merged.tags_admin;
        self.host_node_extract_status = merged.host_node_extract_status;
    }

    /// Returns `true` if the publisher marked the version as deprecated.
    #[must_use]
    pub fn is_deprecated(&self) -> bool {
        self.fields.deprecated == Some(true)
    }
}

/// Reference to a version in a path: UUID or version number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionRef {
    Id(VersionId),
    Number(SemVer),
}

impl VersionRef {
    /// Parses a UUID or a version number; `None` if the text is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        VersionId::parse(text).map(Self::Id).or_else(|_| SemVer::parse(text).map(Self::Number)).ok()
    }

    /// Returns `true` if the reference names `version`.
    #[must_use]
    pub fn matches(&self, version: &NodeVersion) -> bool {
        match self {
            Self::Id(id) => version.id == *id,
            Self::Number(number) => version.number.has_same_precedence(number),
        }
    }
}

/// Returns the latest version: Active only; non-deprecated before deprecated, releases before pre-releases, then the
/// highest (contract 4).
#[must_use]
pub fn latest(versions: &[Arc<NodeVersion>]) -> Option<&NodeVersion> {
    let active = versions.iter().map(Arc::as_ref).filter(|version| version.status == VersionStatus::Active);
    active.max_by(|a, b| cmp_preference(a, b))
}

/// Compares two versions; the greater one is preferred as the latest.
fn cmp_preference(a: &NodeVersion, b: &NodeVersion) -> Ordering {
    let rank = |version: &NodeVersion| (!version.is_deprecated(), !version.number.is_prerelease());
    rank(a).cmp(&rank(b)).then_with(|| a.number.cmp_precedence(&b.number))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn version(number: &str, status: VersionStatus) -> Arc<NodeVersion> {
        version_with_fields(number, status, VersionFields::default())
    }

    fn active(number: &str) -> Arc<NodeVersion> {
        version(number, VersionStatus::Active)
    }

    fn active_but_deprecated(number: &str) -> Arc<NodeVersion> {
        let fields = VersionFields { deprecated: Some(true), ..VersionFields::default() };
        version_with_fields(number, VersionStatus::Active, fields)
    }

    fn version_with_fields(number: &str, status: VersionStatus, fields: VersionFields) -> Arc<NodeVersion> {
        let draft = VersionDraft { id: VersionId(Uuid::nil()), number: SemVer::parse(number).unwrap(), fields };
        NodeVersion::new(&draft, status, Timestamp::from_micros(0)).into()
    }

    fn latest_of(versions: &[Arc<NodeVersion>]) -> Option<String> {
        latest(versions).map(|version| version.number.to_string())
    }

    #[test]
    fn numbers_follow_semver_strictly() {
        for bad in ["1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3 ", ""] {
            assert!(SemVer::parse(bad).is_err(), "{bad}");
        }

        let ascending = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
        ];
        for pair in ascending.windows(2) {
            let lower = SemVer::parse(pair[0]).unwrap();
            let higher = SemVer::parse(pair[1]).unwrap();
            assert_eq!(lower.cmp_precedence(&higher), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn build_metadata_does_not_make_another_version() {
        assert!(SemVer::parse("1.0.0+a").unwrap().has_same_precedence(&SemVer::parse("1.0.0+b").unwrap()));
    }

    /// Checks every pair of states, in the order of [`VersionStatus::ALL`].
    #[test]
    fn the_transitions_are_those_of_the_contract() {
        const Y: bool = true;
        const N: bool = false;
        let table = [
            //          Active Pending Flagged Banned Deleted
            /* Active  */ [N, N, Y, Y, Y],
            /* Pending */ [Y, N, Y, Y, Y],
            /* Flagged */ [Y, N, N, Y, Y],
            /* Banned  */ [Y, N, N, N, Y],
            /* Deleted */ [N, N, N, N, N],
        ];
        for (from, row) in VersionStatus::ALL.iter().zip(table) {
            for (to, expected) in VersionStatus::ALL.iter().zip(row) {
                assert_eq!(from.can_transition_to(*to), expected, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn the_latest_is_the_highest_active_one() {
        for status in VersionStatus::ALL.iter().copied().filter(|status| *status != VersionStatus::Active) {
            let versions = [active("1.9.0"), active("1.10.0"), version("2.0.0", status)];
            assert_eq!(latest_of(&versions).as_deref(), Some("1.10.0"), "{status:?}");
        }
    }

    #[test]
    fn deprecated_and_prerelease_versions_come_last() {
        let versions = [active("3.0.0-rc.1"), active("1.0.0"), active_but_deprecated("2.0.0")];
        assert_eq!(latest_of(&versions).as_deref(), Some("1.0.0"));
        assert_eq!(latest_of(&versions[..1]).as_deref(), Some("3.0.0-rc.1"));
        assert_eq!(latest_of(&[active("3.0.0-rc.1"), active_but_deprecated("2.0.0")]).as_deref(), Some("3.0.0-rc.1"));
    }

    #[test]
    fn a_node_without_active_versions_has_no_latest() {
        assert_eq!(latest_of(&[version("1.0.0", VersionStatus::Pending)]), None);
    }
}
