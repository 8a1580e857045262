//! Fuzz target: bytes of a group of a shared log.

#![no_main]

mod common;

libfuzzer_sys::fuzz_target!(init: common::abort_on_own_panics(), |bytes: &[u8]| {
    common::targets::group(bytes);
});
