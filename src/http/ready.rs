//! Cached pages with their compressed forms, one for each coding requested so far: compression dominates the cost of a
//! page.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use actix_web::http::header::{AcceptEncoding, CONTENT_ENCODING, ContentEncoding, Encoding, HeaderMap};
use bytes::Bytes;

use super::answer::{Answer, COMPRESSED_FROM};
use super::conditional;
use super::error::Problem;
use super::payload::Payload;

/// Maximum size of a body compressed here, in bytes; the server compresses larger ones on blocking threads.
const COMPRESSED_HERE: usize = 64 * 1024;

/// Compression level of the server, which favours speed.
const BROTLI_QUALITY: u32 = 3;
/// Base-2 logarithm of the default window size.
const BROTLI_WINDOW: u32 = 22;

/// Cached page. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ReadyPage(Arc<Ready>);

#[derive(Debug)]
struct Ready {
    body: Payload,
    tag: String,
    brotli: OnceLock<Bytes>,
    gzip: OnceLock<Bytes>,
}

impl ReadyPage {
    /// Creates a page with its strong entity tag.
    #[must_use]
    pub fn new(body: impl Into<Payload>, tag: String) -> Self {
        Self(Arc::new(Ready { body: body.into(), tag, brotli: OnceLock::new(), gzip: OnceLock::new() }))
    }

    /// Returns an upper estimate of the memory used, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        2 * self.0.body.size()
    }

    /// Returns the response in an accepted coding, or a 304 if the client has the page.
    ///
    /// # Errors
    /// An internal error if the compression fails.
    pub fn answer(&self, headers: &HeaderMap, accepted: Option<&AcceptEncoding>) -> Result<Answer, Problem> {
        let Ready { body, tag, brotli, gzip } = &*self.0;
        if conditional::is_current(headers, tag) {
            return Ok(Answer::unchanged(tag));
        }

        let coding = accepted.map_or(ContentEncoding::Identity, negotiated);
        let kept = match coding {
            ContentEncoding::Brotli => brotli,
            ContentEncoding::Gzip => gzip,
            _ => return Ok(Answer::tagged(body.clone(), tag)),
        };

        let Payload::Whole(whole) = body else { return Ok(Answer::tagged(body.clone(), tag)) };
        if !(COMPRESSED_FROM..=COMPRESSED_HERE).contains(&whole.len()) {
            return Ok(Answer::tagged(body.clone(), tag));
        }

        let compressed = if let Some(compressed) = kept.get() {
            compressed.clone()
        } else {
            let compressed = compressed(whole, coding).map_err(Problem::internal)?;
            kept.get_or_init(|| compressed.into()).clone()
        };
        Answer::tagged(compressed, tag).with(CONTENT_ENCODING, coding.as_str())
    }
}

/// Chooses the same coding as the server.
fn negotiated(accepted: &AcceptEncoding) -> ContentEncoding {
    let known = [Encoding::identity(), Encoding::brotli(), Encoding::gzip(), Encoding::deflate()];
    match accepted.negotiate(known.iter()) {
        Some(Encoding::Known(coding)) => coding,
        _ => ContentEncoding::Identity,
    }
}

fn compressed(body: &[u8], coding: ContentEncoding) -> std::io::Result<Vec<u8>> {
    if coding == ContentEncoding::Brotli { by_brotli(body) } else { by_gzip(body) }
}

fn by_brotli(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut writer = brotli::CompressorWriter::new(Vec::new(), 32 * 1024, BROTLI_QUALITY, BROTLI_WINDOW);
    writer.write_all(body)?;
    writer.flush()?;
    Ok(writer.into_inner())
}

fn by_gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
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
    fn what_is_compressed_is_the_same() {
        let body: Vec<u8> = (0..40_000_u32).flat_map(|n| (n % 977).to_string().into_bytes()).collect();
        let mut brotli = Vec::new();
        let mut gzip = Vec::new();
        brotli::Decompressor::new(&*by_brotli(&body).unwrap(), 4096).read_to_end(&mut brotli).unwrap();
        flate2::read::GzDecoder::new(&*by_gzip(&body).unwrap()).read_to_end(&mut gzip).unwrap();
        assert!(brotli == body && gzip == body);
    }

    fn ask(page: &ReadyPage, coding: Encoding) {
        let accepted = AcceptEncoding(vec![QualityItem::max(Preference::Specific(coding))]);
        page.answer(&HeaderMap::new(), Some(&accepted)).unwrap();
    }

    #[test]
    fn each_coding_is_made_when_it_is_asked_for() {
        let page = ReadyPage::new(Bytes::from(vec![b'x'; 5000]), "\"t\"".to_owned());
        ask(&page, Encoding::identity());
        assert!(page.0.gzip.get().is_none() && page.0.brotli.get().is_none());
        ask(&page, Encoding::gzip());
        let made = page.0.gzip.get().unwrap().as_ptr();
        assert!(page.0.brotli.get().is_none());
        ask(&page, Encoding::brotli());
        ask(&page, Encoding::gzip());
        assert!(page.0.brotli.get().is_some());
        assert_eq!(page.0.gzip.get().unwrap().as_ptr(), made);
    }

    #[test]
    fn small_and_large_ones_are_left_as_they_are() {
        for size in [COMPRESSED_FROM - 1, COMPRESSED_HERE + 1] {
            let page = ReadyPage::new(Bytes::from(vec![b'x'; size]), "\"t\"".to_owned());
            ask(&page, Encoding::gzip());
            assert!(page.0.gzip.get().is_none(), "{size}");
        }
    }
}
