//! Publishers: response format; list, show, create, update, delete.

use std::collections::HashSet;

use actix_web::http::header::LOCATION;
use serde::Serialize;
use serde_json::{Value, json};

use crate::domain::ids::{PublisherId, UserId};
use crate::domain::policy::Action;
use crate::domain::publisher::{
    MemberRole, PublisherAdminFields, PublisherCommand, PublisherFields, PublisherProfile, PublisherStatus,
};
use crate::domain::user::{User, UserProfile};
use crate::domain::value::{InvalidValue, Text};
use crate::http::auth::personal_fields::{self, Contact};
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::fields::{self, Fields};
use crate::http::request::json_object::{
    AdministratorsOnly, FlattenedFields, JsonObject, JsonValue, RequiredField, json_object,
};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::pii::Keyring;
use crate::projections::node::view::non_empty_link;
use crate::projections::read_models::Models;

/// Default page size.
const LIMIT_DEFAULT: u64 = 10;

/// Ids that collide with paths of the API.
const RESERVED_IDS: &[&str] = &["validate"];

/// `Publisher` of the API.
#[derive(Debug, Serialize)]
pub struct PublisherView<'m> {
    #[serde(rename = "createdAt")]
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'m str>,
    id: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logo: Option<&'m str>,
    members: Vec<MemberView>,
    name: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_code_repo: Option<&'m str>,
    status: &'static str,
    /// Reason of the ban, if banned.
    #[serde(skip_serializing_if = "Option::is_none")]
    status_detail: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    support: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    website: Option<&'m str>,
}

/// `PublisherMember` of the API; its id is the user id.
#[derive(Debug, Serialize)]
struct MemberView {
    id: String,
    role: &'static str,
    user: MemberUserView,
}

#[derive(Debug, Serialize)]
struct MemberUserView {
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    erased: bool,
}

/// Copy of a publisher and its members, so that it can be serialized without holding the read models.
pub struct PublisherWithMembers {
    profile: PublisherProfile,
    /// Members, in the order of the profile.
    users: Vec<User>,
}

impl PublisherWithMembers {
    /// Copies a publisher and its members.
    #[must_use]
    pub fn new(profile: &PublisherProfile, models: &Models) -> Self {
        let users = profile.members.iter().map(|(id, _)| models.users.find(*id).cloned().unwrap_or_default());
        Self { profile: profile.clone(), users: users.collect() }
    }

    fn members(&self) -> impl Iterator<Item = &UserProfile> {
        self.users.iter().filter_map(User::profile)
    }
}

impl<'m> PublisherView<'m> {
    /// Renders the publisher for the caller. E-mail addresses are for members and administrators (contract 3).
    #[must_use]
    pub fn new(publisher: &'m PublisherWithMembers, call: &RequestContext) -> Self {
        let caller = call.identity();
        let is_member = |user: &UserProfile| publisher.profile.role_of(user.id).is_some();
        let with_email = caller.is_admin() || caller.user().is_some_and(is_member);
        Self::render(publisher, with_email, &call.services().keyring)
    }

    /// Renders the publisher, with e-mail addresses if `with_email`.
    #[must_use]
    pub fn render(
        PublisherWithMembers { profile, users }: &'m PublisherWithMembers,
        with_email: bool,
        keyring: &Keyring,
    ) -> Self {
        let member = |((id, role), user): (&(UserId, MemberRole), &User)| {
            let id = id.to_string();
            let Contact { email, name, erased } = Contact::new(user, with_email, keyring);
            MemberView { id: id.clone(), role: role.as_str(), user: MemberUserView { email, id, name, erased } }
        };

        let fields = &profile.fields;
        Self {
            created_at: profile.created_at.to_string(),
            description: fields.description.as_ref().map(Text::as_str),
            id: profile.id.as_str(),
            logo: non_empty_link(fields.logo.as_ref()),
            members: profile.members.iter().zip(users).map(member).collect(),
            name: display_name(profile),
            source_code_repo: non_empty_text(fields.source_code_repo.as_ref()),
            status: profile.status.as_str(),
            status_detail: profile.ban_reason.as_ref().map(Text::as_str),
            support: fields.support.as_ref().map(Text::as_str),
            website: non_empty_text(fields.website.as_ref()),
        }
    }
}

/// Returns the name, or the id without one.
#[must_use]
pub fn display_name(profile: &PublisherProfile) -> &str {
    let name = profile.fields.name.as_ref().map(Text::as_str).filter(|name| !name.is_empty());
    name.unwrap_or(profile.id.as_str())
}

