"""Every call of the document on layered memory runs as it stands there, against a running server.

The calls are in seed_003.md. What is replaced is the address, which is that of the test's own server, and `{memory_id}`.
"""

import json
import re
import shlex
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from running_server import octavo_serves
from servers import fresh

PAGE = Path(__file__).with_name("seed_003.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^## ([^\n]+)\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
HERE = "http://localhost:8000"
SENTENCE = "用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。"
MEMORY_ID = re.compile(r"user_user123_\d+\.\d+")  # as in the document's last call
CHINESE = re.compile(r"[一-鿿]")


def lines(name):
    """The curl lines of a block, each as a shell would hand it over."""
    words = shlex.split(BLOCKS[name].replace("\\\n", " "), comments=True)
    starts = [at for at, word in enumerate(words) if word == "curl"]
    assert starts[0] == 0
    return [words[at:end] for at, end in zip(starts, [*starts[1:], len(words)], strict=True)]


class Curl:
    """Sends curl lines to a server."""

    def __init__(self, url, database):
        self.url = url
        self.database = database
        self.http = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def __call__(self, words, memory_id="", user="user123"):
        """The answer to one line."""
        assert words[0] == "curl"
        given = list(words[1:])
        method, headers, body, address = None, {}, None, None
        while given:
            word = given.pop(0)
            if word == "-X":
                method = given.pop(0)
            elif word == "-H":
                name, _, value = given.pop(0).partition(": ")
                headers[name] = value
            elif word == "-d":
                body = given.pop(0).encode()
            else:
                assert address is None, f"curl is not asked to do this here: {words}"
                address = word
        assert address.startswith(f"{HERE}/")
        path = address.removeprefix(HERE).replace("{memory_id}", memory_id).replace("user123", user)
        method = method or ("GET" if body is None else "POST")
        return self.http.request(method, path, headers=headers, content=body)

    def one(self, name, number=0, **named):
        """The number-th line of a block, which must work."""
        answer = self(lines(name)[number], **named)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, user, **body):
        return self.http.post(f"/memory/user/{user}", json=body)

    def log_of(self, memory_id, **asked):
        answer = self.http.get(f"/memory/{memory_id}/logs", params=asked)
        assert answer.status_code == 200
        return answer.json()["logs"]


@pytest.fixture(scope="module", params=["sqlite", "postgres", "mysql"])
def curl(request, tmp_path_factory, server_url):
    """One server for each kind of database; each test has users of its own, and the document's belong to one test."""
    folder = tmp_path_factory.mktemp(f"seed003-{request.param}")
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{folder}/memory.db"
        else:
            url = stack.enter_context(fresh(request.param, server_url(request.param)))
        served = Curl(stack.enter_context(octavo_serves(url, folder, "--quiet")), url)
        stack.callback(served.http.close)
        yield served


def test_the_document_has_these_calls():
    """A call that nobody runs would be a promise that nobody keeps."""
    calls = {name: len(lines(name)) for name in BLOCKS if "curl" in BLOCKS[name]}
    assert sum(calls.values()) == PAGE.count("\ncurl ") == 10
    assert calls == {
        "存储到 Profile 层": 1,
        "存储到 Event 层": 1,
        "自动抽取（智能分层）": 1,
        "查询分层记忆": 2,
        "更新记忆（分表更新）": 2,
        "删除记忆（分表删除）": 2,
        "查询操作日志": 1,
    }


