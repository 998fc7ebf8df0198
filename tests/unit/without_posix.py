"""A process that has nothing of POSIX: told by its arguments what to hide, it then uses Octavo.

Python's own modules and other packages are loaded before, since on a system without POSIX they are other ones. Locks of files are those of
`msvcrt`, which is played with the system's own, kept from before it was hidden.
"""

import asyncio
import concurrent.futures.process
import importlib
import json
import logging.handlers
import multiprocessing.pool
import os
import shutil
import signal
import ssl
import struct
import subprocess
import sys
import threading
import types
import urllib.request
from pathlib import Path

import apsw
import asyncpg
import fastapi
import hypothesis
import mcp.server.mcpserver
import numpy as np
import pytest
import redis.asyncio
import sqlalchemy.ext.asyncio
import uvicorn.supervisors
import yaml

LOADED = (
    *(concurrent.futures.process, logging.handlers, multiprocessing.pool, shutil, ssl, subprocess),
    *(
        apsw,
        asyncpg,
        fastapi,
        hypothesis,
        mcp.server.mcpserver,
        np,
        pytest,
        redis.asyncio,
        sqlalchemy.ext.asyncio,
        uvicorn,
        yaml,
    ),
)
UNLOCK, LOCK, TRY = 0, 1, 2


def hide(names: dict[str, list[str]], modules: list[str]) -> None:
    """Take these away, and put Windows' locks in their place."""
    import fcntl  # the last time

    held: set[int] = set()

    def locking(fd: int, action: int, size: int) -> None:
        """Lock so many bytes from where the file is; what is locked cannot be locked again, through no opened file."""
        kind = fcntl.F_UNLCK if action == UNLOCK else fcntl.F_WRLCK
        here = struct.pack("hhqqi4x", kind, 1, 0, size, 0)
        try:
            if action != UNLOCK and fd in held:
                raise BlockingIOError
            fcntl.fcntl(fd, 37, here)  # F_OFD_SETLK: a lock of the opened file, not of the process
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None
        (held.discard if action == UNLOCK else held.add)(fd)

    # A number of a file that was closed is given to another one.
    close = vars(os)["close"]
    os.close = lambda fd: (held.discard(fd), close(fd))[1]
    sys.modules["msvcrt"] = types.SimpleNamespace(
        locking=locking, LK_UNLCK=UNLOCK, LK_LOCK=LOCK, LK_NBLCK=TRY
    )
    for name in modules:
        sys.modules[name] = None
    for module, attributes in names.items():
        for attribute in attributes:
            vars(sys.modules[module]).pop(attribute, None)


def import_all() -> int:
    """Every module of the package; what an optional package of somebody else needs is its own business."""
    import octavo

    root, count = Path(octavo.__file__).parent, 0
    for path in sorted(root.rglob("*.py")):
        words = ["octavo", *path.relative_to(root).with_suffix("").parts]
        if words[-1] != "__main__" and words[1:2] != ["integrations"]:
            importlib.import_module(".".join(word for word in words if word != "__init__"))
            count += 1
    return count


async def use_store(url: str) -> list[str]:
    from octavo import Add, Change, Query, Record, Scope, open_store

    here = Scope(user="lin")
    async with open_store(url) as store:
        await store.apply(
            [Add([Record(collection="messages", scope=here, text=f"hello {n}") for n in range(3)])]
        )
        await store.apply(
            [Change(query=Query(collection="messages", scope=here, text="hello 1"), mark=("seen",))]
        )
        found = await store.find(Query(collection="messages", scope=here))
    return [f"{record.text}{'*' * len(record.marks)}" for record in found]


async def use_layers(url: str) -> list[str]:
    from octavo.layers import LayeredMemory

    async with LayeredMemory(url) as memory:
        await memory.extract("I live in Berlin.", user_id="lin")
        return [fact.content for fact in await memory.profile(user_id="lin")]


