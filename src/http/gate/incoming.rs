//! The body of a request that was let through: as it comes, as it came, or as JSON.

use actix_web::web::Bytes;

use super::{Admitted, Call, Incoming};
use crate::domain::policy::Action;
use crate::http::account::account_of;
use crate::http::body::{self, Body, Json};
use crate::http::chunks::Chunks;
use crate::http::error::Problem;

impl<const ACTION: u8> Call<ACTION> {
    /// The body as it came, read now.
    ///
    /// # Errors
    /// When it is not JSON by its type, too large or too slow; see [`body::receive`].
    pub async fn body(&mut self) -> Result<Body, Problem> {
        let Admitted { request, shared, identity, body, expected, .. } = &mut self.0;
        let body = match std::mem::replace(body, Incoming::Taken) {
            Incoming::Waiting(payload) => {
                let account = account_of(identity, request, &shared.services.options.proxies);
                let payer = (&shared.bodies, account);
                body::receive(request.headers(), payload, *expected, payer).await
            }
            Incoming::Received(body) => Ok(body),
            Incoming::Parsed(..) | Incoming::Taken => Err(Problem::internal("a handler read the body twice")),
        }?;
        if Action::ALL[usize::from(ACTION)].is_submission() {
            self.charge_bytes(self.account(), body.bytes().len())?;
        }
        Ok(body)
    }

    /// The body as it comes.
    ///
    /// # Errors
    /// When it is compressed or announces that it is too large; see [`Chunks`].
    pub fn chunks(&mut self) -> Result<Chunks, Problem> {
        let Admitted { request, body, expected, .. } = &mut self.0;
        match std::mem::replace(body, Incoming::Taken) {
            Incoming::Waiting(payload) => Chunks::new(request.headers(), payload, expected.limit),
            Incoming::Received(_) | Incoming::Parsed(..) | Incoming::Taken => {
                Err(Problem::internal("a handler read the body twice"))
            }
        }
    }

    /// The body as JSON, read now.
    ///
    /// # Errors
    /// As [`Call::body`], and when it is no JSON.
    pub async fn json(&mut self) -> Result<Json, Problem> {
        match std::mem::replace(&mut self.0.body, Incoming::Taken) {
            Incoming::Parsed(json, _) => Ok(json),
            waiting => {
                self.0.body = waiting;
                self.body().await?.json().await
            }
        }
    }
}

impl Admitted {
    /// The bytes of the body, which is received now if it was not before, and stays there for the handler.
    pub(super) async fn received(&mut self) -> Result<Bytes, Problem> {
        self.body = match std::mem::replace(&mut self.body, Incoming::Taken) {
            Incoming::Waiting(payload) => {
                let payer = (&self.shared.bodies, self.account());
                Incoming::Received(body::receive(self.request.headers(), payload, self.expected, payer).await?)
            }
            there => there,
        };
        match &self.body {
            Incoming::Received(body) => Ok(body.bytes().clone()),
            Incoming::Parsed(_, bytes) => Ok(bytes.clone()),
            Incoming::Waiting(_) | Incoming::Taken => Err(Problem::internal("the body was taken before its time")),
        }
    }
}
