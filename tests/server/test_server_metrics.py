"""/metrics: every number that an operator watches, of all workers together, for admins only, and nobody's name."""

import os
import re
import signal
import string
import time
from types import SimpleNamespace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from octavo import Add, Query, Record, Scope, open_store
from octavo.config import Database, Settings, Telemetry
from octavo.kernel.ports import IndexesLater, Pools
from octavo.server.metrics import FAMILIES, Metrics
from octavo.util.cache import Cache, hits_and_misses
from octavo.util.metrics import Meter
from running_server import octavo_process
from sampled import sampled

EVENTUALLY = 30  # seconds


def read(page):
    """What Prometheus' own parser makes of it."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def scrape(client):
    told = client.get("/metrics")
    assert told.status_code == 200, told.text
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    return read(told.text)


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_what_is_watched(store_url, settings_of, serving, kind):
    """Routes, verbs, faces, recall, queue, index, cache, pool, event loop and build, on every kind of store."""
    with serving(settings_of(store_url(kind))).client() as client:
        body = {"content": "drinks green tea", "category": "preference", "memory_layer": "profile"}
        client.post("/memory/user/lin", json=body)
        client.post("/memory/query", json={"query": "tea", "user_id": "lin"})
        client.get("/memory/nobody")
        client.get("/nowhere")
        time.sleep(0.6)  # for a beat of the event loop
        page = client.get("/metrics").text
        found = read(page)
    route = "route=/memory/{memory_type}/{entity_id}"
    assert found["octavo_http_requests_total", "method=POST", route, "status=200"] == 1
    assert found["octavo_http_request_seconds_count", "method=POST", route] == 1
    assert found["octavo_http_requests_total", "method=GET", "route=/memory/{memory_id}", "status=404"] == 1
    assert found["octavo_http_requests_total", "method=GET", "route=none", "status=404"] == 1
    assert found["octavo_store_seconds_count", "face=layers", "verb=write"] >= 1
    assert found["octavo_store_seconds_count", "face=layers", "verb=search"] >= 1
    assert found["octavo_store_records_total", "face=layers", "verb=write"] >= 1
    assert found["octavo_recall_seconds_count", "stage=total"] >= 1
    assert found["octavo_store_up",] == found["octavo_workers",] == 1
    assert found["octavo_writes_total", "status=stored"] >= 1
    assert found["octavo_writes_total", "status=queued"] == found["octavo_queue_waiting",] == 0
    assert found["octavo_queue_dead_letters",] == found["octavo_queue_replayed_total",] == 0
    assert found["octavo_index_waiting", "index=terms"] >= 0
    assert found["octavo_cache_requests_total", "outcome=miss"] >= 0
    assert found["octavo_event_loop_lag_seconds_count",] >= 1
    [build] = [key for key in found if key[0] == "octavo_build_info"]
    assert any(label.startswith("store=") for label in build)
    pooled = {key for key in found if key[0] == "octavo_pool_connections"}
    assert len(pooled) == (0 if kind == "sqlite" else 2)
    declared = re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE)
    assert declared == list(FAMILIES)
    assert "lin" not in page.replace("line", "")


def test_an_outage_is_seen(store_url, settings_of, serving, monkeypatch):
    """Writes that wait, and since when; once they are stored, that they were."""
    from serving import Faulty

    stores = []

    def opening(url):
        stores.append(Faulty(open_store(url)))
        return stores[-1]

    monkeypatch.setattr("octavo.assemble.open_store", opening)
    with serving(settings_of(store_url("sqlite"), service={"timeout_seconds": 1.0})).client() as client:
        client.post("/events", json={"session_key": "s", "payload": {"text": "one"}})
        stores[-1].mode = "down"
        client.post("/events", json={"session_key": "s", "payload": {"text": "two"}})
        found = scrape(client)
        assert (found["octavo_store_up",], found["octavo_queue_waiting",]) == (0, 1)
        assert found["octavo_writes_total", "status=queued"] == 1
        assert not [key for key in found if key[0] == "octavo_index_waiting"]  # nobody can know
        stores[-1].mode = "up"
        ends = time.monotonic() + EVENTUALLY
        while (found := scrape(client))["octavo_queue_waiting",] and time.monotonic() < ends:
            time.sleep(0.05)
        assert found["octavo_queue_replayed_total",] == 1
        assert found["octavo_store_up",] == 1


HOSTILE_METHODS = ("GET", "POST", "PUT", "DELETE", "BREW", "X" * 16, "GETT", "PROPFIND")


def test_nobody_can_make_it_grow(sqlite_server):
    """Paths, users, methods, queries and headers of every kind add no sample; and none of them is named."""
    server = sqlite_server()
    letters = string.ascii_lowercase
    with server.client() as client:

        def ask(batch):
            for at in range(30):
                name = f"{letters[at % 26] * 3}-{batch}-{at}-secretname"
                client.request(HOSTILE_METHODS[at % 8], f"/{name}/{at}?q={name}")
                client.get(f"/memory/user/{name}/profile", headers={"X-Request-ID": name})
                client.get(f"/memory/{name}")
                client.get(f"/console/static/{name}.css")
                client.post(f"/memory/user/{name}", json={"content": f"{name} x", "category": name})
                client.post("/memory/query", json={"query": name, "user_id": name})
                client.post("/events", json={"session_key": name, "obs_type": "message", "payload": {}})

        ask(1)
        before = scrape(client)
        ask(2)
        page = client.get("/metrics").text
    after = read(page)
    assert {key for key in set(after) - set(before) if "route=/metrics" not in key} == set()
    assert "secretname" not in page
    assert len(after) < 2000
    methods = {part for key in after for part in key if part.startswith("method=")}
    assert methods <= {f"method={word}" for word in ("GET", "POST", "PUT", "DELETE", "other")}


def test_with_keys_it_is_for_admins(sqlite_server, new_key):
    """And a key that is bound to one user never sees it, whatever it may do."""
    server = sqlite_server(auth="on")
    url = server.settings.database.dsn
    asked = {"read": 403, "write": 403, "admin": 200}
    for access, status in asked.items():
        with server.client(new_key(url, access).key) as client:
            assert client.get("/metrics").status_code == status
    with server.client(new_key(url, "write", user="lin").key) as client:
        assert client.get("/metrics").status_code == 403
    with server.client() as client:
        assert client.get("/metrics").status_code == 401


def test_switched_off_there_is_none(store_url, settings_of, serving):
    import msgspec

    settings = msgspec.structs.replace(settings_of(store_url("sqlite")), telemetry=Telemetry(metrics=False))
    with serving(settings).client() as client:
        told = client.get("/metrics")
        assert (told.status_code, told.json()["detail"]) == (
            404,
            "nothing is counted here: telemetry.metrics is false",
        )
        assert client.get("/stats").status_code == 200


class Held:
    """As much of a server's memory as its metrics look at."""

    settings = Settings(database=Database(dsn="postgresql+asyncpg://u:secret@h/d"))
    assembled = SimpleNamespace(journal=None, indexed=None, store=None)

    def down(self):
        return False


