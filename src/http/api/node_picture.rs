//! Icon and banner of a node: checked like the inputs of jobs, stored permanently, and named by the URL fields of
//! the node.

use serde_json::Value;

use crate::domain::node::{NodeAdminFields, NodeCommand, NodeFields};
use crate::domain::policy::Action;
use crate::domain::value::{InvalidValue, Link};
use crate::http::api::input_file::InputFiles;
use crate::http::api::node_change::reply_with_node;
use crate::http::api::submitted_picture::{LoadedPicture, PictureChecker};
use crate::http::pipeline::Call;
use crate::http::request::fields::{self, Fields};
use crate::http::request::json_object::{JsonObject, JsonValue, json_object};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::media::input::{PictureInfo, PictureInput};
use crate::media::store::MediaArea;

/// Maximum size of a picture, which lists of nodes show: 4 MiB.
const PICTURE_BYTES_MAX: usize = 4 << 20;

/// Icon or banner in a body.
pub struct NodePicture(PictureInput);

impl JsonValue for NodePicture {
    const ABOUT: &'static str = "PNG, JPEG, WebP, GIF, BMP or TIFF of at most 4 MiB: base64, a data URI with base64, or \
                                 the URL of an uploaded file (`POST /files`); in a form also a file.";

    fn schema() -> Value {
        PictureInput::schema()
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        PictureInput::read(fields, name).map(Self)
    }
}

json_object! {
    pub struct NodePictureBody {
        /// Picture.
        image: NodePicture,
    }
}

/// `PUT /publishers/{publisherId}/nodes/{nodeId}/icon`: stores a picture and makes it the icon.
pub async fn set_icon(call: Call<{ Action::ReviseNode as u8 }>) -> Result<ApiResponse, Problem> {
    set_picture(call, |url| NodeFields { icon: Some(url), ..NodeFields::default() }).await
}

/// `PUT /publishers/{publisherId}/nodes/{nodeId}/banner`: stores a picture and makes it the banner.
pub async fn set_banner(call: Call<{ Action::ReviseNode as u8 }>) -> Result<ApiResponse, Problem> {
    set_picture(call, |url| NodeFields { banner_url: Some(url), ..NodeFields::default() }).await
}

async fn set_picture(
    mut call: Call<{ Action::ReviseNode as u8 }>,
    to_change: fn(Link) -> NodeFields,
) -> Result<ApiResponse, Problem> {
    let node = call.existing_node()?;
    let publisher = call.publisher()?.id.clone();
    // A token of a publisher has no user, and no uploaded files.
    let owner = call.user().ok().map(|user| user.id);
    let shared = call.shared().clone();
    let services = &shared.services;

    let revise =
        |change| NodeCommand::Revise { publisher: publisher.clone(), change, admin_fields: NodeAdminFields::default() };
    // An empty change checks the rules of the node first: a refused request must not leave a file.
    services.dispatch.node(&node, revise(NodeFields::default()), call.command_context()).await?;

    let body = call.body().await?;
    let decoder_permit = shared.acquire_decoder(owner).await?;
    let store = services.media.store.clone();
    let space = services.space.clone();
    let files = InputFiles::new(&call, owner);
    // The thread continues if the client disconnects; it holds the body's memory charge until it ends.
    let work = move || {
        let body = body.parse()?;
        let checker = PictureChecker::new(store.decoders(), &files);
        let picture = fields::read(&body, |fields| check_picture(fields, &checker));
        let (bytes, info) = checker.finish(picture)?;
        // Release the decoder before writing, which waits for the disk.
        drop(decoder_permit);
        let PictureInfo { format, width, height } = info;
        let stored = store.put(MediaArea::NodePicture, &bytes, format, width, height);
        stored.map_err(|error| Problem::from_io_error(&error, &space))
    };
    let picture = shared.inspectors.run(work).await.map_err(Problem::internal)??;

    let link = Link::to_media_file(&picture.file_name());
    services.dispatch.node(&node, revise(to_change(link)), call.command_context()).await?;
    reply_with_node(&call, &node, |view| ApiResponse::ok(view))
}

/// Reads and decodes the picture of the body. Blocks.
fn check_picture(fields: &mut Fields<'_, '_>, checker: &PictureChecker<'_>) -> Option<(Vec<u8>, PictureInfo)> {
    let NodePictureBody { image: NodePicture(picture) } = NodePictureBody::read_fields(fields)?;
    let load = || -> Result<(Vec<u8>, PictureInfo), InvalidValue> {
        let LoadedPicture::Content(content) = checker.load(picture)? else {
            return Err(InvalidValue::new(
                "must be a picture or the URL of an uploaded file; for a picture on another server, set its URL in the \
                 fields of the node",
            ));
        };

        if content.bytes().len() > PICTURE_BYTES_MAX {
            let bytes = content.bytes().len();
            return Err(InvalidValue::new(format!(
                "has {bytes} bytes; at most {PICTURE_BYTES_MAX} (4 MiB) are allowed"
            )));
        }

        let bytes = content.bytes().to_vec();
        let info = checker.inspect("/image", content)?.info();
        info.map(|info| (bytes, info)).ok_or_else(|| InvalidValue::new("must be a picture"))
    };
    load().map_err(|reason| fields.add_error("image", reason)).ok()
}
