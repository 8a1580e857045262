//! Connection to the service that a command calls: its URL, the token, and error messages.

use std::io::Write;

use anyhow::{Context, anyhow};
use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::login_file::StoredLogin;
use crate::cli::audit::text::{indented_lines, printable, printable_json, truncate};
use crate::cli::progress::{ProgressLine, ProgressUnit, format_bytes};
use crate::cli::token::variable;
use crate::cli::{CliError, print_text};
use crate::config::{TOKEN_VARIABLE, URL_VARIABLE};
use crate::domain::value::Digest;
use crate::outbound::api_client::{ApiClient, ServiceResponse, is_same_origin};
use crate::outbound::client::CallFailure;

/// URL of a service with the default settings on this machine.
pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// Maximum characters of a value in an error message.
const VALUE_MAX: usize = 48;

#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct ServiceArguments {
    /// URL of the service [default: `MEDIARY_URL`, otherwise that of `mediary login`, otherwise
    /// <http://127.0.0.1:8080>]
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(super) json: bool,
}

impl ServiceArguments {
    /// Returns the URL given by the flag or the environment.
    pub(super) fn explicit_url(&self) -> Option<String> {
        self.url.clone().or_else(|| variable(URL_VARIABLE))
    }
}

/// Connection to a service.
#[derive(Clone)]
pub(super) struct ServiceConnection {
    pub(super) api: ApiClient,
    base: String,
    has_token: bool,
    pub(super) json: bool,
}

impl ServiceConnection {
    /// Connects to the service that the arguments, the environment or the login name, in this order. Without a token,
    /// only public resources can be read.
    ///
    /// # Errors
    /// If the URL or the token is unusable, or the login cannot be read.
    pub(super) fn open(arguments: &ServiceArguments) -> Result<Self, CliError> {
        let login = StoredLogin::read()?;

        let stored_url = || login.as_ref().map(|login| login.url.clone());
        let base = arguments.explicit_url().or_else(stored_url).unwrap_or_else(|| DEFAULT_URL.to_owned());

        // The token of a login is only sent to its own service.
        let stored_token =
            || login.as_ref().filter(|login| is_same_url(&login.url, &base)).map(|login| login.token.clone());
        let token = variable(TOKEN_VARIABLE).or_else(stored_token);

        Self::new(&base, token.as_deref(), arguments.json)
    }

    /// Connects to the service for a command that needs a token.
    ///
    /// # Errors
    /// Same as [`ServiceConnection::open`], and if there is no token.
    pub(super) fn open_signed_in(arguments: &ServiceArguments) -> Result<Self, CliError> {
        let service = Self::open(arguments)?;
        if service.has_token {
            return Ok(service);
        }
        let base = &service.base;
        Err(CliError::CannotRun(anyhow!(
            "not signed in at {base}: run `mediary login --url {base}`, or set {TOKEN_VARIABLE}"
        )))
    }

