//! Publication of versions, and upload and download of their archives.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::{Operation, operation};
use super::parameter::{allow_empty, query_parameter, required_query_parameter};
use super::schema::{HasSchema, UrlSchema, array, component_ref, field, field_with_schema, one_of, response_object};
use super::version::version_example;
use crate::domain::version::SemVer;
use crate::http::api::node_body::PublicationBody;
use crate::http::response::error::Code;

pub fn group() -> OperationGroup {
    let signed_url_field =
        || field::<UrlSchema>("signedUrl", "URL for one `PUT` of the archive, valid for 15 minutes.").required();
    OperationGroup {
        tag: "Archives",
        description: "Publishing takes two steps: create the version, which returns a URL, then `PUT` the zip archive to \
                that URL.",
        operations: [publish_operations(), download_operations(), file_operations()].into_iter().flatten().collect(),
        components: vec![
            (
                "Publication",
                response_object([
                    signed_url_field(),
                    field_with_schema(
                        "node_version",
                        "The version, pending until its archive is uploaded.",
                        component_ref("NodeVersion"),
                    )
                    .required(),
                ]),
            ),
            ("SignedUpload", response_object([signed_url_field()])),
            ("ArchivedFiles", archived_files_schema()),
            ("VersionDifference", difference_schema()),
        ],
    }
}

fn publish_operations() -> Vec<Operation> {
    let upload_url = "https://registry.example/uploads/9fQ2v7";
    let version = json!({"node_version": {"version": "1.2.0", "changelog": "Fixed the mask"}});
    vec![
        operation("publishVersion", "Publish a version")
            .description(
                "Creates a pending version, which is activated by the upload of its archive. A new node is created; \
                 an existing one is updated with the fields of `node`, whose `id` must match the path. A personal \
                 access token of the publisher can be sent in the body instead of the header.",
            )
            .json_object::<PublicationBody>(&version)
            .created_response(
                "The version and its upload URL.",
                "Publication",
                &json!({"signedUrl": upload_url, "node_version": version_example()}),
            )
            .error(Code::QuotaExceeded, "the publisher has reached its daily limit of new versions or nodes")
            .error(Code::TooManyCallbacks, "a webhook of the publisher has too many pending deliveries")
            .error(Code::AlreadyExists, "the version exists or existed, or another publisher owns the node")
            .error(Code::Conflict, "the node would have more than 100 languages")
            .error(Code::PayloadTooLarge, "the body exceeds 2 MiB, or all fields together exceed 1 MiB"),
        operation(
            "renewUpload",
            "Get a new upload URL",
        )
        .description(
            "Returns a new upload URL for a version without an archive, for example after the first URL has expired. \
             The body is optional; it can contain a personal access token instead of the header.",
        )
        .ok_response("The upload URL.", "SignedUpload", &json!({"signedUrl": upload_url}))
        .error(Code::NotFound, "the publisher, node or version does not exist")
        .error(Code::Conflict, "the version already has an archive, or its status does not allow one"),
        operation("uploadArchive", "Upload an archive")
            .description(
                "Uploads the zip archive of a version. The URL is the credential; the content type is not \
                 checked.\n\n- The archive may have at most 100 MiB. Paths that lead outside of it and contents that \
                 unpack to far more than their size are rejected.\n- An accepted archive activates the version, or \
                 leaves it pending if the service moderates, and ends the validity of the URL.\n- While the URL is \
                 valid, an upload with an `Idempotency-Key` of any value can be repeated: the same archive gets 200 \
                 with the current version and `Idempotent-Replayed: true` and is not stored again; a different \
                 archive is rejected.",
            )
            .streamed_body(
                &["application/zip", "application/octet-stream"],
                &json!({"schema": {"type": "string", "format": "binary"}}),
            )
            .ok_response("The updated version.", "NodeVersion", &version_example())
            .with_header(200, "Idempotent-Replayed")
            .error(Code::InvalidArchive, "the body is not an acceptable zip archive; `details` lists the problems")
            .error(Code::UploadLinkInvalid, "this service did not issue the URL, or its requester has lost access")
            .error(Code::TooManyTransfers, "the account has reached its limit of concurrent uploads")
            .error(Code::QuotaExceeded, "the account has reached its daily limit of uploaded bytes")
            .error(Code::UploadLinkExpired, "request a new URL")
            .error(Code::Forbidden, "the user who requested the URL may no longer publish for this publisher")
            .error(Code::NotFound, "the version no longer exists")
            .error(
                Code::Conflict,
                "the version already has an archive, or its status does not allow one; with `Retry-After`, another \
                 upload for it is in progress",
            )
            .error(Code::IdempotencyKeyReused, "the request has an `Idempotency-Key`, but the version has a different archive"),
    ]
}

/// Adds the redirect and the errors that all operations on the content of a version share.
fn with_download_rules(operation: Operation) -> Operation {
    operation
        .redirect_response()
        .error(Code::Banned, "the version, its node or its publisher is banned")
        .error(Code::Forbidden, "the version is pending or flagged, and the caller is not a member of its publisher")
}

