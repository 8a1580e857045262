//! Model of a registry, as simple as possible, with the status expected for every command. This file: callers, users,
//! publishers and members.

use std::collections::{BTreeMap, BTreeSet};

use super::op::{NODES, Op, Said, Step, Who};
use super::things::{Node, Publisher, Token, User, revise};

/// State of the registry. Times are counted in commands.
#[derive(Debug)]
pub struct World {
    pub now: u64,
    pub users: Vec<User>,
    pub publishers: BTreeMap<usize, Publisher>,
    /// Nodes by id in lower case.
    pub nodes: BTreeMap<String, Node>,
    /// Accounts (`None`: anonymous) and the nodes that each installed since the service started: each pair counts once.
    pub installed: BTreeSet<(Option<usize>, &'static str)>,
}

/// Role of a caller at a publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Anonymous,
    User,
    OtherToken,
    OwnToken,
    Member,
    Owner,
    Admin,
}

pub type Verdict = Result<u16, u16>;

/// Returns the error status, unless the condition holds.
pub fn unless(refusal: u16, holds: bool) -> Result<(), u16> {
    if holds { Ok(()) } else { Err(refusal) }
}

impl World {
    /// State with only the administrator of the bootstrap token.
    pub fn new() -> Self {
        let said = serde_json::json!({"name": "Administrator", "isAdmin": true, "isApproved": true});
        let admin = User { said: said.as_object().expect("an object").clone(), ..User::default() };
        Self {
            now: 0,
            users: vec![admin],
            publishers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            installed: BTreeSet::new(),
        }
    }

    /// Applies the command if it is allowed, and returns its status.
    pub fn act(&mut self, step: &Step) -> u16 {
        self.now += 1;
        let who = if matches!(step.op, Op::Upload { .. }) { Ok(Who::Anonymous) } else { self.whoever(step.who) };
        who.and_then(|who| self.carry_out(who, &step.op)).unwrap_or_else(|refused| refused)
    }

    fn carry_out(&mut self, who: Who, op: &Op) -> Verdict {
        match op {
            Op::EraseSelf => {
                let user = a_user(who)?;
                self.may_write(who)?;
                self.erase(user)
            }
            Op::CreatePublisher { publisher, said } => self.create_publisher(who, *publisher, said),
            Op::RevisePublisher { publisher, said } => {
                revise(&mut self.enter(who, *publisher, Standing::Owner)?.said, said);
                Ok(200)
            }
            Op::DeletePublisher { publisher } => self.delete_publisher(who, *publisher),
            Op::SetMember { publisher, user, owner } => self.set_member(who, *publisher, *user, *owner),
            Op::RemoveMember { publisher, user } => self.remove_member(who, *publisher, *user),
            Op::IssueToken { publisher } => {
                let tokens = &mut self.enter(who, *publisher, Standing::Owner)?.tokens;
                let Who::User(issuer) = who else { return Err(403) };
                tokens.push(Token { revoked: false, issuer });
                Ok(201)
            }
            Op::RevokeToken { publisher, nth } => {
                revoke(&mut self.enter(who, *publisher, Standing::Owner)?.tokens, *nth)
            }
            Op::BanPublisher { publisher, ban } => {
                turn(&mut self.enter(who, *publisher, Standing::Admin)?.banned, *ban)
            }
            Op::CreateUser { .. }
            | Op::UpdateUser { .. }
            | Op::EraseUser { .. }
            | Op::IssueUserToken { .. }
            | Op::RevokeUserToken { .. }
            | Op::BanUser { .. } => self.administer_users(who, op),
            _ => self.change_nodes(who, op),
        }
    }

