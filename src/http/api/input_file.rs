//! Files that clients upload to use them as inputs (contract 11). A submission can contain the URL of such a file
//! wherever it takes a picture or video; the file is then read from the store, not over the network.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_multipart::Multipart;
use actix_web::error::PayloadError;
use actix_web::web::{self, Bytes};
use futures_util::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use crate::actors::Actor;
use crate::disk_space::DataDirPart;
use crate::domain::ids::{FileId, UserId};
use crate::domain::policy::Action;
use crate::domain::value::{CallbackUrl, InvalidValue, Text, Timestamp};
use crate::domain::video::{Clip, VideoFormat};
use crate::file_tree::is_unavailable;
use crate::http::api::file::{self, DownloadMetadata};
use crate::http::api::media;
use crate::http::auth::authorize::{self, Identity};
use crate::http::idempotency::{self, IDEMPOTENT_REPLAYED};
use crate::http::limits::account_pool::PoolPermit;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::body::body_budget::BodyCharge;
use crate::http::request::body::{BodyLimit, check_form_type};
use crate::http::request::body_chunks::BodyChunks;
use crate::http::request::disk_writer::{DiskWriter, UploadPurpose};
use crate::http::request::fields::{FieldError, Fields};
use crate::http::request::form::malformed_form;
use crate::http::request::json_object::{JsonValue, json_object};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::media::archive::upload_token::{UploadKey, UploadTokenError};
use crate::media::file_ticket::FileTicket;
use crate::media::incoming_file::IncomingFile;
use crate::media::uploaded_files::{
    InputFormat, StoredUpload, UPLOADED_BYTES_MAX, UploadError, UploadedFile, UploadedFiles,
};
use crate::quota::Account;

/// Time for which a file can be uploaded and used, unless `media.retention` is shorter.
const VALIDITY: Duration = Duration::from_hours(24);
/// Maximum duration of an upload.
const UPLOAD_TIME_MAX: Duration = Duration::from_hours(1);
/// Name of the part of a form that is the file.
const FILE_PART: &str = "file";
/// Maximum number of parts of a form, including ignored ones.
const PARTS_MAX: usize = 64;
/// Context of the ids of files uploaded with an idempotency key.
const ID_CONTEXT: &[u8] = b"mediary input file id 1\n";
const PURPOSE: UploadPurpose =
    UploadPurpose { part: DataDirPart::Media, whole: "the file", rest: "the rest of the file" };
/// Files are private to those who know the URL; their content never changes.
const CACHE_CONTROL: &str = "private, max-age=3600, immutable";

json_object! {
    /// Body of `POST /files`.
    pub struct FileBody {
        /// Name of the file, for information only; not stored.
        name: Option<Text<255>>,
        /// Media type of the file. The content must have it.
        content_type: Option<InputContentType>,
        /// Number of bytes. The content must have this length.
        bytes: Option<InputLength>,
    }
}

/// Media type of an input; `None` if the content alone decides.
pub struct InputContentType(Option<InputFormat>);

impl InputContentType {
    fn names() -> Vec<&'static str> {
        InputFormat::all().map(InputFormat::media_type).chain([UNKNOWN_TYPE]).collect()
    }
}

impl JsonValue for InputContentType {
    fn schema() -> Value {
        json!({"type": "string", "enum": Self::names()})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.text(name, |text| {
            let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            let format = InputFormat::all().find(|format| format.media_type() == essence);
            if format.is_some() || essence == UNKNOWN_TYPE {
                return Ok(Self(format));
            }
            Err(InvalidValue::new(format!("must be one of {}", Self::names().join(", "))))
        })
    }
}

/// Media type of a file whose type the client does not know.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Length of an input in bytes.
pub struct InputLength(u64);

impl JsonValue for InputLength {
    fn schema() -> Value {
        json!({"type": "integer", "format": "int64", "minimum": 1, "maximum": UPLOADED_BYTES_MAX})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let invalid = || InvalidValue::new(format!("must be an integer from 1 to {UPLOADED_BYTES_MAX} (512 MiB)"));
        let parse = |bytes| u64::try_from(bytes).ok().filter(|bytes| (1..=UPLOADED_BYTES_MAX as u64).contains(bytes));
        fields.integer(name, |bytes| parse(bytes).map(Self).ok_or_else(invalid))
    }
}