fn file_operations() -> Vec<Operation> {
    let no_archive = "the node or version does not exist, or it has no archive yet";
    let rules = |operation| {
        with_download_rules(operation)
            .error(Code::TooManyTransfers, "the account reads too many archives at the same time")
            .error(Code::Overloaded, "too many archives are being read")
    };
    let path = required_query_parameter(
        "path",
        "Path of the file in the archive.",
        &json!({"type": "string", "minLength": 1}),
        &json!("README.md"),
    );
    let from = required_query_parameter("from", "Number of the older version.", &SemVer::schema(), &json!("1.1.0"));
    let content = json!({"schema": {"type": "string"}, "example": "# Face tools\n"});
    vec![
        rules(operation("listArchiveFiles", "List the files of an archive"))
            .description("Returns the files of a version, ordered by path. Directories are left out.")
            .ok_response(
                "The files.",
                "ArchivedFiles",
                &json!({"files": [{"path": "README.md", "bytes": 13}, {"path": "face_tools/__init__.py", "bytes": 0}],
                    "bytes": 13}),
            )
            .error(Code::NotFound, no_archive),
        rules(operation("getArchiveFile", "Get a file of an archive"))
            .description(
                "Returns one file of a version, of at most 1 MiB. UTF-8 text is `text/plain` whatever it contains; \
                 everything else is `application/octet-stream`.",
            )
            .query([path])
            .content_response(200, "The content.", "text/plain", &content)
            .or_content(200, "application/octet-stream", &json!({"schema": {"type": "string", "format": "binary"}}))
            .tagged()
            .with_header(200, "Cache-Control")
            .error(Code::PayloadTooLarge, "the file has more than 1 MiB; download the archive")
            .error(Code::NotFound, "the node, the version, its archive or the file does not exist"),
        rules(operation("compareVersions", "Compare two versions"))
            .description(
                "Returns the files that differ between the archives of two versions, ordered by path. Text up to \
                 512 KiB has a unified diff, up to 4 MiB together. Whether a file can be executed is not compared.",
            )
            .query([from])
            .ok_response(
                "The differences.",
                "VersionDifference",
                &json!({"from": "1.1.0", "to": "1.2.0", "files": [{
                    "path": "face_tools/mask.py", "change": "modified", "old_bytes": 6, "new_bytes": 7,
                    "patch": "--- a/face_tools/mask.py\n+++ b/face_tools/mask.py\n@@ -1 +1 @@\n-a = 1\n+a = 12\n",
                }]}),
            )
            .error(Code::NotFound, "the node or a version does not exist, or has no archive yet"),
    ]
}

fn archived_files_schema() -> Value {
    let file = response_object([
        field::<String>("path", "Path in the archive, with slashes.").required(),
        field::<u64>("bytes", "Unpacked size.").required(),
        field::<bool>("link", "`true` for a symbolic link, whose content is its target; absent otherwise."),
    ]);
    response_object([
        field_with_schema("files", "The files, ordered by path.", array(&file)).required(),
        field::<u64>("bytes", "Unpacked size of all files.").required(),
    ])
}

fn difference_schema() -> Value {
    let file = response_object([
        field::<String>("path", "Path in the archive, with slashes.").required(),
        field_with_schema("change", "Kind of the change.", one_of(["added", "removed", "modified"])).required(),
        field::<u64>("old_bytes", "Size in the older version; absent if the file was added."),
        field::<u64>("new_bytes", "Size in the newer version; absent if the file was removed."),
        field::<String>("patch", "Unified diff of the text; absent if `omitted` is present."),
        field_with_schema("omitted", "Reason why there is no `patch`.", one_of(["binary", "too_large"])),
    ]);
    response_object([
        field::<SemVer>("from", "Number of the older version.").required(),
        field::<SemVer>("to", "Number of the newer version.").required(),
        field_with_schema("files", "Files that differ, ordered by path.", array(&file)).required(),
    ])
}

fn download_operations() -> Vec<Operation> {
    let number =
        query_parameter("version", "Version number; by default the latest version.", &allow_empty(&SemVer::schema()));
    let rules = with_download_rules;
    vec![
        rules(operation("downloadArchive", "Download an archive"))
            .description(
                "Returns the zip archive of a version. The `ETag` is the SHA-256 of the archive; ranges are \
                 supported.",
            )
            .file_response("The archive.", "application/zip", &["Content-Disposition"])
            .error(Code::TooManyTransfers, "the account has reached its limit of concurrent downloads")
            .error(Code::NotFound, "the node or version does not exist, or it has no archive yet"),
        rules(operation("installNode", "Get the version to install"))
            .description(
                "Returns the version to install, with its `downloadUrl`, and counts a download, once per account (or \
                 client address), node and day. HEAD does not count. Counts are written at most once a second, so a \
                 crash of the service can lose the last second.",
            )
            .query([number])
            .ok_response("The version to install.", "NodeVersion", &version_example())
            .error(Code::NotFound, "the node or version does not exist, or no version can be installed"),
    ]
}
