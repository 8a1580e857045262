//! `NODE` or `NODE@VERSION` on the command line.

use std::fmt;
use std::str::FromStr;

use crate::domain::ids::NodeId;
use crate::domain::version::SemVer;

/// A node, and optionally one of its versions.
#[derive(Debug, Clone)]
pub(in crate::cli) struct NodeReference {
    pub(super) node: NodeId,
    pub(super) version: Option<SemVer>,
}

impl FromStr for NodeReference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (node, version) = text.split_once('@').map_or((text, None), |(node, version)| (node, Some(version)));
        let node = NodeId::parse(node).map_err(|reason| format!("the node {node:?} {reason}"))?;
        let version = version.map(|version| {
            let version = version.strip_prefix('v').unwrap_or(version);
            SemVer::parse(version).map_err(|reason| format!("the version {version:?} {reason}"))
        });
        Ok(Self { node, version: version.transpose()? })
    }
}

impl fmt::Display for NodeReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, version } = self;
        match version {
            Some(version) => write!(f, "{node}@{version}"),
            None => write!(f, "{node}"),
        }
    }
}

/// Formats a version number for a URL, in which a plus sign can mean a space.
pub(super) fn url_version(version: &SemVer) -> String {
    version.to_string().replace('+', "%2B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_optional() {
        let parse = |text: &str| text.parse::<NodeReference>().map(|reference| reference.to_string());
        assert_eq!(parse("face-tools"), Ok("face-tools".to_owned()));
        assert_eq!(parse("face-tools@1.0.0-rc.1"), Ok("face-tools@1.0.0-rc.1".to_owned()));
        assert_eq!(parse("face-tools@v2.0.0"), Ok("face-tools@2.0.0".to_owned()));
        assert!(parse("../x").is_err_and(|error| error.contains("../x")));
        assert!(parse("a@1.0").is_err_and(|error| error.contains("\"1.0\"")));
    }
}
