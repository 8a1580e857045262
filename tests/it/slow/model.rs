//! The registry against a simple model: after random commands of several users, every list, filter, order, page, search
//! and bulk lookup must match the model; again after kill -9, and again after `mediary projections rebuild`.
//!
//! The suite tries the same cases at every run. `MODEL_CASES=100 MODEL_STEPS=200 cargo test --test it model::` tries
//! more and longer ones, and `MODEL_SEED` others; a failing case prints its seed.
//!
//! | Routes | Commands | Reads to compare |
//! |---|---|---|
//! | `/users` | erase oneself | as every user |
//! | `/users/publishers` | – | as every user |
//! | `/admin/users`, `…/{userId}` | create, change, erase | every page |
//! | `/admin/users/{userId}/tokens` | issue, revoke | masked; revoked tokens are rejected |
//! | `/admin/…/ban`, `…/unban` | users, publishers, nodes | status and reason, write access, lists |
//! | `/publishers`, `…/{publisherId}`, `…/validate`, `…/permissions` | create, change, delete | every field; with and without banned |
//! | `…/members/{userId}` | add, change, remove, leave | members, their rights |
//! | `/publishers/{publisherId}/tokens` | issue, revoke | masked; in the header and in the body of a publication |
//! | `/publishers/{publisherId}/nodes` | create, with and without a version | all, and page by page with `Link` |
//! | `…/nodes/{nodeId}`, `…/permissions` | change, delete | every field, in either case of the id |
//! | `…/versions`, `…/{versionId}` | publish, revise, delete | every field |
//! | `…/upload`, `/uploads/{ticket}` | upload links; good and bad archives | the archive |
//! | `/nodes`, `/nodes/search`, `/nodes/{nodeId}` | – | every filter, order and page, with and without the cache |
//! | `/nodes/{nodeId}/versions`, `…/{version}`, `…/download`, `/versions` | – | by status, by node, page by page |
//! | `…/{version}/files`, `…/files/content`, `…/diff` | – | the files of the archive |
//! | `/nodes/{nodeId}/statistics`, `…/badge.svg` | – | downloads and reviews; the text |
//! | `/nodes/{nodeId}/install` | install | downloads, once they are recorded |
//! | `/nodes/{nodeId}/reviews`, `…/translations` | review, translate | rating, own review, texts |
//! | `/admin/nodes/{nodeId}`, `…/versions/{version}` | fields, status | every field |
//! | `/bulk/nodes/versions` | – | every possible version |
//!
//! Some commands have an idempotency key, and are then repeated, and repeated with another body. Routes outside the
//! registry are left out; [`EXCLUDED`] lists them. The test fails if any other route of the table was never
//! requested.

mod check;
mod clients;
mod entities;
mod op;
mod request;
mod resources;
mod rules;
mod world;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use mediary::http::routes::route_infos;
use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use reqwest::Method;

use crate::support::process::{Process, run};
use clients::ModelClients;
use op::{ADMIN, JsonFields, ModelOp, ModelQuery, ModelStep};
use world::ModelWorld;

/// Number of cases in the suite, unless `MODEL_CASES` is set.
const CASES: u64 = 5;
/// Seed of the first case, unless `MODEL_SEED` is set; every further case has the next seed.
const FIRST_SEED: u64 = 0x5EED;
/// Maximum number of commands of a case before the kill, unless `MODEL_STEPS` is set; up to about half as many follow.
const STEPS: usize = 90;
/// Number of list queries of a case.
const QUERIES: usize = 25;
/// Maximum number of shorter cases tried after a failure, unless `MODEL_SHRINKS` is set.
const SHRINKS: u32 = 60;

/// Path prefixes of routes that the model leaves out, each with what they are about instead of the registry.
const EXCLUDED: [(&str, &str); 24] = [
    ("/health", "the service"),
    ("/ready", "the service"),
    ("/.well-known/", "callbacks"),
    ("/openapi", "the service"),
    ("/sign-in", "the service"),
    ("/models", "media tasks"),
    ("/docs", "the service"),
    ("/media/", "media tasks"),
    ("/files", "media tasks"),
    ("/uploads/files/", "media tasks"),
    ("/proxy/", "media tasks"),
    ("/tasks", "media tasks"),
    ("/vendor-webhooks", "vendors"),
    ("/deliveries", "callbacks"),
    ("/users/webhook-secret", "callbacks"),
    ("/publishers/{publisherId}/webhooks", "callbacks"),
    ("/publishers/{publisherId}/nodes/{nodeId}/icon", "pictures"),
    ("/publishers/{publisherId}/nodes/{nodeId}/banner", "pictures"),
    ("/users/credits", "media tasks"),
    ("/users/tokens", "the account"),
    ("/users/export", "the account"),
    ("/usage", "media tasks"),
    ("/admin/", "the event log: checkpoint, events, history, as-of, diff, state"),
    ("/metrics", "the service"),
];
/// Path prefixes below `/admin/` that the model covers nevertheless.
const COVERED_ADMIN_PATHS: [&str; 3] = ["/admin/users", "/admin/publishers", "/admin/nodes"];

/// Method and path of every request of all cases.
type RequestedRoutes = RefCell<BTreeSet<(Method, String)>>;

/// Returns the number in an environment variable, if it is set.
fn env_number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn the_registry_matches_its_model() {
    let cases = env_number("MODEL_CASES").unwrap_or(CASES);
    let requested_seed = env_number("MODEL_SEED");
    let first_seed = requested_seed.unwrap_or(FIRST_SEED);
    let steps = env_number("MODEL_STEPS").map_or(STEPS, |steps| usize::try_from(steps).expect("a number of steps"));

    let requested_routes = RequestedRoutes::default();
    for seed in first_seed..first_seed + cases {
        if let Err(error) = run_case(seed, steps, &requested_routes) {
            panic!("seed {seed} (to repeat: MODEL_SEED={seed} MODEL_CASES=1 MODEL_STEPS={steps}): {error}");
        }
    }

    // Other seeds and shorter cases may miss a route.
    if requested_seed.is_none() && steps >= STEPS {
        assert_eq!(
            unrequested_routes(&requested_routes.borrow()),
            [""; 0],
            "routes of the registry that no case requested"
        );
    }
}

