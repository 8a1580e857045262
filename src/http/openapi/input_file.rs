//! Upload of input files.

use serde_json::json;

use super::OperationGroup;
use super::operation::{Operation, operation};
use super::schema::{UrlSchema, field, field_with_schema, response_object};
use crate::domain::ids::FileId;
use crate::domain::value::Timestamp;
use crate::http::api::input_file::{FileBody, InputContentType};
use crate::http::request::json_object::JsonValue;
use crate::http::response::error::Code;

const FILE_ID_EXAMPLE: &str = "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c12";

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Files",
        description: "Inputs of media tasks, uploaded once and used by URL: pictures and videos of up to 512 MiB.",
        operations: vec![create(), receive(), show()],
        components: vec![(
            "InputFile",
            response_object([
                field::<FileId>("id", "Id of the file.").required(),
                field::<UrlSchema>(
                    "upload_url",
                    "URL for the `PUT` of the content, valid until `expires_at`. Absent once there is content.",
                ),
                field::<UrlSchema>("url", "URL to use in place of a picture or video.").required(),
                field_with_schema(
                    "content_type",
                    "Media type: the announced one, then that of the content.",
                    <InputContentType as JsonValue>::schema(),
                ),
                field::<u64>("bytes", "Number of bytes."),
                field::<Timestamp>("expires_at", "Time until which the file can be uploaded and used.").required(),
            ]),
        )],
    }
}

fn example() -> serde_json::Value {
    json!({"id": FILE_ID_EXAMPLE, "url": format!("https://registry.example/files/{FILE_ID_EXAMPLE}"),
        "content_type": "video/mp4", "bytes": 48_213_117, "expires_at": "2026-03-02T09:30:00.000000Z"})
}

fn create() -> Operation {
    let mut announced = example();
    announced["upload_url"] = "https://registry.example/uploads/files/9fQ2v7".into();
    with_upload_errors(
        operation("createFile", "Upload an input file")
            .description(
                "Uploads a picture or video of at most 512 MiB in one of two ways:\n\n- As a form \
                 (`multipart/form-data`) whose part `file` is the file. An `Idempotency-Key` makes the request \
                 repeatable.\n- Without the content: the response has an `upload_url` for one `PUT` of it.\n\nThe `url` \
                 of the response can be used by the same account wherever a picture, a video or a watermark is given, \
                 and is not fetched over the network. A file expires after 24 hours, or after `media.retention` if \
                 that is shorter; tasks that use it are not affected.",
            )
            .json_object::<FileBody>(&json!({"name": "harbour.mp4", "content_type": "video/mp4", "bytes": 48_213_117}))
            .or_form(&json!({
                "type": "object",
                "properties": {"file": {"type": "string", "format": "binary", "description": "The file."}},
                "required": ["file"],
            }))
            .ok_response("The file, or where to upload it.", "InputFile", &announced),
    )
}

fn receive() -> Operation {
    with_upload_errors(
        operation("uploadFile", "Upload the content of an input file")
            .description(
                "Uploads the content of a file that `POST /files` announced. The URL is the credential. The format is \
                 detected from the content and must be the announced one, as must the length. The same content can be \
                 uploaded again; a different one is rejected.",
            )
            .streamed_body(&["application/octet-stream"], &json!({"schema": {"type": "string", "format": "binary"}}))
            .ok_response("The file.", "InputFile", &example())
            .error(Code::UploadLinkInvalid, "this service did not issue the URL, or its requester has lost access")
            .error(Code::UploadLinkExpired, "request a new URL")
            .error(Code::Conflict, "the file has been uploaded with different content"),
    )
}

fn show() -> Operation {
    operation("downloadFile", "Download an input file")
        .description("Returns the content of an uploaded file to everyone who knows its URL. Ranges are supported.")
        .file_response("The file: a picture or a video.", "*/*", &[])
        .error(Code::TooManyTransfers, "the account has reached its limit of concurrent downloads")
        .error(Code::NotFound, "the file does not exist or has expired")
}

fn with_upload_errors(operation: Operation) -> Operation {
    operation
        .error(Code::InvalidInput, "the file is neither a picture nor a video that a task can use")
        .error(Code::TooManyTransfers, "the account has reached its limit of concurrent uploads, or has 1000 files")
        .error(Code::QuotaExceeded, "the account has reached its daily limit of uploaded bytes")
}
