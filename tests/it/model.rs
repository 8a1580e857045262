//! The registry against a simple model: random commands of several people, then every list, filter, order, page, search
//! and bulk look-up must say what the model says; again after kill -9, and again after `mediary projections rebuild`.
//!
//! The suite tries the same lives at every run. `MODEL_CASES=100 MODEL_STEPS=200 cargo test --test it model::` tries more and
//! longer ones, and `MODEL_SEED` others; a life that fails says its seed.
//!
//! | Routes | Commands | Read again |
//! |---|---|---|
//! | `/users` | erase oneself | as every user |
//! | `/users/publishers` | – | as every user |
//! | `/admin/users`, `…/{user_id}` | create, change, erase | every page |
//! | `/admin/users/{user_id}/tokens` | issue, revoke | masked; what is revoked opens nothing |
//! | `/admin/…/ban`, `…/unban` | users, publishers, nodes | status and reason, who may write, what lists show |
//! | `/publishers`, `…/{publisher_id}`, `…/validate`, `…/permissions` | create, change, delete | every field; with and without banned ones |
//! | `…/members/{user_id}` | take in, change, let go, leave | members, their rights |
//! | `/publishers/{publisher_id}/tokens` | issue, revoke | masked; in the header and in the body of a publication |
//! | `/publishers/{publisher_id}/nodes` | create, with a version and without | all, and page by page with `Link` |
//! | `…/nodes/{node_id}`, `…/permissions` | change, delete | every field, in either case of the id |
//! | `…/versions`, `…/{version_id}`, `…/upload`, `/uploads/{ticket}` | publish, revise, delete; links, good and bad archives | every field, the archive |
//! | `/nodes`, `/nodes/search`, `/nodes/{node_id}` | – | every filter, order and page, with and without the cache |
//! | `/nodes/{node_id}/versions`, `…/{version}`, `…/download`, `/versions` | – | by status, by node, page by page |
//! | `/nodes/{node_id}/install` | install | downloads, once they are recorded |
//! | `/nodes/{node_id}/reviews`, `…/translations` | give, translate | rating, own review, texts |
//! | `/admin/nodes/{node_id}`, `…/versions/{version}` | facts, status | every field |
//! | `/bulk/nodes/versions` | – | every version there could be |
//!
//! Some commands come with an idempotency key, then once more, then with another body. Left out, each for the reason that
//! [`EXCUSED`] tells: what is no part of the registry. That no route is forgotten, the test looks for itself: every other route
//! of the table must have been asked.

mod check;
mod look;
mod op;
mod people;
mod request;
mod rules;
mod things;
mod world;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use mediary::http::routes::rows;
use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use reqwest::Method;

use crate::support::process::{Process, run};
use op::{ADMIN, Op, Query, Said, Step};
use people::People;
use world::World;

/// Lives that the suite tries, commands of each before the kill (half as many follow), and lists that are asked for.
const CASES: u64 = 5;
const STEPS: usize = 90;
const LISTS: usize = 25;
/// Shorter lives that are tried where one disagrees, unless `MODEL_SHRINKS` says otherwise.
const SHRINKS: u32 = 60;

/// Beginnings of paths that the model leaves out.
const EXCUSED: [(&str, &str); 14] = [
    ("/health", "of the service"),
    ("/ready", "of the service"),
    ("/.well-known/", "of callbacks"),
    ("/openapi", "of the service"),
    ("/docs", "of the service"),
    ("/media/", "of media tasks"),
    ("/proxy/", "of media tasks"),
    ("/tasks", "of media tasks"),
    ("/hints", "of vendors"),
    ("/deliveries", "of callbacks"),
    ("/users/webhook-secret", "of callbacks"),
    ("/users/credits", "of media tasks"),
    ("/admin/", "questions about the log, not the registry: checkpoint, events, history, as-of, diff, state"),
    ("/metrics", "of the service"),
];
/// Of administrators, and of the registry all the same.
const ADMINISTERED: [&str; 3] = ["/admin/users", "/admin/publishers", "/admin/nodes"];

/// What was asked for in any life.
type Asked = RefCell<BTreeSet<(Method, String)>>;

