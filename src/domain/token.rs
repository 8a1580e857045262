//! Access tokens: their subject and validity. Only the hash of a secret is recorded.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::decider::Decider;
use super::event_enum::event_enum;
use super::ids::{PublisherId, StreamKind, TokenId, UserId};
use super::policy::TokenScope;
use super::value::{Digest, Label, Name, Timestamp};

/// Minimum interval between recorded uses of a token.
pub const USE_RECORD_INTERVAL: Duration = Duration::from_mins(1);

/// Subject of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenSubject {
    /// A user, with all of the user's rights.
    User(UserId),
    /// A publisher, for nodes and versions only (contract 3). `issued_by` is the user who created the token.
    Publisher { publisher: PublisherId, issued_by: UserId },
}

/// A token as issued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenGrant {
    pub id: TokenId,
    pub subject: TokenSubject,
    pub name: Name,
    pub description: Option<Label>,
    /// SHA-256 of the secret, which cannot be used as a token.
    pub secret_hash: Digest,
}

/// Limits of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenLimits {
    pub scope: TokenScope,
    /// Time from which the token is rejected; `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
}

impl TokenLimits {
    /// Limits of a token with all permissions of its holder, until it is revoked.
    pub const NONE: Self = Self { scope: TokenScope::All, expires_at: None };

    /// Returns `true` if the token has expired at `at`.
    #[must_use]
    pub fn is_expired(&self, at: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= at)
    }

    /// Returns `true` if a token with these limits is valid at least as long as one with the `other` limits.
    #[must_use]
    pub fn outlasts(&self, other: &Self) -> bool {
        match (self.expires_at, other.expires_at) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(other_end)) => end >= other_end,
        }
    }
}

/// The current record of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    pub grant: TokenGrant,
    pub limits: TokenLimits,
    /// User token of the request that issued this token to a user. It shows which tokens were issued with a leaked
    /// token.
    pub issued_with: Option<TokenId>,
    pub issued_at: Timestamp,
    /// Precise to about a minute; see [`USE_RECORD_INTERVAL`].
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// State of a token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Token {
    /// No token has this id.
    #[default]
    Absent,
    /// The token is valid.
    Valid(TokenRecord),
    /// The token was revoked.
    Revoked(TokenRecord),
}

impl Token {
    /// Returns the record, or `None` if the id is unused.
    #[must_use]
    pub fn record(&self) -> Option<&TokenRecord> {
        match self {
            Self::Absent => None,
            Self::Valid(record) | Self::Revoked(record) => Some(record),
        }
    }
}

/// Commands of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenCommand {
    /// Issues a token.
    Issue { grant: TokenGrant, limits: TokenLimits, issued_with: Option<TokenId> },
    /// Revokes the token permanently.
    Revoke,
    /// Records a use at `at`. Never rejected, because the caller could not react to a rejection.
    RecordUse { at: Timestamp },
}

event_enum! {
    /// Events of a token.
    TokenEvent {
        /// A token without limits was issued, by a request that used no other token.
        TokenIssued(TokenGrant),
        /// The token was revoked.
        TokenRevoked,
        /// A request used the token at `at`.
        TokenUsed { at: Timestamp },
        /// A token with limits was issued, or any token by a request that used another token.
        LimitedTokenIssued { grant: TokenGrant, limits: TokenLimits, issued_with: Option<TokenId> },
    }
}

/// Reason why a command on a token was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRejection {
    /// The id is taken.
    AlreadyExists,
    /// No valid token has this id.
    NotFound,
}

impl Decider for Token {
    const KIND: StreamKind = StreamKind::Token;
    type State = Self;
    type Command = TokenCommand;
    type Event = TokenEvent;
    type Rejection = TokenRejection;