fn non_empty_text<const MAX: usize>(text: Option<&Text<MAX>>) -> Option<&str> {
    text.map(Text::as_str).filter(|text| !text.is_empty())
}

/// Page of publishers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PublisherPage<'m> {
    limit: u64,
    page: u64,
    publishers: Vec<PublisherView<'m>>,
    total: u64,
    total_pages: u64,
}

/// `GET /publishers`: all publishers, by id. Banned ones only for administrators with `include_banned`.
pub async fn list(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_DEFAULT);
    let include_banned = query.flag("include_banned").unwrap_or(false);
    let ids: HashSet<_> = query.values("publisher_id").into_iter().map(str::to_owned).collect();
    query.finish()?;

    let page = {
        let models = call.services().models.read();
        let page = models.publishers.page(request, &ids, include_banned && call.identity().is_admin());
        page.map(|profile| PublisherWithMembers::new(profile, &models))
    };

    personal_fields::preload_keys(
        &call.services().keyring,
        page.entries.iter().flat_map(PublisherWithMembers::members),
    )
    .await?;

    ApiResponse::ok(&PublisherPage {
        limit: request.limit,
        page: request.page,
        total: page.total,
        total_pages: page.total_pages(),
        publishers: page.entries.iter().map(|publisher| PublisherView::new(publisher, &call)).collect(),
    })
}

