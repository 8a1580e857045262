"""Errors of the client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from .task import Task


@dataclass(frozen=True)
class FieldError:
    """An invalid field of a request."""

    #: JSON pointer into the body, or the name of a parameter after a slash.
    pointer: str
    reason: str
    #: Value that was sent: a number, a boolean or the start of a text; ``None`` if the service does not repeat it.
    value: str | int | float | bool | None = None


class ServiceError(Exception):
    """The service refused a request."""

    def __init__(self, status: int, problem: dict[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        #: Seconds after which the service asks to try again.
        self.retry_after = retry_after
        #: Stable code; ``docs/errors.md`` lists all of them.
        self.code = str(problem.get("error", ""))
        self.fields = [
            FieldError(str(entry["pointer"]), str(entry["reason"]), entry.get("value"))
            for entry in problem.get("errors", [])
        ]
        super().__init__(f"{status} {self.code}: {problem.get('detail', 'no description')}")

    @classmethod
    def from_response(cls, response: httpx.Response) -> ServiceError:
        """Reads the problem in a response whose body was received."""
        try:
            problem = response.json()
        except ValueError:
            problem = None
        # A proxy in between may send anything.
        try:
            retry_after = float(response.headers["Retry-After"])
        except (KeyError, ValueError):
            retry_after = None
        return cls(response.status_code, problem if isinstance(problem, dict) else {}, retry_after)


class TaskFailed(Exception):
    """A task ended without a result."""

    def __init__(self, task: Task) -> None:
        self.task = task
        error = task.data.get("error") or {}
        #: Stable code; ``docs/tasks.md`` lists all of them.
        self.code = str(error.get("code", ""))
        super().__init__(f"task {task.id} failed: {self.code}: {error.get('message', '')}")
