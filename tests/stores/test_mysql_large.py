"""Large records on a MySQL or MariaDB whose max_allowed_packet is what it is by default, or less."""

import asyncio
from contextlib import ExitStack

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from octavo import Add, Change, InvalidQuery, InvalidRecord, Query, Record, Scope, open_store
from octavo.stores.doctor import examine
from octavo.stores.sql import SQLAlchemyStore
from octavo.wraps import Journal
from sampled import sampled
from servers.mysql import MySQL

MIB = 1 << 20
HERE = Scope(tenant="t", session="s")
DEFAULT, SMALL = 16 * MIB, 1 * MIB
DRIVERS = ("mysql", "mysql+asyncmy", "mysql+aiomysql")


class Narrow(MySQL):
    """A server that takes less at once than others."""

    packet = DEFAULT

    def command(self):
        return [*super().command(), f"--max-allowed-packet={self.packet}"]


class Narrower(Narrow):
    packet = SMALL


@pytest.fixture(scope="module")
def server_of():
    """A server that only these tests use, of this size."""
    with ExitStack() as stack:
        started = {}

        def of(packet):
            if packet not in started:
                server = {DEFAULT: Narrow, SMALL: Narrower}[packet]()
                stack.callback(server.close)
                server.start()
                started[packet] = server
            return started[packet]

        yield of


@pytest.fixture
def opened(server_of):
    """Opens stores on an empty database of a server of some size, through a driver."""
    with ExitStack() as stack:
        urls = {}
        engines = []

        def opening(packet, driver="mysql"):
            if packet not in urls:
                urls[packet] = stack.enter_context(MySQL.fresh(server_of(packet).url))
            if driver == "mysql":
                return open_store(urls[packet])
            engine = create_async_engine(f"{driver}://{urls[packet].partition('://')[2]}")
            engines.append(engine)
            store = SQLAlchemyStore(engine)
            close = store.close

            async def close_both():
                await close()
                await engine.dispose()

            store.close = close_both
            return store

        yield opening


def note(name, **fields):
    return Record(collection="messages", id=name, scope=HERE, **fields)


def named(name):
    return Query(collection="messages", scope=HERE, ids=(name,))


LARGE = {
    "quotes": {"text": "'" * (8 * MIB)},
    "backslashes": {"text": "\\" * (8 * MIB)},
    "data": {"data": {"said": "a'b\\c" * (5 * MIB // 2)}},
    "all that is allowed": {"text": "🧠" * (4 * MIB - 9)},
}


@sampled(
    ("name", "driver"),
    [*((name, "mysql") for name in LARGE), *(("data", driver) for driver in DRIVERS[1:])],
    share=6,
)
async def test_what_the_server_can_take_is_kept(opened, driver, name):
    """A record that fits is kept however it has to be sent: quotes and backslashes double on their way."""
    async with opened(DEFAULT, driver) as store:
        given = note(name, **LARGE[name])
        assert await store.apply([Add([note("before", text="b"), given, note("after", text="a")])]) == [3]
        assert await store.apply([Add([given])]) == [0]  # as it is there already
        [found] = await store.find(named(name))
        assert found.text == given.text
        assert found.data == given.data
        assert await store.apply([Change(query=named(name), merge={"seen": True})]) == [1]
        [found] = await store.find(named(name))
        assert found.text == given.text
        assert found.data == given.data | {"seen": True}


@pytest.mark.parametrize("driver", DRIVERS)
async def test_what_it_cannot_is_refused_at_once(opened, driver):
    """It is InvalidRecord, with the server's setting and the cure; nothing of its batch is kept, and all others are."""
    async with opened(SMALL, driver) as store:
        too_much = note("large", text="x" * (SMALL + 1))
        others = [store.apply([Add([note(f"small-{n}", text="s" * 5000)])]) for n in range(20)]
        *answers, refused = await asyncio.gather(
            *others, store.apply([Add([note("with it"), too_much])]), return_exceptions=True
        )
        assert answers == [[1]] * 20
        assert isinstance(refused, InvalidRecord)
        for word in ("'large'", "max_allowed_packet", str(SMALL), str(SMALL + 1), "SET GLOBAL"):
            assert word in str(refused)
        assert await store.find(named("with it")) == []
        with pytest.raises(InvalidRecord, match="max_allowed_packet"):
            await store.apply([Change(query=named("small-0"), text="x" * (SMALL + 1))])
        assert await store.apply([Add([note("just", text="x" * SMALL)])]) == [1]
        assert await store.apply([Add([note(f"many-{n}", text="'" * 60_000) for n in range(40)])]) == [40]
        assert (await store.tally(Query(collection="messages", scope=HERE))).total == 61


async def test_what_grows_when_it_is_folded_is_measured_as_it_is_stored(opened):
    """One character may become six for searching, and what does not fit then is refused as well."""
    async with opened(SMALL) as store:
        with pytest.raises(InvalidRecord, match="search"):
            await store.apply([Add([note("grows", text="\u3316" * (SMALL // 5))])])
        assert await store.apply([Add([note("fits", text="\u3316" * (SMALL // 40))])]) == [1]


async def test_nothing_is_queued_and_nobody_waits(opened, tmp_path):
    """Behind a Journal a record that is too large is an error, not an outage: the queue stays empty."""
    async with Journal(opened(SMALL), tmp_path / "queue") as journal:
        assert (await journal.write([Add([note("a", text="a")])])).status == "stored"
        with pytest.raises(InvalidRecord, match="max_allowed_packet"):
            await journal.write([Add([note("large", text="x" * (SMALL + 1))])])
        status = journal.status()
        assert (status.state, status.waiting, status.queued) == ("up", 0, 0)
        assert (await journal.write([Add([note("b", text="b'" * 300_000)])])).status == "stored"
        assert len(await journal.find(Query(collection="messages", scope=HERE))) == 2


async def test_large_records_are_found_by_what_they_say(opened):
    """Their words, and any piece of their text, find them as they find others."""
    async with opened(SMALL) as store:
        text = "'" * 300_000 + " needle " + "\\" * 300_000
        await store.apply([Add([note("hay", text="hay"), note("large", text=text)])])
        assert [
            found.id for found in await store.find(Query(collection="messages", scope=HERE, text="' needle"))
        ] == ["large"]
        whole = Query(collection="messages", scope=HERE, text=text)
        assert [found.id for found in await store.find(whole)] == ["large"]
        matches = await store.search(Query(collection="messages", scope=HERE), ["hay"])
        assert matches.held == (1,)
        assert await store.reindex("messages") == 2


async def test_a_query_that_cannot_be_sent_says_so(opened):
    """It is refused with the cure, and the store goes on."""
    async with opened(SMALL) as store:
        await store.apply([Add([note("a")])])
        ids = tuple(f"{number}-{'x' * 100}" for number in range(12_000))
        with pytest.raises(InvalidQuery, match="max_allowed_packet"):
            await store.find(Query(collection="messages", scope=HERE, ids=ids))
        with pytest.raises(InvalidQuery, match="max_allowed_packet"):
            await store.find(Query(collection="messages", scope=HERE, text="x" * (SMALL + 1)))
        assert len(await store.find(Query(collection="messages", scope=HERE))) == 1


@pytest.mark.parametrize("packet", [DEFAULT, SMALL])
async def test_doctor_warns_of_a_setting_that_is_too_small(opened, packet):
    async with opened(packet) as store:
        [finding] = [each for each in (await examine(store)).warnings if each.name == "max_allowed_packet"]
        assert finding.value == str(packet)
        assert "SET GLOBAL max_allowed_packet" in finding.warning
