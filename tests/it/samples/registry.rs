//! Events of users, publishers and tokens, in order.

use mediary::domain::delivery::{AttemptOutcome, DeliveryEvent, DeliverySubject};
use mediary::domain::event::Event;
use mediary::domain::ids::{DeliveryId, PublisherId, TokenId, UserId, WebhookId};
use mediary::domain::personal::PersonalValue;
use mediary::domain::policy::TokenScope;
use mediary::domain::publisher::{MemberRole, PublisherAdminFields, PublisherEvent, PublisherFields};
use mediary::domain::token::{TokenEvent, TokenGrant, TokenLimits, TokenSubject};
use mediary::domain::user::{NewUser, UserEvent, UserFields};
use mediary::domain::value::{CallbackUrl, Digest};
use mediary::domain::webhook::{EventSelection, RegistryEventKind, WebhookChange, WebhookDraft};
use uuid::Uuid;

use super::{AT, id, link, nodes, text};

const WEBHOOK: WebhookId = WebhookId(Uuid::from_u128(0x40));

pub fn after_user(last: &UserEvent) -> Event {
    use UserEvent as U;
    match last {
        U::UserCreated(_) => {
            let (id, owner) = (PublisherId::parse("acme").unwrap(), UserId(id(0xA)));
            PublisherEvent::PublisherCreated { id, owner, fields: publisher_fields() }.into()
        }
        U::UserRevised { .. } => U::UserBanned { reason: text("spam") }.into(),
        U::UserBanned { .. } => U::UserUnbanned { reason: text("appeal granted") }.into(),
        U::UserUnbanned { .. } => {
            PublisherEvent::PublisherAdministered { admin_fields: PublisherAdminFields { created_at: Some(AT) } }.into()
        }
        U::UserErased => super::inputs_fetched(),
        U::WebhookSecretRotated { .. } | U::WebhookSecretsRevoked => U::WebhookSecretsRevoked.into(),
    }
}

pub fn webhook_secret_rotated() -> Event {
    UserEvent::WebhookSecretRotated { secret: PersonalValue::Sealed(vec![0x5E; 105].into()) }.into()
}

pub fn after_publisher(last: &PublisherEvent) -> Event {
    use PublisherEvent as P;
    let user = UserId(id(0xB));
    match last {
        P::PublisherCreated { .. } => {
            P::PublisherRevised { change: PublisherFields { name: Some(text("")), ..PublisherFields::default() } }
                .into()
        }
        P::PublisherRevised { .. } => token_issued(),
        P::PublisherAdministered { .. } => P::MemberAdded { user, role: MemberRole::Member }.into(),
        P::MemberAdded { .. } => P::MemberRoleChanged { user, role: MemberRole::Owner }.into(),
        P::MemberRoleChanged { .. } => P::MemberRemoved { user }.into(),
        P::MemberRemoved { .. } => P::PublisherBanned { reason: text("spam") }.into(),
        P::PublisherBanned { .. } => P::PublisherUnbanned { reason: text("appeal granted") }.into(),
        P::PublisherUnbanned { .. } => P::PublisherDeleted.into(),
        P::PublisherDeleted => TokenEvent::TokenRevoked.into(),
        P::WebhookCreated(_) => {
            let change = WebhookChange {
                url: Some(CallbackUrl::parse("https://hooks.example.com/b").unwrap()),
                account: Some(UserId(id(0xA))),
                events: None,
                is_enabled: Some(false),
            };
            P::WebhookRevised { webhook: WEBHOOK, change }.into()
        }
        P::WebhookRevised { .. } => P::WebhookRemoved { webhook: WEBHOOK }.into(),
        P::WebhookRemoved { .. } => P::WebhookTested { webhook: WEBHOOK }.into(),
        P::WebhookTested { .. } => {
            let delivery = DeliveryId(id(0xDE));
            DeliveryEvent::EventRedeliveryRequested { delivery, webhook: WEBHOOK }.into()
        }
    }
}

pub fn webhook_created() -> Event {
    PublisherEvent::WebhookCreated(WebhookDraft {
        id: WEBHOOK,
        url: CallbackUrl::parse("https://hooks.example.com/a?b=c").unwrap(),
        events: EventSelection::new(&[RegistryEventKind::VersionPublished, RegistryEventKind::NodeBanned]).unwrap(),
        is_enabled: true,
        account: UserId(id(0xA)),
    })
    .into()
}

/// Attempts of a delivery to a webhook of a publisher.
pub fn event_deliveries() -> Vec<(&'static str, Event)> {
    use DeliveryEvent as D;
    let (delivery, subject) = (DeliveryId(id(0xDE)), DeliverySubject::Webhook(WEBHOOK));
    let outcome = || AttemptOutcome::Unreachable { reason: text("connection refused") };
    vec![
        ("event", D::AttemptFailed { delivery, subject, attempt: 2, outcome: outcome(), next_at: AT }.into()),
        ("event", D::DeliverySucceeded { delivery, subject, attempt: 3, status: 204 }.into()),
        ("event", D::DeliveryDeadLettered { delivery, subject, attempt: 10, outcome: outcome() }.into()),
    ]
}

pub fn after_token(last: &TokenEvent) -> Event {
    match last {
        TokenEvent::TokenIssued(_) => nodes::first(),
        TokenEvent::TokenRevoked => TokenEvent::TokenUsed { at: AT }.into(),
        TokenEvent::TokenUsed { .. } | TokenEvent::LimitedTokenIssued { .. } => nodes::administered(),
    }
}

pub fn user_revised() -> Event {
    let name = Some(sealed("Ada"));
    let change = UserFields { email: None, name, is_admin: Some(false), is_approved: Some(true) };
    UserEvent::UserRevised { change }.into()
}

pub fn user_created() -> Event {
    UserEvent::UserCreated(NewUser {
        id: UserId(id(0xA)),
        email: Some(sealed("ada@example.com")),
        name: Some(sealed("Ada 日本")),
        is_admin: true,
        is_approved: false,
    })
    .into()
}

/// Returns a placeholder for encrypted bytes: their content does not matter to the log.
fn sealed(text: &str) -> PersonalValue {
    PersonalValue::Sealed([&[1], text.as_bytes()].concat().into())
}

fn publisher_fields() -> PublisherFields {
    PublisherFields {
        name: Some(text("Acme")),
        description: Some(text("Makes everything.\nTwice.")),
        logo: Some(link("logo.png")),
        source_code_repo: Some(text("https://example.com/code")),
        support: Some(text("support@example.com")),
        website: Some(text("")),
    }
}

fn token_issued() -> Event {
    TokenEvent::TokenIssued(token_grant()).into()
}

pub fn limited_token_issued() -> Event {
    let limits = TokenLimits { scope: TokenScope::ReadOnly, expires_at: Some(AT) };
    TokenEvent::LimitedTokenIssued { grant: token_grant(), limits, issued_with: Some(TokenId(id(0x71))) }.into()
}

fn token_grant() -> TokenGrant {
    TokenGrant {
        id: TokenId(id(0x70)),
        subject: TokenSubject::Publisher { publisher: PublisherId::parse("acme").unwrap(), issued_by: UserId(id(0xA)) },
        name: text("ci"),
        description: Some(text("for releases")),
        secret_hash: Digest([0xAB; 32]),
    }
}
