"""Jobs of a service, and the tasks that they become."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any


@dataclass(frozen=True)
class Job:
    """A job that the service takes."""

    name: str
    #: ``image``, ``video`` or ``music``.
    medium: str
    path: str
    #: ``True`` if a vendor or the built-in engine takes it now.
    available: bool
    #: JSON schema of each parameter, by name.
    parameters: dict[str, dict[str, Any]]

    def check_names(self, values: dict[str, Any]) -> None:
        """Raises ``TypeError`` for the first name that is not a parameter of the job, also in objects and lists."""
        self._check(values, self.parameters, "")

    def _check(self, values: dict[str, Any], known: dict[str, Any], place: str) -> None:
        for name, value in values.items():
            if name not in known:
                similar = get_close_matches(name, known, n=1)
                hint = f"; did you mean {similar[0]!r}?" if similar else ""
                raise TypeError(f"{self.name} has no parameter {name!r}{place}{hint} (its parameters are {', '.join(known)})")
            schema = known[name]
            inner = schema.get("properties") or schema.get("items", {}).get("properties")
            entries = value if isinstance(value, (list, tuple)) else [value]
            for entry in entries:
                if inner and isinstance(entry, dict):
                    self._check(entry, inner, f" in {name}")


@dataclass(frozen=True)
class Task:
    """A submitted job, as the service described it last."""

    #: All fields, as ``GET /tasks/{task_id}`` returns them.
    data: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.data["task_id"])

    @property
    def state(self) -> str:
        """State in the spelling of its medium, such as ``IN_PROGRESS`` or ``processing``."""
        return str(self.data["state"])

    @property
    def progress(self) -> float:
        """Progress from 0 to 1."""
        return float(self.data["progress"])

    @property
    def cost(self) -> int:
        """Price in credits."""
        return int(self.data["cost"])

    @property
    def results(self) -> list[str]:
        """URLs of the results."""
        return [str(url) for url in self.data["generated"]]

    @property
    def succeeded(self) -> bool:
        return self.state in ("COMPLETED", "success")

    @property
    def failed(self) -> bool:
        return self.state in ("FAILED", "failed")

    @property
    def ended(self) -> bool:
        return self.succeeded or self.failed
