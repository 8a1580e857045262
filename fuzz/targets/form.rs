//! Fuzz target: form of the music endpoint, as content type, line feed, and body.

#![no_main]

mod common;

libfuzzer_sys::fuzz_target!(init: common::abort_on_own_panics(), |bytes: &[u8]| {
    common::targets::form(bytes);
});
