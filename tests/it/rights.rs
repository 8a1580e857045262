//! Permissions on every route: each kind of caller sends a request that would otherwise succeed, and the response must
//! match the policy table and the rule of bans. A new route needs one line in `rights/cases.rs`.

mod cases;
mod world;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use mediary::domain::policy::{Action, CallerRole};
use mediary::http::routes::route_infos;

use crate::support::TestResponse;
use cases::{RightsCase, cases};
use world::{RightsFixture, RightsWorld};

/// Number of cells of the matrix tried concurrently.
const AT_ONCE: usize = 8;
/// Deadline for requests of which an account may send only one at a time.
const EXCLUSIVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Kind of caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RightsCaller {
    Anonymous,
    /// User without a publisher.
    Stranger,
    Member,
    Owner,
    /// Read-only token of the owner.
    ReadOnlyOwner,
    /// Owner of another publisher.
    ForeignOwner,
    /// Token of the publisher.
    OwnToken,
    /// Token of another publisher.
    OtherToken,
    /// Banned owner.
    BannedUser,
    /// Token of the publisher that the banned owner created before the ban.
    TokenOfBannedUser,
    Admin,
    /// Owner of a banned publisher.
    OwnerOfBanned,
    /// Token of a banned publisher.
    TokenOfBanned,
}

impl RightsCaller {
    const ALL: [Self; 13] = [
        Self::Anonymous,
        Self::Stranger,
        Self::Member,
        Self::Owner,
        Self::ReadOnlyOwner,
        Self::ForeignOwner,
        Self::OwnToken,
        Self::OtherToken,
        Self::BannedUser,
        Self::TokenOfBannedUser,
        Self::Admin,
        Self::OwnerOfBanned,
        Self::TokenOfBanned,
    ];

    fn role(self) -> CallerRole {
        match self {
            Self::Anonymous => CallerRole::Anonymous,
            Self::Stranger | Self::ForeignOwner => CallerRole::User,
            Self::Member => CallerRole::Member,
            Self::Owner | Self::ReadOnlyOwner | Self::BannedUser | Self::OwnerOfBanned => CallerRole::Owner,
            Self::OwnToken | Self::TokenOfBannedUser | Self::TokenOfBanned => CallerRole::OwnToken,
            Self::OtherToken => CallerRole::OtherToken,
            Self::Admin => CallerRole::Admin,
        }
    }

    /// `true` if the caller's publisher is banned.
    pub fn has_banned_publisher(self) -> bool {
        matches!(self, Self::OwnerOfBanned | Self::TokenOfBanned)
    }

    /// `true` if a ban keeps the caller from changing anything, or anything that concerns the publisher.
    fn is_blocked_by_ban(self, concerns_publisher: bool) -> bool {
        match self {
            Self::BannedUser | Self::TokenOfBannedUser | Self::TokenOfBanned => true,
            Self::OwnerOfBanned => concerns_publisher,
            _ => false,
        }
    }
}

/// Expected response: a status, and the error code of a rejection.
#[derive(Debug, PartialEq, Eq)]
struct RightsOutcome {
    status: u16,
    error: Option<&'static str>,
}

impl RightsOutcome {
    const fn success(status: u16) -> Self {
        Self { status, error: None }
    }

    const fn rejection(status: u16, error: &'static str) -> Self {
        Self { status, error: Some(error) }
    }
}

/// Returns the response that the policy and the rule of bans demand.
fn expected_outcome(case: &RightsCase, caller: RightsCaller) -> RightsOutcome {
    let action = case.action;
    let concerns_publisher = ["{publisherId}", "{nodeId}", "{ticket}"].iter().any(|name| case.path.contains(name));
    if !action.allows(caller.role()) {
        return match caller {
            RightsCaller::Anonymous => RightsOutcome::rejection(401, "unauthorized"),
            _ => RightsOutcome::rejection(403, "forbidden"),
        };
    }
    // A remote vendor makes the videos in this test, and it serves only callers with a token.
    if action == Action::SubmitVideoTask && caller == RightsCaller::Anonymous {
        return RightsOutcome::rejection(401, "unauthorized");
    }
    if case.writes() && caller == RightsCaller::ReadOnlyOwner {
        return RightsOutcome::rejection(403, "forbidden");
    }
    if case.is_for_others && caller == RightsCaller::Member {
        return RightsOutcome::rejection(403, "forbidden");
    }
    if case.writes() && caller.is_blocked_by_ban(concerns_publisher) {
        return RightsOutcome::rejection(403, "banned");
    }
    if case.withheld && caller.has_banned_publisher() {
        return RightsOutcome::rejection(403, "banned");
    }
    let is_owner = matches!(caller, RightsCaller::Owner | RightsCaller::ReadOnlyOwner | RightsCaller::OwnerOfBanned);
    if case.for_owner && !is_owner && caller != RightsCaller::Admin {
        return RightsOutcome::rejection(404, "not_found");
    }
    if case.ends_caller() && caller == RightsCaller::Admin {
        return RightsOutcome::rejection(409, "conflict");
    }
    RightsOutcome::success(case.success)
}

