"""Importing: nothing is lost silently, and what is wrong is named by its line."""

import io

import pytest
from moving import BORN, Watched, contents

from octavo import ConfigError, Query, Record, StoreUnavailable
from octavo.kernel.codec import encode_record
from octavo.transfer import BadLineError, copy, export, import_


async def test_import_interrupted_at_every_batch_is_taken_up(make, full, tmp_path):
    path, state = tmp_path / "all.jsonl", tmp_path / "state"
    await export(full, path)
    for stop in range(30):
        target = await make("memory")
        with pytest.raises(StoreUnavailable):
            await import_(path, Watched(target, writes=stop), batch=10, resume=state)
        moved = await import_(path, target, batch=10, resume=state)
        assert (moved.resumed, moved.read) == (stop * 10, 300 - stop * 10)
        assert await contents(target) == path.read_bytes()
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


async def test_an_empty_file_is_no_export(make, tmp_path):
    """As a shell leaves it when `octavo export > memory.jsonl` fails."""
    path = tmp_path / "empty.jsonl"
    path.touch()
    with pytest.raises(BadLineError, match=r"line 1 of empty.jsonl: the file is empty"):
        await import_(path, await make("memory"))


async def test_an_export_that_misses_records_is_reported(make, full, tmp_path):
    lines = (await contents(full)).splitlines(keepends=True)
    path, target = tmp_path / "in.jsonl", await make("memory")
    path.write_bytes(b"".join(lines[:50] + lines[51:]))
    with pytest.raises(BadLineError, match=r"line 301 of in\.jsonl: the export had 300 records, here: 299"):
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