async def test_workers_are_added_up(tmp_path):
    """Whichever is asked, no sum is ever smaller than one told before; of those that ended, what they counted stays."""
    one, two, three = (Metrics(Held(), Meter(), tmp_path) for _ in range(3))
    last = 0.0
    for turn in range(20):
        for metrics in (one, two, three):
            metrics.count_request("GET", "/stats", 200, 0.01)
        found = read(await (one, two, three)[turn % 3].page())
        total = found["octavo_http_requests_total", "method=GET", "route=/stats", "status=200"]
        assert total >= last
        last = total
    for metrics in (one, two, three):
        found = read(await metrics.page())
    assert found["octavo_http_requests_total", "method=GET", "route=/stats", "status=200"] == 60
    assert found["octavo_workers",] == 3
    assert "secret" not in await one.page()
    await two.close()
    [path] = [path for path in tmp_path.glob("*.json") if path.name == three._name]
    os.utime(path, (0, 0))  # killed, long ago
    found = read(await one.page())
    assert found["octavo_workers",] == found["octavo_store_up",] == 1
    assert found["octavo_http_requests_total", "method=GET", "route=/stats", "status=200"] == 60


def test_several_workers_answer_as_one(tmp_path):
    """`octavo serve --workers 2`: all requests are on the page, whoever answered them, and its folder is gone at the end."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {"TMPDIR": str(temporary)}
    with octavo_process(f"sqlite:///{tmp_path}/a.db", tmp_path, "--workers", "2", env=env) as (url, _):
        [folder] = temporary.glob("octavo-metrics-*")
        assert folder.stat().st_mode & 0o777 == 0o700
        for _ in range(40):  # each in a connection of its own, so that both get some
            assert httpx.get(f"{url}/stats", trust_env=False).status_code == 200
        key = ("octavo_http_requests_total", "method=GET", "route=/stats", "status=200")
        ends = time.monotonic() + EVENTUALLY
        while time.monotonic() < ends:
            found = read(httpx.get(f"{url}/metrics", trust_env=False).text)
            if found.get(key) == 40 and found["octavo_workers",] == 2:
                break
            time.sleep(0.2)
        assert (found[key], found["octavo_workers",]) == (40, 2)
    assert not folder.exists()


def test_alive_and_ready(sqlite_server):
    with sqlite_server().client() as client:
        assert client.get("/health/live").json() == {"status": "alive"}
        assert client.get("/health/ready").json() == {"status": "ready"}


def test_alive_but_not_ready(store_url, settings_of, serving, monkeypatch):
    """Without a queue and without a store no write would be kept; the process is well all the same."""
    from serving import Faulty

    stores = []

    def opening(url):
        stores.append(Faulty(open_store(url)))
        return stores[-1]

    monkeypatch.setattr("octavo.assemble.open_store", opening)
    with serving(settings_of(store_url("sqlite"), queue={"enabled": False})).client() as client:
        assert client.get("/health/ready").status_code == 200
        stores[-1].mode = "down"
        time.sleep(0.6)  # an answer about health is good for half a second
        refused = client.get("/health/ready")
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert client.get("/health/live").status_code == 200


@sampled("workers", [2, 1], share=2)
def test_told_to_stop_it_is_not_ready_and_still_serves(tmp_path, workers):
    """For drain_seconds: a proxy has the time to notice, and nobody is refused; whoever stays connected is sent away."""
    (tmp_path / "memory.yaml").write_text("server:\n  drain_seconds: 3\n")
    options = ("--workers", str(workers), "--config", "memory.yaml")
    with (
        octavo_process(f"sqlite:///{tmp_path}/a.db", tmp_path, *options) as (url, pid),
        httpx.Client(trust_env=False) as connected,
    ):
        assert "connection" not in connected.get(f"{url}/stats").headers
        assert httpx.get(f"{url}/health/ready", trust_env=False).status_code == 200
        os.kill(pid, signal.SIGTERM)
        ends = time.monotonic() + 1.5
        said = set()
        while time.monotonic() < ends:
            assert httpx.get(f"{url}/stats", trust_env=False).status_code == 200
            said.add(httpx.get(f"{url}/health/ready", trust_env=False).status_code)
            time.sleep(0.05)
        assert httpx.get(f"{url}/health/ready", trust_env=False).status_code == 503
        last = connected.get(f"{url}/stats")
        assert (last.status_code, last.headers["connection"]) == (200, "close")
        assert said in ({200, 503}, {503})
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}/health/live", trust_env=False)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres", "mysql", "redis"])
async def test_what_a_store_says_of_itself(tmp_path, request, kind):
    """How many records wait for the index, where it waits at all; how its connections are used, where it has a pool."""
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/a.db"}
    url = urls.get(kind) or request.getfixturevalue("fresh_url")(kind)
    query = Query(collection="messages", scope=Scope(user="lin"))
    async with open_store(url) as store:
        await store.search(query, ["red"])
        records = [Record(collection="messages", scope=Scope(user="lin"), text=f"red {n}") for n in range(5)]
        await store.apply([Add(records)])
        assert isinstance(store, IndexesLater) == (kind in ("sqlite", "postgres", "mysql"))
        use = store.pool_use() if isinstance(store, Pools) else None
        assert (use is not None) == (kind in ("postgres", "mysql", "redis"))
        if use is not None:
            assert use.idle + use.busy >= 1
            assert use.most >= use.idle


def test_caches_say_how_often_they_helped():
    hits, misses = hits_and_misses()
    cache = Cache()
    cache.put("a", "x", 10)
    assert (cache.get("a"), cache.get("b"), cache.get("a")) == ("x", None, "x")
    assert hits_and_misses() == (hits + 2, misses + 1)
