"""What the server writes down: one JSON line for each request, and no secret in any line."""

import logging
import os
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from octavo.config import Settings
from octavo.kernel.text import printable_json
from octavo.util.secrets import hidden

access_log = logging.getLogger("octavo.access")
_KEY = re.compile(r"(oct_[0-9A-Za-z]{1,16})_[0-9A-Za-z_-]+")
_NAMES = ("octavo", "uvicorn.error", "fastapi")


class Secrets:
    """What must not be said to anybody: passwords in URLs, the keys of models, and API keys."""

    def __init__(self, settings: Settings) -> None:
        vector, extraction = settings.vector, settings.extraction
        self._urls = [
            settings.database.dsn,
            vector.url,
            vector.embedder,
            vector.previous_embedder,
            vector.base_url,
            extraction.base_url,
        ]
        # Spelled as an option of a URL, since that is what is known to be secret there.
        keys = (vector.api_key, extraction.api_key, os.environ.get("OPENAI_API_KEY"))
        self._urls += [f"?api_key={key}" for key in keys if key]

    def hidden(self, text: str) -> str:
        """The text without them."""
        return masked(hidden(text, (url for url in self._urls if url)))


def masked(text: str) -> str:
    """The text with every API key in it cut to the part that names it."""
    return _KEY.sub(r"\1_…", text) if "oct_" in text else text


class JsonLines(logging.Formatter):
    """Each record as one line of JSON; keys and passwords in it are masked."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {"time": datetime.fromtimestamp(record.created, UTC)}
        if record.name == access_log.name and isinstance(record.args, dict):
            said |= {name: _sayable(value) for name, value in record.args.items()}
        else:
            said |= {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
            if record.exc_info and record.exc_info[1] is not None:
                said["error"] = "".join(traceback.format_exception(record.exc_info[1]))
            # Before it is JSON, which spells a password with a quote or a backslash in it another way.
            said |= {name: self._secrets.hidden(_sayable(said[name])) for name in said if name != "time"}
        return printable_json(self._secrets.hidden(msgspec.json.encode(said).decode()))


def _sayable(value: Any) -> Any:
    """What a client sent may hold halves of characters, which no line can."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def write_logs(secrets: Secrets, *, requests: bool = True, stream: IO[str] | None = None) -> None:
    """Send this process's logs to stderr as lines of JSON; without `requests` only warnings and errors."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(secrets))
    # At the root: what asyncio or a driver has to say may hold a password as well.
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each.formatter, JsonLines)]
    root.addHandler(handler)
    for name in _NAMES:
        logging.getLogger(name).setLevel(logging.WARNING)
    access_log.setLevel(logging.INFO if requests else logging.CRITICAL)
