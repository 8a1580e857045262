"""Sends image tasks to a real ComfyUI through the profile `comfyui`.

    workflow_server.py MEDIARY

MEDIARY is the binary. The ComfyUI is that of COMFYUI_DIR, started by contrib/comfyui. It is reached in two ways: directly, and
through a proxy that loses some submissions.
"""

import base64
import collections
import http.client
import http.server
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zlib
from pathlib import Path

MEDIARY = sys.argv[1]
ROOT = Path(__file__).resolve().parents[2]
PHOTOGRAPH = ROOT / "data/photographs/landscape.jpg"
WIDTH, HEIGHT = 640, 427
IMAGES = "/proxy/imagevendor/v1/ai/"
DIRECT, PROXIED, STYLE = "image-upscaler-precision-v2", "image-upscaler", "image-style-transfer"
TOKEN = "clients-test-administrator"
WAIT_MAX = 180

SETTINGS = """
[[vendors.image]]
name = "direct"
profile = "comfyui"
url = "http://127.0.0.1:{server}"
jobs = ["{direct}", "{style}"]
{waits}
[[vendors.image]]
name = "proxied"
profile = "comfyui"
url = "http://127.0.0.1:{proxy}"
jobs = ["{proxied}"]
{waits}
[egress]
allow = ["127.0.0.1"]
"""
WAITS = """
poll_min = "100ms"
poll_max = "300ms"
retry_min = "100ms"
retry_max = "500ms"
lost_after = "3s"
search_settles = "2s"
breaker_pause = "1s"
breaker_pause_max = "1s"
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def call(base, method, path, body=None, token=None):
    """Returns the body of a successful response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, method=method)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}")


def eventually(what, check):
    """Waits until the check returns a value that counts as true, and returns it."""
    until = time.monotonic() + WAIT_MAX
    while time.monotonic() < until:
        if found := check():
            return found
        time.sleep(0.1)
    sys.exit(f"not within {WAIT_MAX} s: {what}")


PNG, RGB, RGBA = b"\x89PNG\r\n\x1a\n", 2, 6


def png(side, colour_type, row):
    """A square PNG that repeats this row."""
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = part(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, colour_type, 0, 0, 0))
    return PNG + header + part(b"IDAT", zlib.compress((b"\0" + row) * side)) + part(b"IEND", b"")


def png_form(picture):
    """Width, height and colour type of a PNG."""
    assert picture.startswith(PNG), picture[:16]
    return struct.unpack(">IIxB", picture[16:26])


def png_rows(picture):
    """The rows as they are in the file, each with its filter."""
    parts, at = [], len(PNG)
    while at < len(picture):
        length, kind = struct.unpack(">I4s", picture[at : at + 8])
        parts += [picture[at + 8 : at + 8 + length]] * (kind == b"IDAT")
        at += length + 12
    return zlib.decompress(b"".join(parts))


# Enlarged eight times, this picture keeps the server busy for several seconds. A larger result would be rejected.
SLOW = png(625, RGB, os.urandom(3 * 625))


class WorkflowServer:
    """The ComfyUI, which keeps its files over restarts, and forgets its queue and history."""

    def __init__(self, work):
        self.port, self.directory, self.log = free_port(), work / "comfyui", work / "comfyui.log"
        self.process = None
        self.start()

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [ROOT / "contrib/comfyui", str(self.port), self.directory], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        eventually("the workflow server answers", self.is_up)

    def is_up(self):
        if self.process.poll() is not None:
            sys.exit(f"the workflow server did not start:\n{self.log.read_text(errors='replace')[-3000:]}")
        try:
            return self.ask("/system_stats")["system"]["comfyui_version"]
        except urllib.error.URLError:
            return None

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ask(self, path):
        return json.loads(call(f"http://127.0.0.1:{self.port}", "GET", path))

    def queue(self):
        """The ids of the running and of the pending jobs."""
        queue = self.ask("/queue")
        return tuple([job[1] for job in queue[f"queue_{state}"]] for state in ("running", "pending"))

    def is_running(self, task):
        return task in self.queue()[0]

    def submissions(self):
        """The number of accepted submissions by id since the last start. The history would show a repeated id once."""
        numbers = {job["prompt"][0]: id for id, job in self.ask("/history").items()}
        return collections.Counter(numbers.values()), max(numbers, default=-1) + 1


