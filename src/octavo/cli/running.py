"""Running a command: what it is given, how it goes on after an interruption, how it ends."""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from octavo.cli.options import scope
from octavo.cli.state import state_file
from octavo.cli.teller import Teller, several
from octavo.errors import ConfigError, OctavoError
from octavo.kernel.ports import ListsTenants, Store
from octavo.transfer import Moved, Progress
from octavo.util.secrets import shown


def run(teller: Teller, urls: list[str], work: Callable[[], int]) -> None:
    """Do the work and end with its status; what goes wrong is said in one sentence."""
    teller.urls = [url for url in urls if url]
    try:
        status = work()
    except KeyboardInterrupt:
        teller.note(f"octavo: stopped after {several(teller.done, teller.thing)}{_onward(teller)}")
        status = 130
    except BrokenPipeError:
        raise  # whoever read stdout has gone away; click ends the process without a word
    except ConfigError as error:
        teller.failed(error)
        status = 2
    except (OctavoError, OSError) as error:
        teller.failed(error)
        if teller.done:
            teller.note(f"octavo: {several(teller.done, 'record')} kept before that{_onward(teller)}")
        status = 1
    sys.exit(status)


def move(
    teller: Teller,
    command: str,
    done: str,
    named: list[str],
    options: dict[str, Any],
    work: Callable[[dict[str, Any], Progress], Coroutine[Any, Any, Moved]],
) -> tuple[Moved, float]:
    """Run a move with its options, its progress and its state file; answer what it came to and how long it took."""
    given: dict[str, Any] = {}
    if "collections" in options:
        given["collections"] = options["collections"] or None
        given["scope"] = scope(options["tenant"], options["user"], options["agent"], options["session"])
    state: Path | None = options["state"]
    if "-" in named:
        state = None  # a stream cannot be taken up again
    elif state is None:
        state = state_file(command, [shown(name) for name in named], msgspec.to_builtins(given))
        if state is None:
            teller.note(
                f"octavo: no place for the state of this {command} (see --state); interrupted, it starts over"
            )
    if state is not None:
        if options["restart"]:
            state.unlink(missing_ok=True)
        if state.exists():
            teller.note(f"continuing an interrupted {command}; --restart begins again")
    teller.resumable = state is not None
    given |= {"resume": state, "batch": options["batch"]}
    begun = time.monotonic()
    with teller.progress(done) as progress:
        moved = asyncio.run(work(given, progress))
    return moved, time.monotonic() - begun


def _onward(teller: Teller) -> str:
    return "; run the same command again to continue" if teller.resumable else ""


def told(done: str, moved: Moved) -> str:
    """A move in a few words, with what did not have to be moved in brackets."""
    aside = []
    if kept := moved.read - moved.added:
        aside.append(f"{kept:,} already there")
    if moved.resumed:
        aside.append(f"{moved.resumed:,} more by an earlier run")
    inside = f" ({', '.join(aside)})" if aside else ""
    return f"{done} {several(moved.read, 'record')}{inside}"


def document(teller: Teller, command: str, moved: Moved, seconds: float, **more: Any) -> None:
    numbers = {name: getattr(moved, name) for name in ("read", "added", "resumed", "collections")}
    teller.document(ok=not moved.bad, command=command, **{**numbers, **more}, seconds=round(seconds, 3))


def warn_of_tenants(teller: Teller, store: Store, given: dict[str, Any]) -> None:
    if given["scope"] is None and not isinstance(store, ListsTenants):
        teller.note(
            "octavo: this store cannot list its tenants, only the empty one is read; name others by --tenant"
        )


def existing(url: str) -> None:
    """Refuse to read from an embedded store that is not there: opening it would make an empty one."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return  # whoever opens it says what is wrong with it
    scheme = parts.scheme.partition("+")[0]
    path = unquote(parts.path)
    if scheme == "sqlite":
        path = path.removeprefix("/")
    if (
        scheme in {"sqlite", "file"}
        and not parts.netloc
        and path not in {"", ":memory:"}
        and not Path(path).exists()
    ):
        raise ConfigError(f"there is no store at {path}; check the path in {shown(url)}")
