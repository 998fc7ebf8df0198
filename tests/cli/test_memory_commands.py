"""`octavo add`, `octavo search` and `octavo context`: what each shows, to people and to programs, and how it ends."""

import asyncio
import json
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from calling import SEED, URL

from agent.chat_endpoint import chat_endpoint, http, said
from octavo import Memory, MemoryService, MessagePayload, Observation, ObservationType, open_store
from octavo.chat import ChatMemory, Msg
from octavo.events import AgentEvent, EventStore
from octavo.layers import CATEGORIES, LayeredMemory
from octavo.memory import DEFAULT_USER
from octavo.service.vault import Vault

FIVE_LINES = "I live in Berlin and I am allergic to peanuts."


def rows(done):
    """The header and the rows of a table, cell by cell."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in done.stdout.splitlines()]


# --- add


def test_what_was_said_is_found(octavo, told):
    """The first two commands that anybody types, without any option."""
    done = octavo("add", FIVE_LINES)
    assert done.exit_code == 0
    header, *found, summary = done.stdout.splitlines()
    assert header.split() == ["CHANGE", "TEXT", "LAYER", "CATEGORY", "ID"]
    assert [line.split("  ")[1] for line in found] == [
        "The user lives in Berlin",
        "The user is allergic to peanuts",
    ]
    assert summary == "kept, and 2 facts found in it: 2 inserted, 0 updated, 0 ignored"
    header, best, *_ = rows(octavo("search", "where do I live?"))
    assert header == ["SCORE", "TEXT", "SOURCE", "WHEN", "OWNER", "WHY", "ID"]
    assert best[1:3] == ["I live in Berlin and I am allergic to peanuts.", "messages"]
    assert best[4:6] == [DEFAULT_USER, "says live; is about home, residence"]
    [hit] = told("search", "where do I live?", "--source", "facts", "-n", "1")["hits"]
    assert (hit["user_id"], hit["agent_id"], hit["source"], hit["why"]) == (
        DEFAULT_USER,
        None,
        "facts",
        "says live; is about home, residence",
    )
    assert hit["sources"] == [best[6]]
    assert 0 < float(best[0]) <= 1


def test_add_inserts_updates_and_ignores(octavo, told):
    """The seed's sentence: two facts of the profile and a meeting; said again, nothing is new."""
    lines = rows(octavo("add", SEED, "--user", "lin"))[1:-1]
    assert [(line[0], *line[2:4]) for line in lines] == [
        ("insert", "profile", "career"),
        ("insert", "profile", "education"),
        ("insert", "event", "meeting"),
    ]
    again = told("add", SEED, "--user", "lin", "--metadata", '{"n": 2}')
    assert (again["inserted"], again["updated"], again["ignored"], again["status"]) == (0, 0, 3, "stored")
    assert len(again["messages"]) == 1
    changed = octavo("add", "他现在是高级软件工程师", "--user", "lin").stdout.splitlines()[1]
    assert changed.startswith("update  用户现在是高级软件工程师 (was: 用户是一名软件工程师)")
    nothing = octavo("add", "hello there", "--user", "lin")
    assert (nothing.exit_code, nothing.stdout) == (0, "kept; there is no fact in it\n")
    assert [hit["text"] for hit in told("search", "hello", "--user", "lin")["hits"]] == ["hello there"]


def test_what_was_not_read_is_said(octavo):
    done = octavo("add", "I like tea. " * 40_000)
    assert done.exit_code == 0
    assert done.stderr.startswith("octavo: only the first ")
    assert done.stderr.endswith("the text is kept whole\n")


async def test_add_with_a_model(octavo):
    """The settings name a model; when it fails, the rules decide and its key is not told."""
    Path("memory.yaml").write_text(
        "extraction:\n  model: m\n  api_key: sk-hidden-0123456789\nfailure_queue:\n  directory: queue\n"
    )
    async with chat_endpoint() as server:
        options = ("--config", "memory.yaml", "--user", "lin", "--json")
        env = {"OCTAVO__EXTRACTION__BASE_URL": server.url, "NO_PROXY": "127.0.0.1"}
        fact = {"action": "insert", "layer": "profile", "category": "value", "content": "Lin is kind", "quote": "I am kind", "reason": "said"}  # fmt: skip
        server.script.append(said(json.dumps({"facts": [fact]})))
        done = await asyncio.to_thread(octavo, "add", "I am kind", *options, env=env)
        assert [each["content"] for each in json.loads(done.stdout)["memories"]] == ["Lin is kind"]
        server.script.append(http("401 Unauthorized", b'{"error": {"message": "no sk-hidden-0123456789"}}'))
        done = await asyncio.to_thread(octavo, "add", "I am a nurse", *options, env=env)
        assert done.exit_code == 0
        assert [each["category"] for each in json.loads(done.stdout)["memories"]] == ["career"]
        assert "sk-hidden" not in done.output
    assert not Path("queue").exists()


