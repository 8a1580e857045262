//! Access tokens: handing them out. The secret is in the one answer to its making, and nowhere else.

use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::error::Problem;
use super::fields;
use super::gate::{Admitted, Call};
use crate::domain::ids::TokenId;
use crate::domain::policy::Action;
use crate::domain::secret::{self, Kind};
use crate::domain::token::{TokenCommand, TokenGrant, TokenSubject};
use crate::domain::value::{Invalid, Label, Name, Timestamp};

/// A token that was just handed out.
pub struct Issued {
    pub grant: TokenGrant,
    /// What its bearer presents.
    pub secret: String,
    pub at: Timestamp,
}

/// The seed's `PersonalAccessToken`, with the token.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuedTokenView {
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    created_at: String,
    token: String,
}

impl IssuedTokenView {
    /// The token as it is shown once.
    #[must_use]
    pub fn new(issued: &Issued) -> Self {
        Self {
            id: issued.grant.id.to_string(),
            name: issued.grant.name.to_string(),
            description: issued.grant.description.as_ref().map(ToString::to_string),
            created_at: issued.at.to_string(),
            token: issued.secret.clone(),
        }
    }
}

#[derive(Serialize)]
struct TokenOnly {
    token: String,
}

/// `POST /publishers/{publisher_id}/tokens`: a personal access token of the publisher.
pub async fn issue(mut call: Call<{ Action::ManagePublisherTokens as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let subject = TokenSubject::Publisher { publisher: call.publisher()?.id.clone(), issued_by: call.user()?.id };
    let issued = hand_out(&call, &body, subject).await?;
    Answer::created(&TokenOnly { token: issued.secret })
}

/// A name by which its owner tells the token from others.
fn read_name(text: &str) -> Result<Name, Invalid> {
    if text.trim().is_empty() { Err(Invalid::new("must not be blank")) } else { Name::parse(text) }
}

/// Makes a token for `subject`, called and described as `body` says.
///
/// # Errors
/// When the body is not right, or the command was not carried out.
pub async fn hand_out(call: &Admitted, body: &Value, subject: TokenSubject) -> Result<Issued, Problem> {
    let (name, description) = fields::read(body, |fields| {
        let name = fields.required_text("name", read_name);
        let description = fields.text("description", Label::parse);
        Some((name?, description))
    })?;
    let services = call.services();
    let kind = match subject {
        TokenSubject::User(_) => Kind::User,
        TokenSubject::Publisher { .. } => Kind::Publisher,
    };
    let secret = secret::mint(kind, services.surroundings.secret());
    let id = TokenId(services.surroundings.uuid());
    let grant = TokenGrant { id, subject, name, description, secret_hash: secret::hash(&secret) };
    let why = call.why();
    let at = why.at;
    services.dispatch.token(id, TokenCommand::Issue(grant.clone()), why).await?;
    Ok(Issued { grant, secret, at })
}
