//! Request bodies about versions: fields of publishers and fields of administrators. The latter are ignored from other
//! callers (contract 4: output-only fields).

use crate::domain::ids::VersionId;
use crate::domain::node::NodeCommand;
use crate::domain::value::{Label, Labels, Reason, Timestamp};
use crate::domain::version::{
    Changelog, SemVer, VersionAdminFields, VersionDraft, VersionFields, VersionRef, VersionStatus,
};
use crate::environment::Environment;
use crate::http::request::fields::Fields;

/// Version to register.
#[derive(Debug)]
pub struct NewVersion {
    pub draft: VersionDraft,
    pub moderation: ModerationPatch,
}

/// Administrator's fields of a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModerationPatch {
    pub admin_fields: VersionAdminFields,
    pub status: Option<VersionStatus>,
    pub reason: Option<Reason>,
}

impl ModerationPatch {
    /// Returns `true` if it changes the moderation status.
    #[must_use]
    pub fn moderates(&self) -> bool {
        self.status.is_some() || self.reason.is_some()
    }

    /// Returns the command.
    #[must_use]
    pub fn into_command(self, version: VersionRef, change: VersionFields) -> NodeCommand {
        let Self { admin_fields: facts, status, reason } = self;
        NodeCommand::AdministerVersion { version, change, admin_fields: facts, status, reason }
    }

    /// Returns the command for a version just registered; `None` if nothing is set.
    #[must_use]
    pub fn for_new_version(self, version: VersionId) -> Option<NodeCommand> {
        (self != Self::default()).then(|| self.into_command(VersionRef::Id(version), VersionFields::default()))
    }
}

/// Compatibility fields that nodes and versions share.
pub struct CompatibilityFields {
    pub accelerators: Option<Labels>,
    pub host_frontend_version: Option<Label>,
    pub host_version: Option<Label>,
    pub os: Option<Labels>,
}

/// Reads the compatibility fields.
pub fn read_compatibility(fields: &mut Fields<'_, '_>) -> CompatibilityFields {
    CompatibilityFields {
        accelerators: fields.labels("supported_accelerators"),
        host_frontend_version: fields.text("supported_host_frontend_version", Label::parse),
        host_version: fields.text("supported_host_version", Label::parse),
        os: fields.labels("supported_os"),
    }
}

/// Reads a version to register.
pub fn read_new_version(fields: &mut Fields<'_, '_>, is_admin: bool, environment: &Environment) -> Option<NewVersion> {
    let number = fields.required_text("version", SemVer::parse);
    let version_fields = read_version_fields(fields);
    let moderation = read_moderation_patch(fields, is_admin);
    let draft = VersionDraft { id: VersionId(environment.uuid()), number: number?, fields: version_fields };
    Some(NewVersion { draft, moderation })
}

/// Reads all fields of a version.
pub fn read_version_fields(fields: &mut Fields<'_, '_>) -> VersionFields {
    let support = read_compatibility(fields);
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

/// Reads the fields that a publisher may change after the release: `changelog` and `deprecated`.
pub fn read_version_revision(fields: &mut Fields<'_, '_>) -> VersionFields {
    VersionFields {
        changelog: fields.text("changelog", Changelog::parse),
        deprecated: fields.flag("deprecated"),
        ..VersionFields::default()
    }
}

/// Reads the administrator's fields of a version; empty for other callers.
pub fn read_moderation_patch(fields: &mut Fields<'_, '_>, is_admin: bool) -> ModerationPatch {
    if !is_admin {
        return ModerationPatch::default();
    }
    ModerationPatch {
        admin_fields: VersionAdminFields {
            created_at: fields.text("createdAt", Timestamp::parse),
            tags_admin: fields.labels("tags_admin"),
            host_node_extract_status: fields.text("host_node_extract_status", Label::parse),
        },
        status: fields.text("status", VersionStatus::parse),
        reason: fields.text("status_reason", Reason::parse),
    }
}
