"""Writes that wait for their store, and those that were given up, are forgotten too; others' are brought as if nothing had been."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from faces import FACES, Secrets, bytes_of, write_all

from octavo import Add, Change, Query, Record, Remove, Scope, open_store
from octavo.erasing import Subject, forget
from octavo.wraps.journal import Journal, Spool, Waiting, inspect, peek
from serving import Faulty

LIN, ANN = "lin", "ann"
CHILD = """
import asyncio, sys
sys.path[:0] = sys.argv[3:]
from faces import FACES, Secrets, write_all
from octavo import open_store
from octavo.erasing import Subject, forget

async def main():
    async with open_store(sys.argv[1]) as store:
        print("ready", flush=True)
        await forget(store, Subject.of("", user_id="lin"), scrub=True)
        print("done", flush=True)

asyncio.run(main())
"""


def said(user, text, **more):
    scope = Scope(user=user, session=f"of {user}")
    return Record(collection="messages", kind="user", scope=scope, text=text, **more)


async def test_a_queue_that_had_waited(tmp_path, secret):
    """Of one user all is gone: alone in a write, in a write with others, changed, given up, or damaged."""
    folder, others = tmp_path / "queue", Secrets()
    faulty = Faulty(open_store(f"sqlite:///{tmp_path}/a.db"), "down")
    async with Journal(faulty, folder, timeout=0.5) as journal:
        await journal.apply([Add([said(LIN, secret(), metadata={"m": secret()})])])
        await journal.apply([Add([said(ANN, others()), said(LIN, secret())])])
        await journal.apply(
            [Change(query=Query(collection="messages", scope=Scope(user=LIN)), text=secret())]
        )
        await journal.apply([Remove(Query(collection="messages", scope=Scope(user=LIN, session=secret())))])
    with Spool(folder) as spool:
        given_up = [
            Waiting(ops=[Add([said(LIN, secret()), said(ANN, others())])]),
            Waiting(ops=[Add([said(LIN, secret())])]),
        ]
        spool.put(given_up)
        spool.head(100)
        spool.bury([each.id for each in given_up], "too large")
    (folder / "failed_events.bad.jsonl").write_text(
        f'{{"torn": "{secret()}", "user":"{LIN}"\n{{"torn": "{others()}"\n'
    )
    assert secret.found_in(bytes_of(folder)) == secret.words

    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        subject = Subject.of("", user_id=LIN)
        counted = await forget(store, subject, queue=folder, dry_run=True)
        assert (counted.removed["queued writes"], counted.removed["dead letters"]) == (4, 2)
        told = await forget(store, subject, queue=folder, scrub=True)
        assert {**told.removed, "damaged lines": 1} == {**counted.removed, "damaged lines": 1}
        assert (told.scrub, told.removed["damaged lines"]) == ("done", 1)
        assert secret.found_in(bytes_of(tmp_path)) == []
        assert others.found_in(bytes_of(folder)) == others.words
        assert (inspect(folder).waiting, inspect(folder).dead) == (1, 1)
        async with Journal(store, folder, owned=False) as journal:
            await journal.replay_now()
            await journal.replay_dead()
            await journal.replay_now()
            found = await journal.find(Query(collection="messages"))
        assert sorted(each.text for each in found) == sorted(others.words[:2])
    assert list(peek(folder)) == []


async def test_a_journal_of_this_process(tmp_path, secret):
    """What this process has queued, and tries again and again, never arrives."""
    faulty = Faulty(open_store(f"sqlite:///{tmp_path}/a.db"))

    def poison(ops):
        if any(isinstance(op, Add) and r.scope.user == LIN for op in ops for r in op.records):
            from octavo import StoreUnavailable

            raise StoreUnavailable("not now")

    others = Secrets()
    async with Journal(faulty, tmp_path / "queue", timeout=0.5, max_retries=1000) as journal:
        faulty.mode = "down"
        await journal.apply([Add([said(LIN, secret())])])
        await journal.apply([Add([said(ANN, others())])])
        faulty.poison, faulty.mode = poison, "up"
        await journal.replay_now()
        told = await forget(journal, Subject.of("", user_id=LIN), scrub=True)
        assert told.removed["queued writes"] == 1
        faulty.poison = None
        await journal.replay_now()
        assert [each.text for each in await journal.find(Query(collection="messages"))] == others.words
        assert journal.status().waiting == 0
    assert secret.found_in(bytes_of(tmp_path)) == []


async def test_a_time_is_nobodys(tmp_path):
    """Of two messages of one millisecond one stays, and with it the time in its line of the file."""
    at = datetime(2026, 11, 18, 20, 36, 48, 297262, UTC)
    async with open_store(f"file://{tmp_path}/files") as store:
        await store.apply(
            [Add([said(LIN, "a secret of his", data={"timestamp": "2026-11-18 20:36:48.297"})])]
        )
        await store.apply([Add([said(ANN, "what she says", created_at=at)])])
        told = await forget(store, Subject.of("", user_id=LIN), scrub=True)
        assert (told.scrub, told.found) == ("done", 0)


@pytest.mark.parametrize(
    ("kind", "after"), [("sqlite", 0.0), ("sqlite", 0.1), ("sqlite", 0.3), ("file", 0.05), ("file", 0.2)]
)
async def test_killed_in_the_middle(kind, after, tmp_path, secret):
    """`kill -9` at any moment, and a second `forget` finds the rest."""
    url = f"sqlite:///{tmp_path}/a.db" if kind == "sqlite" else f"file://{tmp_path}/files"
    others = Secrets()
    async with open_store(url) as store:
        for user, words in ((LIN, secret), (ANN, others)):
            await write_all(
                store, "", user, tmp_path, words, [face for face in FACES if "vault" not in face.__name__]
            )
    here = os.path.dirname(__file__)  # noqa: PTH120
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, url, str(tmp_path), here],
        stdout=subprocess.PIPE, cwd=tmp_path / "work", text=True,
    )  # fmt: skip
    assert child.stdout.readline() == "ready\n"
    await asyncio.sleep(after)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    async with open_store(url) as store:
        told = await forget(store, Subject.of("", user_id=LIN), scrub=True)
        assert (told.scrub, told.found) == ("done", 0)
        assert not [r for r in await store.find(Query(collection="messages")) if r.scope.user == LIN]
        assert len([r for r in await store.find(Query(collection="messages")) if r.scope.user == ANN]) > 3
    assert secret.found_in(bytes_of(tmp_path)) == []
    assert others.found_in(bytes_of(tmp_path))
