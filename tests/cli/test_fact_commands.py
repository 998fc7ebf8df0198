"""`octavo list`, `show`, `history`, `undo`, `delete` and `prune`: what each shows, and how it ends."""

import json
import re
import time
from datetime import datetime, timedelta
from pathlib import Path

from calling import NOON, URL, happened

from octavo.memory import DEFAULT_USER

EVERY = (
    *("add", "search", "context", "list", "show", "history", "undo"),
    *("delete", "allow", "forget", "prune"),
)


def test_they_come_first_in_the_help_of_the_whole(octavo):
    listed = octavo("--help").stdout.partition("Commands:\n")[2].split("\n")
    assert tuple(line.split()[0] for line in listed[: len(EVERY)]) == EVERY
    assert octavo("memory", "list").exit_code == 2  # the words of a group that is gone


def test_list(octavo, told, nurse):
    header, row = octavo("list", "--user", "lin").stdout.splitlines()
    assert header.split("  ")[0] == "TEXT"
    assert header.split()[1:] == ["LAYER", "CATEGORY", "TOPIC", "WHEN", "OWNER", "ID"]
    assert row.startswith("Lin is a nurse  profile  career")
    assert row.split()[-2:] == ["lin", nurse["id"]]
    told("add", "x", "--user", "lin", "--no-infer", "--category", "other", "--expires", "2999-01-01")
    header, _, row = octavo("list", "--user", "lin").stdout.splitlines()
    assert "UNTIL" in header
    assert "  2999-01-01 00:00  " in row
    listed = told("list", "--user", "lin")
    assert (listed["user_id"], listed["count"]) == ("lin", 2)
    assert octavo("list", "--agent", "lin").stdout == "no memory of “lin”\n"


def test_the_user_that_is_not_named_is_one_user(octavo, told):
    told("add", "I am a nurse")
    assert told("list")["memories"] == told("list", "--user", DEFAULT_USER)["memories"] != []
    assert told("history")["count"] == told("history", "--user", DEFAULT_USER)["count"] == 1
    assert DEFAULT_USER in octavo("list").stdout


def test_nobody_is_asked_about_erasing_nothing(octavo, told, nurse):
    done = octavo("forget", "--user", "nobody")
    assert (done.exit_code, "for good?" in done.stderr) == (0, False)
    assert done.stdout.startswith("nothing of that is kept\n")


def test_a_line_when_there_is_nothing(octavo, told, nurse):
    assert octavo("list").stdout == f"no memory of “{DEFAULT_USER}”\n"
    assert octavo("list", "--user", "lin", "--layer", "event").stdout == "no such memory of “lin”\n"
    told("add", "hello there", "--user", "bo")
    only_said = "no memory of “bo”; octavo search looks through what else is kept\n"
    assert octavo("list", "--user", "bo").stdout == only_said
    assert octavo("history").stdout == "nothing was changed\n"


def test_list_as_of(octavo, told):
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
    wrong = octavo("list", "--user", "lin", "--as-of", "then")
    assert (wrong.exit_code, "or 2h for two hours ago" in wrong.stderr) == (2, True)


def test_list_is_narrowed_and_ordered(octavo, told):
    for number in range(3):
        session = ("--session", "monday") if number == 1 else ()
        told("add", f"event {number}", "--no-infer", "--category", "other", *session)
        told("add", f"fact {number}", "--no-infer", "--category", "value", *session)

    def contents(*words):
        return [each["content"] for each in told("list", *words)["memories"]]

    assert contents("-n", "2") == ["fact 2", "fact 1", "event 2", "event 1"]
    assert contents("--layer", "event") == ["event 2", "event 1", "event 0"]
    assert contents("--category", "value", "--limit", "1") == ["fact 2"]
    assert contents("--session", "monday", "-n", "1") == ["fact 1", "event 1"]
    assert contents("--session", "monday", "--layer", "profile", "--as-of", "2999-01-01") == ["fact 1"]
    assert contents("-n", "0") == []
    assert (told("list", "-n", "2")["more"], told("list", "-n", "3")["more"]) == (True, False)
    assert octavo("list", "-n", "1").stderr == "octavo: there are more; --limit shows them\n"
    assert octavo("list", "-n", "3").stderr == ""
    mixed = octavo("list", "--layer", "event", "--category", "value")
    assert (mixed.exit_code, "belongs to the profile layer" in mixed.stderr) == (2, True)


