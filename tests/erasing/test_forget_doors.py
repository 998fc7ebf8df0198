"""Every door forgets alike: Python, the command, HTTP and its client; also by session, by agent and by memory."""

import asyncio

import httpx
import pytest
from click.testing import CliRunner
from faces import FACES, Secrets, bytes_of, write_all

from octavo import Add, AsyncMemory, Memory, NotFound, Query, Record, Scope, open_store
from octavo.cli.commands import octavo
from octavo.client import Client
from octavo.config import Database, FailureQueue, Settings
from octavo.config import Vault as VaultSettings
from octavo.erasing import Certificate, certificates
from octavo.erasing.certificate import watch_erasures
from octavo.server import create_app
from octavo.util.cache import Cache, times_cleared
from octavo.wraps.deduped import Deduped
from running_server import octavo_serves

LIN, ANN = "lin", "ann"


@pytest.fixture
async def filled(tmp_path, secret):
    """A store that two users wrote to through every face, with a vault beside it."""
    url = f"sqlite:///{tmp_path}/octavo.db"
    async with open_store(url) as store:
        await write_all(store, "", LIN, tmp_path, secret)
        await write_all(store, "", ANN, tmp_path, others := Secrets())
    return url, secret, others


def settings_of(url, folder):
    return Settings(
        database=Database(dsn=url),
        vault=VaultSettings(root_path=str(folder / "vault")),
        failure_queue=FailureQueue(directory=str(folder / "queue")),
    )


async def test_over_http(filled, tmp_path):
    url, secret, others = filled
    app = create_app(settings_of(url, tmp_path))
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as client,
    ):
        counted = (await client.delete(f"/users/{LIN}", params={"dry_run": True})).json()
        assert counted["removed"]["vault files"] == 1
        assert not (tmp_path / "queue" / "digest.key").exists()
        told = (await client.delete(f"/users/{LIN}", params={"scrub": True})).json()
        assert (told["removed"], told["scrub"], told["found"]) == (counted["removed"], "done", 0)
        again = (await client.delete(f"/users/{LIN}")).json()
        assert (again["removed"], again["scrub"]) == ({}, "pending")
        users = (await client.get("/users")).json()["users"]
        assert [user["user_id"] for user in users] == [ANN]
        path = "/memory/user/a%2Fb%20%E5%BD%A6"
        assert (await client.post(path, json={"content": "likes peppermint tea"})).status_code == 200
        told = (await client.delete("/users/a%2Fb%20%E5%BD%A6")).json()
        assert told["removed"] == {"episodes": 1, "log": 1}
        assert (await client.get(f"{path}/events")).json()["count"] == 0
    assert secret.found_in(bytes_of(tmp_path)) == []
    assert len(others.found_in(bytes_of(tmp_path))) > 20


def test_by_the_client(tmp_path):
    with octavo_serves(f"sqlite:///{tmp_path}/memory.db", tmp_path, "--quiet") as url, Client(url) as client:
        client.remember("likes peppermint tea", user_id=LIN)
        assert client.forget_user(LIN, dry_run=True).total == 2
        told = client.forget_user(LIN, scrub=True)
        assert isinstance(told, Certificate)
        assert (told.total, told.scrub) == (2, "done")
        assert client.users() == []


async def test_by_the_command(filled, tmp_path, monkeypatch):
    url, secret, _ = filled
    monkeypatch.setenv("OCTAVO_URL", url)
    monkeypatch.setenv("OCTAVO__VAULT__ROOT_PATH", str(tmp_path / "vault"))

    def run(*words, **more):
        return CliRunner().invoke(octavo, ["forget", *words], **more)

    def in_thread(*words, **more):
        return asyncio.to_thread(run, *words, **more)

    assert "vault files" in (await in_thread("--user", LIN, "--dry-run")).stdout
    asked = await in_thread("--user", LIN, input="n\n")
    assert (asked.exit_code, "for good?" in asked.stderr) == (1, True)
    assert secret.found_in(bytes_of(tmp_path))
    told = await in_thread("--user", LIN, "--yes")
    assert (told.exit_code, "scrub: done" in told.stdout) == (0, True)
    assert secret.found_in(bytes_of(tmp_path)) == []
    pending = await in_thread("--user", ANN, "--yes", "--no-scrub")
    assert "scrub: pending" in pending.stdout
    assert "scrub: done" in (await in_thread("--scrub")).stdout
    for words in ((), ("--user", "a", "--agent", "b"), ("--dry-run", "--scrub")):
        wrong = await in_thread(*words)
        assert (wrong.exit_code, "whose data" in wrong.stderr) == (2, True)
    assert (await in_thread("--user", "a", "--json")).exit_code == 2


async def test_a_session(tmp_path):
    """What was said and learnt in it goes; what was said and learnt elsewhere stays."""
    async with AsyncMemory(f"sqlite:///{tmp_path}/a.db") as memory:
        await memory.add("I live in Nowheresville.", user_id=LIN, session_id="monday")
        await memory.add("I like quince marmalade.", user_id=LIN, session_id="tuesday")
        told = await memory.forget(session_id="monday", scrub=True)
        assert (told.what, told.scrub, told.removed) == (
            "session",
            "done",
            {"log": 1, "messages": 1, "profile": 1},
        )
        assert [fact.content for fact in await memory.get_all(user_id=LIN)] == [
            "The user likes quince marmalade"
        ]
    assert b"owheresville" not in bytes_of(tmp_path)
    assert b"quince" in bytes_of(tmp_path)


