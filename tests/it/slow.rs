//! Suites that take most of the time: kills, power cuts, damage, mutants, random commands and measured memory.
//! `cargo test -- --skip slow::` leaves them out.

pub mod crash;
pub mod damage;
mod decode_memory;
mod fail_points;
mod idempotency_crash;
mod model;
mod mutants;
mod power_cut;
mod profile_crash;
mod vendor_crash;
