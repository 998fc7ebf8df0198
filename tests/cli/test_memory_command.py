"""`octavo memory`: what each command shows, to people and to programs, and how it ends."""

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent.chat_endpoint import chat_endpoint, http, said
from octavo.layers import CATEGORIES, LayeredMemory

URL = "sqlite:///octavo.db"
COMMANDS = ("add", "list", "search", "log", "forget", "undo", "sweep")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEED = "用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。"


@pytest.fixture
def memory(octavo):
    """Call `octavo memory …` on one store."""

    def call(*words, **more):
        return octavo("memory", *words, "--store", URL, **more)

    return call


@pytest.fixture
def told(memory):
    """Call it for programs: the document it prints, of a call that went well."""

    def call(*words, **more):
        done = memory(*words, "--json", **more)
        assert done.exit_code == 0, done.output
        document = json.loads(done.stdout)
        assert document["ok"] is True
        assert document["command"] == f"memory {words[0]}"
        return document

    return call


@pytest.fixture
def nurse(told):
    """A memory of Lin's."""
    return told("add", "Lin is a nurse", "--user", "lin", "--category", "career")["memory"]


def happened(*steps, url=URL, tenant=""):
    """Do with a memory what a command cannot: at times of the test's choosing."""

    async def run():
        clock = iter(at for at, _ in steps)
        moment = [NOON]
        async with LayeredMemory(url, tenant=tenant, clock=lambda: moment[0]) as memory:
            for _, step in steps:
                moment[0] = next(clock)
                await step(memory)

    asyncio.run(run())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_helps_with_an_example(octavo, name):
    help_ = octavo("memory", name, "--help").stdout
    assert f"Example: octavo memory {name}" in help_
    for option in ("--config", "--store", "--tenant", "--json", "--quiet", "--debug"):
        assert option in help_


def test_the_group_names_them_all(octavo):
    help_ = octavo("memory", "--help").stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in help_] == []
    assert "memory" in octavo("--help").stdout


# --- add --------------------------------------------------------------------------------------------------------------


def test_add_and_list(memory, told):
    done = memory("add", "Lin is a nurse", "--user", "lin", "--layer", "profile", "--category", "career")
    assert done.exit_code == 0
    id_ = done.stdout.split()[1]
    assert done.stdout == f"remembered {id_} in the profile layer as career\n"
    assert id_.startswith("user_lin_")
    listed = memory("list", "--user", "lin")
    [row] = listed.stdout.splitlines()
    assert row.split()[2:] == ["UTC", "profile", "career", id_, "Lin", "is", "a", "nurse"]
    [kept] = told("list", "--user", "lin")["memories"]
    assert (kept["id"], kept["content"], kept["is_permanent"], kept["metadata"]) == (
        id_, "Lin is a nurse", True, {},
    )  # fmt: skip
    assert memory("list", "--user", "bo").stdout == "nothing is remembered\n"
    assert memory("list", "--agent", "lin").stdout == "nothing is remembered\n"


def test_a_category_says_the_layer(told):
    for layer, names in CATEGORIES.items():
        for name in names:
            kept = told("add", f"It is {name}", "--agent", "bot", "--category", name)["memory"]
            assert (kept["layer"], kept["category"], kept["memory_type"]) == (layer, name, "agent")
    listed = told("list", "--agent", "bot", "--category", "meeting")
    assert (listed["agent_id"], listed["count"]) == ("bot", 1)


def test_without_a_category_the_rules_say(told):
    assert (
        told("add", "我是一名软件工程师", "--user", "u", "--layer", "profile")["memory"]["category"]
        == "career"
    )
    kept = told("add", "昨天和老板开了会", "--user", "u")["memory"]
    assert (kept["layer"], kept["category"]) == ("event", "meeting")


def test_how_long_it_is_kept(memory, told):
    def added(*words):
        return told("add", "x", "--user", "lin", "--category", "other", *words)["memory"]

    kept = added("--ttl", "7d")
    assert datetime.fromisoformat(kept["expiry_date"]) - datetime.fromisoformat(kept["created_at"]) == timedelta(7)  # fmt: skip
    assert added("--expires", "2999-01-01T08:00:00+08:00")["expiry_date"] == "2999-01-01T00:00:00Z"
    assert added("--permanent")["is_permanent"] is True
    assert added()["is_permanent"] is False
    assert "(until 2999-01-01 00:00 UTC)" in memory("list", "--user", "lin").stdout


