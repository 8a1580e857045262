"""The running service, and new users of it."""

from __future__ import annotations

import os
import struct
import uuid
import zlib
from collections.abc import Iterator

import httpx
import pytest

from mediary import Mediary

URL = os.environ["MEDIARY_URL"]
ADMINISTRATOR = {"Authorization": f"Bearer {os.environ['MEDIARY_ADMIN_TOKEN']}"}


def new_token() -> str:
    """Creates a user, and returns a token."""
    body = {"name": "Ada", "email": f"{uuid.uuid4()}@acme.example", "isApproved": True}
    user = httpx.post(f"{URL}/admin/users", json=body, headers=ADMINISTRATOR).raise_for_status().json()
    path = f"{URL}/admin/users/{user['id']}/tokens"
    return str(httpx.post(path, json={"name": "test"}, headers=ADMINISTRATOR).raise_for_status().json()["token"])


@pytest.fixture
def token() -> str:
    return new_token()


@pytest.fixture
def service(token: str) -> Iterator[Mediary]:
    with Mediary(URL, token) as client:
        yield client


@pytest.fixture
def picture() -> bytes:
    """A PNG of 16 x 16 pixels."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = part(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0))
    rows = part(b"IDAT", zlib.compress(b"".join(b"\0" + b"\x20\x80\xc0" * 16 for _ in range(16))))
    return b"\x89PNG\r\n\x1a\n" + header + rows + part(b"IEND", b"")
