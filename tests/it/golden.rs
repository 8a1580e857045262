//! Golden files with the bytes of every kind of event: this release reads everything that any release wrote.
//! `UPDATE_GOLDEN=1` writes only the files of kinds that have none yet.

use std::fs;
use std::path::PathBuf;

use mediary::audit::record::RecordJson;
use mediary::domain::event::Event;
use mediary::domain::personal::PersonalValue;
use mediary::domain::user::UserEvent;
use mediary::events::codec;
use mediary::events::envelope::{Append, Commit, NewEvent};
use mediary::events::schema::{CommitDecodeError, VERSION};
use mediary::events::stream::{Position, Version};

use crate::samples;

fn commit_of(index: u128, event: Event) -> Commit {
    let events = vec![NewEvent { id: mediary::domain::ids::EventId(samples::id(index)), event }];
    let append = Append {
        stream: samples::task_stream(0x7A),
        expected: Version(4),
        context: samples::command_context(),
        events,
        guards: Vec::new(),
    };
    append.into_commit(Position(300))
}

/// Commit of one event, with the name of its files: its kind, and the job for submissions of further jobs.
struct GoldenSample {
    name: String,
    commit: Commit,
}

fn samples() -> Vec<GoldenSample> {
    let mut kinds: Vec<_> = samples::every_kind().into_iter().map(|event| (event.name().to_owned(), event)).collect();
    // The bytes contain the number of each sample: jobs got theirs before later kinds existed.
    let end_of = |kinds: &[(String, Event)], last: &str| kinds.iter().position(|(name, _)| name == last).unwrap() + 1;
    let token_samples = kinds.split_off(end_of(&kinds, "BudgetRemoved"));
    let budget_samples = kinds.split_off(end_of(&kinds, "DependenciesContinued"));
    let newest_samples = kinds.split_off(end_of(&kinds, "StreamCompleted"));
    let later_samples = kinds.split_off(end_of(&kinds, "TaskCancelled"));
    let jobs = samples::every_job().into_iter().map(|(job, event)| (format!("{}.{job}", event.name()), event));
    let priced = [("priced-image", samples::priced()), ("priced-music", samples::priced_music())];
    let priced = priced.map(|(job, event)| (format!("{}.{job}", event.name()), event));
    let paid = samples::paid();
    let paid = (format!("{}.paid", paid.name()), paid);
    let stored = samples::stored_music();
    let stored = (format!("{}.stored", stored.name()), stored);
    let further = samples::further().into_iter().map(|(job, event)| (format!("{}.{job}", event.name()), event));
    let event_deliveries = samples::event_deliveries().into_iter();
    let event_deliveries = event_deliveries.map(|(subject, event)| (format!("{}.{subject}", event.name()), event));
    let numbered = (1..).zip(
        kinds
            .into_iter()
            .chain(jobs)
            .chain(later_samples)
            .chain(further)
            .chain(newest_samples)
            .chain(priced)
            .chain(budget_samples)
            .chain([paid])
            .chain(token_samples)
            .chain(event_deliveries)
            .chain([stored]),
    );
    numbered.map(|(index, (name, event))| GoldenSample { name, commit: commit_of(index, event) }).collect()
}

fn golden_file(sample: &GoldenSample) -> PathBuf {
    golden_of(VERSION).join(format!("{}.hex", sample.name))
}

fn golden_of(version: u16) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/events/v{version}"))
}

/// Returns the events that a schema version wrote: name and bytes.
fn written_in(version: u16) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(golden_of(version)).unwrap().map(|entry| entry.unwrap().path());
    let read_hex = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, from_hex(&fs::read_to_string(&path).unwrap()))
    };
    files.map(read_hex).collect()
}

/// Encodes a commit of an event in version 1, with personal fields in plain text.
fn as_of_v1(commit: &Commit) -> Commit {
    let to_plain =
        |value: &Option<PersonalValue>, text: &str| value.as_ref().map(|_| PersonalValue::Plain(text.into()));
    let mut recorded = commit.to_vec();
    match &mut recorded[0].event {
        Event::User(UserEvent::UserCreated(created)) => {
            created.email = to_plain(&created.email, "ada@example.com");
            created.name = to_plain(&created.name, "Ada 日本");
        }
        Event::User(UserEvent::UserRevised { change }) => change.name = to_plain(&change.name, "Ada"),
        _ => {}
    }
    recorded.into()
}

fn json_file(sample: &GoldenSample) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/json");
    directory.join(format!("{}.json", sample.name))
}