def test_add_from_stdin(octavo, told):
    kept = told("add", "-", "--no-infer", "--category", "other", input="\ufeff两行\n文字\n")["memory"]
    assert (kept["content"], kept["entity_id"]) == ("两行\n文字", DEFAULT_USER)
    assert told("add", "-", input=f"{FIVE_LINES}\n")["inserted"] == 2
    bad = octavo("add", "-", input=b"\xff\xfe")
    assert (bad.exit_code, "stdin is not UTF-8" in bad.stderr) == (2, True)
    kept = told("add", "-", "--no-infer", input="as on Windows\r\n")["memory"]
    assert kept["content"] == "as on Windows"
    large = octavo("add", "-", input="x" * (16 * 2**20 + 1))
    assert (large.exit_code, "add it in parts" in large.stderr) == (2, True)
    for more in ((), ("--no-infer",)):
        none = octavo("add", "-", *more, input="")
        assert (none.exit_code, "empty" in none.stderr) == (2, True)


def test_add_as_it_is(octavo, told):
    done = octavo(
        "add", "Lin is a nurse", "--user", "lin", "--no-infer", "--layer", "profile", "--category", "career"
    )
    said, _, id_ = done.stdout.rstrip().rpartition(": ")
    assert (done.exit_code, said) == (0, "remembered in the profile layer as career")
    assert id_.startswith("user_lin_")
    [kept] = told("list", "--user", "lin")["memories"]
    assert (kept["id"], kept["content"], kept["is_permanent"], kept["metadata"]) == (
        id_,
        "Lin is a nurse",
        True,
        {},
    )
    for layer, names in CATEGORIES.items():
        for name in names:
            kept = told("add", f"It is {name}", "--agent", "bot", "--no-infer", "--category", name)["memory"]
            assert (kept["layer"], kept["category"], kept["memory_type"]) == (layer, name, "agent")
    kept = told(
        "add", "昨天和老板开了会", "--no-infer", "--session", "monday", "--agent", "bot", "--user", "u"
    )["memory"]
    assert (kept["layer"], kept["category"], kept["entity_id"]) == ("event", "meeting", "u")
    assert kept["metadata"] == {"session_id": "monday", "agent_id": "bot"}


