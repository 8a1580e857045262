//! Version ranges of the host application, such as `>=1.2, <2`.
//!
//! Publishers use the syntax of various package managers, so all common forms are accepted: comparators separated by
//! commas or spaces, alternatives with `||`, `^`, `~`, `~=`, wildcards, `a - b`, and partial versions.

use std::cmp::Ordering;

use semver::{BuildMetadata, Prerelease, Version};

/// The version of a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostVersion(Version);

impl HostVersion {
    /// Parses what hosts report (contract 4): a version with or without a leading `v`, or the output of `git describe`,
    /// which counts as the tag that it names. Returns `None` for anything else, such as `unknown`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let version = PartialHostVersion::parse(described_tag(text))?;
        version.major.is_some().then(|| Self(version.lowest_release()))
    }
}

/// Removes what `git describe` appends to a tag: `-<commits>-g<hash>`, `-dirty` and `-broken`.
fn described_tag(text: &str) -> &str {
    let text = text.strip_suffix("-dirty").or_else(|| text.strip_suffix("-broken")).unwrap_or(text);
    let tag = text.rsplit_once("-g").and_then(|(rest, hash)| {
        let (tag, commits) = rest.rsplit_once('-')?;
        let is_hash = hash.len() >= 4 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_count = !commits.is_empty() && commits.bytes().all(|byte| byte.is_ascii_digit());
        (is_hash && is_count).then_some(tag)
    });
    tag.unwrap_or(text)
}

/// A version range: alternatives, each a list of bounds that must all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRange(Vec<Vec<HostVersionBound>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostVersionBound {
    AtLeast(Version),
    Below(Version),
    /// Upper bound given as a full version.
    AtMost(Version),
    Above(Version),
    /// Excludes versions from the first up to, but not including, the second.
    Outside(Version, Version),
}

impl HostRange {
    /// Parses a range; `None` if the syntax is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.split("||").map(parse_bounds).collect::<Option<_>>().map(Self)
    }

    /// Returns `true` if the range contains the host's version. Compares by precedence alone, so a pre-release ranks
    /// above earlier releases; a bound such as `<2` excludes the pre-releases of 2.
    #[must_use]
    pub fn admits(&self, HostVersion(host): &HostVersion) -> bool {
        let compare_host = |version: &Version| host.cmp_precedence(version);
        self.0.iter().any(|bounds| {
            bounds.iter().all(|bound| match bound {
                HostVersionBound::AtLeast(version) => compare_host(version).is_ge(),
                HostVersionBound::Below(version) => compare_host(version).is_lt(),
                HostVersionBound::AtMost(version) => compare_host(version).is_le(),
                HostVersionBound::Above(version) => compare_host(version).is_gt(),
                HostVersionBound::Outside(from, to) => compare_host(from).is_lt() || compare_host(to) != Ordering::Less,
            })
        })
    }
}

/// Parses the bounds of one alternative.
fn parse_bounds(text: &str) -> Option<Vec<HostVersionBound>> {
    let mut words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty()).peekable();
    let mut bounds = Vec::new();

    while let Some(word) = words.next() {
        let version_at = word.find(|c: char| !"<>=!~^".contains(c)).unwrap_or(word.len());
        let (operator, version) = word.split_at(version_at);
        let version = PartialHostVersion::parse(if version.is_empty() { words.next()? } else { version })?;
        if operator.is_empty() && words.next_if_eq(&"-").is_some() {
            bounds.extend(comparator_bounds(">=", &version)?);
            bounds.extend(comparator_bounds("<=", &PartialHostVersion::parse(words.next()?)?)?);
        } else {
            bounds.extend(comparator_bounds(operator, &version)?);
        }
    }
    Some(bounds)
}

/// Returns the bounds of one comparator; `None` for an unknown operator.
fn comparator_bounds(operator: &str, version: &PartialHostVersion) -> Option<Vec<HostVersionBound>> {
    use HostVersionBound::{Above, AtLeast, AtMost, Below, Outside};
    let lowest = version.lowest_release();
    // `~` keeps the minor version if it is given; `~=` keeps all parts but the last one.
    let part_of_tilde = if version.minor.is_some() { VersionPart::Minor } else { VersionPart::Major };
    let part_of_compatible = if version.patch.is_some() { VersionPart::Minor } else { VersionPart::Major };

    let bounds = match (operator, version.exclusive_end()) {
        // Without a version number, every version matches.
        ("" | "=" | "==" | "===" | ">=" | "<=" | "~" | "~=" | "~>" | "^", None) => vec![],
        ("" | "=" | "==" | "===", Some(_)) if version.is_full() => vec![AtLeast(lowest.clone()), AtMost(lowest)],
        ("" | "=" | "==" | "===", Some(end)) => vec![AtLeast(lowest), Below(end)],
        (">=", Some(_)) => vec![AtLeast(lowest)],
        (">", Some(_)) if version.is_full() => vec![Above(lowest)],
        (">", Some(end)) => vec![AtLeast(end)],
        ("<=", Some(_)) if version.is_full() => vec![AtMost(lowest)],
        ("<=", Some(end)) => vec![Below(end)],
        ("<", Some(_)) => vec![Below(version.floor())],
        ("!=", Some(_)) if version.is_full() => vec![Outside(lowest.clone(), next_patch(&lowest))],
        ("!=", Some(end)) => vec![Outside(lowest, end)],
        ("~" | "~>", Some(_)) => vec![AtLeast(lowest), Below(version.increment(part_of_tilde))],
        ("~=", Some(_)) => vec![AtLeast(lowest), Below(version.increment(part_of_compatible))],
        ("^", Some(_)) => vec![AtLeast(lowest), Below(version.increment(version.leftmost_nonzero()))],
        _ => return None,
    };
    Some(bounds)
}

