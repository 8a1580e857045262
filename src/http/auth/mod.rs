//! Authorization: who calls, and what they may do.

pub(super) mod account;
pub(super) mod authorize;
pub(super) mod personal_fields;
pub(super) mod stream_access;