    /// Creates a connection to the service at `base`.
    ///
    /// # Errors
    /// If the URL or the token is unusable.
    pub(super) fn new(base: &str, token: Option<&str>, json: bool) -> Result<Self, CliError> {
        let api = token.map_or_else(|| ApiClient::anonymous(base), |token| ApiClient::new(base, token));
        let api = api.map_err(|error| CliError::Usage(error.to_string()))?;
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { api, base, has_token: token.is_some(), json })
    }

    /// Returns the URL of the service, without a slash at the end.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Reads a resource as JSON.
    ///
    /// # Errors
    /// If the service does not respond or refuses.
    pub(super) async fn get(&self, path: &str) -> Result<Value, CliError> {
        self.json_of(self.api.get(path).await)
    }

    /// Reads a resource and parses it.
    ///
    /// # Errors
    /// Same as [`ServiceConnection::get`], and if the response is not of the expected form.
    pub(super) async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        self.parse(self.get(path).await?)
    }

    /// Parses the JSON of a response.
    ///
    /// # Errors
    /// If the JSON is not of the expected form.
    pub(super) fn parse<T: DeserializeOwned>(&self, response: Value) -> Result<T, CliError> {
        serde_json::from_value(response).map_err(|error| {
            CliError::Runtime(anyhow!("the response of {} is not of the expected form: {error}", self.base))
        })
    }

    /// Returns the JSON of a successful response.
    ///
    /// # Errors
    /// If there is no response, or the service refuses.
    pub(super) fn json_of(&self, result: Result<ServiceResponse, CallFailure>) -> Result<Value, CliError> {
        let reply = result.map_err(|failure| self.unreachable(&failure))?;
        if (200..300).contains(&reply.status) { Ok(reply.json()) } else { Err(self.refusal(&reply)) }
    }

    /// Downloads a file to `out` and shows the progress. Compares its SHA-256 with the one in the response, if there is
    /// one. Returns the number of bytes.
    ///
    /// # Errors
    /// If the file cannot be downloaded or written, has more than `bytes_max` bytes, or is damaged.
    pub(super) async fn download(&self, url: &str, bytes_max: u64, out: &mut impl Write) -> Result<u64, CliError> {
        let opened = self.api.download(url).await.map_err(|failure| self.unreachable_host(url, &failure))?;
        let mut download = opened.map_err(|reply| self.download_refusal(url, &reply))?;
        let length = download.length();
        let progress = ProgressLine::new("downloading", ProgressUnit::Bytes);
        let mut hash = Sha256::new();
        let mut bytes = 0;

        while let Some(chunk) = download.body.next().await.map_err(|failure| self.unreachable_host(url, &failure))? {
            bytes += chunk.len() as u64;
            if bytes > bytes_max {
                return Err(anyhow!("the file is larger than {}", format_bytes(bytes_max)).into());
            }
            hash.update(&chunk);
            out.write_all(&chunk).context("cannot write the file").map_err(CliError::CannotRun)?;
            progress.update(bytes, length);
        }

        out.flush().context("cannot write the file").map_err(CliError::CannotRun)?;
        progress.finish();

        let digest = Digest(hash.finalize().into()).to_string();
        match download.sha256() {
            Some(expected) if !expected.eq_ignore_ascii_case(&digest) => {
                Err(anyhow!("the download is damaged: its SHA-256 is {digest}, not {expected}").into())
            }
            _ => Ok(bytes),
        }
    }

    /// Returns the error for a missing response.
    pub(super) fn unreachable(&self, failure: &CallFailure) -> CliError {
        let base = &self.base;
        let advice = match failure {
            CallFailure::ConnectFailed(_) | CallFailure::Unresolved => {
                "; start a service with `mediary`, or name another with --url or `mediary login`"
            }
            _ => "",
        };
        CliError::CannotRun(anyhow!("no service answers at {base}: {failure}{advice}"))
    }

    /// Returns the error for a download without a complete response. Its URL may be on another host.
    fn unreachable_host(&self, url: &str, failure: &CallFailure) -> CliError {
        if is_same_origin(url, &self.base) {
            return self.unreachable(failure);
        }
        CliError::CannotRun(anyhow!(
            "{failure}; the URL is not one of {}: check it and `public_url` of the service",
            self.base
        ))
    }

    /// Returns the error for a download that is refused.
    fn download_refusal(&self, url: &str, reply: &ServiceResponse) -> CliError {
        if is_same_origin(url, &self.base) {
            return self.refusal(reply).context(format!("status {}", reply.status));
        }
        anyhow!("its host responded with status {}; ask the publisher, or install another version", reply.status).into()
    }

    /// Returns the error for an unsuccessful response: its reason, or one line for each invalid field.
    pub(super) fn refusal(&self, reply: &ServiceResponse) -> CliError {
        let base = &self.base;
        if let Some(location) = &reply.location {
            let location = printable(location);
            return anyhow!(
                "{base} redirects to {location}, which is not followed; set --url to the service's own URL"
            )
            .into();
        }
        let Ok(problem) = serde_json::from_slice::<ProblemDetails>(&reply.body) else {
            return anyhow!("{base} responded with status {} but no reason; is it a Mediary service?", reply.status)
                .into();
        };
        let advice = match reply.status {
            401 if self.has_token => "; run `mediary login` again",
            401 => "; run `mediary login` first",
            _ => "",
        };
        anyhow!("the service refused:{}{advice}", problem.describe()).into()
    }

    /// Prints a JSON value to stdout.
    ///
    /// # Errors
    /// If stdout cannot be written.
    pub(super) fn print_json(value: &Value) -> Result<(), CliError> {
        print_text(&format!("{}\n", printable_json(&format!("{value:#}"))))
    }
}

