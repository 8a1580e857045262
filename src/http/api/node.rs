//! Node reads: a single node, the nodes of a publisher, and lists.
//!
//! A list joins JSON fragments that each node caches. Whole pages are cached too, keyed by read-model generation, so a
//! cached page is never stale.

use std::borrow::Borrow;
use std::sync::Arc;

use actix_web::http::header::{HeaderName, LINK};

use crate::domain::ids::NodeId;
use crate::domain::policy::Action;
use crate::http::api::node_query::{self, NodeListRequest};
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::conditional;
use crate::http::request::query::{LIMIT_MAX, Query};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::http::response::page_builder::{PageBuilder, fragment_tag};
use crate::http::response::page_cache::CachedPage;
use crate::projections::node::cache::{GenerationCache, RecentKeys};
use crate::projections::node::entry::NodeEntry;
use crate::projections::node::view::{Links, NodeFragment};
use crate::projections::page::{Page, PageRequest};

/// Header with the number of nodes on all pages.
pub const X_TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

/// Maximum size of each page cache, in bytes.
const PAGE_CACHE_BYTES_MAX: u64 = 16 << 20;
/// Size in bytes above which a page is joined only after the read models are released.
const BUILT_UNDER_LOCK_BYTES_MAX: usize = 128 << 10;

/// Page caches of each kind of list.
#[derive(Default)]
pub struct PageCaches {
    lists: PageCache,
    searches: PageCache,
}

/// Pages keyed by the raw query: parsing a query costs more than finding its page. A page is kept from its second
/// request on, because storing one costs as much as joining it.
struct PageCache {
    pages: GenerationCache<Box<str>, CachedPage>,
    recently_requested: RecentKeys,
}

impl Default for PageCache {
    fn default() -> Self {
        Self { pages: GenerationCache::new(PAGE_CACHE_BYTES_MAX), recently_requested: RecentKeys::default() }
    }
}

/// `GET /nodes`: a page of nodes.
pub async fn list(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    reply_with_page(&call, &call.shared().page_caches.lists, node_query::read_list)
}

/// `GET /nodes/search`: a page of the nodes that contain every word of `search`, best matches first.
pub async fn search(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    reply_with_page(&call, &call.shared().page_caches.searches, node_query::read_search)
}

/// Returns a page from the cache, or builds it. Only pages that do not depend on the caller are cached, for one
/// read-model generation. `read` reads the query; its flag is `true` for administrators.
fn reply_with_page(
    call: &RequestContext,
    cache: &PageCache,
    read: impl Fn(&mut Query, bool) -> NodeListRequest,
) -> Result<ApiResponse, Problem> {
    let text = call.query_string();
    let is_admin = call.identity().is_admin();
    if !is_admin {
        let generation = call.services().models.read().nodes.generation();
        if let Some(page) = cache.pages.get(text, generation) {
            return page.reply(call.headers(), call.accepted_codings().as_ref());
        }
    }

    let mut query = call.query()?;
    let request = read(&mut query, is_admin);
    query.finish()?;

    let (rendered, generation) = render_page(call, &request);
    let page = match rendered {
        RenderedPage::NotModified(tag) => return Ok(ApiResponse::not_modified(&tag)),
        RenderedPage::Page(page) => page,
    };

    let accepted = call.accepted_codings();
    if !request.bypass_cache && !is_admin && cache.recently_requested.contains_or_insert(&(text, generation)) {
        cache.pages.insert(text.into(), generation, page.clone(), page.memory_bytes() + text.len());
    }

    page.reply(call.headers(), accepted.as_ref())
}

/// Result of building a page.
enum RenderedPage {
    /// The client has the page already, with this entity tag.
    NotModified(String),
    Page(CachedPage),
}

/// Builds a page and returns it with its read-model generation.
fn render_page(
    call: &RequestContext,
    NodeListRequest { query, bypass_cache }: &NodeListRequest,
) -> (RenderedPage, u64) {
    let models = call.services().models.read();
    let generation = models.nodes.generation();
    let page = models.nodes.list(query, *bypass_cache);
    // A small page is joined from cached fragments while the read models are locked.
    if let Some(builder) = models.nodes.fragments(&page).map(PageBuilder::node_page)
        && builder.size() <= BUILT_UNDER_LOCK_BYTES_MAX
    {
        return (render_unless_current(call, &builder), generation);
    }

    let page = models.nodes.entries(page);
    let links = models.nodes.links().clone();
    drop(models);
    (render_unless_current(call, &PageBuilder::node_page(render_fragments(page, &links))), generation)
}

