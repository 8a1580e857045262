//! Tests of lists against a simple model that filters, sorts and pages all nodes.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use proptest::prelude::*;
use uuid::Uuid;

use super::facets::FormFactor;
use super::list::Selection;
use super::*;
use crate::domain::ids::{NodeId, UserId};
use crate::domain::node::{NodeAdminFields, NodeFields, Rating, Stars};
use crate::domain::publisher::{MemberRole, PublisherFields};
use crate::domain::value::{Label, Labels, Name, Reason, Text};
use crate::domain::version::{SemVer, VersionDraft, VersionFields, VersionStatus, latest};

const PUBLISHERS: [&str; 3] = ["acme", "beta", "core"];
const SYSTEMS: [&str; 4] = ["Linux", "windows", "macOS", "OS Independent"];
/// Host version ranges; `newest` is invalid.
const RANGES: [&str; 5] = [">=1, <2", "^2", "", "newest", "<3"];
/// Number of nodes that changes and filters name.
const NODES: u8 = 24;

/// A change of the registry; a number selects the node or publisher.
#[derive(Debug, Clone)]
enum RegistryChange {
    Created { node: u8, publisher: usize, fields: u64 },
    Revised { node: u8, fields: u64 },
    Downloaded { node: u8, count: u64 },
    Reviewed { node: u8, user: u8, stars: i64 },
    Administered { node: u8, number: u64 },
    Released { node: u8, minor: u8, fields: u64 },
    Retired { node: u8, minor: u8 },
    Banned { node: u8 },
    Unbanned { node: u8 },
    Deleted { node: u8 },
    Publisher { publisher: usize, banned: bool, name: u8 },
}

fn any_change() -> impl Strategy<Value = RegistryChange> {
    use RegistryChange::{
        Administered, Banned, Created, Deleted, Downloaded, Publisher, Released, Retired, Reviewed, Revised, Unbanned,
    };
    let node = 0..NODES;
    let publisher = 0..PUBLISHERS.len();
    let seed = any::<u64>();
    prop_oneof![
        8 => (node.clone(), publisher.clone(), seed).prop_map(|(node, publisher, fields)| Created { node, publisher, fields }),
        4 => (node.clone(), seed).prop_map(|(node, fields)| Revised { node, fields }),
        2 => (node.clone(), 0..3_u64).prop_map(|(node, count)| Downloaded { node, count }),
        2 => (node.clone(), 0..3_u8, 1..=5_i64).prop_map(|(node, user, stars)| Reviewed { node, user, stars }),
        2 => (node.clone(), 0..3_u64).prop_map(|(node, number)| Administered { node, number }),
        3 => (node.clone(), 0..3_u8, seed).prop_map(|(node, minor, fields)| Released { node, minor, fields }),
        1 => (node.clone(), 0..3_u8).prop_map(|(node, minor)| Retired { node, minor }),
        1 => node.clone().prop_map(|node| Banned { node }),
        1 => node.clone().prop_map(|node| Unbanned { node }),
        1 => node.prop_map(|node| Deleted { node }),
        2 => (publisher, any::<bool>(), 0..3_u8)
            .prop_map(|(publisher, banned, name)| Publisher { publisher, banned, name }),
    ]
}

/// Returns fields that each depend on other bits of the seed.
fn fields(seed: u64) -> NodeFields {
    let pick = |shift: u32, modulus: usize| usize::try_from(seed >> shift).unwrap_or(0) % modulus;
    let labels = |shift: u32| {
        let selected =
            SYSTEMS.iter().enumerate().filter(|(index, _)| seed >> (shift + u32::try_from(*index).unwrap()) & 1 == 1);
        Labels::from_recorded(selected.map(|(_, system)| (*system).to_owned()).collect())
    };
    NodeFields {
        name: (pick(0, 3) > 0).then(|| Name::from_recorded(["b", "A", "ä"][pick(2, 3)].to_owned())),
        author: (pick(4, 2) > 0).then(|| Name::from_recorded(["Ann", "bob"][pick(6, 2)].to_owned())),
        supported_os: (pick(8, 2) > 0).then(|| labels(10)),
        supported_accelerators: (pick(9, 2) > 0).then(|| labels(20)),
        supported_host_version: Some(Label::from_recorded(RANGES[pick(30, RANGES.len())].to_owned())),
        ..NodeFields::default()
    }
}

