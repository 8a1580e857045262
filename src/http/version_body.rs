//! What bodies say of versions: what their publishers say, and what only administrators do. From everybody else that is not
//! even looked at (contract 4: output-only fields).

use super::fields::Fields;
use crate::clock::Surroundings;
use crate::domain::ids::VersionId;
use crate::domain::node::NodeCommand;
use crate::domain::value::{Label, Labels, Reason, Timestamp};
use crate::domain::version::{Changelog, SemVer, VersionDraft, VersionFacts, VersionFields, VersionRef, VersionStatus};

/// A version to be registered.
#[derive(Debug)]
pub struct NewVersion {
    pub draft: VersionDraft,
    pub ruling: Ruling,
}

/// What administrators say of a version beside what its publisher says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruling {
    pub facts: VersionFacts,
    pub status: Option<VersionStatus>,
    pub reason: Option<Reason>,
}

impl Ruling {
    /// Whether it says what becomes of the version.
    #[must_use]
    pub fn moderates(&self) -> bool {
        self.status.is_some() || self.reason.is_some()
    }

    /// The command that carries it out.
    #[must_use]
    pub fn into_command(self, version: VersionRef, change: VersionFields) -> NodeCommand {
        let Self { facts, status, reason } = self;
        NodeCommand::AdministerVersion { version, change, facts, status, reason }
    }

    /// The command that carries it out on a version just registered, if it says anything.
    #[must_use]
    pub fn on_new(self, version: VersionId) -> Option<NodeCommand> {
        (self != Self::default()).then(|| self.into_command(VersionRef::Id(version), VersionFields::default()))
    }
}

/// What nodes and versions both say of where they run.
pub struct Support {
    pub accelerators: Option<Labels>,
    pub host_frontend_version: Option<Label>,
    pub host_version: Option<Label>,
    pub os: Option<Labels>,
}

/// Reads what is said of where it runs.
pub fn read_support(fields: &mut Fields<'_, '_>) -> Support {
    Support {
        accelerators: fields.labels("supported_accelerators"),
        host_frontend_version: fields.text("supported_host_frontend_version", Label::parse),
        host_version: fields.text("supported_host_version", Label::parse),
        os: fields.labels("supported_os"),
    }
}

/// Reads a version that is to be registered.
pub fn read_new_version(
    fields: &mut Fields<'_, '_>,
    is_admin: bool,
    surroundings: &Surroundings,
) -> Option<NewVersion> {
    let number = fields.required_text("version", SemVer::parse);
    let (said, ruling) = (read_version_fields(fields), read_ruling(fields, is_admin));
    let draft = VersionDraft { id: VersionId(surroundings.uuid()), number: number?, fields: said };
    Some(NewVersion { draft, ruling })
}

/// Reads everything that can be said of a version.
pub fn read_version_fields(fields: &mut Fields<'_, '_>) -> VersionFields {
    let support = read_support(fields);
    VersionFields {
        dependencies: fields.labels("dependencies"),
        supported_accelerators: support.accelerators,
        supported_host_frontend_version: support.host_frontend_version,
        supported_host_version: support.host_version,
        supported_os: support.os,
        tags: fields.labels("tags"),
        ..read_version_revision(fields)
    }
}

/// Reads what a publisher may change of a version that is out: its changelog, and whether it is deprecated (seed).
pub fn read_version_revision(fields: &mut Fields<'_, '_>) -> VersionFields {
    VersionFields {
        changelog: fields.text("changelog", Changelog::parse),
        deprecated: fields.flag("deprecated"),
        ..VersionFields::default()
    }
}

/// Reads what administrators say of a version.
pub fn read_ruling(fields: &mut Fields<'_, '_>, is_admin: bool) -> Ruling {
    if !is_admin {
        return Ruling::default();
    }
    Ruling {
        facts: VersionFacts {
            created_at: fields.text("createdAt", Timestamp::parse),
            tags_admin: fields.labels("tags_admin"),
            host_node_extract_status: fields.text("host_node_extract_status", Label::parse),
        },
        status: fields.text("status", VersionStatus::parse),
        reason: fields.text("status_reason", Reason::parse),
    }
}
