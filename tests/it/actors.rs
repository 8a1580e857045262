//! Actors on an in-memory log: atomic commands, one live actor per stream, bounded queues, recovery after a panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use mediary::actors::CommandContext;
use mediary::actors::aggregate::CommandEffect;
use mediary::actors::error::CommandError;
use mediary::actors::projector::rebuild;
use mediary::actors::router::RouterOptions;
use mediary::actors::system::{ActorOptions, Actors, Dispatch};
use mediary::domain::claim::{IdempotencyClaim, RETENTION};
use mediary::domain::ids::{NodeId, PublisherId, UserId};
use mediary::domain::node::{NodeAdminFields, NodeCommand, NodeFields};
use mediary::domain::publisher::{PublisherAdminFields, PublisherCommand, PublisherFields, PublisherRejection};
use mediary::domain::value::{Digest, Name, Timestamp};
use mediary::environment::{Environment, FailPoint};
use mediary::events::envelope::CommandClaim;
use mediary::events::log::EventLog;
use mediary::events::stream::Position;
use mediary::projections::ReadModels;
use mediary::projections::read_models::Models;
use mediary::telemetry::metrics::Metrics;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::support::eventually::eventually;
use crate::support::slow_log::SlowLog;

struct ActorFixture {
    log: Arc<SlowLog>,
    models: ReadModels,
    actors: Actors,
}

const OPTIONS: ActorOptions = ActorOptions {
    writer_queue: 64,
    router: RouterOptions { queue: 256, mailbox: 4, idle: Duration::from_millis(40) },
};

async fn start_fixture(environment: Environment, options: ActorOptions) -> ActorFixture {
    let log = SlowLog::new();
    let models = ReadModels::new(log.clone(), Models::default());
    let actors = Actors::start(log.clone(), models.clone(), environment, options, Metrics::default()).await;
    ActorFixture { log, models, actors }
}

fn id(name: &str) -> PublisherId {
    PublisherId::parse(name).unwrap()
}

fn command_context() -> CommandContext {
    CommandContext::from_system(None, Timestamp::from_micros(1))
}

fn create(name: &str) -> PublisherCommand {
    PublisherCommand::Create {
        id: id(name),
        owner: UserId(Uuid::nil()),
        fields: PublisherFields::default(),
        admin_fields: PublisherAdminFields::default(),
    }
}

fn rename(name: &str) -> PublisherCommand {
    PublisherCommand::Revise {
        change: PublisherFields { name: Some(Name::parse(name).unwrap()), ..PublisherFields::default() },
        admin_fields: PublisherAdminFields::default(),
    }
}

async fn send_command(
    dispatch: &Dispatch,
    publisher: &str,
    command: PublisherCommand,
) -> Result<CommandEffect, CommandError<PublisherRejection>> {
    dispatch.publisher(&id(publisher), command, command_context()).await
}

async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[actix_web::test]
async fn decide_and_append_are_atomic() {
    // Given a record of the order in which commands of one publisher are decided and appended
    let order = Arc::new(Mutex::new(Vec::new()));
    let recorded = order.clone();
    let environment = Environment::system().with_fail_point_handler(Arc::new(move |point, _| {
        if matches!(point, FailPoint::Decide | FailPoint::Append) {
            recorded.lock().push(point);
        }
    }));
    let ActorFixture { log, actors, .. } = start_fixture(environment, OPTIONS).await;

    // When three of them are in the mailbox before the first is appended
    let results = join_all((0..3).map(|_| send_command(&actors.dispatch, "acme", create("acme")))).await;
    let results: Vec<_> = results.into_iter().map(|result| result.map(|effect| effect.changed)).collect();

    // Then no command is decided between another one's decision and its append
    assert_eq!(*order.lock(), [FailPoint::Decide, FailPoint::Append, FailPoint::Decide, FailPoint::Decide]);

    // And each sees the effect of the first: the rule rejects it, not a version conflict
    let already_exists = Err(CommandError::Rejected(PublisherRejection::AlreadyExists));
    assert_eq!(results, [Ok(true), already_exists.clone(), already_exists]);
    assert_eq!(log.head(), Position(1));
}