def test_how_long_it_is_kept(told):
    def added(*words):
        return told("add", "x", "--no-infer", "--category", "other", *words)["memory"]

    kept = added("--ttl", "7d")
    assert datetime.fromisoformat(kept["expiry_date"]) - datetime.fromisoformat(kept["created_at"]) == timedelta(7)  # fmt: skip
    assert added("--expires", "2999-01-01T08:00:00+08:00")["expiry_date"] == "2999-01-01T00:00:00Z"
    assert added("--permanent")["is_permanent"] is True
    assert added()["is_permanent"] is False
    kept = added("--metadata", '{"from": {"mail": 1}}', "--reason", "I asked")
    assert kept["metadata"] == {"from": {"mail": 1}}
    assert told("history", kept["id"])["logs"][0]["reason"] == "I asked"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--user", ""), "user_id must be a name"),
        (("--session", ""), "session_id must be a name"),
        (
            ("--no-infer", "--layer", "event", "--category", "career"),
            "--category career belongs to the profile layer",
        ),
        (("--no-infer", "--ttl", "soon"), "not a length of time: 'soon'"),
        (("--no-infer", "--expires", "soon"), "--expires 'soon' is no time"),
        (("--no-infer", "--expires", "2h"), "--expires '2h' is no time"),
        (("--no-infer", "--expires", "2001-01-01"), "is in the past"),
        (("--no-infer", "--ttl", "2d", "--permanent"), "--permanent and --ttl say different things"),
        (("--metadata", "[1]"), "--metadata must be a JSON object"),
        (("--metadata", "{"), "--metadata must be a JSON object"),
        (("--layer", "event", "--ttl", "1d"), "leave out --layer, --ttl, or give --no-infer too"),
        (("--no-infer", "--category", "animals"), "Invalid value for '--category'"),
        (("--no-infer", "--layer", "both"), "Invalid value for '--layer'"),
    ],
)
def test_mistakes(octavo, words, sentence):
    """Each is told in a sentence, ends with 2, and keeps nothing."""
    done = octavo("add", "x", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert not Path("octavo.db").exists() or octavo("history", "--everyone").stdout == "nothing was changed\n"


def test_the_cure_for_an_end_is_not_in_the_past(octavo):
    done = octavo("add", "x", "--no-infer", "--expires", "yesterday")
    [day] = re.findall(r"try (\S+),", done.stderr)
    assert octavo("add", "x", "--no-infer", "--expires", day).exit_code == 0


@pytest.mark.parametrize("command", [("search", "tea"), ("events", "list")])
def test_a_span_that_ends_before_it_begins_is_refused(octavo, nurse, command):
    """Or nothing in it would look like nothing that is known."""
    done = octavo(*command, "--since", "1h", "--until", "2h")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "octavo: --since '1h' is later than --until '2h': nothing is in between\n"


def test_what_no_store_keeps_is_refused(octavo):
    for more in ((), ("--no-infer", "--category", "other")):
        done = octavo("add", "half \ud800", *more)
        assert done.exit_code == 2
        assert done.stderr.startswith("octavo: ")


# --- search


def test_python_and_the_command_find_what_the_other_has_added(octavo, told):
    """Without a store, a user or a setting on either side."""
    with Memory() as memory:
        memory.add(FIVE_LINES)
        memory.add("我对花粉过敏", user_id="林", session_id="周一")
    assert "live in Berlin" in told("search", "where do I live?")["hits"][0]["text"]
    assert "花粉" in told("search", "花粉", "--user", "林", "--session", "周一")["hits"][0]["text"]
    assert octavo("search", "花粉").exit_code == 1  # another user's
    told("add", "My sister plays the cello", "--session", "tuesday")
    with Memory() as memory:
        hits = memory.search("who plays the cello?", session_id="tuesday")
        assert [hit.text for hit in hits][:1] == [h["text"] for h in told("search", "cello")["hits"]][:1]
        assert "cello" in hits[0].text
        listed = [each["id"] for each in told("list")["memories"]]
        assert sorted(listed) == sorted(fact.id for fact in memory.get_all())
        assert (
            memory.context("cello", session_id="tuesday").text + "\n"
            == octavo("context", "cello", "--session", "tuesday").stdout
        )


async def _fact(store):
    await LayeredMemory(store).remember("a walrus", user_id="lin")


async def _message(store):
    await ChatMemory(store, "lin", "monday").add(Msg("lin", "a walrus", "user"))


async def _observation(store):
    del store
    seen = Observation(ObservationType.MESSAGE, MessagePayload("a walrus"))
    with MemoryService(URL, vault_path=None) as service:
        service.append_event(seen, "monday")


async def _event(store):
    said = {"message": "a walrus"}
    await EventStore(store).store(AgentEvent(agent_name="bot", session_id="monday", data=said))


async def _document(store):
    async with Vault("vault", store) as vault:
        await vault.put("facts/animals", "a walrus")
        await vault.sync()


@pytest.mark.parametrize(
    ("keep", "source", "owner"),
    [
        (_fact, "facts", ("--user", "lin")),
        (_message, "messages", ("--user", "lin", "--session", "monday")),
        (_observation, "observations", ("--session", "monday")),
        (_event, "events", ("--agent", "bot", "--session", "monday")),
        (_document, "documents", ("--everyone",)),
    ],
)
def test_what_any_face_keeps_is_found_and_shown(octavo, told, keep, source, owner):
    async def fill():
        async with open_store(URL) as store:
            await keep(store)

    asyncio.run(fill())
    for whose in (owner, ("--everyone",)):
        [hit] = told("search", "walrus", *whose)["hits"]
        assert (hit["source"], "a walrus" in hit["text"]) == (source, True)
    assert octavo("search", "walrus", "--user", "bo").exit_code == 1
    shown = octavo("show", hit["id"])
    assert (shown.exit_code, shown.stdout.splitlines()[0].strip()) == (0, hit["text"])
    assert f"\nid        {hit['id']}\n" in shown.stdout


def test_a_search_is_somebodys_or_everyones(octavo, told):
    told("add", "林喜欢喝咖啡", "--user", "lin", "--no-infer", "--category", "preference")
    told("add", "Bo drinks coffee, 咖啡", "--agent", "bo", "--no-infer", "--category", "action")
    assert {hit["user_id"] or hit["agent_id"] for hit in told("search", "咖啡", "--everyone")["hits"]} == {
        "lin",
        "bo",
    }
    assert [hit["user_id"] for hit in told("search", "咖啡", "--user", "lin")["hits"]] == ["lin"]
    assert [line[4] for line in rows(octavo("search", "咖啡", "--agent", "bo"))[1:]] == ["bo (agent)"]
    assert octavo("search", "咖啡").exit_code == 1  # the default user's
    for owner in ("--user", "--agent", "--session"):
        both = octavo("search", "咖啡", owner, "lin", "--everyone")
        assert (both.exit_code, "or --everyone, not both" in both.stderr) == (2, True)


def test_search_is_narrowed(octavo, told):
    """By source, layer, time, session and metadata."""
    told("add", "I like tea", "--session", "monday", "--metadata", '{"from": "mail"}')
    told("add", "We spoke of tea", "--no-infer", "--category", "meeting")
    told("add", "tea is a value", "--no-infer", "--category", "value")

    def texts(*words):
        done = octavo("search", "tea", "--json", *words)
        return {hit["text"] for hit in json.loads(done.stdout)["hits"]}

    assert texts("--source", "messages") == {"I like tea"}
    assert (
        texts("--source", "facts,messages") == texts("--source", "facts", "--source", "messages") == texts()
    )
    assert texts("--layer", "event") == {"We spoke of tea"}
    assert texts("--layer", "profile") == {"The user likes tea", "tea is a value"}
    assert texts("--session", "monday", "--source", "messages") == {"I like tea"}
    assert texts("--session", "tuesday") == set()
    assert texts("--metadata", '{"from": "mail"}', "--source", "messages") == {"I like tea"}
    assert texts("--metadata", '{"from": "a friend"}') == set()
    assert texts("--until", "1h") == texts("--since", "2999-01-01") == set()
    assert texts("--since", "1h", "--until", "2999-01-01") == texts()
    assert len(texts("-n", "1")) == 1
    for words, sentence in (
        (("--source", "dreams"), "unknown source 'dreams'; known: facts, messages"),
        (("--layer", "event", "--source", "messages"), "only facts have a layer"),
        (("--since", "then"), "or 2h for two hours ago"),
        (("--metadata", "1"), "--metadata must be a JSON object"),
    ):
        wrong = octavo("search", "tea", *words)
        assert (wrong.exit_code, sentence in wrong.stderr) == (2, True)


def test_nothing_was_found(octavo, nurse):
    done = octavo("search", "zebra", "--user", "lin")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "octavo: nothing was found: memory probably holds no answer\n"
    document = json.loads(octavo("search", "zebra", "--user", "lin", "--json").stdout)
    assert (document["ok"], document["probably_absent"], document["hits"]) == (False, True, [])


def test_hits_that_are_probably_no_answer(octavo, told):
    """They are shown, and it is said what they are worth."""
    for number in range(30):
        told(
            "add",
            f"Report {number} was finished by the team in the office",
            "--no-infer",
            "--category",
            "action",
        )
    question = "which hospital did the dentist of the team recommend to my aunt?"
    done = octavo("search", question)
    assert (done.exit_code, rows(done)[0][0]) == (0, "SCORE")
    assert done.stderr == "octavo: memory probably holds no answer; this is the nearest there is\n"
    document = told("search", question)
    assert (document["probably_absent"], document["count"] > 0) == (True, True)
    assert told("search", "who finished report 7?")["probably_absent"] is False


# --- context


def test_context_is_the_block_alone(octavo, told):
    told("add", FIVE_LINES)
    told("add", "What is for dinner?", "--session", "monday")
    done = octavo("context", "may I eat peanuts?", "--session", "monday")
    assert (done.exit_code, done.stderr) == (0, "")
    first, *lines, last = done.stdout.splitlines()
    assert (first, last) == ("```memory", "```")
    assert sum("allergic to peanuts" in line for line in lines) == 1
    assert any(line.endswith("user: What is for dinner?") for line in lines)
    document = told("context", "may I eat peanuts?", "--session", "monday")
    assert (document["text"] + "\n", document["probably_absent"]) == (done.stdout, False)
    assert 0 < document["tokens"] <= 1000
    small = told("context", "may I eat peanuts?", "--session", "monday", "--max-tokens", "60")
    assert (0 < small["tokens"] <= 60, small["left_out"] > 0) == (True, True)
    assert "Berlin" not in octavo("context", "where do I live?", "--user", "bo").stdout


def test_context_without_anything_to_say(octavo, nurse):
    nobody = octavo("context", "who?", "--user", "bo")
    assert (nobody.exit_code, nobody.stdout, nobody.stderr) == (0, "", "octavo: nothing is remembered\n")
    tight = octavo("context", "who?", "--user", "lin", "--max-tokens", "1")
    assert (tight.exit_code, tight.stdout) == (0, "")
    assert tight.stderr == "octavo: nothing fits into 1 token; --max-tokens gives it more\n"
    elsewhere = octavo("context", "which zebra?", "--user", "lin")
    assert "Lin is a nurse" in elsewhere.stdout
    assert elsewhere.stderr == "octavo: memory probably holds no answer to that\n"


# --- everywhere


def test_postgresql(octavo, fresh_postgres):
    """The whole way on a server: add, update by a text, find, see why, delete, take back."""

    def call(*words):
        done = octavo(*words, "--store", fresh_postgres, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    call("add", SEED, "--user", "lin")
    call("add", "他现在是高级软件工程师", "--user", "lin", "--session", "monday")
    [job] = call("list", "--user", "lin", "--category", "career")["memories"]
    assert ("高级" in job["content"], job["version"]) == (True, 2)
    assert call("search", "软件工程师", "--user", "lin", "--source", "facts")["hits"][0]["id"] == job["id"]
    assert "高级软件工程师" in call("context", "他做什么工作？", "--user", "lin")["text"]
    shown = call("show", job["id"])
    assert [each["action"] for each in shown["history"]] == ["insert", "update"]
    assert [each["text"] for each in shown["sources"]] == [SEED, "他现在是高级软件工程师"]
    gone = call("delete", job["id"], "--yes")
    assert call("list", "--user", "lin", "--category", "career")["count"] == 0
    call("undo", gone["log"]["id"])
    assert call("list", "--user", "lin", "--category", "career")["memories"][0]["content"] == job["content"]
    assert [each["action"] for each in call("history", job["id"])["logs"]] == [
        "insert",
        "delete",
        "update",
        "insert",
    ]
    assert call("prune")["removed"] == 0


def test_a_store_that_is_down(octavo):
    """One sentence without the password, and nothing is left behind that nobody would deliver."""
    url = "postgresql://lin:hunter2@127.0.0.1:1/none"
    for words in (("add", "I am a nurse"), ("add", "x", "--no-infer"), ("search", "x"), ("context", "x")):
        done = octavo(*words, "--store", url, "--json")
        assert done.exit_code == 1
        assert json.loads(done.stdout)["ok"] is False
        assert done.stderr.count("\n") == 1
        assert "is it running, and is the address in --store" in done.stderr
        assert "hunter2" not in done.output
    assert list(Path().iterdir()) == []


def test_the_installed_command():
    """As a shell runs it: exit codes, and results apart from everything else."""
    run = [sys.executable, "-m", "octavo.cli"]
    more = {"capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([*run, "add", "-", "--user", "林"], input="我是护士\n", check=False, **more)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].split()[-1].startswith("user_林_")
    done = subprocess.run([*run, "search", "护士", "--user", "林"], check=False, **more)
    assert (done.returncode, done.stderr, "护士" in done.stdout) == (0, "", True)
    done = subprocess.run([*run, "search", "护士"], check=False, **more)
    assert (done.returncode, done.stdout) == (1, "")
    without_stdout = f'"{sys.executable}" -m octavo.cli list --user 林 --quiet >&-'
    done = subprocess.run(without_stdout, shell=True, check=False, **more)
    assert (done.returncode, done.stderr) == (0, "")
