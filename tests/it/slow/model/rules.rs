//! Model: commands on nodes and versions.

use super::entities::{Node, Version, revise};
use super::op::{JsonFields, ModelCaller, ModelOp, NODES};
use super::world::{Expectation, ModelRole, ModelWorld, reject_unless, set_banned, user_index};

/// Publisher, its node and the node's version.
type NodePath = (usize, usize, Option<usize>);

impl ModelWorld {
    pub fn change_nodes(&mut self, caller: ModelCaller, op: &ModelOp) -> Expectation {
        let now = self.now;
        match op {
            ModelOp::CreateNode { publisher, node, fields, version } => {
                self.create_node(caller, (*publisher, *node), fields, version.as_ref())
            }
            ModelOp::ReviseNode { publisher, node, fields } => {
                self.enter_node(caller, (*publisher, *node, None), ModelRole::OwnToken)?
                    .reject_banned()?
                    .revise(fields, now);
                Ok(200)
            }
            ModelOp::DeleteNode { publisher, node } => {
                self.enter_node(caller, (*publisher, *node, None), ModelRole::Owner)?.reject_banned()?.deleted = true;
                Ok(204)
            }
            ModelOp::Publish { publisher, node, version, fields, node_fields } => {
                self.publish(caller, (*publisher, *node, *version), fields, node_fields)
            }
            ModelOp::RenewUpload { publisher, node, version } => self.renew(caller, *publisher, *node, *version),
            ModelOp::Upload { node, version, good } => self.upload(*node, *version, *good),
            ModelOp::ReviseVersion { publisher, node, version, fields } => {
                self.revise_version(caller, (*publisher, *node, *version), fields)
            }
            ModelOp::DeleteVersion { publisher, node, version } => {
                let node = self.enter_node(caller, (*publisher, *node, Some(*version)), ModelRole::Owner)?;
                node.existing(*version)?;
                node.reject_banned()?.updated = now;
                let version = node.existing(*version)?;
                (version.status, version.reason) = ("Deleted", None);
                Ok(204)
            }
            ModelOp::Install { node, version } => self.install(caller, *node, *version),
            ModelOp::Review { node, stars } => self.review(caller, *node, *stars),
            ModelOp::Translate { node, texts } => self.translate(caller, *node, texts),
            ModelOp::ModerateVersion { node, version, status, fields } => {
                self.moderate(caller, (*node, *version), status, fields)
            }
            ModelOp::Administer { node, fields } => self.administer(caller, *node, fields),
            ModelOp::BanNode { node, ban } => {
                self.administers(caller)?;
                let node = self.node(*node)?;
                set_banned(&mut node.banned, *ban)?;
                node.updated = now;
                Ok(204)
            }
            other => panic!("{other:?} is not about nodes"),
        }
    }

    /// Returns the node of the publisher, for a caller who may change it; all parts of the path must exist.
    fn enter_node(&mut self, caller: ModelCaller, path: NodePath, minimum: ModelRole) -> Result<&mut Node, u16> {
        let (publisher, node, version) = path;
        reject_unless(401, caller != ModelCaller::Anonymous)?;
        self.publisher(publisher)?;
        let found = self.node(node)?;
        let is_own = found.publisher == publisher && version.is_none_or(|version| found.version(version).is_some());
        reject_unless(404, is_own)?;
        self.enter(caller, publisher, minimum)?;
        self.node(node)
    }

    fn create_node(
        &mut self,
        caller: ModelCaller,
        (publisher, node): (usize, usize),
        fields: &JsonFields,
        version: Option<&(usize, JsonFields)>,
    ) -> Expectation {
        self.enter(caller, publisher, ModelRole::OwnToken)?;
        let (id, now) = (NODES[node], self.now);
        reject_unless(409, !self.nodes.contains_key(&id.to_lowercase()))?;
        let mut node = Node::new(id, publisher, now);
        node.revise(fields, now);
        node.versions.extend(version.map(|(version, fields)| Version::new(*version, "Active", fields, now)));
        self.nodes.insert(id.to_lowercase(), node);
        Ok(201)
    }

