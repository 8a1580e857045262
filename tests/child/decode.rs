//! Memory that inspecting and decoding a picture takes, measured in a process of its own.

use std::path::Path;

use mediary::media::decoders::PictureDecoders;

/// Prints `figures INSPECTING DECODING ESTIMATED GOOD`: the memory that inspecting and decoding took and the estimate
/// that the service reserves, all in bytes, and 1 if both succeeded, otherwise 0.
pub fn print_memory_of(file: &Path) {
    let bytes = std::fs::read(file).unwrap();
    // A budget that no picture exceeds.
    let decoders = PictureDecoders::new(1 << 40);
    let (is_inspected, inspecting) = measure_peak(|| decoders.inspect(&bytes).is_ok());
    let (is_decoded, decoding) = measure_peak(|| decoders.decode(&bytes).is_ok());
    let estimated = decoders.memory_needed(&bytes).unwrap_or(0);
    println!("figures {inspecting} {decoding} {estimated} {}", u8::from(is_inspected && is_decoded));
}

/// Runs `work`. Returns its result and the peak growth of the process's resident memory, in bytes.
fn measure_peak(work: impl FnOnce() -> bool) -> (bool, u64) {
    // Resets `VmHWM` to the current size, see proc(5).
    std::fs::write("/proc/self/clear_refs", "5").expect("the kernel resets the peak");
    let before = status_bytes("VmRSS:");
    let result = work();
    (result, status_bytes("VmHWM:").saturating_sub(before))
}

/// Returns the value of a line of `/proc/self/status`, in bytes.
fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process runs on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of this name");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
