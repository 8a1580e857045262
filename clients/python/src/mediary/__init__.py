"""Client of a Mediary service: media jobs, webhooks and published nodes."""

from .client import File, Mediary
from .errors import FieldError, ServiceError, TaskFailed
from .music import Music
from .task import Job, Task
from .webhook import verify_webhook

__all__ = ["FieldError", "File", "Job", "Mediary", "Music", "ServiceError", "Task", "TaskFailed", "verify_webhook"]