def test_show(octavo, told):
    added = told(
        "add", "I am a nurse", "--user", "lin", "--session", "monday", "--metadata", '{"from": "mail"}'
    )
    id_ = added["memories"][0]["id"]
    changed = told("add", "Now I am a doctor", "--user", "lin")
    assert (changed["updated"], changed["memories"][0]["id"]) == (1, id_)
    first, _, *lines = octavo("show", id_).stdout.splitlines()
    assert first.startswith("    The user is a doctor")
    fields = dict(line.split(maxsplit=1) for line in lines[: lines.index("")])
    assert (fields["owner"], fields["layer"], fields["category"], fields["id"]) == (
        "lin",
        "profile",
        "career",
        id_,
    )
    assert (fields["until"], '"from":"mail"' in fields["metadata"]) == ("for ever", True)
    shown = "\n".join(lines)
    assert (
        shown.index("CHANGE") < shown.index("  update  ") < shown.index("  insert  ") < shown.index("SOURCE")
    )
    assert shown.index("\nI am a nurse  ") < shown.index("\nNow I am a doctor  ")
    document = told("show", id_)
    assert document["memory"]["version"] == 2
    assert [each["version"] for each in document["history"]] == [1, 2]
    assert [(each["text"], each["source"], each["user_id"]) for each in document["sources"]] == [
        ("I am a nurse", "messages", "lin"),
        ("Now I am a doctor", "messages", "lin"),
    ]
    assert document["sources"][0]["session_id"] == "monday"


def test_show_of_what_is_gone_or_never_was(octavo, told, nurse):
    told("delete", nurse["id"], "--yes")
    gone = octavo("show", nurse["id"])
    assert (gone.exit_code, gone.stdout) == (1, "")
    assert f"is gone; `octavo history {nurse['id']}`" in gone.stderr
    never = octavo("show", "nope")
    assert (never.exit_code, never.stderr) == (1, "octavo: there is no memory 'nope', and there was none\n")


def test_history(octavo, told, nurse):
    told("add", "x", "--agent", "bot", "--no-infer", "--category", "other")
    assert told("history", "--everyone")["count"] == 2
    assert told("history", "--agent", "bot", "--layer", "profile")["count"] == 0
    few = told("history", "--everyone", "--limit", "1")
    assert (few["count"], few["more"], told("history", "--everyone")["more"]) == (1, True, False)
    assert octavo("history", nurse["id"], "-n", "0").stderr == "octavo: there are more; --limit shows them\n"
    [entry] = told("history", nurse["id"])["logs"]
    assert (entry["action"], entry["memory_layer"], entry["version"], entry["before"]) == (
        "insert", "profile", 1, None,
    )  # fmt: skip
    header, row = octavo("history", nurse["id"], "--user", "lin").stdout.splitlines()
    assert header.split() == ["WHEN", "CHANGE", "TEXT", "REASON", "LOG", "ID"]
    assert row.split("  ")[1:] == ["insert", "Lin is a nurse", entry["reason"], entry["id"]]
    told("delete", nurse["id"], "--yes", "--reason", "she asked")
    assert [each["action"] for each in told("history", nurse["id"])["logs"]] == ["delete", "insert"]
    assert told("history", "--user", "lin", "--action", "delete")["logs"][0]["reason"] == "she asked"
    for words in (("nope",), (nurse["id"], "--user", "bo")):
        missing = octavo("history", *words)
        assert (missing.exit_code, "there is no memory" in missing.stderr) == (1, True)
    for words in (("--user", "a", "--agent", "b"), ("--user", "a", "--everyone")):
        assert octavo("history", *words).exit_code == 2


def test_delete_asks_first(octavo, told, nurse):
    no = octavo("delete", nurse["id"], input="n\n")
    assert (no.exit_code, "Delete “Lin is a nurse” of “lin”?" in no.stderr) == (1, True)
    assert told("list", "--user", "lin")["count"] == 1
    yes = octavo("delete", nurse["id"], input="y\n")
    undo = f"log_{nurse['id']}_2"
    assert (yes.exit_code, yes.stdout) == (
        0,
        f"deleted “Lin is a nurse”; octavo undo {undo} brings it back\n",
    )
    assert told("list", "--user", "lin")["count"] == 0
    gone = octavo("delete", nurse["id"], "--yes")
    assert (gone.exit_code, "there is no memory" in gone.stderr) == (1, True)
    told("undo", undo)
    assert told("list", "--user", "lin")["memories"][0]["content"] == "Lin is a nurse"


def test_nobody_deletes_for_somebody_else(octavo, told, nurse):
    """When it is said whose it should be, another's is not touched, nor told."""
    for words in (("--user", "bo"), ("--agent", "lin"), ("--user", "bo", "--yes")):
        done = octavo("delete", nurse["id"], *words, input="y\n")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "nurse" not in done.stderr
    assert octavo("delete", nurse["id"], "--user", "a", "--agent", "b", "--yes").exit_code == 2
    assert octavo("delete", nurse["id"], "--json").exit_code == 2  # nobody to ask
    assert octavo("delete", nurse["id"], "--yes", "--tenant", "acme").exit_code == 1
    assert told("list", "--user", "lin")["count"] == 1