def test_metadata_and_reason(told):
    kept = told(
        "add", "x", "--user", "u", "--category", "other", "--metadata", '{"from": {"mail": 1}}', "--reason", "I asked"
    )["memory"]  # fmt: skip
    assert kept["metadata"] == {"from": {"mail": 1}}
    assert told("log", kept["id"])["logs"][0]["reason"] == "I asked"


def test_from_stdin(memory, told):
    kept = told("add", "-", "--user", "u", "--category", "other", input="两行\n文字\n")["memory"]
    assert kept["content"] == "两行\n文字"
    bad = memory("add", "-", "--user", "u", input=b"\xff\xfe")
    assert (bad.exit_code, "stdin is not UTF-8" in bad.stderr) == (2, True)
    none = memory("add", "-", "--user", "u", input="")
    assert (none.exit_code, "nothing to remember" in none.stderr) == (2, True)


def test_auto(memory, told):
    """The seed's sentence: two facts of the profile and a meeting; said again, nothing is new."""
    done = memory("add", SEED, "--user", "lin", "--auto")
    assert done.exit_code == 0
    *rows, summary = done.stdout.splitlines()
    assert [row.split()[:3] for row in rows] == [
        ["insert", "profile", "career"],
        ["insert", "profile", "education"],
        ["insert", "event", "meeting"],
    ]
    assert summary == "3 facts: 3 inserted, 0 updated, 0 ignored"
    again = told("add", SEED, "--user", "lin", "--auto", "--metadata", '{"n": 2}')
    assert (again["mode"], again["total_extracted"], again["ignored"]) == ("auto_extract", 3, 3)
    assert (again["profile_count"], again["event_count"], again["source_id"] != "") == (2, 1, True)
    changed = memory("add", "他现在是高级软件工程师", "--user", "lin", "--auto").stdout
    assert changed.startswith("update  profile  career")
    assert "(was: “" in changed


