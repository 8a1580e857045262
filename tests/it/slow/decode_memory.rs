//! Memory of picture decoders: the service reserves an estimate before it creates a decoder, and the estimate suffices.
//!
//! Each picture is decoded in a child process, whose memory peak is measured.

use std::io::{Cursor, Write as _};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use image::{DynamicImage, ImageFormat};
use mediary::media::decoders::PictureDecoders;
use serde_json::json;

use crate::support::client;
use crate::support::process::{self, Process, test_child};

/// Memory in bytes beside the picture: code of the decoder, and overhead of the allocator.
const SLACK: u64 = 16 << 20;

const MEGABYTE: u64 = 1_000_000;

/// Returns the value of one line of `/proc/…/status`, in bytes.
fn status_bytes(process: &str, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of this name");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Result of inspecting and decoding a picture; memory in bytes.
struct MemoryFigures {
    inspecting: u64,
    decoding: u64,
    estimated: u64,
    /// `true` if the picture was accepted and decoded.
    is_good: bool,
}

/// Inspects and decodes a picture in a child process. `name` names the picture in messages.
fn measure(name: &str, bytes: &[u8]) -> MemoryFigures {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("picture");
    std::fs::write(&file, bytes).unwrap();
    let output = test_child(&["decode", file.to_str().unwrap()]).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = stdout.lines().find_map(|line| line.split_once("figures ").map(|(_, figures)| figures.to_owned()));
    let line = line.unwrap_or_else(|| panic!("{name}: {stdout}\n{}", String::from_utf8_lossy(&output.stderr)));
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    println!("{name}: {} bytes: inspecting, decoding, estimated, good: {line}", bytes.len());
    MemoryFigures { inspecting: numbers[0], decoding: numbers[1], estimated: numbers[2], is_good: numbers[3] == 1 }
}

/// Returns `count` zero bytes, compressed by zlib.
fn deflate_zeros(count: u64) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), count), &mut encoder).unwrap();
    encoder.finish().unwrap()
}

/// Returns a PNG chunk with its checksum.
fn chunk(name: &[u8], content: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(name);
    crc.update(content);
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&length[..], name, content, &crc.sum().to_be_bytes()].concat()
}

/// Returns a black RGBA picture with 16 bits per channel; `extra` are chunks between its header and its data.
fn deep_png(width: u32, height: u32, interlaced: bool, extra: &[u8]) -> Vec<u8> {
    // Passes of Adam7: offsets (x, y) and strides (right, down) of their pixels.
    let passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)];
    // A row has one byte for its filter, and eight for each pixel.
    let row_bytes = |width: u32| 1 + 8 * u64::from(width);
    let bytes = if interlaced {
        let pass_bytes = |(x, y, right, down): (u32, u32, u32, u32)| {
            row_bytes((width - x).div_ceil(right)) * u64::from((height - y).div_ceil(down))
        };
        passes.into_iter().map(pass_bytes).sum()
    } else {
        row_bytes(width) * u64::from(height)
    };
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([16, 6, 0, 0, u8::from(interlaced)]);
    let signature = b"\x89PNG\r\n\x1a\n".to_vec();
    [signature, chunk(b"IHDR", &header), extra.to_vec(), chunk(b"IDAT", &deflate_zeros(bytes)), chunk(b"IEND", b"")]
        .concat()
}

/// Returns a progressive JPEG without coefficients.
fn progressive_jpeg(width: u16, height: u16, components: u8) -> Vec<u8> {
    let mut jpeg = vec![0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0];
    jpeg.extend([1; 64]);
    jpeg.extend([0xFF, 0xC2, 0, 8 + 3 * components, 8]);
    jpeg.extend([height.to_be_bytes(), width.to_be_bytes()].concat());
    jpeg.push(components);
    for component in 1..=components {
        jpeg.extend([component, 0x11, 0]);
    }
    // One code of one bit, the end of a block.
    jpeg.extend([0xFF, 0xC4, 0, 20, 0, 1]);
    jpeg.extend([0; 16]);
    jpeg.extend([0xFF, 0xDA, 0, 6 + 2 * components, components]);
    for component in 1..=components {
        jpeg.extend([component, 0]);
    }
    jpeg.extend([0, 0, 0]);
    let blocks = u64::from(width.div_ceil(8)) * u64::from(height.div_ceil(8)) * u64::from(components);
    jpeg.write_all(&vec![0; usize::try_from(blocks / 8 + 8).unwrap()]).unwrap();
    jpeg.extend([0xFF, 0xD9]);
    jpeg
}