#[actix_web::test]
async fn concurrent_commands_share_a_sync() {
    let ActorFixture { log, actors, models } = start_fixture(Environment::system(), OPTIONS).await;

    // Given one append in progress
    log.hold();
    let dispatch = actors.dispatch.clone();
    let first = actix_web::rt::spawn(async move { send_command(&dispatch, "p0", create("p0")).await });
    let shared_log = log.clone();
    off_thread(move || shared_log.wait_for_append()).await;

    // When forty more commands arrive
    let names: Vec<String> = (1..=40).map(|n| format!("p{n}")).collect();
    let remaining_commands = join_all(names.iter().map(|name| send_command(&actors.dispatch, name, create(name))));
    let (remaining_commands, ()) = futures_util::future::join(remaining_commands, async {
        // The other commands have been sent: this future is polled after them.
        log.release();
    })
    .await;

    // Then all succeed, in far fewer groups than commands
    assert!(first.await.unwrap().is_ok() && remaining_commands.iter().all(Result::is_ok));
    assert!(log.group_sizes().len() < 10, "{:?}", log.group_sizes());
    assert_eq!(models.read().position, Position(41));
}

#[actix_web::test]
async fn a_full_mailbox_rejects_commands_without_effect() {
    let ActorFixture { log, actors, models } = start_fixture(Environment::system(), OPTIONS).await;
    send_command(&actors.dispatch, "acme", create("acme")).await.unwrap();

    // Given a blocked log
    log.hold();

    // When one publisher receives more commands than its mailbox holds
    let names: Vec<String> = (0..100).map(|n| format!("name {n}")).collect();
    let results = join_all(names.iter().map(|name| send_command(&actors.dispatch, "acme", rename(name))));
    let (outcomes, ()) = futures_util::future::join(results, async {
        let shared_log = log.clone();
        off_thread(move || shared_log.wait_for_append()).await;
        log.release();
    })
    .await;

    // Then some are rejected as overload, and exactly the others are in the log
    let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let overloaded = outcomes.iter().filter(|outcome| **outcome == Err(CommandError::Overloaded)).count();
    assert!(accepted > 0 && overloaded > 0 && accepted + overloaded == 100, "{accepted} done, {overloaded} overloaded");
    assert_eq!(log.head(), Position(1 + accepted as u64));
    assert_eq!(rebuild(&*log).unwrap(), *models.read());
}

#[actix_web::test]
async fn a_full_writer_queue_rejects_commands_and_keeps_the_state() {
    let options = ActorOptions { writer_queue: 1, ..OPTIONS };
    let ActorFixture { log, actors, .. } = start_fixture(Environment::system(), options).await;
    log.hold();
    let names: Vec<String> = (0..50).map(|n| format!("p{n}")).collect();
    let results = join_all(names.iter().map(|name| send_command(&actors.dispatch, name, create(name))));
    let (outcomes, ()) = futures_util::future::join(results, async {
        let shared_log = log.clone();
        off_thread(move || shared_log.wait_for_append()).await;
        log.release();
    })
    .await;
    assert!(outcomes.contains(&Err(CommandError::Overloaded)) && outcomes.iter().any(Result::is_ok));

    for (name, outcome) in names.iter().zip(outcomes) {
        // A client that got "overloaded" can retry; repeating a successful command fails.
        match outcome {
            Ok(_) => assert_eq!(
                send_command(&actors.dispatch, name, create(name)).await,
                Err(CommandError::Rejected(PublisherRejection::AlreadyExists))
            ),
            Err(error) => {
                assert_eq!(error, CommandError::Overloaded);
                send_command(&actors.dispatch, name, create(name)).await.unwrap();
            }
        }
    }
    assert_eq!(log.head(), Position(50));
}

