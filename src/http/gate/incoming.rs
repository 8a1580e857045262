//! Body of an authorized request: streamed, buffered or parsed.

use actix_web::web::Bytes;

use super::{Admitted, Call, Incoming};
use crate::domain::policy::Action;
use crate::http::account::account_of;
use crate::http::body::{self, Body, Json};
use crate::http::chunks::Chunks;
use crate::http::error::Problem;

impl<const ACTION: u8> Call<ACTION> {
    /// Buffers the body.
    ///
    /// # Errors
    /// See [`body::receive`]: wrong content type, too large, too slow.
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

    /// Returns the body as a stream of chunks.
    ///
    /// # Errors
    /// If the body is compressed or announces too large a length; see [`Chunks`].
    pub fn chunks(&mut self) -> Result<Chunks, Problem> {
        let Admitted { request, body, expected, .. } = &mut self.0;
        match std::mem::replace(body, Incoming::Taken) {
            Incoming::Waiting(payload) => Chunks::new(request.headers(), payload, expected.limit),
            Incoming::Received(_) | Incoming::Parsed(..) | Incoming::Taken => {
                Err(Problem::internal("a handler read the body twice"))
            }
        }
    }

    /// Buffers and parses the body as JSON.
    ///
    /// # Errors
    /// See [`Call::body`]; also if the body is not JSON.
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
    /// Buffers the body if necessary and returns its bytes; the handler can still read it.
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