def use_service(folder: Path) -> dict[str, object]:
    """With the database down, what is written waits in the queue; when it is up, all of it is there."""
    from octavo.service import MemoryService, MessagePayload, Observation, ObservationType

    blocked = folder / "blocked"
    blocked.write_text("no folder")
    url = f"sqlite:///{blocked}/memory.db"
    with MemoryService(url, vault_path=folder / "vault", queue_path=folder / "queue") as service:
        event = service.append_event(
            Observation(obs_type=ObservationType.MESSAGE, actor="lin", payload=MessagePayload("hi")), "monday"
        )
        state = service.health().state
    waiting = (folder / "queue" / "failed_events.jsonl").read_bytes().count(b"\n")
    blocked.unlink()
    with MemoryService(url, vault_path=folder / "vault", queue_path=folder / "queue") as service:
        service.upsert_system_prompt("be kind")
        kept = service.get_event(event.event_id)
        recovered = [each.event_id for each in service.get_recent_events("monday")] == [event.event_id]
        return {
            "state": state,
            "waiting": waiting,
            "kept": kept is not None,
            "recovered": recovered,
            "prompt": service.get_system_prompt(),
            "file": (folder / "vault/md/system.md").read_text().endswith("be kind"),
        }


def use_locks(folder: Path) -> list[bool]:
    """Of two that want a lock file one gets it, again and again, until it lets go."""
    from octavo.util.disk import FileLock

    one, other = FileLock(folder / "lock"), FileLock(folder / "lock")
    taken = [one.take(), other.take(), one.take()]
    one.release()
    taken += [other.take(), one.take()]
    other.close()
    return [*taken, one.take()]


def use_history(folder: Path) -> list[str]:
    from octavo.conversation import FileChatMessageHistory

    with FileChatMessageHistory(str(folder / "history.json")) as history:
        history.add_user_message("hello")
        return [message.content for message in history.messages]


async def use_export(url: str, folder: Path) -> int:
    from octavo import open_store
    from octavo.transfer import export

    async with open_store(url) as store:
        await export(store, folder / "all.jsonl")
    return (folder / "all.jsonl").read_bytes().count(b"hello")


def use_server(folder: Path) -> dict[str, object]:
    """The application, served by the very code of `octavo serve` until it is told to stop."""
    from octavo.config import Database, FailureQueue, Settings
    from octavo.config import Vault as VaultSettings
    from octavo.server import running

    settings = Settings(
        database=Database(dsn=f"sqlite:///{folder}/served.db"),
        vault=VaultSettings(root_path=str(folder / "served_vault")),
        failure_queue=FailureQueue(directory=str(folder / "served_queue")),
    )
    answers: dict[str, object] = {}

    def ask(port: int) -> None:
        try:
            base = f"http://127.0.0.1:{port}"
            body = json.dumps({"content": "likes tea", "memory_layer": "profile"}).encode()
            post = urllib.request.Request(
                f"{base}/memory/user/lin", body, {"content-type": "application/json"}, method="POST"
            )
            answers["posted"] = json.load(urllib.request.urlopen(post, timeout=30))["status"]
            listed = json.load(urllib.request.urlopen(f"{base}/memory/user/lin/profile", timeout=30))
            answers["listed"] = [memory["content"] for memory in listed["memories"]]
        except Exception as error:
            answers["error"] = repr(error)
        finally:
            signal.raise_signal(signal.SIGINT)

    with running.bind("127.0.0.1", 0) as sock:
        asyncio.run(running.prepare(settings, sample=False))
        port = sock.getsockname()[1]
        asking = threading.Thread(target=ask, args=(port,))
        answers["status"] = running.serve(settings, sock, asking.start, sample=False, requests=False)
        asking.join()
    return answers


def main() -> None:
    hidden = json.loads(sys.argv[1])
    hide(hidden["names"], hidden["modules"])
    folder = Path.cwd()
    stores = [f"file://{folder}/files", f"sqlite:///{folder}/octavo.db"]
    told = {
        "modules": import_all(),
        "stores": [asyncio.run(use_store(url)) for url in ["memory://", *stores]],
        "layers": [asyncio.run(use_layers(url)) for url in stores],
        "service": use_service(folder),
        "locks": use_locks(folder),
        "history": use_history(folder),
        "exported": asyncio.run(use_export(stores[1], folder)),
        "server": use_server(folder),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