fn id(node: u8) -> NodeId {
    NodeId::parse(&format!("{}-{node}", if node.is_multiple_of(2) { "Node" } else { "node" })).unwrap()
}

fn version(node: u8, minor: u8) -> VersionId {
    VersionId(Uuid::from_u128(u128::from(node) << 8 | u128::from(minor)))
}

pub(super) fn reason() -> Reason {
    Reason::from_recorded("because".to_owned())
}

/// Applies a change to the read models.
fn apply(change: &RegistryChange, at: Timestamp, nodes: &mut Nodes) {
    use RegistryChange as Change;
    let (node, event) = match change {
        Change::Created { node, publisher, fields: seed } => {
            let publisher = PublisherId::parse(PUBLISHERS[*publisher]).unwrap();
            (*node, NodeEvent::NodeCreated { id: id(*node), publisher, fields: fields(*seed) })
        }
        Change::Revised { node, fields: seed } => (*node, NodeEvent::NodeRevised { change: fields(*seed) }),
        Change::Downloaded { node, count } => (*node, NodeEvent::DownloadsCounted { count: *count }),
        Change::Reviewed { node, user, stars } => {
            let user = UserId(Uuid::from_u128(u128::from(*user)));
            (*node, NodeEvent::NodeReviewed { user, stars: Stars::new(*stars).unwrap() })
        }
        Change::Administered { node, number } => {
            let admin_fields = NodeAdminFields {
                github_stars: Some(*number),
                search_ranking: i64::try_from(*number).ok(),
                rating: Rating::new(f64::from(u32::try_from(*number).unwrap())).ok(),
                created_at: (*number == 2).then_some(Timestamp::from_micros(5)),
                ..NodeAdminFields::default()
            };
            (*node, NodeEvent::NodeAdministered { admin_fields })
        }
        Change::Released { node, minor, fields: seed } => {
            let NodeFields { supported_os, supported_accelerators, supported_host_version, .. } = fields(*seed);
            let fields = VersionFields {
                supported_accelerators,
                supported_host_version,
                supported_os,
                ..VersionFields::default()
            };
            let number = SemVer::parse(&format!("1.{minor}.0")).unwrap();
            (*node, NodeEvent::VersionReleased { version: VersionDraft { id: version(*node, *minor), number, fields } })
        }
        Change::Retired { node, minor } => {
            let id = version(*node, *minor);
            let status = VersionStatus::Deleted;
            (*node, NodeEvent::VersionStatusChanged { id, status, reason: None })
        }
        Change::Banned { node } => (*node, NodeEvent::NodeBanned { reason: reason() }),
        Change::Unbanned { node } => (*node, NodeEvent::NodeUnbanned { reason: reason() }),
        Change::Deleted { node } => (*node, NodeEvent::NodeDeleted),
        Change::Publisher { publisher, banned, name } => {
            let id = PUBLISHERS[*publisher];
            return nodes.update_publisher(id, Some(&publisher_profile(id, *banned, *name)));
        }
    };
    nodes.apply(id(node).key().as_str(), &event, at);
}

pub(super) fn publisher_profile(id: &str, banned: bool, name: u8) -> PublisherProfile {
    PublisherProfile {
        id: PublisherId::parse(id).unwrap(),
        fields: PublisherFields {
            name: Some(Name::from_recorded(format!("Name {name}"))),
            ..PublisherFields::default()
        },
        members: vec![(UserId(Uuid::nil()), MemberRole::Owner)],
        created_at: Timestamp::from_micros(0),
        status: if banned { PublisherStatus::Banned } else { PublisherStatus::Active },
        ban_reason: banned.then(reason),
        webhooks: Vec::new(),
    }
}

