//! Redaction of erased users: personal data that older releases recorded in plain text is hidden (ADR 11).

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::source::{EventSource, EventSourceError};
use crate::domain::event::Event;
use crate::domain::ids::UserId;
use crate::domain::personal::{PersonalField, PersonalValue};
use crate::domain::user::UserEvent;
use crate::events::envelope::RecordedEvent;
use crate::events::stream::{Position, StreamId};

/// Returns `true` if a user was erased at any time.
pub type ErasureCheck = Arc<dyn Fn(UserId) -> Result<bool, EventSourceError> + Send + Sync>;

/// The users erased by the events of a log without a writer. Reads the log once, on first use.
pub struct ErasedUserScan {
    source: Arc<dyn EventSource>,
    found: Mutex<Option<Arc<HashSet<UserId>>>>,
}

impl ErasedUserScan {
    /// Returns a scan that reads nothing before its first use.
    #[must_use]
    pub fn new(source: Arc<dyn EventSource>) -> Self {
        Self { source, found: Mutex::default() }
    }

    /// Returns all erased users. Blocks; the first call reads the whole log.
    ///
    /// # Errors
    /// If the events cannot be read to their end: an unread one may erase a user.
    pub fn users(&self) -> Result<Arc<HashSet<UserId>>, EventSourceError> {
        let mut cached = self.found.lock();
        if let Some(found) = &*cached {
            return Ok(Arc::clone(found));
        }

        let mut found = HashSet::new();
        self.source.scan(Position(0), &mut |event| {
            if matches!(event.event, Event::User(UserEvent::UserErased)) {
                found.extend(user_of_stream(&event.stream));
            }
            ControlFlow::Continue(())
        })?;

        let found = Arc::new(found);
        *cached = Some(Arc::clone(&found));
        Ok(found)
    }
}

fn user_of_stream(stream: &StreamId) -> Option<UserId> {
    UserId::parse(stream.key()).ok()
}

/// Returns the user about whom an event contains personal data in plain text.
#[must_use]
pub fn user_in_plain_text(event: &RecordedEvent) -> Option<UserId> {
    let Event::User(user_event) = &event.event else { return None };
    let values = match user_event {
        UserEvent::UserCreated(created) => [&created.email, &created.name],
        UserEvent::UserRevised { change } => [&change.email, &change.name],
        _ => return None,
    };
    let has_plain_text = values.into_iter().flatten().any(|value| matches!(value, PersonalValue::Plain(_)));
    user_of_stream(&event.stream).filter(|_| has_plain_text)
}

/// Replaces the plain text in the fields of a user event.
pub(super) fn redact(data: &mut Value) {
    // The fields of a revision are one level deeper.
    let path = if data.get("change").is_some() { "/change" } else { "" };
    let Some(Value::Object(fields)) = data.pointer_mut(path) else { return };

    for field in [PersonalField::Email, PersonalField::Name] {
        if let Some(value) = fields.get_mut(field.as_str()).filter(|value| value.get("sealed").is_none()) {
            *value = json!({"erased": true});
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_text_is_redacted() {
        let mut created = json!({"id": "x", "email": {"plain": "a@b"}, "name": {"sealed": "AA=="}, "is_admin": true});
        redact(&mut created);
        let expected = json!({"id": "x", "email": {"erased": true}, "name": {"sealed": "AA=="}, "is_admin": true});
        assert_eq!(created, expected);

        let mut revised = json!({"change": {"name": {"plain": "Ada"}}});
        redact(&mut revised);
        assert_eq!(revised, json!({"change": {"name": {"erased": true}}}));
    }
}
