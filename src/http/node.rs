//! Node reads: a single node, the nodes of a publisher, and lists.
//!
//! A list joins JSON fragments that each node caches. Whole pages are cached too, keyed by read-model generation, so a
//! cached page is never stale.

use std::borrow::Borrow;
use std::sync::Arc;

use actix_web::http::header::{HeaderName, LINK};

use super::answer::Answer;
use super::conditional;
use super::error::Problem;
use super::gate::{Admitted, Call};
use super::joined::{Joined, tag_of_fragment};
use super::node_query::{self, Asked};
use super::query::{LIMIT_MAX, Query};
use super::ready::ReadyPage;
use crate::domain::ids::NodeId;
use crate::domain::policy::{Action, Standing};
use crate::projections::node::cache::Cache;
use crate::projections::node::entry::Entry;
use crate::projections::node::view::{Fragment, Links};
use crate::projections::page::{Page, PageRequest};

/// Header with the number of nodes on all pages.
pub const X_TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

/// Maximum size of each page cache, in bytes.
const READY_MAX: usize = 16 << 20;
/// Size in bytes above which a page is joined after the read models are released.
const JOINED_AT_ONCE_MAX: usize = 128 << 10;

/// Page caches, keyed by the raw query: parsing a query costs more than finding its page.
pub struct ReadyPages {
    lists: Cache<Box<str>, ReadyPage>,
    searches: Cache<Box<str>, ReadyPage>,
}

impl Default for ReadyPages {
    fn default() -> Self {
        Self { lists: Cache::new(READY_MAX), searches: Cache::new(READY_MAX) }
    }
}

/// `GET /nodes`: a page of nodes.
pub async fn list(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    answer(&call, &call.shared().ready_pages.lists, node_query::read)
}

/// `GET /nodes/search`: a page of the nodes that contain every word of `search`, best matches first.
pub async fn search(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    answer(&call, &call.shared().ready_pages.searches, node_query::read_search)
}

/// Returns a page from the cache, or builds it. Only pages that do not depend on the caller are cached, for one
/// read-model generation.
fn answer(
    call: &Admitted,
    ready_pages: &Cache<Box<str>, ReadyPage>,
    read: impl Fn(&mut Query, bool) -> Asked,
) -> Result<Answer, Problem> {
    let text = call.query_string();
    let is_admin = call.identity().is_admin();
    if !is_admin {
        let generation = call.services().models.read().nodes.generation();
        if let Some(ready) = ready_pages.get(text, generation) {
            return ready.answer(call.headers(), call.accepted_codings().as_ref());
        }
    }

    let mut query = call.query()?;
    let asked = read(&mut query, is_admin);
    query.finish()?;

    let (joined, generation) = made(call, &asked);
    let page = match joined {
        Made::Known(tag) => return Ok(Answer::unchanged(&tag)),
        Made::Page(page) => page,
    };

    let accepted = call.accepted_codings();
    // A compressed page is expensive, so it is cached on first use.
    let keep = !asked.latest && !is_admin && (accepted.is_some() || ready_pages.asked_again(text));
    if keep {
        ready_pages.put(&text.into(), generation, page.clone(), page.weight() + text.len());
    }

    page.answer(call.headers(), accepted.as_ref())
}

/// Result of building a page.
enum Made {
    /// The client has the page already, with this entity tag.
    Known(String),
    Page(ReadyPage),
}

/// Builds a page and returns it with its read-model generation.
fn made(call: &Admitted, Asked { query, latest }: &Asked) -> (Made, u64) {
    let models = call.services().models.read();
    let generation = models.nodes.generation();
    let page = models.nodes.list(query, *latest);
    if let Some(joined) = models.nodes.fragments(&page).map(Joined::node_page)
        && joined.size() <= JOINED_AT_ONCE_MAX
    {
        return (page_of(call, &joined), generation);
    }

    let page = models.nodes.entries(page);
    let links = models.nodes.links().clone();
    drop(models);
    (page_of(call, &Joined::node_page(written(page, &links))), generation)
}

fn page_of<F: Borrow<Fragment>>(call: &Admitted, joined: &Joined<F>) -> Made {
    let tag = joined.tag();
    if conditional::is_current(call.headers(), &tag) {
        return Made::Known(tag);
    }
    Made::Page(ReadyPage::new(joined.body(), tag))
}

/// Returns the fragments of a page. Call it without holding the read models, because missing fragments are rendered
/// first.
fn written(page: Page<Arc<Entry>>, links: &Links) -> Page<Fragment> {
    let Page { entries, total, request } = page;
    Page { entries: entries.iter().filter_map(|entry| entry.fragment(links).cloned()).collect(), total, request }
}

/// `GET /nodes/{node_id}`; redirects an id in the wrong case.
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

/// `GET /publishers/{publisher_id}/nodes`: by id; up to [`LIMIT_MAX`] unless the client sets a limit. Banned nodes are
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

/// Returns the `Link` header with the other pages (RFC 8288).
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