async def test_auto_with_a_model(octavo):
    """The settings name a model; when it fails, the rules decide and its key is not told."""
    Path("memory.yaml").write_text(
        "extraction:\n  model: m\n  api_key: sk-hidden-0123456789\nfailure_queue:\n  directory: queue\n"
    )
    async with chat_endpoint() as server:
        options = ("--config", "memory.yaml", "--store", URL, "--user", "lin", "--auto", "--json")
        env = {"OCTAVO__EXTRACTION__BASE_URL": server.url, "NO_PROXY": "127.0.0.1"}
        fact = {"action": "insert", "layer": "profile", "category": "value", "content": "Lin is kind", "reason": "said"}  # fmt: skip
        server.script.append(said(json.dumps({"facts": [fact]})))
        done = await asyncio.to_thread(octavo, "memory", "add", "I am kind", *options, env=env)
        assert [each["content"] for each in json.loads(done.stdout)["memories"]] == ["Lin is kind"]
        server.script.append(http("401 Unauthorized", b'{"error": {"message": "no sk-hidden-0123456789"}}'))
        done = await asyncio.to_thread(octavo, "memory", "add", "I am a nurse", *options, env=env)
        assert done.exit_code == 0
        assert [each["category"] for each in json.loads(done.stdout)["memories"]] == ["career"]
        assert "sk-hidden" not in done.output
    assert not Path("queue").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "whose memory? name a user by --user or an agent by --agent"),
        (("--user", "a", "--agent", "b"), "give --user or --agent, not both"),
        (("--user", ""), "user_id must be a name"),
        (("--user", "a", "--layer", "event", "--category", "career"), "--category career belongs to the profile layer"),
        (("--user", "a", "--ttl", "soon"), "not a length of time: 'soon'"),
        (("--user", "a", "--expires", "soon"), "--expires 'soon' is no time"),
        (("--user", "a", "--expires", "2h"), "--expires '2h' is no time"),
        (("--user", "a", "--expires", "2001-01-01"), "is in the past"),
        (("--user", "a", "--ttl", "2d", "--permanent"), "--permanent and --ttl say different things"),
        (("--user", "a", "--metadata", "[1]"), "--metadata must be a JSON object"),
        (("--user", "a", "--metadata", "{"), "--metadata must be a JSON object"),
        (("--user", "a", "--auto", "--layer", "event", "--ttl", "1d"), "leave out --layer, --ttl"),
        (("--user", "a", "--category", "animals"), "Invalid value for '--category'"),
        (("--user", "a", "--layer", "both"), "Invalid value for '--layer'"),
    ],
)  # fmt: skip
def test_mistakes(memory, words, sentence):
    """Each is told in a sentence, ends with 2, and keeps nothing."""
    done = memory("add", "x", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert not Path("octavo.db").exists() or memory("log").stdout == "nothing was changed\n"


def test_what_no_store_keeps_is_refused(memory):
    done = memory("add", "half \ud800", "--user", "u", "--category", "other")
    assert done.exit_code == 2
    assert done.stderr.startswith("octavo: ")


# --- list, search, log ------------------------------------------------------------------------------------------------


def test_list_as_of(memory, told):
    async def remember(memory):
        await memory.remember("Lin is a nurse", user_id="lin", layer="profile", category="career")

    async def revise(memory):
        [only] = await memory.profile(user_id="lin")
        await memory.revise(only.id, user_id="lin", content="Lin is a doctor")

    happened((NOON, remember), (NOON + timedelta(hours=1), revise))

    def contents(*words):
        return [each["content"] for each in told("list", "--user", "lin", *words)["memories"]]

    assert contents() == ["Lin is a doctor"]
    assert contents("--as-of", "2026-03-01T12:30:00+00:00") == ["Lin is a nurse"]
    assert contents("--as-of", "2026-03-01T11:59:00+00:00", "--layer", "profile") == []
    assert contents("--as-of", "1s") == ["Lin is a doctor"]
    wrong = memory("list", "--user", "lin", "--as-of", "then")
    assert (wrong.exit_code, "or 2h for two hours ago" in wrong.stderr) == (2, True)


def test_limit_and_order(told):
    for number in range(3):
        told("add", f"event {number}", "--user", "u", "--category", "other")
        told("add", f"fact {number}", "--user", "u", "--category", "value")

    def contents(*words):
        return [each["content"] for each in told("list", "--user", "u", *words)["memories"]]

    assert contents("-n", "2") == ["fact 2", "fact 1", "event 2", "event 1"]
    assert contents("--layer", "event") == ["event 2", "event 1", "event 0"]
    assert contents("--category", "value", "--limit", "1") == ["fact 2"]
    assert contents("-n", "0") == []


def test_search(memory, told):
    told("add", "林喜欢喝咖啡", "--user", "lin", "--category", "preference")
    told("add", "Bo drinks coffee, 咖啡", "--agent", "bo", "--category", "action")
    assert told("search", "咖啡", "--everyone")["count"] == 2
    found = told("search", "咖啡", "--user", "lin")
    assert [(each["content"], isinstance(each["score"], float)) for each in found["memories"]] == [
        ("林喜欢喝咖啡", True)
    ]
    assert [
        each["entity_id"] for each in told("search", "咖啡", "--everyone", "--layer", "event")["memories"]
    ] == ["bo"]
    assert memory("search", "咖啡", "--user", "lin").stdout.endswith("  林喜欢喝咖啡\n")
    nothing = memory("search", "zebra", "--user", "lin")
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (1, "", "octavo: nothing was found\n")
    assert json.loads(memory("search", "zebra", "--user", "lin", "--json").stdout)["ok"] is False


def test_a_search_belongs_to_somebody(memory, told):
    told("add", "林喜欢喝咖啡", "--user", "lin", "--category", "preference")
    refused = memory("search", "咖啡")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--user or --agent, or everyone by --everyone" in refused.stderr
    for owner in ("--user", "--agent"):
        both = memory("search", "咖啡", owner, "lin", "--everyone")
        assert (both.exit_code, "not both" in both.stderr) == (2, True)


def test_log(memory, told, nurse):
    told("add", "x", "--agent", "bot", "--category", "other")
    assert told("log")["count"] == 2
    assert told("log", "--agent", "bot", "--layer", "profile")["count"] == 0
    assert told("log", "--limit", "1")["count"] == 1
    [entry] = told("log", nurse["id"])["logs"]
    assert (entry["action"], entry["memory_layer"], entry["version"], entry["before"]) == (
        "insert", "profile", 1, None,
    )  # fmt: skip
    row = memory("log", nurse["id"], "--user", "lin").stdout
    assert row.split()[3:6] == ["insert", "profile", entry["id"]]
    assert row.rstrip().endswith(entry["reason"])
    told("forget", nurse["id"], "--user", "lin", "--yes", "--reason", "she asked")
    assert [each["action"] for each in told("log", nurse["id"])["logs"]] == ["delete", "insert"]
    assert told("log", "--action", "delete")["logs"][0]["reason"] == "she asked"
    for words in (("nope",), (nurse["id"], "--user", "bo")):
        missing = memory("log", *words)
        assert (missing.exit_code, "there is no memory" in missing.stderr) == (1, True)


def test_what_was_remembered_does_not_steer_the_terminal(memory, told):
    """Neither by escapes nor by lines that look like rows."""
    told("add", "a\x1b[2J\nb\u202e c", "--user", "u", "--category", "other", "--reason", "r\x1b[0m")
    shown = memory("list", "--user", "u").stdout + memory("log").stdout
    assert shown.count("\n") == 2
    assert "\x1b" not in shown
    assert r"a\x1b[2J b\u202e c" in shown


# --- forget, undo, sweep ----------------------------------------------------------------------------------------------


def test_forget_asks_first(memory, told, nurse):
    no = memory("forget", nurse["id"], "--user", "lin", input="n\n")
    assert (no.exit_code, "Forget “Lin is a nurse”?" in no.stderr) == (1, True)
    assert told("list", "--user", "lin")["count"] == 1
    yes = memory("forget", nurse["id"], "--user", "lin", input="y\n")
    assert (yes.exit_code, yes.stdout) == (0, "forgot “Lin is a nurse”\n")
    assert told("list", "--user", "lin")["count"] == 0
    gone = memory("forget", nurse["id"], "--user", "lin", "--yes")
    assert (gone.exit_code, "there is no memory" in gone.stderr) == (1, True)


def test_nobody_forgets_for_somebody_else(memory, told, nurse):
    for words in (("--user", "bo"), ("--agent", "lin"), ("--user", "bo", "--yes"), ("--user", "lin", "--layer", "event", "--yes")):  # fmt: skip
        done = memory("forget", nurse["id"], *words, input="y\n")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "nurse" not in done.stderr
    assert memory("forget", nurse["id"], "--yes").exit_code == 2
    assert memory("forget", nurse["id"], "--user", "lin", "--json").exit_code == 2
    assert told("list", "--user", "lin")["count"] == 1


def test_undo(memory, told, nurse):
    told("forget", nurse["id"], "--user", "lin", "--yes")
    newest = told("log", nurse["id"])["logs"][0]["id"]
    done = memory("undo", newest)
    assert (done.exit_code, done.stdout) == (0, f"{nurse['id']} is “Lin is a nurse” again\n")
    assert told("list", "--user", "lin")["memories"][0]["content"] == "Lin is a nurse"
    late = memory("undo", newest)
    assert (late.exit_code, "is newer" in late.stderr) == (1, True)
    back = told("log", nurse["id"])["logs"][0]
    assert back["metadata"]["undo_of"] == newest
    assert memory("undo", back["id"]).stdout == f"removed {nurse['id']} again\n"
    assert memory("undo", "nope").exit_code == 1
    assert told("undo", told("log", nurse["id"])["logs"][0]["id"], "--reason", "so")["log"]["reason"] == "so"


def test_sweep(memory, told):
    async def remember(memory):
        await memory.remember("old", user_id="u", category="other", ttl_seconds=60)
        await memory.of("acme").remember("old too", user_id="u", category="other", ttl_seconds=60)
        await memory.remember("kept", user_id="u", category="other")

    happened((NOON, remember))
    assert [each["content"] for each in told("list", "--user", "u")["memories"]] == ["kept"]
    assert told("log", "--action", "expire")["count"] == 0  # no command sweeps by the way
    assert memory("sweep").stdout == "removed 2 expired memories\n"
    assert told("log", "--action", "expire")["count"] == 1
    assert told("sweep")["removed"] == 0


# --- which memory is meant --------------------------------------------------------------------------------------------


def test_tenants_do_not_meet(told, nurse):
    assert told("list", "--user", "lin", "--tenant", "acme")["count"] == 0
    told("add", "other", "--user", "lin", "--tenant", "acme", "--category", "value")
    assert [each["content"] for each in told("list", "--user", "lin", "--tenant", "acme")["memories"]] == ["other"]  # fmt: skip
    assert [each["content"] for each in told("list", "--user", "lin")["memories"]] == ["Lin is a nurse"]


def test_the_store_by_the_environment_or_the_settings(octavo, monkeypatch, nurse):
    assert "Lin is a nurse" in octavo("memory", "list", "--user", "lin").stdout  # where octavo serve keeps it
    monkeypatch.setenv("OCTAVO_URL", "sqlite:///other.db")
    other = octavo("memory", "list", "--user", "lin")
    assert (other.exit_code, "other.db" in other.stderr) == (2, True)
    monkeypatch.setenv("OCTAVO_URL", URL)
    assert "Lin is a nurse" in octavo("memory", "list", "--user", "lin").stdout
    Path("config").mkdir()
    Path("config/memory.yaml").write_text(f"database:\n  dsn: {URL}\nservice:\n  tenant: acme\n")
    monkeypatch.delenv("OCTAVO_URL")
    assert octavo("memory", "list", "--user", "lin").stdout == "nothing is remembered\n"  # acme's
    assert "Lin is a nurse" in octavo("memory", "list", "--user", "lin", "--tenant", "").stdout
    missing = octavo("memory", "list", "--user", "lin", "--config", "nowhere.yaml")
    assert (missing.exit_code, "nowhere.yaml" in missing.stderr) == (2, True)


def test_a_store_that_is_not_there(memory):
    for words in (("list", "--user", "u"), ("search", "x", "--everyone"), ("log",), ("sweep",), ("undo", "x"), ("forget", "x", "--user", "u", "-y")):  # fmt: skip
        done = memory(*words)
        assert (done.exit_code, "there is no store at octavo.db" in done.stderr) == (2, True)
    assert not Path("octavo.db").exists()


def test_a_store_that_is_down(octavo):
    """One sentence without the password, and nothing is left behind that nobody would deliver."""
    url = "postgresql://lin:hunter2@127.0.0.1:1/none"
    done = octavo("memory", "add", "x", "--user", "u", "--category", "other", "--store", url, "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["ok"] is False
    assert done.stderr.count("\n") == 1
    assert "hunter2" not in done.output
    assert list(Path().iterdir()) == []


def test_quiet(memory, nurse):
    assert memory("list", "--user", "lin", "--quiet").output == ""
    assert memory("search", "zebra", "--user", "lin", "-q").output == ""
    assert memory("sweep", "-q").output == ""


def test_postgresql(octavo, fresh_postgres):
    """The whole way on a server: add, update by a text, see why, forget, take back."""

    def call(*words):
        done = octavo("memory", *words, "--store", fresh_postgres, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    call("add", SEED, "--user", "lin", "--auto")
    call("add", "他现在是高级软件工程师", "--user", "lin", "--auto")
    [job] = call("list", "--user", "lin", "--category", "career")["memories"]
    assert ("高级" in job["content"], job["version"]) == (True, 2)
    assert call("search", "软件工程师", "--user", "lin")["memories"][0]["id"] == job["id"]
    assert [each["action"] for each in call("log", job["id"])["logs"]] == ["update", "insert"]
    call("forget", job["id"], "--user", "lin", "--yes")
    call("undo", call("log", job["id"])["logs"][0]["id"])
    assert call("list", "--user", "lin", "--category", "career")["memories"][0]["content"] == job["content"]


def test_the_installed_command():
    """As a shell runs it: exit codes, and results apart from everything else."""
    run = [sys.executable, "-m", "octavo.cli", "memory"]
    done = subprocess.run([*run, "add", "-", "--user", "林", "--category", "value", "--store", URL], input="诚实\n", capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("remembered user_林_")
    done = subprocess.run([*run, "list", "--store", URL], capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