/// Returns the lowest version with a higher precedence than `version`.
fn next_patch(version: &Version) -> Version {
    if version.pre.is_empty() {
        return floor(version.major, version.minor, version.patch.saturating_add(1));
    }
    let with_suffix = Prerelease::new(&format!("{}.0", version.pre)).unwrap_or_else(|_| version.pre.clone());
    Version { pre: with_suffix, ..version.clone() }
}

/// Part of a version number.
#[derive(Debug, Clone, Copy)]
enum VersionPart {
    Major,
    Minor,
    Patch,
}

/// A version whose last parts may be missing.
struct PartialHostVersion {
    major: Option<u64>,
    minor: Option<u64>,
    patch: Option<u64>,
    pre: Prerelease,
}

impl PartialHostVersion {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let text = text.split('+').next().unwrap_or(text);
        let (release, prerelease) = text.split_once('-').unwrap_or((text, ""));
        let mut parts = release.split('.');
        let mut part = || match parts.next() {
            None | Some("*" | "x" | "X") => Some(None),
            Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => number.parse().ok().map(Some),
            Some(_) => None,
        };

        let major = part()?;
        let minor = part()?;
        let patch = part()?;

        let is_contiguous = (major.is_some() || minor.is_none()) && (minor.is_some() || patch.is_none());
        let prerelease =
            Prerelease::new(prerelease).ok().filter(|prerelease| prerelease.is_empty() || patch.is_some())?;
        (is_contiguous && parts.next().is_none()).then_some(Self { major, minor, patch, pre: prerelease })
    }

    fn is_full(&self) -> bool {
        self.patch.is_some()
    }

    /// Returns the lowest matching release; missing parts are zero.
    fn lowest_release(&self) -> Version {
        let [major, minor, patch] = [self.major, self.minor, self.patch].map(|part| part.unwrap_or(0));
        Version { major, minor, patch, pre: self.pre.clone(), build: BuildMetadata::EMPTY }
    }

    /// Returns [`PartialHostVersion::lowest_release`] including its pre-releases, unless it is a pre-release itself.
    fn floor(&self) -> Version {
        let lowest = self.lowest_release();
        if lowest.pre.is_empty() { floor(lowest.major, lowest.minor, lowest.patch) } else { lowest }
    }

    /// Returns the exclusive upper bound of versions that start with the given parts; `None` without any part.
    fn exclusive_end(&self) -> Option<Version> {
        let last_part = match (self.major, self.minor, self.patch) {
            (None, _, _) => return None,
            (_, None, _) => VersionPart::Major,
            (_, _, None) => VersionPart::Minor,
            _ => VersionPart::Patch,
        };
        Some(self.increment(last_part))
    }

    /// Increments one part and resets the parts after it.
    fn increment(&self, part: VersionPart) -> Version {
        let Version { major, minor, patch, .. } = self.lowest_release();
        match part {
            VersionPart::Major => floor(major.saturating_add(1), 0, 0),
            VersionPart::Minor => floor(major, minor.saturating_add(1), 0),
            VersionPart::Patch => floor(major, minor, patch.saturating_add(1)),
        }
    }

    /// Returns the first non-zero part, which `^` keeps; the preceding part if it is missing.
    fn leftmost_nonzero(&self) -> VersionPart {
        match (self.major, self.minor, self.patch) {
            (Some(0), Some(0), Some(_)) => VersionPart::Patch,
            (Some(0), Some(_), _) => VersionPart::Minor,
            _ => VersionPart::Major,
        }
    }
}