/// Runs the case of a seed. If it fails, searches for a shorter one that fails too, and returns its error and commands.
fn run_case(seed: u64, steps: usize, requested_routes: &RequestedRoutes) -> Result<(), String> {
    let shrinks =
        env_number("MODEL_SHRINKS").map_or(SHRINKS, |shrinks| u32::try_from(shrinks).expect("a number of cases"));
    let config = Config { cases: 1, max_shrink_iters: shrinks, failure_persistence: None, ..Config::default() };
    let mut seed_bytes = [0; 32];
    seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes));

    let cases =
        (vec(op::any_step(), steps / 2..=steps), vec(op::any_step(), 1..=steps / 2 + 1), vec(op::any_query(), QUERIES));
    let outcome = runner.run(&cases, |(first, second, queries)| {
        let comparison = compare_across_restarts(&first, &second, &queries, requested_routes);
        actix_web::rt::System::new().block_on(comparison).map_err(TestCaseError::fail)
    });
    outcome.map_err(|error| match error {
        TestError::Fail(reason, (first, second, _)) => format!("{reason}\nfirst: {first:#?}\nthen: {second:#?}"),
        abort @ TestError::Abort(_) => abort.to_string(),
    })
}

/// Compares the reads with the model after the commands in `first`, after kill -9, after those in `second`, and after a
/// rebuild of the projections.
async fn compare_across_restarts(
    first: &[ModelStep],
    second: &[ModelStep],
    queries: &[ModelQuery],
    requested_routes: &RequestedRoutes,
) -> Result<(), String> {
    let data = tempfile::tempdir().unwrap();
    let mut world = ModelWorld::new();

    // Given a service with some users, when they send commands
    let mut clients = ModelClients::connect(Process::start(data.path())).await;
    clients.send_steps(&mut world, &first_users()).await?;
    clients.send_steps(&mut world, first).await?;

    // Then all reads match the model
    check::check_everything(&clients, &world, queries).await?;

    // And again after kill -9, and after further commands
    clients = clients.restart_after_kill(data.path(), |_| {});
    check::check_everything(&clients, &world, queries).await.map_err(|error| format!("after kill -9: {error}"))?;
    // The new process counts a repeated install once more.
    world.installed.clear();
    clients.send_steps(&mut world, second).await?;
    check::check_everything(&clients, &world, queries).await?;

    // And after the projections were rebuilt from the log
    clients = clients.restart_after_kill(data.path(), rebuild_projections);
    check::check_everything(&clients, &world, queries).await.map_err(|error| format!("after a rebuild: {error}"))?;
    requested_routes.borrow_mut().extend(clients.requested_routes.take());
    Ok(())
}

/// Returns the commands that create the first users.
fn first_users() -> Vec<ModelStep> {
    let create = |name: &str| {
        let fields: JsonFields = [("name".to_owned(), name.into())].into_iter().collect();
        ModelStep { caller: ADMIN, op: ModelOp::CreateUser { fields }, keyed: false }
    };
    ["una", "dua", "tria"].map(create).into()
}

impl ModelClients {
    /// Kills the service, calls `while_stopped` with its data directory, and starts the service again.
    fn restart_after_kill(mut self, data: &Path, while_stopped: impl FnOnce(&Path)) -> Self {
        self.service.kill();
        while_stopped(data);
        self.service = Process::start(data);
        self
    }
}

fn rebuild_projections(data: &Path) {
    run(data, &["projections", "rebuild"]).expect(0).assert_contains(&["events"]);
}

/// Returns the routes of the registry that were never requested, as method and path.
fn unrequested_routes(requested_routes: &BTreeSet<(Method, String)>) -> Vec<String> {
    let is_excluded = |path: &str| {
        !COVERED_ADMIN_PATHS.iter().any(|prefix| path.starts_with(prefix))
            && EXCLUDED.iter().any(|(prefix, _)| path.starts_with(prefix))
    };
    let matches_template = |template: &str, path: &str| {
        let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        template.len() == path.len()
            && template.iter().zip(path).all(|(part, segment)| part.starts_with('{') || *part == segment)
    };
    let was_requested = |route: &mediary::http::routes::RouteInfo| {
        requested_routes
            .iter()
            .any(|(method, path)| method.as_str() == route.method.as_str() && matches_template(route.path, path))
    };
    let routes = route_infos().into_iter().filter(|route| !is_excluded(route.path));
    routes.filter(|route| !was_requested(route)).map(|route| format!("{} {}", route.method, route.path)).collect()
}

#[test]
fn routes_missing_from_the_model_are_detected() {
    // Given cases that requested only one route
    let requested_routes = [(Method::GET, "/nodes/gamma/versions".to_owned())].into();

    // Then another route of the registry is reported, but neither the requested one nor any outside the registry
    let unrequested = unrequested_routes(&requested_routes);
    assert!(unrequested.contains(&"PUT /publishers/{publisherId}/nodes/{nodeId}".to_owned()), "{unrequested:?}");
    assert!(!unrequested.contains(&"GET /nodes/{nodeId}/versions".to_owned()), "{unrequested:?}");
    assert!(
        !unrequested.iter().any(|route| route.contains("/proxy/") || route.contains("/admin/events")),
        "{unrequested:?}"
    );
}
