//! Described: publishing a version with its archive, and getting the archive.

use serde_json::json;

use super::Group;
use super::operation::{Operation, get, post, put};
use super::parameter::{in_query, or_empty};
use super::schema::{Documented, Url, body, field, field_of, named, view};
use super::version::version_example;
use crate::domain::version::SemVer;
use crate::http::error::Code;

pub fn group() -> Group {
    let signed = || field::<Url>("signedUrl", "Where the archive goes, with PUT: once, within 15 minutes.").required();
    let publication = [
        field_of(
            "node",
            "What is to be said of the node; it is created when it is new. A `status` is ignored.",
            named("NodeBody"),
        ),
        field_of("node_version", "The version to register.", named("NewVersionBody")).required(),
        field::<String>(
            "personal_access_token",
            "A token of the publisher, in place of the Authorization header, which goes before it; a wrong one is refused in any case.",
        ),
    ];
    Group {
        tag: "Archives",
        about: "Publishing takes two steps: register the version, which gives a URL, then PUT the zip there.",
        operations: [publishing(), getting()].into_iter().flatten().collect(),
        components: vec![
            ("PublicationBody", body(publication)),
            (
                "Publication",
                view([
                    signed(),
                    field_of("node_version", "The version, which waits for its archive.", named("NodeVersion"))
                        .required(),
                ]),
            ),
            ("SignedUpload", view([signed()])),
        ],
    }
}

fn publishing() -> Vec<Operation> {
    let ticket = "https://registry.example/uploads/9fQ2v7";
    let version = json!({"node_version": {"version": "1.2.0", "changelog": "Fixed the mask"}});
    vec![
        post("/publishers/{publisher_id}/nodes/{node_id}/versions", "publishVersion", "Publish a version")
            .about(
                "Registers a version, creates the node if it is new, and updates it with the fields of `node` else. The version is \
                 Pending until its archive is there. A personal access token of the publisher may stand in the body instead of \
                 the header. An `id` in `node` must be that of the path.",
            )
            .takes("PublicationBody", &version)
            .creates("The version, and where its archive goes.", "Publication", &json!({"signedUrl": ticket, "node_version": version_example()}))
            .fails(Code::QuotaExceeded, "the publisher has registered as many versions, or nodes, as a day allows")
            .fails(Code::AlreadyExists, "the version exists, or did; or the node belongs to another publisher")
            .fails(Code::Conflict, "the node would be in more than 100 languages")
            .fails(Code::PayloadTooLarge, "the body is over 2 MiB, or all fields together over 1 MiB"),
        post("/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}/upload", "renewUpload", "Get a fresh URL for the archive")
            .about(
                "For when the first URL has expired or the upload failed. Needs no body, unless a personal access token stands in it \
                 instead of the header.",
            )
            .shows("Where the archive goes.", "SignedUpload", &json!({"signedUrl": ticket}))
            .fails(Code::NotFound, "there is no such publisher, it has no such node, or that has no such version")
            .fails(Code::Conflict, "the version has its archive already, or its status takes none"),
        put("/uploads/{ticket}", "uploadArchive", "Upload an archive")
            .about(
                "The URL is the credential. The zip is streamed, of any content type, at most 100 MiB, and checked: no paths that lead \
                 outside, nothing that unpacks to far more than it is. Then the version is Active, or stays Pending where the service \
                 moderates. The URL ends with the first archive that is accepted. Safe to repeat while the URL is valid: with an \
                 `Idempotency-Key` of any value, an archive of the same bytes is answered 200 with the version as it is now and \
                 `Idempotent-Replayed: true`, and is not stored again; another archive is refused.",
            )
            .streams(&["application/zip", "application/octet-stream"], &json!({"schema": {"type": "string", "format": "binary"}}))
            .shows("The version as it is now.", "NodeVersion", &version_example())
            .with_header(200, "Idempotent-Replayed")
            .fails(Code::InvalidArchive, "the body is no zip, or not one that is accepted; `details` lists what is wrong")
            .fails(Code::UploadLinkInvalid, "the URL is not one of this service, or whoever asked for it has no access any more")
            .fails(Code::TooManyTransfers, "the account has as many uploads under way as one account may")
            .fails(Code::QuotaExceeded, "the account has sent as many bytes as a day allows")
            .fails(Code::UploadLinkExpired, "ask for a fresh one")
            .fails(Code::Forbidden, "whoever asked for the URL may not publish for this publisher any more")
            .fails(Code::NotFound, "the version is not there any more")
            .fails(Code::Conflict, "the version has its archive already, or its status takes none; with `Retry-After`, while another upload for it lasts")
            .fails(Code::IdempotencyKeyReused, "there was a key, and the version has another archive already"),
    ]
}

fn getting() -> Vec<Operation> {
    let number = in_query("version", "The version; the latest when absent.", &or_empty(&SemVer::schema()));
    let rules = |operation: Operation| {
        operation
            .may_redirect()
            .fails(Code::Banned, "the version, its node or its publisher is banned")
            .fails(Code::Forbidden, "the version is Pending or Flagged, and the caller no member of its publisher")
    };
    vec![
        rules(get("/nodes/{node_id}/versions/{version}/download", "downloadArchive", "Download an archive"))
            .about("The zip, with its SHA-256 as the entity tag; ranges are answered.")
            .serves_file("The archive.", "application/zip", &["Content-Disposition"])
            .fails(Code::TooManyTransfers, "the account has as many downloads under way as one account may")
            .fails(Code::NotFound, "there is no such node or version, or it has no archive yet"),
        rules(get("/nodes/{node_id}/install", "installNode", "Install a node"))
            .about(
                "The version to install, with its `downloadUrl`. Counts a download; HEAD does not. Counts are recorded together, at \
                 most once a second: a crash of the service may lose the last second.",
            )
            .query([number])
            .shows("The version.", "NodeVersion", &version_example())
            .fails(Code::NotFound, "there is no such node, it has no such version, or none that can be installed"),
    ]
}
