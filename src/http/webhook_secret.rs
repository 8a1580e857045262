//! Webhook secrets of an account: rotate and revoke.

use actix_web::web;
use serde::Serialize;

use super::answer::Answer;
use super::error::Problem;
use super::gate::Call;
use super::personal;
use crate::domain::personal::PersonalField;
use crate::domain::policy::Action;
use crate::domain::user::UserCommand;
use crate::domain::webhook_secret::{OVERLAP, text_of};

/// Secret, shown only once.
#[derive(Serialize)]
struct SecretView {
    /// `whsec_` and base64 (Standard Webhooks 1.0).
    secret: String,
    /// Time until which the previous secret still signs too; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_until: Option<String>,
}

/// `POST /users/webhook-secret`: signs the user's webhooks with a new secret, and for a day with the old one too.
pub async fn rotate(call: Call<{ Action::ManageWebhookSecret as u8 }>) -> Result<Answer, Problem> {
    let user = call.user()?.id;
    let services = call.services();
    let is_first = services.models.read().users.get(user).is_none_or(|user| user.webhook_secrets.is_empty());
    let secret = text_of(&services.surroundings.secret());
    // Never derived from an idempotency key: a key that can be derived again cannot be destroyed.
    let chance = personal::is_unsealed(&call, user).then(|| call.shared().services.surroundings.secret());

    let keyring = services.personal.clone();
    let text = secret.clone();
    let sealing = move || keyring.seal(user, chance, [(PersonalField::WebhookSecret, text.as_str())]);
    let sealed = web::block(sealing).await.map_err(Problem::internal)?;
    let sealed = sealed.map_err(|failure| personal::refusal(&failure, &services.space))?;
    let sealed = sealed.into_iter().next().ok_or_else(|| Problem::internal("nothing was sealed"))?;

    let command = UserCommand::RotateWebhookSecret { secret: sealed };
    services.dispatch.user(user, command, call.why()).await?;

    let previous_until = (!is_first).then(|| services.surroundings.now().after(OVERLAP).to_string());
    Answer::ok(&SecretView { secret, previous_until })
}

/// `DELETE /users/webhook-secret`: from the next webhook on, only the service key signs.
pub async fn revoke(call: Call<{ Action::ManageWebhookSecret as u8 }>) -> Result<Answer, Problem> {
    let user = call.user()?.id;
    call.services().dispatch.user(user, UserCommand::RevokeWebhookSecrets, call.why()).await?;
    Ok(Answer::no_content())
}
