//! Query parameters of `GET /nodes` and `GET /nodes/search` (contract 4).

use crate::domain::ids::{NodeId, NodeKey};
use crate::domain::value::{InvalidValue, Timestamp};
use crate::http::request::query::{Query, restore_plus_signs};
use crate::projections::node::facets::{FormFactor, normalize};
use crate::projections::node::host_version::HostVersion;
use crate::projections::node::list::{NodeFilter, NodeQuery, Selection};
use crate::projections::node::search::SearchQuery;
use crate::projections::node::{Sort, SortColumn};

/// Default page size.
const LIMIT_DEFAULT: u64 = 10;

/// Requested page of a node list.
pub struct NodeListRequest {
    pub query: NodeQuery,
    /// `true` if the page cache must not be used.
    pub bypass_cache: bool,
}

/// Reads the parameters common to all node lists; errors are added to `query`. `include_banned` has an effect only for
/// administrators.
pub fn read_list(query: &mut Query, is_admin: bool) -> NodeListRequest {
    let page = query.page(LIMIT_DEFAULT);
    let sort = Sort::effective(query.parsed_values("sort", parse_sort));
    let filter = read_filter(query);
    let include_banned = query.flag("include_banned").unwrap_or(false) && is_admin;
    let bypass_cache = query.flag("latest").unwrap_or(false);

    NodeListRequest {
        query: NodeQuery { page, selection: Selection { sort, filter, search: None, include_banned } },
        bypass_cache,
    }
}

/// Reads the parameters of a search: those of a list, and the search text.
pub fn read_search(query: &mut Query, is_admin: bool) -> NodeListRequest {
    let mut request = read_list(query, is_admin);
    let search = query.optional_non_empty("search", SearchQuery::parse);
    request.query.selection.search = Some(search.unwrap_or_default());
    request
}

fn read_filter(query: &mut Query) -> NodeFilter {
    let ids = query.values("node_id");
    // An id that cannot exist matches no node; ignoring it would widen the list to all nodes.
    let keys: Vec<NodeKey> = ids.iter().filter_map(|id| NodeId::parse(id).ok()).map(|id| id.key()).collect();
    let node_ids = (!ids.is_empty()).then(|| sort_and_dedup(keys));

    let normalized = |query: &Query, name| sort_and_dedup(query.values(name).into_iter().map(normalize).collect());

    NodeFilter {
        systems: normalized(query, "supported_os"),
        accelerators: normalized(query, "supported_accelerator"),
        after: query.optional_non_empty("timestamp", parse_timestamp),
        node_ids,
        // Hosts add these two parameters themselves, so unrecognized values filter nothing (contract 4).
        host: query.recognized("host_version", |text| HostVersion::parse(&restore_plus_signs(text))),
        form_factor: query.recognized("form_factor", |text| FormFactor::parse(text).ok()),
    }
}

/// Sorts and removes duplicates, so that equivalent queries compare equal.
fn sort_and_dedup<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

/// Parses a date, or a time with or without a zone; without one, it is UTC (contract 4).
fn parse_timestamp(text: &str) -> Result<Timestamp, InvalidValue> {
    Timestamp::parse_iso_8601(&restore_plus_signs(text))
}

