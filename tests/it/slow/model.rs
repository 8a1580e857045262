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
//! registry are left out, each for the reason in [`EXCLUDED`]. The test fails if any other route of the table was never
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

/// Number of cases in the suite.
const CASES: u64 = 5;
/// Maximum number of commands of a case before the kill; at most half as many follow.
const STEPS: usize = 90;
/// Number of lists that a case requests.
const LISTS: usize = 25;
/// Maximum number of shorter cases tried after a failure, unless `MODEL_SHRINKS` is set.
const SHRINKS: u32 = 60;

/// Path prefixes that the model leaves out, each with the area to which its routes belong.
const EXCLUDED: [(&str, &str); 24] = [
    ("/health", "of the service"),
    ("/ready", "of the service"),
    ("/.well-known/", "of callbacks"),
    ("/openapi", "of the service"),
    ("/sign-in", "of the service"),
    ("/models", "of media tasks"),
    ("/docs", "of the service"),
    ("/media/", "of media tasks"),
    ("/files", "of media tasks"),
    ("/uploads/files/", "of media tasks"),
    ("/proxy/", "of media tasks"),
    ("/tasks", "of media tasks"),
    ("/vendor-webhooks", "of vendors"),
    ("/deliveries", "of callbacks"),
    ("/users/webhook-secret", "of callbacks"),
    ("/publishers/{publisherId}/webhooks", "of callbacks"),
    ("/publishers/{publisherId}/nodes/{nodeId}/icon", "pictures"),
    ("/publishers/{publisherId}/nodes/{nodeId}/banner", "pictures"),
    ("/users/credits", "of media tasks"),
    ("/users/tokens", "of the account"),
    ("/users/export", "of the account"),
    ("/usage", "of media tasks"),
    ("/admin/", "questions about the log, not the registry: checkpoint, events, history, as-of, diff, state"),
    ("/metrics", "of the service"),
];
/// Exceptions: paths of administrators that belong to the registry.
const ADMINISTERED: [&str; 3] = ["/admin/users", "/admin/publishers", "/admin/nodes"];

/// Requested routes of all cases.
type RequestedRoutes = RefCell<BTreeSet<(Method, String)>>;

fn number_in(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn the_registry_matches_its_model() {
    let [cases, seed, steps] = ["MODEL_CASES", "MODEL_SEED", "MODEL_STEPS"].map(number_in);
    let first = seed.unwrap_or(0x5EED);
    let steps = steps.map_or(STEPS, |steps| usize::try_from(steps).expect("a number of steps"));
    let requested_routes = RequestedRoutes::default();
    for seed in first..first + cases.unwrap_or(CASES) {
        if let Err(error) = run_case(seed, steps, &requested_routes) {
            panic!("seed {seed} (again: MODEL_SEED={seed} MODEL_CASES=1 MODEL_STEPS={steps}): {error}");
        }
    }
    if seed.is_none() && steps >= STEPS {
        assert_eq!(
            unrequested_routes(&requested_routes.borrow()),
            [""; 0],
            "routes of the registry that no case has requested"
        );
    }
}

/// Runs one case; if it fails, searches for a shorter one that fails too.
fn run_case(seed: u64, steps: usize, requested_routes: &RequestedRoutes) -> Result<(), String> {
    let shrinks =
        number_in("MODEL_SHRINKS").map_or(SHRINKS, |shrinks| u32::try_from(shrinks).expect("a number of cases"));
    let config = Config { cases: 1, max_shrink_iters: shrinks, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let cases = (vec(op::step(), steps / 2..=steps), vec(op::step(), 1..=steps / 2 + 1), vec(op::list(), LISTS));
    let outcome = runner.run(&cases, |(first, second, queries)| {
        let agreed =
            actix_web::rt::System::new().block_on(compare_across_restarts(&first, &second, &queries, requested_routes));
        agreed.map_err(TestCaseError::fail)
    });
    outcome.map_err(|error| match error {
        TestError::Fail(reason, (first, second, _)) => format!("{reason}\nfirst: {first:#?}\nthen: {second:#?}"),
        abort @ TestError::Abort(_) => abort.to_string(),
    })
}

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
    clients.act(&mut world, &first_users()).await?;
    clients.act(&mut world, first).await?;

    // Then all reads match the model
    check::check_everything(&clients, &world, queries).await?;

    // And again after kill -9 and further commands
    clients = clients.move_to(data.path(), |_| {});
    check::check_everything(&clients, &world, queries).await.map_err(|error| format!("after kill -9: {error}"))?;
    world.installed.clear();
    clients.act(&mut world, second).await?;
    check::check_everything(&clients, &world, queries).await?;

    // And after the projections were rebuilt from the log
    clients = clients.move_to(data.path(), rebuild);
    check::check_everything(&clients, &world, queries).await.map_err(|error| format!("after a rebuild: {error}"))?;
    requested_routes.borrow_mut().extend(clients.requested_routes.take());
    Ok(())
}

/// Returns the steps that create the first users.
fn first_users() -> Vec<ModelStep> {
    let create = |name: &str| {
        let fields: JsonFields = [("name".to_owned(), name.into())].into_iter().collect();
        ModelStep { caller: ADMIN, op: ModelOp::CreateUser { fields }, keyed: false }
    };
    ["una", "dua", "tria"].map(create).into()
}

impl ModelClients {
    /// Kills the service, calls `between`, and starts the service again.
    fn move_to(mut self, data: &Path, between: impl FnOnce(&Path)) -> Self {
        self.service.kill();
        between(data);
        self.service = Process::start(data);
        self
    }
}

fn rebuild(data: &Path) {
    run(data, &["projections", "rebuild"]).expect(0).assert_contains(&["events"]);
}

/// Routes of the registry that were never requested.
fn unrequested_routes(requested_routes: &BTreeSet<(Method, String)>) -> Vec<String> {
    let is_excluded = |path: &str| {
        !ADMINISTERED.iter().any(|prefix| path.starts_with(prefix))
            && EXCLUDED.iter().any(|(beginning, _)| path.starts_with(beginning))
    };
    let matches_template = |template: &str, path: &str| {
        let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        template.len() == path.len()
            && template.iter().zip(path).all(|(part, segment)| part.starts_with('{') || *part == segment)
    };
    let rows = route_infos().into_iter().filter(|row| !is_excluded(row.path));
    let was_requested = |row: &mediary::http::routes::RouteInfo| {
        requested_routes
            .iter()
            .any(|(method, path)| method.as_str() == row.method.as_str() && matches_template(row.path, path))
    };
    rows.filter(|row| !was_requested(row)).map(|row| format!("{} {}", row.method, row.path)).collect()
}

#[test]
fn routes_missing_from_the_model_are_detected() {
    // Given cases that requested only one route
    let requested_routes = [(Method::GET, "/nodes/gamma/versions".to_owned())].into();

    // Then exactly the other routes of the registry are reported
    let forgotten = unrequested_routes(&requested_routes);
    assert!(forgotten.contains(&"PUT /publishers/{publisherId}/nodes/{nodeId}".to_owned()), "{forgotten:?}");
    assert!(!forgotten.contains(&"GET /nodes/{nodeId}/versions".to_owned()), "{forgotten:?}");
    assert!(
        !forgotten.iter().any(|route| route.contains("/proxy/") || route.contains("/admin/events")),
        "{forgotten:?}"
    );
}
