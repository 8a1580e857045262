"""Shared fixtures: the service, sample resources, and a browser that records errors of the pages."""

import base64
import http.server
import io
import json
import os
import struct
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
import uuid
import zipfile
import zlib
from pathlib import Path

from playwright.sync_api import Error, expect, sync_playwright

BASE = os.environ["BROWSER_BASE"]
ADMIN = os.environ["BROWSER_TOKEN"]
REPORTS = Path(os.environ["BROWSER_REPORTS"])
# Folder of console files to test instead of those in the binary, so that a change of them needs no build.
ASSETS = os.environ.get("BROWSER_ASSETS")
WIDE = {"width": 1360, "height": 900}
NARROW = {"width": 390, "height": 844}
# Upper bound for conditions on a busy machine with a debug build; tests never sleep this long.
TIMEOUT_S = int(os.environ.get("BROWSER_TIMEOUT_S", "90"))
expect.set_options(timeout=TIMEOUT_S * 1000)


def send(method, path, body=None, token=ADMIN, content_type="application/json"):
    """Sends a request that must succeed; returns the JSON of the response, or of all its lines."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    url = path if path.startswith("http") else BASE + path
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": content_type})
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            text = answer.read() or b"null"
            if answer.headers.get_content_type() == "application/x-ndjson":
                return [json.loads(line) for line in text.splitlines() if line]
            return json.loads(text)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error


def document():
    return send("GET", "/openapi.json")


def submissions(tag):
    """Jobs of a kind in the OpenAPI document."""
    paths = document()["paths"].items()
    posts = [(path, item["post"]) for path, item in paths if path.startswith(f"/proxy/{tag}/") and "post" in item]
    return [post["operationId"] for path, post in posts if "{" not in path and "requestBody" in post]


def user(name, **fields):
    """Creates a user with a token."""
    made = send("POST", "/admin/users", {"name": name, "email": f"{uuid.uuid4().hex[:8]}@example.org", **fields})
    token = send("POST", f"/admin/users/{made['id']}/tokens", {"name": "browser test"})["token"]
    return {**made, "token": token}


def name(kind):
    """Returns an id that no other test uses."""
    return f"{kind}-{uuid.uuid4().hex[:8]}"


def archive(files=None):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for path, text in (files or {"node.py": "VALUE = 1\n"}).items():
            # A fixed time keeps the bytes identical.
            file.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), text)
    return packed.getvalue()


def publish(publisher, node, version, token=ADMIN, files=None, **fields):
    """Publishes a version with its archive."""
    body = {"node_version": {"version": version, **fields}}
    made = send("POST", f"/publishers/{publisher}/nodes/{node}/versions", body, token=token)
    return send("PUT", made["signedUrl"], archive(files), token=None, content_type="application/zip")


def registry(nodes=1, **fields):
    """Creates a publisher with nodes of one version each; returns their ids."""
    publisher = name("publisher")
    send("POST", "/publishers", {"id": publisher, "name": publisher.title()})
    ids = [name("node") for _ in range(nodes)]
    for node in ids:
        send("POST", f"/publishers/{publisher}/nodes", {"id": node, "name": node.title(), **fields})
        publish(publisher, node, "1.0.0", changelog="The first.")
    return publisher, ids


def png(width, height):
    """A picture with a gradient."""
    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in (x * 255 // width, y * 255 // height, 120)) for y in range(height))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def wait_until(condition, seconds=TIMEOUT_S):
    """Polls until the condition holds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"the condition did not hold within {seconds} s")
        time.sleep(0.05)


def decode_sound(browser, sound):
    """Decodes a sound file in a browser; returns its length in seconds and its RMS level."""
    page = browser.new_page()
    try:
        # A blank page, because the console's policy forbids data URLs.
        return page.evaluate("""async (text) => {
            const bytes = Uint8Array.from(atob(text), (letter) => letter.codePointAt(0));
            const sound = await new OfflineAudioContext(2, 48000, 48000).decodeAudioData(bytes.buffer);
            const samples = sound.getChannelData(0);
            return { seconds: sound.duration, loudness: Math.sqrt(samples.reduce((sum, it) => sum + it * it, 0) / samples.length) };
        }""", base64.b64encode(sound).decode())
    finally:
        page.close()


def pixels(browser, screenshot, columns):
    """Colours of the given columns of a screenshot, each from top to bottom."""
    page = browser.new_page()
    try:
        return page.evaluate("""async ([text, columns]) => {
            const bytes = Uint8Array.from(atob(text), (letter) => letter.codePointAt(0));
            const picture = await createImageBitmap(new Blob([bytes]));
            const pen = new OffscreenCanvas(picture.width, picture.height).getContext('2d');
            pen.drawImage(picture, 0, 0);
            return columns.map((x) => {
                const { data } = pen.getImageData(x, 0, 1, picture.height);
                return Array.from({ length: picture.height }, (_, y) => [...data.slice(4 * y, 4 * y + 3)]);
            });
        }""", [base64.b64encode(screenshot).decode(), columns])
    finally:
        page.close()


