//! The model: what a registry is, in the simplest words, and the status that every command must be answered with.

use std::collections::BTreeMap;

use super::op::{Facts, Fields, NODES, Op, Who};
use super::things::{Member, Node, Publisher, Version};

/// The users.
pub const USERS: [&str; 3] = ["una", "dua", "tria"];
/// The publishers.
pub const PUBLISHERS: [&str; 3] = ["light-works", "blur-house", "porto"];

/// Everything there is. Times are counted in commands.
#[derive(Debug, Default)]
pub struct World {
    now: u64,
    banned_users: [bool; 3],
    pub publishers: BTreeMap<usize, Publisher>,
    /// By id in lower case.
    pub nodes: BTreeMap<String, Node>,
}

/// What somebody is to a publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Anonymous,
    User,
    OtherToken,
    OwnToken,
    Member,
    Owner,
    Admin,
}

type Verdict = Result<u16, u16>;

impl World {
    /// What the command is answered with; it is carried out when it may be.
    pub fn act(&mut self, op: &Op) -> u16 {
        self.now += 1;
        self.carry_out(op).unwrap_or_else(|refused| refused)
    }

    fn carry_out(&mut self, op: &Op) -> Verdict {
        let who = self.whoever(op.who())?;
        match op {
            Op::CreatePublisher { publisher, .. } => self.create_publisher(who, *publisher),
            Op::RenamePublisher { publisher, name, .. } => {
                self.enter(who, *publisher, Standing::Owner)?.name = Some(name);
                Ok(200)
            }
            Op::DeletePublisher { publisher, .. } => self.delete_publisher(who, *publisher),
            Op::SetMember { publisher, user, owner, .. } => {
                let publisher = self.enter(who, *publisher, Standing::Owner)?;
                publisher.keeps_an_owner_without(Member::User(*user), *owner)?;
                publisher.members.insert(Member::User(*user), *owner);
                Ok(200)
            }
            Op::RemoveMember { publisher, user, .. } => {
                let publisher = self.enter(who, *publisher, Standing::Owner)?;
                let member = Member::User(*user);
                (publisher.members.contains_key(&member)).then_some(()).ok_or(404_u16)?;
                publisher.keeps_an_owner_without(member, false)?;
                publisher.members.remove(&member);
                Ok(204)
            }
            Op::IssueToken { publisher, .. } => {
                self.enter(who, *publisher, Standing::Owner)?.token = Some(true);
                Ok(201)
            }
            Op::RevokeToken { publisher, .. } => {
                let publisher = self.enter(who, *publisher, Standing::Owner)?;
                (publisher.token == Some(true)).then_some(()).ok_or(404_u16)?;
                publisher.token = Some(false);
                Ok(204)
            }
            Op::BanUser { user, ban } => turn(&mut self.banned_users[*user], *ban),
            Op::BanPublisher { publisher, ban } => turn(&mut self.publisher(*publisher)?.banned, *ban),
            Op::BanNode { node, ban } => {
                let now = self.now;
                let node = self.node(*node)?;
                turn(&mut node.banned, *ban)?;
                node.updated = now;
                Ok(204)
            }
            Op::CreateNode { publisher, node, fields, version, .. } => {
                self.enter(who, *publisher, Standing::OwnToken)?;
                self.create_node(*publisher, *node, fields, *version)
            }
            Op::ReviseNode { publisher, node, fields, .. } => {
                let now = self.now;
                let node = self.enter_node(who, (*publisher, *node, None), Standing::OwnToken)?;
                node.revise(fields, now);
                Ok(200)
            }
            Op::DeleteNode { publisher, node, .. } => {
                self.enter_node(who, (*publisher, *node, None), Standing::Owner)?.deleted = true;
                Ok(204)
            }
            Op::Publish { publisher, node, version, .. } => self.publish(who, *publisher, *node, *version),
            Op::ReviseVersion { publisher, node, version, deprecated, .. } => {
                self.revise_version(who, (*publisher, *node, *version), *deprecated)
            }
            Op::DeleteVersion { publisher, node, version, .. } => {
                self.delete_version(who, (*publisher, *node, *version))
            }
            Op::SetStatus { node, version, status } => self.set_status(*node, *version, status),
            Op::Review { node, stars, .. } => self.review(who, *node, *stars),
            Op::Administer { node, facts } => self.administer(*node, facts),
        }
    }

