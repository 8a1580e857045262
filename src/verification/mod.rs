//! Verification of a data directory, and exports that can be verified elsewhere with the public key of the log alone.
//! This module never changes the files that it reads.

pub mod directory;
pub mod export;
pub mod export_check;
mod personal_keys;
mod sled_copy;
mod snapshot_check;

use serde_json::{Value, json};

use crate::events::journal::hex;
use crate::events::verify::Finding;

/// Progress callback: bytes processed, and bytes in total.
pub type ProgressCallback<'p> = &'p mut dyn FnMut(u64, u64);

/// Intermediate result of a verification.
#[derive(Default)]
struct VerificationFindings {
    findings: Vec<Finding>,
    /// Parts that could not be verified.
    unverified: Vec<String>,
    notes: Vec<String>,
}

/// Formats a finding as a line for people.
#[must_use]
pub fn format_finding(finding: &Finding) -> String {
    let Finding { file, offset, position, problem } = finding;
    let offset = offset.map(|offset| format!(" at offset {offset}")).unwrap_or_default();
    let position = position.map(|position| format!(", position {position}")).unwrap_or_default();
    format!("{}{offset}{position}: {problem}", file.display())
}

/// Formats findings for machines.
fn findings_json(findings: &[Finding]) -> Value {
    let finding = |finding: &Finding| {
        let mut json = json!({"file": finding.file.display().to_string(), "what": finding.problem});
        if let Some(offset) = finding.offset {
            json["offset"] = offset.into();
        }
        if let Some(position) = finding.position {
            json["position"] = position.0.into();
        }
        json
    };
    findings.iter().map(finding).collect()
}

fn key_hex(key: Option<[u8; 32]>) -> Option<String> {
    key.map(|key| hex::encode(&key))
}