/// Error response (RFC 9457).
#[derive(Deserialize)]
struct ProblemDetails {
    detail: String,
    #[serde(default)]
    details: Vec<String>,
    #[serde(default)]
    errors: Vec<ProblemField>,
}

#[derive(Deserialize)]
struct ProblemField {
    pointer: String,
    reason: String,
    /// Value that was sent, unless it is long or a secret.
    value: Option<Value>,
}

impl ProblemDetails {
    fn describe(&self) -> String {
        let fields = self.errors.iter().map(|ProblemField { pointer, reason, value }| {
            let name = pointer.trim_start_matches('/');
            let sent = value.as_ref().map(|value| format!(" (sent: {})", truncate(&value.to_string(), VALUE_MAX)));
            format!("{} {reason}{}", if name.is_empty() { "the body" } else { name }, sent.unwrap_or_default())
        });
        let messages: Vec<_> = if self.errors.is_empty() { self.details.clone() } else { fields.collect() };
        match messages.as_slice() {
            [] => format!(" {}", printable(&self.detail)),
            [message] => format!(" {}", printable(message)),
            messages => indented_lines(messages),
        }
    }
}

/// Returns `true` if both texts are URLs, and the same except for spelling and slashes at the end.
fn is_same_url(first: &str, second: &str) -> bool {
    let normalize = |text: &str| Url::parse(text).ok().map(|url| url.as_str().trim_end_matches('/').to_owned());
    normalize(first).is_some_and(|first| Some(first) == normalize(second))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn refusal(status: u16, body: &'static str) -> String {
        let service = ServiceConnection::new("http://127.0.0.1:1/", None, false).unwrap();
        let body = Bytes::from_static(body.as_bytes());
        service.refusal(&ServiceResponse { status, replayed: false, location: None, body }).to_string()
    }

    #[test]
    fn a_refusal_names_every_field() {
        let two_fields = r#"{"detail": "/a is bad; /b/c is bad", "details": ["x", "y"],
                      "errors": [{"pointer": "/a", "reason": "is bad"}, {"pointer": "/b/c", "reason": "is worse"}]}"#;
        assert_eq!(refusal(400, two_fields), "the service refused:\n  a is bad\n  b/c is worse");
        let with_value =
            r#"{"detail": "x", "errors": [{"pointer": "/hdr", "reason": "must be from -10 to 10", "value": 99}]}"#;
        assert_eq!(refusal(400, with_value), "the service refused: hdr must be from -10 to 10 (sent: 99)");
        let whole_body = r#"{"detail": "x", "errors": [{"pointer": "", "reason": "must be an object"}]}"#;
        assert_eq!(refusal(400, whole_body), "the service refused: the body must be an object");
        assert_eq!(refusal(404, r#"{"detail": "node\u001b not found"}"#), "the service refused: node\\u{1b} not found");
        assert!(refusal(401, r#"{"detail": "no token"}"#).ends_with("no token; run `mediary login` first"));
        assert!(refusal(502, "<html>").contains("responded with status 502 but no reason"));
    }

    #[test]
    fn a_redirect_that_is_not_followed_is_named() {
        let service = ServiceConnection::new("http://127.0.0.1:1/", None, false).unwrap();
        let location = Some("https://example.org/nodes/a".to_owned());
        let reply = ServiceResponse { status: 302, replayed: false, location, body: Bytes::new() };
        let message = service.refusal(&reply).to_string();
        assert!(message.contains("redirects to https://example.org/nodes/a, which is not followed"), "{message}");
    }

    #[test]
    fn the_token_of_a_login_is_for_one_url() {
        assert!(is_same_url("http://127.0.0.1:8080", "http://127.0.0.1:8080/"));
        assert!(is_same_url("https://EXAMPLE.org:443/a", "https://example.org/a/"));
        for url in ["https://example.org/b", "http://example.org/a", "https://example.org:8443/a", "x"] {
            assert!(!is_same_url("https://example.org/a", url), "{url}");
        }
    }
}