fn selection() -> impl Strategy<Value = Selection> {
    let sort = (0..SortColumn::ALL.len(), any::<bool>())
        .prop_map(|(index, descending)| Sort { column: SortColumn::ALL[index], descending });
    let systems = || prop::collection::vec(prop::sample::select(vec!["linux", "windows", "macos", "none"]), 0..3);
    let to_strings = |values: Vec<&str>| values.into_iter().map(str::to_owned).collect::<Vec<_>>();

    let ids = prop::option::weighted(0.2, prop::collection::vec((0..NODES).prop_map(|node| id(node).key()), 0..9));
    let host = prop::option::weighted(0.3, prop::sample::select(vec!["1.5.0", "2.0.0", "3.0.0-rc.1"]));
    let form_factor = prop::option::weighted(0.3, prop::sample::select(FormFactor::ALL.to_vec()));
    let after = prop::option::weighted(0.3, (0..70_i64).prop_map(Timestamp::from_micros));

    let filter = (systems(), systems(), after, ids, host, form_factor).prop_map(
        move |(systems, accelerators, after, node_ids, host, form_factor)| {
            let host = host.map(|host| host_version::HostVersion::parse(host).unwrap());
            NodeFilter {
                systems: to_strings(systems),
                accelerators: to_strings(accelerators),
                after,
                node_ids,
                host,
                form_factor,
            }
        },
    );
    let filter = prop_oneof![Just(NodeFilter::default()), filter];

    (prop::collection::vec(sort, 0..4), filter, any::<bool>()).prop_map(|(sort, filter, include_banned)| Selection {
        sort,
        filter,
        search: None,
        include_banned,
    })
}

/// Returns the selected nodes according to the model.
fn expected(nodes: &Nodes, selection: &Selection) -> Vec<NodeId> {
    let all_keys = (0..NODES).map(|node| id(node).key());
    let mut found: Vec<&NodeProfile> = all_keys
        .filter(|key| selection.include_banned || nodes.is_visible(key))
        .filter_map(|key| nodes.get(&key))
        .filter(|node| matches_filter(node, &selection.filter))
        .collect();
    found.sort_by(|a, b| {
        let mut keys = selection.sort.iter().map(|sort| {
            let order = compare(a, b, sort.column);
            if sort.descending { order.reverse() } else { order }
        });
        keys.find(|order| order.is_ne()).unwrap_or_else(|| a.id.key().cmp(&b.id.key()))
    });
    found.into_iter().map(|node| node.id.clone()).collect()
}

fn compare(a: &NodeProfile, b: &NodeProfile, column: SortColumn) -> Ordering {
    let author =
        |node: &NodeProfile| node.fields.author.as_ref().map_or(String::new(), |name| name.as_str().to_lowercase());
    match column {
        SortColumn::Id => a.id.key().cmp(&b.id.key()),
        SortColumn::Name => a.display_name().to_lowercase().cmp(&b.display_name().to_lowercase()),
        SortColumn::Author => author(a).cmp(&author(b)),
        SortColumn::Publisher => a.publisher.cmp(&b.publisher),
        SortColumn::CreatedAt => a.created_at.cmp(&b.created_at),
        SortColumn::UpdatedAt => a.updated_at.cmp(&b.updated_at),
        SortColumn::Downloads => a.downloads.cmp(&b.downloads),
        SortColumn::GithubStars => a.github_stars.cmp(&b.github_stars),
        SortColumn::Rating => a.rating().partial_cmp(&b.rating()).unwrap(),
        SortColumn::SearchRanking => a.search_ranking.cmp(&b.search_ranking),
    }
}

fn matches_filter(node: &NodeProfile, filter: &NodeFilter) -> bool {
    let latest = latest(&node.versions).map(|version| &version.fields);
    let lists = |node_labels: &Option<Labels>, version_labels: Option<&Labels>| -> Vec<String> {
        node_labels.iter().chain(version_labels).flat_map(Labels::iter).map(str::to_lowercase).collect()
    };
    let systems = lists(&node.fields.supported_os, latest.and_then(|fields| fields.supported_os.as_ref()));
    let accelerators =
        lists(&node.fields.supported_accelerators, latest.and_then(|fields| fields.supported_accelerators.as_ref()));

    let intersects = |required: &[String], available: &[String]| {
        required.is_empty() || required.iter().any(|value| available.contains(value))
    };

    let node_range = node.fields.supported_host_version.as_ref().map(Text::as_str).filter(|range| !range.is_empty());
    let version_range = || latest?.supported_host_version.as_ref().map(Text::as_str);
    let range = node_range.or_else(version_range).and_then(host_version::HostRange::parse);

    let platform = match filter.form_factor {
        None | Some(FormFactor::Other) => None,
        Some(FormFactor::GitLinux) => Some("linux"),
        Some(FormFactor::GitMac | FormFactor::DesktopMac) => Some("macos"),
        Some(FormFactor::GitWindows | FormFactor::DesktopWindows) => Some("windows"),
    };
    let admits = |platform: &str| systems.iter().any(|system| system == platform || system == "os independent");

    intersects(&filter.systems, &systems)
        && intersects(&filter.accelerators, &accelerators)
        && filter.after.is_none_or(|after| node.updated_at > after || node.created_at > after)
        && filter.node_ids.as_ref().is_none_or(|ids| ids.contains(&node.id.key()))
        && filter.host.as_ref().is_none_or(|host| range.is_none_or(|range| range.admits(host)))
        && platform.is_none_or(|platform| systems.is_empty() || admits(platform))
}

