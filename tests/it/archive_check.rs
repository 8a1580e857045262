//! Accepted archives, and the error for every other file.

use std::io::{Cursor, Read, Write};
use std::slice::from_ref;

use mediary::media::archive::check::{ArchiveError, ArchiveFlaws, check};
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::support::zip::{ZipTestEntry, valid_archive, zip, zip_with};

const GIB: u64 = 1 << 30;

#[track_caller]
fn flaws_of(bytes: &[u8]) -> ArchiveFlaws {
    match check(Cursor::new(bytes)) {
        Err(ArchiveError::Rejected(flaws)) => flaws,
        other => panic!("{other:?}"),
    }
}

/// Returns the only flaw of the archive.
#[track_caller]
fn single_flaw(bytes: &[u8]) -> String {
    let flaws = flaws_of(bytes);
    assert_eq!((flaws.count(), flaws.reported().len()), (1, 1), "{:?}", flaws.reported());
    flaws.reported()[0].clone()
}

#[track_caller]
fn assert_accepted(bytes: &[u8]) {
    if let Err(error) = check(Cursor::new(bytes)) {
        panic!("{error:?}");
    }
}

fn zeros(bytes: u64) -> impl Read {
    std::io::repeat(0).take(bytes)
}

#[test]
fn archives_of_common_tools_are_accepted() {
    assert_accepted(&valid_archive());
    let mut bytes = valid_archive();
    // With a comment: some tools store the revision there.
    let length = bytes.len();
    bytes[length - 2] = 4;
    bytes.extend(b"abcd");
    assert_accepted(&bytes);
    assert_accepted(&zip(&[
        ZipTestEntry::stored("dir/", b""),
        ZipTestEntry::link("dir/link", "../file"),
        ZipTestEntry::stored("file", b"x"),
    ]));
    assert_accepted(&zip(&[
        ZipTestEntry::deflated("large", zeros(1 << 20)),
        ZipTestEntry::deflated("empty", &b""[..]),
    ]));
}

#[test]
fn plain_streamed_and_zip64_archives_are_accepted() {
    let write = |mut archive: ZipWriter<Cursor<Vec<u8>>>, options: SimpleFileOptions| {
        archive.add_directory("src", options).unwrap();
        archive.start_file("src/ä.py", options).unwrap();
        archive.write_all(b"x = 1\n").unwrap();
        archive.add_symlink("main.py", "src/ä.py", options).unwrap();
        archive.finish().unwrap().into_inner()
    };
    for options in [SimpleFileOptions::default(), SimpleFileOptions::default().large_file(true)] {
        assert_accepted(&write(ZipWriter::new(Cursor::new(Vec::new())), options));
    }
    let mut streamed = ZipWriter::new_stream(Vec::new());
    streamed.start_file("a", SimpleFileOptions::default()).unwrap();
    streamed.write_all(b"abc").unwrap();
    assert_accepted(&streamed.finish().unwrap().into_inner());
}

#[test]
fn invalid_and_damaged_zips_are_rejected() {
    for no_zip in [&b""[..], b"PK", b"hello", &vec![0; 70_000]] {
        assert_eq!(single_flaw(no_zip), "the file is not a zip archive");
    }
    assert_eq!(single_flaw(&zip(&[])), "the archive is empty");

    let archive = valid_archive();
    for cut in 1..archive.len() {
        single_flaw(&archive[..archive.len() - cut]);
    }
    let before = [&b"MZ"[..], &archive].concat();
    assert!(single_flaw(&before).starts_with("the archive is truncated or has extra data"));
    assert_eq!(single_flaw(&[&archive[..], b"more"].concat()), "the archive does not end at the declared offset");

    let mut damaged = archive.clone();
    damaged[60] ^= 0x55;
    let actual = single_flaw(&damaged);
    assert!(actual.starts_with("\"face_tools/__init__.py\" cannot be unpacked: "), "{actual}");
}

#[test]
fn no_changed_byte_causes_a_panic() {
    let archive = valid_archive();
    for at in 0..archive.len() {
        for bit in [1, 0x80] {
            let mut bytes = archive.clone();
            bytes[at] ^= bit;
            let result = check(Cursor::new(&bytes));
            assert!(!matches!(result, Err(ArchiveError::Io(_))), "byte {at}: {result:?}");
        }
    }
}

