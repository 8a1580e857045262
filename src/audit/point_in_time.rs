//! Points in the history of the log: a position or a time.

use crate::domain::value::{InvalidValue, Timestamp};
use crate::events::stream::Position;

/// A point in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointInTime {
    /// Right after the event with this position; 0 is before the first event.
    Position(Position),
    /// At this time.
    Time(Timestamp),
}

/// The edge of its day that a date denotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DayEdge {
    Start,
    End,
}

/// Time of the last microsecond of a day.
const END_OF_DAY: &str = "T23:59:59.999999Z";

impl PointInTime {
    /// Parses a position (`1042`), a time (`2026-01-31T12:00:00Z`), or a date in UTC (`2026-01-31`), which denotes the
    /// given edge of its day.
    ///
    /// # Errors
    /// If the text has none of these forms.
    pub fn parse(text: &str, edge: DayEdge) -> Result<Self, InvalidValue> {
        let invalid = || {
            InvalidValue::new(
                "must be a position such as 1042, a time such as 2026-01-31T12:00:00Z or a date such as 2026-01-31",
            )
        };

        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(|position| Self::Position(Position(position))).map_err(|_| invalid());
        }

        let is_date = text.len() == "2026-01-31".len();
        let time = match edge {
            DayEdge::Start if is_date => Timestamp::parse(&format!("{text}T00:00:00Z")),
            DayEdge::End if is_date => Timestamp::parse(&format!("{text}{END_OF_DAY}")),
            // A plus sign that is not percent-encoded in a query is decoded as a space.
            _ => Timestamp::parse(&text.replace(' ', "+")),
        };

        time.map(Self::Time).map_err(|_| invalid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> PointInTime {
        PointInTime::Time(Timestamp::parse(text).unwrap())
    }

    #[test]
    fn positions_times_and_dates_are_parsed() {
        assert_eq!(PointInTime::parse("0", DayEdge::End), Ok(PointInTime::Position(Position(0))));
        assert_eq!(PointInTime::parse("1042", DayEdge::Start), Ok(PointInTime::Position(Position(1042))));
        assert_eq!(PointInTime::parse("2026-01-31T12:00:00Z", DayEdge::End), Ok(time("2026-01-31T12:00:00Z")));
        assert_eq!(PointInTime::parse("2026-01-31T12:00:00 02:00", DayEdge::End), Ok(time("2026-01-31T10:00:00Z")));
        assert_eq!(PointInTime::parse("2026-01-31", DayEdge::Start), Ok(time("2026-01-31T00:00:00Z")));
        assert_eq!(PointInTime::parse("2026-01-31", DayEdge::End), Ok(time("2026-01-31T23:59:59.999999Z")));
    }

    #[test]
    fn other_texts_are_rejected_with_examples() {
        for bad in
            ["", "-1", "1.5", "yesterday", "2026-13-01", "2026-1-1", "18446744073709551616", "2026-01-31T12:00:00"]
        {
            let message = PointInTime::parse(bad, DayEdge::End).unwrap_err().to_string();
            assert!(message.contains("1042") && message.contains("2026-01-31"), "{bad}: {message}");
        }
    }
}
