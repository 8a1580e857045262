//! Tests of matches and their order.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::domain::ids::{NodeId, PublisherId};
use crate::domain::node::{NodeEvent, NodeFields};
use crate::domain::value::{Name, Timestamp};
use crate::projections::node::list::{NodeQuery, Selection};
use crate::projections::node::tests::{ids as ids_of, publisher_profile, reason};
use crate::projections::node::{Nodes, Sort, SortColumn};
use crate::projections::page::PageRequest;

/// Creates nodes from id, name, author, tags and description, all of one publisher.
fn registry(nodes: &[(&str, &str, &str, &[&str], &str)]) -> Nodes {
    let mut registry = Nodes::default();
    registry.warm_up();
    for (id, name, author, tags, description) in nodes {
        let id = NodeId::parse(id).unwrap();
        let fields = NodeFields {
            name: Some(Name::from_recorded((*name).to_owned())),
            author: Some(Name::from_recorded((*author).to_owned())),
            tags: Some(Labels::from_recorded(tags.iter().map(|tag| (*tag).to_owned()).collect())),
            description: Some(Text::from_recorded((*description).to_owned())),
            ..NodeFields::default()
        };
        let publisher = PublisherId::parse("acme").unwrap();
        let event = NodeEvent::NodeCreated { id: id.clone(), publisher, fields };
        registry.apply(id.key().as_str(), &event, Timestamp::from_micros(1));
    }
    registry
}

fn found_with(nodes: &Nodes, text: &str, adjust: impl FnOnce(&mut Selection)) -> Vec<String> {
    let mut selection = Selection { search: Some(SearchQuery::parse(text).unwrap()), ..Selection::default() };
    adjust(&mut selection);
    let query = NodeQuery { page: PageRequest { page: 1, limit: 100 }, selection };
    ids_of(&nodes.entries(nodes.list(&query, true))).iter().map(ToString::to_string).collect()
}

fn found(nodes: &Nodes, text: &str) -> Vec<String> {
    found_with(nodes, text, |_| {})
}

#[test]
fn every_word_must_occur_and_the_last_can_be_a_prefix() {
    let nodes = registry(&[
        ("face-tools", "Face Tools", "ann", &["mask"], "Finds and swaps portraits"),
        ("upscale", "Upscaler", "bob", &["face"], "Larger pictures"),
    ]);

    assert_eq!(found(&nodes, "portraits face"), ["face-tools"]);
    assert_eq!(found(&nodes, "face larg"), ["upscale"]);
    assert_eq!(found(&nodes, "larg face"), [""; 0]);
    assert_eq!(found(&nodes, "face nowhere"), [""; 0]);
    assert_eq!(found(&nodes, "BOB"), ["upscale"]);
    assert_eq!(found(&nodes, "acme"), ["face-tools", "upscale"]);
    assert_eq!(found(&nodes, "ac mask"), [""; 0]);
    assert_eq!(found(&nodes, "mask ac"), ["face-tools"]);
}

#[test]
fn words_with_one_typing_error_match_if_nothing_else_does() {
    let nodes = registry(&[
        ("face-mask", "Face Mask", "ann", &[], "Finds portraits"),
        ("upscale", "Upscaler", "bob", &[], "A mask for pictures"),
        ("musk", "Musk", "", &[], ""),
    ]);

    // Swapped, missing, additional and wrong characters; the most frequent word wins.
    for query in ["msak", "masc", "massk", "mazk", "mmask"] {
        assert_eq!(found(&nodes, query), ["face-mask", "upscale"], "{query}");
    }
    assert_eq!(found(&nodes, "upscler"), ["upscale"]);
    assert_eq!(found(&nodes, "protraits face"), ["face-mask"]);
    assert_eq!(found(&nodes, "face protraits"), ["face-mask"]);
    assert_eq!(found(&nodes, "acmme"), ["face-mask", "musk", "upscale"], "publishers are known too");

    // Known words stay, and short or unknown ones are not guessed.
    assert_eq!(found(&nodes, "musk"), ["musk"]);
    assert_eq!(found(&nodes, "bab"), [""; 0]);
    assert_eq!(found(&nodes, "nothing"), [""; 0]);
    assert_eq!(found(&nodes, "portraits bob"), [""; 0], "both words are known");
}

