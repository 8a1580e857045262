//! `GET /nodes/{nodeId}/badge.svg`: a picture for the README of a node.

use std::fmt::Write as _;

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG};

use crate::domain::node::NodeStatus;
use crate::domain::policy::Action;
use crate::domain::value::named_values;
use crate::domain::version::latest;
use crate::http::api::version_list::{NodeLookup, look_up_node};
use crate::http::pipeline::Call;
use crate::http::request::conditional;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::projections::node::entry::NodeEntry;

/// Cache control of badges: five minutes, because a badge is read far more often than it changes.
const CACHE: &str = "public, max-age=300";
/// Content security policy: a badge that is opened as a page loads and runs nothing.
const POLICY: &str = "default-src 'none'; sandbox";

const BLUE: &str = "#0b63a5";
const GREY: &str = "#5a5a5a";
const RED: &str = "#b3261e";
/// Width of a character, in pixels; the text is stretched to it.
const CHARACTER_WIDTH: usize = 7;
/// Margin left and right of a text, in pixels.
const MARGIN: usize = 6;

named_values! {
    /// Content of a badge.
    BadgeContent {
        Version = "version",
        Downloads = "downloads",
        Rating = "rating",
    }
}

/// Texts and color of a badge.
struct Badge {
    label: &'static str,
    value: String,
    color: &'static str,
}

/// `GET /nodes/{nodeId}/badge.svg`.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let content = query.optional("show", BadgeContent::parse).unwrap_or(BadgeContent::Version);
    query.finish()?;
    let entry = match look_up_node(&call, "/badge.svg")? {
        NodeLookup::Found(entry, _) => entry,
        NodeLookup::Redirect(redirect) => return Ok(redirect),
    };

    let svg = Badge::from_entry(&entry, content).ok_or_else(|| Problem::not_found("node"))?.render();
    let tag = conditional::entity_tag(svg.as_bytes());
    let is_current = conditional::is_current(call.headers(), &tag);
    let mut response = if is_current { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response.insert_header((ETAG, tag)).insert_header((CACHE_CONTROL, CACHE));
    response.insert_header((CONTENT_SECURITY_POLICY, POLICY));
    let response = if is_current { response.finish() } else { response.content_type("image/svg+xml").body(svg) };
    Ok(ApiResponse::from_response(response))
}

impl Badge {
    /// Returns the badge of a node; `None` if it was deleted.
    fn from_entry(entry: &NodeEntry, content: BadgeContent) -> Option<Self> {
        let node = entry.profile()?;
        if let Some((NodeStatus::Banned, _)) = entry.status() {
            return Some(Self { label: "node", value: "banned".to_owned(), color: RED });
        }

        let (label, value) = match content {
            BadgeContent::Version => ("version", latest(&node.versions).map(|version| version.number.to_string())),
            BadgeContent::Downloads => ("downloads", Some(short_count(node.downloads))),
            BadgeContent::Rating => ("rating", node.rating().map(|rating| format!("{rating:.1} of 5"))),
        };
        let color = if value.is_some() { BLUE } else { GREY };
        Some(Self { label, value: value.unwrap_or_else(|| "none".to_owned()), color })
    }

    /// Renders the badge. Labels, version numbers and counts need no escaping.
    fn render(&self) -> String {
        let Self { label, value, color } = self;
        let text_width = |text: &str| text.chars().count() * CHARACTER_WIDTH;
        let label_width = text_width(label) + 2 * MARGIN;
        let width = label_width + text_width(value) + 2 * MARGIN;

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"20\" role=\"img\" \
             aria-label=\"{label}: {value}\"><title>{label}: {value}</title>\
             <rect width=\"{width}\" height=\"20\" rx=\"3\" fill=\"{color}\"/>\
             <path d=\"M3 0H{label_width}V20H3A3 3 0 0 1 0 17V3A3 3 0 0 1 3 0Z\" fill=\"#333\"/>\
             <g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\">"
        );
        for (text, x) in [(*label, MARGIN), (value.as_str(), label_width + MARGIN)] {
            let length = text_width(text);
            // Writing to a string cannot fail.
            let _ = write!(svg, "<text x=\"{x}\" y=\"14\" textLength=\"{length}\">{text}</text>");
        }
        svg + "</g></svg>"
    }
}

/// Returns a count with at most four digits, such as `12.3k`.
fn short_count(count: u64) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    let Some((size, unit)) = units.into_iter().find(|(size, _)| count >= *size) else { return count.to_string() };
    let tenths = count / (size / 10);
    if tenths < 1000 { format!("{}.{}{unit}", tenths / 10, tenths % 10) } else { format!("{}{unit}", tenths / 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_rounded_down_to_a_unit() {
        let counts = [0, 999, 1_000, 12_399, 123_456, 999_999, 1_000_000, 2_500_000_000].map(short_count);
        assert_eq!(counts, ["0", "999", "1.0k", "12.3k", "123k", "999k", "1.0M", "2.5G"]);
    }
}
