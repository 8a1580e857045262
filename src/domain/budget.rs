//! Budgets: how many credits the submissions of a user, a token or a publisher may hold and spend in a period
//! (contract 11).

use std::fmt;

use chrono::{Datelike as _, Months, NaiveDate};
use serde::{Deserialize, Serialize};

use super::decider::Decider;
use super::event_enum::event_enum;
use super::ids::{PublisherId, StreamKind, TokenId, UserId};
use super::value::{InvalidValue, Timestamp, named_values};

/// Subject of a budget. Its text is the key of its stream, such as `publisher.acme`, and a segment of paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BudgetSubject {
    /// All submissions of a user.
    User(UserId),
    /// Submissions authenticated by this token of a user.
    Token(TokenId),
    /// Submissions of the members of a publisher.
    Publisher(PublisherId),
}

impl BudgetSubject {
    /// Parses a kind and an id.
    ///
    /// # Errors
    /// If the kind is unknown, or the id is not valid for that kind.
    pub fn parse(kind: &str, id: &str) -> Result<Self, InvalidValue> {
        match kind {
            "user" => UserId::parse(id).map(Self::User),
            "token" => TokenId::parse(id).map(Self::Token),
            "publisher" => PublisherId::parse(id).map(Self::Publisher),
            _ => Err(InvalidValue::new("must be one of user token publisher")),
        }
    }

    /// Parses the key of a stream.
    ///
    /// # Errors
    /// If the key is not a kind and an id.
    pub fn parse_key(key: &str) -> Result<Self, InvalidValue> {
        let (kind, id) = key.split_once('.').unwrap_or((key, ""));
        Self::parse(kind, id)
    }

    /// Returns the name of the kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Token(_) => "token",
            Self::Publisher(_) => "publisher",
        }
    }

    /// Returns the id as text.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::User(id) => id.to_string(),
            Self::Token(id) => id.to_string(),
            Self::Publisher(id) => id.to_string(),
        }
    }
}

impl fmt::Display for BudgetSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind(), self.id())
    }
}

named_values! {
    /// Period of a budget. Days and months are those of UTC.
    BudgetPeriod {
        Day = "day",
        Month = "month",
        /// Without an end.
        Total = "total",
    }
}

impl BudgetPeriod {
    /// Returns the first moment of the period that contains `at`.
    #[must_use]
    pub fn start(self, at: Timestamp) -> Timestamp {
        match self {
            Self::Total => Timestamp::from_micros(i64::MIN),
            Self::Day | Self::Month => Timestamp::midnight(self.first_day(at)),
        }
    }

    /// Returns the first moment after the period that contains `at`; `None` if it has no end.
    #[must_use]
    pub fn end(self, at: Timestamp) -> Option<Timestamp> {
        let first_day = self.first_day(at);
        let next = match self {
            Self::Day => first_day.succ_opt(),
            Self::Month => first_day.checked_add_months(Months::new(1)),
            Self::Total => None,
        };
        next.map(Timestamp::midnight)
    }

    fn first_day(self, at: Timestamp) -> NaiveDate {
        let day = at.utc_date();
        if self == Self::Month { day.with_day(1).unwrap_or(day) } else { day }
    }
}

/// A budget with its limit and period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetLimit {
    /// Credits of each period.
    pub credits: u64,
    pub period: BudgetPeriod,
}

impl BudgetLimit {
    /// Largest number of credits.
    pub const CREDITS_MAX: u64 = 1_000_000_000_000;
}

/// State of the budget of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// The limit, if any.
    pub limit: Option<BudgetLimit>,
}

/// Commands of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetCommand {
    /// Sets or replaces the limit. Idempotent.
    Set(BudgetLimit),
    /// Removes the limit.
    Remove,
}

event_enum! {
    /// Events of a budget.
    BudgetEvent {
        /// The limit was set, or replaced.
        BudgetSet(BudgetLimit),
        /// The limit was removed.
        BudgetRemoved,
    }
}

/// Reason why a command on a budget was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetRejection {
    /// The subject has no budget.
    NotFound,
}

impl Decider for Budget {
    const KIND: StreamKind = StreamKind::Budget;
    type State = Self;
    type Command = BudgetCommand;
    type Event = BudgetEvent;
    type Rejection = BudgetRejection;

    fn decide(state: &Self, command: BudgetCommand, _now: Timestamp) -> Result<Vec<BudgetEvent>, BudgetRejection> {
        match (state.limit, command) {
            (Some(current), BudgetCommand::Set(limit)) if current == limit => Ok(Vec::new()),
            (_, BudgetCommand::Set(limit)) => Ok(vec![BudgetEvent::BudgetSet(limit)]),
            (Some(_), BudgetCommand::Remove) => Ok(vec![BudgetEvent::BudgetRemoved]),
            (None, BudgetCommand::Remove) => Err(BudgetRejection::NotFound),
        }
    }

    fn evolve(state: &mut Self, event: &BudgetEvent, _at: Timestamp) {
        state.limit = match event {
            BudgetEvent::BudgetSet(limit) => Some(*limit),
            BudgetEvent::BudgetRemoved => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::decider::testing::given;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn a_day(credits: u64) -> BudgetLimit {
        BudgetLimit { credits, period: BudgetPeriod::Day }
    }

    #[test]
    fn a_budget_is_set_replaced_and_removed() {
        let set = [BudgetEvent::BudgetSet(a_day(5))];
        given::<Budget>([]).when(BudgetCommand::Set(a_day(5))).then(&set);
        given::<Budget>(&set).when(BudgetCommand::Set(a_day(5))).then_nothing();
        given::<Budget>(&set).when(BudgetCommand::Set(a_day(6))).then([BudgetEvent::BudgetSet(a_day(6))]);
        given::<Budget>(&set).when(BudgetCommand::Remove).then([BudgetEvent::BudgetRemoved]);

        let removed = [BudgetEvent::BudgetSet(a_day(5)), BudgetEvent::BudgetRemoved];
        for history in [&[][..], &removed] {
            given::<Budget>(history).when(BudgetCommand::Remove).then_rejected(BudgetRejection::NotFound);
        }
    }

    #[test]
    fn periods_begin_at_midnight_utc() {
        let noon = at("2028-02-29T12:00:00Z");
        let bounds = |period: BudgetPeriod| (period.start(noon), period.end(noon));
        let [today, tomorrow] = [at("2028-02-29T00:00:00Z"), at("2028-03-01T00:00:00Z")];
        assert_eq!(bounds(BudgetPeriod::Day), (today, Some(tomorrow)));
        assert_eq!(bounds(BudgetPeriod::Month), (at("2028-02-01T00:00:00Z"), Some(tomorrow)));
        assert_eq!(bounds(BudgetPeriod::Total), (Timestamp::from_micros(i64::MIN), None));
        assert_eq!(BudgetPeriod::Day.start(today), today);
        assert_eq!(BudgetPeriod::Month.end(at("2026-12-31T23:59:59Z")), Some(at("2027-01-01T00:00:00Z")));
    }

    #[test]
    fn subjects_are_a_kind_and_an_id() {
        for key in ["user.00000000-0000-4000-8000-000000000001", "publisher.acme"] {
            assert_eq!(BudgetSubject::parse_key(key).map(|subject| subject.to_string()), Ok(key.to_owned()));
        }
        for bad in ["", "acme", "node.a", "user.acme", "publisher."] {
            assert!(BudgetSubject::parse_key(bad).is_err(), "{bad}");
        }
    }
}