#[test]
fn separators_and_case_do_not_matter() {
    let nodes = registry(&[
        ("face-tools", "x", "", &[], ""),
        ("FaceTools2", "x", "", &[], ""),
        ("facetools3", "x", "", &[], ""),
    ]);
    for query in ["face-tools", "facetools", "FACE_TOOLS", "face tools", "Face.Tool", "faceto"] {
        let mut ids = found(&nodes, query);
        ids.sort();
        assert_eq!(ids, ["FaceTools2", "face-tools", "facetools3"], "{query}");
    }
}

#[test]
fn joined_and_separate_words_find_each_other() {
    let nodes = registry(&[
        ("a", "My Face Swap", "", &[], ""),
        ("b", "b", "", &["face_swap"], ""),
        ("c", "c", "", &[], "Does a face-swap, quickly"),
        ("d", "d", "", &[], "FaceSwap for all"),
        ("e", "e", "", &[], "The face. Swap it"),
        ("f", "f", "", &[], "swap a face"),
        ("g", "MyFaceSwapNodes", "", &[], ""),
        ("h", "h", "", &[], "a surface to swap"),
    ]);

    let search_sorted = |text: &str| {
        let mut ids = found(&nodes, text);
        ids.sort();
        ids.concat()
    };

    for query in ["faceswap", "FaceSwap"] {
        assert_eq!(search_sorted(query), "abcdeg", "{query}");
    }

    // Separate words can occur in any field.
    for query in ["face swap", "face-swap", "Face_Swap"] {
        assert_eq!(search_sorted(query), "abcdefg", "{query}");
    }

    assert_eq!(search_sorted("faceswap quickly"), "c");
    assert_eq!(search_sorted("face swap for"), "d");
    assert_eq!(search_sorted("all face swap"), "d");
    assert_eq!(search_sorted("faces"), "abdg", "a prefix matches joined words, except in a description");
    assert_eq!(found(&nodes, "faceswap").last().map(String::as_str), Some("e"), "descriptions count least");
}

#[test]
fn joined_words_are_removed_with_the_description() {
    let mut nodes = registry(&[("a", "a", "", &[], "face swap")]);
    assert_eq!(found(&nodes, "faceswap"), ["a"]);
    let change =
        NodeFields { description: Some(Text::from_recorded("face to swap".to_owned())), ..NodeFields::default() };
    nodes.apply("a", &NodeEvent::NodeRevised { change }, Timestamp::from_micros(2));
    assert_eq!((found(&nodes, "faceswap"), found(&nodes, "toswap")), (vec![], vec!["a".to_owned()]));
}

#[test]
fn the_exact_id_comes_first_and_then_better_matches() {
    let nodes = registry(&[
        ("mask", "Other", "", &[], ""),
        ("a", "Mask it", "", &[], ""),
        ("b", "Masking", "", &[], ""),
        ("c", "c", "", &["mask"], ""),
        ("d", "d", "", &["masks"], ""),
        ("e", "e", "mask", &[], ""),
        ("f", "f", "", &[], "a mask"),
        ("g", "g", "", &[], "maskless"),
        ("h", "h", "", &[], "none"),
    ]);
    assert_eq!(found(&nodes, "MASK"), ["mask", "a", "b", "c", "d", "e", "f", "g"]);
    assert_eq!(found(&nodes, "mask it"), ["a"]);
}

#[test]
fn equal_matches_are_ordered_by_downloads_and_then_id() {
    let mut nodes = registry(&[("c", "tool", "", &[], ""), ("b", "tool", "", &[], ""), ("a", "tool", "", &[], "")]);
    nodes.apply("b", &NodeEvent::DownloadsCounted { count: 5 }, Timestamp::from_micros(2));
    assert_eq!(found(&nodes, "tool"), ["b", "a", "c"]);
    assert_eq!(found(&nodes, ""), ["b", "a", "c"]);
    assert_eq!(found(&nodes, " !? "), [""; 0], "a query without a word matches nothing");
    let by_id = |selection: &mut Selection| selection.sort = vec![Sort { column: SortColumn::Id, descending: true }];
    assert_eq!(found_with(&nodes, "tool", by_id), ["c", "b", "a"]);
}

