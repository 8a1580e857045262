"""Music, received while it is made."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx

from .errors import ServiceError


class Music:
    """Piece of music: iterate over it for the chunks of one Ogg Opus file."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.task_id = response.headers.get("x-task-id", "")
        self.title = ""
        #: Length in seconds, known from the first chunk on.
        self.seconds = 0.0

    def __enter__(self) -> Music:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream. The service stops making the music."""
        self._response.close()

    def __iter__(self) -> Iterator[bytes]:
        # httpx splits lines at more characters than JSON lines have.
        for line in self._lines():
            event: dict[str, Any] = json.loads(line)
            match event.get("type"):
                case "duration":
                    self.seconds = float(event["duration_sec"])
                case "title":
                    self.title = str(event["title"])
                case "audio_chunk":
                    yield base64.b64decode(event["data"])
                case "error":
                    raise ServiceError(200, {"error": event.get("code", ""), "detail": event.get("message", "")})
                case "complete":
                    return
        raise httpx.RemoteProtocolError("the music stream ended early")

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        for part in self._response.iter_bytes():
            *lines, rest = (rest + part).split(b"\n")
            yield from (line for line in lines if line.strip())
