//! Tokens by the hash of their secret (used to authenticate every request), by id, and by subject.

use std::collections::HashMap;

use crate::domain::decider::Decider;
use crate::domain::ids::{PublisherId, TokenId, UserId};
use crate::domain::token::{Token, TokenEvent, TokenRecord, TokenSubject};
use crate::domain::value::{Digest, Timestamp};

/// The tokens of a publisher in a snapshot.
type PublisherTokenList<'t> = (&'t PublisherId, &'t Vec<TokenId>);
/// The tokens of a user in a snapshot.
type UserTokenList<'t> = (&'t UserId, &'t Vec<TokenId>);

/// All tokens ever issued.
#[expect(clippy::struct_field_names, reason = "indexes of the same tokens, named by their keys")]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tokens {
    by_id: HashMap<TokenId, Token>,
    /// Tokens that were not revoked.
    by_secret: HashMap<Digest, TokenId>,
    /// Tokens that were not revoked, in the order of issue.
    by_publisher: HashMap<PublisherId, Vec<TokenId>>,
    /// Tokens that were not revoked, in the order of issue.
    by_user: HashMap<UserId, Vec<TokenId>>,
}

impl Tokens {
    /// Applies an event of the token with this id.
    pub fn apply(&mut self, id: TokenId, event: &TokenEvent, at: Timestamp) {
        let token = self.by_id.entry(id).or_default();
        let was_valid = matches!(token, Token::Valid(_));
        Token::evolve(token, event, at);

        match token {
            Token::Valid(token) if !was_valid => {
                let secret = token.grant.secret_hash;
                list_for(&mut self.by_publisher, &mut self.by_user, token).push(id);
                self.by_secret.insert(secret, id);
            }
            Token::Revoked(token) if was_valid => {
                self.by_secret.remove(&token.grant.secret_hash);
                list_for(&mut self.by_publisher, &mut self.by_user, token).retain(|other| *other != id);
            }
            _ => {}
        }
    }

    /// Returns all tokens, for a snapshot.
    pub(super) fn snapshot_entries(&self) -> impl Iterator<Item = (&TokenId, &Token)> {
        self.by_id.iter()
    }

    /// Returns the valid tokens of every publisher and user, in the order of issue, for a snapshot.
    pub(super) fn snapshot_lists(
        &self,
    ) -> (impl Iterator<Item = PublisherTokenList<'_>>, impl Iterator<Item = UserTokenList<'_>>) {
        (self.by_publisher.iter(), self.by_user.iter())
    }

    /// Restores tokens from a snapshot.
    pub(super) fn restore(&mut self, tokens: Vec<(TokenId, Token)>) {
        for (id, token) in tokens {
            if let Token::Valid(token) = &token {
                self.by_secret.insert(token.grant.secret_hash, id);
            }
            self.by_id.insert(id, token);
        }
    }

    /// Restores lists from a snapshot.
    pub(super) fn restore_lists(
        &mut self,
        by_publisher: Vec<(PublisherId, Vec<TokenId>)>,
        by_user: Vec<(UserId, Vec<TokenId>)>,
    ) {
        self.by_publisher.extend(by_publisher);
        self.by_user.extend(by_user);
    }

    /// Returns the token with this secret hash, unless it was revoked. The lookup need not take constant time: it
    /// compares hashes, and a partial match of a hash does not help to find a secret of 256 random bits.
    #[must_use]
    pub fn by_secret(&self, secret_hash: &Digest) -> Option<&TokenRecord> {
        self.get(*self.by_secret.get(secret_hash)?)
    }

    /// Returns a token, even if revoked.
    #[must_use]
    pub fn get(&self, id: TokenId) -> Option<&TokenRecord> {
        self.by_id.get(&id)?.record()
    }

    /// Returns the tokens of a publisher that were not revoked, in the order of issue.
    pub fn for_publisher(&self, publisher: &PublisherId) -> impl Iterator<Item = &TokenRecord> {
        self.by_publisher.get(publisher).into_iter().flatten().filter_map(|id| self.get(*id))
    }

