//! Model: commands on nodes and versions.

use super::op::{NODES, Op, Said, Who};
use super::things::{Node, Version, revise};
use super::world::{Standing, Verdict, World, a_user, turn, unless};

/// Publisher, its node and the node's version.
type Path = (usize, usize, Option<usize>);

impl World {
    pub fn change_nodes(&mut self, who: Who, op: &Op) -> Verdict {
        let now = self.now;
        match op {
            Op::CreateNode { publisher, node, said, version } => {
                self.create_node(who, (*publisher, *node), said, version.as_ref())
            }
            Op::ReviseNode { publisher, node, said } => {
                self.enter_node(who, (*publisher, *node, None), Standing::OwnToken)?.not_banned()?.revise(said, now);
                Ok(200)
            }
            Op::DeleteNode { publisher, node } => {
                self.enter_node(who, (*publisher, *node, None), Standing::Owner)?.not_banned()?.deleted = true;
                Ok(204)
            }
            Op::Publish { publisher, node, version, said, of_node } => {
                self.publish(who, (*publisher, *node, *version), said, of_node)
            }
            Op::RenewUpload { publisher, node, version } => self.renew(who, *publisher, *node, *version),
            Op::Upload { node, version, good } => self.upload(*node, *version, *good),
            Op::ReviseVersion { publisher, node, version, said } => {
                self.revise_version(who, (*publisher, *node, *version), said)
            }
            Op::DeleteVersion { publisher, node, version } => {
                let node = self.enter_node(who, (*publisher, *node, Some(*version)), Standing::Owner)?;
                node.existing(*version)?;
                node.not_banned()?.updated = now;
                let version = node.existing(*version)?;
                (version.status, version.reason) = ("Deleted", None);
                Ok(204)
            }
            Op::Install { node, version } => self.install(who, *node, *version),
            Op::Review { node, stars } => self.review(who, *node, *stars),
            Op::Translate { node, texts } => self.translate(who, *node, texts),
            Op::RuleVersion { node, version, status, said } => self.rule(who, (*node, *version), status, said),
            Op::Administer { node, said } => self.administer(who, *node, said),
            Op::BanNode { node, ban } => {
                self.administers(who)?;
                let node = self.node(*node)?;
                turn(&mut node.banned, *ban)?;
                node.updated = now;
                Ok(204)
            }
            other => panic!("{other:?} is not about nodes"),
        }
    }

    /// Node of the publisher, for a caller who may change it; all parts of the path must exist.
    fn enter_node(&mut self, who: Who, path: Path, least: Standing) -> Result<&mut Node, u16> {
        let (publisher, node, version) = path;
        unless(401, who != Who::Anonymous)?;
        self.publisher(publisher)?;
        let found = self.node(node)?;
        let own = found.publisher == publisher && version.is_none_or(|version| found.version(version).is_some());
        unless(404, own)?;
        self.enter(who, publisher, least)?;
        self.node(node)
    }

    fn create_node(
        &mut self,
        who: Who,
        (publisher, node): (usize, usize),
        said: &Said,
        version: Option<&(usize, Said)>,
    ) -> Verdict {
        self.enter(who, publisher, Standing::OwnToken)?;
        let (id, now) = (NODES[node], self.now);
        unless(409, !self.nodes.contains_key(&id.to_lowercase()))?;
        let mut node = Node::new(id, publisher, now);
        node.revise(said, now);
        node.versions.extend(version.map(|(version, said)| Version::new(*version, "Active", said, now)));
        self.nodes.insert(id.to_lowercase(), node);
        Ok(201)
    }

    fn publish(
        &mut self,
        who: Who,
        (publisher, node, version): (usize, usize, usize),
        said: &Said,
        of_node: &Said,
    ) -> Verdict {
        self.enter(who, publisher, Standing::OwnToken)?;
        let (id, now, holder) = (NODES[node], self.now, self.holder(who, publisher));
        let node = self.nodes.entry(id.to_lowercase()).or_insert_with(|| Node::new(id, publisher, now));
        unless(404, !node.deleted)?;
        unless(409, node.publisher == publisher)?;
        node.not_banned()?;
        unless(409, node.version(version).is_none())?;
        node.revise(of_node, now);
        node.updated = now;
        node.versions.push(Version { link: Some(holder), ..Version::new(version, "Pending", said, now) });
        Ok(201)
    }

    /// Holder of a new upload link; a token has its index among the publisher's tokens.
    fn holder(&self, who: Who, publisher: usize) -> (Who, usize) {
        (who, self.publishers[&publisher].tokens.len().saturating_sub(1))
    }

    fn renew(&mut self, who: Who, publisher: usize, node: usize, version: usize) -> Verdict {
        self.enter_node(who, (publisher, node, Some(version)), Standing::OwnToken)?;
        let holder = self.holder(who, publisher);
        let node = self.node(node)?;
        node.existing(version)?;
        let version = node.not_banned()?.existing(version)?;
        unless(409, !version.archive && ["Pending", "Active"].contains(&version.status))?;
        version.link = Some(holder);
        Ok(200)
    }

