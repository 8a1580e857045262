//! Access tokens: handing them out, listing and revoking them. The secret is in the answer to its making, and nowhere else.

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

/// The seed's `PersonalAccessToken` as it is listed: there is no secret any more, so the mask tells its kind alone.
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
    /// The token as its owners see it later.
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

/// `POST /publishers/{publisher_id}/tokens`: a personal access token of the publisher.
pub async fn issue(mut call: Call<{ Action::ManagePublisherTokens as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let subject = TokenSubject::Publisher { publisher: call.publisher()?.id.clone(), issued_by: call.user()?.id };
    let issued = hand_out(&call, &body, subject).await?;
    Answer::created(&TokenOnly { token: issued.secret })
}

/// `GET /publishers/{publisher_id}/tokens`: the valid ones, oldest first.
pub async fn list(call: Call<{ Action::ManagePublisherTokens as u8 }>) -> Result<Answer, Problem> {
    let publisher = &call.publisher()?.id;
    let tokens: Vec<_> = {
        let models = call.services().models.read();
        // A token of somebody who was erased opens nothing.
        let opens = |token: &&TokenRecord| authorize::speaker(token, &models).is_ok();
        models.tokens.of_publisher(publisher).filter(opens).cloned().collect()
    };
    Answer::ok(&tokens.iter().map(KeptTokenView::new).collect::<Vec<_>>())
}

/// `DELETE /publishers/{publisher_id}/tokens/{token_id}`: refused from the next request on.
pub async fn revoke(call: Call<{ Action::ManagePublisherTokens as u8 }>) -> Result<Answer, Problem> {
    let own = &call.publisher()?.id;
    take_back(&call, |subject| matches!(subject, TokenSubject::Publisher { publisher, .. } if publisher == own)).await
}

/// Revokes the token of the path.
///
/// # Errors
/// 404, when there is no such token, or `belongs` denies its subject.
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
    let secret = secret::mint(kind(&subject), services.surroundings.secret());
    let id = TokenId(services.surroundings.uuid());
    let grant = TokenGrant { id, subject, name, description, secret_hash: secret::hash(&secret) };
    services.dispatch.token(id, TokenCommand::Issue(grant.clone()), call.why()).await?;
    // As it is recorded: a request that comes again may be later than its token.
    let at = services.models.read().tokens.get(id).map(|token| token.issued_at);
    let at = at.ok_or_else(|| Problem::not_found("token"))?;
    Ok(Issued { grant, secret, at })
}
