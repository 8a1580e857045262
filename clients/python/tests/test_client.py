"""The client against a running service."""

from __future__ import annotations

import io
import json
import os
import threading
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import httpx
import pytest

from conftest import URL
from mediary import Mediary, ServiceError, TaskFailed, verify_webhook

Handler = Callable[[BaseHTTPRequestHandler, bytes], None]


@contextmanager
def server(handle: Handler) -> Iterator[str]:
    """A server that passes each request with its body to ``handle``."""

    class Requests(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            handle(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Requests) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def reply(request: BaseHTTPRequestHandler, status: int, body: object, **headers: str) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    data = json.dumps(body).encode()
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    request.wfile.write(data)


def test_an_image_job_runs_and_its_result_is_saved(service: Mediary, picture: bytes, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(picture)
    task = service.run("image-upscaler", image=photo, scale_factor="2x")
    assert task.succeeded and task.progress == 1 and len(task.results) == 1
    service.save(task, tmp_path / "large.png")
    width = int.from_bytes((tmp_path / "large.png").read_bytes()[16:20], "big")
    assert width == 32 and sorted(path.name for path in tmp_path.iterdir()) == ["large.png", "photo.png"]


def test_each_change_of_a_task_is_yielded(service: Mediary, picture: bytes) -> None:
    submitted = service.submit("skin-enhancer/faithful", image=picture)
    tasks = list(service.follow(submitted.id))
    assert tasks[-1].succeeded and not any(task.ended for task in tasks[:-1])
    # A task that has ended is yielded too.
    assert [task.state for task in service.follow(submitted.id)] == ["COMPLETED"]


def test_a_cancelled_task_fails(service: Mediary, picture: bytes) -> None:
    task = service.submit("reference2video", images=[picture], prompt="waves", duration=8)
    assert service.cancel(task.id).failed
    with pytest.raises(TaskFailed) as failure:
        service.wait(task.id)
    assert failure.value.code == "cancelled" and failure.value.task.id == task.id


def test_every_invalid_field_is_named(service: Mediary, picture: bytes) -> None:
    with pytest.raises(ServiceError) as failure:
        service.submit("image-upscaler", image=picture, scale_factor="3x", creativity=99)
    error = failure.value
    assert (error.status, error.code) == (400, "invalid_input")
    assert {field.pointer: field.value for field in error.fields} == {"/scale_factor": "3x", "/creativity": 99}
    with pytest.raises(ValueError, match="the jobs are image-upscaler"):
        service.submit("image-upscale")


def test_a_misspelled_parameter_is_refused_before_anything_is_sent(service: Mediary, picture: bytes) -> None:
    with pytest.raises(TypeError, match="no parameter 'scale_facter'; did you mean 'scale_factor'"):
        service.submit("image-upscaler", image=picture, scale_facter="4x")
    with pytest.raises(TypeError, match=r"no parameter 'colour' \(its parameters are .*image\)"):
        service.run("image-upscaler", image=picture, colour="red")
    with pytest.raises(TypeError, match="no parameter 'key_picture' in image_settings; did you mean 'key_image'"):
        service.submit("multiframe", image_settings=[{"key_picture": picture}, {"key_image": picture}])
    with pytest.raises(TypeError, match="change_log"):
        service.publish("acme", "tools", "1.0.0", b"", change_log="First")  # type: ignore[call-arg]


def test_music_is_received_while_it_is_made(service: Mediary) -> None:
    with service.stream("calm solo piano", duration=5) as music:
        chunks = list(music)
    assert b"".join(chunks).startswith(b"OggS") and len(chunks) > 4
    assert music.seconds == 5 and music.title and service.task(music.task_id).succeeded
    with service.stream("calm solo piano", duration=60) as music:
        assert next(iter(music)).startswith(b"OggS")


def test_a_version_is_published(service: Mediary, token: str) -> None:
    publisher = f"p{uuid.uuid4().hex[:12]}"
    headers = {"Authorization": f"Bearer {token}"}
    body = {"id": publisher, "name": "Acme"}
    httpx.post(f"{URL}/publishers", json=body, headers=headers).raise_for_status()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("face_tools/__init__.py", "")
    node = f"{publisher}-tools"
    version = service.publish(publisher, node, "1.0.0", buffer.getvalue(), changelog="First")
    assert (version["version"], version["changelog"]) == ("1.0.0", "First") and version["downloadUrl"]
    with pytest.raises(ServiceError) as failure:
        service.publish(publisher, node, "1.0.0", buffer.getvalue())
    assert failure.value.code == "already_exists"

    # A version whose archive was not uploaded is continued.
    path = f"{URL}/publishers/{publisher}/nodes/{node}/versions"
    httpx.post(path, json={"node_version": {"version": "1.1.0"}}, headers=headers).raise_for_status()
    assert service.publish(publisher, node, "1.1.0", buffer.getvalue())["version"] == "1.1.0"

    # An administrator imports a version with its history.
    imported = {"createdAt": "2024-02-01T10:00:00Z", "tags_admin": ["imported"], "host_node_extract_status": "success"}
    with Mediary(URL, os.environ["MEDIARY_ADMIN_TOKEN"]) as administrator:
        version = administrator.publish(publisher, node, "0.9.0", buffer.getvalue(), **imported)
    assert version["createdAt"].startswith("2024-02-01T10:00:00") and version["tags_admin"] == ["imported"]


def test_webhooks_are_verified_with_both_keys(service: Mediary, token: str, picture: bytes) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    secret = httpx.post(f"{URL}/users/webhook-secret", headers=headers).raise_for_status().json()["secret"]
    public = httpx.get(f"{URL}/.well-known/webhook-key").raise_for_status().text
    received: Queue[tuple[dict[str, str], bytes]] = Queue()

    def handle(request: BaseHTTPRequestHandler, body: bytes) -> None:
        received.put((dict(request.headers.items()), body))
        reply(request, 200, {})

    with server(handle) as receiver:
        service.run("image-upscaler", image=picture, webhook_url=f"{receiver}/hook")
        webhook, body = received.get(timeout=30)
    for key in (secret, public):
        assert verify_webhook(webhook, body, key)
        assert not verify_webhook(webhook, body + b" ", key)
        assert not verify_webhook({**webhook, "webhook-timestamp": "1"}, body, key)
        assert not verify_webhook({}, body, key)
    assert not verify_webhook(webhook, body, "whsec_" + "A" * 43 + "=")
    with pytest.raises(ValueError):
        verify_webhook(webhook, body, "secret")


def test_a_busy_service_is_asked_again_with_the_same_key() -> None:
    keys = []

    def handle(request: BaseHTTPRequestHandler, _: bytes) -> None:
        keys.append(request.headers.get("Idempotency-Key"))
        if len(keys) < 3:
            reply(request, 503, {"error": "overloaded"}, Retry_After="0")
        else:
            reply(request, 200, {"upload_url": f"http://{request.headers['Host']}/upload", "url": "input"})

    with server(handle) as url, Mediary(url) as service:
        with pytest.raises(ServiceError):
            # The stub takes no PUT: uploads are sent once.
            service.upload(b"picture")
    assert len(keys) == 3 and len(set(keys)) == 1 and keys[0]