#[test]
fn entries_outside_the_archive_are_reported() {
    for (name, expected) in [
        ("../evil", "\"../evil\" leads out of its directory"),
        ("a/../../evil", "\"a/../../evil\" leads out of its directory"),
        ("a\\..\\..\\evil", "\"a\\\\..\\\\..\\\\evil\" leads out of its directory"),
        ("/etc/passwd", "\"/etc/passwd\" is an absolute path"),
        ("\\evil", "\"\\\\evil\" is an absolute path"),
        ("C:/evil", "\"C:/evil\" is an absolute path"),
        ("a\0.py", "\"a\\0.py\" contains a control character"),
        ("a\u{1b}[2J", "\"a\\u{1b}[2J\" contains a control character"),
        ("", "\"\" is empty"),
    ] {
        assert_eq!(
            single_flaw(&zip(&[ZipTestEntry::stored("good", b"x"), ZipTestEntry::stored(name, b"x")])),
            expected
        );
    }
}

#[test]
fn links_that_escape_or_are_traversed_are_rejected() {
    let leaves = "is a symbolic link that leaves the archive";
    for (name, target) in [("link", "/etc"), ("link", ".."), ("dir/link", "../../x"), ("a/link", "b/../../../x")] {
        assert_eq!(single_flaw(&zip(&[ZipTestEntry::link(name, target)])), format!("\"{name}\" {leaves}"));
    }

    let through = zip(&[ZipTestEntry::link("Dir", "other"), ZipTestEntry::stored("dir/file", b"x")]);
    assert_eq!(single_flaw(&through), "\"dir/file\" is inside \"Dir\", which is not a directory");

    // Nor by another spelling of the link's name, on systems that treat both as one.
    for (link, entry_below) in [("caf\u{e9}", "cafe\u{301}/x"), ("stra\u{df}e", "STRASSE/x"), ("link", "link. /x")] {
        let through = single_flaw(&zip(&[ZipTestEntry::link(link, "other"), ZipTestEntry::stored(entry_below, b"x")]));
        assert_eq!(through, format!("\"{entry_below}\" is inside \"{link}\", which is not a directory"));
    }

    let device = ZipTestEntry { attributes: 0o060_644 << 16, ..ZipTestEntry::stored("device", b"") };
    assert_eq!(single_flaw(&zip(&[device])), "\"device\" is neither a file, a directory nor a symbolic link");
}

#[test]
fn duplicate_names_are_rejected() {
    let flaw_of_duplicate =
        |a: &str, b: &str| single_flaw(&zip(&[ZipTestEntry::stored(a, b"1"), ZipTestEntry::stored(b, b"2")]));
    assert_eq!(flaw_of_duplicate("a", "a"), "\"a\" exists twice");
    assert_eq!(flaw_of_duplicate("Readme", "README"), "\"README\" is the same file as \"Readme\" on some systems");
    assert_eq!(flaw_of_duplicate("a/b", "a\\b"), "\"a\\\\b\" is the same file as \"a/b\" on some systems");

    for (first, second) in [("caf\u{e9}.py", "CAFE\u{301}.py"), ("ma\u{df}e", "MASSE"), ("a.py", "a.py. ")] {
        assert_eq!(
            flaw_of_duplicate(first, second),
            format!("\"{second}\" is the same file as \"{first}\" on some systems")
        );
    }
    assert_eq!(flaw_of_duplicate("a", "a/"), "\"a/\" is the same file as \"a\" on some systems");
    assert_eq!(flaw_of_duplicate("a", "a/b"), "\"a/b\" is inside \"a\", which is not a directory");
}

#[test]
fn many_conflicts_are_counted_and_the_first_reported() {
    let deep = |depth: usize| vec!["a"; depth].join("/");
    let mut entries: Vec<_> = (1..=480).map(|depth| ZipTestEntry::stored(&deep(depth), b"")).collect();
    entries.extend((0..9_500).map(|n| ZipTestEntry::stored(&format!("{}/{n}", deep(480)), b"")));
    let bytes = zip(&entries);
    let flaws = flaws_of(&bytes);
    assert_eq!((flaws.count(), flaws.reported().len()), (479 + 9_500, 20));
    assert_eq!(flaws.reported()[1], "\"a/a/a\" is inside \"a\", which is not a directory");
}

