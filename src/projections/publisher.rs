//! Publishers by id and by member.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::page::{Page, PageRequest};
use crate::domain::decider::Decider;
use crate::domain::ids::{PublisherId, UserId};
use crate::domain::publisher::{Publisher, PublisherEvent, PublisherProfile, PublisherStatus};
use crate::domain::value::Timestamp;
use crate::domain::webhook::Webhook;

/// All publishers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Publishers {
    by_id: BTreeMap<String, Publisher>,
    by_member: HashMap<UserId, BTreeSet<String>>,
}

impl Publishers {
    /// Applies an event of the publisher `id`.
    pub fn apply(&mut self, id: &str, event: &PublisherEvent, at: Timestamp) {
        // Avoids the allocation of the id for each later event.
        if !self.by_id.contains_key(id) {
            self.by_id.insert(id.to_owned(), Publisher::default());
        }
        let Some(publisher) = self.by_id.get_mut(id) else { return };

        let affected = affected_members(publisher, event);
        Publisher::evolve(publisher, event, at);

        for user in affected {
            let is_member = profile_of(publisher).is_some_and(|profile| profile.role_of(user).is_some());
            let publisher_ids = self.by_member.entry(user).or_default();
            if is_member {
                publisher_ids.insert(id.to_owned());
            } else {
                publisher_ids.remove(id);
            }
            if publisher_ids.is_empty() {
                self.by_member.remove(&user);
            }
        }
    }

    /// Returns all publishers, for a snapshot.
    pub(super) fn snapshot_entries(&self) -> impl Iterator<Item = (&String, &Publisher)> {
        self.by_id.iter()
    }

    /// Restores publishers from a snapshot.
    pub(super) fn restore(&mut self, publishers: Vec<(String, Publisher)>) {
        for (id, publisher) in publishers {
            for (user, _) in profile_of(&publisher).into_iter().flat_map(|profile| &profile.members) {
                self.by_member.entry(*user).or_default().insert(id.clone());
            }
            self.by_id.insert(id, publisher);
        }
    }

    /// Returns the publisher with this id.
    #[must_use]
    pub fn get(&self, id: &PublisherId) -> Option<&PublisherProfile> {
        profile_of(self.by_id.get(id.as_str())?)
    }

    /// Returns `true` if the publisher was deleted.
    #[must_use]
    pub fn was_deleted(&self, id: &PublisherId) -> bool {
        matches!(self.by_id.get(id.as_str()), Some(Publisher::Deleted))
    }

    /// Returns a page of all publishers or, if `id_filter` is not empty, of those with these ids; ordered by id.
    #[must_use]
    pub fn page(
        &self,
        request: PageRequest,
        id_filter: &HashSet<String>,
        include_banned: bool,
    ) -> Page<&PublisherProfile> {
        let is_listed = |profile: &&PublisherProfile| {
            (include_banned || profile.status == PublisherStatus::Active)
                && (id_filter.is_empty() || id_filter.contains(profile.id.as_str()))
        };
        let publishers: Vec<_> = self.by_id.values().filter_map(profile_of).filter(is_listed).collect();
        request.paginate(publishers.into_iter())
    }

    /// Returns the publishers of which a user is a member, ordered by id.
    pub fn for_member(&self, user: UserId) -> impl Iterator<Item = &PublisherProfile> {
        let ids = self.by_member.get(&user).into_iter().flatten();
        ids.filter_map(|id| profile_of(self.by_id.get(id)?))
    }

    /// Returns the webhooks of all publishers whose URL a user set, each with its publisher.
    pub fn webhooks_of(&self, user: UserId) -> impl Iterator<Item = (&PublisherProfile, &Webhook)> {
        let profiles = self.by_id.values().filter_map(profile_of);
        profiles
            .flat_map(|profile| profile.webhooks.iter().map(move |webhook| (profile, webhook)))
            .filter(move |(_, webhook)| webhook.account == user)
    }
}

fn profile_of(publisher: &Publisher) -> Option<&PublisherProfile> {
    if let Publisher::Present(profile) = publisher { Some(profile) } else { None }
}

fn affected_members(publisher: &Publisher, event: &PublisherEvent) -> Vec<UserId> {
    match event {
        PublisherEvent::PublisherCreated { owner, .. } => vec![*owner],
        PublisherEvent::MemberAdded { user, .. } | PublisherEvent::MemberRemoved { user } => vec![*user],
        PublisherEvent::PublisherDeleted => {
            profile_of(publisher).into_iter().flat_map(|profile| &profile.members).map(|(user, _)| *user).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::publisher::{MemberRole, PublisherFields};
    use crate::domain::value::Reason;

    const OWNER: UserId = UserId(Uuid::from_u128(1));
    const MEMBER: UserId = UserId(Uuid::from_u128(2));

    fn created(id: &str) -> PublisherEvent {
        let id = PublisherId::parse(id).unwrap();
        PublisherEvent::PublisherCreated { id, owner: OWNER, fields: PublisherFields::default() }
    }

    fn replay(events: &[(&str, PublisherEvent)]) -> Publishers {
        let mut publishers = Publishers::default();
        for (id, event) in events {
            publishers.apply(id, event, Timestamp::from_micros(0));
        }
        publishers
    }

    fn ids<'p>(publishers: impl Iterator<Item = &'p PublisherProfile>) -> Vec<&'p str> {
        publishers.map(|profile| profile.id.as_str()).collect()
    }

    #[test]
    fn publishers_of_a_member_follow_joins_and_removals() {
        let joined = PublisherEvent::MemberAdded { user: MEMBER, role: MemberRole::Member };
        let mut events = vec![("b", created("b")), ("a", created("a")), ("a", joined.clone()), ("b", joined)];
        assert_eq!(ids(replay(&events).for_member(OWNER)), ["a", "b"]);
        assert_eq!(ids(replay(&events).for_member(MEMBER)), ["a", "b"]);

        events.push(("b", PublisherEvent::MemberRemoved { user: MEMBER }));
        assert_eq!(ids(replay(&events).for_member(MEMBER)), ["a"]);

        events.push(("a", PublisherEvent::PublisherDeleted));
        let publishers = replay(&events);
        assert_eq!((ids(publishers.for_member(MEMBER)), ids(publishers.for_member(OWNER))), (vec![], vec!["b"]));
        assert!(!publishers.by_member.contains_key(&MEMBER));
    }

    #[test]
    fn pages_omit_deleted_publishers_and_on_request_include_banned_ones() {
        let banned = PublisherEvent::PublisherBanned { reason: Reason::parse("spam").unwrap() };
        let events = [
            ("c", created("c")),
            ("b", created("b")),
            ("a", created("a")),
            ("b", banned),
            ("c", PublisherEvent::PublisherDeleted),
        ];
        let publishers = replay(&events);
        let request = PageRequest { page: 1, limit: 10 };
        let page = |include_banned| publishers.page(request, &HashSet::new(), include_banned);
        assert_eq!((ids(page(false).entries.into_iter()), page(false).total), (vec!["a"], 1));
        assert_eq!((ids(page(true).entries.into_iter()), page(true).total), (vec!["a", "b"], 2));

        let deleted = PublisherId::parse("c").unwrap();
        assert!(publishers.get(&deleted).is_none() && publishers.was_deleted(&deleted));
    }
}
