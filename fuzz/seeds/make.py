#!/usr/bin/env python3
"""Creates the small seed files of the mutants: `python3 fuzz/seeds/make.py` (needs Pillow, and ffmpeg with libx264).

They are checked in, so this script is needed only to add a seed. `video/own.mp4` comes from the engine itself:
`cargo run --bin test-child -- video fuzz/seeds/video/own.mp4`.
"""
import struct
import subprocess
import zipfile
import zlib
from pathlib import Path

from PIL import Image, ImageCms

HERE = Path(__file__).parent
WIDTH, HEIGHT = 46, 34


def scene(shift=0):
    """Gradients, an edge and some texture."""
    pixels = [
        ((x * 5 + shift * 9) % 256, (y * 7 + (60 if x > 20 else 0)) % 256, (90 + (x * 73856093 ^ y * 19349663) // 16 % 48) % 256)
        for y in range(HEIGHT)
        for x in range(WIDTH)
    ]
    picture = Image.new("RGB", (WIDTH, HEIGHT))
    picture.putdata(pixels)
    return picture


def transparent(shift=0):
    picture = scene(shift).convert("RGBA")
    picture.putalpha(Image.linear_gradient("L").resize((WIDTH, HEIGHT)))
    return picture


def at(path):
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def interlaced():
    """An Adam7 PNG, which Pillow does not write."""
    grey, rows = scene().convert("L"), b""
    for x0, y0, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
        for y in range(y0, HEIGHT, dy):
            rows += b"\0" + bytes(grey.getpixel((x, y)) for x in range(x0, WIDTH, dx))
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 0, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pictures():
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif = Image.Exif()
    exif[0x0112] = 6
    scene().save(at("picture/jpeg/plain.jpg"), quality=80)
    scene().save(at("picture/jpeg/progressive.jpg"), quality=70, progressive=True, subsampling=0)
    scene().save(at("picture/jpeg/turned.jpg"), quality=60, exif=exif, icc_profile=profile)
    scene().convert("CMYK").save(at("picture/jpeg/cmyk.jpg"), quality=70)
    scene().convert("L").save(at("picture/jpeg/grey.jpg"), quality=70, restart_marker_blocks=3)
    scene().save(at("picture/png/plain.png"))
    transparent().save(at("picture/png/alpha.png"), icc_profile=profile)
    scene().quantize(13).save(at("picture/png/palette.png"), transparency=3)
    scene().convert("I;16").point(lambda value: value * 257).save(at("picture/png/deep_grey.png"))
    transparent().save(at("picture/png/animated.png"), save_all=True, append_images=[transparent(3)], duration=80)
    at("picture/png/interlaced.png").write_bytes(interlaced())
    ffmpeg(["-pix_fmt", "rgb48be", "-update", "1"], "picture/png/deep.png", frames=1)
    scene().save(at("picture/webp/lossy.webp"), quality=60)
    scene().save(at("picture/webp/lossless.webp"), lossless=True)
    transparent().save(at("picture/webp/alpha.webp"), quality=60, icc_profile=profile, exif=exif)
    transparent().save(at("picture/webp/animated.webp"), save_all=True, append_images=[scene(4), scene(9)], duration=60)
    scene().save(at("picture/gif/animated.gif"), save_all=True, append_images=[scene(5)], duration=70)
    scene().quantize(9).save(at("picture/gif/interlaced.gif"), interlace=1)
    scene().save(at("picture/bmp/plain.bmp"))
    scene().quantize(16).save(at("picture/bmp/palette.bmp"))
    scene().save(at("picture/tiff/lzw.tiff"), compression="tiff_lzw")
    scene().save(at("picture/tiff/pages.tiff"), compression="tiff_deflate", save_all=True, append_images=[scene(2)])
    scene().convert("CMYK").save(at("picture/tiff/cmyk.tiff"), compression="packbits")
    scene().convert("1").save(at("picture/tiff/fax.tiff"), compression="group4")
    scene().save(at("picture/tiff/jpeg.tiff"), compression="jpeg")


def ffmpeg(options, path, sound=None, frames=12):
    command = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=64x48:rate=24"]
    if sound:
        command += ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000", "-c:a", sound, "-b:a", "16k"]
    command += ["-t", str(frames / 24), "-fflags", "+bitexact", "-flags:v", "+bitexact", *options, str(at(path))]
    subprocess.run(command, check=True)


def videos():
    x264 = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-x264-params", "bframes=3:b-pyramid=normal:ref=3:threads=1:sei=0"]
    plain = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-profile:v", "baseline", "-g", "6", "-x264-params", "threads=1"]
    ffmpeg([*x264, "-crf", "34", "-movflags", "+faststart"], "video/reordered_aac.mp4", sound="aac")
    ffmpeg([*plain, "-crf", "36", "-strict", "-2"], "video/baseline_opus.mp4", sound="libopus")
    cut = ["-movflags", "empty_moov+default_base_moof+frag_keyframe"]
    ffmpeg([*plain, "-crf", "36", *cut], "video/fragments_aac.mp4", sound="aac")
    ffmpeg([*x264, "-crf", "36", *cut, "-frag_duration", "100000"], "video/fragments_reordered.mp4")
    ffmpeg(["-c:v", "mpeg4", "-q:v", "20"], "video/other_codec.mp4", frames=3)


def archives():
    with zipfile.ZipFile(at("archive/tool.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in [("node/__init__.py", "NODES = {}\n" * 40), ("node/README.md", "# A node\n"), ("node/ä.txt", "x")]:
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), text)
        link = zipfile.ZipInfo("node/link", (2026, 1, 1, 0, 0, 0))
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "README.md")
    with zipfile.ZipFile(at("archive/large_form.zip"), "w") as archive:
        with archive.open(zipfile.ZipInfo("a", (2026, 1, 1, 0, 0, 0)), "w", force_zip64=True) as entry:
            entry.write(b"abc")


def commits():
    golden = HERE.parent.parent / "tests/golden/events"
    for name in ["v1/NodeCreated", "v2/TaskSubmitted.multiframe", "v2/TaskCompleted", "v1/UserCreated", "v1/VersionPublished"]:
        path = golden / f"{name}.hex"
        at(f"commit/{name.replace('/', '_')}").write_bytes(bytes.fromhex(path.read_text()))


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def groups():
    golden = HERE.parent.parent / "tests/golden/events/v2"
    entries = b""
    for name in ["TaskCompleted", "PublisherDeleted"]:
        commit = bytearray.fromhex((golden / f"{name}.hex").read_text())
        place = {251: 3, 252: 5}.get(commit[2], 1)
        commit[2 : 2 + place] = b"\0"
        tag = b"nodes-of/acme"
        entry = bytes([1]) + struct.pack("<QB", 7, len(tag)) + tag + commit
        entries += struct.pack("<I", len(entry)) + entry
    for name, content in [("empty", b""), ("two", entries)]:
        group = b"\1" + bytes(range(16)) + struct.pack("<QQ", 3, 2) + bytes(32) + content
        at(f"group/{name}").write_bytes(group + struct.pack("<I", crc32c(group)))


def texts():
    at("text/bare").write_text("++/+AQ==")
    at("text/urlsafe").write_text(" --_-\r\n\tAQ")
    at("text/uri").write_text("data:image/png;charset=utf-8;base64,iVBORw0KGgo=")
    at("text/url").write_text("https://a.example/x.png?y=1#z")
    border = "X-BORDER"
    parts = [("prompt", "a calm waltz in d minor, 90 bpm, strings"), ("duration", "12"), ("other", "é")]
    body = "".join(f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in parts)
    at("form/usual").write_bytes(f"multipart/form-data; boundary={border}\n{body}--{border}--\r\n".encode())
    file = f'--{border}\r\nContent-Disposition: form-data; name="prompt"; filename="p.txt"\r\nContent-Type: text/plain\r\n\r\nwaltz\r\n'
    at("form/file").write_bytes(f'multipart/form-data; boundary="{border}"\n{file}--{border}--'.encode())


if __name__ == "__main__":
    pictures()
    videos()
    archives()
    commits()
    groups()
    texts()
