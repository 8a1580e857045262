//! Request bodies about versions: fields of publishers and fields of administrators. The latter are ignored from other
//! callers (contract 4: output-only fields).

use crate::domain::ids::VersionId;
use crate::domain::node::NodeCommand;
use crate::domain::value::Reason;
use crate::domain::version::{
    Changelog, SemVer, VersionAdminFields, VersionDraft, VersionFields, VersionRef, VersionStatus,
};
use crate::environment::Environment;
use crate::http::request::json_object::{AdministratorsOnly, FlattenedFields, json_object};

/// Version to register.
#[derive(Debug)]
pub struct NewVersion {
    pub draft: VersionDraft,
    pub moderation: ModerationPatch,
}

impl ModerationPatch {
    /// Returns `true` if the patch sets a status or the reason of the status.
    #[must_use]
    pub fn has_status_change(&self) -> bool {
        self.status.is_some() || self.reason.is_some()
    }

    /// Returns the command that applies the patch and `change` to a version.
    #[must_use]
    pub fn into_command(self, version: VersionRef, change: VersionFields) -> NodeCommand {
        let Self { fields: FlattenedFields(admin_fields), status, reason } = self;
        NodeCommand::AdministerVersion { version, change, admin_fields, status, reason }
    }

    /// Returns the command for a version just registered; `None` if nothing is set.
    #[must_use]
    pub fn for_new_version(self, version: VersionId) -> Option<NodeCommand> {
        (self != Self::default()).then(|| self.into_command(VersionRef::Id(version), VersionFields::default()))
    }
}

json_object! {
    impl VersionFields {
        /// Supported accelerators, such as CUDA, DirectML or ROCm.
        supported_accelerators,
        /// Supported versions of the host frontend.
        supported_host_frontend_version,
        /// Supported versions of the host application.
        supported_host_version,
        /// Supported operating systems.
        supported_os,
        /// Python dependencies in pip format.
        dependencies,
        /// Tags of the version.
        tags,
        /// Summary of changes.
        changelog,
        /// `true` if the publisher advises against using the version.
        deprecated,
    }
}

json_object! {
    impl VersionAdminFields {
        /// Creation time.
        #[name("createdAt")]
        created_at,
        /// Security warnings and other tags set by administrators.
        tags_admin,
        /// Status of the node extraction process.
        host_node_extract_status,
    }
}

json_object! {
    /// Fields of a version that only administrators set.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct ModerationPatch {
        fields: FlattenedFields<VersionAdminFields>,
        /// Status. Allowed transitions: pending → active, flagged, banned or deleted; active ↔ flagged; active or
        /// flagged → banned → active; any → deleted, which is final.
        status: Option<VersionStatus>,
        /// Reason of the status; required for a ban.
        #[name("status_reason")]
        reason: Option<Reason>,
    }
}

json_object! {
    /// Version to register.
    pub struct NewVersionBody {
        /// Version number, strictly as specified by semver.org 2.0.0.
        version: SemVer,
        fields: FlattenedFields<VersionFields>,
        moderation: AdministratorsOnly<ModerationPatch>,
    }
}

json_object! {
    /// Changes by publishers after the release.
    pub struct VersionChangeBody {
        /// Summary of changes.
        changelog: Option<Changelog>,
        /// `true` if the publisher advises against using the version.
        deprecated: Option<bool>,
        moderation: AdministratorsOnly<ModerationPatch>,
    }
}

json_object! {
    /// Changes by administrators.
    pub struct AdministeredVersionBody {
        fields: FlattenedFields<VersionFields>,
        moderation: FlattenedFields<ModerationPatch>,
    }
}

impl NewVersionBody {
    /// Returns the version with a new id.
    pub fn into_new_version(self, environment: &Environment) -> NewVersion {
        let draft = VersionDraft { id: VersionId(environment.uuid()), number: self.version, fields: self.fields.0 };
        NewVersion { draft, moderation: self.moderation.0 }
    }
}