class LossyProxy(http.server.ThreadingHTTPServer):
    """Proxy that can lose the next submission: its request, or its response. `loses` says which."""

    daemon_threads = True

    def __init__(self, server):
        super().__init__(("127.0.0.1", 0), LossyProxyHandler)
        self.server, self.loses, self.arrived = server, None, []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class LossyProxyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pass_on(self):
        proxy, body = self.server, self.rfile.read(int(self.headers.get("Content-Length") or 0))
        loses = None
        if self.path == "/prompt":
            loses, proxy.loses = proxy.loses, None
        self.close_connection = True
        if loses == "request":
            return

        connection = http.client.HTTPConnection("127.0.0.1", proxy.server.port, timeout=30)
        headers = {name: self.headers[name] for name in ("Content-Type", "Accept") if name in self.headers}
        connection.request(self.command, self.path, body or None, headers)
        response = connection.getresponse()
        content = response.read()
        if self.path == "/prompt":
            proxy.arrived.append(json.loads(body)["prompt_id"])
        if loses == "response":
            return
        self.send_response(response.status)
        self.send_header("Content-Type", response.headers.get("Content-Type", "application/octet-stream"))
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = pass_on

    def log_message(self, *_):
        pass


class Service:
    """The gateway."""

    def __init__(self, work, server, proxy):
        settings = work / "mediary.toml"
        ports = {"server": server.port, "proxy": proxy.server_address[1]}
        jobs = {"direct": DIRECT, "proxied": PROXIED, "style": STYLE}
        settings.write_text(SETTINGS.format(**ports, **jobs, waits=WAITS), encoding="utf-8")
        self.out, self.log = work / "out", work / "log"
        with self.out.open("wb") as out, self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [MEDIARY, "serve", "--config", settings, "--listen", "127.0.0.1:0", "--data-dir", work / "data"],
                env={**os.environ, "MEDIARY_ADMIN_TOKEN": TOKEN}, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
            )
        self.base = eventually("the service starts", self.address)

    def address(self):
        if self.process.poll() is not None:
            sys.exit(f"the service did not start:\n{self.log.read_text()}{self.out.read_text()}")
        found = re.search(r"http://127\.0\.0\.1:\d+", self.out.read_text())
        return found and found[0]

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def ask(self, method, path, body=None):
        return json.loads(call(self.base, method, path, body, TOKEN))

    def submit(self, job, picture, **parameters):
        body = {"image": base64.b64encode(picture).decode(), **parameters}
        response = self.ask("POST", IMAGES + job, body)
        return response.get("data", response)["task_id"]

    def task(self, task):
        return self.ask("GET", f"/tasks/{task}")

    def cancel(self, task):
        assert self.ask("POST", f"/tasks/{task}/cancel", {})["error"]["code"] == "cancelled"

    def end(self, task):
        def ended():
            seen = self.task(task)
            return seen["state"] in ("COMPLETED", "FAILED") and seen

        return eventually(f"task {task} ends", ended)

    def completed(self, task, size):
        """Waits for the end of a task and checks its result."""
        seen = self.end(task)
        assert seen["state"] == "COMPLETED", seen
        assert png_form(self.result(seen))[:2] == size, png_form(self.result(seen))
        return seen

    def result(self, task):
        [url] = task["generated"]
        return call(self.base, "GET", url.removeprefix(self.base), token=TOKEN)


def test_result(service, server):
    # When a photograph is enlarged
    task = service.submit(DIRECT, PHOTOGRAPH.read_bytes(), scale_factor=2)

    # Then the picture of the server is the result, its job has the id of the task, and the task shows the server
    seen = service.completed(task, (2 * WIDTH, 2 * HEIGHT))
    vendor = seen["vendor"]
    assert (vendor["name"], vendor["profile"], vendor["reference"]) == ("direct", "comfyui", task), vendor
    assert server.ask(f"/history/{task}")[task]["status"]["status_str"] == "success"

    # And the same submission is a job of its own, although the server remembers its parts
    again = service.submit(DIRECT, PHOTOGRAPH.read_bytes(), scale_factor=2)
    service.completed(again, (2 * WIDTH, 2 * HEIGHT))


