//! Fuzz target: picture from a client, decoded to its pixels.

#![no_main]

mod common;

libfuzzer_sys::fuzz_target!(init: common::abort_on_own_panics(), |bytes: &[u8]| {
    common::targets::picture(bytes);
});
