//! `mediary token`: access tokens of a publisher, for build servers.

use std::io::{self, Write as _};

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use serde::Deserialize;
use serde_json::json;

use super::complete;
use super::service::{ServiceArguments, ServiceConnection};
use crate::app;
use crate::cli::audit::text::printable;
use crate::cli::table::{RowColor, TextTable};
use crate::cli::{CliError, print_text};
use crate::domain::ids::{PublisherId, TokenId};
use crate::environment::Environment;

pub(super) const HELP: &str = "\
Access tokens of a publisher, for build servers: they can publish, but not delete. Only owners of the
publisher can list, create and revoke them.

Examples:
  mediary token list acme
  mediary token create acme build-server
  mediary token revoke acme 018f3c1e-7b7a-7c55-9f39-5a3d5f7e2b10";

pub(super) const LIST_HELP: &str = "\
Examples:
  mediary token list acme";

pub(super) const CREATE_HELP: &str = "\
Prints the token, which the service shows only once, and its id on stderr.

Examples:
  mediary token create acme build
  mediary token create acme build > token && chmod 600 token";

pub(super) const REVOKE_HELP: &str = "\
The token is invalid from the next request.

Examples:
  mediary token revoke acme 018f3c1e-7b7a-7c55-9f39-5a3d5f7e2b10";

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PublisherTokenCommand {
    /// List the valid tokens
    #[command(after_help = LIST_HELP)]
    List {
        #[command(flatten)]
        owner: TokenOwner,
    },
    /// Create a token
    #[command(after_help = CREATE_HELP)]
    Create {
        #[command(flatten)]
        owner: TokenOwner,
        /// Name that identifies the token
        #[arg(value_name = "NAME")]
        name: String,
        /// Intended use of the token
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
    /// Revoke a token
    #[command(after_help = REVOKE_HELP)]
    Revoke {
        #[command(flatten)]
        owner: TokenOwner,
        /// Id of the token, as `mediary token list` prints it
        #[arg(value_name = "TOKEN_ID", value_parser = |text: &str| TokenId::parse(text))]
        id: TokenId,
    },
}

/// Publisher of the tokens.
#[derive(Debug, Args)]
pub(in crate::cli) struct TokenOwner {
    /// Publisher
    #[arg(value_name = "PUBLISHER", value_parser = |text: &str| PublisherId::parse(text), add = ArgValueCompleter::new(complete::publishers))]
    publisher: PublisherId,
    #[command(flatten)]
    service: ServiceArguments,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedToken {
    id: String,
    name: String,
    description: Option<String>,
    created_at: String,
    last_used_at: Option<String>,
}

pub(super) fn run(command: &PublisherTokenCommand) -> Result<(), CliError> {
    match command {
        PublisherTokenCommand::List { owner } => list(owner),
        PublisherTokenCommand::Create { owner, name, description } => create(owner, name, description.as_deref()),
        PublisherTokenCommand::Revoke { owner, id } => revoke(owner, *id),
    }
}

fn list(TokenOwner { publisher, service }: &TokenOwner) -> Result<(), CliError> {
    let service = ServiceConnection::open_signed_in(service)?;
    let response = app::block_on(service.get(&format!("/publishers/{publisher}/tokens")))?;
    if service.json {
        return ServiceConnection::print_json(&response);
    }

    let tokens: Vec<ListedToken> = service.parse(response)?;
    if tokens.is_empty() {
        return print_text("There are no tokens.\n");
    }
    let mut table = TextTable::new(&["ID", "NAME", "CREATED", "LAST USED", "DESCRIPTION"]);
    let date = |time: &str| time.split('T').next().unwrap_or_default().to_owned();
    for ListedToken { id, name, description, created_at, last_used_at } in tokens {
        let used = last_used_at.as_deref().map_or_else(|| "never".to_owned(), date);
        let cells = [id, name, date(&created_at), used, description.unwrap_or_default()];
        table.push(RowColor::Plain, cells.map(|cell| printable(&cell)));
    }
    print_text(&table.to_string())
}

fn create(
    TokenOwner { publisher, service }: &TokenOwner,
    name: &str,
    description: Option<&str>,
) -> Result<(), CliError> {
    let service = ServiceConnection::open_signed_in(service)?;
    let mut body = json!({"name": name});
    if let Some(description) = description {
        body["description"] = description.into();
    }
    let key = Environment::system().random_uuid();
    let path = format!("/publishers/{publisher}/tokens");
    let response = service.json_of(app::block_on(service.api.create_once(&path, &body, key)))?;
    if service.json {
        return ServiceConnection::print_json(&response);
    }
    print_text(&format!("{}\n", printable(response["token"].as_str().unwrap_or_default())))?;

    // On stderr, which may be closed, so that stdout has only the token.
    let _ = match find_token_id(&service, &path, name) {
        Some(id) => writeln!(io::stderr(), "Revoke it with `mediary token revoke {publisher} {}`.", printable(&id)),
        None => writeln!(io::stderr(), "`mediary token list {publisher}` shows its id, by which it can be revoked."),
    };
    Ok(())
}

/// Returns the id of a new token, which the response to its creation does not contain; `None` if several tokens have
/// its name. The token exists, so a failure of this request must not fail the command.
fn find_token_id(service: &ServiceConnection, path: &str, name: &str) -> Option<String> {
    let response = app::block_on(service.get(path)).ok()?;
    let listed: Vec<ListedToken> = service.parse(response).ok()?;
    let mut same_name = listed.into_iter().filter(|token| token.name == name);
    let token = same_name.next()?;
    same_name.next().is_none().then_some(token.id)
}

fn revoke(TokenOwner { publisher, service }: &TokenOwner, id: TokenId) -> Result<(), CliError> {
    let service = ServiceConnection::open_signed_in(service)?;
    let path = format!("/publishers/{publisher}/tokens/{id}");
    service.json_of(app::block_on(service.api.delete(&path)))?;
    if service.json {
        return ServiceConnection::print_json(&json!({"revoked": id.to_string()}));
    }
    print_text("Revoked.\n")
}