def test_the_document_from_top_to_bottom(curl):
    """Every line in order, each on what those before it made."""
    # 存储
    made = curl.one("存储到 Profile 层")
    assert made["status"] == "success"
    assert (made["mode"], made["layer"], made["category"]) == ("direct", "profile", "career")
    assert MEMORY_ID.fullmatch(made["id"])
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", made["created_at"])
    happened = curl.one("存储到 Event 层")
    assert (happened["mode"], happened["layer"], happened["category"]) == ("direct", "event", "meeting")
    assert MEMORY_ID.fullmatch(happened["id"])
    extracted = curl.one("自动抽取（智能分层）")
    assert extracted["mode"] == "auto_extract"
    assert extracted["total_extracted"] == len(extracted["memories"]) >= 3
    assert extracted["ignored"] >= 1  # what was stored above is known

    # 查询
    profile, events = curl.one("查询分层记忆", 0), curl.one("查询分层记忆", 1)
    for answer, layer, first in ((profile, "profile", made), (events, "event", happened)):
        assert (answer["user_id"], answer["layer"]) == ("user123", layer)
        assert answer["count"] == len(answer["memories"])
        memory = next(each for each in answer["memories"] if each["id"] == first["id"])
        assert memory["content"] == json.loads(lines(f"存储到 {layer.title()} 层")[0][-1])["content"]
        assert (memory["category"], memory["metadata"]) == (first["category"], {})
        assert memory["created_at"] == first["created_at"]
        assert "updated_at" in memory

    # 更新
    revised = curl.one("更新记忆（分表更新）", 0, memory_id=made["id"])
    assert (revised["id"], revised["content"]) == (made["id"], "用户是一名高级软件工程师")
    assert revised["created_at"] == made["created_at"]
    assert curl.one("查询分层记忆", 0)["memories"][0]["id"] == made["id"]  # the newest update is first
    revised = curl.one("更新记忆（分表更新）", 1, memory_id=happened["id"])
    assert (revised["id"], revised["content"]) == (happened["id"], "用户下午参加了技术分享会")

    # 查询操作日志: the line as it stands asks about nobody's memory; with the id of one, it tells what was done to it
    line = lines("查询操作日志")[0]
    unknown = curl(line)
    assert unknown.status_code == 200
    assert unknown.json() == {"memory_id": "user_user123_1234567890.123", "count": 0, "logs": []}
    known = curl([word.replace("user_user123_1234567890.123", made["id"]) for word in line]).json()
    assert (known["memory_id"], known["count"]) == (made["id"], len(known["logs"]))
    update = next(each for each in known["logs"] if each["action"] == "update")
    assert (update["reason"], update["memory_layer"]) == ("补充了具体的职级信息", "profile")
    assert known["logs"][-1]["action"] == "insert"  # newest first
    assert all(each["reason"] for each in known["logs"])
    assert curl.log_of(made["id"], memory_layer="event") == []

    # 删除
    for number, each in enumerate((made, happened)):
        gone = curl.one("删除记忆（分表删除）", number, memory_id=each["id"])
        assert gone["id"] == each["id"]
        assert curl(lines("删除记忆（分表删除）")[number], memory_id=each["id"]).status_code == 404
        assert curl.http.get(f"/memory/{each['id']}").status_code == 404
        log = curl.log_of(each["id"])
        assert [log[0]["action"], log[-1]["action"]] == ["delete", "insert"]  # the log outlives the memory
    left = [each["id"] for name in (0, 1) for each in curl.one("查询分层记忆", name)["memories"]]
    assert not {made["id"], happened["id"]} & set(left)


def test_the_sentence_of_the_document(curl):
    """A career and an education in the profile, a meeting among the events, each with its reason; nothing twice."""
    first = curl.one("自动抽取（智能分层）", user="lin")
    assert json.loads(lines("自动抽取（智能分层）")[0][-1])["content"] == SENTENCE
    assert {
        name: first[name]
        for name in ("total_extracted", "inserted", "updated", "ignored", "profile_count", "event_count")
    } == {
        "total_extracted": 3,
        "inserted": 3,
        "updated": 0,
        "ignored": 0,
        "profile_count": 2,
        "event_count": 1,
    }
    made = {(each["layer"], each["category"]): each for each in first["memories"]}
    assert set(made) == {("profile", "career"), ("profile", "education"), ("event", "meeting")}
    assert "软件工程师" in made["profile", "career"]["content"]
    assert "北京大学" in made["profile", "education"]["content"]
    assert "技术分享会" in made["event", "meeting"]["content"]
    for each in first["memories"]:
        assert each["action"] == "insert"
        assert CHINESE.search(each["reason"])  # in the language of the text
        assert curl.log_of(each["id"])[0]["reason"] == each["reason"]
    profile = curl.one("查询分层记忆", 0, user="lin")["memories"]
    assert {each["category"] for each in profile} == {"career", "education"}
    assert [each["category"] for each in curl.one("查询分层记忆", 1, user="lin")["memories"]] == ["meeting"]
    assert all(each["sources"] == [first["source_id"]] for each in profile)

    again = curl.one("自动抽取（智能分层）", user="lin")
    assert (again["inserted"], again["updated"], again["ignored"]) == (0, 0, 3)
    assert {each["id"] for each in again["memories"]} == {each["id"] for each in first["memories"]}
    assert all(CHINESE.search(each["reason"]) for each in again["memories"])
    career = made["profile", "career"]["id"]
    assert curl.log_of(career)[0]["action"] == "ignore"

    promoted = curl.post("lin", content="他现在是高级软件工程师", auto_extract=True).json()
    assert (promoted["inserted"], promoted["updated"], promoted["ignored"]) == (0, 1, 0)
    (update,) = promoted["memories"]
    assert (update["id"], update["action"], update["category"]) == (career, "update", "career")
    profile = {each["id"]: each for each in curl.one("查询分层记忆", 0, user="lin")["memories"]}
    assert len(profile) == 2
    assert "高级软件工程师" in profile[career]["content"]
    assert curl.log_of(career)[0]["action"] == "update"


