"""`octavo import --from`, and how `copy`, `export` and `import` name a store."""

import json
from pathlib import Path

import pytest

LINE = '{"role": "user", "content": "I live in Berlin."}\n'


def test_what_it_says(octavo):
    Path("talk.jsonl").write_text(LINE + "torn\n")
    done = octavo("import", "talk.jsonl", "--from", "chat-jsonl", "--user", "lin", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["ok"], told["read"], told["added"], told["bad"]) == (1, False, 1, 1, 1)
    assert told["unreadable"][0]["position"] == "talk.jsonl, line 2"
    assert "Berlin" in octavo("search", "Berlin", "--user", "lin").stdout


def test_a_dry_run_writes_nothing(octavo):
    Path("talk.jsonl").write_text(LINE)
    done = octavo("import", "talk.jsonl", "--from", "chat-jsonl", "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert (told["read"], told["kinds"], told["samples"][0]["text"]) == (
        1,
        {"messages user": 1},
        "I live in Berlin.",
    )
    assert not Path("octavo.db").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("import", "talk.jsonl", "--dry-run"), "--dry-run needs --from"),
        (("import", "nowhere.jsonl"), "does not exist"),
        (("import", "."), "is a folder; --from says what it holds"),
        (("export", "sqlite:///octavo.db", "no/where.jsonl"), "to write where.jsonl to; make it first"),
        (("list", "--store", "file://no/where"), "there is no store at no/where"),
        (("import", "talk.jsonl", "--from", "chat-jsonl", "--user", " "), "--user must be a name"),
        (("import", "talk.jsonl", "--from", "chat-jsonl", "--session", ""), "--session must be a name"),
        (("import", "https://example.com/x.json", "--from", "chatgpt"), "nothing is fetched"),
        (("import", "talk.jsonl", "sqlite:///a.db", "--store", "sqlite:///b.db"), "two stores are named"),
        (("export", "--format", "markdown-folder"), "needs the name of a folder"),
    ],
)
def test_what_is_refused(octavo, arguments, said):
    Path("talk.jsonl").write_text(LINE)
    octavo("add", "I like tea")
    done = octavo(*arguments)
    assert (done.exit_code, said in done.output) == (2, True), done.output


@pytest.mark.parametrize("file", ["talk.jsonl", "octavo.db"])
def test_what_octavo_did_not_export(octavo, file):
    Path("talk.jsonl").write_text(LINE)
    octavo("add", "I like tea")
    done = octavo("import", file, "sqlite:///b.db")
    cure = "what another program wrote is read with --from, and a store with octavo copy"
    assert (done.exit_code, cure in done.output) == (1, True), done.output


def test_one_way_to_name_a_store(octavo, url):
    """Each of the three takes `--store`, and the URL in its place."""
    assert octavo("copy", url, "--store", "sqlite:///b.db").exit_code == 0
    assert octavo("copy", url, "sqlite:///c.db").exit_code == 0
    assert octavo("export", "--store", "sqlite:///b.db", "b.jsonl").exit_code == 0
    assert octavo("export", "sqlite:///c.db", "c.jsonl").exit_code == 0
    assert Path("b.jsonl").read_bytes() == Path("c.jsonl").read_bytes()
    assert "100 records" in octavo("import", "b.jsonl", "--store", "sqlite:///d.db").output
    assert "already there" in octavo("import", "c.jsonl", "sqlite:///d.db").output
    assert not Path("octavo.db").exists() or url.endswith("octavo.db")


def test_a_folder_of_facts(octavo):
    octavo("add", "I like green tea.", "--user", "lin")
    done = octavo("export", "memory", "--format", "markdown-folder", "--user", "lin", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["facts"]) == (0, 1)
    assert "green tea" in (Path("memory") / "preference.md").read_text()


def test_records_written_by_hand(octavo):
    """With no more than the page asks for, of any collection: what is imported can be read."""
    collections = [
        "profile",
        "episodes",
        "messages",
        "observations",
        "events",
        "entities",
        "exchanges",
        "knowledge",
    ]
    lines = [
        {"collection": name, "id": f"hand-{name}", "created_at": "2026-01-01T00:00:00Z", "seq": 1}
        | {"text": f"Likes rowing, says {name}", "scope": {"user": "hand"}}
        for name in collections
    ]
    Path("hand.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert octavo("import", "hand.jsonl", "--store", "sqlite:///octavo.db").exit_code == 0
    listed = json.loads(octavo("list", "--user", "hand", "--json").stdout)["memories"]
    assert [(fact["id"], fact["category"]) for fact in listed] == [
        ("hand-profile", "preference"),
        ("hand-episodes", "other"),
    ]
    for name in collections:
        assert octavo("search", f"rowing {name}", "--user", "hand").exit_code == 0
        shown = octavo("show", f"hand-{name}")
        assert (shown.exit_code, f"says {name}" in shown.stdout) == (0, True)
    assert octavo("history", "hand-profile").stdout == "nothing was changed\n"
    assert octavo("history", "never-was").exit_code == 1
    assert octavo("delete", "hand-profile", "--yes").exit_code == 0
    assert octavo("events", "list", "--json").exit_code == 0