    /// Returns all tokens that a user has or had, for themselves or for a publisher, oldest first.
    #[must_use]
    pub fn issued_to_or_by(&self, user: UserId) -> Vec<&TokenRecord> {
        let records = self.by_id.values().filter_map(Token::record);
        let mut tokens: Vec<_> = records
            .filter(|record| match &record.grant.subject {
                TokenSubject::User(owner) => *owner == user,
                TokenSubject::Publisher { issued_by, .. } => *issued_by == user,
            })
            .collect();
        tokens.sort_unstable_by_key(|record| (record.issued_at, record.grant.id));
        tokens
    }

    /// Returns the tokens of a user that were not revoked, in the order of issue.
    pub fn for_user(&self, user: UserId) -> impl Iterator<Item = &TokenRecord> {
        self.by_user.get(&user).into_iter().flatten().filter_map(|id| self.get(*id))
    }
}

/// Returns the list of the token's subject. Adds an empty list if there is none.
fn list_for<'t>(
    by_publisher: &'t mut HashMap<PublisherId, Vec<TokenId>>,
    by_user: &'t mut HashMap<UserId, Vec<TokenId>>,
    token: &TokenRecord,
) -> &'t mut Vec<TokenId> {
    match &token.grant.subject {
        TokenSubject::Publisher { publisher, .. } => by_publisher.entry(publisher.clone()).or_default(),
        TokenSubject::User(user) => by_user.entry(*user).or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::domain::token::TokenGrant;
    use crate::domain::value::Name;

    const AT: Timestamp = Timestamp::from_micros(1_000_000);

    fn token(nth: u8) -> TokenId {
        TokenId(Uuid::from_u128(nth.into()))
    }

    fn acme() -> PublisherId {
        PublisherId::parse("acme").unwrap()
    }

    fn ann() -> UserId {
        UserId(Uuid::from_u128(0xA))
    }

    fn issued(nth: u8, subject: TokenSubject) -> TokenEvent {
        let id = token(nth);
        let name = Name::parse("ci").unwrap();
        TokenEvent::TokenIssued(TokenGrant { id, subject, name, description: None, secret_hash: Digest([nth; 32]) })
    }

    /// Creates two tokens of a publisher and two of a user.
    fn tokens() -> Tokens {
        let mut tokens = Tokens::default();
        for nth in [2, 1] {
            tokens.apply(token(nth), &issued(nth, TokenSubject::Publisher { publisher: acme(), issued_by: ann() }), AT);
            tokens.apply(token(nth + 2), &issued(nth + 2, TokenSubject::User(ann())), AT);
        }
        tokens
    }

    fn ids<'t>(tokens: impl Iterator<Item = &'t TokenRecord>) -> Vec<TokenId> {
        tokens.map(|token| token.grant.id).collect()
    }

    #[test]
    fn tokens_are_listed_by_subject_in_the_order_of_issue() {
        let tokens = tokens();
        assert_eq!(ids(tokens.for_publisher(&acme())), [token(2), token(1)]);
        assert_eq!(ids(tokens.for_user(ann())), [token(4), token(3)]);
        assert_eq!(ids(tokens.for_user(UserId(Uuid::nil()))), []);
    }

    #[test]
    fn a_revoked_token_is_found_only_by_its_id() {
        let mut tokens = tokens();
        let later = AT.saturating_add(Duration::from_secs(1));
        tokens.apply(token(2), &TokenEvent::TokenRevoked, later);
        tokens.apply(token(3), &TokenEvent::TokenRevoked, later);
        assert_eq!(ids(tokens.for_publisher(&acme())), [token(1)]);
        assert_eq!(ids(tokens.for_user(ann())), [token(4)]);
        assert_eq!([1, 2, 3, 4].map(|nth| tokens.by_secret(&Digest([nth; 32])).is_some()), [true, false, false, true]);
        assert_eq!(tokens.get(token(2)).and_then(|token| token.revoked_at), Some(later));
        assert_eq!(tokens.get(token(9)), None);
    }

    #[test]
    fn the_last_use_is_shown() {
        let mut tokens = tokens();
        let later = AT.saturating_add(Duration::from_secs(7));
        tokens.apply(token(1), &TokenEvent::TokenUsed { at: later }, later);
        let record = tokens.by_secret(&Digest([1; 32])).unwrap();
        assert_eq!((record.issued_at, record.last_used_at), (AT, Some(later)));
    }
}
