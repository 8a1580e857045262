//! Commands on nodes and versions, applied to the model.

use super::entities::{Node, Version, revise};
use super::op::{JsonFields, ModelCaller, ModelOp, NODES};
use super::world::{Expectation, ModelRole, ModelWorld, reject_unless, require_user, set_banned};

/// Indexes of the publisher, node and version in the path of a request.
type NodePath = (usize, usize, Option<usize>);

impl ModelWorld {
    /// Applies a command on nodes or versions; panics for other commands.
    pub fn change_nodes(&mut self, caller: ModelCaller, op: &ModelOp) -> Expectation {
        let now = self.now;
        match op {
            ModelOp::CreateNode { publisher, node, fields, version } => {
                self.create_node(caller, (*publisher, *node), fields, version.as_ref())
            }
            ModelOp::ReviseNode { publisher, node, fields } => {
                self.authorize_node(caller, (*publisher, *node, None), ModelRole::OwnToken)?
                    .reject_banned()?
                    .revise(fields, now);
                Ok(200)
            }
            ModelOp::DeleteNode { publisher, node } => {
                self.authorize_node(caller, (*publisher, *node, None), ModelRole::Owner)?.reject_banned()?.deleted =
                    true;
                Ok(204)
            }
            ModelOp::Publish { publisher, node, version, fields, node_fields } => {
                self.publish(caller, (*publisher, *node, *version), fields, node_fields)
            }
            ModelOp::RenewUpload { publisher, node, version } => self.renew_upload(caller, *publisher, *node, *version),
            ModelOp::Upload { node, version, good } => self.upload(*node, *version, *good),
            ModelOp::ReviseVersion { publisher, node, version, fields } => {
                self.revise_version(caller, (*publisher, *node, *version), fields)
            }
            ModelOp::DeleteVersion { publisher, node, version } => {
                let node = self.authorize_node(caller, (*publisher, *node, Some(*version)), ModelRole::Owner)?;
                // A deleted version is reported before the ban of its node, here and below.
                node.existing_version(*version)?;
                node.reject_banned()?.updated = now;
                let version = node.existing_version(*version)?;
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
                self.require_admin(caller)?;
                let node = self.node(*node)?;
                set_banned(&mut node.banned, *ban)?;
                node.updated = now;
                Ok(204)
            }
            other => panic!("{other:?} is not about nodes"),
        }
    }

    /// Returns the node if the caller has at least the role `minimum` at its publisher; all parts of the path must
    /// exist.
    fn authorize_node(&mut self, caller: ModelCaller, path: NodePath, minimum: ModelRole) -> Result<&mut Node, u16> {
        let (publisher, node, version) = path;
        reject_unless(401, caller != ModelCaller::Anonymous)?;
        self.publisher(publisher)?;
        let target = self.node(node)?;
        let path_exists =
            target.publisher == publisher && version.is_none_or(|version| target.version(version).is_some());
        reject_unless(404, path_exists)?;
        self.authorize_publisher(caller, publisher, minimum)?;
        self.node(node)
    }

    fn create_node(
        &mut self,
        caller: ModelCaller,
        (publisher, node): (usize, usize),
        fields: &JsonFields,
        version: Option<&(usize, JsonFields)>,
    ) -> Expectation {
        self.authorize_publisher(caller, publisher, ModelRole::OwnToken)?;
        let (id, now) = (NODES[node], self.now);
        reject_unless(409, !self.nodes.contains_key(&id.to_lowercase()))?;
        let mut node = Node::new(id, publisher, now);
        node.revise(fields, now);
        node.versions.extend(version.map(|(version, fields)| Version::new(*version, "Active", fields, now)));
        self.nodes.insert(id.to_lowercase(), node);
        Ok(201)
    }

