//! What the targets share: the functions of the service that the mutants of `cargo test` go through too.

#[allow(dead_code, reason = "each target takes one of them")]
#[path = "../../../tests/it/mutants/targets.rs"]
pub mod targets;

/// Ends the process at a panic of our own. The service catches those of the crates that decode, and calls the file damaged.
pub fn begin() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|place| place.file().contains("/registry/src/")) {
            usual(panic);
            std::process::abort();
        }
    }));
}
