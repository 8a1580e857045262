//! Entry points for untrusted bytes, one function each, called as in the service. The mutants here and the fuzz targets
//! in `fuzz/` use them. Each returns `true` if the bytes were accepted, and panics on a defect of the program.

use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use actix_web::web::Bytes;
use mediary::events::codec;
use mediary::events::shared::admission;
use mediary::events::shared::format::Group;
use mediary::events::stream::Position;
use mediary::http::read_music_form;
use mediary::media::archive::check::{ArchiveError, check};
use mediary::media::decoders::{PictureDecoders, read_picture_info};
use mediary::media::picture_input::PictureInput;
use mediary_engine::video::{
    EncodingQuality, Material, MotionAmount, RenderObserver, Size, SoundContent, SoundPlan, VideoError, VideoPlan,
    render,
};

/// Inspects a picture as a submission does and decodes it as the worker does.
pub fn picture(bytes: &[u8]) -> bool {
    let decoders = PictureDecoders::default();
    let info = read_picture_info(bytes);
    let inspected = decoders.inspect(bytes);
    let decoded = decoders.decode(bytes);
    assert_eq!(inspected.is_ok(), decoded.is_ok(), "inspection accepts exactly the files that can be decoded");
    if let (Ok(inspected), Ok(decoded)) = (inspected, &decoded) {
        assert_eq!(info, Ok(inspected));
        assert_eq!(decoded.dimensions(), (inspected.width, inspected.height));
    }
    decoded.is_ok()
}

/// Returns the memory limit in bytes for checking and decoding a picture: what the budget of the decoders reserves.
pub fn bytes_for_picture(bytes: &[u8]) -> u64 {
    PictureDecoders::default().memory_needed(bytes).unwrap_or(0)
}

/// Extends a video: decodes its frames, and stops rendering soon after, as [`CancellingObserver`] says.
pub fn video(bytes: &[u8]) -> bool {
    let footage = Material::Footage { file: bytes.to_vec(), seconds: 1, end: None };
    match render(plan(footage, None), &CancellingObserver::default()) {
        Ok(_) | Err(VideoError::Cancelled) => true,
        Err(VideoError::Input { .. }) => false,
        Err(VideoError::Internal(reason)) => panic!("{reason}"),
    }
}

/// Renders one second of video with sound in the built-in engine: a seed for [`video`].
pub fn render_seed() -> Vec<u8> {
    let sound = SoundPlan { audio: Some(SoundContent::All), voice_id: None, background_music: None };
    let plan =
        VideoPlan { prompt: "hills in the rain".to_owned(), ..plan(Material::Words { seconds: 1 }, Some(sound)) };
    render(plan, &()).expect("a video").bytes
}

/// Returns the plan of a small video without optional effects.
fn plan(material: Material, sound: Option<SoundPlan<'static>>) -> VideoPlan<'static> {
    VideoPlan {
        size: Size { width: 32, height: 32 },
        material,
        prompt: String::new(),
        amplitude: MotionAmount::Medium,
        seed: 7,
        anime: false,
        enhance: false,
        recommended: false,
        quality: EncodingQuality::Compact,
        watermark: None,
        sound,
    }
}

/// Frames after which rendering is cancelled: two more than a video of one second has.
const RENDERED_FRAMES_MAX: usize = 26;

/// Observer that cancels after [`RENDERED_FRAMES_MAX`] frames, so that a mutant that claims to be long costs no time.
#[derive(Default)]
struct CancellingObserver {
    calls: AtomicUsize,
}

impl RenderObserver for CancellingObserver {
    fn report_progress(&self, share: f32) {
        assert!((0.0..=1.0).contains(&share));
    }

    fn is_cancelled(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) >= RENDERED_FRAMES_MAX
    }
}

/// Checks an uploaded archive.
pub fn archive(bytes: &[u8]) -> bool {
    match check(Cursor::new(bytes)) {
        Ok(()) => true,
        Err(ArchiveError::Rejected(problems)) => {
            assert!(problems.count() >= problems.reported().len() && !problems.reported().is_empty());
            false
        }
        Err(ArchiveError::Io(error)) => panic!("bytes in memory can be read: {error}"),
    }
}

/// Parses the text of a picture field: base64, a data URI or a URL.
pub fn text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| PictureInput::parse(text).is_ok())
}

/// Reads a form of the music endpoint; the first line is its content type.
pub fn form(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (content_type, body) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let mut headers = HeaderMap::new();
    if let Ok(content_type) = HeaderValue::from_bytes(content_type) {
        headers.insert(CONTENT_TYPE, content_type);
    }
    let parsing = read_music_form(&headers, Bytes::copy_from_slice(body));
    actix_web::rt::Runtime::new().expect("a runtime").block_on(parsing).is_ok()
}

/// Decodes a commit and encodes it again.
pub fn commit(bytes: &[u8]) -> bool {
    let Ok(commit) = codec::decode(bytes) else { return false };
    let mut reencoded = Vec::new();
    if codec::encode(&commit, &mut reencoded).is_ok() {
        assert_eq!(codec::decode(&reencoded), Ok(commit), "a decoded commit survives encoding");
    }
    true
}

/// Decodes a group of a shared log, and admits the commits in it.
pub fn group(bytes: &[u8]) -> bool {
    let Ok(group) = Group::decode(bytes) else { return false };
    assert_eq!(group.encode().as_deref(), Ok(bytes), "a decoded group is encoded to the same bytes");
    // The position does not matter.
    let head = Position(300);
    group.entries.iter().all(|entry| admission::place(&entry.commit, head, 0).is_ok())
}
