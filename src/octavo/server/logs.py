"""What the server writes down: one line for each request, of JSON or for a terminal, and no secret in any line."""

import logging
import os
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from octavo.config import Settings
from octavo.config.settings import secrets_of
from octavo.kernel.text import escape_controls, escape_json_controls
from octavo.util.secrets import mask_passwords
from octavo.util.tracing import current_ids

access_log = logging.getLogger("octavo.access")
_KEY = re.compile(r"(oct_[0-9A-Za-z]{1,16})_[0-9A-Za-z_-]+")
_NAMES = ("octavo", "uvicorn.error", "fastapi")


class Secrets:
    """What must not be said to anybody: passwords in URLs, the keys of models, and API keys."""

    def __init__(self, settings: Settings) -> None:
        self._urls = secrets_of(settings)
        if key := os.environ.get("OPENAI_API_KEY"):
            self._urls.append(f"?api_key={key}")

    def hide(self, text: str) -> str:
        """The text without them."""
        return mask_keys(mask_passwords(text, self._urls))


def mask_keys(text: str) -> str:
    """The text with every API key in it cut to the part that names it."""
    return _KEY.sub(r"\1_…", text) if "oct_" in text else text


class Lines(logging.Formatter):
    """How records become lines; keys and passwords in them are masked."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets


class JsonLines(Lines):
    """Each record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {"time": datetime.fromtimestamp(record.created, UTC)}
        if record.name == access_log.name and isinstance(record.args, dict):
            said |= {name: _make_printable(value) for name, value in record.args.items()}
        else:
            said |= {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
            if record.exc_info and record.exc_info[1] is not None:
                said["error"] = "".join(traceback.format_exception(record.exc_info[1]))
            said |= current_ids()
            # Before it is JSON, which spells a password with a quote or a backslash in it another way.
            said |= {name: self._secrets.hide(_make_printable(said[name])) for name in said if name != "time"}
        return escape_json_controls(self._secrets.hide(msgspec.json.encode(said).decode()))


class TerminalLines(Lines):
    """Each request as one short line for people: when, status, how long, method and route; other records with their tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        if record.name == access_log.name and isinstance(record.args, dict):
            told = record.args
            where = self._line(f"{told.get('method', '')!s:<6} {told.get('route') or '-'}")
            return f"{at}  {told.get('status', 0)}  {told.get('ms', 0):>8.1f} ms  {where}"
        said = self._line(f"{record.levelname.lower()}  {record.name}: {record.getMessage()}")
        why = record.exc_info[1] if record.exc_info else None
        trace = "" if why is None else "".join(traceback.format_exception(why))
        return "\n".join([f"{at}  {said}", *(f"  {self._line(line)}" for line in trace.splitlines())])

    def _line(self, text: str) -> str:
        """The text as one line that cannot steer the terminal."""
        return escape_controls(self._secrets.hide(_make_printable(text)))


def _make_printable(value: Any) -> Any:
    """What a client sent may hold halves of characters, which no line can."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def write_logs(secrets: Secrets, *, requests: bool = True, stream: IO[str] | None = None) -> None:
    """Send this process's logs to stderr: lines for people on a terminal, else of JSON; without `requests` only warnings and errors."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TerminalLines(secrets) if stream.isatty() else JsonLines(secrets))
    # At the root: what asyncio or a driver has to say may hold a password as well.
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each.formatter, Lines)]
    root.addHandler(handler)
    for name in _NAMES:
        logging.getLogger(name).setLevel(logging.WARNING)
    access_log.setLevel(logging.INFO if requests else logging.CRITICAL)
