//! `mediary openapi`: the OpenAPI document of everything that the service answers.

use anyhow::Context;

use super::{Failure, print};
use crate::http::openapi;

pub(super) fn run() -> Result<(), Failure> {
    let text = openapi::text().context("cannot write the document")?;
    print(&text).context("cannot write to stdout")?;
    Ok(())
}