pub(super) fn ids(page: &Page<Arc<NodeEntry>>) -> Vec<NodeId> {
    page.entries.iter().filter_map(|entry| Some(entry.profile()?.id.clone())).collect()
}

proptest! {
    #[test]
    fn lists_equal_filtering_and_sorting_all_nodes(
        history in prop::collection::vec(any_change(), 0..90),
        selections in prop::collection::vec((selection(), 1..5_u64, 1..9_u64), 1..8),
    ) {
        let mut warm = Nodes::default();
        let mut cold = Nodes::default();
        warm.warm_up();
        for (change, at) in history.iter().zip(10..) {
            let at = Timestamp::from_micros(at);
            apply(change, at, &mut warm);
            apply(change, at, &mut cold);
        }

        for (selection, page, limit) in selections {
            let all = expected(&cold, &selection);
            let query = NodeQuery { page: PageRequest { page, limit }, selection };
            for bypass_cache in [true, false, false] {
                let found = warm.entries(warm.list(&query, bypass_cache));
                let model = query.page.paginate(all.iter().cloned());
                prop_assert_eq!((ids(&found), found.total), (model.entries, model.total), "{:?}", query);
            }
        }

        prop_assert!(warm == cold, "updated indexes differ from those built at once");
    }

    #[test]
    fn publishers_have_their_nodes(history in prop::collection::vec(any_change(), 0..90)) {
        let mut nodes = Nodes::default();
        let mut owned: BTreeMap<&str, Vec<NodeKey>> = BTreeMap::new();
        for (change, at) in history.iter().zip(10..) {
            apply(change, Timestamp::from_micros(at), &mut nodes);
        }

        for key in (0..NODES).map(|node| id(node).key()) {
            if let Some(node) = nodes.get(&key) {
                let publisher = PUBLISHERS.into_iter().find(|id| *id == node.publisher.as_str()).unwrap();
                owned.entry(publisher).or_default().push(key);
            }
        }

        for publisher in PUBLISHERS {
            let mut keys = owned.remove(publisher).unwrap_or_default();
            keys.sort();
            let publisher = PublisherId::parse(publisher).unwrap();
            let page = PageRequest { page: 1, limit: 100 };
            let listed = |include_banned| -> Vec<NodeKey> {
                ids(&nodes.page_of_publisher(&publisher, page, include_banned)).iter().map(NodeId::key).collect()
            };
            prop_assert_eq!(nodes.count_of_publisher(&publisher), keys.len());
            prop_assert_eq!(listed(true), keys.clone());
            keys.retain(|key| nodes.is_visible(key));
            prop_assert_eq!(listed(false), keys);
        }
    }
}

#[test]
fn a_ban_hides_all_nodes_of_a_publisher_at_once() {
    let mut nodes = Nodes::default();
    nodes.warm_up();
    let create = |nodes: &mut Nodes, n: u32, publisher: &str| {
        let id = NodeId::parse(&format!("n{n}")).unwrap();
        let publisher = PublisherId::parse(publisher).unwrap();
        let event = NodeEvent::NodeCreated { id: id.clone(), publisher, fields: fields(u64::from(n) * 977) };
        nodes.apply(id.key().as_str(), &event, Timestamp::from_micros(i64::from(n % 50)));
    };

    (0..1500).for_each(|n| create(&mut nodes, n, if n % 2 == 0 { "acme" } else { "beta" }));
    let before = nodes.clone();

    let total_of = |nodes: &Nodes, include_banned| {
        let selection = Selection { include_banned, sort: vec![Sort::DOWNLOADS], ..Selection::default() };
        nodes.list(&NodeQuery { page: PageRequest { page: 1, limit: 1 }, selection }, true).total
    };
    for banned in [true, false] {
        nodes.update_publisher("acme", Some(&publisher_profile("acme", banned, 0)));
        assert_eq!((total_of(&nodes, false), total_of(&nodes, true)), (if banned { 750 } else { 1500 }, 1500));
    }

    let names = |nodes: &Nodes| {
        let sort = vec![Sort { column: SortColumn::Name, descending: true }];
        let query = NodeQuery {
            page: PageRequest { page: 1, limit: 2000 },
            selection: Selection { sort, ..Selection::default() },
        };
        ids(&nodes.entries(nodes.list(&query, true)))
    };
    assert_eq!(names(&nodes), names(&before));
}

