"""Moving records: everything arrives, in order, once, however often it is interrupted."""

import gzip
import io
import itertools
import json
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import pytest

from octavo import Add, ConfigError, Query, Record, Remove, Scope, StoreUnavailable, open_store
from octavo.codec import encode_record
from octavo.shapes import SHAPES
from octavo.transfer import BadLineError, copy, export, import_, reading

BORN = datetime(2026, 3, 1, 12, tzinfo=UTC)
KINDS = ("memory", "file", "sqlite")


def sample(count: int) -> list[Record]:
    """Records of every collection and of three tenants, many of them born in the same microsecond."""
    collections = itertools.cycle(SHAPES)
    return [
        Record(
            collection=next(collections),
            id=f"r{n:05}",
            kind=("user", "assistant")[n % 2],
            scope=Scope(tenant=("", "acme", "东方")[n // 12 % 3], user=f"u{n % 5}", session=f"s{n % 7}"),
            text=f"第{n}条 message, ünï 🧠" if n % 4 else "",
            data={"n": n, "half": n / 2, "deep": [{"a": None}, True]},
            metadata={"even": n % 2 == 0, "name": f"m{n}"},
            marks=("hint", "important")[: n % 3],
            created_at=BORN + timedelta(seconds=n // 10),
            updated_at=BORN + timedelta(days=n),
            expires_at=BORN + timedelta(days=1) if n % 6 == 0 else None,
            seq=10_000 - n,
        )
        for n in range(count)
    ]


async def contents(store) -> bytes:
    """Everything a store keeps, in reading order, as bytes to compare."""
    out = io.BytesIO()
    await export(store, out)
    return out.getvalue()


class Watched:
    """A store that counts what is asked of it and can be unplugged after so many writes."""

    def __init__(self, store, *, writes=None):
        self.store = store
        self.finds = 0
        self.largest_page = 0
        self.writes_left = writes

    async def apply(self, ops):
        if self.writes_left is not None:
            if not self.writes_left:
                raise StoreUnavailable("unplugged")
            self.writes_left -= 1
        return await self.store.apply(ops)

    async def find(self, query):
        self.finds += 1
        found = await self.store.find(query)
        self.largest_page = max(self.largest_page, len(found))
        return found

    async def tally(self, query):
        return await self.store.tally(query)

    async def tenants(self):
        return await self.store.tenants()

    async def close(self):
        await self.store.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        await self.close()


class Plain:
    """A store with the three verbs and nothing else."""

    def __init__(self, store):
        self.apply, self.find, self.tally, self.close = store.apply, store.find, store.tally, store.close

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        pass


@pytest.fixture
async def make(tmp_path, request):
    """A factory of empty stores of any kind, closed after the test."""
    names = itertools.count()
    async with AsyncExitStack() as stack:

        async def made(kind):
            if kind in {"postgres", "mysql", "redis"}:
                url = request.getfixturevalue("fresh_url")(kind)
            else:
                path = tmp_path / f"store{next(names)}"
                url = {"memory": "memory://", "file": f"file://{path}", "sqlite": f"sqlite:///{path}.db"}[
                    kind
                ]
            return await stack.enter_async_context(open_store(url))

        yield made


@pytest.fixture
async def full(make):
    """A memory store with 300 records."""
    store = await make("memory")
    await store.apply([Add(sample(300))])
    return store


@pytest.mark.parametrize("kind", KINDS)
async def test_copy_moves_everything_and_twice_adds_nothing(make, full, kind):
    """Ids, order, times, seq and marks of all tenants and collections arrive in any store and come back the same."""
    there, back = await make(kind), await make("memory")
    moved = await copy(full, there, batch=7)
    assert (moved.read, moved.added, moved.tenants) == (300, 300, 3)
    assert set(moved.collections) == set(SHAPES)
    assert await contents(there) == await contents(full)
    assert (await copy(full, there)).added == 0
    await copy(there, back)
    assert await contents(back) == await contents(full)


@pytest.mark.parametrize("kind", ["postgres", "mysql", "redis"])
async def test_copy_through_a_server_changes_nothing(make, full, kind):
    there, back = await make(kind), await make("sqlite")
    assert (await copy(full, there)).added == 300
    assert (await copy(there, back)).added == 300
    assert await contents(back) == await contents(full)


@pytest.mark.parametrize("kind", KINDS)
async def test_copy_interrupted_at_every_batch_is_taken_up(make, full, tmp_path, kind):
    """Wherever a copy stops, the next one moves the rest and no more, and the two stores end up equal."""
    size, state = 5, tmp_path / "deep" / "state"
    for stop in range(0, 72, 1 if kind == "memory" else 13):
        target = await make(kind)
        with pytest.raises(StoreUnavailable):
            await copy(full, Watched(target, writes=stop), batch=size, resume=state)
        moved = await copy(full, target, batch=size, resume=state)
        assert moved.read + moved.resumed == 300
        assert moved.added == moved.read
        assert (moved.resumed > 0) == (stop > 0)
        assert not state.exists()
        assert await contents(target) == await contents(full)


async def test_an_interrupted_copy_goes_on_fast(make, tmp_path):
    """What was moved before the interruption is not read again."""
    source = await make("memory")
    await source.apply([Add([Record(collection="messages", id=f"{n:05}", seq=n) for n in range(10_000)])])
    target, state = await make("memory"), tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await copy(source, Watched(target, writes=10), batch=1000, resume=state)
    watched = Watched(source)
    moved = await copy(watched, target, batch=1000, resume=state)
    assert moved.resumed == 9_100
    assert moved.read == 900
    assert watched.finds <= len(SHAPES) + 2


async def test_a_walk_is_paged(make):
    """Ten thousand records are read a page at a time, with no page above the batch size."""
    source = await make("memory")
    await source.apply([Add([Record(collection="log", id=f"{n:05}", seq=n) for n in range(10_000)])])
    watched = Watched(source)
    await copy(watched, await make("memory"), collections=["log"], batch=1000)
    assert watched.largest_page == 1000
    assert watched.finds == 11


async def test_pages_of_large_records_are_small(make, monkeypatch):
    """A page holds about as many bytes as fit, not as many records as were asked for."""
    monkeypatch.setattr(reading, "PAGE_BYTES", 50_000)
    source = await make("memory")
    big = [Record(collection="log", id=f"{n:05}", text="x" * 10_000, seq=n) for n in range(300)]
    await source.apply([Add(big)])
    watched = Watched(source)
    target = await make("memory")
    await copy(watched, target, collections=["log"])
    assert watched.largest_page == reading.FIRST_PAGE
    assert watched.finds > 40
    assert await contents(target) == await contents(source)


async def test_a_state_is_not_believed_when_the_target_was_emptied(make, full, tmp_path):
    """A target that lost what it had acknowledged gets it again."""
    state = tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await copy(full, Watched(await make("memory"), writes=5), batch=10, resume=state)
    target = await make("memory")
    moved = await copy(full, target, batch=10, resume=state)
    assert (moved.added, moved.resumed) == (300, 0)
    assert await contents(target) == await contents(full)


async def test_records_that_arrive_behind_the_cursor_are_not_missed(make, tmp_path):
    """An older record added to the source during the interruption is copied too."""
    source, target, state = await make("memory"), await make("memory"), tmp_path / "state"
    rows = [
        Record(collection="messages", id=f"{n:03}", created_at=BORN + timedelta(hours=n), seq=n)
        for n in range(100)
    ]
    await source.apply([Add(rows[10:])])
    with pytest.raises(StoreUnavailable):
        await copy(source, Watched(target, writes=3), batch=10, resume=state)
    await source.apply([Add(rows[:10])])
    await copy(source, target, batch=10, resume=state)
    assert await contents(target) == await contents(source)


async def test_a_torn_state_is_taken_up_to_its_last_whole_line(make, full, tmp_path):
    target, state = await make("memory"), tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await copy(full, Watched(target, writes=9), batch=10, resume=state)
    state.write_bytes(state.read_bytes()[:-9])
    with pytest.raises(StoreUnavailable):
        await copy(full, Watched(target, writes=9), batch=10, resume=state)
    moved = await copy(full, target, batch=10, resume=state)
    assert moved.resumed > 100
    assert await contents(target) == await contents(full)


async def test_the_state_of_another_move_is_refused(make, full, tmp_path):
    state = tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await copy(full, Watched(await make("memory"), writes=2), batch=10, resume=state)
    with pytest.raises(ConfigError, match="state of another move"):
        await copy(full, await make("memory"), collections=["log"], resume=state)
    state.write_text("hello\n")
    with pytest.raises(ConfigError, match="not the state of a move"):
        await copy(full, await make("memory"), resume=state)
    assert state.read_text() == "hello\n"


async def test_a_copy_can_be_narrowed(make, full):
    """By collections and by scope; a scope names one tenant, as everywhere."""
    target = await make("memory")
    moved = await copy(
        full, target, collections=["messages", "log", "log"], scope=Scope(tenant="acme", user="u1")
    )
    assert moved.read == len([r for r in sample(300) if _inside(r)]) > 0
    assert await target.tenants() == ["acme"]
    with pytest.raises(ConfigError, match=r"unknown collection 'logs'; known: events"):
        await copy(full, target, collections=["logs"])
    with pytest.raises(ConfigError, match="1 record or more; got 0"):
        await copy(full, target, batch=0)


def _inside(record):
    return record.collection in {"messages", "log"} and Scope(tenant="acme", user="u1").covers(record.scope)


async def test_a_store_that_cannot_list_tenants_gives_the_empty_one(make, full):
    target = await make("memory")
    moved = await copy(Plain(full), target)
    assert moved.tenants == 1
    assert await target.tenants() == [""]


async def test_tenants_follow_what_is_kept(full):
    assert await full.tenants() == ["", "acme", "东方"]
    await full.apply([Remove(Query(collection=name, scope=Scope(tenant="acme"))) for name in SHAPES])
    assert await full.tenants() == ["", "东方"]


async def test_progress_ends_at_the_total(make, full):
    told = []
    await copy(full, await make("memory"), batch=10, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (300, 300)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
async def test_export_and_import_round_trip_byte_for_byte(make, full, tmp_path, kind, name):
    """What was exported, imported and exported again is the same file."""
    first, second = tmp_path / "first" / name, tmp_path / "second" / name
    first.parent.mkdir()
    second.parent.mkdir()
    store = await make(kind)
    assert (await export(full, first, batch=100)).read == 300
    moved = await import_(first, store, batch=33)
    assert (moved.read, moved.added, moved.bad) == (300, 300, 0)
    assert (await import_(first, store)).added == 0
    await export(store, second, batch=100)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in first.parent.iterdir()) == [name]


async def test_an_export_is_lines_anybody_can_read(make, tmp_path):
    store = await make("memory")
    await store.apply([Add([Record(collection="messages", id="a", text="hi", created_at=BORN, seq=1)])])
    path = tmp_path / "one.jsonl.gz"
    await export(store, path)
    head, line, end = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert json.loads(head) == {"octavo_export": 1}
    assert json.loads(line) == {
        "collection": "messages",
        "id": "a",
        "text": "hi",
        "created_at": "2026-03-01T12:00:00Z",
        "updated_at": "2026-03-01T12:00:00Z",
        "seq": 1,
    }
    assert json.loads(end) == {"octavo_export_end": 1}


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
async def test_export_interrupted_at_every_batch_is_taken_up(make, full, tmp_path, name):
    """The file has no name of its own until it is whole, and then it is what one run would have written."""
    whole, path, state = tmp_path / f"whole-{name}", tmp_path / name, tmp_path / "state"
    await export(full, whole, batch=5)
    for stop in range(0, 72, 9):
        with pytest.raises(StoreUnavailable):
            await export(Unreadable(full, finds=stop), path, batch=5, resume=state)
        assert not path.exists()
        moved = await export(full, path, batch=5, resume=state)
        assert moved.read + moved.resumed == 300
        assert path.read_bytes() == whole.read_bytes()
        path.unlink()
    assert not state.exists()


class Unreadable(Watched):
    """A store that can be unplugged after so many reads."""

    def __init__(self, store, *, finds):
        super().__init__(store)
        self.finds_left = finds

    async def find(self, query):
        if not self.finds_left:
            raise StoreUnavailable("unplugged")
        self.finds_left -= 1
        return await super().find(query)


async def test_an_export_whose_part_is_gone_begins_again(make, full, tmp_path):
    path, state = tmp_path / "all.jsonl", tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await export(Unreadable(full, finds=9), path, batch=10, resume=state)
    (tmp_path / "all.jsonl.part").unlink()
    await export(full, path, batch=10, resume=state)
    assert path.read_bytes() == await contents(full)


async def test_a_resumed_export_holds_what_arrived_behind_its_cursor(make, full, tmp_path):
    path, state = tmp_path / "all.jsonl", tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await export(Unreadable(full, finds=9), path, batch=10, resume=state)
    await full.apply(
        [Add([Record(collection="events", id="late", created_at=BORN - timedelta(days=9), seq=1)])]
    )
    await export(full, path, batch=10, resume=state)
    assert path.read_bytes() == await contents(full)


async def test_two_exports_into_one_file_do_not_mix(make, full, tmp_path):
    path = tmp_path / "all.jsonl"

    class Rival(Watched):
        async def find(self, query):
            if not self.finds:
                with pytest.raises(ConfigError, match="another export is writing"):
                    await export(full, path)
            return await super().find(query)

    await export(Rival(full), path)
    assert path.read_bytes() == await contents(full)


async def test_import_interrupted_at_every_batch_is_taken_up(make, full, tmp_path):
    path, state = tmp_path / "all.jsonl", tmp_path / "state"
    await export(full, path)
    for stop in range(30):
        target = await make("memory")
        with pytest.raises(StoreUnavailable):
            await import_(path, Watched(target, writes=stop), batch=10, resume=state)
        moved = await import_(path, target, batch=10, resume=state)
        assert (moved.resumed, moved.read) == (stop * 10, 300 - stop * 10)
        assert await contents(target) == await contents(full)
    assert not state.exists()


async def test_an_import_whose_file_changed_begins_again(make, full, tmp_path):
    """The offset of one file means nothing in another."""
    path, state = tmp_path / "all.jsonl", tmp_path / "state"
    await export(full, path)
    target = await make("memory")
    with pytest.raises(StoreUnavailable):
        await import_(path, Watched(target, writes=5), batch=10, resume=state)
    lines = path.read_bytes().splitlines(keepends=True)
    extra = Record(collection="log", id="extra", created_at=BORN, seq=1)
    path.write_bytes(b"".join([encode_record(extra) + b"\n", *lines]))
    moved = await import_(path, target, batch=10, resume=state)
    assert (moved.resumed, moved.read, moved.added) == (0, 301, 251)


GOOD = b'{"collection":"log","id":"%s","created_at":"2026-03-01T12:00:00Z","seq":1}\n'
BAD = {
    "no JSON": (b"hello\n", "JSON is malformed"),
    "not UTF-8": (b'{"collection":"l\xff"}\n', "can't decode byte 0xff"),
    "no id": (
        b'{"collection":"log","created_at":"2026-03-01T12:00:00Z","seq":1}\n',
        "missing required field `id`",
    ),
    "a misspelt field": (GOOD[:-2].replace(b"%s", b"x") + b',"txt":"lost?"}\n', "unknown field `txt`"),
    "a misspelt scope": (GOOD[:-2].replace(b"%s", b"x") + b',"scope":{"usr":"u"}}\n', "unknown field `usr`"),
    "an unknown collection": (GOOD.replace(b"log", b"logs") % b"x", "unknown collection 'logs'"),
    "a record no store keeps": (GOOD % (b"x" * 300), "id is 300 bytes long"),
    "too deep": (
        GOOD[:-2].replace(b"%s", b"x") + b',"data":' + b'{"a":' * 9000 + b"1" + b"}" * 9000 + b"}\n",
        "neste",
    ),
}


@pytest.mark.parametrize("wrong", BAD)
async def test_a_bad_line_stops_the_import_with_all_before_it_kept(make, tmp_path, wrong):
    """The line is named by its number; once mended, the same import finishes."""
    line, reason = BAD[wrong]
    path, state, target = tmp_path / "in.jsonl", tmp_path / "state", await make("memory")
    before = [GOOD % b"a%d" % n for n in range(5)]
    path.write_bytes(b"".join([*before, b"\n", line, GOOD % b"z"]))
    with pytest.raises(BadLineError, match=r"line 7 of in\.jsonl: ") as caught:
        await import_(path, target, batch=2, resume=state)
    assert reason in str(caught.value)
    assert caught.value.bad.line == line
    assert (await target.tally(Query(collection="log"))).total == 5
    path.write_bytes(b"".join([*before, b"\n", GOOD % b"y", GOOD % b"z"]))
    moved = await import_(path, target, batch=2, resume=state)
    assert moved.added == 2
    assert moved.resumed == 4


@pytest.mark.parametrize("batch", [1, 3, 1000])
async def test_bad_lines_can_be_handed_over_and_the_rest_kept(make, tmp_path, batch):
    """Nothing is lost silently: each bad line arrives with its number and its bytes."""
    path, target, bad = tmp_path / "in.jsonl", await make("memory"), []
    written = [part for n, (line, _) in enumerate(BAD.values()) for part in (GOOD % b"a%d" % n, line)]
    path.write_bytes(b"".join(written))
    moved = await import_(path, target, batch=batch, on_bad=bad.append)
    assert (moved.added, moved.bad) == (len(BAD), len(BAD))
    assert sorted(each.number for each in bad) == list(range(2, 2 * len(BAD) + 1, 2))
    assert {each.line for each in bad} == {line for line, _ in BAD.values()}


@pytest.mark.parametrize("cut", [1, 20, 400])
async def test_a_torn_export_is_reported(make, full, tmp_path, cut):
    """A cut in a line, before the end line, or between two lines: the import keeps what is there and says so."""
    whole = await contents(full)
    path, target, bad = tmp_path / "torn.jsonl", await make("memory"), []
    path.write_bytes(whole[:-cut])
    if cut == 1:  # only the last line end is missing: nothing is lost
        assert (await import_(path, target)).added == 300
        return
    with pytest.raises(
        BadLineError, match=r"line 30\d of torn.jsonl: (the last line is torn|the export was cut short)"
    ):
        await import_(path, target)
    await import_(path, target, on_bad=bad.append)
    assert len(bad) == 1
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:100]))
    with pytest.raises(
        BadLineError, match=r"line 101 of torn.jsonl: the export was cut short: its end line is missing"
    ):
        await import_(path, target)