#[test]
fn zip_bombs_are_rejected_with_true_and_false_headers() {
    let bomb = ZipTestEntry::deflated("bomb", zeros(GIB));
    assert!(bomb.packed.len() < 8 << 20, "the bomb is too large to upload");
    assert_eq!(single_flaw(&zip(from_ref(&bomb))), "\"bomb\" unpacks to more than 200 times its size");
    let understated = ZipTestEntry { size: 1000, ..bomb.clone() };
    let actual = single_flaw(&zip(&[understated]));
    assert!(actual.starts_with("\"bomb\" cannot be unpacked: "), "{actual}");
    let bombs: Vec<_> = (0..5)
        .map(|n| ZipTestEntry { size: 1 << 28, ..ZipTestEntry::stored(&format!("{n}"), &vec![0; 1 << 21]) })
        .collect();
    let actual = single_flaw(&zip(&bombs));
    assert_eq!(actual, "the archive unpacks to 1342177280 bytes; at most 1073741824 are allowed");
}

#[test]
fn the_expansion_limit_covers_all_entries_together() {
    let small = ZipTestEntry::deflated("0", zeros(1 << 20));
    let bombs: Vec<_> =
        (0..1024).map(|n: u32| ZipTestEntry { name: n.to_string().into_bytes(), ..small.clone() }).collect();
    assert_eq!(single_flaw(&zip(&bombs)), "the archive unpacks to more than 200 times its size");
    assert_eq!(single_flaw(&zip(&bombs[..2])), "the archive unpacks to more than 200 times its size");
}

#[test]
fn contradictory_headers_are_rejected() {
    let entry = ZipTestEntry::stored("a", b"abc");
    for (lie, expected) in [
        (ZipTestEntry { size: 7, ..entry.clone() }, "\"a\" declares 7 bytes but has 3"),
        (ZipTestEntry { size: 2, ..entry.clone() }, "\"a\" cannot be unpacked: "),
        (ZipTestEntry { crc: 7, ..entry.clone() }, "\"a\" cannot be unpacked: "),
        (ZipTestEntry { flags: 1, ..entry.clone() }, "\"a\" is encrypted"),
        (ZipTestEntry { flags: 1 << 6, ..entry.clone() }, "\"a\" is encrypted"),
        (
            ZipTestEntry { method: 14, ..entry.clone() },
            "\"a\" uses compression method 14; only stored and deflated entries are allowed",
        ),
        (
            ZipTestEntry { local_name: Some(b"../b".to_vec()), ..entry.clone() },
            "the entries and the central directory differ: ",
        ),
    ] {
        let flaw = single_flaw(&zip(&[lie]));
        assert!(flaw.starts_with(expected), "the flaw is not {expected}: {flaw}");
    }

    for count in [0, 2] {
        single_flaw(&zip_with(from_ref(&entry), count));
    }
    let second = [entry, ZipTestEntry::stored("../evil", b"x")];
    assert_eq!(single_flaw(&zip_with(&second, 1)), "the archive declares 1 entries but has 2");
}

#[test]
fn overlapping_and_hidden_entries_are_rejected() {
    // The directory lists only the first entry; a reader that scans from the start finds the second as well.
    let first = ZipTestEntry::stored("a", b"1");
    let second = ZipTestEntry::stored("hidden", b"2");
    let (single, both) = (zip(from_ref(&first)), zip(&[first.clone(), second]));
    let directory = single.len() - 22 - 47..single.len() - 22;
    let entries = both.len() - 22 - 47 - 52;
    let mut bytes = [&both[..entries], &single[directory], &single[single.len() - 22..]].concat();
    let at = bytes.len() - 6;
    bytes[at..at + 4].copy_from_slice(&u32::try_from(entries).unwrap().to_le_bytes());
    assert_eq!(single_flaw(&bytes), "the archive has bytes that belong to no entry");

    // The directory lists the same bytes twice.
    let mut bytes = zip(&[first.clone(), ZipTestEntry { name: b"b".to_vec(), ..first }]);
    let at = bytes.len() - 22 - 1 - 4;
    bytes[at..at + 4].copy_from_slice(&[0; 4]);
    assert_eq!(single_flaw(&bytes), "entries of the archive overlap");
}

#[test]
fn the_number_of_entries_is_limited_and_twenty_flaws_are_reported() {
    let entries = |count: usize| (0..count).map(|n| ZipTestEntry::stored(&format!("{n}"), b"")).collect::<Vec<_>>();
    assert_accepted(&zip(&entries(10_000)));
    assert_eq!(single_flaw(&zip(&entries(10_001))), "the archive has 10001 entries; at most 10000 are allowed");
    let invalid: Vec<_> = (0..25).map(|n| ZipTestEntry::stored(&format!("../{n}"), b"")).collect();
    let flaws = flaws_of(&zip(&invalid));
    assert_eq!((flaws.count(), flaws.reported().len()), (25, 20));
}