/// Encodes a picture.
fn encode(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

#[test]
fn the_memory_estimate_suffices_for_every_format() {
    // Given large pictures of every format
    let (width, height) = (4000, 2500);
    let rgb = DynamicImage::new_rgb8(width, height);
    let pictures = [
        ("png of 16 bits", deep_png(width, height, false, b"")),
        ("interlaced png of 16 bits", deep_png(width, height, true, b"")),
        ("png of one row", deep_png(width * 500, 1, false, b"")),
        ("grey png", encode(&DynamicImage::new_luma8(width, height), ImageFormat::Png)),
        ("opaque png with alpha", encode(&DynamicImage::new_rgba8(width, height), ImageFormat::Png)),
        ("jpeg", encode(&rgb, ImageFormat::Jpeg)),
        ("progressive jpeg", progressive_jpeg(4000, 2500, 3)),
        ("grey progressive jpeg", progressive_jpeg(4000, 2500, 1)),
        ("webp", encode(&rgb, ImageFormat::WebP)),
        ("webp with alpha", encode(&DynamicImage::new_rgba8(width, height), ImageFormat::WebP)),
        ("gif", encode(&DynamicImage::new_rgba8(width, height / 5), ImageFormat::Gif)),
        ("bmp", encode(&rgb, ImageFormat::Bmp)),
        ("tiff", encode(&rgb, ImageFormat::Tiff)),
        ("tiff of 16 bits", encode(&DynamicImage::new_rgba16(width / 2, height), ImageFormat::Tiff)),
        ("tiff of floating point", encode(&DynamicImage::new_rgb32f(width / 2, height / 2), ImageFormat::Tiff)),
    ];
    for (name, bytes) in pictures {
        // When they are inspected and decoded
        let MemoryFigures { inspecting, decoding, estimated, is_good } = measure(name, &bytes);

        // Then the peak is within the estimate, which is not much too large. The progressive files lack their scan; the
        // decoder detects this after all allocations.
        assert!(is_good || name.contains("progressive"), "{name} was rejected");
        let peak = inspecting.max(decoding);
        assert!(peak <= estimated + SLACK, "{name} took {peak} bytes, and {estimated} were estimated");
        assert!(
            estimated <= 3 * peak + 3 * SLACK,
            "{name} took {peak} bytes, and {estimated} were estimated: more than three times as many"
        );
    }
}

#[test]
fn png_rows_are_checked_without_buffering() {
    let figures = measure("png of 16 bits", &deep_png(5000, 4000, false, b""));
    assert!(figures.is_good && figures.inspecting <= SLACK, "inspecting took {} bytes", figures.inspecting);
}

#[test]
fn metadata_are_bounded_before_they_are_inflated() {
    let profile_bomb = chunk(b"iCCP", &[b"x\0\0".to_vec(), deflate_zeros(256 * MEGABYTE)].concat());
    let figures = measure("profile", &deep_png(8, 8, false, &profile_bomb));
    assert!(figures.is_good, "the picture was rejected because of its profile");
    assert!(figures.inspecting.max(figures.decoding) <= 2 * SLACK, "decoding took {} bytes", figures.decoding);
}

#[test]
fn a_frame_larger_than_its_canvas_is_refused_before_it_is_decoded() {
    let riff = |chunks: &[u8]| {
        let length = u32::try_from(4 + chunks.len()).unwrap().to_le_bytes();
        [b"RIFF", &length[..], b"WEBP", chunks].concat()
    };
    // Given a WebP canvas of one pixel, with a lossy frame of 16383 by 16383; then it takes no memory for the frame
    let frame = [&[0x10, 0, 0, 0x9d, 1, 0x2a, 0xFF, 0x3F, 0xFF, 0x3F][..], &[0; 90]].concat();
    let chunks = [&b"VP8X\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0VP8 \x64\0\0\0"[..], &frame].concat();
    let webp = measure("webp", &riff(&chunks));
    assert!(!webp.is_good && webp.decoding <= SLACK, "the WebP file took {} bytes", webp.decoding);

    // Given a GIF screen of one pixel, with a frame of 65535 by 65535; then it takes no memory for the frame
    let gif = measure("gif", b"GIF89a\x01\0\x01\0\0\0\0\x2C\0\0\0\0\xFF\xFF\xFF\xFF\0\x02\x01\0\0\x3B");
    assert!(!gif.is_good && gif.decoding <= SLACK, "the GIF file took {} bytes", gif.decoding);
}

#[actix_web::test]
async fn eight_submissions_of_large_pictures_stay_within_the_memory_of_the_decoders() {
    // Given a service with 512 MiB for decoders, enough for one picture of 100 megapixels
    let dir = tempfile::tempdir().unwrap();
    let service = Process::from_command(process::command(dir.path()).env("MEDIARY_MEDIA__DECODE_MEMORY", "512MiB"));
    let pid = service.pid().as_raw_nonzero().to_string();
    let before = status_bytes(&pid, "VmHWM:");

    // When eight pictures are submitted at once, each 800 MB when decoded in full
    let picture = STANDARD.encode(deep_png(10_000, 10_000, false, b""));
    let body = json!({"model": "vq1", "prompt": "x", "duration": 1, "resolution": "360p", "images": [picture]});
    let body = serde_json::to_vec(&body).unwrap();
    let submit = || {
        let request = client().post(service.url("/proxy/videovendor/start-end2video")).body(body.clone());
        let request = request.header("content-type", "application/json").timeout(Duration::from_mins(5));
        async move { request.send().await.expect("a response").status().as_u16() }
    };
    let responses = futures_util::future::join_all((0..8).map(|_| submit())).await;

    // Then all are accepted, and decoders and engine together stay far below the 6.4 GB of eight decoded pictures
    assert_eq!(responses, [200; 8]);
    let peak = status_bytes(&pid, "VmHWM:") - before;
    assert!(peak < 1000 * MEGABYTE, "the service took {peak} bytes");
}

#[test]
fn a_picture_beyond_the_memory_budget_is_rejected_with_the_figures() {
    let decoders = PictureDecoders::new(64 << 20);
    let message = decoders.inspect(&deep_png(8000, 5000, false, b"")).unwrap_err().to_string();
    assert_eq!(message, "requires 181 MB of memory to decode; at most 68 MB are allowed");
}
