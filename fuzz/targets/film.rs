//! Fuzz target: video to extend.

#![no_main]

mod common;

libfuzzer_sys::fuzz_target!(init: common::begin(), |bytes: &[u8]| {
    common::targets::film(bytes);
});