    fn decide(state: &Self, command: TokenCommand, _now: Timestamp) -> Result<Vec<TokenEvent>, TokenRejection> {
        match (state, command) {
            (Self::Absent, TokenCommand::Issue { grant, limits: TokenLimits::NONE, issued_with: None }) => {
                Ok(vec![TokenEvent::TokenIssued(grant)])
            }
            (Self::Absent, TokenCommand::Issue { grant, limits, issued_with }) => {
                Ok(vec![TokenEvent::LimitedTokenIssued { grant, limits, issued_with }])
            }
            (Self::Valid(_) | Self::Revoked(_), TokenCommand::Issue { .. }) => Err(TokenRejection::AlreadyExists),
            (Self::Valid(_), TokenCommand::Revoke) => Ok(vec![TokenEvent::TokenRevoked]),
            (Self::Absent | Self::Revoked(_), TokenCommand::Revoke) => Err(TokenRejection::NotFound),
            (Self::Valid(token), TokenCommand::RecordUse { at }) if token.is_use_due(at) => {
                Ok(vec![TokenEvent::TokenUsed { at }])
            }
            (_, TokenCommand::RecordUse { .. }) => Ok(Vec::new()),
        }
    }

    fn evolve(state: &mut Self, event: &TokenEvent, at: Timestamp) {
        match (&mut *state, event) {
            (Self::Absent, TokenEvent::TokenIssued(grant)) => {
                *state = Self::Valid(TokenRecord::new(grant.clone(), TokenLimits::NONE, at));
            }
            (Self::Absent, TokenEvent::LimitedTokenIssued { grant, limits, issued_with }) => {
                let record = TokenRecord::new(grant.clone(), *limits, at);
                *state = Self::Valid(TokenRecord { issued_with: *issued_with, ..record });
            }
            (Self::Valid(token), TokenEvent::TokenRevoked) => {
                *state = Self::Revoked(TokenRecord { revoked_at: Some(at), ..token.clone() });
            }
            (Self::Valid(token), TokenEvent::TokenUsed { at }) => token.last_used_at = Some(*at),
            _ => {}
        }
    }
}

impl TokenRecord {
    /// Creates the record of a token that was never used.
    #[must_use]
    pub const fn new(grant: TokenGrant, limits: TokenLimits, issued_at: Timestamp) -> Self {
        Self { grant, limits, issued_with: None, issued_at, last_used_at: None, revoked_at: None }
    }