    /// Who it is really: a token that was never issued is nobody, and a revoked one is refused.
    fn whoever(&self, who: Who) -> Result<Who, u16> {
        let Who::Token(publisher) = who else { return Ok(who) };
        match self.publishers.get(&publisher).and_then(|publisher| publisher.token) {
            None => Ok(Who::Anonymous),
            Some(true) => Ok(who),
            Some(false) => Err(401),
        }
    }

    fn publisher(&mut self, publisher: usize) -> Result<&mut Publisher, u16> {
        self.publishers.get_mut(&publisher).filter(|publisher| !publisher.deleted).ok_or(404)
    }

    fn node(&mut self, node: usize) -> Result<&mut Node, u16> {
        self.nodes.get_mut(&NODES[node].to_lowercase()).filter(|node| !node.deleted).ok_or(404)
    }

    /// Whether the node is in lists for everybody.
    pub fn shows(&self, node: &Node) -> bool {
        !node.banned && !self.publishers[&node.publisher].banned
    }

    /// A user who is banned, and a token whose publisher is, write nothing.
    fn may_write(&self, who: Who) -> Result<(), u16> {
        let banned = match who {
            Who::User(user) => self.banned_users[user],
            Who::Token(publisher) => self.publishers[&publisher].banned,
            Who::Anonymous | Who::Admin => false,
        };
        if banned { Err(403) } else { Ok(()) }
    }

    fn standing(&self, who: Who, publisher: usize) -> Standing {
        match who {
            Who::Anonymous => Standing::Anonymous,
            Who::Admin => Standing::Admin,
            Who::Token(own) if own == publisher => Standing::OwnToken,
            Who::Token(_) => Standing::OtherToken,
            Who::User(user) => match self.publishers[&publisher].members.get(&Member::User(user)) {
                Some(true) => Standing::Owner,
                Some(false) => Standing::Member,
                None => Standing::User,
            },
        }
    }

    /// The publisher, for somebody who is at least this to it: 401 before 404 before 403.
    fn enter(&mut self, who: Who, publisher: usize, least: Standing) -> Result<&mut Publisher, u16> {
        (who != Who::Anonymous).then_some(()).ok_or(401_u16)?;
        let banned = self.publisher(publisher)?.banned;
        let standing = self.standing(who, publisher);
        self.may_write(who)?;
        if standing < least || banned && standing != Standing::Admin {
            return Err(403);
        }
        self.publisher(publisher)
    }

    /// A node of the publisher, for somebody who may write it; what the path names must be there.
    fn enter_node(
        &mut self,
        who: Who,
        (publisher, node, version): (usize, usize, Option<usize>),
        least: Standing,
    ) -> Result<&mut Node, u16> {
        (who != Who::Anonymous).then_some(()).ok_or(401_u16)?;
        self.publisher(publisher)?;
        let found = self.node(node)?;
        let own = found.publisher == publisher && version.is_none_or(|version| found.version(version).is_some());
        own.then_some(()).ok_or(404_u16)?;
        self.enter(who, publisher, least)?;
        let node = self.node(node)?;
        if node.banned { Err(403) } else { Ok(node) }
    }

    fn create_publisher(&mut self, who: Who, publisher: usize) -> Verdict {
        let creator = match who {
            Who::Anonymous => return Err(401),
            Who::Token(_) => return Err(403),
            Who::Admin => Member::Admin,
            Who::User(user) => Member::User(user),
        };
        self.may_write(who)?;
        if self.publishers.contains_key(&publisher) {
            return Err(409);
        }
        self.publishers.insert(publisher, Publisher { members: [(creator, true)].into(), ..Publisher::default() });
        Ok(201)
    }

    fn delete_publisher(&mut self, who: Who, publisher: usize) -> Verdict {
        self.enter(who, publisher, Standing::Owner)?;
        if self.nodes.values().any(|node| node.publisher == publisher && !node.deleted) {
            return Err(409);
        }
        self.publisher(publisher)?.deleted = true;
        Ok(204)
    }