    fn publish(
        &mut self,
        caller: ModelCaller,
        (publisher, node, version): (usize, usize, usize),
        fields: &JsonFields,
        node_fields: &JsonFields,
    ) -> Expectation {
        self.enter(caller, publisher, ModelRole::OwnToken)?;
        let (id, now, holder) = (NODES[node], self.now, self.holder(caller, publisher));
        let node = self.nodes.entry(id.to_lowercase()).or_insert_with(|| Node::new(id, publisher, now));
        reject_unless(404, !node.deleted)?;
        reject_unless(409, node.publisher == publisher)?;
        node.reject_banned()?;
        reject_unless(409, node.version(version).is_none())?;
        node.revise(node_fields, now);
        node.updated = now;
        node.versions.push(Version { link: Some(holder), ..Version::new(version, "Pending", fields, now) });
        Ok(201)
    }

    /// Returns the holder of a new upload link; a token has its index among the publisher's tokens.
    fn holder(&self, caller: ModelCaller, publisher: usize) -> (ModelCaller, usize) {
        (caller, self.publishers[&publisher].tokens.len().saturating_sub(1))
    }

    fn renew(&mut self, caller: ModelCaller, publisher: usize, node: usize, version: usize) -> Expectation {
        self.enter_node(caller, (publisher, node, Some(version)), ModelRole::OwnToken)?;
        let holder = self.holder(caller, publisher);
        let node = self.node(node)?;
        node.existing(version)?;
        let version = node.reject_banned()?.existing(version)?;
        reject_unless(409, !version.archive && ["Pending", "Active"].contains(&version.status))?;
        version.link = Some(holder);
        Ok(200)
    }

    /// Applies an upload; the link is the only credential.
    fn upload(&mut self, node: usize, version: usize, is_valid: bool) -> Expectation {
        let now = self.now;
        // The link of a deleted node or version stays valid, but leads to 404.
        let Some(found) = self.nodes.get_mut(&NODES[node].to_lowercase()) else { return Err(403) };
        let (publisher, is_deleted) = (found.publisher, found.deleted);
        let Some(link) = found.version(version).and_then(|version| version.link) else { return Err(403) };
        reject_unless(404, !is_deleted)?;
        self.may_still_publish(publisher, link)?;
        let node = self.node(node)?;
        node.existing(version)?;
        let version = node.reject_banned()?.existing(version)?;
        reject_unless(409, !version.archive && ["Pending", "Active"].contains(&version.status))?;
        reject_unless(400, is_valid)?;
        version.archive = true;
        if version.status == "Pending" {
            (version.status, version.reason) = ("Active", None);
        }
        node.updated = now;
        Ok(200)
    }

    fn may_still_publish(&mut self, publisher: usize, (caller, token_index): (ModelCaller, usize)) -> Result<(), u16> {
        if let ModelCaller::Token(token_publisher) = caller {
            let token = &self.publishers[&token_publisher].tokens[token_index];
            let banned = self.users[token.issuer].banned || self.publishers[&token_publisher].banned;
            return reject_unless(403, self.is_token_valid(token_publisher, token) && !banned);
        }
        reject_unless(403, !matches!(caller, ModelCaller::User(user) if self.users[user].erased))?;
        self.enter(caller, publisher, ModelRole::OwnToken).map(drop)
    }

    fn revise_version(
        &mut self,
        caller: ModelCaller,
        (publisher, node, version): (usize, usize, usize),
        fields: &JsonFields,
    ) -> Expectation {
        let now = self.now;
        let node = self.enter_node(caller, (publisher, node, Some(version)), ModelRole::OwnToken)?;
        node.existing(version)?;
        let version = node.reject_banned()?.existing(version)?;
        if revise(&mut version.fields, fields) {
            node.updated = now;
        }
        Ok(200)
    }

