//! Publishers: wire shape, creating, reading, updating.

use actix_web::http::header::LOCATION;
use serde::Serialize;

use super::answer::Answer;
use super::error::Problem;
use super::fields::{self, Fields};
use super::gate::{Admitted, Call};
use crate::domain::ids::PublisherId;
use crate::domain::policy::Action;
use crate::domain::publisher::{
    PublisherCommand, PublisherDescription, PublisherFacts, PublisherFields, PublisherProfile,
};
use crate::domain::value::{Label, Link, Name, Text};
use crate::projections::read_models::Models;

/// The seed's `Publisher`.
#[derive(Debug, Serialize)]
pub struct PublisherView<'m> {
    #[serde(rename = "createdAt")]
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'m str>,
    id: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logo: Option<&'m str>,
    members: Vec<MemberView<'m>>,
    name: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_code_repo: Option<&'m str>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    support: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    website: Option<&'m str>,
}

/// The seed's `PublisherMember`; its id is the user's.
#[derive(Debug, Serialize)]
struct MemberView<'m> {
    id: String,
    role: &'static str,
    user: MemberUserView<'m>,
}

#[derive(Debug, Serialize)]
struct MemberUserView<'m> {
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'m str>,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'m str>,
}

impl<'m> PublisherView<'m> {
    /// The publisher as the caller may see it: e-mail addresses are for members and administrators (contract 3).
    #[must_use]
    pub fn new(profile: &'m PublisherProfile, models: &'m Models, call: &Admitted) -> Self {
        let caller = call.identity();
        let insider = caller.is_admin() || caller.user().is_some_and(|user| profile.role_of(user.id).is_some());
        let member = |(id, role): &(_, crate::domain::publisher::MemberRole)| {
            let user = models.users.get(*id);
            let id = ToString::to_string(id);
            let email = user.filter(|_| insider).and_then(|user| Some(user.email.as_ref()?.as_str()));
            let name = user.and_then(|user| Some(user.name.as_ref()?.as_str()));
            MemberView { id: id.clone(), role: role.as_str(), user: MemberUserView { email, id, name } }
        };
        let fields = &profile.fields;
        Self {
            created_at: profile.created_at.to_string(),
            description: fields.description.as_ref().map(Text::as_str),
            id: profile.id.as_str(),
            logo: shown(fields.logo.as_ref()),
            members: profile.members.iter().map(member).collect(),
            name: display_name(profile),
            source_code_repo: shown(fields.source_code_repo.as_ref()),
            status: profile.status.as_str(),
            support: fields.support.as_ref().map(Text::as_str),
            website: shown(fields.website.as_ref()),
        }
    }
}

/// The name for people: the id when none was given.
#[must_use]
pub fn display_name(profile: &PublisherProfile) -> &str {
    let given = profile.fields.name.as_ref().map(Text::as_str).filter(|name| !name.is_empty());
    given.unwrap_or(profile.id.as_str())
}

/// A link as it is shown: the empty one means none (contract 4).
#[must_use]
pub fn shown(link: Option<&Link>) -> Option<&str> {
    link.map(Link::as_str).filter(|link| !link.is_empty())
}

/// `POST /publishers`: claims an id; the caller becomes the owner.
pub async fn create(mut call: Call<{ Action::CreatePublisher as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let owner = call.user()?.id;
    let (id, fields) = fields::read(&body, |fields| {
        let id = fields.required_text("id", PublisherId::parse);
        let descriptive = read_fields(fields);
        Some((id?, descriptive))
    })?;
    let command = PublisherCommand::Create { id: id.clone(), owner, fields, facts: PublisherFacts::default() };
    call.services().dispatch.publisher(&id, command, call.why()).await?;
    with_view(&call, &id, |view| Answer::created(view))?.with(LOCATION, call.url(&format!("/publishers/{id}")))
}

/// `GET /publishers/{publisher_id}`.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let id = call.publisher()?.id.clone();
    with_view(&call, &id, |view| Answer::ok(view))
}

/// `PUT /publishers/{publisher_id}`: changes the fields that are present.
pub async fn update(mut call: Call<{ Action::UpdatePublisher as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let id = call.publisher()?.id.clone();
    let change = fields::read(&body, |fields| Some(read_fields(fields)))?;
    let command = PublisherCommand::Revise { change, facts: PublisherFacts::default() };
    call.services().dispatch.publisher(&id, command, call.why()).await?;
    with_view(&call, &id, |view| Answer::ok(view))
}

fn read_fields(fields: &mut Fields<'_, '_>) -> PublisherFields {
    PublisherFields {
        name: fields.text("name", Name::parse),
        description: fields.text("description", PublisherDescription::parse),
        logo: fields.text("logo", Link::parse),
        source_code_repo: fields.text("source_code_repo", Link::parse),
        support: fields.text("support", Label::parse),
        website: fields.text("website", Link::parse),
    }
}

/// Answers with the publisher as it is now.
fn with_view(
    call: &Admitted,
    id: &PublisherId,
    answer: impl FnOnce(&PublisherView<'_>) -> Result<Answer, Problem>,
) -> Result<Answer, Problem> {
    let models = call.services().models.read();
    let profile = models.publishers.get(id).ok_or_else(|| Problem::not_found("publisher"))?;
    answer(&PublisherView::new(profile, &models, call))
}
