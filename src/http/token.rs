//! Access tokens: issue, list and revoke. Only the response to the issue contains the secret.

use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::authorize;
use super::error::Problem;
use super::fields;
use super::gate::{Admitted, Call};
use crate::domain::ids::TokenId;
use crate::domain::policy::Action;
use crate::domain::secret::{self, Kind};
use crate::domain::token::{TokenCommand, TokenGrant, TokenRecord, TokenSubject};
use crate::domain::value::{Invalid, Label, Name, Text, Timestamp};

/// Token that was just issued.
pub struct Issued {
    pub grant: TokenGrant,
    /// Secret that the bearer presents.
    pub secret: String,
    pub at: Timestamp,
}

/// `PersonalAccessToken` of the API, with the secret.
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
    /// Renders the token with its secret, which is shown only once.
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

/// `PersonalAccessToken` of the API in lists. The secret is not stored, so the mask shows only the prefix.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptTokenView<'m> {
    id: String,
    name: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'m str>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
    token: String,
}

impl<'m> KeptTokenView<'m> {
    /// Renders the token without its secret.
    #[must_use]
    pub fn new(record: &'m TokenRecord) -> Self {
        let TokenRecord { grant, issued_at, last_used_at, .. } = record;
        Self {
            id: grant.id.to_string(),
            name: grant.name.as_str(),
            description: grant.description.as_ref().map(Text::as_str),
            created_at: issued_at.to_string(),
            last_used_at: last_used_at.map(|at| at.to_string()),
            token: format!("{}********", kind(&grant.subject).prefix()),
        }
    }
}

#[derive(Serialize)]
struct TokenOnly {
    token: String,
}

/// `POST /publishers/{publisher_id}/tokens`: issues a personal access token of the publisher.
pub async fn issue(mut call: Call<{ Action::ManagePublisherTokens as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let subject = TokenSubject::Publisher { publisher: call.publisher()?.id.clone(), issued_by: call.user()?.id };
    let issued = hand_out(&call, &body, subject).await?;
    Answer::created(&TokenOnly { token: issued.secret })
}

/// `GET /publishers/{publisher_id}/tokens`: the valid tokens, oldest first.
pub async fn list(call: Call<{ Action::ManagePublisherTokens as u8 }>) -> Result<Answer, Problem> {
    let publisher = &call.publisher()?.id;
    let tokens: Vec<_> = {
        let models = call.services().models.read();
        // Tokens issued by an erased user are invalid.
        let opens = |token: &&TokenRecord| authorize::speaker(token, &models).is_ok();
        models.tokens.of_publisher(publisher).filter(opens).cloned().collect()
    };
    Answer::ok(&tokens.iter().map(KeptTokenView::new).collect::<Vec<_>>())
}

/// `DELETE /publishers/{publisher_id}/tokens/{token_id}`: effective from the next request.
pub async fn revoke(call: Call<{ Action::ManagePublisherTokens as u8 }>) -> Result<Answer, Problem> {
    let own = &call.publisher()?.id;
    take_back(&call, |subject| matches!(subject, TokenSubject::Publisher { publisher, .. } if publisher == own)).await
}

/// Revokes the token of the path.
///
/// # Errors
/// 404 if there is no such token, or `belongs` returns `false` for its subject.
pub async fn take_back(call: &Admitted, belongs: impl FnOnce(&TokenSubject) -> bool) -> Result<Answer, Problem> {
    let not_found = || Problem::not_found("token");
    let id = TokenId::parse(&call.segment("token_id")).map_err(|_| not_found())?;
    let services = call.services();
    let known = services.models.read().tokens.get(id).is_some_and(|record| belongs(&record.grant.subject));
    if !known {
        return Err(not_found());
    }
    services.dispatch.token(id, TokenCommand::Revoke, call.why()).await?;
    Ok(Answer::no_content())
}

fn kind(subject: &TokenSubject) -> Kind {
    match subject {
        TokenSubject::User(_) => Kind::User,
        TokenSubject::Publisher { .. } => Kind::Publisher,
    }
}

/// Parses the name of a token, which must not be blank.
fn read_name(text: &str) -> Result<Name, Invalid> {
    if text.trim().is_empty() { Err(Invalid::new("must not be blank")) } else { Name::parse(text) }
}

/// Issues a token for `subject`, with name and description from `body`.
///
/// # Errors
/// If the body is invalid, or the command fails.
pub async fn hand_out(call: &Admitted, body: &Value, subject: TokenSubject) -> Result<Issued, Problem> {
    let (name, description) = fields::read(body, |fields| {
        let name = fields.required_text("name", read_name);
        let description = fields.text("description", Label::parse);
        Some((name?, description))
    })?;

    let services = call.services();
    let secret = secret::mint(kind(&subject), services.surroundings.secret());
    let id = TokenId(services.surroundings.uuid());
    let grant = TokenGrant { id, subject, name, description, secret_hash: secret::hash(&secret) };
    services.dispatch.token(id, TokenCommand::Issue(grant.clone()), call.why()).await?;

    // The recorded time: a repeated request is later than its token.
    let at = services.models.read().tokens.get(id).map(|token| token.issued_at);
    let at = at.ok_or_else(|| Problem::not_found("token"))?;
    Ok(Issued { grant, secret, at })
}