#[test]
fn json_is_cached_until_a_change_that_it_shows() {
    let mut nodes = Nodes::new(Links { public_url: "https://r.example".to_owned() });
    apply(&RegistryChange::Created { node: 1, publisher: 0, fields: 0 }, Timestamp::from_micros(1), &mut nodes);
    let key = id(1).key();
    let json =
        |nodes: &Nodes| -> serde_json::Value { serde_json::from_slice(&nodes.fragment(&key).unwrap().json).unwrap() };

    let first = nodes.fragment(&key).unwrap();
    let fragment_again = nodes.fragment(&key).unwrap();
    assert_eq!(first.json.as_ptr(), fragment_again.json.as_ptr());
    assert_eq!((&json(&nodes)["publisher"]["name"], &json(&nodes)["downloads"]), (&"acme".into(), &0.into()));

    let entry = nodes.entry(&key).unwrap();
    apply(&RegistryChange::Downloaded { node: 1, count: 3 }, Timestamp::from_micros(2), &mut nodes);
    assert_eq!(json(&nodes)["downloads"], 3);
    assert_eq!(entry.profile().map(|node| node.downloads), Some(0), "the entry of a reader does not change");

    nodes.update_publisher("acme", Some(&publisher_profile("acme", true, 7)));
    assert_eq!(json(&nodes)["publisher"]["name"], "Name 7");
    assert_eq!(json(&nodes)["status"], "NodeStatusBanned");
    assert_eq!(json(&nodes)["status_detail"], view::PUBLISHER_BANNED);
    let status = nodes.get(&key).map(|node| nodes.status_of(node));
    assert_eq!(status, Some((NodeStatus::Banned, Some(view::PUBLISHER_BANNED))));

    nodes.update_publisher("acme", None);
    assert_eq!((&json(&nodes)["publisher"]["name"], nodes.is_visible(&key)), (&"acme".into(), false));
    assert_ne!(nodes.fragment(&key).unwrap().hash, first.hash);
}

#[test]
fn deleted_nodes_are_found_nowhere() {
    let mut nodes = Nodes::default();
    let at = Timestamp::from_micros(1);
    apply(&RegistryChange::Created { node: 1, publisher: 0, fields: 0 }, at, &mut nodes);
    apply(&RegistryChange::Released { node: 1, minor: 0, fields: 0 }, at, &mut nodes);
    assert_eq!(nodes.by_version(version(1, 0)).map(|(node, _)| node.id.clone()), Some(id(1)));

    apply(&RegistryChange::Deleted { node: 1 }, at, &mut nodes);
    let key = id(1).key();
    assert!(nodes.get(&key).is_none() && nodes.entry(&key).is_none() && nodes.fragment(&key).is_none());
    assert!(nodes.by_version(version(1, 0)).is_none() && !nodes.is_visible(&key));
    assert_eq!(nodes.count_of_publisher(&PublisherId::parse("acme").unwrap()), 0);
}

#[test]
fn every_change_that_a_list_can_show_starts_a_generation() {
    let mut nodes = Nodes::default();
    let mut last = nodes.generation();
    let mut has_changed = |nodes: &Nodes| std::mem::replace(&mut last, nodes.generation()) != nodes.generation();
    let at = Timestamp::from_micros(1);
    for change in [
        RegistryChange::Created { node: 1, publisher: 0, fields: 0 },
        RegistryChange::Downloaded { node: 1, count: 1 },
        RegistryChange::Publisher { publisher: 0, banned: false, name: 1 },
        RegistryChange::Publisher { publisher: 0, banned: true, name: 1 },
        RegistryChange::Deleted { node: 1 },
    ] {
        apply(&change, at, &mut nodes);
        assert!(has_changed(&nodes), "{change:?}");
    }
    apply(&RegistryChange::Publisher { publisher: 0, banned: true, name: 1 }, at, &mut nodes);
    assert!(!has_changed(&nodes), "nodes show the same publisher as before");
}