def test_transparency(service):
    # When a transparent picture is enlarged
    task = service.submit(DIRECT, png(16, RGBA, bytes(4 * 16)), scale_factor=2)

    # Then the result is transparent: every filtered byte of it is 0
    result = service.result(service.completed(task, (32, 32)))
    assert png_form(result) == (32, 32, RGBA), png_form(result)
    rows = png_rows(result)
    assert len(rows) == 32 * (1 + 4 * 32) and not any(byte for at, byte in enumerate(rows) if at % (1 + 4 * 32)), rows

    # And that of a photograph has no transparency
    task = service.submit(DIRECT, PHOTOGRAPH.read_bytes(), scale_factor=4)
    assert png_form(service.result(service.completed(task, (4 * WIDTH, 4 * HEIGHT))))[2] == RGB


def test_rejection(service, server):
    # When a job needs a model that the server does not have
    assert server.ask("/models/checkpoints") == []
    photograph = base64.b64encode(PHOTOGRAPH.read_bytes()).decode()
    task = service.submit(STYLE, PHOTOGRAPH.read_bytes(), reference_image=photograph)

    # Then the task fails, and its error names the model
    error = service.end(task)["error"]
    assert error["code"] == "vendor_refused" and "v1-5-pruned-emaonly.safetensors" in error["message"], error


def test_cancellation(service, server):
    # Given a running job and a waiting one
    running = service.submit(DIRECT, SLOW, scale_factor=8)
    eventually("the first job runs", lambda: server.is_running(running))
    waiting = service.submit(DIRECT, SLOW, scale_factor=7)
    eventually("the second job waits", lambda: waiting in server.queue()[1])

    # When both are cancelled
    service.cancel(waiting)
    eventually("the waiting job leaves the queue", lambda: server.queue() == ([running], []))
    service.cancel(running)

    # Then the server stops the running one after its current node, and never begins the other one
    eventually("the queue is empty", lambda: server.queue() == ([], []))
    messages = server.ask(f"/history/{running}")[running]["status"]["messages"]
    assert messages[-1][0] == "execution_interrupted", messages
    assert server.ask(f"/history/{waiting}") == {}


def test_lost_submissions(service, server, proxy):
    for scale_factor, loses in (("2x", "response"), ("4x", "request")):
        # When a submission or its response is lost
        proxy.loses = loses
        task = service.submit(PROXIED, PHOTOGRAPH.read_bytes(), scale_factor=scale_factor)

        # Then the job is found, or submitted again, and runs once
        factor = int(scale_factor[0])
        service.completed(task, (factor * WIDTH, factor * HEIGHT))
        assert proxy.loses is None and proxy.arrived.count(task) == 1, (loses, proxy.arrived)
        assert list(server.ask(f"/history/{task}")) == [task]


def test_kill(service, server):
    # Given a running job and a waiting one
    running = service.submit(DIRECT, SLOW, scale_factor=8)
    waiting = service.submit(DIRECT, SLOW, scale_factor=7)
    eventually("one job runs and one waits", lambda: server.queue() == ([running], [waiting]))
    for task in (running, waiting):
        eventually("the job is accepted", lambda: service.task(task)["vendor"])

    # When the server is killed, gets a job while it is down, and starts again
    server.kill()
    later = service.submit(DIRECT, PHOTOGRAPH.read_bytes(), scale_factor=3)
    assert service.task(later)["state"] != "FAILED"
    server.start()

    # Then the later job is done
    service.completed(later, (3 * WIDTH, 3 * HEIGHT))

    # And those that the server forgot fail; it may have done them, so they are not submitted again
    for task in (running, waiting):
        ended = service.end(task)
        assert ended["error"]["code"] == "vendor_lost", ended
    assert server.queue() == ([], [])
    assert server.submissions() == ({later: 1}, 1), server.submissions()


def main():
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        server = service = None
        try:
            server = WorkflowServer(work)
            proxy = LossyProxy(server)
            service = Service(work, server, proxy)
            test_result(service, server)
            test_transparency(service)
            test_rejection(service, server)
            test_cancellation(service, server)
            test_lost_submissions(service, server, proxy)
            test_kill(service, server)
            bad = [line for line in service.log.read_text().splitlines() if "internal error" in line or "panicked" in line]
            assert not bad, bad
            print(f"ComfyUI {server.is_up()}: results, transparency, a rejection, cancellations, lost submissions and a killed server are handled")
        except BaseException:
            if service:
                lines = [line for line in service.log.read_text().splitlines() if "answered method=" not in line]
                print("\n".join(lines[-20:]))
            raise
        finally:
            for started in filter(None, (service and service.process, server and server.process)):
                started.kill()
                started.wait()


if __name__ == "__main__":
    main()
