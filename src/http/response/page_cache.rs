//! Cached pages with their compressed forms, one for each coding requested so far: compression dominates the cost of a
//! page.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use actix_web::http::header::{AcceptEncoding, CONTENT_ENCODING, ContentEncoding, Encoding, HeaderMap};
use bytes::Bytes;

use crate::http::request::conditional;
use crate::http::response::api_response::{ApiResponse, COMPRESSION_MIN_BYTES};
use crate::http::response::error::Problem;
use crate::http::response::response_body::ResponseBody;

/// Maximum size of a body compressed here, in bytes; the server compresses larger ones on blocking threads.
const COMPRESSED_INLINE_MAX: usize = 64 * 1024;

/// Compression level of the server, which favours speed.
const BROTLI_QUALITY: u32 = 3;
/// Base-2 logarithm of the default window size.
const BROTLI_WINDOW: u32 = 22;
const BROTLI_BUFFER_BYTES: usize = 32 * 1024;

/// Cached page. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CachedPage(Arc<CachedPageData>);

#[derive(Debug)]
struct CachedPageData {
    body: ResponseBody,
    tag: String,
    brotli: OnceLock<Bytes>,
    gzip: OnceLock<Bytes>,
}

impl CachedPage {
    /// Creates a page with its strong entity tag.
    #[must_use]
    pub fn new(body: impl Into<ResponseBody>, tag: String) -> Self {
        Self(Arc::new(CachedPageData { body: body.into(), tag, brotli: OnceLock::new(), gzip: OnceLock::new() }))
    }

    /// Returns an upper estimate of the memory used, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        // The body, and as much for its compressed forms.
        2 * self.0.body.size()
    }

    /// Returns the response in an accepted coding, or a 304 if the client has the page.
    ///
    /// # Errors
    /// An internal error if the compression fails.
    pub fn reply(&self, headers: &HeaderMap, accepted: Option<&AcceptEncoding>) -> Result<ApiResponse, Problem> {
        let CachedPageData { body, tag, brotli, gzip } = &*self.0;
        if conditional::is_current(headers, tag) {
            return Ok(ApiResponse::not_modified(tag));
        }

        let coding = accepted.map_or(ContentEncoding::Identity, negotiate);
        let cell = match coding {
            ContentEncoding::Brotli => brotli,
            ContentEncoding::Gzip => gzip,
            _ => return Ok(ApiResponse::tagged(body.clone(), tag)),
        };

        let ResponseBody::Whole(bytes) = body else { return Ok(ApiResponse::tagged(body.clone(), tag)) };
        if !(COMPRESSION_MIN_BYTES..=COMPRESSED_INLINE_MAX).contains(&bytes.len()) {
            return Ok(ApiResponse::tagged(body.clone(), tag));
        }

        let compressed = if let Some(compressed) = cell.get() {
            compressed.clone()
        } else {
            let compressed = compress(bytes, coding).map_err(Problem::internal)?;
            cell.get_or_init(|| compressed.into()).clone()
        };
        ApiResponse::tagged(compressed, tag).with_header(CONTENT_ENCODING, coding.as_str())
    }
}

/// Returns the coding that the server chooses for responses to a client with these accepted codings.
#[must_use]
pub fn negotiate(accepted: &AcceptEncoding) -> ContentEncoding {
    let known = [Encoding::identity(), Encoding::brotli(), Encoding::gzip(), Encoding::deflate()];
    match accepted.negotiate(known.iter()) {
        Some(Encoding::Known(coding)) => coding,
        _ => ContentEncoding::Identity,
    }
}

fn compress(body: &[u8], coding: ContentEncoding) -> std::io::Result<Vec<u8>> {
    if coding == ContentEncoding::Brotli { compress_brotli(body) } else { compress_gzip(body) }
}

fn compress_brotli(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut writer = brotli::CompressorWriter::new(Vec::new(), BROTLI_BUFFER_BYTES, BROTLI_QUALITY, BROTLI_WINDOW);
    writer.write_all(body)?;
    writer.flush()?;
    Ok(writer.into_inner())
}

fn compress_gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(body)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::{Preference, QualityItem};
    use std::io::Read;

    #[test]
    fn compressed_pages_decompress_to_the_page() {
        let body: Vec<u8> = (0..40_000_u32).flat_map(|number| (number % 977).to_string().into_bytes()).collect();
        let mut brotli = Vec::new();
        let mut gzip = Vec::new();
        brotli::Decompressor::new(&*compress_brotli(&body).unwrap(), 4096).read_to_end(&mut brotli).unwrap();
        flate2::read::GzDecoder::new(&*compress_gzip(&body).unwrap()).read_to_end(&mut gzip).unwrap();
        assert!(brotli == body, "brotli changed the page");
        assert!(gzip == body, "gzip changed the page");
    }

    /// Requests the page in a coding, which caches its compressed form.
    fn fetch(page: &CachedPage, coding: Encoding) {
        let accepted = AcceptEncoding(vec![QualityItem::max(Preference::Specific(coding))]);
        page.reply(&HeaderMap::new(), Some(&accepted)).unwrap();
    }

    #[test]
    fn encodings_are_created_on_demand() {
        let page = CachedPage::new(Bytes::from(vec![b'x'; 5000]), "\"t\"".to_owned());
        fetch(&page, Encoding::identity());
        assert!(page.0.gzip.get().is_none() && page.0.brotli.get().is_none());
        fetch(&page, Encoding::gzip());
        let first = page.0.gzip.get().unwrap().as_ptr();
        assert!(page.0.brotli.get().is_none());
        fetch(&page, Encoding::brotli());
        fetch(&page, Encoding::gzip());
        assert!(page.0.brotli.get().is_some());
        assert_eq!(page.0.gzip.get().unwrap().as_ptr(), first);
    }

    #[test]
    fn small_and_large_pages_are_not_compressed() {
        for size in [COMPRESSION_MIN_BYTES - 1, COMPRESSED_INLINE_MAX + 1] {
            let page = CachedPage::new(Bytes::from(vec![b'x'; size]), "\"t\"".to_owned());
            fetch(&page, Encoding::gzip());
            assert!(page.0.gzip.get().is_none(), "{size}");
        }
    }
}
