//! Model of a registry, as simple as possible. It predicts the HTTP status of every command. This file has the commands
//! on users, publishers and members; [`super::rules`] has those on nodes and versions.

use std::collections::{BTreeMap, BTreeSet};

use super::entities::{Node, Publisher, Token, User, revise};
use super::op::{JsonFields, ModelCaller, ModelOp, ModelStep, NODES};

/// State of the registry.
#[derive(Debug)]
pub struct ModelWorld {
    /// Number of commands so far; all times in the model are such numbers.
    pub now: u64,
    pub users: Vec<User>,
    pub publishers: BTreeMap<usize, Publisher>,
    /// Nodes by id in lower case.
    pub nodes: BTreeMap<String, Node>,
    /// Accounts (`None` for anonymous callers), each with a node that it has installed since the service started;
    /// repeated installs do not count.
    pub installed: BTreeSet<(Option<usize>, &'static str)>,
}

/// Role of a caller at a publisher, in ascending order of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelRole {
    Anonymous,
    User,
    OtherToken,
    OwnToken,
    Member,
    Owner,
    Admin,
}

/// Expected status: `Ok` if the command succeeds, `Err` if it is rejected.
pub type Expectation = Result<u16, u16>;

/// Returns `status` as an error unless the condition holds.
pub fn reject_unless(status: u16, condition: bool) -> Result<(), u16> {
    if condition { Ok(()) } else { Err(status) }
}

impl ModelWorld {
    /// Returns a registry whose only user is the administrator with the bootstrap token.
    pub fn new() -> Self {
        let fields = serde_json::json!({"name": "Administrator", "isAdmin": true, "isApproved": true});
        let admin = User { fields: fields.as_object().expect("an object").clone(), ..User::default() };
        Self {
            now: 0,
            users: vec![admin],
            publishers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            installed: BTreeSet::new(),
        }
    }

    /// Applies the command if it is allowed, and returns the expected status.
    pub fn apply(&mut self, step: &ModelStep) -> u16 {
        self.now += 1;
        // An upload is sent without a token: its link is the credential.
        let caller = if matches!(step.op, ModelOp::Upload { .. }) {
            Ok(ModelCaller::Anonymous)
        } else {
            self.authenticate(step.caller)
        };
        caller.and_then(|caller| self.apply_as(caller, &step.op)).unwrap_or_else(|status| status)
    }

    /// Applies the command of an authenticated caller.
    fn apply_as(&mut self, caller: ModelCaller, op: &ModelOp) -> Expectation {
        match op {
            ModelOp::EraseSelf => {
                let user = require_user(caller)?;
                self.reject_banned_caller(caller)?;
                self.erase(user)
            }
            ModelOp::CreatePublisher { publisher, fields } => self.create_publisher(caller, *publisher, fields),
            ModelOp::RevisePublisher { publisher, fields } => {
                revise(&mut self.authorize_publisher(caller, *publisher, ModelRole::Owner)?.fields, fields);
                Ok(200)
            }
            ModelOp::DeletePublisher { publisher } => self.delete_publisher(caller, *publisher),
            ModelOp::SetMember { publisher, user, owner } => self.set_member(caller, *publisher, *user, *owner),
            ModelOp::RemoveMember { publisher, user } => self.remove_member(caller, *publisher, *user),
            ModelOp::IssueToken { publisher } => {
                let tokens = &mut self.authorize_publisher(caller, *publisher, ModelRole::Owner)?.tokens;
                let ModelCaller::User(issuer) = caller else { return Err(403) };
                tokens.push(Token { revoked: false, issuer });
                Ok(201)
            }
            ModelOp::RevokeToken { publisher, nth } => {
                revoke(&mut self.authorize_publisher(caller, *publisher, ModelRole::Owner)?.tokens, *nth)
            }
            ModelOp::BanPublisher { publisher, ban } => {
                set_banned(&mut self.authorize_publisher(caller, *publisher, ModelRole::Admin)?.banned, *ban)
            }
            ModelOp::CreateUser { .. }
            | ModelOp::UpdateUser { .. }
            | ModelOp::EraseUser { .. }
            | ModelOp::IssueUserToken { .. }
            | ModelOp::RevokeUserToken { .. }
            | ModelOp::BanUser { .. } => self.administer_users(caller, op),
            _ => self.change_nodes(caller, op),
        }
    }