    /// Resolves the caller: a token that was never issued is anonymous, and an invalid one is rejected.
    pub fn whoever(&self, who: Who) -> Result<Who, u16> {
        match who {
            Who::Anonymous => Ok(Who::Anonymous),
            Who::User(user) => {
                let user = self.user(user);
                let valid = user == 0 || self.users[user].tokens.last().is_some_and(|token| !token.revoked);
                unless(401, valid && !self.users[user].erased).map(|()| Who::User(user))
            }
            Who::Token(publisher) => {
                match self.publishers.get(&publisher).and_then(|publisher| publisher.tokens.last()) {
                    None => Ok(Who::Anonymous),
                    Some(token) => unless(401, self.opens(publisher, token)).map(|()| Who::Token(publisher)),
                }
            }
        }
    }

    /// `true` if a token of a publisher is valid.
    pub fn opens(&self, publisher: usize, token: &Token) -> bool {
        !token.revoked && !self.publishers[&publisher].deleted && !self.users[token.issuer].erased
    }

    /// Resolves the number of a user.
    pub fn user(&self, number: usize) -> usize {
        number % self.users.len()
    }

    pub fn publisher(&mut self, publisher: usize) -> Result<&mut Publisher, u16> {
        self.publishers.get_mut(&publisher).filter(|publisher| !publisher.deleted).ok_or(404)
    }

    pub fn node(&mut self, node: usize) -> Result<&mut Node, u16> {
        self.nodes.get_mut(&NODES[node].to_lowercase()).filter(|node| !node.deleted).ok_or(404)
    }

    /// `true` if public lists contain the node.
    pub fn shows(&self, node: &Node) -> bool {
        !node.banned && !self.publishers[&node.publisher].banned
    }

    pub fn is_admin(&self, who: Who) -> bool {
        matches!(who, Who::User(user) if self.users[user].is_admin())
    }

    /// Rejects banned users, and tokens whose publisher or issuer is banned.
    pub fn may_write(&self, who: Who) -> Result<(), u16> {
        let banned = match who {
            Who::Anonymous => false,
            Who::User(user) => self.users[user].banned,
            Who::Token(publisher) => {
                let publisher = &self.publishers[&publisher];
                publisher.banned || publisher.tokens.last().is_some_and(|token| self.users[token.issuer].banned)
            }
        };
        unless(403, !banned)
    }

    pub fn standing(&self, who: Who, publisher: usize) -> Standing {
        match who {
            Who::Anonymous => Standing::Anonymous,
            Who::Token(own) if own == publisher => Standing::OwnToken,
            Who::Token(_) => Standing::OtherToken,
            Who::User(user) if self.users[user].is_admin() => Standing::Admin,
            Who::User(user) => match self.publishers[&publisher].members.get(&user) {
                Some(true) => Standing::Owner,
                Some(false) => Standing::Member,
                None => Standing::User,
            },
        }
    }

    /// Publisher, for a caller with at least this role: 401 before 404 before 403.
    pub fn enter(&mut self, who: Who, publisher: usize, least: Standing) -> Result<&mut Publisher, u16> {
        unless(401, who != Who::Anonymous)?;
        let banned = self.publisher(publisher)?.banned;
        let standing = self.standing(who, publisher);
        self.may_write(who)?;
        unless(403, standing >= least && (!banned || standing == Standing::Admin))?;
        self.publisher(publisher)
    }

    /// Rejects callers who are not administrators.
    pub fn administers(&self, who: Who) -> Result<(), u16> {
        unless(401, who != Who::Anonymous)?;
        unless(403, self.is_admin(who))?;
        self.may_write(who)
    }

    /// Returns the user, unless it was erased.
    fn present(&self, number: usize) -> Result<usize, u16> {
        let user = self.user(number);
        unless(404, !self.users[user].erased).map(|()| user)
    }

