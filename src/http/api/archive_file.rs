//! Files of published archives, and the differences between two versions.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, ETAG};
use actix_web::{HttpResponse, web};
use serde::Serialize;

use crate::domain::policy::Action;
use crate::domain::value::Digest;
use crate::domain::version::{SemVer, VersionRef};
use crate::file_tree::FileTree;
use crate::http::api::install::{ArchiveLookup, REVALIDATE, archive_of, look_up_archive};
use crate::http::api::version_list::{NodeLookup, look_up_node};
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::conditional;
use crate::http::request::query::restore_plus_signs;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::media::archive::compare::{self, ArchiveChange, ArchivePatch, text_of};
use crate::media::archive::contents::{ArchiveContents, ArchivedFile};

/// Maximum number of archives that are read at the same time.
pub const ARCHIVE_READS_MAX: usize = 8;
/// Maximum size of a file that is sent alone, in bytes. Larger ones are in the archive.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

type OpenArchive = ArchiveContents<BufReader<File>>;

/// Result of reading one file of an archive.
enum FileRead {
    Content(Vec<u8>),
    /// The file is sent only in the archive.
    TooLarge {
        bytes: u64,
    },
    Missing,
}

#[derive(Serialize)]
struct ArchivedFilesView {
    files: Vec<ArchivedFileView>,
    /// Unpacked size of all files.
    bytes: u64,
}

#[derive(Serialize)]
struct ArchivedFileView {
    path: String,
    bytes: u64,
    #[serde(skip_serializing_if = "is_false")]
    link: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[derive(Serialize)]
struct VersionDifferenceView {
    from: SemVer,
    to: SemVer,
    files: Vec<ArchiveChangeView>,
}

#[derive(Serialize)]
struct ArchiveChangeView {
    path: String,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<&'static str>,
}

impl ArchiveChangeView {
    fn new(change: ArchiveChange) -> Self {
        let ArchiveChange { path, old_bytes, new_bytes, patch } = change;
        let kind = match (old_bytes, new_bytes) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "modified",
        };
        let view = Self { path, change: kind, old_bytes, new_bytes, patch: None, omitted: None };
        match patch {
            ArchivePatch::Text(text) => Self { patch: Some(text), ..view },
            ArchivePatch::Binary => Self { omitted: Some("binary"), ..view },
            ArchivePatch::TooLarge => Self { omitted: Some("too_large"), ..view },
        }
    }
}

/// `GET /nodes/{nodeId}/versions/{version}/files`: the files of the archive, by path.
pub async fn list(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    call.query()?.finish()?;
    let found = match look_up_archive(&call, "/files")? {
        ArchiveLookup::Found(found) => found,
        ArchiveLookup::Redirect(redirect) => return Ok(redirect),
    };

    let files = read_archives(&call, [found.archive.digest], |[archive]| archive.files()).await?;
    let bytes = files.iter().map(|file| file.bytes).sum();
    let view = |ArchivedFile { path, bytes, is_link, .. }| ArchivedFileView { path, bytes, link: is_link };
    let files = files.into_iter().map(view).collect();
    ApiResponse::ok(&ArchivedFilesView { files, bytes })
}

/// `GET /nodes/{nodeId}/versions/{version}/files/content`: a file of the archive. Any text is sent as plain text, so
/// that no browser runs it.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let path = query.required("path", |path| Ok(path.to_owned()));
    query.finish()?;
    let path = path.unwrap_or_default();
    let found = match look_up_archive(&call, "/files/content")? {
        ArchiveLookup::Found(found) => found,
        ArchiveLookup::Redirect(redirect) => return Ok(redirect),
    };

    let requested = path.clone();
    let read = move |[archive]: &mut [OpenArchive; 1]| {
        let file = archive.files()?.into_iter().find(|file| file.path == requested);
        match file {
            Some(file) if file.bytes > FILE_BYTES_MAX => Ok(FileRead::TooLarge { bytes: file.bytes }),
            Some(file) => archive.read(&file).map(FileRead::Content),
            None => Ok(FileRead::Missing),
        }
    };
    let content = match read_archives(&call, [found.archive.digest], read).await? {
        FileRead::Content(content) => content,
        FileRead::TooLarge { bytes } => {
            let detail = format!("the file has {bytes} bytes, more than {FILE_BYTES_MAX}: download the archive");
            return Err(Problem::new(Code::PayloadTooLarge, detail));
        }
        FileRead::Missing => return Err(Problem::new(Code::NotFound, format!("the archive has no file {path:?}"))),
    };

    let tag = conditional::entity_tag(&content);
    let is_current = conditional::is_current(call.headers(), &tag);
    let mut response = HttpResponse::build(if is_current { StatusCode::NOT_MODIFIED } else { StatusCode::OK });
    response.insert_header((ETAG, tag)).insert_header((CACHE_CONTROL, REVALIDATE));
    let response = match text_of(content) {
        _ if is_current => response.finish(),
        Ok(text) => response.content_type("text/plain; charset=utf-8").body(text),
        Err(content) => response.content_type("application/octet-stream").body(content),
    };
    Ok(ApiResponse::from_response(response))
}

/// `GET /nodes/{nodeId}/versions/{version}/diff`: the files that differ from another version.
pub async fn difference(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let from = query.required("from", |text| SemVer::parse(&restore_plus_signs(text)));
    query.finish()?;
    let new = match look_up_archive(&call, "/diff")? {
        ArchiveLookup::Found(found) => found,
        ArchiveLookup::Redirect(redirect) => return Ok(redirect),
    };
    // An id in the wrong case has been redirected above.
    let (Some(from), NodeLookup::Found(entry, _)) = (from, look_up_node(&call, "")?) else {
        return Err(Problem::not_found("node version"));
    };
    let old = archive_of(&call, &entry, &VersionRef::Number(from))?;

    let compare = |[old, new]: &mut [OpenArchive; 2]| compare::compare(old, new);
    let changes = read_archives(&call, [old.archive.digest, new.archive.digest], compare).await?;
    let files = changes.into_iter().map(ArchiveChangeView::new).collect();
    ApiResponse::ok(&VersionDifferenceView { from: old.version, to: new.version, files })
}

/// Opens archives and reads from them on a blocking thread.
async fn read_archives<const N: usize, T: Send + 'static>(
    call: &RequestContext,
    digests: [Digest; N],
    read: impl FnOnce(&mut [OpenArchive; N]) -> io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let permit = call.shared().archive_reads.try_acquire(call.account())?;
    let archives = &call.services().registry.archives;
    let (tree, paths) = (archives.tree().clone(), digests.map(|digest| archives.path_of(&digest)));

    let open_and_read = move || {
        let _permit = permit;
        let opened = paths.iter().map(|path| open(&tree, path)).collect::<io::Result<Vec<_>>>()?;
        let mut archives = opened.try_into().map_err(|_| io::Error::other("an archive is missing"))?;
        read(&mut archives)
    };
    web::block(open_and_read).await.map_err(Problem::internal)?.map_err(|error| Problem::from_read_error(&error))
}

fn open(tree: &FileTree, path: &Path) -> io::Result<OpenArchive> {
    ArchiveContents::open(BufReader::new(tree.open(path)?))
}
