//! Connection to one vendor: its calls, and the errors of those without a response. Masks credentials.

use crate::environment::Environment;
use crate::outbound::client::CallFailure;
use crate::outbound::vendor_client::{VendorCallKind, VendorClient, VendorRequest, VendorResponse};
use crate::vendors::credential_mask::CredentialMask;
use crate::vendors::profile::request::PreparedRequest;
use crate::vendors::profile::response::ParsedResponse;
use crate::vendors::{VendorError, VendorErrorKind};

/// Connection to one vendor. Cheap to clone.
#[derive(Clone)]
pub(super) struct VendorConnection {
    pub client: VendorClient,
    /// Applied to all messages of the vendor.
    pub mask: CredentialMask,
    pub environment: Environment,
}

impl VendorConnection {
    /// Sends a job.
    pub async fn submit(&self, request: VendorRequest) -> Result<VendorResponse, VendorError> {
        self.send(VendorCallKind::Submission, request, "the vendor is unreachable").await
    }

    /// Sends a request that starts nothing. Its response has at most `response_bytes`. `failure_message` begins the
    /// message of an error without a response.
    pub async fn read(
        &self,
        request: PreparedRequest,
        response_bytes: usize,
        failure_message: &str,
    ) -> Result<VendorResponse, VendorError> {
        let request = self.to_vendor_request(request, response_bytes);
        self.send(VendorCallKind::Read, request, failure_message).await
    }

    /// Downloads a file from the vendor itself.
    pub async fn download(
        &self,
        request: PreparedRequest,
        response_bytes: usize,
    ) -> Result<VendorResponse, CallFailure> {
        let request = self.to_vendor_request(request, response_bytes);
        self.client.send(VendorCallKind::Download, request, self.environment.now()).await
    }

    async fn send(
        &self,
        kind: VendorCallKind,
        request: VendorRequest,
        failure_message: &str,
    ) -> Result<VendorResponse, VendorError> {
        let result = self.client.send(kind, request, self.environment.now()).await;
        result.map_err(|failure| self.mask_error(no_response_error(&failure, failure_message)))
    }

    /// Encodes a request. The boundary of a form is random, so that no content can be made to contain it.
    pub fn to_vendor_request(&self, request: PreparedRequest, response_bytes: usize) -> VendorRequest {
        let boundary = self.environment.random_uuid().simple().to_string();
        to_vendor_request(request, &boundary, response_bytes)
    }

    /// Parses a response; messages from it are masked.
    pub fn parse_response(&self, response: &VendorResponse) -> ParsedResponse {
        ParsedResponse::new(response.status, response.body.clone()).with_mask(&self.mask)
    }

    /// Adds the `Retry-After` of the response to an error and masks credentials.
    pub fn complete_error(&self, response: &VendorResponse, mut error: VendorError) -> VendorError {
        error.retry_after = response.retry_after;
        self.mask_error(error)
    }

    /// Masks credentials in the message of an error.
    pub fn mask_error(&self, mut error: VendorError) -> VendorError {
        error.message = self.mask_api_key(&error.message);
        error
    }

    /// Returns text of a vendor with credentials masked.
    pub fn mask_api_key(&self, text: &str) -> String {
        self.mask.apply(text)
    }
}

fn to_vendor_request(request: PreparedRequest, boundary: &str, response_bytes: usize) -> VendorRequest {
    let PreparedRequest { method, path, headers, body } = request;
    let encoded = body.encode(boundary);
    let content_type = encoded.content_type;
    VendorRequest { method: method.as_str(), path, headers, content_type, body: encoded.bytes, response_bytes }
}

/// Returns the error of a call without a response. A request that was not sent certainly started nothing.
pub(super) fn no_response_error(failure: &CallFailure, message: &str) -> VendorError {
    let kind = match failure {
        CallFailure::InvalidUrl(_)
        | CallFailure::InvalidHeader
        | CallFailure::Forbidden
        | CallFailure::Unresolved
        | CallFailure::ConnectFailed(_) => VendorErrorKind::Unreached,
        CallFailure::TimedOut(_)
        | CallFailure::TooLarge(_)
        | CallFailure::BufferFull
        | CallFailure::BrokenResponse(_) => VendorErrorKind::Unknown,
    };
    VendorError::new(kind, format!("{message}: {failure}"))
}
