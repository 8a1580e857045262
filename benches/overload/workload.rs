//! Kinds of requests, as well-behaved callers send them.

use serde_json::json;

use crate::accounts::{Account, catalogue_node};
use crate::http::request;
use crate::picture;

/// Path of the job that all submissions request.
pub const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";
/// Nodes on a page.
const PAGE: usize = 30;
/// Length of a changed text, for events of about 400 bytes.
const DESCRIPTION: usize = 300;

/// Kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// A page of the list of nodes, sorted by downloads.
    Page,
    /// A single node.
    Node,
    /// A durable change of a node.
    Write,
    /// A small upscaling job by the built-in engine.
    Submission,
    /// The same job, with a response that is sent only when the job ends (`Prefer: wait`).
    Job,
}

impl Workload {
    /// Kinds whose capacity is measured.
    pub const CAPACITY: [Self; 4] = [Self::Page, Self::Node, Self::Write, Self::Submission];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Page => "list pages",
            Self::Node => "single nodes",
            Self::Write => "writes",
            Self::Submission => "submissions",
            Self::Job => "jobs",
        }
    }

    /// Returns the kind whose responses count as goodput: a submission is useful only once its job is done.
    #[must_use]
    pub const fn completed(self) -> Self {
        if matches!(self, Self::Submission) { Self::Job } else { self }
    }

    /// Returns `true` if every response depends on the path alone, so that a baseline can send it ready-made.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Page | Self::Node)
    }

    /// Returns the paths of all requests of this kind; none if it is not a read.
    #[must_use]
    pub fn paths(self, nodes: usize) -> Vec<String> {
        match self {
            Self::Page => (1..=nodes.div_ceil(PAGE)).map(page_path).collect(),
            Self::Node => (0..nodes).map(node_path).collect(),
            Self::Write | Self::Submission | Self::Job => Vec::new(),
        }
    }

    /// Returns the request number `index` of an account. Writes and submissions with different numbers differ.
    #[must_use]
    pub fn request(self, account: &Account, nodes: usize, index: usize) -> Vec<u8> {
        // A multiplicative sequence visits the catalogue in an order that defeats caches.
        let scattered = index.wrapping_mul(7919);
        match self {
            Self::Page => {
                let index = 1 + scattered % nodes.div_ceil(PAGE).max(1);
                request("GET", &page_path(index), &account.token, "")
            }
            Self::Node => request("GET", &node_path(scattered % nodes.max(1)), &account.token, ""),
            Self::Write => {
                let text = format!("{index:012}{}", "x".repeat(DESCRIPTION));
                request("PUT", &account.node(index), &account.token, &json!({"description": text}).to_string())
            }
            Self::Submission => submission(account, index, ""),
            Self::Job => submission(account, index, "Prefer: wait=60\r\n"),
        }
    }
}

/// Returns the path of a page of the list.
fn page_path(index: usize) -> String {
    format!("/nodes?sort=downloads;desc&limit={PAGE}&page={index}")
}

/// Returns the path of a node of the catalogue.
fn node_path(index: usize) -> String {
    format!("/nodes/{}", catalogue_node(index))
}

/// Returns a submission with an additional header line, which is empty or ends with CRLF.
fn submission(account: &Account, index: usize, header: &str) -> Vec<u8> {
    let body = json!({"image": picture::base64_png(index)}).to_string();
    let base_request = request("POST", UPSCALER, &account.token, &body);
    let text = String::from_utf8(base_request).expect("a request is ASCII");
    text.replacen("\r\n", &format!("\r\n{header}"), 1).into_bytes()
}
