"""API keys: what opens, what does not, and what a store is asked for it."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from octavo import Add, InvalidRecord, NotFound, Query, Record, Scope, StoreUnavailable, open_store
from octavo.kernel.codec import MAX_NAME_BYTES, MAX_TENANT_BYTES
from octavo.keys import ACCESS, Keys
from octavo.wraps import Journal, Wrap

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    """A time that moves only when told to."""

    def __init__(self):
        self.seconds = 0.0

    def now(self):
        return NOON + timedelta(seconds=self.seconds)

    def timer(self):
        return self.seconds


class Counted(Wrap):
    """A store that counts its reads, and answers them only when `gate` is open."""

    def __init__(self, store):
        super().__init__(store)
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.down = False

    async def apply(self, ops):
        if self.down:
            raise StoreUnavailable("connection refused")
        return await self.inner.apply(ops)

    async def find(self, query):
        self.reads += 1
        if self.down:
            raise StoreUnavailable("connection refused")
        found = await self.inner.find(query)
        await self.gate.wait()
        return found


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def counted():
    async with Counted(open_store("memory://")) as store:
        yield store


@pytest.fixture
def keys(counted, clock):
    return Keys(counted, clock=clock.now, timer=clock.timer)


def another(keys, clock):
    """Another process over the same store."""
    return Keys(keys._store, clock=clock.now, timer=clock.timer)


async def test_a_key_lives_and_ends_on_every_store(store_url):
    """Made by one, checked by another, listed, revoked, and then refused but still listed."""
    async with open_store(store_url) as store:
        made = await Keys(store).create("laptop 笔记本", access="write", tenant="acme")
        other = await Keys(store).create("board", expires=timedelta(days=1))
        again = Keys(store)
        assert await again.check(made.key) == made.info
        assert (made.info.name, made.info.access, made.info.tenant) == ("laptop 笔记本", "write", "acme")
        assert await again.list() == [made.info, other.info]
        assert await again.list("acme") == [made.info]
        assert await again.list("") == [other.info]
        revoked = await again.revoke(made.info.id)
        assert revoked.revoked_at is not None
        assert msgspec.structs.replace(revoked, revoked_at=None) == made.info
        assert await again.check(made.key) is None
        assert await Keys(store).check(made.key) is None
        assert await Keys(store).check(other.key) == other.info
        assert await again.list("acme") == [revoked]
        assert await again.revoke(made.info.id) == revoked  # the first revocation is the one on record
        with pytest.raises(NotFound, match="0123456789abcdef"):
            await again.revoke("0123456789abcdef")
        with pytest.raises(NotFound) as missing:  # a whole key does for its id, and its secret is not told
            await again.revoke("oct_0123456789abcdef_" + "5" * 64)
        assert "5555" not in str(missing.value)
        assert (await again.revoke(other.key)).id == other.info.id


async def test_the_secret_is_kept_nowhere(keys, counted):
    """A hash is all that is stored, and nothing that can be printed holds the secret."""
    made = await keys.create("laptop")
    secret = made.key.rpartition("_")[2]
    assert len(bytes.fromhex(secret)) == 32
    kept = await counted.inner.find(Query(collection="keys"))
    assert [record.id for record in kept] == [made.info.id]
    assert secret not in msgspec.json.encode(kept).decode()
    for said in (repr(made), str(made), repr(made.info), repr(keys)):
        assert secret not in said


async def test_keys_differ(keys):
    made = [await keys.create("same name") for _ in range(50)]
    assert len({each.key for each in made}) == len({each.info.id for each in made}) == 50


@pytest.mark.parametrize(
    "change",
    [
        lambda key: "",
        lambda key: "oct_",
        lambda key: key[:-1],
        lambda key: key + "0",
        lambda key: key + "\n",
        lambda key: f" {key}",
        lambda key: key.upper(),
        lambda key: key.replace("oct_", "otc_"),
        lambda key: key[:-1] + "\N{FULLWIDTH DIGIT ONE}",
        lambda key: "x" * 1_000_000,
        lambda key: "\0\ud800",
    ],
)
async def test_what_is_no_key_costs_no_read(keys, counted, change):
    made = await keys.create("laptop")
    assert await keys.check(change(made.key)) is None
    assert counted.reads == 0


async def test_a_wrong_secret_of_a_known_key_is_refused(keys, counted):
    """And costs one read for any number of tries."""
    made, other = await keys.create("a"), await keys.create("b")
    mixed = f"oct_{made.info.id}_{other.key.rpartition('_')[2]}"
    for _ in range(10):
        assert await keys.check(mixed) is None
    assert await keys.check(made.key) == made.info
    assert counted.reads == 1


async def test_answers_are_believed_for_five_seconds(keys, counted, clock):
    """A key that another process revokes stops within that time."""
    made = await keys.create("laptop")
    for _ in range(3):
        assert await keys.check(made.key) == made.info
    assert counted.reads == 1
    await another(keys, clock).revoke(made.info.id)
    clock.seconds = 4.9
    assert await keys.check(made.key) == made.info
    clock.seconds = 5.0
    assert await keys.check(made.key) is None
    assert await keys.check(made.key) is None  # and for ever, without another read
    assert counted.reads == 3  # one of them by the revocation


async def test_a_slow_read_is_not_believed_longer(keys, counted, clock):
    """The five seconds begin before the read does, or a revocation during a slow one would count from its end."""
    made = await keys.create("laptop")
    counted.gate.clear()
    checking = asyncio.create_task(keys.check(made.key))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    clock.seconds = 4.0
    counted.gate.set()
    assert await checking == made.info
    reads = counted.reads
    clock.seconds = 5.0
    await keys.check(made.key)
    assert counted.reads == reads + 1


async def test_revoked_here_is_revoked_at_once(keys, counted, clock):
    """Even for a check that began before, and what it brings is not kept."""
    made = await keys.create("laptop")
    counted.gate.clear()
    checking = asyncio.create_task(keys.check(made.key))
    while not counted.reads:
        await asyncio.sleep(0)
    revoking = asyncio.create_task(keys.revoke(made.info.id))
    while counted.reads < 2:
        await asyncio.sleep(0)
    counted.gate.set()
    await revoking
    assert await checking is None
    assert await keys.check(made.key) is None


async def test_an_expired_key_is_refused(keys, clock):
    """To the moment, although it is in the cache; it stays listed."""
    made = await keys.create("visitor", expires=timedelta(seconds=3))
    assert made.info.expires_at == NOON + timedelta(seconds=3)
    clock.seconds = 2.999
    assert await keys.check(made.key) == made.info
    clock.seconds = 3
    assert await keys.check(made.key) is None
    assert await keys.list() == [made.info]


async def test_a_store_that_is_down_is_not_an_unknown_key(keys, counted):
    """It raises, is not remembered, and the next check asks again."""
    made = await keys.create("laptop")
    counted.down = True
    with pytest.raises(StoreUnavailable):
        await keys.check(made.key)
    counted.down = False
    assert await keys.check(made.key) == made.info


async def test_a_revocation_that_was_seen_is_final(store_url, tmp_path, clock):
    """On every store, however long ago it was seen, and though the store is away: also one that waits in a queue for it."""
    async with (
        Counted(open_store(store_url)) as store,
        Journal(store, tmp_path / "queue", owned=False) as queued,
    ):
        keys = Keys(queued, clock=clock.now, timer=clock.timer)
        seen, made_here = await keys.create("seen"), await keys.create("made here")
        for made in (seen, made_here):
            assert await keys.check(made.key) == made.info
        await another(keys, clock).revoke(seen.info.id)
        clock.seconds = 6.0
        assert await keys.check(seen.key) is None
        store.down = True
        with pytest.raises(StoreUnavailable):
            await keys.revoke(made_here.info.id)  # it waits: nobody can say whether there is such a key
        clock.seconds = 9000.0
        for made in (seen, made_here):
            assert await keys.check(made.key) is None
            assert keys.is_revoked(made.info.id)
        store.down = False
        await queued.replay_now()
        fresh = another(keys, clock)
        assert [await fresh.check(made.key) for made in (seen, made_here)] == [None, None]


async def test_made_up_keys_fill_no_memory_and_push_nobody_out(counted, clock):
    keys = Keys(counted, most_cached=10, clock=clock.now, timer=clock.timer)
    made = await keys.create("laptop")
    await keys.check(made.key)
    for number in range(100):
        assert await keys.check(f"oct_{number:016x}_{'0' * 64}") is None
    assert len(keys._known._held) == 1
    reads = counted.reads
    assert await keys.check(made.key) == made.info
    assert counted.reads == reads


async def test_each_access_includes_the_weaker(keys):
    allowed = {
        access: [(await keys.create(access, access=access)).info.allows(each) for each in ACCESS]
        for access in ACCESS
    }
    assert allowed == {
        "read": [True, False, False],
        "write": [True, True, False],
        "admin": [True, True, True],
    }


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("", {}, "name"),
        ("  ", {}, "name"),
        ("n" * (MAX_NAME_BYTES + 1), {}, str(MAX_NAME_BYTES)),
        ("nul\0", {}, "text"),
        ("a", {"access": "root"}, "read, write, admin"),
        ("a", {"user": " "}, "a user's name"),
        ("a", {"tenant": "t" * (MAX_TENANT_BYTES + 1)}, "tenant"),
        ("a", {"tenant": "\ud800"}, "tenant"),
        ("a", {"tenant": "\0"}, "tenant"),
        ("a", {"expires": NOON}, "2026-03-01 12:00:00 UTC"),
        ("a", {"expires": timedelta(-1)}, "never have worked"),
        ("a", {"expires": timedelta.max}, "no such time"),
    ],
)
async def test_what_cannot_be_a_key_is_refused(keys, name, more, said):
    with pytest.raises(InvalidRecord, match=said):
        await keys.create(name, **more)
    assert await keys.list() == []


async def test_the_longest_tenant_can_be_used(keys, counted):
    """What a key may open, a record can belong to."""
    tenant = "t" * MAX_TENANT_BYTES
    made = await keys.create("a", tenant=tenant)
    assert (await keys.check(made.key)).tenant == tenant
    await counted.apply([Add([Record(collection="profile", scope=Scope(tenant=tenant))])])


async def test_a_row_written_by_hand_opens_nothing(keys, counted):
    made = await keys.create("laptop")
    for id_, kind, data in (("1" * 16, "root", {"hash": "0" * 64}), ("2" * 16, "admin", {})):
        await counted.apply([Add([Record(collection="keys", id=id_, kind=kind, data=data)])])
        assert await keys.check(f"oct_{id_}_{made.key.rpartition('_')[2]}") is None
