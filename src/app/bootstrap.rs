//! The first administrator: the bootstrap token and its user.

use std::path::PathBuf;

use super::StartError;
use super::files::{warn_secret_recreated, was_used_before};
use crate::actors::CommandContext;
use crate::actors::system::Dispatch;
use crate::config::Secret;
use crate::data_dir::{DataDir, read_private, write_private};
use crate::domain::bearer_secret;
use crate::domain::ids::UserId;
use crate::domain::personal::PersonalField;
use crate::domain::user::{NewUser, UserCommand};
use crate::environment::Environment;
use crate::pii::Keyring;
use crate::projections::ReadModels;

/// User of the bootstrap token.
pub const BOOTSTRAP_ADMIN: UserId = UserId(uuid::uuid!("00000000-0000-4000-8000-000000000001"));

/// Location of the first administrator's token.
#[derive(Debug, Clone)]
pub enum AdminTokenSource {
    /// Taken from the settings; a token file of an earlier start is then ignored.
    Configured { unused: Option<PathBuf> },
    /// Created by this start: shown only once.
    Generated { token: String, file: PathBuf },
    /// Created by an earlier start.
    Existing { file: PathBuf },
}

/// Returns the first administrator's token: from the settings, from an earlier start, or a new one.
pub(super) fn load_admin_token(
    data: &DataDir,
    configured: Option<&Secret>,
    environment: &Environment,
) -> Result<(String, AdminTokenSource), StartError> {
    let file = data.path("admin-token");

    if let Some(secret) = configured {
        let unused = file.exists().then_some(file);
        return Ok((secret.expose().to_owned(), AdminTokenSource::Configured { unused }));
    }

    let failed = |error: std::io::Error| StartError::at_path("the administrator token", &file, &error);
    if let Some(token) = read_private(&file).map_err(failed)? {
        return Ok((token.trim().to_owned(), AdminTokenSource::Existing { file }));
    }

    let token = bearer_secret::mint(bearer_secret::SecretKind::User, environment.random_bytes());
    write_private(&file, format!("{token}\n").as_bytes()).map_err(failed)?;
    if was_used_before(data) {
        warn_secret_recreated("admin-token");
    }

    Ok((token.clone(), AdminTokenSource::Generated { token, file }))
}

/// Creates the user of the bootstrap token on the first start, with a command like any other user.
pub(super) async fn create_bootstrap_admin(
    dispatch: &Dispatch,
    models: &ReadModels,
    keyring: &Keyring,
    environment: &Environment,
) -> Result<(), StartError> {
    if models.read().users.get(BOOTSTRAP_ADMIN).is_some() {
        return Ok(());
    }

    let failed = |error: &dyn std::fmt::Display| StartError::part("the first administrator", error);
    let name = [(PersonalField::Name, "Administrator")];
    let name =
        keyring.seal(BOOTSTRAP_ADMIN, Some(environment.random_bytes()), name).map_err(|error| failed(&error))?.pop();
    let new_user = NewUser { id: BOOTSTRAP_ADMIN, email: None, name, is_admin: true, is_approved: true };
    let command_context = CommandContext::from_system(None, environment.now());
    let created = dispatch.user(BOOTSTRAP_ADMIN, UserCommand::Create(new_user), command_context).await;

    created.map(drop).map_err(|error| failed(&error))
}