/// A file, or the announcement of one.
#[derive(Serialize)]
pub(super) struct FileView {
    id: String,
    /// Link for the upload, while there is no content.
    #[serde(skip_serializing_if = "Option::is_none")]
    upload_url: Option<String>,
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    expires_at: String,
}

impl FileView {
    /// Renders an uploaded file.
    pub(super) fn from_file(call: &RequestContext, file: &UploadedFile) -> Self {
        let UploadedFile { id, format, bytes, expires_at, .. } = file;
        Self {
            id: id.to_string(),
            upload_url: None,
            url: call.url(&format!("/files/{id}")),
            content_type: Some(format.media_type()),
            bytes: Some(*bytes),
            expires_at: expires_at.to_string(),
        }
    }
}

/// `POST /files`: stores the file of a form, or announces a file and returns the link for its upload.
pub async fn create(mut call: Call<{ Action::CreateFile as u8 }>) -> Result<ApiResponse, Problem> {
    let owner = call.user()?.id;
    if call.body_limit() == BodyLimit::InputForm {
        let chunks = call.chunks()?.with_deadline(UPLOAD_TIME_MAX);
        return receive_form(&call, owner, chunks).await;
    }

    let FileBody { content_type, bytes, .. } = call.json_object().await?;
    let services = call.services();
    let file = FileId(services.environment.random_uuid());
    let expires_at = expiry(&call);

    let format = content_type.and_then(|InputContentType(format)| format);
    let ticket = FileTicket { file, owner, bytes: bytes.map(|InputLength(bytes)| bytes), format, expires_at };
    let upload_url = call.url(&format!("/uploads/files/{}", ticket.issue(&services.registry.upload_key)));
    let url = call.url(&format!("/files/{file}"));
    let content_type = format.map(InputFormat::media_type);
    ApiResponse::ok(&FileView {
        id: file.to_string(),
        upload_url: Some(upload_url),
        url,
        content_type,
        bytes: ticket.bytes,
        expires_at: expires_at.to_string(),
    })
}

/// `PUT /uploads/files/{fileTicket}`: uploads an announced file. A repetition with the same content has no effect.
pub async fn receive(mut call: Call<{ Action::UploadFile as u8 }>) -> Result<ApiResponse, Problem> {
    let services = call.services();
    let verified =
        FileTicket::verify(&services.registry.upload_key, &call.path_param("fileTicket"), services.environment.now());
    let ticket = verified.map_err(|error| match error {
        UploadTokenError::Invalid => invalid_link("this service did not issue this upload link"),
        UploadTokenError::Expired => expired_link(),
    })?;

    call.set_actor(Actor::User(ticket.owner));
    let owner = services.models.read().users.get(ticket.owner).cloned().map(Identity::from_profile);
    let owner = owner.ok_or_else(|| invalid_link("the holder of this upload link has lost access"))?;
    authorize::permit(Action::CreateFile, &owner, None)?;

    let account = Account::User(ticket.owner);
    let permit = call.shared().upload_limiter.start_file(account)?;
    let mut chunks = call.chunks()?.with_deadline(UPLOAD_TIME_MAX);
    check_length(ticket.bytes, chunks.content_length().map(|length| length as u64))?;
    let mut writer = start_writer(&call, account, chunks.content_length()).await?;
    let mut received = 0;
    while let Some(chunk) = chunks.next().await? {
        received += chunk.len() as u64;
        if let Some(announced) = ticket.bytes.filter(|announced| received > *announced) {
            return Err(invalid_file(format!("has more than the {announced} bytes that were announced")));
        }
        writer.write(&chunk).await?;
    }

    let upload = writer.finish().await?;
    check_length(ticket.bytes, Some(upload.bytes()))?;
    let conflict = || Problem::new(Code::Conflict, "this file has been uploaded with different content");
    let stored = store(&call, upload, permit, ticket, conflict).await?;
    ApiResponse::ok(&FileView::from_file(&call, &stored.file))
}

