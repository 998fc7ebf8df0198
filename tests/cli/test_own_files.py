"""No command writes over what it reads, or over the store it works on."""

from pathlib import Path

import pytest


def _files():
    return {str(path): path.read_bytes() for path in Path().rglob("octavo.db")}


@pytest.mark.parametrize(
    "words",
    [
        ("export", "{url}", "octavo.db"),
        ("export", "{url}", "octavo.db-wal"),
        ("export", "{url}", "octavo.db-shm"),
        ("export", "{url}", "./x/../octavo.db"),
        ("export", "{url}", "a.jsonl", "--user", "lin", "--page", "octavo.db"),
        ("export", "{url}", "a.jsonl", "--user", "lin", "--page", "./a.jsonl"),
        ("import", "a.jsonl", "{url}", "--on-error", "skip", "--set-aside", "a.jsonl"),
        ("import", "a.jsonl", "{url}", "--on-error", "skip", "--set-aside", "./link.jsonl"),
        ("import", "a.jsonl", "{url}", "--on-error", "skip", "--set-aside", "octavo.db"),
        ("import", "a.jsonl", "{url}", "--state", "octavo.db", "--restart"),
        ("copy", "{url}", "{url}"),
        ("copy", "{url}", "sqlite:///./octavo.db"),
    ],
)
def test_what_would_be_written_over_is_refused(octavo, url, words):
    Path("x").mkdir()
    Path("a.jsonl").write_text('{"broken\n')
    Path("link.jsonl").symlink_to("a.jsonl")
    octavo("add", "I row.", "--user", "lin")
    before = _files()
    told = octavo(*[word.format(url=url) for word in words])
    assert told.exit_code == 2, told.output
    assert told.stderr.count("\n") == 1
    named = Path(words[-1].format(url="one store")).name.replace("--restart", "octavo.db")
    assert named in told.stderr or "one store" in told.stderr
    assert _files() == before
    assert Path("a.jsonl").read_text() == '{"broken\n'


@pytest.mark.parametrize("owner", [("--tenant", "nope"), ("--user", "nope"), ("--session", "nope")])
def test_a_name_of_which_nothing_is_kept_is_told(octavo, url, owner):
    """A misspelt name must not end as a move that went well, beside a target that is empty."""
    for words in (("copy", url, "sqlite:///new.db"), ("export", url, "new.jsonl")):
        told = octavo(*words, *owner)
        assert told.exit_code == 1
        assert told.stderr == f"octavo: nothing is kept of {owner[0][2:]} “nope”\n"
        assert not Path(words[-1].removeprefix("sqlite:///")).exists()


def test_a_folder_of_markdown_is_no_file_and_not_the_stores(octavo):
    octavo("add", "I row.", "--user", "lin", "--store", "file://kept")
    Path("taken").write_text("mine")
    for folder, sentence in (
        ("taken", "taken is a file; name a folder"),
        ("kept/x", "kept/x belongs to the store in"),
    ):
        told = octavo("export", "file://kept", folder, "--format", "markdown-folder", "--user", "lin")
        assert (told.exit_code, told.stderr.startswith(f"octavo: {sentence}")) == (2, True)
    assert Path("taken").read_text() == "mine"
    assert not Path("kept/x").exists()
