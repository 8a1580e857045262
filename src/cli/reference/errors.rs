//! Page of error codes.

use std::fmt::Write;

use super::escape_cell;
use crate::http::ErrorCode;

/// The page with `{{codes}}` in place of the table.
const TEMPLATE: &str = include_str!("errors.md.in");

pub(super) fn page() -> String {
    let mut table = "| Code | Status | Meaning | What to do |\n|---|---|---|---|\n".to_owned();
    for code in ErrorCode::ALL {
        let name = code.as_str();
        // The anchor makes a link to `errors.md#not_found` work.
        let _ = writeln!(
            table,
            "| <a id=\"{name}\"></a>`{name}` | {} | {} | {} |",
            code.status(),
            escape_cell(code.meaning()),
            escape_cell(code.action())
        );
    }
    TEMPLATE.replace("{{codes}}\n", &table)
}
