//! Webhook secrets of an account: rotate and revoke.

use actix_web::web;
use serde::Serialize;

use crate::domain::personal::PersonalField;
use crate::domain::policy::Action;
use crate::domain::user::UserCommand;
use crate::domain::webhook_secret::{OVERLAP, encode_secret};
use crate::http::auth::personal_fields;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;

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
pub async fn rotate(call: Call<{ Action::ManageWebhookSecret as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.user()?.id;
    let services = call.services();
    let is_first = services.models.read().users.get(user).is_none_or(|user| user.webhook_secrets.is_empty());
    let secret = encode_secret(&services.environment.random_bytes());
    // Random bytes that do not follow from an idempotency key: a key that can be derived again cannot be destroyed.
    let key_bytes =
        personal_fields::may_create_key(&call, user).then(|| call.shared().services.environment.random_bytes());

    let keyring = services.keyring.clone();
    let text = secret.clone();
    let seal_secret = move || keyring.seal(user, key_bytes, [(PersonalField::WebhookSecret, text.as_str())]);
    let sealed = web::block(seal_secret).await.map_err(Problem::internal)?;
    let sealed = sealed.map_err(|failure| personal_fields::key_error(&failure, &services.space))?;
    let sealed = sealed.into_iter().next().ok_or_else(|| Problem::internal("nothing was sealed"))?;

    let command = UserCommand::RotateWebhookSecret { secret: sealed };
    services.dispatch.user(user, command, call.command_context()).await?;

    let previous_until = (!is_first).then(|| services.environment.now().saturating_add(OVERLAP).to_string());
    ApiResponse::ok(&SecretView { secret, previous_until })
}

/// `DELETE /users/webhook-secret`: from the next webhook on, only the service key signs.
pub async fn revoke(call: Call<{ Action::ManageWebhookSecret as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.user()?.id;
    call.services().dispatch.user(user, UserCommand::RevokeWebhookSecrets, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}