/// Parses `column`, `column;asc` or `column;desc`. The error names the unknown parts and the allowed ones.
fn parse_sort(text: &str) -> Result<Sort, InvalidValue> {
    let (column, direction) = text.split_once(';').unwrap_or((text, ""));
    let column = column.trim();
    let direction = direction.trim();
    let descending = match direction {
        "" | "asc" => Some(false),
        "desc" => Some(true),
        _ => None,
    };

    let parsed_column = SortColumn::parse(column).ok();
    if let (Some(column), Some(descending)) = (parsed_column, descending) {
        return Ok(Sort { column, descending });
    }

    let bad_column = parsed_column.is_none().then(|| format!("the unknown column {column:?}"));
    let bad_direction = descending.is_none().then(|| format!("the unknown direction {direction:?}"));
    let bad: Vec<String> = bad_column.into_iter().chain(bad_direction).collect();
    let bad = bad.join(" and ");
    let columns: Vec<&str> = SortColumn::ALL.iter().map(|column| column.as_str()).collect();
    let columns = columns.join(" ");
    Err(InvalidValue::new(format!("has {bad}: must be one of {columns}, alone or followed by ;asc or ;desc")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> NodeListRequest {
        request_of(text, false)
    }

    fn request_of(text: &str, is_admin: bool) -> NodeListRequest {
        let mut query = Query::parse(text).unwrap();
        let request = read_search(&mut query, is_admin);
        query.finish().unwrap();
        request
    }

    fn error_message(text: &str) -> String {
        let mut query = Query::parse(text).unwrap();
        read_search(&mut query, false);
        query.finish().unwrap_err().to_string()
    }

    #[test]
    fn sorting_is_by_column_and_direction() {
        let sort = |column, descending| Ok(Sort { column, descending });
        assert_eq!(parse_sort("name"), sort(SortColumn::Name, false));
        assert_eq!(parse_sort("created_at;desc"), sort(SortColumn::CreatedAt, true));
        assert_eq!(parse_sort("name; asc"), sort(SortColumn::Name, false));
    }

    #[test]
    fn invalid_columns_and_directions_are_both_reported() {
        let allowed = "must be one of id name author publisher created_at updated_at downloads github_stars rating \
                       search_ranking, alone or followed by ;asc or ;desc";
        for (text, expected) in [
            ("secret", r#"the unknown column "secret""#),
            ("name;down", r#"the unknown direction "down""#),
            ("foo;up", r#"the unknown column "foo" and the unknown direction "up""#),
        ] {
            assert_eq!(parse_sort(text).unwrap_err().to_string(), format!("has {expected}: {allowed}"));
        }
    }

    #[test]
    fn equivalent_queries_are_equal() {
        let first = request("supported_os=Linux&supported_os=windows&node_id=b,A&page=1");
        let second = request("node_id=a&node_id=B&supported_os=WINDOWS,linux,Linux&other=1");
        assert_eq!(first.query, second.query);
    }

    #[test]
    fn only_administrators_can_list_banned_nodes() {
        let banned = |is_admin| request_of("include_banned=true", is_admin).query.selection.include_banned;
        assert_eq!((banned(false), banned(true)), (false, true));
    }

    #[test]
    fn empty_parameters_are_absent() {
        let request = request("supported_os=&timestamp=&node_id=&host_version=&form_factor=&search=");
        let nothing = Selection { search: Some(SearchQuery::default()), ..Selection::default() };
        assert_eq!(request.query.selection, nothing);
    }

    #[test]
    fn unknown_hosts_and_platforms_do_not_filter() {
        let filter = request("host_version=unknown&form_factor=phone").query.selection.filter;
        assert_eq!(filter, NodeFilter::default());
    }

    #[test]
    fn a_timestamp_is_a_date_or_a_time() {
        let after = |text: &str| request(&format!("timestamp={text}")).query.selection.filter.after;
        let midnight = Timestamp::parse("2026-01-31T00:00:00Z").ok();
        for text in ["2026-01-31", "2026-01-31T00:00", "2026-01-31T00:00:00", "2026-01-31T00:00:00.000"] {
            assert_eq!(after(text), midnight, "{text}");
        }
        assert_eq!(after("2026-01-31T01:00:00%2B01:00"), midnight);
        assert_eq!(after("2026-01-31T01:00%2B0100"), midnight);
    }

    #[test]
    fn ids_that_cannot_exist_select_nothing() {
        assert_eq!(request("node_id=-").query.selection.filter.node_ids, Some(vec![]));
    }

    #[test]
    fn a_plus_sign_need_not_be_encoded() {
        let after = |text: &str| request(text).query.selection.filter.after;
        assert!(after("timestamp=2026-01-01T02:00:00+02:00").is_some());
        assert_eq!(after("timestamp=2026-01-01T02:00:00+02:00"), after("timestamp=2026-01-01T00:00:00Z"));
        let host = |text: &str| request(text).query.selection.filter.host;
        assert!(host("host_version=1.2.3+cu118").is_some());
        assert_eq!(host("host_version=1.2.3+cu118"), host("host_version=1.2.3%2Bcu118"));
    }

    #[test]
    fn every_invalid_parameter_is_reported_with_the_allowed_values() {
        assert!(error_message("timestamp=yesterday").starts_with("/timestamp must be a date or a time"));
        assert!(error_message("latest=maybe").starts_with("/latest must be true or false"));
        let many = error_message("page=0&limit=x&sort=secret&timestamp=1");
        assert!(many.starts_with("/page ") && many.ends_with("and 1 more"), "{many}");
    }
}
