//! Requests at full speed.

use std::rc::Rc;

use super::{AttackTarget, flood};
use crate::http::request;
use crate::workload::Workload;

/// Connections of a flood.
const CONNECTIONS: usize = 64;
/// Number of connections whose requests the service holds for a minute.
const JUNK_BODIES: usize = 26;
/// Unknown elements of a body, of two bytes each.
const JUNK_ELEMENTS: usize = 98_000;

/// Requests list pages at full speed.
pub fn reads(target: &Rc<AttackTarget>) {
    let token = target.account.token.clone();
    flood(target, CONNECTIONS, move |iteration| {
        request("GET", &format!("/nodes?limit=100&page={}&sort=name", 1 + iteration % 20), &token, "").into()
    });
}

/// Changes nodes at full speed.
pub fn writes(target: &Rc<AttackTarget>) {
    let account = target.account.clone();
    flood(target, CONNECTIONS, move |iteration| Workload::Write.request(&account, 1, iteration).into());
}

/// Submits pictures at full speed.
pub fn submissions(target: &Rc<AttackTarget>) {
    let account = target.account.clone();
    flood(target, CONNECTIONS, move |iteration| Workload::Submission.request(&account, 1, iteration).into());
}

/// Sends video submissions with large bodies, without an account: by default, anonymous callers may create videos. The
/// requests wait for their videos, which queue.
pub fn junk_bodies(target: &Rc<AttackTarget>) {
    let junk = vec!["1"; JUNK_ELEMENTS].join(",");
    let body = format!(r#"{{"prompt": "hills", "duration": 1, "resolution": "360p", "junk": [{junk}]}}"#);
    let bytes: Rc<[u8]> = format!(
        "POST /proxy/videovendor/start-end2video HTTP/1.1\r\nHost: 127.0.0.1\r\nPrefer: wait=60\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
    .into();
    flood(target, JUNK_BODIES, move |_| bytes.clone());
}