/// `GET /users/publishers`: publishers of which the caller is a member, by id.
pub async fn list_own(call: Call<{ Action::ReadOwnAccount as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.user()?.id;
    let publishers: Vec<_> = {
        let models = call.services().models.read();
        models.publishers.for_member(user).map(|profile| PublisherWithMembers::new(profile, &models)).collect()
    };
    personal_fields::preload_keys(&call.services().keyring, publishers.iter().flat_map(PublisherWithMembers::members))
        .await?;
    ApiResponse::ok(&publishers.iter().map(|publisher| PublisherView::new(publisher, &call)).collect::<Vec<_>>())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IdAvailability {
    is_available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// `GET /publishers/validate`: reports if an id is available, and if not, why not.
pub async fn validate(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let username = query.required("username", |text| Ok(text.to_owned()));
    query.finish()?;

    let models = call.services().models.read();
    let reason = parse_new_id(&username.unwrap_or_default()).and_then(|id| {
        if models.publishers.get(&id).is_some() {
            Err(InvalidValue::new("is taken"))
        } else if models.publishers.was_deleted(&id) {
            Err(InvalidValue::new("belonged to a deleted publisher and cannot be reused"))
        } else {
            Ok(())
        }
    });

    let reason = reason.err().map(|reason| format!("the id {reason}"));
    ApiResponse::ok(&IdAvailability { is_available: reason.is_none(), reason })
}

/// Parses the id of a new publisher.
fn parse_new_id(text: &str) -> Result<PublisherId, InvalidValue> {
    if RESERVED_IDS.contains(&text) {
        return Err(InvalidValue::new("is reserved"));
    }
    PublisherId::parse(text)
}

/// `POST /publishers`: claims an id; the caller becomes the owner.
pub async fn create(mut call: Call<{ Action::CreatePublisher as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json().await?;
    let owner = call.user()?.id;
    let is_admin = call.identity().is_admin();

    let (NewPublisherId(id), fields, admin_fields) = fields::read_as(is_admin, &body, |fields| {
        let body = NewPublisherBody::read_fields(fields)?;
        check_status(fields, &body.admin.0, PublisherStatus::Active);
        let NewPublisherBody { id, fields, admin } = body;
        Some((id.0?, fields.0, admin.0.fields.0))
    })?;

    let charge = call.charge_publisher()?;
    let command = PublisherCommand::Create { id: id.clone(), owner, fields, admin_fields };
    call.services().dispatch.publisher(&id, command, call.command_context()).await?;

    if let Some(charge) = charge {
        charge.commit();
    }

    reply_with_publisher(&call, &id, |view| ApiResponse::created(view))
        .await?
        .with_header(LOCATION, call.url(&format!("/publishers/{id}")))
}

/// `GET /publishers/{publisherId}`.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    reply_with_current_publisher(&call).await
}

/// `PUT /publishers/{publisherId}`: changes the fields that are present.
pub async fn update(mut call: Call<{ Action::UpdatePublisher as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json().await?;
    let PublisherProfile { id, status, .. } = call.publisher()?;
    let is_admin = call.identity().is_admin();
    let PublisherBody { fields: change, admin } = fields::read_as(is_admin, &body, |fields| {
        let body = PublisherBody::read_fields(fields)?;
        check_status(fields, &body.admin.0, *status);
        Some(body)
    })?;

    call.services()
        .dispatch
        .publisher(
            id,
            PublisherCommand::Revise { change: change.0, admin_fields: admin.0.fields.0 },
            call.command_context(),
        )
        .await?;
    reply_with_current_publisher(&call).await
}

/// `DELETE /publishers/{publisherId}`: final, and only without nodes.
pub async fn delete(call: Call<{ Action::DeletePublisher as u8 }>) -> Result<ApiResponse, Problem> {
    let id = &call.publisher()?.id;
    match call.services().models.read().nodes.count_of_publisher(id) {
        0 => {}
        1 => return Err(Problem::new(Code::Conflict, "the publisher still has 1 node: delete it first")),
        nodes => {
            return Err(Problem::new(
                Code::Conflict,
                format!("the publisher still has {nodes} nodes: delete them first"),
            ));
        }
    }

    call.services().dispatch.publisher(id, PublisherCommand::Delete, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}

/// Permissions of the caller on a publisher.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublisherPermissions {
    pub can_edit: bool,
}

/// `GET /publishers/{publisherId}/permissions`.
pub async fn permissions(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    ApiResponse::ok(&PublisherPermissions { can_edit: call.can_perform(Action::UpdatePublisher, call.publisher()?) })
}

json_object! {
    impl PublisherFields {
        /// Display name.
        name,
        /// Description of the publisher.
        description,
        /// URL of the logo.
        logo,
        /// Location of the source code: a URL or any other text.
        source_code_repo,
        /// Support contact, such as an e-mail address or a URL.
        support,
        /// Website: a URL or any other text.
        website,
    }
}

json_object! {
    impl PublisherAdminFields {
        /// Creation time.
        #[name("createdAt")]
        created_at,
    }
}

json_object! {
    /// Fields of a publisher that only administrators set.
    #[derive(Default)]
    pub struct PublisherAdminBody {
        /// Must be the current status. To change it, use `POST /admin/publishers/{publisherId}/ban` and `/unban`.
        status: Option<PublisherStatus>,
        fields: FlattenedFields<PublisherAdminFields>,
    }
}

json_object! {
    pub struct PublisherBody {
        fields: FlattenedFields<PublisherFields>,
        admin: AdministratorsOnly<PublisherAdminBody>,
    }
}

json_object! {
    pub struct NewPublisherBody {
        /// Id of the publisher: a lowercase letter, then lowercase letters, digits and hyphens, at most 63 characters.
        /// An id is never reused.
        id: RequiredField<NewPublisherId>,
        fields: FlattenedFields<PublisherFields>,
        admin: AdministratorsOnly<PublisherAdminBody>,
    }
}

/// Id of a new publisher.
pub struct NewPublisherId(PublisherId);

impl JsonValue for NewPublisherId {
    fn schema() -> Value {
        let mut schema = <PublisherId as JsonValue>::schema();
        schema["not"] = json!({"const": "validate"});
        schema
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.text(name, parse_new_id).map(Self)
    }
}

/// Checks that a status in the body is the current one (contract 4). Only bans change it, which require a reason.
fn check_status(fields: &mut Fields<'_, '_>, admin: &PublisherAdminBody, current: PublisherStatus) {
    if admin.status.is_some_and(|requested| requested != current) {
        let endpoint = "POST /admin/publishers/{id}/ban or /unban";
        let reason = format!("must be the current status, {}; use {endpoint} to change it", current.as_str());
        fields.add_error("status", reason);
    }
}

/// Returns the current state of the publisher in the path.
pub async fn reply_with_current_publisher(call: &RequestContext) -> Result<ApiResponse, Problem> {
    reply_with_publisher(call, &call.publisher()?.id, |view| ApiResponse::ok(view)).await
}

/// Renders the current state of a publisher.
async fn reply_with_publisher(
    call: &RequestContext,
    id: &PublisherId,
    respond: impl FnOnce(&PublisherView<'_>) -> Result<ApiResponse, Problem>,
) -> Result<ApiResponse, Problem> {
    let publisher = {
        let models = call.services().models.read();
        models.publishers.get(id).map(|profile| PublisherWithMembers::new(profile, &models))
    };
    let publisher = publisher.ok_or_else(|| Problem::not_found("publisher"))?;
    personal_fields::preload_keys_for_reply(call, publisher.members()).await?;
    respond(&PublisherView::new(&publisher, call))
}