    /// Resolves the caller: a token that was never issued is anonymous, and an invalid one is rejected.
    pub fn authenticate(&self, caller: ModelCaller) -> Result<ModelCaller, u16> {
        match caller {
            ModelCaller::Anonymous => Ok(ModelCaller::Anonymous),
            ModelCaller::User(user) => {
                let user = self.user(user);
                let valid = user == 0 || self.users[user].tokens.last().is_some_and(|token| !token.revoked);
                reject_unless(401, valid && !self.users[user].erased).map(|()| ModelCaller::User(user))
            }
            ModelCaller::Token(publisher) => {
                match self.publishers.get(&publisher).and_then(|publisher| publisher.tokens.last()) {
                    None => Ok(ModelCaller::Anonymous),
                    Some(token) => reject_unless(401, self.is_token_valid(publisher, token))
                        .map(|()| ModelCaller::Token(publisher)),
                }
            }
        }
    }

    /// Returns `true` if a token of a publisher is valid.
    pub fn is_token_valid(&self, publisher: usize, token: &Token) -> bool {
        !token.revoked && !self.publishers[&publisher].deleted && !self.users[token.issuer].erased
    }

    /// Returns the index of the user with a random number, which may exceed the number of users.
    pub fn user(&self, number: usize) -> usize {
        number % self.users.len()
    }

    /// Returns a publisher; rejects with 404 if it was never created or is deleted.
    pub fn publisher(&mut self, publisher: usize) -> Result<&mut Publisher, u16> {
        self.publishers.get_mut(&publisher).filter(|publisher| !publisher.deleted).ok_or(404)
    }

    /// Returns a node; rejects with 404 if it was never created or is deleted.
    pub fn node(&mut self, node: usize) -> Result<&mut Node, u16> {
        self.nodes.get_mut(&NODES[node].to_lowercase()).filter(|node| !node.deleted).ok_or(404)
    }

    /// Returns `true` if public lists contain the node.
    pub fn is_public(&self, node: &Node) -> bool {
        !node.banned && !self.publishers[&node.publisher].banned
    }

    pub fn is_admin(&self, caller: ModelCaller) -> bool {
        matches!(caller, ModelCaller::User(user) if self.users[user].is_admin())
    }

    /// Rejects banned users, and tokens whose publisher or issuer is banned.
    pub fn reject_banned_caller(&self, caller: ModelCaller) -> Result<(), u16> {
        let banned = match caller {
            ModelCaller::Anonymous => false,
            ModelCaller::User(user) => self.users[user].banned,
            ModelCaller::Token(publisher) => {
                let publisher = &self.publishers[&publisher];
                publisher.banned || publisher.tokens.last().is_some_and(|token| self.users[token.issuer].banned)
            }
        };
        reject_unless(403, !banned)
    }

    /// Returns the role of an authenticated caller at a publisher.
    pub fn role_of(&self, caller: ModelCaller, publisher: usize) -> ModelRole {
        match caller {
            ModelCaller::Anonymous => ModelRole::Anonymous,
            ModelCaller::Token(token_publisher) if token_publisher == publisher => ModelRole::OwnToken,
            ModelCaller::Token(_) => ModelRole::OtherToken,
            ModelCaller::User(user) if self.users[user].is_admin() => ModelRole::Admin,
            ModelCaller::User(user) => match self.publishers[&publisher].members.get(&user) {
                Some(true) => ModelRole::Owner,
                Some(false) => ModelRole::Member,
                None => ModelRole::User,
            },
        }
    }

    /// Returns the publisher if the caller may write and has at least the role `minimum`. If several statuses apply,
    /// 401 comes first, then 404, then 403.
    pub fn authorize_publisher(
        &mut self,
        caller: ModelCaller,
        publisher: usize,
        minimum: ModelRole,
    ) -> Result<&mut Publisher, u16> {
        reject_unless(401, caller != ModelCaller::Anonymous)?;
        let banned = self.publisher(publisher)?.banned;
        let role = self.role_of(caller, publisher);
        self.reject_banned_caller(caller)?;
        reject_unless(403, role >= minimum && (!banned || role == ModelRole::Admin))?;
        self.publisher(publisher)
    }

    /// Rejects callers who are not administrators or are banned.
    pub fn require_admin(&self, caller: ModelCaller) -> Result<(), u16> {
        reject_unless(401, caller != ModelCaller::Anonymous)?;
        reject_unless(403, self.is_admin(caller))?;
        self.reject_banned_caller(caller)
    }

    /// Returns the index of the user with a number; rejects erased users.
    fn existing_user(&self, number: usize) -> Result<usize, u16> {
        let user = self.user(number);
        reject_unless(404, !self.users[user].erased).map(|()| user)
    }