/// Returns the lowest pre-release of a version.
fn floor(major: u64, minor: u64, patch: u64) -> Version {
    let pre = Prerelease::new("0").unwrap_or(Prerelease::EMPTY);
    Version { major, minor, patch, pre, build: BuildMetadata::EMPTY }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(range: &str, host: &str) -> Option<bool> {
        HostRange::parse(range).map(|range| range.admits(&HostVersion::parse(host).unwrap()))
    }

    #[test]
    fn ranges_have_the_syntax_of_package_managers() {
        for (range, inside, outside) in [
            (">=1.2, <2", &["1.2.0", "1.9.9", "1.3.0-rc.1"][..], &["1.1.9", "2.0.0", "2.0.0-rc.1", "1.2.0-rc.1"][..]),
            (">= 1.2 <2", &["1.2.0"], &["2.0.0"]),
            (">=1.2,<2", &["1.2.0"], &["2.0.0"]),
            ("1.2.3", &["1.2.3", "1.2.3+build"], &["1.2.4", "1.2.3-rc"]),
            ("=1.2", &["1.2.0", "1.2.9"], &["1.3.0", "1.1.0"]),
            ("==1.2.*", &["1.2.5"], &["1.3.0"]),
            ("1.x", &["1.0.0", "1.9.0"], &["2.0.0", "0.9.0"]),
            ("*", &["0.0.1", "9.0.0-alpha"], &[]),
            ("", &["1.0.0"], &[]),
            ("^1", &["1.0.0", "1.99.0"], &["2.0.0", "0.9.9"]),
            ("^1.2.3", &["1.2.3", "1.9.0"], &["1.2.2", "2.0.0"]),
            ("^0.2.3", &["0.2.3", "0.2.9"], &["0.3.0"]),
            ("^0.0.3", &["0.0.3"], &["0.0.4"]),
            ("^0", &["0.9.0"], &["1.0.0"]),
            ("~1", &["1.9.0"], &["2.0.0"]),
            ("~1.2.3", &["1.2.3", "1.2.9"], &["1.3.0"]),
            ("~=1.2", &["1.2.0", "1.9.0"], &["2.0.0"]),
            ("~=1.2.3", &["1.2.9"], &["1.3.0"]),
            (">1.2", &["1.3.0"], &["1.2.0", "1.2.9"]),
            (">1.2.3", &["1.2.4"], &["1.2.3"]),
            ("<=1.2", &["1.2.9", "0.1.0"], &["1.3.0"]),
            ("<=1.2.3", &["1.2.3"], &["1.2.4"]),
            ("<2.0.0-beta", &["2.0.0-alpha"], &["2.0.0-beta", "2.0.0"]),
            (">=1, !=1.5.0", &["1.4.9", "1.5.1"], &["1.5.0"]),
            ("!=1.5", &["1.4.0", "1.6.0"], &["1.5.0", "1.5.9"]),
            ("1.2 - 1.4", &["1.2.0", "1.4.9"], &["1.5.0", "1.1.0"]),
            ("<1 || >=3", &["0.9.0", "3.0.0"], &["1.0.0", "2.9.9"]),
            ("v1.2.3", &["1.2.3"], &["1.2.4"]),
        ] {
            for host in inside {
                assert_eq!(admits(range, host), Some(true), "{range} admits {host}");
            }
            for host in outside {
                assert_eq!(admits(range, host), Some(false), "{range} excludes {host}");
            }
        }
    }

    #[test]
    fn unknown_syntax_is_rejected() {
        for unknown in [
            "latest",
            ">>1",
            "1.2.3.4",
            ">=",
            "1.x.2",
            "<>1",
            "abc || 1",
            "1..2",
            "!=*",
            "1.-2",
            "99999999999999999999",
        ] {
            assert_eq!(HostRange::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn versions_are_read_as_hosts_report_them() {
        for (reported, version) in [
            ("0.3.30", "0.3.30"),
            ("v0.3.30", "0.3.30"),
            ("v0.3.30-20-g5c5457a4", "0.3.30"),
            ("v0.3.30-20-g5c5457a4-dirty", "0.3.30"),
            ("v1.0.0-rc.1-3-g0a1b2c3", "1.0.0-rc.1"),
            ("1.2.3-rc.1+x", "1.2.3-rc.1"),
            ("1.2", "1.2.0"),
            ("1", "1.0.0"),
        ] {
            assert_eq!(HostVersion::parse(reported), Version::parse(version).ok().map(HostVersion), "{reported}");
        }

        for unknown in ["", "unknown", "latest", "5c5457a4", "*", "v", "1.2.3.4", "0.3.30 (modified)"] {
            assert_eq!(HostVersion::parse(unknown), None, "{unknown}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "[0-9a-z.,<>=!~^|*x v+-]{0,30}") {
            let host = HostVersion::parse("1.2.3").unwrap();
            let _ = HostVersion::parse(&text);
            let _ = HostRange::parse(&text).map(|range| range.admits(&host));
        }
    }
}
