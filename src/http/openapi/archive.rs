//! Described: publishing a version with its archive, and getting the archive.

use serde_json::json;

use super::Group;
use super::operation::{Operation, get, post, put};
use super::parameter::in_query;
use super::schema::{Documented, Url, body, field, field_of, named, view};
use super::version::version_example;
use crate::domain::version::SemVer;
use crate::http::error::Code;

pub fn group() -> Group {
    let signed = || field::<Url>("signedUrl", "Where the archive goes, with PUT: once, within 15 minutes.").required();
    let publication = [
        field_of("node", "What is to be said of the node; it is created when it is new.", named("NodeBody")),
        field_of("node_version", "", named("NewVersionBody")).required(),
        field::<String>("personal_access_token", "A token of the publisher, in place of the Authorization header."),
    ];
    Group {
        tag: "Archives",
        about: "Publishing takes two steps: register the version, which gives a URL, then PUT the zip there.",
        operations: [publishing(), getting()].into_iter().flatten().collect(),
        components: vec![
            ("PublicationBody", body(publication)),
            ("Publication", view([signed(), field_of("node_version", "", named("NodeVersion")).required()])),
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
            .fails(Code::AlreadyExists, "the version exists, or did; or the node belongs to another publisher")
            .fails(Code::PayloadTooLarge, "the body is over 2 MiB, or all fields together over 1 MiB"),
        post("/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}/upload", "renewUpload", "Get a fresh URL for the archive")
            .about("For when the first URL has expired or the upload failed.")
            .shows("Where the archive goes.", "SignedUpload", &json!({"signedUrl": ticket}))
            .fails(Code::Conflict, "the version has its archive already"),
        put("/uploads/{ticket}", "uploadArchive", "Upload an archive")
            .about(
                "The URL is the credential. The zip is checked as it comes: no paths that lead outside, nothing that unpacks to far \
                 more than it is. Then the version is Active, or stays Pending where the service moderates.",
            )
            .takes_content("application/zip", &json!({"schema": {"type": "string", "format": "binary"}}))
            .shows("The version as it is now.", "NodeVersion", &version_example()),
    ]
}

fn getting() -> Vec<Operation> {
    let bytes = json!({"schema": {"type": "string", "format": "binary"}});
    let number = in_query("version", "The version; the latest when absent.", &SemVer::schema());
    vec![
        get("/nodes/{node_id}/versions/{version}/download", "downloadArchive", "Download an archive")
            .about(
                "The zip, with its SHA-256 as the entity tag; ranges are answered. Flagged and Pending versions are for members and \
                 administrators; banned ones for nobody.",
            )
            .answers_content(200, "The archive.", "application/zip", &bytes)
            .answers_content(206, "The ranges that were asked for.", "application/zip", &bytes)
            .answers_nothing(304, "The caller has it already.")
            .fails(Code::RangeNotSatisfiable, ""),
        get("/nodes/{node_id}/install", "installNode", "Install a node")
            .about("The version to install, with its `downloadUrl`. Counts a download.")
            .query([number])
            .shows("The version.", "NodeVersion", &version_example()),
    ]
}