def test_undo(octavo, told, nurse):
    newest = told("delete", nurse["id"], "--yes")["log"]["id"]
    done = octavo("undo", newest)
    assert (done.exit_code, done.stdout) == (0, f"{nurse['id']} is “Lin is a nurse” again\n")
    late = octavo("undo", newest)
    assert (late.exit_code, "is newer" in late.stderr) == (1, True)
    back = told("history", nurse["id"])["logs"][0]
    assert back["metadata"]["undo_of"] == newest
    assert octavo("undo", back["id"]).stdout == f"removed {nurse['id']} again\n"
    assert octavo("undo", "nope").exit_code == 1
    assert (
        told("undo", told("history", nurse["id"])["logs"][0]["id"], "--reason", "so")["log"]["reason"] == "so"
    )


def test_prune(octavo, told):
    async def remember(memory):
        await memory.remember("old", user_id="u", category="other", ttl_seconds=60)
        await memory.of("acme").remember("old too", user_id="u", category="other", ttl_seconds=60)
        await memory.remember("kept", user_id="u", category="other")

    happened((NOON, remember))
    assert [each["content"] for each in told("list", "--user", "u")["memories"]] == ["kept"]
    assert told("history", "--user", "u", "--action", "expire")["count"] == 0  # no other command prunes
    assert octavo("prune").stdout == "removed 2 expired memories\n"
    assert told("history", "--user", "u", "--action", "expire")["count"] == 1
    assert told("prune")["removed"] == 0


# --- which memory is meant


def test_tenants_do_not_meet(told, octavo, nurse):
    assert told("list", "--user", "lin", "--tenant", "acme")["count"] == 0
    told("add", "other", "--user", "lin", "--tenant", "acme", "--no-infer", "--category", "value")
    assert [each["content"] for each in told("list", "--user", "lin", "--tenant", "acme")["memories"]] == ["other"]  # fmt: skip
    assert [each["content"] for each in told("list", "--user", "lin")["memories"]] == ["Lin is a nurse"]
    assert octavo("search", "nurse", "--everyone", "--tenant", "acme").exit_code == 1
    for words in (("show", nurse["id"]), ("undo", f"log_{nurse['id']}_1"), ("history", nurse["id"])):
        assert octavo(*words, "--tenant", "acme").exit_code == 1


def test_the_store_by_the_environment_or_the_settings(octavo, monkeypatch, nurse):
    assert (
        "Lin is a nurse" in octavo("list", "--user", "lin").stdout
    )  # octavo.db, where Memory() keeps it too
    monkeypatch.setenv("OCTAVO_URL", "sqlite:///other.db")
    other = octavo("list", "--user", "lin")
    assert (other.exit_code, "other.db" in other.stderr) == (2, True)
    monkeypatch.setenv("OCTAVO_URL", URL)
    assert "Lin is a nurse" in octavo("list", "--user", "lin").stdout
    Path("config").mkdir()
    Path("config/memory.yaml").write_text(f"database:\n  dsn: {URL}\nservice:\n  tenant: acme\n")
    monkeypatch.delenv("OCTAVO_URL")
    assert octavo("list", "--user", "lin").stdout == "no memory of “lin”\n"  # acme's
    assert "Lin is a nurse" in octavo("list", "--user", "lin", "--tenant", "").stdout
    missing = octavo("list", "--user", "lin", "--config", "nowhere.yaml")
    assert (missing.exit_code, "nowhere.yaml" in missing.stderr) == (2, True)


def test_a_store_that_is_not_there(octavo):
    """Only `add` makes one."""
    for name in EVERY[1:]:
        words = () if name in ("list", "history", "prune") else ("x",)
        words = ("--user", "x") if name == "forget" else words
        done = octavo(name, *words, *(("--yes",) if name in ("delete", "forget") else ()))
        assert (done.exit_code, "there is no store at octavo.db" in done.stderr) == (2, True)
    assert not Path("octavo.db").exists()


def test_quiet(octavo, nurse):
    assert octavo("list", "--user", "lin", "--quiet").output == ""
    assert octavo("show", nurse["id"], "--quiet").output == ""
    assert octavo("search", "zebra", "--user", "lin", "-q").output == ""
    assert octavo("prune", "-q").output == ""