    /// Publishes a version; creates the node if it does not exist.
    fn publish(
        &mut self,
        caller: ModelCaller,
        (publisher, node, version): (usize, usize, usize),
        fields: &JsonFields,
        node_fields: &JsonFields,
    ) -> Expectation {
        self.authorize_publisher(caller, publisher, ModelRole::OwnToken)?;
        let id = NODES[node];
        let now = self.now;
        let holder = self.holder(caller, publisher);
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

    /// Returns the holder of a new upload link: the caller, with the index of the publisher's newest token, which
    /// identifies the token if the caller has one.
    fn holder(&self, caller: ModelCaller, publisher: usize) -> (ModelCaller, usize) {
        (caller, self.publishers[&publisher].tokens.len().saturating_sub(1))
    }

    /// Issues a new upload link for a version without an archive.
    fn renew_upload(&mut self, caller: ModelCaller, publisher: usize, node: usize, version: usize) -> Expectation {
        self.authorize_node(caller, (publisher, node, Some(version)), ModelRole::OwnToken)?;
        let holder = self.holder(caller, publisher);
        let node = self.node(node)?;
        node.existing_version(version)?;
        let version = node.reject_banned()?.existing_version(version)?;
        reject_unless(409, !version.archive && ["Pending", "Active"].contains(&version.status))?;
        version.link = Some(holder);
        Ok(200)
    }

    /// Applies an upload; the link is the only credential.
    fn upload(&mut self, node: usize, version: usize, is_valid: bool) -> Expectation {
        let now = self.now;
        // The link of a deleted node or version stays valid, but leads to 404.
        let Some(target) = self.nodes.get_mut(&NODES[node].to_lowercase()) else { return Err(403) };
        let (publisher, is_deleted) = (target.publisher, target.deleted);
        let Some(link) = target.version(version).and_then(|version| version.link) else { return Err(403) };
        reject_unless(404, !is_deleted)?;
        self.check_link_holder(publisher, link)?;
        let node = self.node(node)?;
        node.existing_version(version)?;
        let version = node.reject_banned()?.existing_version(version)?;
        reject_unless(409, !version.archive && ["Pending", "Active"].contains(&version.status))?;
        reject_unless(400, is_valid)?;
        version.archive = true;
        if version.status == "Pending" {
            (version.status, version.reason) = ("Active", None);
        }
        node.updated = now;
        Ok(200)
    }

    /// Rejects an upload if the holder of its link may no longer publish.
    fn check_link_holder(&mut self, publisher: usize, (caller, token_index): (ModelCaller, usize)) -> Result<(), u16> {
        if let ModelCaller::Token(token_publisher) = caller {
            let token = &self.publishers[&token_publisher].tokens[token_index];
            let banned = self.users[token.issuer].banned || self.publishers[&token_publisher].banned;
            return reject_unless(403, self.is_token_valid(token_publisher, token) && !banned);
        }
        reject_unless(403, !matches!(caller, ModelCaller::User(user) if self.users[user].erased))?;
        self.authorize_publisher(caller, publisher, ModelRole::OwnToken).map(drop)
    }

    fn revise_version(
        &mut self,
        caller: ModelCaller,
        (publisher, node, version): (usize, usize, usize),
        fields: &JsonFields,
    ) -> Expectation {
        let now = self.now;
        let node = self.authorize_node(caller, (publisher, node, Some(version)), ModelRole::OwnToken)?;
        node.existing_version(version)?;
        let version = node.reject_banned()?.existing_version(version)?;
        if revise(&mut version.fields, fields) {
            node.updated = now;
        }
        Ok(200)
    }

    /// Applies an install; without a version, the latest one is installed.
    fn install(&mut self, caller: ModelCaller, node: usize, version: Option<usize>) -> Expectation {
        let (publisher, id) = (self.node(node)?.publisher, self.node(node)?.id);
        if id != NODES[node] {
            // An id in other case redirects to the id as it was created.
            return Ok(302);
        }
        let is_visible = self.is_public(&self.nodes[&NODES[node].to_lowercase()]);
        let may_see_unreleased = self.role_of(caller, publisher) >= ModelRole::OwnToken;
        reject_unless(403, is_visible)?;

        let target = self.node(node)?;
        let status = match version {
            Some(version) => target.version(version).map(|version| version.status),
            None => target.latest().map(|version| version.status),
        };
        match status.ok_or(404_u16)? {
            "Deleted" => return Err(404),
            "Banned" => return Err(403),
            "Pending" | "Flagged" => reject_unless(403, may_see_unreleased)?,
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

    /// Sets the caller's review of a node.
    fn review(&mut self, caller: ModelCaller, node: usize, stars: u8) -> Expectation {
        reject_unless(401, caller != ModelCaller::Anonymous)?;
        let publisher = self.node(node)?.publisher;
        let reviewer = require_user(caller)?;
        self.reject_banned_caller(caller)?;
        reject_unless(403, !self.publishers[&publisher].banned || self.is_admin(caller))?;
        let now = self.now;
        let node = self.node(node)?.reject_banned()?;
        if node.reviews.insert(reviewer, stars) != Some(stars) {
            node.updated = now;
        }
        Ok(200)
    }

    /// Replaces the texts of each given language; an empty set of texts removes the language.
    fn translate(&mut self, caller: ModelCaller, node: usize, texts: &JsonFields) -> Expectation {
        reject_unless(401, caller != ModelCaller::Anonymous)?;
        let (publisher, now) = (self.node(node)?.publisher, self.now);
        self.authorize_publisher(caller, publisher, ModelRole::OwnToken)?;
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
        self.require_admin(caller)?;
        let now = self.now;
        let node = self.node(node)?;
        let version = node.version(version).ok_or(404_u16)?;
        let is_allowed = match (version.status, status) {
            (from, to) if from == to => true,
            ("Deleted", _) => false,
            (_, "Deleted")
            | ("Pending", "Active" | "Flagged" | "Banned")
            | ("Active", "Flagged" | "Banned")
            | ("Flagged", "Active" | "Banned")
            | ("Banned", "Active") => true,
            _ => false,
        };
        reject_unless(409, is_allowed)?;
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

    /// Applies an administrator's change; a new download count does not change the time of the last update.
    fn administer(&mut self, caller: ModelCaller, node: usize, fields: &JsonFields) -> Expectation {
        self.require_admin(caller)?;
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
    fn existing_version(&mut self, version: usize) -> Result<&mut Version, u16> {
        self.version(version).filter(|version| version.status != "Deleted").ok_or(404)
    }
}
