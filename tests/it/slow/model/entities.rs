//! State of the model: users, publishers, nodes and versions, as simple as possible.

use std::collections::BTreeMap;

use semver::Version as Number;
use serde_json::{Value, json};

use super::op::{JsonFields, ModelCaller, VERSIONS};

/// User; its fields are name, e-mail address and the two flags.
#[derive(Debug, Default)]
pub struct User {
    pub fields: JsonFields,
    pub banned: bool,
    pub erased: bool,
    pub tokens: Vec<Token>,
}

/// Access token; lists have the oldest first.
#[derive(Debug)]
pub struct Token {
    pub revoked: bool,
    /// User who issued it.
    pub issuer: usize,
}

#[derive(Debug, Default)]
pub struct Publisher {
    pub fields: JsonFields,
    pub banned: bool,
    pub deleted: bool,
    /// Members by user index; `true` for owners.
    pub members: BTreeMap<usize, bool>,
    pub tokens: Vec<Token>,
}

#[derive(Debug)]
pub struct Node {
    pub id: &'static str,
    pub publisher: usize,
    /// Fields set by its publisher and by administrators.
    pub fields: JsonFields,
    /// Language → field → text.
    pub translations: JsonFields,
    pub banned: bool,
    pub deleted: bool,
    pub versions: Vec<Version>,
    pub downloads: u64,
    pub reviews: BTreeMap<usize, u8>,
    pub created: u64,
    pub updated: u64,
}

#[derive(Debug)]
pub struct Version {
    pub number: Number,
    pub status: &'static str,
    pub reason: Option<&'static str>,
    pub fields: JsonFields,
    pub created: u64,
    /// Holder of the upload link: the caller and, if that is a publisher's token, the index of the token.
    pub link: Option<(ModelCaller, usize)>,
    pub archive: bool,
}

/// Changes only the present fields; returns `true` if any value differs.
pub fn revise(fields: &mut JsonFields, change: &JsonFields) -> bool {
    let before = fields.clone();
    fields.extend(change.clone());
    *fields != before
}

/// Returns the fields as responses show them: without empty links. `links` names the fields that hold links.
pub fn visible_fields(fields: &JsonFields, links: &[&str]) -> JsonFields {
    let is_empty_link = |name: &String, value: &Value| links.contains(&name.as_str()) && *value == json!("");
    fields
        .iter()
        .filter(|(name, value)| !is_empty_link(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the text of a field; `None` if it is absent or empty.
pub fn text<'s>(fields: &'s JsonFields, name: &str) -> Option<&'s str> {
    fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

impl User {
    pub fn is_admin(&self) -> bool {
        self.fields.get("isAdmin") == Some(&json!(true))
    }
}

impl Publisher {
    /// Returns `true` if an owner remains when this user leaves or becomes a plain member.
    pub fn keeps_an_owner_without(&self, user: usize) -> bool {
        self.members.get(&user) != Some(&true) || self.members.iter().any(|(other, owner)| *other != user && *owner)
    }

    /// Returns the shown name: the id if no name is set.
    pub fn name(&self, id: &'static str) -> String {
        text(&self.fields, "name").unwrap_or(id).to_owned()
    }
}

impl Node {
    pub fn new(id: &'static str, publisher: usize, now: u64) -> Self {
        Self {
            id,
            publisher,
            fields: JsonFields::new(),
            translations: JsonFields::new(),
            banned: false,
            deleted: false,
            versions: Vec::new(),
            downloads: 0,
            reviews: BTreeMap::new(),
            created: now,
            updated: now,
        }
    }

    /// Changes the present fields; the node counts as updated only if a value differs.
    pub fn revise(&mut self, change: &JsonFields, now: u64) {
        if revise(&mut self.fields, change) {
            self.updated = now;
        }
    }

    /// Returns the version with this number, deleted or not; build metadata does not matter.
    pub fn version(&mut self, version: usize) -> Option<&mut Version> {
        let requested = number(version);
        self.versions.iter_mut().find(|version| version.number.cmp_precedence(&requested).is_eq())
    }

    /// Returns the shown name: the id if no name is set.
    pub fn name(&self) -> &str {
        text(&self.fields, "name").unwrap_or(self.id)
    }

    pub fn number_field(&self, name: &str) -> Option<i64> {
        self.fields.get(name).and_then(Value::as_i64)
    }

    /// Returns the mean of the reviews with two decimals or, without reviews, the value set by an administrator.
    pub fn rating(&self) -> Option<f64> {
        let sum: u32 = self.reviews.values().map(|stars| u32::from(*stars)).sum();
        let count = u32::try_from(self.reviews.len()).expect("few");
        if count == 0 {
            return self.fields.get("rating").and_then(Value::as_f64);
        }
        Some((f64::from(sum) * 100.0 / f64::from(count)).round() / 100.0)
    }

    /// Returns the highest Active version. Releases take precedence over pre-releases, and any version over a
    /// deprecated one.
    pub fn latest(&self) -> Option<&Version> {
        let active = self.versions.iter().filter(|version| version.status == "Active");
        active.max_by(|a, b| {
            let rank = |version: &Version| {
                (version.fields.get("deprecated") != Some(&json!(true)), version.number.pre.is_empty())
            };
            rank(a).cmp(&rank(b)).then_with(|| a.number.cmp_precedence(&b.number))
        })
    }

    /// Returns the entries of a list field in lower case: those of the node and those of its latest version.
    pub fn entries(&self, name: &str) -> Vec<String> {
        let sources = [Some(&self.fields), self.latest().map(|version| &version.fields)];
        let entry_lists = sources.into_iter().flatten().filter_map(|fields| fields.get(name)?.as_array());
        entry_lists.flatten().filter_map(|entry| entry.as_str().map(str::to_lowercase)).collect()
    }

    /// Returns the range of supported host versions: that of the node or else that of its latest version.
    pub fn host_range(&self) -> Option<&str> {
        let name = "supported_host_version";
        text(&self.fields, name).or_else(|| text(&self.latest()?.fields, name))
    }
}

impl Version {
    pub fn new(version: usize, status: &'static str, fields: &JsonFields, now: u64) -> Self {
        let number = number(version);
        Self { number, status, reason: None, fields: fields.clone(), created: now, link: None, archive: false }
    }
}

/// Parses the version number with this index in [`VERSIONS`].
pub fn number(version: usize) -> Number {
    Number::parse(VERSIONS[version]).expect("a semantic version")
}