def test_undo_of_many(octavo, told):
    """All that one message made, then all of that again; a dry run changes nothing."""
    [said] = told("add", "I live in Berlin.", "--user", "mia")["messages"]
    assert octavo("undo", "--add", said, "--user", "mia", "--dry-run").stdout.endswith(
        "would take back 1 change and 1 message\n"
    )
    assert told("list", "--user", "mia")["count"] == 1
    undone = told("undo", "--add", said, "--user", "mia", "--reason", "a joke")
    assert (len(undone["changes"]), undone["messages"], undone["kept"]) == (1, [said], {})
    assert told("list", "--user", "mia")["count"] == 0
    assert octavo("search", "where do I live?", "--user", "mia").exit_code == 1
    again = octavo("undo", "--undo", undone["id"], "--user", "mia")
    assert "took back 1 change and 1 message; octavo undo --undo undo_" in again.stdout
    assert told("list", "--user", "mia")["count"] == 1
    assert told("undo", "--since", "1h", "--user", "mia")["changes"]
    assert (
        octavo("undo", "--since", "1h", "--user", "nobody").stdout == "took back 0 changes and 0 messages\n"
    )
    assert octavo("undo", "--since", "1h", "x").exit_code == 2
    assert octavo("undo").exit_code == 2
    assert octavo("undo", "x", "--dry-run").exit_code == 2


def test_as_of_in_search_and_context(octavo, told):
    told("add", "I live in Berlin.", "--user", "mia")
    assert octavo("search", "where do I live?", "--user", "mia", "--as-of", "1h").exit_code == 1
    assert octavo("context", "where do I live?", "--user", "mia", "--as-of", "1h").stdout == ""
    assert "Berlin" in octavo("context", "where do I live?", "--user", "mia").stdout


def test_rejected_and_allowed(octavo, told):
    """Deleted forever, it is not learnt again, until it is allowed."""
    [home] = told("add", "I live in Berlin.", "--user", "mia")["memories"]
    gone = octavo("delete", home["id"], "--forever", "--yes")
    assert f"and it is not learnt again (octavo allow {home['id']})" in gone.stdout
    assert told("add", "I live in Berlin.", "--user", "mia")["inserted"] == 0
    assert octavo("allow", home["id"]).stdout == f"what {home['id']} said may be learnt again\n"
    assert octavo("allow", home["id"]).exit_code == 1
    assert told("add", "I live in Berlin.", "--user", "mia")["inserted"] == 1


def test_everything_of_a_person(octavo, told, tmp_path):
    """What was said under a session for nobody is in it, if nobody else was there; imported, the answers are the same."""
    told("add", "I live in Berlin.", "--user", "mia", "--session", "monday")
    told("add", "I live in Rome.", "--user", "bo")
    asked = ("search", "where do I live?", "--user", "mia")
    before = told(*asked)["hits"]
    url = f"sqlite:///{tmp_path}/other.db"
    done = octavo("export", URL, "mia.jsonl", "--user", "mia", "--page", "mia.md")
    assert done.stdout.startswith("exported 3 records")
    assert octavo("import", "mia.jsonl", url).exit_code == 0
    assert told(*asked, "--store", url)["hits"] == before
    assert told("list", "--user", "bo", "--store", url)["count"] == 0
    assert octavo("export", URL, "mia.jsonl", "--page", "mia.md").exit_code == 2


def test_prune_by_the_settings(octavo, told):
    """What is more than the settings keep; a dry run changes nothing."""
    for number in range(3):
        told("add", f"number {number}", "--user", "mia")
    Path("kept.yaml").write_text("retention:\n  messages_most: 1\n")
    dry = octavo("prune", "--dry-run", "--config", "kept.yaml")
    assert dry.stdout == "would remove 0 expired memories\nwould remove 2 of messages\n"
    done = told("prune", "--config", "kept.yaml")
    assert (done["removed"], done["counts"]["messages"], done["dry_run"]) == (2, 2, False)
    assert octavo("prune", "--config", "kept.yaml").stdout == "removed 0 expired memories\n"


def test_what_is_shown_as_a_time_can_be_given_back(octavo, told, nurse, monkeypatch):
    """Both are local time, wherever the machine is; programs are told UTC."""
    told("add", "I live in Berlin.", "--user", "lin")
    monkeypatch.setenv("TZ", "EST5")  # a zone that needs no table
    time.tzset()
    try:
        header, *rows = octavo("list", "--user", "lin").stdout.splitlines()
        at = min(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d", "\n".join(rows)))
        assert "UTC" not in header
        shown = octavo("show", nurse["id"]).stdout
        created = re.search(r"^created +(.*)$", shown, re.MULTILINE)[1]
        assert (created[:16], created[-6:]) == (at, "-05:00")
        later = datetime.fromisoformat(created) + timedelta(minutes=1)  # the other memory came after this one
        for given, count in (
            (("--since", at), 2),
            (("--since", created), 2),
            (("--until", at), 0),
            (("--since", f"{later:%F %T}"), 0),
        ):
            found = octavo("search", "Berlin nurse", "--user", "lin", "--source", "facts", *given, "--json")
            assert len(json.loads(found.stdout)["hits"]) == count, given
        assert told("list", "--user", "lin")["memories"][0]["created_at"].endswith("Z")
    finally:
        monkeypatch.undo()
        time.tzset()
