//! Platform declarations of nodes: operating systems, accelerators, host versions.

use std::collections::HashMap;

use super::bitset::{Slot, SlotSet};
use super::host_version::{HostRange, HostVersion};
use super::sorted_list::SortedList;
use crate::domain::node::NodeProfile;
use crate::domain::value::{Label, Labels, named_values};
use crate::domain::version::{VersionFields, latest};

/// Maximum number of nodes of a value that are always stored as a list.
const LIST_MAX: usize = if cfg!(test) { 3 } else { 512 };

named_values! {
    /// Client platforms of list requests (contract 4).
    FormFactor {
        GitWindows = "git-windows",
        GitMac = "git-mac",
        GitLinux = "git-linux",
        DesktopWindows = "desktop-win",
        DesktopMac = "desktop-mac",
        /// Unknown platform, which no node excludes.
        Other = "other",
    }
}

/// Operating systems of the form factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Platform {
    Windows,
    Mac,
    Linux,
}

impl Platform {
    const ALL: [Self; 3] = [Self::Windows, Self::Mac, Self::Linux];

    fn from_form_factor(form_factor: FormFactor) -> Option<Self> {
        match form_factor {
            FormFactor::GitWindows | FormFactor::DesktopWindows => Some(Self::Windows),
            FormFactor::GitMac | FormFactor::DesktopMac => Some(Self::Mac),
            FormFactor::GitLinux => Some(Self::Linux),
            FormFactor::Other => None,
        }
    }

    /// Returns `true` if a lowercase name of an operating system includes this platform.
    fn matches_name(self, name: &str) -> bool {
        let letters: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
        let words = || name.split(|c: char| !c.is_alphanumeric());
        let any_word_starts_with = |prefix: &str| words().any(|word| word.starts_with(prefix));
        let has_word = |word: &str| words().any(|other| other == word);
        let is_posix = || has_word("posix") && !letters.contains("linux") || has_word("unix");

        let matches = match self {
            Self::Windows => any_word_starts_with("win") || has_word("microsoft"),
            Self::Mac => {
                any_word_starts_with("mac")
                    || any_word_starts_with("osx")
                    || any_word_starts_with("darwin")
                    || has_word("apple")
                    || letters.contains("osx")
                    || is_posix()
            }
            Self::Linux => {
                letters.contains("linux")
                    || has_word("ubuntu")
                    || has_word("debian")
                    || has_word("fedora")
                    || is_posix()
            }
        };
        matches || has_word("any") || has_word("all") || has_word("independent") || has_word("cross")
    }
}

/// Declarations of a node and its latest version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlatformDeclarations {
    /// Distinct and lowercase, like the accelerators.
    systems: Vec<String>,
    accelerators: Vec<String>,
    /// Range of the node itself or, if absent, of its latest version.
    host: Option<String>,
}

impl PlatformDeclarations {
    /// Collects the declarations of a node.
    #[must_use]
    pub fn from_node(node: &NodeProfile) -> Self {
        let fields = &node.fields;
        let latest: Option<&VersionFields> = latest(&node.versions).map(|version| &version.fields);
        let latest_systems = latest.and_then(|latest| latest.supported_os.as_ref());
        let latest_accelerators = latest.and_then(|latest| latest.supported_accelerators.as_ref());

        let trim = |range: &Label| range.as_str().trim().to_owned();
        let node_range = fields.supported_host_version.as_ref().map(trim).filter(|range| !range.is_empty());
        let latest_range = || latest?.supported_host_version.as_ref().map(trim);

        Self {
            systems: merge_labels(fields.supported_os.as_ref(), latest_systems),
            accelerators: merge_labels(fields.supported_accelerators.as_ref(), latest_accelerators),
            host: node_range.or_else(latest_range),
        }
    }

    /// Returns `true` if systems are declared but not this one.
    fn excludes(&self, platform: Platform) -> bool {
        !self.systems.is_empty() && !self.systems.iter().any(|system| platform.matches_name(system))
    }
}

