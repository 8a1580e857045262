//! Fuzz target: bytes of a commit in the journal.

#![no_main]

mod common;

libfuzzer_sys::fuzz_target!(init: common::begin(), |bytes: &[u8]| {
    common::targets::commit(bytes);
});
