//! Publication of versions, and upload and download of their archives.

use serde_json::json;

use super::Group;
use super::operation::{Operation, get, post, put};
use super::parameter::{in_query, or_empty};
use super::schema::{Documented, Url, body, field, field_of, named, view};
use super::version::version_example;
use crate::domain::version::SemVer;
use crate::http::error::Code;

pub fn group() -> Group {
    let signed = || field::<Url>("signedUrl", "URL for one `PUT` of the archive, valid for 15 minutes.").required();
    let publication = [
        field_of("node", "Fields of the node, which is created if it is new. `status` is ignored.", named("NodeBody")),
        field_of("node_version", "Version to create.", named("NewVersionBody")).required(),
        field::<String>(
            "personal_access_token",
            "Token of the publisher, used if there is no `Authorization` header. An invalid token is rejected even if \
             the header is present.",
        ),
    ];
    Group {
        tag: "Archives",
        about: "Publishing takes two steps: create the version, which returns a URL, then `PUT` the zip archive to \
                that URL.",
        operations: [publishing(), getting()].into_iter().flatten().collect(),
        components: vec![
            ("PublicationBody", body(publication)),
            (
                "Publication",
                view([
                    signed(),
                    field_of(
                        "node_version",
                        "The version, pending until its archive is uploaded.",
                        named("NodeVersion"),
                    )
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
                "Creates a pending version, which is activated by the upload of its archive. A new node is created; \
                 an existing one is updated with the fields of `node`, whose `id` must match the path. A personal \
                 access token of the publisher can be sent in the body instead of the header.",
            )
            .takes("PublicationBody", &version)
            .creates(
                "The version and its upload URL.",
                "Publication",
                &json!({"signedUrl": ticket, "node_version": version_example()}),
            )
            .fails(Code::QuotaExceeded, "the publisher has reached its daily limit of new versions or nodes")
            .fails(Code::AlreadyExists, "the version exists or existed, or another publisher owns the node")
            .fails(Code::Conflict, "the node would have more than 100 languages")
            .fails(Code::PayloadTooLarge, "the body exceeds 2 MiB, or all fields together exceed 1 MiB"),
        post(
            "/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}/upload",
            "renewUpload",
            "Get a new upload URL",
        )
        .about(
            "Returns a new upload URL for a version without an archive, for example after the first URL has expired. \
             The body is optional; it can contain a personal access token instead of the header.",
        )
        .shows("The upload URL.", "SignedUpload", &json!({"signedUrl": ticket}))
        .fails(Code::NotFound, "the publisher, node or version does not exist")
        .fails(Code::Conflict, "the version already has an archive, or its status does not allow one"),
        put("/uploads/{ticket}", "uploadArchive", "Upload an archive")
            .about(
                "Uploads the zip archive of a version. The URL is the credential; the content type is not \
                 checked.\n\n- The archive may have at most 100 MiB. Paths that lead outside of it and contents that \
                 unpack to far more than their size are rejected.\n- An accepted archive activates the version, or \
                 leaves it pending if the service moderates, and ends the validity of the URL.\n- While the URL is \
                 valid, an upload with an `Idempotency-Key` of any value can be repeated: the same archive gets 200 \
                 with the current version and `Idempotent-Replayed: true` and is not stored again; a different \
                 archive is rejected.",
            )
            .streams(
                &["application/zip", "application/octet-stream"],
                &json!({"schema": {"type": "string", "format": "binary"}}),
            )
            .shows("The updated version.", "NodeVersion", &version_example())
            .with_header(200, "Idempotent-Replayed")
            .fails(Code::InvalidArchive, "the body is not an acceptable zip archive; `details` lists the problems")
            .fails(Code::UploadLinkInvalid, "this service did not issue the URL, or its requester has lost access")
            .fails(Code::TooManyTransfers, "the account has reached its limit of concurrent uploads")
            .fails(Code::QuotaExceeded, "the account has reached its daily limit of uploaded bytes")
            .fails(Code::UploadLinkExpired, "request a new URL")
            .fails(Code::Forbidden, "the user who requested the URL may no longer publish for this publisher")
            .fails(Code::NotFound, "the version no longer exists")
            .fails(
                Code::Conflict,
                "the version already has an archive, or its status does not allow one; with `Retry-After`, another \
                 upload for it is in progress",
            )
            .fails(Code::IdempotencyKeyReused, "there is a key, but the version already has a different archive"),
    ]
}

fn getting() -> Vec<Operation> {
    let number = in_query("version", "Version number; by default the latest version.", &or_empty(&SemVer::schema()));
    let rules = |operation: Operation| {
        operation.may_redirect().fails(Code::Banned, "the version, its node or its publisher is banned").fails(
            Code::Forbidden,
            "the version is pending or flagged, and the caller is not a member of its publisher",
        )
    };
    vec![
        rules(get("/nodes/{node_id}/versions/{version}/download", "downloadArchive", "Download an archive"))
            .about(
                "Returns the zip archive of a version. The `ETag` is the SHA-256 of the archive; ranges are \
                 supported.",
            )
            .serves_file("The archive.", "application/zip", &["Content-Disposition"])
            .fails(Code::TooManyTransfers, "the account has reached its limit of concurrent downloads")
            .fails(Code::NotFound, "the node or version does not exist, or it has no archive yet"),
        rules(get("/nodes/{node_id}/install", "installNode", "Get the version to install"))
            .about(
                "Returns the version to install, with its `downloadUrl`, and counts a download, once per account (or \
                 client address), node and day. HEAD does not count. Counts are written at most once a second, so a \
                 crash of the service can lose the last second.",
            )
            .query([number])
            .shows("The version to install.", "NodeVersion", &version_example())
            .fails(Code::NotFound, "the node or version does not exist, or no version can be installed"),
    ]
}