def test_somebody_elses_memory(curl):
    """It is 404 to everybody but its owner, and stays as it is; so is one looked for in the other layer."""
    made = curl.post("owner", content="用户是一名教师", memory_layer="profile").json()
    happened = curl.post("owner", content="用户参加了公司年会").json()
    assert happened["layer"] == "event"  # the default
    for words, each in (
        (lines("更新记忆（分表更新）")[0], made),
        (lines("更新记忆（分表更新）")[1], happened),
        (lines("删除记忆（分表删除）")[0], made),
        (lines("删除记忆（分表删除）")[1], happened),
    ):
        assert curl(words, memory_id=each["id"], user="thief").status_code == 404
        as_agent = [word.replace("/memory/user/", "/memory/agent/") for word in words]
        assert curl(as_agent, memory_id=each["id"], user="owner").status_code == 404
        other = made if each is happened else happened
        assert curl(words, memory_id=other["id"], user="owner").status_code == 404
    kept = curl.one("查询分层记忆", 0, user="owner")["memories"]
    kept += curl.one("查询分层记忆", 1, user="owner")["memories"]
    assert [(each["content"], each["version"]) for each in kept] == [
        ("用户是一名教师", 1),
        ("用户参加了公司年会", 1),
    ]
    assert curl.one("查询分层记忆", 0, user="thief")["memories"] == []
    assert [each["action"] for each in curl.log_of(made["id"])] == ["insert"]


def test_agents_alike(curl):
    """Whatever a user may have, an agent may have too, and one of the same name is another."""
    words = [word.replace("/memory/user/", "/memory/agent/") for word in lines("存储到 Profile 层")[0]]
    made = curl(words, user="twin").json()
    assert made["id"].startswith("agent_twin_")
    listed = curl.http.get("/memory/agent/twin/profile").json()
    assert (listed["agent_id"], listed["count"]) == ("twin", 1)
    assert "user_id" not in listed
    assert curl.one("查询分层记忆", 0, user="twin")["count"] == 0


@pytest.mark.parametrize("asked", ["limit=-1", "limit=many", "limit="])
def test_a_limit_that_is_none(curl, asked):
    for path in ("/memory/user/nobody/events", "/memory/user/nobody/profile", "/memory/any/logs"):
        assert curl.http.get(f"{path}?{asked}").status_code == 422


def test_expiry(curl):
    """A profile is permanent, an event as it is told; what has expired is not seen."""
    made = curl.post("mayfly", content="用户是一名教师", memory_layer="profile").json()
    told = curl.post("mayfly", content="参加了年会", expiry_date="2199-01-01T00:00:00Z").json()
    curl.post("mayfly", content="参加了例会", expiry_date="2001-01-01T00:00:00Z")
    profile = curl.one("查询分层记忆", 0, user="mayfly")["memories"]
    assert [(each["id"], each["is_permanent"], each["expiry_date"]) for each in profile] == [
        (made["id"], True, None)
    ]
    events = curl.one("查询分层记忆", 1, user="mayfly")["memories"]
    assert [(each["id"], each["is_permanent"]) for each in events] == [(told["id"], False)]
    assert events[0]["expiry_date"].startswith("2199-01-01T00:00:00")


def test_every_category_is_one(curl):
    """The twelve of the document are taken, each in its layer."""
    for layer in ("profile", "event"):
        table = PAGE.partition(f"## {layer.title()} 层分类")[2].partition("##")[0]
        names = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
        assert len(names) == 6
        for name in names:
            made = curl.post("all", content=f"关于 {name}", memory_layer=layer, category=name)
            assert made.json()["category"] == name
        path = "profile" if layer == "profile" else "events"
        listed = curl.http.get(f"/memory/user/all/{path}").json()["memories"]
        assert {each["category"] for each in listed} == set(names)


