"""Requests to a service."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Union
from urllib.parse import quote

import httpx
from httpx_sse import connect_sse

from .errors import ServiceError, TaskFailed
from .music import Music
from .task import Job, Task

#: A file to upload. URLs are given as text.
File = Union[Path, bytes]

#: Attempts to send a request or to reopen a stream.
ATTEMPTS = 5
#: Statuses of a service that is busy or starting.
BUSY = (429, 503)
#: Longest pause between two attempts, in seconds.
PAUSE_MAX = 30.0


class Mediary:
    """A service, with the token of a user. Threads may share it."""

    def __init__(self, url: str | None = None, token: str | None = None, *, timeout: float = 60) -> None:
        """``url`` and ``token`` default to the variables ``MEDIARY_URL`` and ``MEDIARY_TOKEN``."""
        base = url or os.environ.get("MEDIARY_URL")
        if not base:
            raise ValueError("give the URL of the service, or set MEDIARY_URL")
        token = token or os.environ.get("MEDIARY_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=base.rstrip("/"), headers=headers, timeout=timeout)
        # Uploads and results may be at another host, which must not get the token.
        self._plain = httpx.Client(timeout=timeout, follow_redirects=True)
        self._jobs: dict[str, Job] = {}

    def __enter__(self) -> Mediary:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()
        self._plain.close()

    def jobs(self) -> list[Job]:
        """Lists the jobs of the service."""
        listed = self._send("GET", "/models")["models"]
        jobs = [
            Job(
                name=entry["job"],
                medium=entry["medium"],
                path=entry["path"],
                available=entry["available"],
                parameters={parameter["name"]: parameter for parameter in entry["parameters"]},
            )
            for entry in listed
        ]
        self._jobs = {job.name: job for job in jobs}
        return jobs

    def submit(self, job: str, **parameters: Any) -> Task:
        """Submits an image or video job. Files among the parameters, also in lists and objects, are uploaded first.
        Raises ``TypeError`` for a parameter that the job does not have, because the service ignores it."""
        found = self._job(job)
        if found.medium == "music":
            raise ValueError("music is made while it is received: call stream()")
        found.check_names(parameters)
        body = self._with_uploads(parameters)
        submitted = self._send("POST", found.path, json=body, once=True)
        return self.task(submitted.get("data", submitted)["task_id"])

    def run(self, job: str, **parameters: Any) -> Task:
        """Submits a job and waits for its end. Raises ``TaskFailed`` if it fails."""
        return self.wait(self.submit(job, **parameters).id)

    def task(self, task_id: str) -> Task:
        """Reads a task."""
        return Task(self._send("GET", f"/tasks/{_segment(task_id)}"))

    def cancel(self, task_id: str) -> Task:
        """Cancels a task. One that has ended stays as it is."""
        self._send("POST", f"/tasks/{_segment(task_id)}/cancel")
        return self.task(task_id)

    def wait(self, task_id: str) -> Task:
        """Waits for the end of a task. Raises ``TaskFailed`` if it fails."""
        *_, task = self.follow(task_id)
        if task.failed:
            raise TaskFailed(task)
        return task

    def follow(self, task_id: str) -> Iterator[Task]:
        """Yields a task and each change of it, to its end. Reopens broken streams."""
        last_event = ""
        attempt = 0
        while True:
            failure: Exception = httpx.RemoteProtocolError(f"the events of task {task_id} keep breaking off")
            try:
                headers = {"Last-Event-ID": last_event} if last_event else {}
                with connect_sse(self._http, "GET", f"/tasks/{_segment(task_id)}/events", headers=headers) as source:
                    if source.response.status_code == 204:
                        # The task ended while the stream was broken.
                        yield self.task(task_id)
                        return
                    self._check(source.response)
                    for event in source.iter_sse():
                        if event.event == "failed":
                            break
                        # The stream begins with its reconnection delay.
                        if not event.data:
                            continue
                        attempt = 0
                        last_event = event.id or last_event
                        task = Task(event.json())
                        yield task
                        if task.ended:
                            return
            except (httpx.TransportError, ServiceError) as error:
                failure = error

            attempt += 1
            if attempt == ATTEMPTS or not _is_temporary(failure):
                raise failure
            time.sleep(_pause(attempt, failure))

    def save(self, task: Task, path: str | Path, index: int = 0) -> None:
        """Writes a result of a task to a file, which is complete or absent."""
        target = Path(path)
        partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with self._plain.stream("GET", task.results[index]) as response, partial.open("wb") as out:
                self._check(response)
                for chunk in response.iter_bytes():
                    out.write(chunk)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    def stream(self, prompt: str, *, duration: int | None = None) -> Music:
        """Makes music. Iterate over it for its chunks; the service makes the next one when this one was read."""
        fields = {"prompt": prompt} | ({} if duration is None else {"duration": str(duration)})
        request = self._http.build_request(
            "POST",
            self._job("music").path,
            # The service takes a multipart form, also without files.
            files={name: (None, value) for name, value in fields.items()},
        )
        response = self._http.send(request, stream=True)
        try:
            self._check(response)
        except BaseException:
            response.close()
            raise
        return Music(response)

    def upload(self, file: File) -> str:
        """Uploads a picture or a video, and returns the URL that stands for it in jobs."""
        size = len(file) if isinstance(file, bytes) else file.stat().st_size
        name = "upload" if isinstance(file, bytes) else file.name
        announced = self._send("POST", "/files", json={"name": name, "bytes": size}, once=True)
        self._put(announced["upload_url"], file, size, "application/octet-stream")
        return str(announced["url"])

    def publish(
        self,
        publisher: str,
        node: str,
        version: str,
        archive: File,
        *,
        changelog: str | None = None,
        dependencies: Sequence[str] | None = None,
        deprecated: bool | None = None,
        tags: Sequence[str] | None = None,
        supported_os: Sequence[str] | None = None,
        supported_accelerators: Sequence[str] | None = None,
        supported_host_version: str | None = None,
        supported_host_frontend_version: str | None = None,
        createdAt: str | None = None,
        status: str | None = None,
        status_reason: str | None = None,
        tags_admin: Sequence[str] | None = None,
        host_node_extract_status: str | None = None,
    ) -> dict[str, Any]:
        """Publishes a version of a node and returns it. ``node`` is created if it is new. Continues after an upload
        that was interrupted. The service takes the last five fields from administrators only."""
        path = f"/publishers/{_segment(publisher)}/nodes/{_segment(node)}/versions"
        fields = {
            "version": version,
            "changelog": changelog,
            "dependencies": _list(dependencies),
            "deprecated": deprecated,
            "tags": _list(tags),
            "supported_os": _list(supported_os),
            "supported_accelerators": _list(supported_accelerators),
            "supported_host_version": supported_host_version,
            "supported_host_frontend_version": supported_host_frontend_version,
            "createdAt": createdAt,
            "status": status,
            "status_reason": status_reason,
            "tags_admin": _list(tags_admin),
            "host_node_extract_status": host_node_extract_status,
        }
        body = {"node_version": {name: value for name, value in fields.items() if value is not None}}
        try:
            created = self._send("POST", path, json=body, once=True)
        except ServiceError as error:
            if error.code != "already_exists":
                raise
            # Only a version that has no archive yet gets another URL for one.
            try:
                created = self._send("POST", f"{path}/{_segment(version)}/upload")
            except ServiceError:
                raise error from None
        size = len(archive) if isinstance(archive, bytes) else archive.stat().st_size
        published: dict[str, Any] = self._put(created["signedUrl"], archive, size, "application/zip").json()
        return published

    def _job(self, name: str) -> Job:
        if name not in self._jobs:
            self.jobs()
        if name not in self._jobs:
            raise ValueError(f"there is no job {name!r}; the jobs are {', '.join(self._jobs)}")
        return self._jobs[name]

    def _with_uploads(self, value: Any) -> Any:
        """Replaces files by the URLs of their uploads."""
        if isinstance(value, (Path, bytes)):
            return self.upload(value)
        if isinstance(value, dict):
            return {name: self._with_uploads(entry) for name, entry in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._with_uploads(entry) for entry in value]
        return value

    def _put(self, url: str, file: File, size: int, media_type: str) -> httpx.Response:
        """Sends a file, once: the URL allows one upload."""
        headers = {"Content-Type": media_type, "Content-Length": str(size)}
        if isinstance(file, bytes):
            response = self._plain.put(url, content=file, headers=headers)
        else:
            with file.open("rb") as content:
                response = self._plain.put(url, content=content, headers=headers)
        self._check(response)
        return response

    def _send(self, method: str, path: str, *, json: Any = None, once: bool = False) -> Any:
        """Sends a request, again after temporary failures. With ``once``, its key lets the service execute it once."""
        headers = {"Idempotency-Key": str(uuid.uuid4())} if once else {}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = self._http.request(method, path, json=json, headers=headers)
                self._check(response)
                return response.json()
            except (httpx.TransportError, ServiceError) as error:
                may_repeat = once or method == "GET"
                if attempt == ATTEMPTS or not may_repeat or not _is_temporary(error):
                    raise
                time.sleep(_pause(attempt, error))
        raise AssertionError("unreachable: the last attempt returns or raises")

    @staticmethod
    def _check(response: httpx.Response) -> None:
        if not response.is_success:
            response.read()
            raise ServiceError.from_response(response)


def _is_temporary(error: Exception) -> bool:
    """Returns ``True`` if the same request may succeed later. A quota of a day is not worth waiting for."""
    if isinstance(error, ServiceError):
        return error.status in BUSY and error.code != "quota_exceeded"
    return True


def _pause(attempt: int, failure: Exception) -> float:
    """Returns the seconds to wait after a failed attempt, as the service asks."""
    requested = failure.retry_after if isinstance(failure, ServiceError) else None
    return min(0.25 * 2**attempt if requested is None else requested, PAUSE_MAX)


def _list(values: Sequence[str] | None) -> list[str] | None:
    """Returns a list. A text is one value, not the list of its letters."""
    if values is None:
        return None
    return [values] if isinstance(values, str) else list(values)


def _segment(value: str) -> str:
    """Encodes an id as one segment of a path."""
    return quote(value, safe="")
