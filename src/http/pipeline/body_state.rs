//! Body of an authorized request: streamed, buffered or parsed.

use actix_web::web::Bytes;

use super::{BodyState, Call, RequestContext};
use crate::domain::policy::Action;
use crate::http::auth::account::account_of;
use crate::http::request::body::{self, BodyLimit, JsonBody, RequestBody};
use crate::http::request::body_chunks::BodyChunks;
use crate::http::request::fields;
use crate::http::request::json_object::JsonObject;
use crate::http::response::error::Problem;

impl<const ACTION: u8> Call<ACTION> {
    /// Buffers the body.
    ///
    /// # Errors
    /// See [`body::receive`]: wrong content type, too large, too slow.
    pub async fn body(&mut self) -> Result<RequestBody, Problem> {
        let RequestContext { request, shared, identity, body, body_spec, .. } = &mut self.0;

        let body = match std::mem::replace(body, BodyState::Consumed) {
            BodyState::Unread(payload) => {
                let account = account_of(identity, request, &shared.services.options.proxies);
                let payer = (&shared.body_budget, account);
                body::receive(request.headers(), payload, *body_spec, payer).await
            }
            BodyState::Buffered(body) => Ok(body),
            BodyState::Parsed(..) | BodyState::Consumed => Err(Problem::internal("a handler read the body twice")),
        }?;

        let action = Action::ALL[usize::from(ACTION)];
        // Estimates are charged too, because their pictures are decoded as well.
        if action.is_submission() {
            self.charge_bytes(self.account(), body.bytes().len())?;
        }
        Ok(body)
    }

    /// Returns the body as a stream of chunks.
    ///
    /// # Errors
    /// If the body is compressed or announces too large a length; see [`BodyChunks`].
    pub fn chunks(&mut self) -> Result<BodyChunks, Problem> {
        let RequestContext { request, body, body_spec, .. } = &mut self.0;
        match std::mem::replace(body, BodyState::Consumed) {
            BodyState::Unread(payload) => BodyChunks::new(request.headers(), payload, body_spec.limit),
            BodyState::Buffered(_) | BodyState::Parsed(..) | BodyState::Consumed => {
                Err(Problem::internal("a handler read the body twice"))
            }
        }
    }

    /// Buffers and parses the body as JSON.
    ///
    /// # Errors
    /// See [`Call::body`]; also if the body is not JSON.
    pub async fn json(&mut self) -> Result<JsonBody, Problem> {
        match std::mem::replace(&mut self.0.body, BodyState::Consumed) {
            BodyState::Parsed(json, _) => Ok(json),
            state => {
                self.0.body = state;
                self.body().await?.json().await
            }
        }
    }

    /// Reads the body as a JSON object.
    ///
    /// # Errors
    /// See [`Call::json`]; or all invalid fields.
    pub async fn json_object<T: JsonObject>(&mut self) -> Result<T, Problem> {
        let body = self.json().await?;
        fields::read_as(self.0.identity.is_admin(), &body, T::read_fields)
    }
}

impl RequestContext {
    /// Returns the limit of the body, which may depend on its content type.
    #[must_use]
    pub fn body_limit(&self) -> BodyLimit {
        self.body_spec.limit
    }

    /// Buffers the body if necessary and returns its bytes; the handler can still read it.
    pub(super) async fn buffer_body(&mut self) -> Result<Bytes, Problem> {
        self.body = match std::mem::replace(&mut self.body, BodyState::Consumed) {
            BodyState::Unread(payload) => {
                let payer = (&self.shared.body_budget, self.account());
                BodyState::Buffered(body::receive(self.request.headers(), payload, self.body_spec, payer).await?)
            }
            state => state,
        };

        match &self.body {
            BodyState::Buffered(body) => Ok(body.bytes().clone()),
            BodyState::Parsed(_, bytes) => Ok(bytes.clone()),
            BodyState::Unread(_) | BodyState::Consumed => {
                Err(Problem::internal("the body was consumed before it was buffered"))
            }
        }
    }
}