    /// Applies an administrator's command on users.
    fn administer_users(&mut self, caller: ModelCaller, op: &ModelOp) -> Expectation {
        self.require_admin(caller)?;
        let is_protected = |user: usize| user == 0 || caller == ModelCaller::User(user);
        match op {
            ModelOp::CreateUser { fields } => {
                // The clients issue a token for every new user at once, as the administrator.
                let token = Token { revoked: false, issuer: 0 };
                self.users.push(User { fields: fields.clone(), tokens: vec![token], ..User::default() });
                Ok(201)
            }
            ModelOp::UpdateUser { user, fields } => {
                let user = self.existing_user(*user)?;
                reject_unless(409, !is_protected(user) || fields.get("isAdmin") != Some(&false.into()))?;
                revise(&mut self.users[user].fields, fields);
                Ok(200)
            }
            ModelOp::EraseUser { user } => self.existing_user(*user).and_then(|user| self.erase(user)),
            ModelOp::IssueUserToken { user } => {
                let user = self.existing_user(*user)?;
                self.users[user].tokens.push(Token { revoked: false, issuer: 0 });
                Ok(201)
            }
            ModelOp::RevokeUserToken { user, nth } => {
                let user = self.existing_user(*user)?;
                revoke(&mut self.users[user].tokens, *nth)
            }
            ModelOp::BanUser { user, ban } => {
                let user = self.existing_user(*user)?;
                reject_unless(409, !*ban || !is_protected(user))?;
                set_banned(&mut self.users[user].banned, *ban)
            }
            other => panic!("{other:?} is not about users"),
        }
    }

    /// Erases a user, who leaves every publisher.
    fn erase(&mut self, user: usize) -> Expectation {
        reject_unless(409, user != 0)?;
        let existing = || self.publishers.values().filter(|publisher| !publisher.deleted);
        reject_unless(409, existing().all(|publisher| publisher.keeps_an_owner_without(user)))?;
        for publisher in self.publishers.values_mut().filter(|publisher| !publisher.deleted) {
            publisher.members.remove(&user);
        }
        self.users[user].erased = true;
        Ok(204)
    }

    fn create_publisher(&mut self, caller: ModelCaller, publisher: usize, fields: &JsonFields) -> Expectation {
        let creator = require_user(caller)?;
        self.reject_banned_caller(caller)?;
        reject_unless(409, !self.publishers.contains_key(&publisher))?;
        let new = Publisher { fields: fields.clone(), members: [(creator, true)].into(), ..Publisher::default() };
        self.publishers.insert(publisher, new);
        Ok(201)
    }

    fn delete_publisher(&mut self, caller: ModelCaller, publisher: usize) -> Expectation {
        let banned = self.authorize_publisher(caller, publisher, ModelRole::Owner)?.banned;
        let has_no_nodes = self.nodes.values().all(|node| node.publisher != publisher || node.deleted);
        reject_unless(409, has_no_nodes && !banned)?;
        self.publisher(publisher)?.deleted = true;
        Ok(204)
    }

    fn set_member(&mut self, caller: ModelCaller, publisher: usize, user: usize, owner: bool) -> Expectation {
        self.authorize_publisher(caller, publisher, ModelRole::Owner)?;
        let user = self.existing_user(user)?;
        let publisher = self.publisher(publisher)?;
        reject_unless(409, owner || publisher.keeps_an_owner_without(user))?;
        publisher.members.insert(user, owner);
        Ok(200)
    }

    /// Removes a member; members may remove themselves.
    fn remove_member(&mut self, caller: ModelCaller, publisher: usize, user: usize) -> Expectation {
        let user = self.user(user);
        let minimum = if caller == ModelCaller::User(user) { ModelRole::Member } else { ModelRole::Owner };
        let publisher = self.authorize_publisher(caller, publisher, minimum)?;
        reject_unless(404, publisher.members.contains_key(&user))?;
        reject_unless(409, publisher.keeps_an_owner_without(user))?;
        publisher.members.remove(&user);
        Ok(204)
    }
}

/// Returns the index of the calling user; rejects anonymous callers and tokens of publishers.
pub fn require_user(caller: ModelCaller) -> Result<usize, u16> {
    match caller {
        ModelCaller::Anonymous => Err(401),
        ModelCaller::Token(_) => Err(403),
        ModelCaller::User(user) => Ok(user),
    }
}

/// Changes the ban; rejects a second ban, and lifting one that does not exist.
pub fn set_banned(banned: &mut bool, ban: bool) -> Expectation {
    reject_unless(409, *banned != ban)?;
    *banned = ban;
    Ok(204)
}

/// Revokes the token with this index, taken modulo the number of tokens; rejects a second revocation.
fn revoke(tokens: &mut [Token], index: usize) -> Expectation {
    let count = tokens.len().max(1);
    let token = tokens.get_mut(index % count).filter(|token| !token.revoked).ok_or(404_u16)?;
    token.revoked = true;
    Ok(204)
}