    fn create_node(&mut self, publisher: usize, node: usize, fields: &Fields, version: Option<usize>) -> Verdict {
        let (id, now) = (NODES[node], self.now);
        if self.nodes.contains_key(&id.to_lowercase()) {
            return Err(409);
        }
        let mut node = Node::new(id, publisher, now);
        node.revise(fields, now);
        node.versions.extend(version.map(|version| Version::new(version, "Active")));
        self.nodes.insert(id.to_lowercase(), node);
        Ok(201)
    }

    fn publish(&mut self, who: Who, publisher: usize, node: usize, version: usize) -> Verdict {
        self.enter(who, publisher, Standing::OwnToken)?;
        let (id, now) = (NODES[node], self.now);
        let node = self.nodes.entry(id.to_lowercase()).or_insert_with(|| Node::new(id, publisher, now));
        if node.deleted {
            return Err(404);
        }
        if node.publisher != publisher {
            return Err(409);
        }
        if node.banned {
            return Err(403);
        }
        if node.version(version).is_some() {
            return Err(409);
        }
        node.versions.push(Version::new(version, "Pending"));
        node.updated = now;
        Ok(201)
    }

    fn revise_version(
        &mut self,
        who: Who,
        (publisher, node, version): (usize, usize, usize),
        deprecated: bool,
    ) -> Verdict {
        let now = self.now;
        let node = self.enter_node(who, (publisher, node, Some(version)), Standing::OwnToken)?;
        let version = node.version(version).filter(|version| version.status != "Deleted").ok_or(404_u16)?;
        if version.deprecated != Some(deprecated) {
            version.deprecated = Some(deprecated);
            node.updated = now;
        }
        Ok(200)
    }

    fn delete_version(&mut self, who: Who, (publisher, node, version): (usize, usize, usize)) -> Verdict {
        let now = self.now;
        let node = self.enter_node(who, (publisher, node, Some(version)), Standing::Owner)?;
        let version = node.version(version).filter(|version| version.status != "Deleted").ok_or(404_u16)?;
        version.status = "Deleted";
        node.updated = now;
        Ok(204)
    }

    fn set_status(&mut self, node: usize, version: usize, status: &'static str) -> Verdict {
        let now = self.now;
        let node = self.node(node)?;
        let version = node.version(version).ok_or(404_u16)?;
        let legal = match (version.status, status) {
            (from, to) if from == to => return Ok(200),
            ("Deleted", _) => false,
            (_, "Deleted")
            | ("Pending", "Active" | "Flagged" | "Banned")
            | ("Active", "Flagged" | "Banned")
            | ("Flagged", "Active" | "Banned")
            | ("Banned", "Active") => true,
            _ => false,
        };
        if !legal {
            return Err(409);
        }
        version.status = status;
        node.updated = now;
        Ok(200)
    }

    fn review(&mut self, who: Who, node: usize, stars: u8) -> Verdict {
        let reviewer = match who {
            Who::Anonymous => return Err(401),
            Who::Token(_) => return self.node(node).map(|_| 0).and(Err(403)),
            Who::Admin => Member::Admin,
            Who::User(user) => Member::User(user),
        };
        let of = self.node(node)?.publisher;
        self.may_write(who)?;
        let (publisher_banned, now) = (self.publishers[&of].banned && who != Who::Admin, self.now);
        let node = self.node(node)?;
        if publisher_banned || node.banned {
            return Err(403);
        }
        if node.reviews.insert(reviewer, stars) != Some(stars) {
            node.updated = now;
        }
        Ok(200)
    }

    fn administer(&mut self, node: usize, facts: &Facts) -> Verdict {
        let now = self.now;
        let node = self.node(node)?;
        node.downloads = facts.downloads.unwrap_or(node.downloads);
        let (stars, ranking) = (facts.github_stars.or(node.github_stars), facts.search_ranking.or(node.search_ranking));
        if (stars, ranking) != (node.github_stars, node.search_ranking) {
            (node.github_stars, node.search_ranking, node.updated) = (stars, ranking, now);
        }
        Ok(200)
    }
}

fn turn(banned: &mut bool, ban: bool) -> Verdict {
    if *banned == ban {
        return Err(409);
    }
    *banned = ban;
    Ok(204)
}
