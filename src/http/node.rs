//! Nodes as they are read: one, a publisher's, and any list of all of them.
//!
//! A list is answered by joining the JSON of its nodes, which each node keeps once it was written. Whole pages are kept as
//! well, each for one generation of the nodes: a page that was made before anything changed is never handed out after.

use std::sync::Arc;

use actix_web::http::header::{HeaderName, LINK};

use super::answer::Answer;
use super::conditional;
use super::error::Problem;
use super::gate::{Admitted, Call};
use super::joined::{Joined, tag_of_fragment};
use super::node_query::{self, Asked};
use super::query::LIMIT_MAX;
use super::ready::ReadyPage;
use crate::domain::ids::NodeId;
use crate::domain::policy::{Action, Standing};
use crate::projections::node::cache::Cache;
use crate::projections::node::entry::Entry;
use crate::projections::node::list::NodeQuery;
use crate::projections::node::view::{Fragment, Links};
use crate::projections::page::{Page, PageRequest};

/// How many nodes there are on all pages together.
pub const X_TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

/// Bytes of all pages that are kept ready.
const READY_MAX: usize = 32 << 20;

/// Pages of lists that are ready to be sent.
pub type ReadyPages = Cache<NodeQuery, ReadyPage>;

/// Room for ready pages.
#[must_use]
pub fn ready_pages() -> ReadyPages {
    Cache::new(READY_MAX)
}

/// `GET /nodes`: a page of all nodes.
pub async fn list(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let asked = node_query::read(&mut query, call.identity().is_admin());
    query.finish()?;
    page(&call, &asked)
}

/// `GET /nodes/search`: a page of the nodes in which every word of `search` occurs, the best first.
pub async fn search(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let asked = node_query::read_search(&mut query, call.identity().is_admin());
    query.finish()?;
    page(&call, &asked)
}

fn page(call: &Admitted, Asked { query, latest }: &Asked) -> Result<Answer, Problem> {
    let ready_pages = &call.shared().ready_pages;
    let accepted = call.accepted_codings();
    let models = call.services().models.read();
    let generation = models.nodes.generation();
    if let Some(ready) = ready_pages.get(query, generation).filter(|_| !latest) {
        drop(models);
        return ready.answer(call.headers(), accepted.as_ref());
    }
    let (page, links) = (models.nodes.list(query, *latest), models.nodes.links().clone());
    drop(models);
    let joined = Joined::node_page(written(page, &links));
    let tag = joined.tag();
    if conditional::is_current(call.headers(), &tag) {
        return Ok(Answer::unchanged(&tag));
    }
    let ready = ReadyPage::new(joined.body(), tag);
    if !latest {
        ready_pages.put(query, generation, ready.clone(), ready.weight() + query.selection.weight());
    }
    ready.answer(call.headers(), accepted.as_ref())
}

/// The JSON of every entry. Not while the read models are held: some of it may have to be written first.
fn written(page: Page<Arc<Entry>>, links: &Links) -> Page<Fragment> {
    let Page { entries, total, request } = page;
    Page { entries: entries.iter().filter_map(|entry| entry.fragment(links).cloned()).collect(), total, request }
}

/// `GET /nodes/{node_id}`; the wrong case is redirected to the right one.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let not_found = || Problem::not_found("node");
    let asked = NodeId::parse(&call.segment("node_id")).map_err(|_| not_found())?;
    let (entry, links) = {
        let models = call.services().models.read();
        (models.nodes.entry(&asked.key()).ok_or_else(not_found)?, models.nodes.links().clone())
    };
    if let Some(other) = entry.profile().map(|node| &node.id).filter(|id| **id != asked) {
        let query = if call.query_string().is_empty() { String::new() } else { format!("?{}", call.query_string()) };
        return Answer::found_at(call.url(&format!("/nodes/{other}{query}")));
    }
    let fragment = entry.fragment(&links).ok_or_else(not_found)?;
    Ok(Answer::tagged(fragment.json.clone(), &tag_of_fragment(fragment)))
}

/// `GET /publishers/{publisher_id}/nodes`: by id; all of them up to [`LIMIT_MAX`], unless a page is asked for. Banned ones are
/// for members and administrators.
pub async fn list_of_publisher(call: Call<{ Action::ListPublisherNodes as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_MAX);
    let wants_banned = query.flag("include_banned").unwrap_or(false);
    query.finish()?;
    let publisher = call.publisher()?;
    let standing = call.identity().standing(Some(publisher));
    let insider = matches!(standing, Standing::Member | Standing::Owner | Standing::OwnToken | Standing::Admin);
    let include_banned = wants_banned && insider;
    let (page, links) = {
        let models = call.services().models.read();
        (models.nodes.of_publisher(&publisher.id, request, include_banned), models.nodes.links().clone())
    };
    let url = call.url(&format!("/publishers/{}/nodes", publisher.id));
    let others =
        link_header(&url, request, page.total_pages(), if include_banned { "&include_banned=true" } else { "" });
    let total = page.total;
    let joined = Joined::array(written(page, &links).entries);
    Answer::tagged(joined.body(), &joined.tag()).with(X_TOTAL_COUNT, total)?.with(LINK, others)
}

/// Where the other pages are (RFC 8288).
fn link_header(url: &str, PageRequest { page, limit }: PageRequest, pages: u64, also: &str) -> String {
    let last = pages.max(1);
    let previous = (page > 1).then(|| ("prev", (page - 1).min(last)));
    let next = (page < last).then(|| ("next", page.saturating_add(1)));
    let relations = [Some(("first", 1)), previous, next, Some(("last", last))];
    let links = relations.into_iter().flatten();
    let links: Vec<_> =
        links.map(|(name, n)| format!("<{url}?limit={limit}&page={n}{also}>; rel=\"{name}\"")).collect();
    links.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_that_exist() {
        let rels = |page, pages| {
            let links = link_header("u", PageRequest { page, limit: 2 }, pages, "");
            links.split(", ").map(|link| link.trim_start_matches("<u?limit=2&page=").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(rels(1, 1), ["1>; rel=\"first\"", "1>; rel=\"last\""]);
        assert_eq!(rels(2, 3), ["1>; rel=\"first\"", "1>; rel=\"prev\"", "3>; rel=\"next\"", "3>; rel=\"last\""]);
        assert_eq!(rels(9, 3), ["1>; rel=\"first\"", "3>; rel=\"prev\"", "3>; rel=\"last\""]);
        assert_eq!(rels(1, 0), ["1>; rel=\"first\"", "1>; rel=\"last\""]);
    }

    #[test]
    fn links_ask_for_the_same_list() {
        let links = link_header("u", PageRequest { page: 1, limit: 2 }, 1, "&include_banned=true");
        assert!(links.starts_with("<u?limit=2&page=1&include_banned=true>; rel=\"first\", "), "{links}");
    }
}
