//! Shared entry points of the targets, which the mutants of `cargo test` also use.

#[allow(dead_code, reason = "each target takes one of them")]
#[path = "../../../tests/child/mutants/targets.rs"]
pub mod targets;

/// Makes a panic in our own code abort the process. The service catches panics of decoding crates, and treats the file
/// as damaged.
pub fn abort_on_own_panics() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|location| location.file().contains("/registry/src/")) {
            default_hook(panic);
            std::process::abort();
        }
    }));
}