    fn install(&mut self, caller: ModelCaller, node: usize, version: Option<usize>) -> Expectation {
        let (publisher, id) = (self.node(node)?.publisher, self.node(node)?.id);
        if id != NODES[node] {
            // The wrong case redirects to the right one.
            return Ok(302);
        }
        let is_visible = self.shows(&self.nodes[&NODES[node].to_lowercase()]);
        let insider = self.role_of(caller, publisher) >= ModelRole::OwnToken;
        reject_unless(403, is_visible)?;
        let found = self.node(node)?;
        let status = match version {
            Some(version) => found.version(version).map(|version| version.status),
            None => found.latest().map(|version| version.status),
        };
        match status.ok_or(404_u16)? {
            "Deleted" => return Err(404),
            "Banned" => return Err(403),
            "Pending" | "Flagged" => reject_unless(403, insider)?,
            _ => {}
        }
        let account = match caller {
            ModelCaller::Anonymous => None,
            ModelCaller::User(user) => Some(user),
            ModelCaller::Token(publisher) => self.publishers[&publisher].tokens.last().map(|token| token.issuer),
        };
        if self.installed.insert((account, id)) {
            self.node(node)?.downloads += 1;
        }
        Ok(200)
    }

    fn review(&mut self, caller: ModelCaller, node: usize, stars: u8) -> Expectation {
        reject_unless(401, caller != ModelCaller::Anonymous)?;
        let publisher = self.node(node)?.publisher;
        let reviewer = user_index(caller)?;
        self.may_write(caller)?;
        reject_unless(403, !self.publishers[&publisher].banned || self.is_admin(caller))?;
        let now = self.now;
        let node = self.node(node)?.reject_banned()?;
        if node.reviews.insert(reviewer, stars) != Some(stars) {
            node.updated = now;
        }
        Ok(200)
    }

    /// Replaces the texts of a language; a language without texts is removed.
    fn translate(&mut self, caller: ModelCaller, node: usize, texts: &JsonFields) -> Expectation {
        reject_unless(401, caller != ModelCaller::Anonymous)?;
        let (publisher, now) = (self.node(node)?.publisher, self.now);
        self.enter(caller, publisher, ModelRole::OwnToken)?;
        let node = self.node(node)?.reject_banned()?;
        let mut after = node.translations.clone();
        after.extend(texts.clone());
        after.retain(|_, texts| texts.as_object().is_some_and(|texts| !texts.is_empty()));
        if after != node.translations {
            (node.translations, node.updated) = (after, now);
        }
        Ok(200)
    }

    /// Applies an administrator's status and fields to a version.
    fn moderate(
        &mut self,
        caller: ModelCaller,
        (node, version): (usize, usize),
        status: &'static str,
        fields: &JsonFields,
    ) -> Expectation {
        self.administers(caller)?;
        let now = self.now;
        let node = self.node(node)?;
        let version = node.version(version).ok_or(404_u16)?;
        let legal = match (version.status, status) {
            (from, to) if from == to => true,
            ("Deleted", _) => false,
            (_, "Deleted")
            | ("Pending", "Active" | "Flagged" | "Banned")
            | ("Active", "Flagged" | "Banned")
            | ("Flagged", "Active" | "Banned")
            | ("Banned", "Active") => true,
            _ => false,
        };
        reject_unless(409, legal)?;
        let mut after = version.fields.clone();
        let revised = revise(&mut after, fields);
        reject_unless(409, version.status != "Deleted" || !revised)?;
        version.fields = after;
        let new_status = (status, Some(super::request::STATUS_REASON));
        if revised || (version.status, version.reason) != new_status {
            (version.status, version.reason) = new_status;
            node.updated = now;
        }
        Ok(200)
    }

    /// Applies an administrator's change; a new download count does not count as a change of the node.
    fn administer(&mut self, caller: ModelCaller, node: usize, fields: &JsonFields) -> Expectation {
        self.administers(caller)?;
        let now = self.now;
        let node = self.node(node)?;
        let mut fields = fields.clone();
        if let Some(downloads) = fields.remove("downloads").and_then(|downloads| downloads.as_u64()) {
            node.downloads = downloads;
        }
        node.revise(&fields, now);
        Ok(200)
    }
}

impl Node {
    /// Rejects changes of a banned node by its publisher.
    fn reject_banned(&mut self) -> Result<&mut Self, u16> {
        if self.banned { Err(403) } else { Ok(self) }
    }

    /// Returns the version, unless it was deleted.
    fn existing(&mut self, version: usize) -> Result<&mut Version, u16> {
        self.version(version).filter(|version| version.status != "Deleted").ok_or(404)
    }
}
