//! A picture as a client sends it, to its pixels.

#![no_main]

mod common;

libfuzzer_sys::fuzz_target!(init: common::begin(), |bytes: &[u8]| {
    common::targets::picture(bytes);
});
