"""Generated lives: users who write through some faces, in some order, some of them more than once; then one is forgotten."""

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from dumps import dump
from faces import FACES, Secrets, bytes_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_forget import all_of, spelled

from octavo import Add, Query, Remove, Scope, open_store
from octavo.erasing import Subject, forget
from octavo.service.vault import existing_vault
from octavo.util.secrets import DigestKey
from octavo.wraps.journal import Spool, Waiting
from servers import running

FULL = os.environ.get("OCTAVO_TORTURE") == "full"
USERS = ("lin", "林", 'l\'in "o"', "LIN")
STEP = st.tuples(st.sampled_from(USERS), st.sampled_from(range(len(FACES))))
LIFE = st.lists(STEP, min_size=1, max_size=5)
#: What stands in the queue beside it: whose, and whether it was given up.
QUEUED = st.lists(st.tuples(st.sampled_from(USERS), st.booleans()), max_size=3)


async def live(url, folder, life, queued, gone):
    """Write all that, forget one user, and compare what is left with what the others have."""
    secrets = {user: Secrets() for user in USERS}
    async with open_store(url) as store:
        for user, face in life:
            await FACES[face](store, "", user, folder, secrets[user])
        with Spool(folder / "queue") as spool:
            for user, dead in queued:
                entry = Waiting(ops=[Add([message(user, secrets[user]())]), Remove(Query(collection="messages", scope=Scope(user=user, session=secrets[user]())))])  # fmt: skip
                spool.put([entry])
                spool.head(10)
                if dead:
                    spool.bury([entry.id], "too large")
        before = [record for record in await all_of(store, "") if record.scope.user in set(USERS) - {gone}]
        vault = existing_vault(folder / "vault", store, "")
        told = await forget(
            store,
            Subject.of("", user_id=gone),
            vault=vault,
            queue=folder / "queue",
            key=DigestKey(folder / "key"),
            scrub=True,
        )
        after = await all_of(store, "")
        assert spelled(r for r in after if r.scope.user in USERS) == spelled(before)
        assert (told.scrub, told.found) == ("done", 0)
        if told.removed:
            assert told.digests > 0
    return secrets


def message(user, text):
    from octavo import Record

    return Record(collection="messages", kind="user", scope=Scope(user=user, session="s"), text=text)


@pytest.mark.parametrize("kind", ["file", "sqlite"])
@settings(max_examples=100 if FULL else 10, deadline=None, suppress_health_check=list(HealthCheck))
@given(life=LIFE, queued=QUEUED, gone=st.sampled_from(USERS))
def test_any_life(kind, life, queued, gone):
    """No byte of the forgotten one is left, and every record of the others is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"sqlite:///{folder}/a.db" if kind == "sqlite" else f"file://{folder}/files"
        words = asyncio.run(live(url, folder, life, queued, gone))
        left = bytes_of(folder)
        assert words[gone].found_in(left) == []
        for user in set(USERS) - {gone}:
            queued_words = [word for word in words[user].words if word.encode() in bytes_of(folder / "queue")]
            assert len(queued_words) == 2 * sum(each == user for each, _ in queued)


@pytest.mark.torture
@pytest.mark.skipif(not FULL, reason="OCTAVO_TORTURE=full runs it")
@pytest.mark.parametrize("kind", ["postgres", "mysql", "redis"])
def test_any_life_on_a_server(kind, fresh_url):
    """The same on servers, one database for each life."""
    url = fresh_url(kind)

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(life=LIFE, queued=QUEUED, gone=st.sampled_from(USERS))
    def lives(life, queued, gone):
        with tempfile.TemporaryDirectory() as name:
            words = asyncio.run(live(url, Path(name), life, queued, gone))
            assert words[gone].found_in(asyncio.run(dump(kind, url)) + bytes_of(Path(name))) == []

    lives()


async def test_the_append_only_file_of_redis(tmp_path, secret):
    """`BGREWRITEAOF` was asked for and waited for: not even the file of the server holds a word of it."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running("redis", durable=True))
        async with open_store(server.url) as store:
            for name in ("rdbcompression", "aof-use-rdb-preamble"):  # or nobody could look for words in it
                await store.client.config_set(name, "no")
            for face in FACES:
                await face(store, "", "lin", tmp_path, secret)
            await FACES[0](store, "", "ann", tmp_path, others := Secrets())
            assert secret.found_in(bytes_of(server.folder))
            vault = existing_vault(tmp_path / "vault", store, "")
            told = await forget(store, Subject.of("", user_id="lin"), vault=vault, scrub=True)
            assert "BGREWRITEAOF" in told.scrubbed
            assert secret.found_in(bytes_of(server.folder, tmp_path)) == []
            assert secret.found_in(await dump("redis", server.url)) == []
            assert others.found_in(bytes_of(server.folder)) == others.words