#[actix_web::test]
async fn an_idle_aggregate_is_unloaded_and_reloaded_from_the_log() {
    let ActorFixture { actors, models, .. } = start_fixture(Environment::system(), OPTIONS).await;
    send_command(&actors.dispatch, "acme", create("acme")).await.unwrap();
    eventually("the aggregate is idle", async || actors.dispatch.live_publishers().await == 0).await;
    assert_eq!(
        send_command(&actors.dispatch, "acme", create("acme")).await,
        Err(CommandError::Rejected(PublisherRejection::AlreadyExists))
    );
    send_command(&actors.dispatch, "acme", rename("Acme")).await.unwrap();
    let models = models.read();
    assert_eq!(models.publishers.get(&id("acme")).unwrap().fields.name, Some(Name::parse("Acme").unwrap()));
}

/// Returns an environment in which the actor of `acme` panics once at `point`.
fn panics_once_at(point: FailPoint) -> Environment {
    let armed = AtomicBool::new(true);
    Environment::system().with_fail_point_handler(Arc::new(move |hit, subject| {
        let is_match = hit == point && subject == "publisher/acme";
        assert!(!(is_match && armed.swap(false, Ordering::SeqCst)), "injected by the test");
    }))
}

#[actix_web::test]
async fn an_actor_is_rebuilt_from_the_log_after_a_panic() {
    for point in [FailPoint::Decide, FailPoint::Append] {
        let ActorFixture { log, actors, .. } = start_fixture(panics_once_at(point), OPTIONS).await;
        send_command(&actors.dispatch, "other", create("other")).await.unwrap();

        // When the actor panics before an event is recorded
        assert_eq!(send_command(&actors.dispatch, "acme", create("acme")).await, Err(CommandError::Interrupted));

        // Then the log is unchanged, other streams are not affected, and the next command starts a new actor
        assert_eq!(log.head(), Position(1));
        send_command(&actors.dispatch, "other", rename("Other")).await.unwrap();
        send_command(&actors.dispatch, "acme", create("acme")).await.unwrap();
        send_command(&actors.dispatch, "acme", rename("Acme")).await.unwrap();
        assert_eq!(log.head(), Position(4));
    }
}

#[actix_web::test]
async fn a_failed_append_fails_every_command_of_the_group_and_changes_nothing() {
    let ActorFixture { log, actors, models } = start_fixture(Environment::system(), OPTIONS).await;
    send_command(&actors.dispatch, "acme", create("acme")).await.unwrap();
    log.fail_appends();
    let names: Vec<String> = (0..8).map(|n| format!("p{n}")).collect();
    for outcome in join_all(names.iter().map(|name| send_command(&actors.dispatch, name, create(name)))).await {
        assert!(matches!(outcome, Err(CommandError::Failed { .. })), "{outcome:?}");
    }
    assert_eq!((log.head(), models.read().position), (Position(1), Position(1)));
}

#[actix_web::test]
async fn acknowledged_writes_are_visible() {
    let ActorFixture { actors, models, .. } = start_fixture(Environment::system(), OPTIONS).await;
    for n in 0..200 {
        let name = format!("p{n}");
        send_command(&actors.dispatch, &name, create(&name)).await.unwrap();
        assert!(models.read().publishers.get(&id(&name)).is_some());
    }
}

#[actix_web::test]
async fn a_command_that_changes_nothing_records_nothing() {
    let ActorFixture { log, actors, .. } = start_fixture(Environment::system(), OPTIONS).await;
    send_command(&actors.dispatch, "acme", create("acme")).await.unwrap();
    assert_eq!(send_command(&actors.dispatch, "acme", rename("Acme")).await.map(|effect| effect.changed), Ok(true));
    assert_eq!(send_command(&actors.dispatch, "acme", rename("Acme")).await.map(|effect| effect.changed), Ok(false));
    assert_eq!(log.head(), Position(2));
}

