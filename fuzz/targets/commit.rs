//! The bytes of a commit, as the journal holds them.

#![no_main]

mod common;

libfuzzer_sys::fuzz_target!(init: common::begin(), |bytes: &[u8]| {
    common::targets::commit(bytes);
});