#[test]
fn changes_of_nodes_and_publishers_are_found_at_once() {
    let mut nodes = registry(&[("a", "first", "", &[], ""), ("b", "other", "", &[], "")]);
    let change = NodeFields { name: Some(Name::from_recorded("second".to_owned())), ..NodeFields::default() };
    nodes.apply("a", &NodeEvent::NodeRevised { change }, Timestamp::from_micros(2));
    assert_eq!((found(&nodes, "first"), found(&nodes, "second")), (vec![], vec!["a".to_owned()]));

    nodes.update_publisher("acme", Some(&publisher_profile("acme", false, 7)));
    assert_eq!(found(&nodes, "name 7"), ["a", "b"]);
    nodes.update_publisher("acme", Some(&publisher_profile("acme", false, 8)));
    assert_eq!((found(&nodes, "name 7"), found(&nodes, "name 8").len()), (vec![], 2));

    nodes.apply("b", &NodeEvent::NodeBanned { reason: reason() }, Timestamp::from_micros(3));
    assert_eq!(found(&nodes, "acme"), ["a"]);
    assert_eq!(found_with(&nodes, "acme", |selection| selection.include_banned = true), ["a", "b"]);
}

#[test]
fn filters_narrow_what_is_found() {
    let nodes = registry(&[("x", "tool", "", &[], ""), ("b", "tool", "", &[], "")]);
    let only_b = |selection: &mut Selection| {
        selection.filter.node_ids = Some(vec![NodeId::parse("B").unwrap().key()]);
    };
    assert_eq!(found_with(&nodes, "tool", only_b), ["b"]);
    assert_eq!(found_with(&nodes, "b", only_b), ["b"]);
    assert_eq!(found_with(&nodes, "x", only_b), [""; 0]);
}