async def test_an_export_that_misses_records_is_reported(make, full, tmp_path):
    lines = (await contents(full)).splitlines(keepends=True)
    path, target = tmp_path / "in.jsonl", await make("memory")
    path.write_bytes(b"".join(lines[:50] + lines[51:]))
    with pytest.raises(
        BadLineError, match=r"line 301 of in\.jsonl: the export had 300 records, 299 are here"
    ):
        await import_(path, target)
    assert (await import_(path, target, on_bad=lambda bad: None)).bad == 1
    path.write_bytes(b"".join([*lines[:-1], *lines]))
    with pytest.raises(BadLineError, match=r"line 302 of in\.jsonl: a second export begins"):
        await import_(path, target)


async def test_exports_can_be_joined_and_written_by_hand(make, full, tmp_path):
    """Two exports in one file, a byte order mark, Windows line ends and no header are all fine."""
    whole, target = await contents(full), await make("memory")
    path = tmp_path / "in.jsonl"
    path.write_bytes(whole + whole + GOOD % b"by-hand")
    assert (await import_(path, target)).added == 301
    path.write_bytes(b"\xef\xbb\xbf" + (GOOD % b"windows").replace(b"\n", b"\r\n"))
    assert (await import_(path, target)).added == 1


async def test_a_damaged_gzip_stops_with_all_before_it_kept(make, full, tmp_path):
    path, target = tmp_path / "all.jsonl.gz", await make("memory")
    await export(full, path, batch=50)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(BadLineError, match="damaged or cut short here"):
        await import_(path, target, on_bad=lambda bad: None)
    assert (await copy(full, target)).added < 300


async def test_a_newer_export_is_refused(make, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"octavo_export":2}\n')
    with pytest.raises(ConfigError, match="format 2, this Octavo reads up to 1"):
        await import_(path, await make("memory"), on_bad=lambda bad: None)


async def test_an_import_estimates_how_much_there_is(make, full, tmp_path):
    path, told = tmp_path / "all.jsonl", []
    await export(full, path)
    await import_(
        path, await make("memory"), batch=50, progress=lambda done, total: told.append((done, total))
    )
    assert [done for done, _ in told] == [50, 100, 150, 200, 250, 300]
    assert all(250 < total < 350 for _, total in told)


async def test_streams_stay_open(make, full):
    """Whoever opened a stream closes it."""
    stream, target = io.BytesIO(), await make("memory")
    await export(full, stream)
    stream.seek(0)
    assert (await import_(stream, target)).added == 300
    assert not stream.closed
