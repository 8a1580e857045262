//! Shared entry points of the targets, which the mutants of `cargo test` also use.

#[allow(dead_code, reason = "each target takes one of them")]
#[path = "../../../tests/child/mutants/targets.rs"]
pub mod targets;

/// Ends the process on a panic in our own code. The service catches panics of decoding crates, and treats the file as
/// damaged.
pub fn begin() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|place| place.file().contains("/registry/src/")) {
            usual(panic);
            std::process::abort();
        }
    }));
}