#[test]
fn a_weightier_field_counts_more_than_a_whole_word() {
    let levels = [DESCRIPTION, AUTHOR, TAGS, NAMES]
        .map(|field| [WordMatch::Prefix, WordMatch::Whole].map(|word_match| match_level(field, word_match)));
    assert_eq!(levels.concat(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(match_level(NAMES | DESCRIPTION, WordMatch::Whole), 8);
}

#[test]
fn removed_words_leave_nothing_behind() {
    let words = |texts: &[&str]| NodeWords {
        words: texts.iter().map(|word| ((*word).to_owned(), NAMES)).collect(),
        pairs: texts.iter().map(|word| fingerprint([*word, "x"])).collect::<BTreeSet<_>>().into_iter().collect(),
    };
    let no_words = NodeWords::default();

    let mut index = SearchIndex::default();
    index.update(3, &no_words, &words(&["a", "b"]));
    index.update(1, &no_words, &words(&["b", "c"]));
    index.update(3, &words(&["a", "b"]), &words(&["b", "d"]));

    let postings: Vec<_> = index.nodes.iter().map(|(word, list)| (&**word, list.iter().collect::<Vec<_>>())).collect();
    let posting_of_1 = pack_posting(1, NAMES);
    let posting_of_3 = pack_posting(3, NAMES);
    assert_eq!(
        postings,
        [("b", vec![posting_of_1, posting_of_3]), ("c", vec![posting_of_1]), ("d", vec![posting_of_3])]
    );

    index.update(3, &words(&["b", "d"]), &no_words);
    index.update(1, &words(&["b", "c"]), &no_words);
    assert_eq!(index, SearchIndex::default());
}

#[test]
fn a_publisher_is_found_by_its_new_name_only() {
    let mut index = SearchIndex::default();
    index.rename_owner(0, "acme", None, "Acme Tools");
    index.rename_owner(0, "acme", Some("Acme Tools"), "Other");
    let words: Vec<_> = index.owners.keys().map(|word| &**word).collect();
    assert_eq!(words, ["acme", "other"]);
}

#[test]
fn the_length_of_a_query_is_limited() {
    assert!(SearchQuery::parse(&"ä".repeat(200)).is_ok());
    assert!(SearchQuery::parse(&"a".repeat(201)).is_err());
    assert!(SearchQuery::parse(" -- ").is_ok_and(|query| query.is_wordless() && !query.is_empty()));
    assert!(SearchQuery::parse("").is_ok_and(|query| query.is_empty() && !query.is_wordless()));
}

/// Returns the score of a node by comparing every word of the query with every word of the node; `None` if it does not
/// match.
fn expected_score(query: &SearchQuery, node: &NodeProfile) -> Option<u16> {
    let NodeWords { words, pairs } = words_of_node(node);
    let owner_words = words_of_name(node.publisher.as_str()).into_iter().map(|word| (word, AUTHOR));
    let words: Vec<(String, u8)> = words.into_iter().chain(owner_words).collect();

    let level = |text: &str, by_prefix: bool| {
        let matching = words.iter().filter(|(word, _)| word == text || by_prefix && word.starts_with(text));
        matching.map(|(word, fields)| match_level(*fields, WordMatch::from_words(word, text))).max()
    };
    let word_score = |index: usize| {
        let word = &query.words[index];
        let in_pairs =
            pairs.contains(&fingerprint([word.as_str()])).then(|| match_level(DESCRIPTION, WordMatch::Prefix));
        let previous_pair = index.checked_sub(1).and_then(|previous| query.pairs.get(previous));
        let joined = previous_pair.into_iter().chain(query.pairs.get(index)).filter_map(|pair| level(pair, false));
        level(word, index + 1 == query.words.len()).into_iter().chain(in_pairs).chain(joined).max().map(u16::from)
    };
    let separate = (0..query.words.len()).map(word_score).sum::<Option<u16>>();

    let joined = query.joined.as_ref().and_then(|prefix| {
        let names = words.iter().filter(|(word, fields)| fields & NAMES != 0 && word.starts_with(prefix.as_str()));
        names.map(|(word, fields)| if word == prefix { match_level(*fields, WordMatch::Whole) } else { 1 }).max()
    });
    let joined = joined.map(|level| u16::from(level) * u16::try_from(query.words.len()).unwrap());

    let is_exact = node.id.key().as_str() == query.exact;
    let score = separate.max(joined)?;
    Some(if is_exact { query.exact_score() } else { score })
}

fn any_text(words: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    prop::collection::vec(select(&["face", "swap", "faceswap", "mask", "Mask-it", "fa", "acme"][..]), words)
        .prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn a_search_equals_scoring_and_sorting_all_nodes(
        texts in prop::collection::vec((any_text(0..3), any_text(0..2), any_text(0..2), any_text(0..5), 0..3_u64), 0..25),
        ids in prop::collection::btree_set(select(&["face", "mask", "x1", "x2", "x3", "faceswap"][..]), 0..4),
        queries in prop::collection::vec((any_text(1..4), 1..4_u64, 1..9_u64), 1..6),
    ) {
        let mut nodes = Nodes::default();
        nodes.warm_up();
        let other_ids = (0..).map(|n| format!("n{n}"));
        for ((name, author, tag, description, downloads), id) in
            texts.into_iter().zip(ids.into_iter().map(str::to_owned).chain(other_ids))
        {
            let id = NodeId::parse(&id).unwrap();
            let fields = NodeFields {
                name: Some(Name::from_recorded(name)),
                author: Some(Name::from_recorded(author)),
                tags: Some(Labels::from_recorded(vec![tag])),
                description: Some(Text::from_recorded(description)),
                ..NodeFields::default()
            };
            let created = NodeEvent::NodeCreated { id: id.clone(), publisher: PublisherId::parse("acme").unwrap(), fields };
            nodes.apply(id.key().as_str(), &created, Timestamp::from_micros(1));
            nodes.apply(id.key().as_str(), &NodeEvent::DownloadsCounted { count: downloads }, Timestamp::from_micros(2));
        }

        for (text, page, limit) in queries {
            let search = SearchQuery::parse(&text).unwrap();
            let mut expected: Vec<_> = nodes
                .all()
                .filter_map(|node| Some((Reverse((expected_score(&search, node)?, node.downloads)), node.id.key(), node.id.clone())))
                .collect();
            // A query without matches is corrected, which has tests of its own.
            prop_assume!(!expected.is_empty());
            expected.sort();
            let page = PageRequest { page, limit };
            let expected = page.paginate(expected.into_iter().map(|(_, _, id)| id));
            let query = NodeQuery { page, selection: Selection { search: Some(search), ..Selection::default() } };
            for bypass_cache in [true, false, false] {
                let found = nodes.entries(nodes.list(&query, bypass_cache));
                prop_assert_eq!((ids_of(&found), found.total), (expected.entries.clone(), expected.total), "{:?}", query);
            }
        }
    }
}