/// `GET /files/{fileId}`: the content, for everyone who knows the URL, as for results.
pub async fn show(call: Call<{ Action::ReadResult as u8 }>) -> Result<ApiResponse, Problem> {
    let not_found = || Problem::new(Code::NotFound, "file not found, or expired");
    let services = call.services();
    let uploads = services.media.store.uploads();
    let id = FileId::parse(&call.path_param("fileId")).map_err(|_| not_found())?;
    let now = services.environment.now();
    let found = if uploads.must_list_for(id) {
        let uploads = uploads.clone();
        web::block(move || uploads.get(id, now)).await.map_err(Problem::internal)?
    } else {
        uploads.get(id, now)
    };
    let found = found.map_err(|error| Problem::from_read_error(&error))?.ok_or_else(not_found)?;

    let content_type = found.format.media_type();
    let metadata =
        DownloadMetadata { digest: found.digest, content_type, cache_control: CACHE_CONTROL, headers: Vec::new() };
    file::send(&call, services.media.store.tree(), &uploads.path_of(&found), metadata).await?.ok_or_else(not_found)
}

/// Receives the file of a form. With an idempotency key, the id of the file follows from the key, so that a repetition
/// finds the file and is compared with it.
async fn receive_form(call: &RequestContext, owner: UserId, chunks: BodyChunks) -> Result<ApiResponse, Problem> {
    check_form_type(call.headers(), BodyLimit::InputForm)?;
    let services = call.services();
    let key = idempotency::parse_key(call.headers())?;
    let upload_key = &services.registry.upload_key;
    let id = key.map_or_else(|| FileId(services.environment.random_uuid()), |key| derive_id(upload_key, owner, &key));
    let account = call.account();
    let permit = call.shared().upload_limiter.start_file(account)?;

    let upload = read_file_part(call, account, chunks).await?;
    let ticket = FileTicket { file: id, owner, bytes: None, format: None, expires_at: expiry(call) };
    // Only an id that is derived from a key can belong to a file with other content already.
    let StoredUpload { file, is_repetition } = store(call, upload, permit, ticket, idempotency::key_reused).await?;

    let response = ApiResponse::ok(&FileView::from_file(call, &file))?;
    if is_repetition { response.with_header(IDEMPOTENT_REPLAYED, "true") } else { Ok(response) }
}

/// Streams the file of a form to disk. Other parts are ignored.
async fn read_file_part(call: &RequestContext, account: Account, chunks: BodyChunks) -> Result<IncomingFile, Problem> {
    let mut writer = Some(start_writer(call, account, chunks.content_length()).await?);
    let failure = Arc::default();
    let mut parts = Multipart::new(call.headers(), into_stream(chunks, Arc::clone(&failure)));
    // A failure of the body, such as a timeout, takes precedence over the error that the form reader derives from it.
    let to_problem = |error: &dyn std::fmt::Display| failure.lock().take().unwrap_or_else(|| malformed_form(error));

    let mut upload = None;
    let mut count = 0;
    while let Some(part) = parts.next().await {
        let mut part = part.map_err(|error| to_problem(&error))?;
        count += 1;
        if count > PARTS_MAX {
            return Err(malformed_form(&format!("more than {PARTS_MAX} parts")));
        }

        let is_file = part.name() == Some(FILE_PART);
        let mut target = if is_file { writer.take() } else { None };
        if is_file && target.is_none() {
            return Err(invalid_file("must be given at most once"));
        }
        while let Some(chunk) = part.next().await {
            let chunk = chunk.map_err(|error| to_problem(&error))?;
            if let Some(target) = &mut target {
                target.write(&chunk).await?;
            }
        }
        if let Some(target) = target {
            upload = Some(target.finish().await?);
        }
    }

    upload.ok_or_else(|| invalid_file("is required: add a file part named file"))
}

