"""`python -m bench --scale` runs and prints its tables; what it measures is not judged here."""

import subprocess
import sys
from pathlib import Path

import pytest
from bench.scale import ASKED, LARGE, LAST, Line, Memories, Value, asked_scope, table
from bench.scale_copies import copy_records

from octavo import Add, Query, Scope, open_store
from octavo.search.recall import Recall
from sampled import only_torture, sampled

ROOT = Path(__file__).parents[2]


def run_bench(results: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "--scale", "--quick", "--results", str(results), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)


@sampled("total", [1000, 7777], share=2)
def test_those_who_are_asked_about_have_as_much_at_every_size(total):
    """So what takes longer at a larger size is not theirs; and the records are the same ones each time."""
    memories = Memories(total)
    records = [memories.record(number) for number in range(total)]
    for who in range(ASKED):
        of = [number for number, record in enumerate(records) if record.scope == asked_scope(who)]
        assert of == list(memories.numbers(who))
        assert len(of) == LAST
    again = [Memories(total).record(number) for number in range(total)]
    assert [(one.id, one.scope, one.text) for one in records] == [
        (one.id, one.scope, one.text) for one in again
    ]
    assert len({record.id for record in records}) == total
    large = [record for record in records if record.scope.user.startswith("large-")]
    assert 0.5 * LARGE < 100 * len(large) / total < 1.5 * LARGE


def test_new_records_are_of_others():
    memories = Memories(1000)
    new = [memories.record(number) for number in range(1000, 3000)]
    assert not any(record.scope.user.startswith("asked-") for record in new)


def test_growth_is_of_the_cost():
    """A rate that halves and a time that doubles have both doubled what one costs."""
    values = [({"append": Value(1000), "last": Value(1, 2)}), ({"append": Value(500), "last": Value(2, 9)})]
    rows = table([Line("sqlite", 1000 * n, 10 * n, each) for n, each in enumerate(values, 1)]).splitlines()
    assert rows[0] == "| sqlite | 1,000 | 2,000 | grows |"
    assert rows[3:] == [
        "| append, awaited | 1,000/s | 500/s | 2.0 |",
        "| last 50 of a session | 1.0 / 2.0 ms | 2.0 / 9.0 ms | 2.0 |",
    ]


@only_torture
def test_it_prints_a_table_of_sqlite(tmp_path):
    done = run_bench(tmp_path, "--store", "sqlite")
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]
    assert rows[0] == ["sqlite", "1,000", "2,000", "grows"]
    assert rows[2][:3] == ["users", "100", "200"]
    assert len(rows) == 18
    assert all(float(row[3]) > 0 for row in rows[3:])
    assert "sqlite, 2,000: questions" in done.stderr
    assert list(tmp_path.iterdir()) == []


@only_torture
@pytest.mark.parametrize(
    ("store", "fixture"), [("postgresql", "postgres_url"), ("mariadb", "mysql_url"), ("redis", "redis_url")]
)
def test_it_prints_a_table_of_a_server(tmp_path, request, store, fixture):
    request.getfixturevalue(fixture)  # skips where there is no such server
    done = run_bench(tmp_path, "--store", store, "--sizes", "1000")
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert rows[0] == f"| {store} | 1,000 | grows |"
    assert len(rows) == 18
    assert (" pages | " in done.stdout) == (store != "redis")
    assert int(rows[-1].split("|")[2].replace(",", "")) > 500  # bytes for each record
    assert list(tmp_path.iterdir()) == []


async def test_copies_are_of_others_and_counted(fresh_postgres):
    """Those who are asked about keep what they had; everybody, and a user with much, has three times as much."""
    memories = Memories(3000, copies=3)
    records = [memories.record(number) for number in range(memories.written)]
    large = [record for record in records if record.scope.user == "large-0"]
    async with open_store(fresh_postgres) as store:
        await store.apply([Add(records)])
        recall = Recall(store)
        scope, text = memories.question("five", 0)
        before = [hit.record.id for hit in await recall.recall(text, scope, limit=50)]
        await copy_records(fresh_postgres, 3, "large-")
        assert [hit.record.id for hit in await recall.recall(text, scope, limit=50)] == before
        counts = {}
        for name, whose in (("all", Scope()), ("asked", scope), ("large", Scope(user="large-0"))):
            query = Query(collection="messages", scope=whose)
            counts[name] = (await store.tally(query)).total, len(await store.find(query))
        assert counts == {
            "all": (3000, 3000),
            "asked": (LAST, LAST),
            "large": (3 * len(large), 3 * len(large)),
        }
        await store.apply([Add([memories.record(5000)])])  # the numbers of rows go on behind the copies


@only_torture
def test_a_size_too_small_to_ask_about_is_refused(tmp_path):
    done = run_bench(tmp_path, "--sizes", "100")
    assert done.returncode == 2
    assert "at least 1000 records" in done.stderr
