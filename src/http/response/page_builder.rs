//! Lists joined from cached JSON fragments: nothing is serialized, and the entity tag is a hash of the fragments'
//! hashes.

use std::borrow::Borrow;

use bytes::Bytes;

use crate::http::request::conditional;
use crate::http::response::response_body::ResponseBody;
use crate::projections::node::view::NodeFragment;
use crate::projections::page::Page;

/// JSON list to be joined from cached fragments.
pub struct PageBuilder<F> {
    head: String,
    parts: Vec<F>,
    tail: String,
}

impl<F: Borrow<NodeFragment>> PageBuilder<F> {
    /// Creates a bare array.
    #[must_use]
    pub fn array(parts: Vec<F>) -> Self {
        Self { head: "[".to_owned(), parts, tail: "]".to_owned() }
    }

    /// Creates a `NodePage` of the API.
    #[must_use]
    pub fn node_page(page: Page<F>) -> Self {
        let pages = page.total_pages();
        let Page { entries, total, request } = page;
        let head = format!("{{\"limit\":{},\"nodes\":[", request.limit);
        let tail = format!("],\"page\":{},\"total\":{total},\"totalPages\":{pages}}}", request.page);
        Self { head, parts: entries, tail }
    }

    /// Returns a strong entity tag.
    #[must_use]
    pub fn entity_tag(&self) -> String {
        let mut seed = Vec::with_capacity(self.parts.len() * 16 + self.head.len() + self.tail.len());
        seed.extend_from_slice(self.head.as_bytes());
        self.parts.iter().for_each(|part| seed.extend_from_slice(&part.borrow().hash));
        seed.extend_from_slice(self.tail.as_bytes());
        conditional::entity_tag(&seed)
    }

    /// Returns the size of the body in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part.borrow().json.len()).sum();
        self.head.len() + parts + self.parts.len().saturating_sub(1) + self.tail.len()
    }

    /// Returns the body. A large one shares the JSON of its parts.
    #[must_use]
    pub fn body(&self) -> ResponseBody {
        let bytes = self.size();
        if ResponseBody::is_small(bytes) { self.to_contiguous(bytes).into() } else { self.to_shared_pieces() }
    }

    fn to_contiguous(&self, bytes: usize) -> Bytes {
        let mut body = Vec::with_capacity(bytes);
        body.extend_from_slice(self.head.as_bytes());
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(&part.borrow().json);
        }
        body.extend_from_slice(self.tail.as_bytes());
        body.into()
    }

    fn to_shared_pieces(&self) -> ResponseBody {
        let mut pieces = Vec::with_capacity(self.parts.len() * 2 + 2);
        pieces.push(Bytes::copy_from_slice(self.head.as_bytes()));
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                pieces.push(Bytes::from_static(b","));
            }
            pieces.push(part.borrow().json.clone());
        }
        pieces.push(Bytes::copy_from_slice(self.tail.as_bytes()));
        ResponseBody::from_pieces(pieces)
    }
}

/// Returns the tag of a body that is one fragment; it equals the tag of its bytes.
#[must_use]
pub fn fragment_tag(fragment: &NodeFragment) -> String {
    conditional::entity_tag_from_hash(&fragment.hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projections::page::PageRequest;
    use serde_json::{Value, json};

    fn fragment(n: u8) -> NodeFragment {
        NodeFragment { json: format!("{{\"n\":{n}}}").into(), hash: [n; 16] }
    }

    fn page(entries: &[u8], total: u64) -> PageBuilder<NodeFragment> {
        let request = PageRequest { page: 2, limit: 3 };
        PageBuilder::node_page(Page { entries: entries.iter().map(|n| fragment(*n)).collect(), total, request })
    }

    #[test]
    fn joined_fragments_are_valid_json() {
        let read = |builder: &PageBuilder<NodeFragment>| match builder.body() {
            ResponseBody::Whole(body) => serde_json::from_slice::<Value>(&body).unwrap(),
            ResponseBody::Pieces { .. } => panic!("a small body in pieces"),
        };
        let nodes = json!([{"n": 1}, {"n": 2}]);
        assert_eq!(
            read(&page(&[1, 2], 5)),
            json!({"limit": 3, "nodes": nodes, "page": 2, "total": 5, "totalPages": 2})
        );
        assert_eq!(read(&page(&[], 0))["nodes"], json!([]));
        assert_eq!(read(&PageBuilder::array(vec![fragment(1), fragment(2)])), nodes);
    }

    #[test]
    fn a_large_body_shares_the_json_of_its_parts() {
        let json = Bytes::from(format!("\"{}\"", "x".repeat(700_000)));
        let large = |_| NodeFragment { json: json.clone(), hash: [0; 16] };
        let ResponseBody::Pieces { pieces, .. } = PageBuilder::array((0..2).map(large).collect()).body() else {
            panic!("a large body in one piece");
        };
        assert_eq!(pieces.iter().filter(|piece| piece.as_ptr() == json.as_ptr()).count(), 2);
        assert_eq!(pieces.concat(), [b"[", &json[..], b",", &json[..], b"]"].concat());
    }

    #[test]
    fn different_bodies_have_different_tags() {
        let tags =
            [page(&[1, 2], 5), page(&[2, 1], 5), page(&[1], 5), page(&[1, 2], 6)].map(|builder| builder.entity_tag());
        assert!((0..tags.len()).all(|index| !tags[index + 1..].contains(&tags[index])), "{tags:?}");
        assert_eq!(page(&[1, 2], 5).entity_tag(), tags[0]);
    }

    #[test]
    fn fragment_tags_hash_their_bytes() {
        use sha2::{Digest, Sha256};
        let json = b"{}";
        let mut hash = [0; 16];
        hash.copy_from_slice(&Sha256::digest(json)[..16]);
        let fragment = NodeFragment { json: Bytes::from_static(json), hash };
        assert_eq!(fragment_tag(&fragment), conditional::entity_tag(json));
    }
}