/// Returns the body as a stream that ends at the first failure, which is left in `failure`.
fn into_stream(
    chunks: BodyChunks,
    failure: Arc<Mutex<Option<Problem>>>,
) -> impl Stream<Item = Result<Bytes, PayloadError>> {
    stream::try_unfold((chunks, failure), |(mut chunks, failure)| async move {
        match chunks.next().await {
            Ok(chunk) => Ok(chunk.map(|chunk| (chunk, (chunks, failure)))),
            Err(problem) => {
                *failure.lock() = Some(problem);
                Err(PayloadError::Incomplete(None))
            }
        }
    })
}

async fn start_writer(
    call: &RequestContext,
    account: Account,
    announced: Option<usize>,
) -> Result<DiskWriter<'_>, Problem> {
    let uploads = call.services().media.store.uploads().clone();
    DiskWriter::start(call, account, announced, PURPOSE, move || uploads.create_upload()).await
}

/// Stores a complete upload. `conflict` is the error if its id has another content.
async fn store(
    call: &RequestContext,
    upload: IncomingFile,
    permit: PoolPermit,
    ticket: FileTicket,
    conflict: impl FnOnce() -> Problem,
) -> Result<StoredUpload, Problem> {
    let services = call.services();
    let uploads = services.media.store.uploads().clone();
    let keyring = services.keyring.clone();
    let now = services.environment.now();
    let FileTicket { file, owner, format: announced, expires_at, .. } = ticket;

    let work = move || {
        let _permit = permit;
        if let (Some(announced), Ok(found)) = (announced, InputFormat::detect(upload.head()))
            && announced != found
        {
            let reason = format!("is {}, but {} was announced", found.media_type(), announced.media_type());
            return Err(UploadError::Invalid(InvalidValue::new(reason)));
        }
        let stored = uploads.commit_upload(&upload, file, owner, expires_at, now)?;
        // An erasure that began during the upload may have missed this file: it removes the files listed by then.
        if keyring.is_erased(owner) {
            uploads.remove_all_of(owner)?;
            return Ok(None);
        }
        Ok(Some(stored))
    };

    let stored = web::block(work).await.map_err(Problem::internal)?.map_err(|error| match error {
        UploadError::Invalid(reason) => invalid_file(reason),
        UploadError::Conflict => conflict(),
        UploadError::Expired => expired_link(),
        UploadError::TooMany => {
            let detail = format!("{error}, the maximum; each is removed when it expires");
            Problem::new(Code::TooManyTransfers, detail).retry_after(60)
        }
        UploadError::Io(error) => Problem::from_io_error(&error, &services.space),
    })?;
    stored.ok_or_else(|| Problem::new(Code::Forbidden, "the owner of the file was erased during the upload"))
}

fn check_length(announced: Option<u64>, length: Option<u64>) -> Result<(), Problem> {
    match (announced, length) {
        (Some(announced), Some(length)) if announced != length => {
            Err(invalid_file(format!("has {length} bytes, but {announced} were announced")))
        }
        _ => Ok(()),
    }
}

fn invalid_file(reason: impl std::fmt::Display) -> Problem {
    Problem::invalid(vec![FieldError::new(format!("/{FILE_PART}"), reason)])
}

fn invalid_link(detail: &str) -> Problem {
    Problem::new(Code::UploadLinkInvalid, detail)
}

fn expired_link() -> Problem {
    Problem::new(Code::UploadLinkExpired, "this upload link has expired: request a new one with POST /files")
}

fn expiry(call: &RequestContext) -> Timestamp {
    let services = call.services();
    services.environment.now().saturating_add(VALIDITY.min(services.options.media_retention))
}

/// Returns the id of the file that an owner uploads with an idempotency key. It cannot be guessed, because everyone who
/// knows the id may read the file.
fn derive_id(upload_key: &UploadKey, owner: UserId, key: &str) -> FileId {
    FileId(upload_key.derive_id(ID_CONTEXT, &[owner.0.as_bytes(), key.as_bytes()].concat()))
}