#[actix_web::test]
async fn a_claimed_command_is_not_executed_again() {
    // Given the commands of one request, recorded with its idempotency key
    let ActorFixture { log, actors, models } = start_fixture(Environment::system(), OPTIONS).await;
    let start = Timestamp::from_micros(1);
    let send = async |index, at, command| {
        let claim = IdempotencyClaim { key: Digest([1; 32]), fingerprint: Digest([2; 32]), command_index: index };
        let claim = CommandClaim { claim, first_run_at: at };
        let context = CommandContext { claim: Some(claim), ..CommandContext::from_system(None, at) };
        actors.dispatch.publisher(&id("acme"), command, context).await
    };
    assert_eq!(send(0, start, create("acme")).await.map(|effect| effect.changed), Ok(true));
    assert_eq!(send(1, start, rename("Acme")).await.map(|effect| effect.changed), Ok(true));
    // A command without effect is recorded too: later it could have one
    assert_eq!(send(2, start, rename("Acme")).await.map(|effect| effect.changed), Ok(false));
    let names: Vec<_> = log.read_all(Position(0), 9).unwrap().iter().map(|event| event.event.name()).collect();
    let expected = ["PublisherCreated", "KeyClaimed", "PublisherRevised", "KeyClaimed", "KeyClaimed"];
    assert_eq!(names, expected);

    // When they are sent again, then they are skipped, neither rejected nor executed
    send_command(&actors.dispatch, "acme", rename("Other")).await.unwrap();
    for (index, command) in [(0, create("acme")), (1, rename("Acme")), (2, rename("Acme"))] {
        assert_eq!(send(index, start, command).await.map(|effect| effect.changed), Ok(false));
    }
    assert_eq!(log.head(), Position(6));
    assert_eq!(rebuild(&*log).unwrap(), *models.read());

    // And a run that began without knowing of the claim, on another node, is refused
    let later = start.saturating_add(Duration::from_secs(1));
    assert_eq!(send(0, later, create("acme")).await, Err(CommandError::Claimed));

    // And after a day they count as new; their rejections leave no claim
    let outcome = send(0, start.saturating_add(RETENTION), create("acme")).await;
    assert_eq!(outcome, Err(CommandError::Rejected(PublisherRejection::AlreadyExists)));
    assert_eq!(log.head(), Position(6));
    assert_eq!(send(1, start.saturating_add(RETENTION), rename("Acme")).await.map(|effect| effect.changed), Ok(true));
}

#[actix_web::test]
async fn a_publisher_is_not_deleted_while_a_node_is_created() {
    // Given a publisher without nodes that receives a deletion and a new node at once: the earlier checks allow both
    for deletion_first in [true, false] {
        let ActorFixture { log, actors, models } = start_fixture(Environment::system(), OPTIONS).await;
        send_command(&actors.dispatch, "acme", create("acme")).await.unwrap();
        let node = NodeId::parse("tools").unwrap();
        let creation = NodeCommand::Create {
            id: node.clone(),
            publisher: id("acme"),
            fields: NodeFields::default(),
            admin_fields: NodeAdminFields::default(),
            first_version: None,
        };
        let key = node.key();
        let delete = send_command(&actors.dispatch, "acme", PublisherCommand::Delete);
        let creation_future = actors.dispatch.node(&key, creation.clone(), command_context());
        let (deleted, created) = if deletion_first {
            join(delete, creation_future).await
        } else {
            swapped(join(creation_future, delete).await)
        };

        // Then one succeeds and the other has to retry
        let overtaken = [deleted == Err(CommandError::Overloaded), created == Err(CommandError::Overloaded)];
        assert!(overtaken == [true, false] && created.is_ok() || overtaken == [false, true] && deleted.is_ok());
        assert_eq!((log.head(), models.read().publishers.get(&id("acme")).is_some()), (Position(2), created.is_ok()));

        // And a retry gives the same result
        if created.is_ok() {
            assert_eq!(
                send_command(&actors.dispatch, "acme", PublisherCommand::Delete).await,
                Err(CommandError::Overloaded)
            );
        } else {
            assert_eq!(actors.dispatch.node(&key, creation, command_context()).await, Err(CommandError::Overloaded));
        }
        assert_eq!(log.head(), Position(2));
    }
}

fn swapped<A, B>((a, b): (A, B)) -> (B, A) {
    (b, a)
}