async def test_one_users_part_of_a_session(tmp_path):
    """Of a session that several share, what is another's stays; what names nobody goes with its only user."""
    async with AsyncMemory(f"sqlite:///{tmp_path}/a.db") as memory:
        for user, said in ((LIN, "I live in Nowheresville."), (ANN, "I like quince marmalade.")):
            await memory.add(said, user_id=user, session_id="monday")
        await memory.add("I play the bassoon.", user_id=LIN, session_id="tuesday")
        nobodys = [
            Record(collection="turns", id=name, kind="ok", scope=Scope(session=name))
            for name in ("monday", "tuesday")
        ]
        await memory.store.apply([Add(nobodys)])
        every = await memory.forget(session_id="monday", dry_run=True)
        assert (every.users, every.named, every.removed["messages"]) == (2, (ANN, LIN), 2)
        told = await memory.forget(user_id=LIN, session_id="monday", scrub=True)
        assert (told.users, told.named, told.scrub) == (1, (), "done")
        assert told.removed == {"log": 1, "messages": 1, "profile": 1}
        assert b"owheresville" not in bytes_of(tmp_path)
        assert b"quince" in bytes_of(tmp_path)
        assert (await memory.forget(user_id=LIN, session_id="tuesday")).removed["turns"] == 1
        assert [each.id for each in await memory.store.find(Query(collection="turns"))] == ["monday"]
        assert len(await memory.get_all(user_id=ANN)) == 1


def test_the_command_says_whose_a_session_is(tmp_path, monkeypatch):
    monkeypatch.setenv("OCTAVO_URL", f"sqlite:///{tmp_path}/a.db")

    def run(*words, **more):
        return CliRunner().invoke(octavo, [*words], **more)

    for user in (LIN, ANN):
        assert run("add", f"I am {user}.", "--user", user, "--session", "monday").exit_code == 0
    asked = run("forget", "--session", "monday", input="n\n")
    assert "that is of 2 users: “ann”, “lin”\n" in asked.stdout
    assert "Erase all this of the session “monday”, of 2 users: “ann”, “lin”, for good?" in asked.stderr
    assert "2 users" in run("forget", "--session", "monday", "--dry-run").stdout
    both = run("forget", "--session", "monday", "--user", LIN, input="y\n")
    assert "Erase all this of the user “lin” in session “monday” for good?" in both.stderr
    assert run("list", "--user", LIN).stdout.startswith("no memory")
    assert "ann" in run("list", "--user", ANN).stdout


@pytest.mark.parametrize("kept", [False, True])
async def test_what_was_rejected(tmp_path, kept):
    """It goes too, unless it is to stay rejected; then the user is known by these digests alone."""
    async with AsyncMemory(f"sqlite:///{tmp_path}/a.db") as memory:
        [home] = (await memory.add("I live in Nowheresville.", user_id=LIN)).memories
        await memory.reject(home.id)
        told = await memory.forget(user_id=LIN, keep_rejected=kept, scrub=True)
        assert (told.scrub, told.removed.get("owners", 0)) == ("done", 0 if kept else 1)
        learnt = (await memory.add("I live in Nowheresville.", user_id=LIN)).memories
        assert [each.action for each in learnt] == ["ignore" if kept else "insert"]


async def test_an_agent(tmp_path):
    async with AsyncMemory(f"sqlite:///{tmp_path}/a.db") as memory:
        await memory.add("I am the agent of Nowheresville.", agent_id="guide", infer=False)
        await memory.add("I like quince marmalade.", user_id=LIN)
        told = await memory.forget(agent_id="guide", scrub=True)
        assert (told.what, told.scrub, told.removed) == ("agent", "done", {"episodes": 1, "log": 1})
    assert b"owheresville" not in bytes_of(tmp_path)
    assert b"quince" in bytes_of(tmp_path)


def test_a_memory_with_its_sources(tmp_path):
    """Its log and the text it was made from go with it, also when it was deleted before."""
    with Memory(f"sqlite:///{tmp_path}/a.db") as memory:
        [home] = memory.add("I live in Nowheresville.", user_id=LIN).memories
        memory.add("I like quince marmalade.", user_id=LIN)
        memory.delete(home.id)
        assert memory.history(home.id)
        told = memory.forget(memory_id=home.id, scrub=True)
        assert (told.what, told.scrub, told.removed) == ("memory", "done", {"log": 2, "messages": 1})
        with pytest.raises(NotFound):
            memory.history(home.id)
        assert len(memory.get_all(user_id=LIN)) == 1
        assert memory.search("quince", user_id=LIN)
    assert b"owheresville" not in bytes_of(tmp_path)
    assert b"quince" in bytes_of(tmp_path)


async def test_other_processes_learn_of_it(tmp_path, secret):
    """A process that watches lets go of its caches when another has erased something; and takes a stranger for new."""
    async with (
        open_store(f"sqlite:///{tmp_path}/a.db") as store,
        open_store(f"sqlite:///{tmp_path}/a.db") as other,
    ):
        await write_all(store, "", LIN, tmp_path, secret, FACES[:1])
        [event] = await store.find(Query(collection="events"))
        deduped = Deduped(other, owned=False)
        from octavo import Add

        assert await deduped.apply([Add([event])]) == [0]
        assert await deduped.apply([Add([event])]) == [0]
        assert deduped.skipped == 1
        dropped = []
        cache = Cache(dropped=lambda key, value: dropped.append((key, value)))
        watching = asyncio.create_task(watch_erasures(other, 0.01))
        await asyncio.sleep(0.1)
        cache.put("a", "b", 10)
        before = times_cleared()
        async with AsyncMemory(store) as memory:
            await memory.forget(user_id=LIN)
        await asyncio.sleep(0.1)
        assert times_cleared() > before + 1  # here, and by the watch
        assert (len(cache), dropped) == (0, [("a", "b")])
        assert await deduped.apply([Add([event])]) == [1]
        watching.cancel()
        assert len(await certificates(other)) == 1
