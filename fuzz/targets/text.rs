//! Fuzz target: text of a picture field.

#![no_main]

mod common;

libfuzzer_sys::fuzz_target!(init: common::abort_on_own_panics(), |bytes: &[u8]| {
    common::targets::text(bytes);
});