/// Renders a page, unless the client has it already.
fn render_unless_current<F: Borrow<NodeFragment>>(call: &RequestContext, builder: &PageBuilder<F>) -> RenderedPage {
    let tag = builder.entity_tag();
    if conditional::is_current(call.headers(), &tag) {
        return RenderedPage::NotModified(tag);
    }
    RenderedPage::Page(CachedPage::new(builder.body(), tag))
}

/// Returns the fragments of a page. Call it without holding the read models, because missing fragments are rendered
/// first.
fn render_fragments(page: Page<Arc<NodeEntry>>, links: &Links) -> Page<NodeFragment> {
    let Page { entries, total, request } = page;
    Page { entries: entries.iter().filter_map(|entry| entry.fragment(links).cloned()).collect(), total, request }
}

/// `GET /nodes/{nodeId}`; redirects an id in the wrong case.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let not_found = || Problem::not_found("node");
    let node_id = NodeId::parse(&call.path_param("nodeId")).map_err(|_| not_found())?;
    let (entry, links) = {
        let models = call.services().models.read();
        (models.nodes.entry(&node_id.key()).ok_or_else(not_found)?, models.nodes.links().clone())
    };

    if let Some(canonical) = entry.profile().map(|node| &node.id).filter(|id| **id != node_id) {
        let query = if call.query_string().is_empty() { String::new() } else { format!("?{}", call.query_string()) };
        return ApiResponse::redirect(call.url(&format!("/nodes/{canonical}{query}")));
    }

    let fragment = entry.fragment(&links).ok_or_else(not_found)?;
    Ok(ApiResponse::tagged(fragment.json.clone(), &fragment_tag(fragment)))
}

/// `GET /publishers/{publisherId}/nodes`: the nodes of a publisher by id, up to [`LIMIT_MAX`] unless the client sets a
/// limit. Banned nodes are shown only to members and administrators.
pub async fn list_of_publisher(call: Call<{ Action::ListPublisherNodes as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_MAX);
    let wants_banned = query.flag("include_banned").unwrap_or(false);
    query.finish()?;

    let publisher = call.publisher()?;
    let include_banned = wants_banned && call.identity().is_insider_of(Some(publisher));

    let (page, links) = {
        let models = call.services().models.read();
        (models.nodes.page_of_publisher(&publisher.id, request, include_banned), models.nodes.links().clone())
    };

    let url = call.url(&format!("/publishers/{}/nodes", publisher.id));
    let link_value =
        link_header(&url, request, page.total_pages(), if include_banned { "&include_banned=true" } else { "" });

    let total = page.total;
    let builder = PageBuilder::array(render_fragments(page, &links).entries);
    ApiResponse::tagged(builder.body(), &builder.entity_tag())
        .with_header(X_TOTAL_COUNT, total)?
        .with_header(LINK, link_value)
}

/// Returns the `Link` header with the other pages (RFC 8288).
fn link_header(url: &str, PageRequest { page, limit }: PageRequest, pages: u64, extra_query: &str) -> String {
    let last = pages.max(1);
    let previous = (page > 1).then(|| ("prev", (page - 1).min(last)));
    let next = (page < last).then(|| ("next", page.saturating_add(1)));
    let relations = [Some(("first", 1)), previous, next, Some(("last", last))];
    let link =
        |(name, number): (&str, u64)| format!("<{url}?limit={limit}&page={number}{extra_query}>; rel=\"{name}\"");
    let links: Vec<String> = relations.into_iter().flatten().map(link).collect();
    links.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_links_stay_within_the_list() {
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
    fn page_links_keep_the_query() {
        let links = link_header("u", PageRequest { page: 1, limit: 2 }, 1, "&include_banned=true");
        assert!(links.starts_with("<u?limit=2&page=1&include_banned=true>; rel=\"first\", "), "{links}");
    }
}
