//! The form of the music endpoint: its content type, a line feed, the body.

#![no_main]

mod common;

libfuzzer_sys::fuzz_target!(init: common::begin(), |bytes: &[u8]| {
    common::targets::form(bytes);
});