fn encoded(commit: &Commit) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::encode(commit, &mut bytes).unwrap();
    bytes
}

/// Encodes in hexadecimal, in lines of 32 bytes.
fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        text.extend(line.iter().map(|byte| format!("{byte:02x}")));
        text.push('\n');
    }
    text
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn stored_events_match_the_golden_files() {
    for sample in samples() {
        let GoldenSample { name, commit } = &sample;
        let (file, bytes) = (golden_file(&sample), encoded(commit));
        if std::env::var_os("UPDATE_GOLDEN").is_some() && !file.exists() {
            fs::write(&file, to_hex(&bytes)).unwrap();
        }
        let golden = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(to_hex(&bytes), golden, "the bytes of {name} have changed");
        assert_eq!(codec::decode(&from_hex(&golden)).as_ref(), Ok(commit), "{}", file.display());
    }
}

#[test]
fn event_json_matches_the_golden_files() {
    for sample in samples() {
        let GoldenSample { name, commit } = &sample;
        let file = json_file(&sample);
        let record = RecordJson::from(&commit[0]);
        let actual = format!("{:#}\n", serde_json::to_value(&record).unwrap());
        if std::env::var_os("UPDATE_GOLDEN").is_some() && !file.exists() {
            fs::write(&file, &actual).unwrap();
        }
        let golden = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(actual, golden, "the JSON of {name} has changed");
        // The bytes over which exports are checked: the same members, sorted, without whitespace, none missing.
        let canonical = record.canonical();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&canonical).unwrap(),
            serde_json::to_value(&record).unwrap()
        );
        assert!(!canonical.contains("null") && !canonical.contains('\n'), "{canonical}");
        assert_eq!(record.kind, commit[0].event.name());
    }
}

#[test]
fn every_golden_file_belongs_to_an_event() {
    for path_of in [golden_file, json_file] {
        let known_paths: Vec<_> = samples().iter().map(path_of).collect();
        let directory = known_paths[0].parent().unwrap();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            assert!(known_paths.contains(&path), "{} is no longer read by any test", path.display());
        }
    }
}

#[test]
fn an_unknown_value_is_an_error_that_names_its_field() {
    let submitted = samples().into_iter().find(|sample| sample.name == "TaskSubmitted").unwrap();
    let mut bytes = encoded(&submitted.commit);
    let at = bytes.windows(4).position(|window| window == b"webp").unwrap();
    bytes[at] = b'x';
    assert!(matches!(codec::decode(&bytes), Err(CommitDecodeError::Value { field: "picture format", .. })));
}

#[test]
fn version_1_events_keep_their_meaning() {
    let samples = samples();
    let written = written_in(1);
    assert_eq!(written.len(), 43, "no golden file of version 1 is missing");
    for (name, bytes) in written {
        assert_eq!(bytes[..2], [1, 0], "{name}");
        let commit = samples.iter().find(|sample| sample.name == name).map(|sample| as_of_v1(&sample.commit));
        assert_eq!(codec::decode(&bytes).ok(), commit, "{name}");
    }
}

#[test]
fn version_1_events_convert_to_the_newest_version_without_loss() {
    for (name, bytes) in written_in(1) {
        let commit = codec::decode(&bytes).unwrap();
        let reencoded = encoded(&commit);
        assert_eq!(reencoded[..2], VERSION.to_le_bytes(), "{name}");
        assert_eq!(codec::decode(&reencoded), Ok(commit), "{name}");
    }
}

/// Chain and CRC of the journal detect all damage before a record is decoded; the decoder must not panic anyway.
#[test]
fn damaged_bytes_never_decode_to_the_original_event() {
    for (name, bytes) in (1..=VERSION).flat_map(written_in) {
        let intact = codec::decode(&bytes).unwrap();
        for length in 0..bytes.len() {
            assert!(codec::decode(&bytes[..length]).is_err(), "{name} cut to {length} bytes");
        }
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(codec::decode(&damaged).as_ref(), Ok(&intact), "{name} with bit {bit} flipped");
        }
        // Most events are the same in every version, so the version bytes stay as they are here.
        for at in size_of_val(&VERSION)..bytes.len() {
            for value in [0, 1, 0x7f, 0xfb, 0xfd, 0xff].into_iter().filter(|value| *value != bytes[at]) {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                assert_ne!(codec::decode(&damaged).as_ref(), Ok(&intact), "{name} with byte {at} replaced");
            }
        }
    }
}