/// Finds the uploaded files that the URLs of a submission name. The default finds none.
#[derive(Default)]
pub struct InputFiles(Option<CallerInputFiles>);

struct CallerInputFiles {
    uploads: UploadedFiles,
    public_url: String,
    owner: Option<UserId>,
    now: Timestamp,
    upload_key: UploadKey,
    /// Empty template for the charges of pictures to the memory budget of the caller.
    charge: BodyCharge,
    /// `true` once a file could not be read because the bucket that has it cannot be used.
    are_unavailable: Cell<bool>,
}

/// Picture from an uploaded file. Its bytes count against the memory budget of request bodies until dropped.
pub struct UploadedPicture {
    file: UploadedFile,
    bytes: Vec<u8>,
    _charge: BodyCharge,
}

/// Reason why an uploaded picture was not read.
pub enum UploadReadError {
    /// The URL does not name a picture of the caller.
    Invalid(InvalidValue),
    /// The memory budget is exhausted.
    Busy,
}

impl UploadedPicture {
    /// Returns the bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the file.
    #[must_use]
    pub const fn file(&self) -> UploadedFile {
        self.file
    }
}

impl CallerInputFiles {
    fn read_error(&self, id: FileId, error: &io::Error) -> InvalidValue {
        tracing::error!(%error, file = %id, "uploaded file unreadable");
        if is_unavailable(error) {
            self.are_unavailable.set(true);
        }
        InvalidValue::new("names a file that cannot be read; upload it again")
    }
}

impl InputFiles {
    /// Returns the files of a caller.
    #[must_use]
    pub fn new(call: &RequestContext, owner: Option<UserId>) -> Self {
        let services = call.services();
        Self(Some(CallerInputFiles {
            uploads: services.media.store.uploads().clone(),
            public_url: services.options.public_url.clone(),
            owner,
            now: services.environment.now(),
            upload_key: services.registry.upload_key.clone(),
            charge: call.shared().body_budget.charge(BodyLimit::Images, call.account()),
            are_unavailable: Cell::new(false),
        }))
    }

    /// Returns the file that a URL names; `None` if the URL leads elsewhere.
    ///
    /// # Errors
    /// If the URL names a file that the caller does not have, or that cannot be read.
    pub fn find(&self, url: &CallbackUrl) -> Result<Option<UploadedFile>, InvalidValue> {
        let Some(files) = &self.0 else { return Ok(None) };
        let path = url.as_str().strip_prefix(&files.public_url);
        let Some(id) = path.and_then(|path| path.strip_prefix("/files/")) else { return Ok(None) };

        let file = match FileId::parse(id) {
            Ok(id) => files.uploads.get(id, files.now).map_err(|error| files.read_error(id, &error))?,
            Err(_) => None,
        };
        let own = file.filter(|file| Some(file.owner) == files.owner);
        let missing =
            || InvalidValue::new("names a file that was not uploaded, has expired, or belongs to another account");
        own.map(Some).ok_or_else(missing)
    }

    /// Returns `true` if a file could not be read because the bucket that has it cannot be used.
    #[must_use]
    pub fn are_unavailable(&self) -> bool {
        self.0.as_ref().is_some_and(|files| files.are_unavailable.get())
    }

    /// Returns the URL at which a vendor can fetch an uploaded video once it is stored as an input: unlike the URL of
    /// the upload, it works until the input is deleted.
    #[must_use]
    pub fn input_url(&self, file: &UploadedFile, format: VideoFormat) -> Option<CallbackUrl> {
        let files = self.0.as_ref()?;
        let clip = Clip { digest: file.digest, format, bytes: file.bytes };
        let path = media::input_path(&files.upload_key, &clip.file_name());
        CallbackUrl::parse(&format!("{}{path}", files.public_url)).ok()
    }

