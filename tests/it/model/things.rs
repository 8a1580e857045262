//! The things of the model: publishers, nodes and versions, in the simplest words.

use std::collections::BTreeMap;

use semver::Version as Number;

use super::op::{Fields, VERSIONS};

#[derive(Debug, Default)]
pub struct Publisher {
    pub name: Option<&'static str>,
    pub banned: bool,
    pub deleted: bool,
    /// Who belongs to it, and whether as an owner.
    pub members: BTreeMap<Member, bool>,
    /// Whether the newest token is valid; none while none was issued.
    pub token: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    Admin,
    User(usize),
}

#[derive(Debug)]
pub struct Node {
    pub id: &'static str,
    pub publisher: usize,
    pub fields: Fields,
    pub banned: bool,
    pub deleted: bool,
    pub versions: Vec<Version>,
    pub downloads: u64,
    pub github_stars: Option<u64>,
    pub search_ranking: Option<i64>,
    pub reviews: BTreeMap<Member, u8>,
    pub created: u64,
    pub updated: u64,
}

#[derive(Debug)]
pub struct Version {
    pub number: Number,
    pub status: &'static str,
    /// What was said last; nothing at first.
    pub deprecated: Option<bool>,
}

impl Publisher {
    /// Whether an owner is left when this member is no owner any more.
    pub fn keeps_an_owner_without(&self, member: Member, still_owner: bool) -> Result<(), u16> {
        let others = self.members.iter().any(|(other, owner)| *other != member && *owner);
        let was = self.members.get(&member) == Some(&true);
        if was && !still_owner && !others { Err(409) } else { Ok(()) }
    }
}

impl Node {
    pub fn new(id: &'static str, publisher: usize, now: u64) -> Self {
        Self {
            id,
            publisher,
            fields: Fields::default(),
            banned: false,
            deleted: false,
            versions: Vec::new(),
            downloads: 0,
            github_stars: None,
            search_ranking: None,
            reviews: BTreeMap::new(),
            created: now,
            updated: now,
        }
    }

    /// Only what is present changes.
    pub fn revise(&mut self, change: &Fields, now: u64) {
        let before = format!("{:?}", self.fields);
        let (own, change) = (&mut self.fields, change.clone());
        own.name = change.name.or(own.name);
        own.author = change.author.or(own.author);
        own.description = change.description.or(own.description);
        own.os = change.os.or(own.os.take());
        own.accelerators = change.accelerators.or(own.accelerators.take());
        own.host_version = change.host_version.or(own.host_version);
        own.tags = change.tags.or(own.tags.take());
        if before != format!("{:?}", self.fields) {
            self.updated = now;
        }
    }

    pub fn version(&mut self, version: usize) -> Option<&mut Version> {
        let number = number(version);
        self.versions.iter_mut().find(|version| version.number.cmp_precedence(&number).is_eq())
    }

    /// The mean of the reviews, with two decimals.
    pub fn rating(&self) -> Option<f64> {
        let sum: u32 = self.reviews.values().map(|stars| u32::from(*stars)).sum();
        let count = u32::try_from(self.reviews.len()).expect("few");
        (count > 0).then(|| (f64::from(sum) * 100.0 / f64::from(count)).round() / 100.0)
    }

    /// The highest Active version, not deprecated before deprecated, release before pre-release.
    pub fn latest(&self) -> Option<&Version> {
        let active = self.versions.iter().filter(|version| version.status == "Active");
        active.max_by(|a, b| {
            let key = |v: &Version| (v.deprecated != Some(true), v.number.pre.is_empty());
            key(a).cmp(&key(b)).then_with(|| a.number.cmp_precedence(&b.number))
        })
    }
}

impl Version {
    pub fn new(version: usize, status: &'static str) -> Self {
        Self { number: number(version), status, deprecated: None }
    }
}

/// The version number.
pub fn number(version: usize) -> Number {
    Number::parse(VERSIONS[version]).expect("a semantic version")
}
