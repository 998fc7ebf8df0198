"""What the server writes down: one JSON line for each request, and no secret in any line."""

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from octavo.server.problems import Secrets

access_log = logging.getLogger("octavo.access")
_NAMES = ("octavo", "uvicorn.error", "fastapi")


class JsonLines(logging.Formatter):
    """Each record as one line of JSON; keys and passwords in it are masked."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {"time": datetime.fromtimestamp(record.created, UTC)}
        if record.name == access_log.name and isinstance(record.args, dict):
            said |= record.args
        else:
            said |= {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
            if record.exc_info and record.exc_info[1] is not None:
                said["error"] = "".join(traceback.format_exception(record.exc_info[1]))
        spelled = msgspec.json.encode(_sayable(said)).decode()
        return self._secrets.hidden(spelled)


def _sayable(said: dict[str, Any]) -> dict[str, Any]:
    """What a client sent may hold halves of characters, which no line can."""
    return {
        name: value.encode(errors="replace").decode() if isinstance(value, str) else value
        for name, value in said.items()
    }


def write_logs(secrets: Secrets, *, requests: bool = True, stream: IO[str] | None = None) -> None:
    """Send this process's logs to stderr as lines of JSON; without `requests` only warnings and errors."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(secrets))
    for name in _NAMES:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
    access_log.setLevel(logging.INFO if requests else logging.CRITICAL)