/// Returns the distinct labels of a node and its latest version, normalized and sorted; omits empty ones.
fn merge_labels(node: Option<&Labels>, latest: Option<&Labels>) -> Vec<String> {
    let labels = node.into_iter().chain(latest).flat_map(Labels::iter);
    let mut values: Vec<String> = labels.map(normalize).filter(|value| !value.is_empty()).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Returns a value in lowercase without surrounding white space.
#[must_use]
pub fn normalize(value: &str) -> String {
    value.trim().to_lowercase()
}

/// Index of the declarations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facets {
    systems: FacetIndex,
    accelerators: FacetIndex,
    /// Nodes that exclude each platform, in the order of [`Platform::ALL`].
    excluding: [SlotSet; 3],
    /// Parsed host ranges with their nodes; all other nodes admit every host.
    hosts: HashMap<Box<str>, (HostRange, DeclaringNodes)>,
}

/// Nodes by declared value.
type FacetIndex = HashMap<Box<str>, DeclaringNodes>;

/// Nodes that declare one value: a list, or a bitmap if the value is common. Bitmaps are combined by words of bits, and
/// lists of rare values need little memory.
#[derive(Debug, Clone)]
enum DeclaringNodes {
    List(SortedList),
    Bitmap(SlotSet),
}

impl DeclaringNodes {
    fn insert(&mut self, slot: Slot) {
        match self {
            Self::List(list) => {
                list.insert_natural(slot);
                // A list needs 32 bits an entry, a bitmap one bit for every slot of the registry.
                let highest = list.iter_rev_from_end(0).next().unwrap_or(slot);
                if list.len() > LIST_MAX && list.len() * 32 > highest as usize {
                    *self = Self::Bitmap(list.iter().collect());
                }
            }
            Self::Bitmap(set) => set.set(slot, true),
        }
    }

    fn remove(&mut self, slot: Slot) {
        match self {
            Self::List(list) => list.remove_natural(slot),
            Self::Bitmap(set) => set.set(slot, false),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::List(list) => list.len() == 0,
            Self::Bitmap(set) => set.is_empty(),
        }
    }

    fn add_to(&self, nodes: &mut SlotSet) {
        match self {
            Self::List(list) => list.iter().for_each(|slot| nodes.set(slot, true)),
            Self::Bitmap(set) => nodes.unite(set),
        }
    }
}

impl Default for DeclaringNodes {
    fn default() -> Self {
        Self::List(SortedList::default())
    }
}

/// Compares the nodes, regardless of the representation.
impl PartialEq for DeclaringNodes {
    fn eq(&self, other: &Self) -> bool {
        union([self].into_iter()) == union([other].into_iter())
    }
}

/// Returns the nodes that declare at least one of several values.
fn union<'d>(declaring: impl Iterator<Item = &'d DeclaringNodes>) -> SlotSet {
    let mut nodes = SlotSet::default();
    declaring.for_each(|declaring| declaring.add_to(&mut nodes));
    nodes
}

impl Facets {
    /// Replaces the declarations of a node.
    pub fn update(&mut self, slot: Slot, before: &PlatformDeclarations, after: &PlatformDeclarations) {
        if before == after {
            return;
        }

        for (index, before, after) in [
            (&mut self.systems, &before.systems, &after.systems),
            (&mut self.accelerators, &before.accelerators, &after.accelerators),
        ] {
            for value in before {
                remove_value(index, value, slot);
            }
            for value in after {
                index.entry(value.as_str().into()).or_default().insert(slot);
            }
        }

        for (platform, excluding) in Platform::ALL.into_iter().zip(&mut self.excluding) {
            excluding.set(slot, after.excludes(platform));
        }
        self.update_host(slot, before.host.as_deref(), after.host.as_deref());
    }

    fn update_host(&mut self, slot: Slot, before: Option<&str>, after: Option<&str>) {
        if let Some((range, (_, slots))) = before.and_then(|range| Some((range, self.hosts.get_mut(range)?))) {
            slots.remove(slot);
            if slots.is_empty() {
                self.hosts.remove(range);
            }
        }

        let Some(text) = after else { return };
        if let Some((_, slots)) = self.hosts.get_mut(text) {
            slots.insert(slot);
        } else if let Some(range) = HostRange::parse(text) {
            let mut slots = DeclaringNodes::default();
            slots.insert(slot);
            self.hosts.insert(text.into(), (range, slots));
        }
    }

    /// Returns the nodes that declare one of these systems.
    #[must_use]
    pub fn systems(&self, names: &[String]) -> SlotSet {
        nodes_with_any(&self.systems, names)
    }

    /// Returns the nodes that declare one of these accelerators.
    #[must_use]
    pub fn accelerators(&self, names: &[String]) -> SlotSet {
        nodes_with_any(&self.accelerators, names)
    }