    /// Returns `true` if a use at `at` must be recorded because [`USE_RECORD_INTERVAL`] has passed since the last
    /// recorded use.
    #[must_use]
    pub fn is_use_due(&self, at: Timestamp) -> bool {
        self.last_used_at.is_none_or(|last| at.since(last) >= USE_RECORD_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::decider::testing::{RECORDED_AT, given};

    fn grant(subject: TokenSubject, secret: u8) -> TokenGrant {
        TokenGrant {
            id: TokenId(Uuid::from_u128(1)),
            subject,
            name: Name::parse("ci").unwrap(),
            description: None,
            secret_hash: Digest([secret; 32]),
        }
    }

    fn for_user(secret: u8) -> TokenGrant {
        grant(TokenSubject::User(UserId(Uuid::from_u128(2))), secret)
    }

    fn for_publisher() -> TokenGrant {
        let publisher = PublisherId::parse("acme").unwrap();
        grant(TokenSubject::Publisher { publisher, issued_by: UserId(Uuid::from_u128(2)) }, 1)
    }

    fn issued() -> TokenEvent {
        TokenEvent::TokenIssued(for_user(1))
    }

    fn used(second: u64) -> TokenEvent {
        TokenEvent::TokenUsed { at: RECORDED_AT.saturating_add(Duration::from_secs(second)) }
    }

    fn record(grant: TokenGrant) -> TokenRecord {
        TokenRecord::new(grant, TokenLimits::NONE, RECORDED_AT)
    }

    fn issue(grant: TokenGrant) -> TokenCommand {
        TokenCommand::Issue { grant, limits: TokenLimits::NONE, issued_with: None }
    }

    #[test]
    fn tokens_are_issued_to_users_and_publishers() {
        for grant in [for_user(1), for_publisher()] {
            let issued = vec![TokenEvent::TokenIssued(grant.clone())];
            assert_eq!(given::<Token>(&issued).state, Token::Valid(record(grant.clone())));
            given::<Token>([]).when(issue(grant)).then(issued);
        }
    }

    #[test]
    fn tokens_are_issued_with_limits_and_with_other_tokens() {
        let expires_at = Some(RECORDED_AT.saturating_add(Duration::from_mins(1)));
        let all = [
            (TokenLimits { scope: TokenScope::ReadOnly, expires_at: None }, None),
            (TokenLimits { scope: TokenScope::All, expires_at }, None),
            (TokenLimits { scope: TokenScope::ReadOnly, expires_at }, None),
            (TokenLimits::NONE, Some(TokenId(Uuid::from_u128(3)))),
        ];
        for (limits, issued_with) in all {
            let grant = for_user(1);
            let issued = vec![TokenEvent::LimitedTokenIssued { grant: grant.clone(), limits, issued_with }];
            let expected = TokenRecord { limits, issued_with, ..record(grant.clone()) };
            assert_eq!(given::<Token>(&issued).state, Token::Valid(expected));
            given::<Token>([]).when(TokenCommand::Issue { grant, limits, issued_with }).then(issued);
        }
    }

    #[test]
    fn a_token_is_expired_from_its_expiry_on() {
        let at = |second| RECORDED_AT.saturating_add(Duration::from_secs(second));
        let limits = TokenLimits { expires_at: Some(at(60)), ..TokenLimits::NONE };
        assert_eq!([59, 60, 61].map(|second| limits.is_expired(at(second))), [false, true, true]);
        assert!(!TokenLimits::NONE.is_expired(at(u64::MAX)));
    }

    #[test]
    fn only_a_token_without_expiry_outlasts_one_without() {
        let until = |second| TokenLimits {
            expires_at: Some(RECORDED_AT.saturating_add(Duration::from_secs(second))),
            ..TokenLimits::NONE
        };
        assert!(TokenLimits::NONE.outlasts(&TokenLimits::NONE) && TokenLimits::NONE.outlasts(&until(5)));
        assert!(until(5).outlasts(&until(5)) && until(5).outlasts(&until(4)));
        assert!(!until(5).outlasts(&until(6)) && !until(5).outlasts(&TokenLimits::NONE));
    }

    #[test]
    fn an_id_is_used_only_once() {
        for history in [&[issued()][..], &[issued(), TokenEvent::TokenRevoked]] {
            given::<Token>(history).when(issue(for_user(2))).then_rejected(TokenRejection::AlreadyExists);
        }
    }

    #[test]
    fn a_second_issue_in_a_history_is_ignored() {
        let history = [issued(), TokenEvent::TokenIssued(for_user(2))];
        assert_eq!(given::<Token>(&history).state, Token::Valid(record(for_user(1))));
    }

    #[test]
    fn a_revoked_token_stays_revoked() {
        let revoked = [issued(), TokenEvent::TokenRevoked];
        given::<Token>(&revoked[..1]).when(TokenCommand::Revoke).then([TokenEvent::TokenRevoked]);
        for history in [&[][..], &revoked] {
            given::<Token>(history).when(TokenCommand::Revoke).then_rejected(TokenRejection::NotFound);
        }
        let expected = TokenRecord { revoked_at: Some(RECORDED_AT), ..record(for_user(1)) };
        let with_later_events = [&revoked[..], &[issued(), used(1)]].concat();
        for history in [&revoked[..], &with_later_events] {
            assert_eq!(given::<Token>(history).state, Token::Revoked(expected.clone()));
        }
    }

    #[test]
    fn a_use_is_recorded_at_most_once_a_minute() {
        let record_use = |history: &[TokenEvent], second| {
            let at = RECORDED_AT.saturating_add(Duration::from_secs(second));
            given::<Token>(history).when(TokenCommand::RecordUse { at })
        };
        record_use(&[issued()], 5).then([used(5)]);
        let history = [issued(), used(5)];
        for second in [0, 5, 64] {
            record_use(&history, second).then_nothing();
        }
        record_use(&history, 65).then([used(65)]);
        let token = given::<Token>(&history).state;
        assert_eq!(
            token.record().and_then(|token| token.last_used_at),
            Some(RECORDED_AT.saturating_add(Duration::from_secs(5)))
        );
    }

    #[test]
    fn a_use_of_an_invalid_token_is_neither_recorded_nor_rejected() {
        for history in [&[][..], &[issued(), TokenEvent::TokenRevoked]] {
            given::<Token>(history).when(TokenCommand::RecordUse { at: RECORDED_AT }).then_nothing();
        }
    }

    #[test]
    fn events_before_the_issue_change_nothing() {
        assert_eq!(given::<Token>([TokenEvent::TokenRevoked, used(1)]).state, Token::Absent);
        assert_eq!(Token::Absent.record(), None);
    }
}