    fn administer_users(&mut self, who: Who, op: &Op) -> Verdict {
        self.administers(who)?;
        let spared = |user: usize| user == 0 || who == Who::User(user);
        match op {
            Op::CreateUser { said } => {
                // The new token belongs to the user.
                let token = Token { revoked: false, issuer: 0 };
                self.users.push(User { said: said.clone(), tokens: vec![token], ..User::default() });
                Ok(201)
            }
            Op::UpdateUser { user, said } => {
                let user = self.present(*user)?;
                unless(409, !spared(user) || said.get("isAdmin") != Some(&false.into()))?;
                revise(&mut self.users[user].said, said);
                Ok(200)
            }
            Op::EraseUser { user } => self.present(*user).and_then(|user| self.erase(user)),
            Op::IssueUserToken { user } => {
                let user = self.present(*user)?;
                self.users[user].tokens.push(Token { revoked: false, issuer: 0 });
                Ok(201)
            }
            Op::RevokeUserToken { user, nth } => {
                let user = self.present(*user)?;
                revoke(&mut self.users[user].tokens, *nth)
            }
            Op::BanUser { user, ban } => {
                let user = self.present(*user)?;
                unless(409, !*ban || !spared(user))?;
                turn(&mut self.users[user].banned, *ban)
            }
            other => panic!("{other:?} is not about users"),
        }
    }

    /// Erases a user, who leaves every publisher.
    fn erase(&mut self, user: usize) -> Verdict {
        unless(409, user != 0)?;
        let present = || self.publishers.values().filter(|publisher| !publisher.deleted);
        unless(409, present().all(|publisher| publisher.keeps_an_owner_without(user)))?;
        for publisher in self.publishers.values_mut().filter(|publisher| !publisher.deleted) {
            publisher.members.remove(&user);
        }
        self.users[user].erased = true;
        Ok(204)
    }

    fn create_publisher(&mut self, who: Who, publisher: usize, said: &Said) -> Verdict {
        let creator = a_user(who)?;
        self.may_write(who)?;
        unless(409, !self.publishers.contains_key(&publisher))?;
        let new = Publisher { said: said.clone(), members: [(creator, true)].into(), ..Publisher::default() };
        self.publishers.insert(publisher, new);
        Ok(201)
    }

    fn delete_publisher(&mut self, who: Who, publisher: usize) -> Verdict {
        let banned = self.enter(who, publisher, Standing::Owner)?.banned;
        let bare = self.nodes.values().all(|node| node.publisher != publisher || node.deleted);
        unless(409, bare && !banned)?;
        self.publisher(publisher)?.deleted = true;
        Ok(204)
    }

    fn set_member(&mut self, who: Who, publisher: usize, user: usize, owner: bool) -> Verdict {
        self.enter(who, publisher, Standing::Owner)?;
        let user = self.present(user)?;
        let publisher = self.publisher(publisher)?;
        unless(409, owner || publisher.keeps_an_owner_without(user))?;
        publisher.members.insert(user, owner);
        Ok(200)
    }

    /// Removes a member; members may remove themselves.
    fn remove_member(&mut self, who: Who, publisher: usize, user: usize) -> Verdict {
        let user = self.user(user);
        let least = if who == Who::User(user) { Standing::Member } else { Standing::Owner };
        let publisher = self.enter(who, publisher, least)?;
        unless(404, publisher.members.contains_key(&user))?;
        unless(409, publisher.keeps_an_owner_without(user))?;
        publisher.members.remove(&user);
        Ok(204)
    }
}

/// Rejects tokens of publishers.
pub fn a_user(who: Who) -> Result<usize, u16> {
    match who {
        Who::Anonymous => Err(401),
        Who::Token(_) => Err(403),
        Who::User(user) => Ok(user),
    }
}

/// Changes the ban; rejects a second ban, and lifting one that does not exist.
pub fn turn(banned: &mut bool, ban: bool) -> Verdict {
    unless(409, *banned != ban)?;
    *banned = ban;
    Ok(204)
}

fn revoke(tokens: &mut [Token], nth: usize) -> Verdict {
    let count = tokens.len().max(1);
    let token = tokens.get_mut(nth % count).filter(|token| !token.revoked).ok_or(404_u16)?;
    token.revoked = true;
    Ok(204)
}