    /// Applies an upload; the link is the only credential.
    fn upload(&mut self, node: usize, version: usize, good: bool) -> Verdict {
        let now = self.now;
        // The link of a deleted node or version stays valid, but leads to 404.
        let Some(found) = self.nodes.get_mut(&NODES[node].to_lowercase()) else { return Err(403) };
        let (publisher, gone) = (found.publisher, found.deleted);
        let Some(link) = found.version(version).and_then(|version| version.link) else { return Err(403) };
        unless(404, !gone)?;
        self.may_still_publish(publisher, link)?;
        let node = self.node(node)?;
        node.existing(version)?;
        let version = node.not_banned()?.existing(version)?;
        unless(409, !version.archive && ["Pending", "Active"].contains(&version.status))?;
        unless(400, good)?;
        version.archive = true;
        if version.status == "Pending" {
            (version.status, version.reason) = ("Active", None);
        }
        node.updated = now;
        Ok(200)
    }

    fn may_still_publish(&mut self, publisher: usize, (who, nth): (Who, usize)) -> Result<(), u16> {
        if let Who::Token(own) = who {
            let token = &self.publishers[&own].tokens[nth];
            let banned = self.users[token.issuer].banned || self.publishers[&own].banned;
            return unless(403, self.opens(own, token) && !banned);
        }
        unless(403, !matches!(who, Who::User(user) if self.users[user].erased))?;
        self.enter(who, publisher, Standing::OwnToken).map(drop)
    }

    fn revise_version(&mut self, who: Who, (publisher, node, version): (usize, usize, usize), said: &Said) -> Verdict {
        let now = self.now;
        let node = self.enter_node(who, (publisher, node, Some(version)), Standing::OwnToken)?;
        node.existing(version)?;
        let version = node.not_banned()?.existing(version)?;
        if revise(&mut version.said, said) {
            node.updated = now;
        }
        Ok(200)
    }

    fn install(&mut self, who: Who, node: usize, version: Option<usize>) -> Verdict {
        let (publisher, id) = (self.node(node)?.publisher, self.node(node)?.id);
        if id != NODES[node] {
            // The wrong case redirects to the right one.
            return Ok(302);
        }
        let shown = self.shows(&self.nodes[&NODES[node].to_lowercase()]);
        let insider = self.standing(who, publisher) >= Standing::OwnToken;
        unless(403, shown)?;
        let found = self.node(node)?;
        let wanted = match version {
            Some(version) => found.version(version).map(|version| version.status),
            None => found.latest().map(|version| version.status),
        };
        match wanted.ok_or(404_u16)? {
            "Deleted" => return Err(404),
            "Banned" => return Err(403),
            "Pending" | "Flagged" => unless(403, insider)?,
            _ => {}
        }
        let account = match who {
            Who::Anonymous => None,
            Who::User(user) => Some(user),
            Who::Token(publisher) => self.publishers[&publisher].tokens.last().map(|token| token.issuer),
        };
        if self.installed.insert((account, id)) {
            self.node(node)?.downloads += 1;
        }
        Ok(200)
    }

    fn review(&mut self, who: Who, node: usize, stars: u8) -> Verdict {
        unless(401, who != Who::Anonymous)?;
        let of = self.node(node)?.publisher;
        let reviewer = a_user(who)?;
        self.may_write(who)?;
        unless(403, !self.publishers[&of].banned || self.is_admin(who))?;
        let now = self.now;
        let node = self.node(node)?.not_banned()?;
        if node.reviews.insert(reviewer, stars) != Some(stars) {
            node.updated = now;
        }
        Ok(200)
    }

    /// Replaces the texts of a language; a language without texts is removed.
    fn translate(&mut self, who: Who, node: usize, texts: &Said) -> Verdict {
        unless(401, who != Who::Anonymous)?;
        let (of, now) = (self.node(node)?.publisher, self.now);
        self.enter(who, of, Standing::OwnToken)?;
        let node = self.node(node)?.not_banned()?;
        let mut after = node.translations.clone();
        after.extend(texts.clone());
        after.retain(|_, texts| texts.as_object().is_some_and(|texts| !texts.is_empty()));
        if after != node.translations {
            (node.translations, node.updated) = (after, now);
        }
        Ok(200)
    }

    fn rule(&mut self, who: Who, (node, version): (usize, usize), status: &'static str, said: &Said) -> Verdict {
        self.administers(who)?;
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
        unless(409, legal)?;
        let mut after = version.said.clone();
        let revised = revise(&mut after, said);
        unless(409, version.status != "Deleted" || !revised)?;
        version.said = after;
        let ruling = (status, Some(super::request::RULING));
        if revised || (version.status, version.reason) != ruling {
            (version.status, version.reason) = ruling;
            node.updated = now;
        }
        Ok(200)
    }

    /// Applies an administrator's change; a new download count does not count as a change of the node.
    fn administer(&mut self, who: Who, node: usize, said: &Said) -> Verdict {
        self.administers(who)?;
        let now = self.now;
        let node = self.node(node)?;
        let mut said = said.clone();
        if let Some(downloads) = said.remove("downloads").and_then(|downloads| downloads.as_u64()) {
            node.downloads = downloads;
        }
        node.revise(&said, now);
        Ok(200)
    }
}

impl Node {
    /// Rejects changes of a banned node by its publisher.
    fn not_banned(&mut self) -> Result<&mut Self, u16> {
        if self.banned { Err(403) } else { Ok(self) }
    }

    /// Returns the version, unless it was deleted.
    fn existing(&mut self, version: usize) -> Result<&mut Version, u16> {
        self.version(version).filter(|version| version.status != "Deleted").ok_or(404)
    }
}
