//! `mediary openapi`: prints the OpenAPI document of the service.

use anyhow::Context;

use super::{Failure, print};
use crate::http::openapi;

pub(super) fn run() -> Result<(), Failure> {
    let text = openapi::text().context("cannot write the document")?;
    print(&text).context("cannot write to stdout")?;
    Ok(())
}