    /// Returns the nodes that exclude a platform.
    #[must_use]
    pub fn excluding(&self, form_factor: FormFactor) -> Option<&SlotSet> {
        let platform = Platform::from_form_factor(form_factor)?;
        Platform::ALL.iter().position(|candidate| *candidate == platform).map(|index| &self.excluding[index])
    }

    /// Returns the nodes whose range excludes this host.
    #[must_use]
    pub fn excluding_host(&self, host: &HostVersion) -> SlotSet {
        union(self.hosts.values().filter(|(range, _)| !range.admits(host)).map(|(_, slots)| slots))
    }
}

fn remove_value(index: &mut FacetIndex, value: &str, slot: Slot) {
    if let Some(slots) = index.get_mut(value) {
        slots.remove(slot);
        if slots.is_empty() {
            index.remove(value);
        }
    }
}

fn nodes_with_any(index: &FacetIndex, values: &[String]) -> SlotSet {
    union(values.iter().filter_map(|value| index.get(value.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_recognised_as_they_are_usually_written() {
        let matched = |name: &str| Platform::ALL.map(|platform| platform.matches_name(&normalize(name)));
        for windows in ["Windows", "win32", "WIN", "Windows 11", "win-64", "Operating System :: Microsoft :: Windows"] {
            assert_eq!(matched(windows), [true, false, false], "{windows}");
        }

        for mac in ["macOS", "darwin", "Mac OS X", "osx-arm64", "OS X", "Operating System :: MacOS"] {
            assert_eq!(matched(mac), [false, true, false], "{mac}");
        }

        for linux in ["Linux", "linux_x86_64", "GNU/Linux", "Ubuntu", "Operating System :: POSIX :: Linux"] {
            assert_eq!(matched(linux), [false, false, true], "{linux}");
        }

        for any in ["OS Independent", "any", "All", "cross-platform", "Operating System :: OS Independent"] {
            assert_eq!(matched(any), [true; 3], "{any}");
        }
        assert_eq!(matched("Operating System :: POSIX"), [false, true, true]);
        assert_eq!(matched("Plan 9"), [false; 3]);
    }

    #[test]
    fn nodes_that_name_only_other_systems_exclude_a_platform() {
        let declarations = |systems: &[&str]| PlatformDeclarations {
            systems: systems.iter().map(|name| normalize(name)).collect(),
            ..PlatformDeclarations::default()
        };

        let mut facets = Facets::default();
        for (slot, systems) in [&["Windows"][..], &["Linux", "macOS"], &["OS Independent"], &[]].into_iter().enumerate()
        {
            facets.update(u32::try_from(slot).unwrap(), &PlatformDeclarations::default(), &declarations(systems));
        }

        let excluding = |factor| facets.excluding(factor).map(|bits| bits.iter().collect::<Vec<_>>());
        assert_eq!(excluding(FormFactor::GitWindows), Some(vec![1]));
        assert_eq!(excluding(FormFactor::DesktopMac), Some(vec![0]));
        assert_eq!(excluding(FormFactor::GitLinux), Some(vec![0]));
        assert_eq!(excluding(FormFactor::Other), None);
    }

    #[test]
    fn removed_declarations_leave_nothing_behind() {
        let declared = PlatformDeclarations {
            systems: vec!["linux".to_owned(), "windows".to_owned()],
            accelerators: vec!["cuda".to_owned()],
            host: Some("<2".to_owned()),
        };
        let host = HostVersion::parse("2.1.0").unwrap();

        let mut facets = Facets::default();
        facets.update(7, &PlatformDeclarations::default(), &declared);
        assert_eq!(facets.systems(&["linux".to_owned(), "none".to_owned()]), SlotSet::from_iter([7]));
        assert_eq!(facets.accelerators(&["cuda".to_owned()]), SlotSet::from_iter([7]));
        assert_eq!(facets.excluding_host(&host), SlotSet::from_iter([7]));

        facets.update(7, &declared, &PlatformDeclarations::default());
        assert_eq!(facets, Facets::default());

        facets.update(
            7,
            &PlatformDeclarations::default(),
            &PlatformDeclarations { host: Some("newest".to_owned()), ..PlatformDeclarations::default() },
        );
        assert_eq!(facets.excluding_host(&host), SlotSet::default());
    }
}