fn number_in(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn the_registry_agrees_with_a_simple_model() {
    let [cases, seed, steps] = ["MODEL_CASES", "MODEL_SEED", "MODEL_STEPS"].map(number_in);
    let first = seed.unwrap_or(0x5EED);
    let steps = steps.map_or(STEPS, |steps| usize::try_from(steps).expect("a number of steps"));
    let asked = Asked::default();
    for seed in first..first + cases.unwrap_or(CASES) {
        if let Err(error) = try_life(seed, steps, &asked) {
            panic!("seed {seed} (again: MODEL_SEED={seed} MODEL_CASES=1 MODEL_STEPS={steps}): {error}");
        }
    }
    if seed.is_none() && steps >= STEPS {
        assert_eq!(forgotten(&asked.borrow()), [""; 0], "routes of the registry that no life has asked");
    }
}

/// One life, and where it disagrees, a shorter one that does too.
fn try_life(seed: u64, steps: usize, asked: &Asked) -> Result<(), String> {
    let shrinks =
        number_in("MODEL_SHRINKS").map_or(SHRINKS, |shrinks| u32::try_from(shrinks).expect("a number of lives"));
    let config = Config { cases: 1, max_shrink_iters: shrinks, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let lives = (vec(op::step(), steps / 2..=steps), vec(op::step(), 1..=steps / 2 + 1), vec(op::list(), LISTS));
    let outcome = runner.run(&lives, |(first, second, queries)| {
        let agreed = actix_web::rt::System::new().block_on(live_and_die(&first, &second, &queries, asked));
        agreed.map_err(TestCaseError::fail)
    });
    outcome.map_err(|error| match error {
        TestError::Fail(reason, (first, second, _)) => format!("{reason}\nfirst: {first:#?}\nthen: {second:#?}"),
        abort @ TestError::Abort(_) => abort.to_string(),
    })
}

async fn live_and_die(first: &[Step], second: &[Step], queries: &[Query], asked: &Asked) -> Result<(), String> {
    let data = tempfile::tempdir().unwrap();
    let mut world = World::new();
    // Given a service with some people, when they do things
    let mut people = People::arrive(Process::start(data.path())).await;
    people.act(&mut world, &births()).await?;
    people.act(&mut world, first).await?;
    // Then everything that can be asked is as the model says
    check::everything(&people, &world, queries).await?;
    // And so it is after kill -9, and when life goes on
    people = people.move_to(data.path(), |_| {});
    check::everything(&people, &world, queries).await.map_err(|error| format!("after kill -9: {error}"))?;
    world.installed.clear();
    people.act(&mut world, second).await?;
    check::everything(&people, &world, queries).await?;
    // And after everything that is read was made anew from the log
    people = people.move_to(data.path(), rebuild);
    check::everything(&people, &world, queries).await.map_err(|error| format!("after a rebuild: {error}"))?;
    asked.borrow_mut().extend(people.asked.take());
    Ok(())
}

/// The first users.
fn births() -> Vec<Step> {
    let born = |name: &str| {
        let said: Said = [("name".to_owned(), name.into())].into_iter().collect();
        Step { who: ADMIN, op: Op::CreateUser { said }, keyed: false }
    };
    ["una", "dua", "tria"].map(born).into()
}

impl People {
    /// The service is killed, something is done, and it is started again.
    fn move_to(mut self, data: &Path, between: impl FnOnce(&Path)) -> Self {
        self.service.kill();
        between(data);
        self.service = Process::start(data);
        self
    }
}

fn rebuild(data: &Path) {
    run(data, &["projections", "rebuild"]).expect(0).says(&["events"]);
}

/// The routes of the registry that were not asked.
fn forgotten(asked: &BTreeSet<(Method, String)>) -> Vec<String> {
    let excused = |path: &str| {
        !ADMINISTERED.iter().any(|own| path.starts_with(own))
            && EXCUSED.iter().any(|(beginning, _)| path.starts_with(beginning))
    };
    let answers = |template: &str, path: &str| {
        let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        template.len() == path.len()
            && template.iter().zip(path).all(|(part, given)| part.starts_with('{') || *part == given)
    };
    let rows = rows().into_iter().filter(|row| !excused(row.path));
    let was_asked = |row: &mediary::http::routes::Row| {
        asked.iter().any(|(method, path)| method.as_str() == row.method.as_str() && answers(row.path, path))
    };
    rows.filter(|row| !was_asked(row)).map(|row| format!("{} {}", row.method, row.path)).collect()
}

#[test]
fn a_route_that_no_life_asks_is_found() {
    // Given lives that asked for one route alone
    let asked = [(Method::GET, "/nodes/gamma/versions".to_owned())].into();
    // Then all others of the registry are named, and nothing else
    let forgotten = forgotten(&asked);
    assert!(forgotten.contains(&"PUT /publishers/{publisher_id}/nodes/{node_id}".to_owned()), "{forgotten:?}");
    assert!(!forgotten.contains(&"GET /nodes/{node_id}/versions".to_owned()), "{forgotten:?}");
    assert!(
        !forgotten.iter().any(|route| route.contains("/proxy/") || route.contains("/admin/events")),
        "{forgotten:?}"
    );
}
