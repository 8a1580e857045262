//! Tests of the group format: golden bytes, round trips, limits and hostile bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::events::journal::hex;

fn guard(name: &str, position: u64) -> Guard {
    Guard { tag: Tag::new(name).unwrap(), position: Position(position) }
}

fn group(entries: Vec<GroupEntry>) -> Group {
    Group { session: Uuid::from_u128(0xA), counter: 7, sequence_seen: 513, chain_seen: ChainHash([0xCC; 32]), entries }
}

fn entry(guards: Vec<Guard>, commit_bytes: usize) -> GroupEntry {
    GroupEntry { guards, commit: UnplacedCommit(vec![0xEE; commit_bytes]) }
}

/// Replaces the checksum by the right one.
fn seal(bytes: &mut [u8]) {
    let (content, checksum) = bytes.split_last_chunk_mut::<CHECKSUM_BYTES>().unwrap();
    *checksum = crc32c::crc32c(content).to_le_bytes();
}

#[test]
fn golden_bytes_do_not_change() {
    let group = group(vec![entry(vec![guard("a/b", 258)], 2), entry(Vec::new(), 1)]);
    let golden = [
        "01",
        "0000000000000000000000000000000a",
        "0700000000000000",
        "0102000000000000",
        "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
        "0f00000001",
        "020100000000000003612f62",
        "eeee",
        "0200000000ee",
    ];
    let encoded = group.encode().unwrap();
    let (content, checksum) = encoded.split_last_chunk::<CHECKSUM_BYTES>().unwrap();
    assert_eq!(hex::encode(content), golden.concat());
    assert_eq!(u32::from_le_bytes(*checksum), crc32c::crc32c(content));
    assert_eq!(Group::decode(&encoded), Ok(group));
}

#[test]
fn a_group_without_entries_round_trips() {
    let group = group(Vec::new());
    assert_eq!(Group::decode(&group.encode().unwrap()), Ok(group));
}

#[test]
fn groups_end_at_their_limit() {
    let header = HEADER_BYTES + CHECKSUM_BYTES + 2 * ENTRY_HEADER_BYTES;
    let largest = [1000, GROUP_BYTES_MAX - header - 1000].map(|bytes| entry(Vec::new(), bytes));
    let too_large = [1001, GROUP_BYTES_MAX - header - 1000].map(|bytes| entry(Vec::new(), bytes));
    assert_eq!([&largest, &too_large].map(|entries| Group::entries_that_fit(entries)), [2, 1]);

    let encoded = group(largest.to_vec()).encode().unwrap();
    assert_eq!(encoded.len(), GROUP_BYTES_MAX);
    assert!(Group::decode(&encoded).is_ok());
    assert!(group(too_large.to_vec()).encode().is_err());
}

#[test]
fn a_single_entry_may_have_the_largest_commit_and_all_guards() {
    let guards = vec![guard(&"t".repeat(TAG_BYTES_MAX), 1); GUARDS_MAX];
    let entries = vec![entry(guards, codec::UNPLACED_BYTES_MAX)];
    assert_eq!(Group::entries_that_fit(&entries), 1);

    let encoded = group(entries.clone()).encode().unwrap();
    assert_eq!(encoded.len(), SINGLE_ENTRY_GROUP_BYTES_MAX);
    assert_eq!(Group::decode(&encoded), Ok(group(entries)));

    assert_eq!(Group::entries_that_fit(&[]), 0);
    assert!(group(vec![entry(vec![guard("t", 1); GUARDS_MAX + 1], 1)]).encode().is_err());
    assert_eq!(Tag::new("t".repeat(TAG_BYTES_MAX + 1)), None);
}

#[test]
fn other_formats_and_broken_bytes_have_their_own_errors() {
    let encoded = group(vec![entry(vec![guard("tag", 1)], 3)]).encode().unwrap();
    assert_eq!(Group::decode(&[]), Err(GroupDecodeError::Short));
    assert_eq!(Group::decode(&[&[2], &encoded[1..]].concat()), Err(GroupDecodeError::UnknownFormat(2)));
    assert_eq!(Group::decode(&encoded[..encoded.len() - 1]), Err(GroupDecodeError::Checksum));

    let broken = |at: usize, byte: u8| {
        let mut bytes = encoded.clone();
        bytes[at] = byte;
        seal(&mut bytes);
        Group::decode(&bytes).unwrap_err().to_string()
    };
    let entry = HEADER_BYTES;
    assert_eq!(broken(entry, 0xff), "entry 0 of the group is longer than the group");
    assert_eq!(broken(entry + 4, 9), "entry 0 of the group ends within a guard");
    assert_eq!(broken(entry + 13, 200), "entry 0 of the group ends within a tag");
    assert_eq!(broken(entry + 14, 0xff), "entry 0 of the group has a tag that is not UTF-8");

    let header = group(Vec::new()).encode().unwrap();
    for length in 1..header.len() {
        let mut bytes = header[..length].to_vec();
        if length > CHECKSUM_BYTES {
            seal(&mut bytes);
        }
        assert_eq!(Group::decode(&bytes), Err(GroupDecodeError::Short), "cut to {length} bytes");
    }
    let oversized = vec![FORMAT; SINGLE_ENTRY_GROUP_BYTES_MAX + 1];
    assert!(matches!(Group::decode(&oversized), Err(GroupDecodeError::TooLarge { .. })));
}

fn any_entry() -> impl Strategy<Value = GroupEntry> {
    let guard = ("[a-zà-ü/-]{0,20}", any::<u64>()).prop_map(|(name, position)| guard(&name, position));
    let parts = (vec(guard, 0..4), vec(any::<u8>(), 0..50));
    parts.prop_map(|(guards, commit)| GroupEntry { guards, commit: UnplacedCommit(commit) })
}

fn any_group() -> impl Strategy<Value = Group> {
    let parts = (any::<u128>(), any::<u64>(), any::<u64>(), any::<[u8; 32]>(), vec(any_entry(), 0..6));
    parts.prop_map(|(session, counter, sequence_seen, chain, entries)| Group {
        session: Uuid::from_u128(session),
        counter,
        sequence_seen,
        chain_seen: ChainHash(chain),
        entries,
    })
}

proptest! {
    #[test]
    fn every_group_round_trips(group in any_group()) {
        prop_assert_eq!(Group::decode(&group.encode().unwrap()), Ok(group));
    }

    #[test]
    fn a_changed_byte_is_noticed(group in any_group(), at in any::<prop::sample::Index>(), flip in 1..=u8::MAX) {
        let mut bytes = group.encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(Group::decode(&bytes).is_err());
    }

    /// Whatever is accepted encodes to the same bytes, so no two encodings mean the same.
    #[test]
    fn hostile_bytes_with_a_right_checksum_do_no_harm(
        group in any_group(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = group.encode().unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len() / 2));
        if bytes.len() > CHECKSUM_BYTES {
            seal(&mut bytes);
        }
        if let Ok(group) = Group::decode(&bytes) {
            prop_assert_eq!(group.encode().unwrap(), bytes);
        }
    }
}
