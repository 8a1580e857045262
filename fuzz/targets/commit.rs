//! Fuzz target: bytes of a commit in the journal.

#![no_main]

mod common;

libfuzzer_sys::fuzz_target!(init: common::abort_on_own_panics(), |bytes: &[u8]| {
    common::targets::commit(bytes);
});