def serve_asset(route):
    """Responds with a console file from `ASSETS`, with the headers of the service."""
    url = urllib.parse.urlsplit(route.request.url)
    path = url.path
    name = "index.html" if path == "/" else path.removeprefix("/console/")
    file = Path(ASSETS, name)
    if path != "/" and not path.startswith("/console/") or not file.is_file():
        return route.fallback()
    types = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".webp": "image/webp", ".html": "text/html"}
    # The policy depends on the service: some tests start their own.
    with urllib.request.urlopen(f"{url.scheme}://{url.netloc}/", timeout=TIMEOUT_S) as index:
        headers = {"Content-Security-Policy": index.headers["Content-Security-Policy"], "Content-Type": f"{types[file.suffix]}; charset=utf-8"}
    return route.fulfill(headers=headers, body=file.read_bytes())


class Receiver:
    """Webhook receiver that answers with the given statuses in order, then 204; GET returns 404."""

    def __init__(self, *statuses):
        taken, left = [], list(statuses)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                taken.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(left.pop(0) if left else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self):
                self.send_error(404)

            def log_message(self, *_):
                pass

        self.taken = taken
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{self.server.server_port}/"
        self.url = self.base + "hook"


class BrowserTest(unittest.TestCase):
    """Test case with a browser. Fails on console errors, dialogs and requests to other hosts."""

    # Options of the browser besides those of every test.
    launch_options = {}

    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        executable = os.environ["BROWSER_EXECUTABLE"]
        # Inside a container there is often no user namespace for the browser's sandbox.
        arguments = ["--no-sandbox"]
        # A page from `ASSETS` has no address, so that the browser would not let it send requests to this machine.
        arguments += ["--disable-features=LocalNetworkAccessChecks"] if ASSETS else []
        cls.browser = cls.playwright.chromium.launch(executable_path=executable, args=arguments, **cls.launch_options)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()

    def setUp(self):
        self.seen = []
        self.pages = []

    def tearDown(self):
        for number, page in enumerate(self.pages):
            try:
                page.screenshot(path=REPORTS / f"{self.id()}-{number}.png")
            except Error:
                pass
            page.context.close()
        self.assertEqual(self.seen, [], "what pages did that they must not do")

    def page(self, path="/nodes", token=None, theme="light", size=WIDE, allowed=(), base=BASE, hosts=(), **options):
        """Opens a console page with a token; responses with an `allowed` status or error name are expected, and requests to other `hosts`."""
        context = self.browser.new_context(viewport=size, color_scheme=theme, base_url=base, reduced_motion="reduce", **options)
        context.set_default_timeout(TIMEOUT_S * 1000)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=base)
        if token:
            context.add_init_script(f"sessionStorage.setItem('mediary.token', {json.dumps(token)})")
        if ASSETS:
            context.route("**/*", serve_asset)
        page = context.new_page()
        self.pages.append(page)
        self.watch(page, allowed, (base, *hosts))
        page.goto(f"/#{path}")
        page.locator("h1").first.wait_for()
        return page

    def watch(self, page, allowed, hosts=(BASE,)):
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))

        def on_console(message):
            expected = any(f"status of {failure}" in message.text or f"net::{failure}" in message.text for failure in allowed)
            if message.type in ("error", "warning") and not expected:
                self.seen.append(f"console: {message.text}")

        def on_dialog(dialog):
            self.seen.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        def on_request(request):
            if not request.url.startswith((*(f"{host}/" for host in hosts), "blob:", "data:")):
                self.seen.append(f"request to {request.url}")

        page.on("console", on_console)
        page.on("dialog", on_dialog)
        page.on("request", on_request)
        page.context.on("page", lambda opened: self.seen.append(f"a window was opened: {opened.url}"))

    def show(self, page, path):
        """Navigates to another console page."""
        page.evaluate("address => { location.hash = address }", path)
        self.settle(page)

    def settle(self, page):
        """Waits until no request is in flight."""
        self.until(page, "!document.querySelector('[aria-busy=true], .bone')")

    def until(self, page, expression, seconds=TIMEOUT_S):
        """Waits until an expression is true. The driver's own wait would need eval, which the policy forbids."""
        until = time.monotonic() + seconds
        while not page.evaluate(expression):
            self.assertLess(time.monotonic(), until, f"never true: {expression}")
            page.wait_for_timeout(30)
