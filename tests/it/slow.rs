//! Suites that take most of the time: kills, power cuts, damage and mutants. `cargo test -- --skip slow::` leaves them
//! out.

pub mod crash;
pub mod damage;
mod fail_points;
mod idempotency_crash;
mod mutants;
mod power_cut;
mod vendor_crash;