    /// Reads the picture that a URL names; `None` if the URL leads elsewhere. Blocks.
    ///
    /// # Errors
    /// If the URL names a file that the caller does not have, or a video; or if the memory budget is exhausted.
    pub fn read_picture(&self, url: &CallbackUrl) -> Result<Option<UploadedPicture>, UploadReadError> {
        let (Some(files), Some(file)) = (&self.0, self.find(url).map_err(UploadReadError::Invalid)?) else {
            return Ok(None);
        };
        if !matches!(file.format, InputFormat::Picture(_)) {
            let reason = format!("must be a picture; the file is {}", file.format.media_type());
            return Err(UploadReadError::Invalid(InvalidValue::new(reason)));
        }

        let mut charge = files.charge.new_empty();
        let bytes = usize::try_from(file.bytes).map_err(|_| UploadReadError::Busy)?;
        charge.grow(bytes).map_err(|_| UploadReadError::Busy)?;
        let bytes =
            files.uploads.read(&file).map_err(|error| UploadReadError::Invalid(files.read_error(file.id, &error)))?;
        Ok(Some(UploadedPicture { file, bytes, _charge: charge }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::http::request::body::BodyBudget;
    use uuid::Uuid;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and more";

    #[test]
    fn the_id_of_a_key_is_secret_and_differs_by_owner() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = [1, 2].map(|seed| {
            let environment = Environment::manual(Timestamp::from_micros(0), seed);
            UploadKey::generate(&folder.path().join(seed.to_string()), &environment).unwrap()
        });
        let [ada, bob] = [1, 2].map(|user| UserId(Uuid::from_u128(user)));

        let id = derive_id(&first, ada, "k");
        assert_eq!(derive_id(&first, ada, "k"), id);
        for other in [derive_id(&second, ada, "k"), derive_id(&first, bob, "k"), derive_id(&first, ada, "l")] {
            assert_ne!(other, id);
        }
    }

    #[test]
    fn the_bytes_of_an_uploaded_picture_are_charged_while_they_are_held() {
        // Given an uploaded picture
        let folder = tempfile::tempdir().unwrap();
        let uploads = UploadedFiles::open(&folder.path().join("uploads")).unwrap();
        let mut upload = uploads.create_upload().unwrap();
        upload.write(PNG).unwrap();
        let (id, owner) = (FileId(Uuid::from_u128(1)), UserId(Uuid::from_u128(2)));
        let now = Timestamp::from_micros(0);
        let file = uploads.commit_upload(&upload, id, owner, Timestamp::from_micros(1), now).unwrap().file;
        let budget = BodyBudget::default();
        let account = Account::User(owner);
        let files = InputFiles(Some(CallerInputFiles {
            uploads: uploads.clone(),
            public_url: "https://registry.example".to_owned(),
            owner: Some(owner),
            now,
            upload_key: UploadKey::generate(&folder.path().join("key"), &Environment::manual(now, 1)).unwrap(),
            charge: budget.charge(BodyLimit::Images, account),
            are_unavailable: Cell::new(false),
        }));
        let url = CallbackUrl::parse(&format!("https://registry.example/files/{id}")).unwrap();
        let invalid = || match files.read_picture(&url) {
            Err(UploadReadError::Invalid(reason)) => reason.to_string(),
            _ => panic!("the file was read"),
        };

        // When it is read, then its bytes count towards the budget until they are dropped
        let picture = files.read_picture(&url).ok().flatten().expect("a picture");
        assert_eq!((picture.bytes(), budget.held_bytes()[1]), (PNG, PNG.len()));
        drop(picture);
        assert_eq!(budget.held_bytes(), [0; 3]);

        // And it is not read while the share of the account (192 MiB) is used up
        let mut others = budget.charge(BodyLimit::Images, account);
        others.grow(192 << 20).unwrap();
        assert!(matches!(files.read_picture(&url), Err(UploadReadError::Busy)));
        drop(others);

        // And a damaged or removed file is not used
        std::fs::write(uploads.path_of(&file), b"other").unwrap();
        assert_eq!(invalid(), "names a file that cannot be read; upload it again");
        std::fs::remove_file(uploads.path_of(&file)).unwrap();
        assert_eq!(invalid(), "names a file that cannot be read; upload it again");
    }
}