#: What a type of the document may be called by each database; SQLite keeps a time and a JSON as text.
TYPES = {
    "VARCHAR": {"text", "varchar"},
    "TEXT": {"text", "longtext"},
    "JSON": {"text", "json", "jsonb", "longtext"},
    "TIMESTAMP": {"text", "datetime", "timestamp", "timestamp with time zone"},
    "BOOLEAN": {"integer", "boolean", "tinyint"},
}
TABLES = ("profile_memories", "event_memories", "memory_logs")


def documented(table):
    """The columns of a table by the document, with their types."""
    block = next(block for block in BLOCKS.values() if f"CREATE TABLE {table} " in block)
    return dict(re.findall(r"^    (\w+) ([A-Z]+)\b", block.replace("    INDEX", ""), re.MULTILINE))


def rows(url, sql, *values):
    """What a stranger with the database's own driver sees."""
    place = urlsplit(url)
    if url.startswith("sqlite"):
        line = sqlite3.connect(url.removeprefix("sqlite:///"))
        try:
            return [tuple(row) for row in line.execute(sql, values)]
        finally:
            line.close()
    if url.startswith("postgres"):
        import asyncio

        import asyncpg

        async def fetch():
            line = await asyncpg.connect(url)
            try:
                return [tuple(row) for row in await line.fetch(sql.replace("?", "$1"), *values)]
            finally:
                await line.close()

        return asyncio.run(fetch())
    import pymysql

    named = {"host": place.hostname, "port": place.port, "user": place.username}
    line = pymysql.connect(**named, password=place.password or "", database=place.path.strip("/"))
    try:
        with line.cursor() as cursor:
            cursor.execute(sql.replace("?", "%s"), values)
            return [tuple(row) for row in cursor.fetchall()]
    finally:
        line.close()


def columns(url, table):
    """The columns that there are, with their types."""
    if url.startswith("sqlite"):
        return {name: type_.lower() for _, name, type_, *_ in rows(url, f"PRAGMA table_info({table})")}
    here = "current_schema()" if url.startswith("postgres") else "database()"
    found = rows(
        url,
        "SELECT column_name, data_type FROM information_schema.columns "
        f"WHERE table_name = ? AND table_schema = {here}",
        table,
    )
    return {name: type_.lower() for name, type_ in found}


@pytest.mark.parametrize("table", TABLES)
def test_tables(curl, table):
    """The document's tables with the document's columns, of a type that means the same."""
    curl.post("tables", content="用户是一名教师", memory_layer="profile")
    curl.post("tables", content="参加了年会")
    wanted, there = documented(table), columns(curl.database, table)
    assert len(wanted) == {"profile_memories": 8, "event_memories": 10, "memory_logs": 7}[table]
    assert set(wanted) <= set(there)
    for name, type_ in wanted.items():
        assert there[name] in TYPES[type_], (name, type_, there[name])


def test_rows(curl):
    """What the columns hold is what the document says they hold."""
    metadata = {"source": "面试"}
    made = curl.post("rows", content="用户是一名教师", memory_layer="profile", metadata=metadata).json()
    told = curl.post("rows", content="参加了年会", expiry_date="2199-01-01T00:00:00Z").json()
    kept = curl.post("rows", content="换了工作", is_permanent=True).json()
    curl.http.delete(f"/memory/user/rows/profile/{made['id']}", params={"reason": "不再需要"})
    curl.http.put(f"/memory/user/rows/event/{kept['id']}", json={"content": "换了新工作"})
    found = rows(
        curl.database,
        "SELECT id, memory_type, entity_id, content, is_permanent, expiry_date FROM event_memories WHERE entity_id = ?",
        "rows",
    )
    by_id = {id_: rest for id_, *rest in found}
    assert by_id[told["id"]][:3] == ["user", "rows", "参加了年会"]
    assert not by_id[told["id"]][3]
    assert str(by_id[told["id"]][4]).startswith("2199-01-01")
    assert by_id[kept["id"]][2:] == ["换了新工作", 1, None]
    assert rows(curl.database, "SELECT id FROM profile_memories WHERE entity_id = ?", "rows") == []
    log = rows(
        curl.database,
        "SELECT action, reason, memory_layer FROM memory_logs WHERE memory_id = ? ORDER BY created_at",
        made["id"],
    )
    assert [row[0] for row in log] == ["insert", "delete"]
    assert all(row[1] for row in log)
    assert log[-1] == ("delete", "不再需要", "profile")
