"""After `forget` and a scrub no byte of a user is left, and no byte of anybody else is touched; on every store."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from dumps import dump
from faces import FACES, Secrets, bytes_of, write_all

from octavo import AsyncMemory, Query, Scope, open_store
from octavo.erasing import Certificate, Subject, certificates, forget, scrub
from octavo.errors import InvalidQuery
from octavo.kernel.pages import walk
from octavo.kernel.shapes import SHAPES
from octavo.layers.rules.extractor import RuleExtractor
from octavo.service.vault import Vault
from octavo.testing.embedding import HashEmbedder
from octavo.vectors import ExactIndex
from octavo.wraps.vectors import Indexed
from serving import KINDS, url_of

TENANT = "acme"
LIN, ANN = "lin zhou", "ann"
SERVERS = ("postgres", "mysql", "redis")


async def all_of(store, tenant=TENANT):
    """Every record there is, but for certificates."""
    found = []
    for collection in SHAPES:
        if collection != "erasures":
            query = Query(collection=collection, scope=Scope(tenant=tenant))
            found += [record async for page in walk(store, query) for record in page]
    return found


def spelled(records):
    return sorted(msgspec.json.encode(record) for record in records)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def url(kind, tmp_path, request):
    return url_of(kind, tmp_path / "store", request.getfixturevalue("fresh_url") if kind in SERVERS else None)


async def everything(kind, url, store, folder):
    """All the bytes that are left, wherever they can be looked at."""
    if kind == "memory":
        return b"\n".join(spelled(await all_of(store)))
    if kind in SERVERS:
        return await dump(kind, url) + bytes_of(folder / "vault")
    return bytes_of(folder)


@pytest.mark.every_store
async def test_nothing_is_left(kind, url, tmp_path, secret):
    """Through every face, with a secret in each field: 0 hits in all bytes, and all of the other user is there."""
    (tmp_path / "store").mkdir()
    others = Secrets()
    store = Indexed(open_store(url), index := ExactIndex(open_store("memory://"), owned=True), HashEmbedder())
    async with store, Vault(tmp_path / "vault", store, scope=Scope(tenant=TENANT)) as vault:
        await write_all(store, TENANT, LIN, tmp_path, secret)
        await write_all(store, TENANT, ANN, tmp_path, others)
        await store.settle(30)
        before = [record for record in await all_of(store) if record.scope.user == ANN]
        assert len(before) > 20
        there = secret.found_in(await everything(kind, url, store.inner, tmp_path))
        assert (
            len(there) > len(secret.words) - 5
        )  # two are in no record: a question, and what a rule leaves out

        counted = await forget(store, Subject.of(TENANT, user_id=LIN), vault=vault, dry_run=True)
        assert counted.dry_run
        assert spelled(await all_of(store)) != spelled(before)
        told = await forget(store, Subject.of(TENANT, user_id=LIN), vault=vault, scrub=True)
        assert {**told.removed, "vector markers": 0} == {**counted.removed, "vector markers": 0}
        for place in ("messages", "observations", "turns", "events", "log", "profile", "episodes", "summaries",
                      "entities", "exchanges", "configs", "versions", "vault files"):  # fmt: skip
            assert told.removed[place], place
        assert (told.scrub, told.found, told.digests > 100) == ("done", 0, True)
        left = await everything(kind, url, store.inner, tmp_path)
        assert secret.found_in(left) == []
        assert LIN.encode() not in left
        after = await all_of(store)
        assert spelled(record for record in after if record.scope.user == ANN) == spelled(before)
        assert not [record for record in after if record.scope.user == LIN]
        for space in await index.spaces():
            scope_keys = {key.scope_key async for page in index.walk(space.name) for key, _ in page}
            assert scope_keys <= {record.scope.key for record in after}

        # A stranger of the same name.
        await write_all(store, TENANT, LIN, tmp_path, fresh := Secrets())
        assert secret.found_in(await everything(kind, url, store.inner, tmp_path)) == []
        assert fresh.found_in(await everything(kind, url, store.inner, tmp_path))


async def test_the_certificate(kind, url, tmp_path, secret):
    """It is kept, says no name and no text, and `pending` until the bytes were looked for; the scrub does so for many."""
    (tmp_path / "store").mkdir()
    async with open_store(url) as store:
        for user in (LIN, ANN):
            await write_all(
                store, "", user, tmp_path, secret, [face for face in FACES if "vault" not in face.__name__]
            )
            told = await forget(store, Subject.of("", user_id=user))
            assert (told.scrub, told.scrubbed_at, told.scanned) == ("pending", None, {})
        kept = await certificates(store)
        assert [each.scrub for each in kept] == ["pending", "pending"]
        assert len({each.subject for each in kept}) == 2
        steps = []
        done = await scrub(store, progress=lambda *step: steps.append(step))
        assert [each.scrub for each in done] == ["done", "done"]
        assert done == await certificates(store)
        assert steps
        assert await scrub(store) == []
        if kind in ("file", "sqlite"):
            assert done[0].scanned["bytes"] > 1000
            assert "VACUUM" in str(done[0].scrubbed)
        if kind in SERVERS:
            assert {"postgres": "VACUUM", "mysql": "OPTIMIZE TABLE", "redis": "terms"}[kind] in str(
                done[0].scrubbed
            )
        assert any("backups" in word for word in done[0].unreached)
        for words in (
            msgspec.json.encode(done),
            repr(await store.find(Query(collection="erasures"))).encode(),
        ):
            assert secret.found_in(words) == []
            assert LIN.encode() not in words
    key = Path("octavo_queue/digest.key")
    assert key.stat().st_mode & 0o777 == 0o600
    raw = key.read_bytes().strip()
    assert bytes.fromhex(raw.decode()) not in bytes_of(tmp_path / "store")
    assert raw not in bytes_of(tmp_path / "store")


async def test_what_is_left_is_found(tmp_path, secret):
    """The scan is no formality: a copy that lies beside the queue is told of, and its removal too."""
    (tmp_path / "queue").mkdir()
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        await write_all(store, "", LIN, tmp_path, secret, FACES[:1])
        word = secret.words[-1]
        (tmp_path / "queue" / "copy.txt").write_text(f'{{"text": "{word}"}}')
        told = await forget(store, Subject.of("", user_id=LIN), queue=tmp_path / "queue", scrub=True)
        assert (told.scrub, told.found > 0) == ("found", True)
        (tmp_path / "queue" / "copy.txt").unlink()
        [told] = await scrub(store, queue=tmp_path / "queue")
        assert (told.scrub, told.found) == ("done", 0)


async def test_what_others_say_too(tmp_path):
    """A text that another user has is not looked for: it is theirs."""
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        for user in (LIN, ANN):
            await write_all(
                store,
                "",
                user,
                tmp_path,
                lambda prefix="": f"{prefix} the same words of everybody",
                FACES[:1],
            )
        told = await forget(store, Subject.of("", user_id=LIN), scrub=True)
        assert (told.scrub, told.found) == ("done", 0)


async def test_whose(tmp_path):
    for named in ({}, {"user_id": "a", "agent_id": "b"}, {"user_id": ""}, {"user_id": None}):
        with pytest.raises(InvalidQuery, match="whose data"):
            Subject.of("", **named)
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        told = await forget(store, Subject.of("", user_id="nobody"))
        assert isinstance(told, Certificate)
        assert told.total == 0


@pytest.mark.parametrize("known", [False, True], ids=["a stranger", "known"])
async def test_facts_that_are_being_found(kind, url, tmp_path, known):
    """What a model reads while its text is forgotten is not written afterwards, whatever it finds."""
    reading, go_on = asyncio.Event(), asyncio.Event()

    class Slow(RuleExtractor):
        async def decide(self, text, known, **more):
            reading.set()
            await go_on.wait()
            return await super().decide(text, known, **more)

    async with open_store(url) as store, AsyncMemory(store, model=Slow()) as memory:
        if known:
            go_on.set()
            await memory.add("I have a dog.", user_id=LIN)
            reading.clear()
            go_on.clear()
        adding = asyncio.create_task(memory.add("I live in Berlin. I am allergic to peanuts.", user_id=LIN))
        await reading.wait()
        await memory.forget(user_id=LIN)
        go_on.set()
        assert (await adding).memories == []
        assert await all_of(store, "") == []


async def test_two_at_once(tmp_path, secret):
    """Two that forget the same user at the same time both succeed."""
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        await write_all(store, "", LIN, tmp_path, secret, FACES[:1])
        both = [forget(store, Subject.of("", user_id=LIN)) for _ in range(2)]
        told = await asyncio.gather(*both)
        assert sum(each.removed.get("events", 0) for each in told) == 1


def test_without_numpy(monkeypatch):
    """The same digests are found, only more slowly."""
    from octavo.erasing import certificate

    digester = certificate.Digester(bytes(32))
    wanted = certificate.Digests(digester.digests(["a text of some length, 还有中文"]))
    data = b"before" + '{"x":"a text of some length, 还有中文"}'.encode() + b"after"
    quick = digester.find(data, wanted)
    monkeypatch.setattr(certificate, "_numpy", lambda: None)
    assert digester.find(data, certificate.Digests(wanted.all)) == quick
    assert len(quick) >= 3
    assert not digester.find(b"nothing of the sort in here", wanted)
