//! Events of nodes and versions, in order.

use mediary::domain::event::Event;
use mediary::domain::ids::{NodeId, PublisherId, UserId, VersionId};
use mediary::domain::node::{NodeAdminFields, NodeEvent, NodeFields, Rating, Stars, Translations};
use mediary::domain::value::Digest;
use mediary::domain::version::{
    Archive, Dependencies, SemVer, VersionAdminFields, VersionDraft, VersionFields, VersionStatus,
};

use super::{AT, id, labels, link, submitted, text};

pub fn first() -> Event {
    let id = NodeId::parse("Face-Tools").unwrap();
    let publisher = PublisherId::parse("acme").unwrap();
    NodeEvent::NodeCreated { id, publisher, fields: node_fields() }.into()
}

pub fn dependencies_continued() -> Event {
    let dependencies = Dependencies::from_recorded(vec!["numpy>=1.26".to_owned(), "pillow".to_owned()]);
    NodeEvent::DependenciesContinued { id: VersionId(id(0xE)), dependencies }.into()
}

pub fn administered() -> Event {
    NodeEvent::NodeAdministered { admin_fields: node_admin_fields() }.into()
}

/// Returns the next sample; `None` after the last.
pub fn after(last: &NodeEvent) -> Option<Event> {
    use NodeEvent as N;
    let version_id = VersionId(id(0xE));
    let next = match last {
        N::NodeCreated { .. } => N::NodeRevised { change: NodeFields::default() },
        N::NodeRevised { .. } => N::VersionReleased { version: version() },
        N::VersionReleased { .. } => N::VersionPublished { version: version() },
        N::VersionPublished { .. } => {
            let change = VersionFields { deprecated: Some(true), ..VersionFields::default() };
            N::VersionRevised { id: version_id, change }
        }
        N::VersionRevised { .. } => return Some(submitted()),
        N::NodeAdministered { .. } => {
            let texts = [(text("name"), text("Gesichtswerkzeuge")), (text("description"), text(""))].into();
            N::NodeTranslated { language: text("de"), texts }
        }
        N::NodeTranslated { .. } => N::NodeBanned { reason: text("malware") },
        N::NodeBanned { .. } => N::NodeUnbanned { reason: text("cleaned") },
        N::NodeUnbanned { .. } => N::NodeDeleted,
        N::NodeDeleted => N::NodeReviewed { user: UserId(id(0xA)), stars: Stars::new(5).unwrap() },
        N::NodeReviewed { .. } => N::DownloadsCounted { count: 1000 },
        N::DownloadsCounted { .. } => {
            N::ArchiveStored { version: version_id, archive: Archive { digest: Digest([0xAC; 32]), bytes: 123_456 } }
        }
        N::ArchiveStored { .. } => {
            let status = VersionStatus::Flagged;
            let reason = Some(text("unusual network calls"));
            N::VersionStatusChanged { id: version_id, status, reason }
        }
        N::VersionStatusChanged { .. } => {
            let tags_admin = Some(labels(&["reviewed"]));
            let host_node_extract_status = Some(text("success"));
            let facts = VersionAdminFields { created_at: Some(AT), tags_admin, host_node_extract_status };
            N::VersionAdministered { id: version_id, admin_fields: facts }
        }
        N::VersionAdministered { .. } | N::DependenciesContinued { .. } => return None,
    };
    Some(next.into())
}

fn node_admin_fields() -> NodeAdminFields {
    NodeAdminFields {
        created_at: Some(AT),
        downloads: Some(12_345),
        rating: Some(Rating::new(4.5).unwrap()),
        github_stars: Some(678),
        search_ranking: Some(-9),
        status_detail: Some(text("under observation")),
        tags_admin: Some(labels(&["security"])),
    }
}

fn node_fields() -> NodeFields {
    let german = [(text("name"), text("Gesichtswerkzeuge"))].into();
    NodeFields {
        author: Some(text("Ada")),
        banner_url: Some(link("banner.png")),
        category: Some(text("image")),
        description: Some(text("Finds faces.")),
        icon: Some(link("icon.png")),
        license: Some(text("MIT")),
        name: Some(text("Face Tools")),
        preempted_host_node_names: Some(labels(&["FaceFinder", "FaceSwap"])),
        repository: Some(link("face-tools")),
        supported_accelerators: Some(labels(&["CUDA"])),
        supported_host_frontend_version: Some(text(">=1.2")),
        supported_host_version: Some(text(">=0.3")),
        supported_os: Some(labels(&[])),
        tags: Some(labels(&["face", "image"])),
        translations: Some(Translations::from([(text("de"), german)])),
    }
}

fn version() -> VersionDraft {
    VersionDraft {
        id: VersionId(id(0xE)),
        number: SemVer::parse("1.2.3-beta.1+build.5").unwrap(),
        fields: VersionFields {
            changelog: Some(text("Fixed everything.")),
            dependencies: Some(labels(&["numpy", "pillow>=10"])),
            deprecated: Some(false),
            supported_accelerators: Some(labels(&["CUDA"])),
            supported_host_frontend_version: None,
            supported_host_version: Some(text(">=0.3")),
            supported_os: Some(labels(&["Linux"])),
            tags: None,
        },
    }
}