#[test]
fn every_route_has_exactly_one_case() {
    let served: BTreeSet<_> =
        route_infos().iter().map(|row| format!("{} {}: {:?}", row.method, row.path, row.action)).collect();
    let cases = cases();
    let covered: BTreeSet<_> =
        cases.iter().map(|item| format!("{} {}: {:?}", item.method, item.path, item.action)).collect();
    let without_case: Vec<_> = served.difference(&covered).collect();
    let without_route: Vec<_> = covered.difference(&served).collect();
    assert!(without_case.is_empty(), "each of these needs a line in rights/cases.rs: {without_case:#?}");
    assert!(without_route.is_empty(), "the route does not exist, or has another action: {without_route:#?}");
    assert_eq!(covered.len(), cases.len(), "a case is listed twice");
}

#[actix_web::test]
async fn every_caller_is_authorized_as_the_policy_states() {
    let world = RightsWorld::new().await;
    let cases = cases();
    let cells = cases.iter().flat_map(|case| RightsCaller::ALL.map(|caller| (case, caller)));
    let checks = futures_util::stream::iter(cells).map(|(case, caller)| try_cell(&world, case, caller));
    let results: Vec<Option<String>> = checks.buffer_unordered(AT_ONCE).collect().await;
    let mismatches: Vec<String> = results.into_iter().flatten().collect();

    assert!(mismatches.is_empty(), "{} cells are wrong:\n{}", mismatches.len(), mismatches.join("\n"));
    world.stop().await;
}

/// Sends the request; returns a description of an unexpected response.
async fn try_cell(world: &RightsWorld, case: &RightsCase, caller: RightsCaller) -> Option<String> {
    let expected = expected_outcome(case, caller);
    // Rejected requests change nothing, so they share fixtures; successful ones need their own.
    let needs_own_fixture = expected.error.is_none() && (case.writes() || !case.before.is_empty());
    let fresh_fixture;
    let fixture: &RightsFixture = if needs_own_fixture {
        fresh_fixture = world.fixture(caller.has_banned_publisher()).await;
        for step in &case.before {
            world.prepare(&fresh_fixture, step).await;
        }
        &fresh_fixture
    } else {
        world.shared_fixture(caller.has_banned_publisher())
    };

    let deadline = Instant::now() + EXCLUSIVE_TIMEOUT;
    let mut response = world.send(fixture, case, caller).await;
    // Concurrent cells may use the same account.
    while case.is_exclusive() && response.status == 429 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
        response = world.send(fixture, case, caller).await;
    }

    let is_expected =
        response.status == expected.status && expected.error.is_none_or(|error| error_code_of(&response) == error);
    if is_expected {
        return None;
    }
    let RightsCase { method, path, .. } = case;
    Some(format!("{method} {path} by {caller:?}: {} instead of {expected:?}: {}", response.status, response.text()))
}

/// Returns the error code in the body of a response; empty without one.
fn error_code_of(response: &TestResponse) -> String {
    let body: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
    body["error"].as_str().unwrap_or_default().to_owned()
}

#[actix_web::test]
async fn a_path_with_another_publisher_gives_no_access() {
    let world = RightsWorld::new().await;
    for case in cases().iter().filter(|case| case.path.contains("{publisherId}/nodes/{nodeId}")) {
        let mixed = world.open_fixture().with_publisher_of(world.foreign_fixture());
        let response = world.send(&mixed, case, RightsCaller::ForeignOwner).await;
        let status = if is_publication(case) { 409 } else { 404 };
        assert_eq!(response.status, status, "{} {}: {}", case.method, case.path, response.text());
    }
    world.stop().await;
}

#[actix_web::test]
async fn a_path_with_another_node_gives_no_access() {
    let world = RightsWorld::new().await;
    let fixture = world.open_fixture();
    let second = world.second_node().await;
    for case in cases().iter().filter(|case| case.path.contains("{versionId}")) {
        let mixed = fixture.with_node(second.clone());
        let response = world.send(&mixed, case, RightsCaller::Owner).await;
        assert_eq!(response.status, 404, "{} {}: {}", case.method, case.path, response.text());
    }
    world.stop().await;
}

#[actix_web::test]
async fn missing_resources_are_404_for_administrators() {
    let world = RightsWorld::new().await;
    for case in cases().iter().filter(|case| case.path.contains('{')) {
        let response = world.send(&RightsFixture::nowhere(), case, RightsCaller::Admin).await;
        // A forged link reveals nothing about existing resources.
        let is_link = matches!(case.action, Action::UploadArchive | Action::UploadFile);
        let status = if is_link { 403 } else { 404 };
        assert_eq!(response.status, status, "{} {}: {}", case.method, case.path, response.text());
    }
    world.stop().await;
}

#[actix_web::test]
async fn an_invalid_token_is_rejected_even_on_public_routes() {
    let world = RightsWorld::new().await;
    for case in cases() {
        let response = world.send_with(world.open_fixture(), &case, Some("mdu_nonsense")).await.expect(401);
        let challenge = response.header("www-authenticate");
        assert_eq!(challenge, Some("Bearer error=\"invalid_token\""), "{} {}", case.method, case.path);
    }
    world.stop().await;
}

/// `true` for publications, which create a missing node; the foreign node of this test is therefore an id in use.
fn is_publication(case: &RightsCase) -> bool {
    case.action == Action::PublishVersion && !case.path.contains("{versionId}")
}
