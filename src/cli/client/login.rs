//! `mediary login`, `logout` and `whoami`.

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::login_file::StoredLogin;
use super::service::{DEFAULT_URL, ServiceArguments, ServiceConnection};
use super::terminal;
use crate::app;
use crate::cli::audit::text::printable;
use crate::cli::{CliError, print_text};

/// Role of a token without a user.
const PUBLISHER_TOKEN: &str = "token of a publisher";

pub(super) const LOGIN_HELP: &str = "\
Keeps the URL and the token of a service in mediary/login.toml in the configuration directory of the
user ($XDG_CONFIG_HOME, otherwise ~/.config), which only the user can read. The service checks the
token first. MEDIARY_URL and MEDIARY_TOKEN take precedence over the file.

Examples:
  mediary login
  mediary login --url https://registry.example.org
  mediary login --url http://127.0.0.1:8080 --token-stdin < data/run/admin-token";

pub(super) const LOGOUT_HELP: &str = "\
Forgets the URL and the token. The token stays valid: revoke it if others may know it.

Examples:
  mediary logout";

pub(super) const WHOAMI_HELP: &str = "\
Examples:
  mediary whoami
  mediary whoami --json";

#[derive(Debug, Args)]
pub(in crate::cli) struct LoginArguments {
    /// Read the token from stdin instead of asking for it
    #[arg(long)]
    token_stdin: bool,
    #[command(flatten)]
    service: ServiceArguments,
}

/// User of a token.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignedInUser {
    id: String,
    name: Option<String>,
    email: Option<String>,
    is_admin: bool,
    is_approved: bool,
    status_reason: Option<String>,
}

impl SignedInUser {
    fn role(&self) -> &'static str {
        if self.is_admin { "administrator" } else { "user" }
    }

    fn display_name(&self) -> String {
        let name = self.name.as_deref().unwrap_or(&self.id);
        let email = self.email.as_deref().map(|email| format!(" <{email}>")).unwrap_or_default();
        printable(&format!("{name}{email}"))
    }
}

#[derive(Deserialize)]
struct OwnPublisher {
    id: String,
}

pub(super) fn login(arguments: &LoginArguments) -> Result<(), CliError> {
    let LoginArguments { token_stdin, service } = arguments;
    let url = match service.explicit_url() {
        Some(url) => url,
        None if *token_stdin || !terminal::can_ask() => {
            return Err(CliError::Usage("name the service with --url or MEDIARY_URL".to_owned()));
        }
        None => {
            let previous = StoredLogin::read().ok().flatten().map(|login| login.url);
            terminal::ask("URL of the service", previous.as_deref().unwrap_or(DEFAULT_URL))?
        }
    };
    // Check the URL before the question for the token.
    ServiceConnection::new(&url, None, service.json)?;

    let token = if *token_stdin {
        terminal::read_token()?
    } else if terminal::can_ask() {
        terminal::ask_secret("Token")?
    } else {
        return Err(CliError::Usage("stdin is not a terminal: give the token with --token-stdin".to_owned()));
    };
    if token.is_empty() {
        return Err(CliError::Usage("the token is empty".to_owned()));
    }

    let client = ServiceConnection::new(&url, Some(&token), service.json)?;
    let response = app::block_on(read_user(&client))?;
    let holder = match &response {
        Some(response) => {
            let account: SignedInUser = client.parse(response.clone())?;
            format!("{} ({})", account.display_name(), account.role())
        }
        None => PUBLISHER_TOKEN.to_owned(),
    };
    let path = StoredLogin { url: client.base().to_owned(), token }.write()?;
    if client.json {
        return ServiceConnection::print_json(&json!({"url": client.base(), "user": response, "file": path}));
    }
    let base = client.base();
    print_text(&format!("Signed in at {base} as {holder}.\nThe token is kept in {}.\n", path.display()))
}

pub(super) fn logout() -> Result<(), CliError> {
    let was_signed_in = StoredLogin::remove()?;
    print_text(if was_signed_in { "Signed out.\n" } else { "You were not signed in.\n" })
}

pub(super) fn whoami(arguments: &ServiceArguments) -> Result<(), CliError> {
    let service = ServiceConnection::open_signed_in(arguments)?;
    let (user, publishers) = app::block_on(async {
        let user = read_user(&service).await?;
        let publishers = if user.is_some() { service.get("/users/publishers").await? } else { json!([]) };
        Ok::<_, CliError>((user, publishers))
    })?;
    if service.json {
        return ServiceConnection::print_json(&json!({"url": service.base(), "user": user, "publishers": publishers}));
    }

    let Some(user) = user else {
        return print_text(&format!("role        {PUBLISHER_TOKEN}\nservice     {}\n", service.base()));
    };
    let account: SignedInUser = service.parse(user)?;
    let publishers: Vec<OwnPublisher> = service.parse(publishers)?;
    let publishers = publishers.into_iter().map(|publisher| printable(&publisher.id)).collect::<Vec<_>>().join(", ");
    let restriction = match &account.status_reason {
        Some(reason) => format!(", banned: {}", printable(reason)),
        None if !account.is_approved => ", not approved yet".to_owned(),
        None => String::new(),
    };
    print_text(&format!(
        "user        {}\nrole        {}{restriction}\npublishers  {}\nservice     {}\n",
        account.display_name(),
        account.role(),
        if publishers.is_empty() { "none" } else { &publishers },
        service.base(),
    ))
}

/// Reads the user of the token; `None` for a token of a publisher, which the service accepts and which has no user.
async fn read_user(service: &ServiceConnection) -> Result<Option<Value>, CliError> {
    let reply = service.api.get("/users").await;
    match reply {
        Ok(reply) if reply.status == 403 => Ok(None),
        reply => service.json_of(reply).map(Some),
    }
}

/// Returns the ids of the publishers of the caller, for completions.
pub(super) async fn own_publishers(service: &ServiceConnection) -> Result<Vec<String>, CliError> {
    let publishers: Vec<OwnPublisher> = service.read("/users/publishers").await?;
    Ok(publishers.into_iter().map(|publisher| publisher.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_shown_by_name_and_email_or_by_id() {
        let account = |json: Value| serde_json::from_value::<SignedInUser>(json).unwrap();
        let full = json!({"id": "1", "name": "Ada", "email": "ada@example.org", "isAdmin": true, "isApproved": true});
        let bare = json!({"id": "1", "isAdmin": false, "isApproved": true});
        assert_eq!(account(full.clone()).display_name(), "Ada <ada@example.org>");
        assert_eq!((account(full).role(), account(bare.clone()).role()), ("administrator", "user"));
        assert_eq!(account(bare).display_name(), "1");
    }
}
