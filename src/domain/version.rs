//! Node versions: what one release of a node carries, and which of several is the latest.

use std::cmp::Ordering;
use std::fmt;

use super::ids::VersionId;
use super::publisher::take;
use super::value::{Invalid, Label, Labels, Text, Timestamp, named_values};

named_values! {
    /// The states of a version (seed, States and transitions).
    VersionStatus {
        Active = "NodeVersionStatusActive",
        Pending = "NodeVersionStatusPending",
    }
}

/// A semantic version, strictly as semver.org 2.0.0 has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SemVer(semver::Version);

impl SemVer {
    /// Reads the form `major.minor.patch[-pre-release][+build]`.
    ///
    /// # Errors
    /// When the text is not a semantic version, or longer than 100 characters.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refusal =
            || Invalid::new("must be a semantic version such as 1.2.3 or 1.2.3-beta.1, at most 100 characters");
        if text.len() > 100 {
            return Err(refusal());
        }
        semver::Version::parse(text).map(Self).map_err(|_| refusal())
    }

    /// Whether both have the same precedence: build metadata does not count (semver.org 10).
    #[must_use]
    pub fn same_precedence(&self, other: &Self) -> bool {
        self.precedence(other) == Ordering::Equal
    }

    /// Order of precedence (semver.org 11).
    #[must_use]
    pub fn precedence(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }

    /// Whether this is a pre-release.
    #[must_use]
    pub fn is_prerelease(&self) -> bool {
        !self.0.pre.is_empty()
    }
}

impl fmt::Display for SemVer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A changelog (contract 4).
pub type Changelog = Text<20_000>;

/// What the publisher says of a version; in a change only what is present is taken over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionFields {
    pub changelog: Option<Changelog>,
    pub dependencies: Option<Labels>,
    pub deprecated: Option<bool>,
    pub supported_accelerators: Option<Labels>,
    pub supported_host_frontend_version: Option<Label>,
    pub supported_host_version: Option<Label>,
    pub supported_os: Option<Labels>,
    pub tags: Option<Labels>,
}

impl VersionFields {
    /// Takes over every field that `change` carries.
    pub fn apply(&mut self, change: &Self) {
        take(&mut self.changelog, change.changelog.as_ref());
        take(&mut self.dependencies, change.dependencies.as_ref());
        take(&mut self.deprecated, change.deprecated.as_ref());
        take(&mut self.supported_accelerators, change.supported_accelerators.as_ref());
        take(&mut self.supported_host_frontend_version, change.supported_host_frontend_version.as_ref());
        take(&mut self.supported_host_version, change.supported_host_version.as_ref());
        take(&mut self.supported_os, change.supported_os.as_ref());
        take(&mut self.tags, change.tags.as_ref());
    }
}

/// A version to be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionDraft {
    pub id: VersionId,
    pub number: SemVer,
    pub fields: VersionFields,
}

/// A version that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVersion {
    pub id: VersionId,
    pub number: SemVer,
    pub status: VersionStatus,
    pub fields: VersionFields,
    pub created_at: Timestamp,
}

impl NodeVersion {
    /// A version just registered.
    #[must_use]
    pub fn new(draft: &VersionDraft, status: VersionStatus, at: Timestamp) -> Self {
        Self { id: draft.id, number: draft.number.clone(), status, fields: draft.fields.clone(), created_at: at }
    }

    /// Whether the publisher advises against it.
    #[must_use]
    pub fn is_deprecated(&self) -> bool {
        self.fields.deprecated == Some(true)
    }
}

/// How a version is named in a path: by its UUID or by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionRef {
    Id(VersionId),
    Number(SemVer),
}

impl VersionRef {
    /// Reads either form; anything else names no version.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        VersionId::parse(text).map(Self::Id).or_else(|_| SemVer::parse(text).map(Self::Number)).ok()
    }

    /// Whether this names `version`.
    #[must_use]
    pub fn names(&self, version: &NodeVersion) -> bool {
        match self {
            Self::Id(id) => version.id == *id,
            Self::Number(number) => version.number.same_precedence(number),
        }
    }
}

/// The latest version: the highest Active one, not deprecated before deprecated, release before pre-release (contract 4).
#[must_use]
pub fn latest(versions: &[NodeVersion]) -> Option<&NodeVersion> {
    versions.iter().filter(|version| version.status == VersionStatus::Active).max_by(|a, b| {
        let (in_use, release) = (|v: &NodeVersion| !v.is_deprecated(), |v: &NodeVersion| !v.number.is_prerelease());
        in_use(a).cmp(&in_use(b)).then_with(|| release(a).cmp(&release(b))).then_with(|| a.number.precedence(&b.number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn version(number: &str, status: VersionStatus, deprecated: bool) -> NodeVersion {
        NodeVersion {
            id: VersionId(Uuid::nil()),
            number: SemVer::parse(number).unwrap(),
            status,
            fields: VersionFields { deprecated: Some(deprecated), ..VersionFields::default() },
            created_at: Timestamp::from_micros(0),
        }
    }

    fn latest_of(versions: &[NodeVersion]) -> Option<String> {
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
            let [a, b] = [SemVer::parse(pair[0]).unwrap(), SemVer::parse(pair[1]).unwrap()];
            assert_eq!(a.precedence(&b), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn build_metadata_does_not_make_another_version() {
        assert!(SemVer::parse("1.0.0+a").unwrap().same_precedence(&SemVer::parse("1.0.0+b").unwrap()));
    }

    #[test]
    fn the_latest_is_the_highest_active_one() {
        use VersionStatus::{Active, Pending};
        let all = [version("1.9.0", Active, false), version("1.10.0", Active, false), version("2.0.0", Pending, false)];
        assert_eq!(latest_of(&all).as_deref(), Some("1.10.0"));
    }

    #[test]
    fn deprecated_and_prerelease_versions_come_last() {
        use VersionStatus::Active;
        let all =
            [version("3.0.0-rc.1", Active, false), version("1.0.0", Active, false), version("2.0.0", Active, true)];
        assert_eq!(latest_of(&all).as_deref(), Some("1.0.0"));
        assert_eq!(latest_of(&all[..1]).as_deref(), Some("3.0.0-rc.1"));
        assert_eq!(
            latest_of(&[version("3.0.0-rc.1", Active, false), version("2.0.0", Active, true)]).as_deref(),
            Some("3.0.0-rc.1")
        );
    }

    #[test]
    fn a_node_without_active_versions_has_no_latest() {
        assert_eq!(latest_of(&[version("1.0.0", VersionStatus::Pending, false)]), None);
    }
}
