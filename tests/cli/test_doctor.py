"""`octavo doctor` looks: without `--probe` it makes no table, no file, no folder and no key."""

import asyncio
import json
import sqlite3

import pytest
from redis import Redis

from octavo import Add, Query, Record, open_store
from octavo.stores.sql.statements import Fetch
from servers import KINDS

SQL_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = "


def held(folder):
    """Every path under a folder, with the bytes of every file."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


async def names_in(url):
    """The tables or keys that there are."""
    if url.startswith("redis"):
        with Redis.from_url(url) as client:
            return client.keys("*")
    async with open_store(url) as store:
        schema = "DATABASE()" if url.startswith("mysql") else "'public'"
        async with store._driver.connection() as connection:
            return sorted(row[0] for row in await store._driver.send(connection, Fetch(SQL_TABLES + schema)))


@pytest.fixture(params=[(), ("--no-probe",)], ids=["plain", "no-probe"])
def looked(request, octavo):
    """Calls `octavo doctor`, and answers what it says."""

    def look(url):
        told = octavo("doctor", url, "--json", *request.param)
        assert told.exit_code == 0, told.output
        document = json.loads(told.stdout)
        assert document["latency"] is None
        return document

    return look


@pytest.mark.parametrize("kind", [*KINDS])
def test_an_empty_database_stays_empty(looked, fresh_url, kind, tmp_path):
    url = fresh_url(kind)
    assert looked(url)["collections"] == {}
    assert asyncio.run(names_in(url)) == []
    assert held(tmp_path) == {}


@pytest.mark.parametrize("url", ["sqlite:///one/octavo.db", "file://./one"])
def test_an_empty_place_stays_empty(looked, tmp_path, url):
    (tmp_path / "one").mkdir()
    if url.startswith("sqlite"):
        (tmp_path / "one" / "octavo.db").touch()
    before = held(tmp_path)
    document = looked(url)
    assert document["collections"] == {}
    assert held(tmp_path) == before
    assert [finding for finding in document["findings"] if finding["warning"]] == []


def test_another_programs_database_stays_as_it_is(looked, tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE things (id INTEGER)")
    other.close()
    before = held(tmp_path)
    looked("sqlite:///other.db")
    assert held(tmp_path) == before


def test_lines_that_nobody_opened_are_counted_where_they_are(looked, tmp_path):
    """A folder of lines that came without Octavo's own files is read, a damaged line in it included."""

    async def write():
        async with open_store("file://./made") as store:
            await store.apply([Add([Record(collection="events", id=str(n)) for n in range(3)])])

    asyncio.run(write())
    for path in (tmp_path / "made").rglob("*.jsonl"):
        path.rename(tmp_path / "moved.jsonl")
    place = tmp_path / "brought" / "events"
    place.mkdir(parents=True)
    (place / "events.jsonl").write_bytes((tmp_path / "moved.jsonl").read_bytes() + b"{torn")
    before = held(tmp_path / "brought")
    looked("file://./brought")
    assert held(tmp_path / "brought") == before


def test_memory_and_no_folder_of_the_service(looked, tmp_path):
    """Neither the queue nor the vault is made by looking."""
    looked("memory://")
    assert held(tmp_path) == {}


def test_reading_makes_no_table(fresh_postgres):
    """What doctor calls, others do: a store that is only read from an empty database leaves it empty."""

    async def read():
        async with open_store(fresh_postgres) as store:
            assert await store.find(Query(collection="messages")) == []
            assert await store.find(Query(collection="messages", text="a")) == []
            assert (await store.tally(Query(collection="messages"))).total == 0
            assert (await store.search(Query(collection="messages"), ["a"])).held == (0,)
            assert await store.reindex("messages") == 0
            assert (await store.verify("messages")).records == 0
            assert await store.tenants() == []

    asyncio.run(read())
    assert asyncio.run(names_in(fresh_postgres)) == []


def test_a_queue_folder_that_cannot_be_used_is_a_warning(octavo, tmp_path):
    """It names the folder and the cure; nothing is made or mended by looking."""
    (tmp_path / "occupied").write_text("")
    for folder in (tmp_path / "occupied", tmp_path / "occupied" / "queue"):
        env = {"OCTAVO__FAILURE_QUEUE__DIRECTORY": str(folder)}
        told = octavo("doctor", "memory://", "--json", env=env)
        assert told.exit_code == 0, told.output
        [queue] = [one for one in json.loads(told.stdout)["findings"] if one["name"] == "queue"]
        assert queue["value"] == f"{folder}, which cannot be used"
        assert "failure_queue.directory" in queue["warning"]
        off = octavo("doctor", "memory://", "--json", env={**env, "OCTAVO__FAILURE_QUEUE__ENABLED": "false"})
        assert "queue" not in [one["name"] for one in json.loads(off.stdout)["findings"]]
    assert list(tmp_path.iterdir()) == [tmp_path / "occupied"]


def test_a_second_model_is_named_without_its_key(octavo):
    rerank = {
        "MODEL": "openai:judge",
        "BASE_URL": "http://ann:sesame@host/v1",
        "API_KEY": "sesame",
        "TOP": "7",
    }
    env = {f"OCTAVO__RERANK__{name}": value for name, value in rerank.items()}
    told = octavo("doctor", "memory://", "--json", env=env)
    assert told.exit_code == 0, told.output
    values = {each["name"]: each["value"] for each in json.loads(told.stdout)["findings"]}
    assert values["re-ranking"] == "the 7 best hits, by openai:judge at http://ann:…@host/v1"
    assert "sesame" not in told.output
