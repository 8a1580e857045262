"""Uses the generated client through its types: creates a user, publishes and installs a node, makes a picture, gets errors."""

import base64
import io
import os
import struct
import sys
import time
import zipfile
import zlib

from mediary_client import AuthenticatedClient, Client
from mediary_client.api.administration import create_user, create_user_token
from mediary_client.api.archives import download_archive, install_node, publish_version, upload_archive
from mediary_client.api.audit import list_events
from mediary_client.api.callbacks import list_deliveries, rotate_webhook_secret
from mediary_client.api.images import get_result, get_upscale_task, upscale_image
from mediary_client.api.nodes import create_node, get_node, list_nodes, translate_node
from mediary_client.api.publishers import create_publisher
from mediary_client.api.tasks import list_tasks, stream_task
from mediary_client.models import (
    FirstVersionBody,
    ImageTaskState,
    NewNodeBody,
    NewPublisherBody,
    NewVersionBody,
    Problem,
    ProblemError,
    PublicationBody,
    TextsBody,
    TextsByLanguageBody,
    TokenBody,
    UpscaleBody,
    UpscaleBodyScaleFactorType0,
    UserBody,
)
from mediary_client.types import File

BASE = sys.argv[1]
WAIT_MAX = 60


def picture():
    """A png of 4 × 4 pixels, in base64."""
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = part(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0))
    rows = part(b"IDAT", zlib.compress(b"".join(b"\0" + b"\x20\x80\xc0" * 4 for _ in range(4))))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + header + rows + part(b"IEND", b"")).decode()


def archive():
    """A zip archive with one file."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as writer:
        writer.writestr("face_tools/__init__.py", "")
    return content.getvalue()


def create_ada(admin):
    """Creates a user and returns a client with its token."""
    user = create_user.sync(client=admin, body=UserBody(name="Ada", email="ada@acme.example", is_approved=True))
    token = create_user_token.sync(client=admin, user_id=user.id, body=TokenBody(name="generated"))
    return AuthenticatedClient(base_url=BASE, token=token.token, timeout=WAIT_MAX)


def publish(ada):
    """Creates a publisher and a node with a first version and an uploaded second one."""
    assert create_publisher.sync(client=ada, body=NewPublisherBody(id="acme", name="Acme")).id == "acme"
    node = NewNodeBody(id="face-tools", name="Face tools", tags=["portrait"], latest_version=FirstVersionBody(version="1.0.0"))
    created = create_node.sync_detailed("acme", client=ada, body=node)
    assert created.status_code == 201 and created.parsed.latest_version.version == "1.0.0", created
    german = TextsByLanguageBody.from_dict({"de": {"name": "Gesichtswerkzeuge"}})
    assert isinstance(german["de"], TextsBody)
    translated = translate_node.sync("face-tools", client=ada, body=german)
    assert translated.translations["de"]["name"] == "Gesichtswerkzeuge", translated
    body = PublicationBody(node_version=NewVersionBody(version="1.1.0", changelog="Fixed the mask"))
    published = publish_version.sync("acme", "face-tools", client=ada, body=body)
    ticket = published.signed_url.rsplit("/", 1)[1]
    upload_archive.sync(ticket, client=ada, body=File(payload=io.BytesIO(archive())))


def find_and_install(anybody):
    """Reads the registry without a token."""
    page = list_nodes.sync(client=anybody, sort=["updated_at;desc"])
    assert [node.id for node in page.nodes] == ["face-tools"] and page.total == 1, page
    installed = install_node.sync("face-tools", client=anybody)
    assert installed.version == "1.1.0", installed
    fetched = download_archive.sync_detailed("face-tools", "1.1.0", client=anybody)
    assert fetched.content == archive()


def make_a_picture(ada):
    """Runs a task to its end and downloads the result."""
    body = UpscaleBody(image=picture(), scale_factor=UpscaleBodyScaleFactorType0("2x"))
    task = upscale_image.sync(client=ada, body=body).data
    until = time.monotonic() + WAIT_MAX
    while task.status not in (ImageTaskState.COMPLETED, ImageTaskState.FAILED) and time.monotonic() < until:
        task = get_upscale_task.sync(task.task_id, client=ada, prefer="wait=20").data
    assert task.status is ImageTaskState.COMPLETED, task
    result = get_result.sync_detailed(task.generated[0].rsplit("/", 1)[1], client=ada)
    assert result.headers["content-type"].startswith("image/") and result.content
    listed = list_tasks.sync(client=ada, state=[ImageTaskState.COMPLETED])
    assert [entry.state for entry in listed.tasks] == [ImageTaskState.COMPLETED], listed
    assert "event: change" in stream_task.sync(task.task_id, client=ada, last_event_id="0")
    assert list_deliveries.sync(task.task_id, client=ada).deliveries == []
    assert rotate_webhook_secret.sync(client=ada).secret.startswith("whsec_")


def check_errors(ada, anybody, admin):
    """Checks that errors are parsed as problems with their code."""
    missing = get_node.sync("nowhere", client=anybody)
    assert isinstance(missing, Problem) and missing.error is ProblemError.NOT_FOUND, missing
    refused = create_node.sync("acme", client=ada, body=NewNodeBody())
    assert refused.error is ProblemError.INVALID_INPUT and refused.errors, refused
    assert list_events.sync(client=admin, actor="anonymous").events == []


def main():
    anybody = Client(base_url=BASE)
    admin = AuthenticatedClient(base_url=BASE, token=os.environ["ADMIN_TOKEN"])
    ada = create_ada(admin)
    publish(ada)
    find_and_install(anybody)
    make_a_picture(ada)
    check_errors(ada, anybody, admin)
    print("the client published, installed, made a picture and parsed errors")


if __name__ == "__main__":
    main()
