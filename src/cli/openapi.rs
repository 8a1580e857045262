//! `mediary openapi`: prints the OpenAPI document of the service.

use anyhow::Context;

use super::{CliError, print};
use crate::http::openapi;

pub(super) fn run() -> Result<(), CliError> {
    let text = openapi::document_json().context("cannot write the document")?;
    print(&text).context("cannot write to stdout")?;
    Ok(())
}
