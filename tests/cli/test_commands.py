"""The command: what it prints, to whom, and how it ends."""

import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import octavo as package
from octavo import open_store
from octavo.cli.commands import import_commands
from octavo.kernel.ports import Finding
from octavo.stores.memory import MemoryStore
from octavo.transfer import Moved

command = import_commands()

COMMANDS = sorted(command.commands)


def program(*args, **more):
    """The command in a process of its own, from the interpreter that runs the tests."""
    return subprocess.run(
        [sys.executable, "-m", "octavo.cli", *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **more,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps_with_an_example_and_speaks_json(octavo, name):
    told = octavo(name, "--help")
    assert told.exit_code == 0
    assert f"Example: octavo {name}" in told.stdout
    assert "--json" in told.stdout
    assert "--debug" in told.stdout


def test_every_command_and_option_is_documented():
    """A word the command understands and the page does not have is a word nobody will find."""
    page = "".join(each.read_text() for each in (Path(__file__).parents[2] / "docs").glob("*.md"))
    for name in COMMANDS:
        assert f"octavo {name}" in page
        for option in command.commands[name].params:
            words = [word for word in (*option.opts, *option.secondary_opts) if word.startswith("--")]
            assert not words or any(word in page for word in words), (name, words)


def test_version_and_the_bare_command(octavo):
    assert octavo("--version").stdout == f"octavo {package.__version__}\n"
    assert "Commands:" in octavo("--help").stdout
    assert octavo("copy").exit_code == 2
    assert octavo("fly").exit_code == 2


def test_copy_twice(octavo, url):
    first = octavo("copy", url, "sqlite:///new.db")
    assert first.exit_code == 0
    assert first.stdout.startswith("copied 100 records in ")
    assert first.stderr == ""
    again = json.loads(octavo("copy", url, "sqlite:///new.db", "--json").stdout)
    again.pop("seconds")
    assert again == {
        "ok": True,
        "command": "copy",
        "read": 100,
        "added": 0,
        "resumed": 0,
        "collections": {"messages": 100},
        "source": url,
        "target": "sqlite:///new.db",
    }


def test_copy_can_be_narrowed(octavo, url):
    assert "copied 50 records" in octavo("copy", url, "memory://", "--tenant", "acme").stdout
    assert "copied 50 records" in octavo("copy", url, "memory://", "--tenant", "").stdout
    assert "copied 0 records" in octavo("copy", url, "memory://", "--collection", "log").stdout
    assert octavo("copy", url, "memory://", "--user", "nobody").exit_code == 1
    wrong = octavo("copy", url, "memory://", "--collection", "logs")
    assert wrong.exit_code == 2
    assert "'logs' is not one of 'events'" in wrong.stderr


def test_export_and_import(octavo, url, monkeypatch):
    """Through a file, a compressed file, and a pipe; with the URL from the environment."""
    assert octavo("export", url, "a.jsonl").stdout.startswith("exported 100 records")
    assert octavo("export", url, "a.jsonl.gz").exit_code == 0
    assert octavo("import", "a.jsonl", "sqlite:///one.db").stdout.startswith("imported 100 records in ")
    assert octavo("import", "a.jsonl.gz", "sqlite:///one.db").stdout.startswith(
        "imported 100 records (100 already there) in "
    )
    piped = octavo("export", "sqlite:///one.db")
    assert piped.stdout_bytes == Path("a.jsonl").read_bytes()
    assert piped.stderr.startswith("exported 100 records")
    monkeypatch.setenv("OCTAVO_URL", "sqlite:///two.db")
    assert octavo("import", "-", input=piped.stdout_bytes).exit_code == 0
    assert octavo("export", "b.jsonl").exit_code == 0
    assert Path("b.jsonl").read_bytes() == Path("a.jsonl").read_bytes()
    assert octavo("export", "-").stdout_bytes == octavo("export").stdout_bytes == piped.stdout_bytes
    assert sorted(path.name for path in Path("state/octavo").iterdir()) == []


def test_json_of_export_and_import(octavo, url):
    exported = json.loads(octavo("export", url, "a.jsonl", "--json").stdout)
    assert (exported["read"], exported["file"], exported["ok"]) == (100, "a.jsonl", True)
    Path("a.jsonl").write_text("hello\n" + Path("a.jsonl").read_text() + "torn")
    told = octavo("import", "a.jsonl", "memory://", "--on-error", "skip", "--json")
    imported = json.loads(told.stdout)
    assert told.exit_code == 1
    assert not imported["ok"]
    assert (imported["read"], imported["added"], imported["bad"]) == (100, 100, 2)
    assert [each["line"] for each in imported["bad_lines"]] == [1, 104]
    assert imported["set_aside"] == "a.jsonl.bad"
    assert Path("a.jsonl.bad").read_text() == "hello\ntorn\n"
    refused = octavo("export", url, "--json")
    assert refused.exit_code == 2
    assert "--json needs a FILE" in refused.stderr


def test_a_bad_line_stops_an_import(octavo, url):
    octavo("export", url, "a.jsonl")
    lines = Path("a.jsonl").read_text().splitlines(keepends=True)
    Path("a.jsonl").write_text("".join([*lines[:31], "hello\n", *lines[31:]]))
    stopped = octavo("import", "a.jsonl", "sqlite:///new.db", "--batch", 20)
    assert stopped.exit_code == 1
    assert stopped.stdout == ""
    assert stopped.stderr.splitlines() == [
        "octavo: line 32 of a.jsonl: JSON is malformed: invalid character (byte 0)",
        "octavo: 30 records kept before that; run the same command again to continue",
    ]
    Path("a.jsonl").write_text("".join(lines))
    mended = octavo("import", "a.jsonl", "sqlite:///new.db", "--batch", 20)
    assert mended.stderr == "octavo: continuing an interrupted import; --restart begins again\n"
    assert mended.stdout.startswith("imported 80 records (10 already there, 20 more by an earlier run) in ")


def test_an_interrupted_copy_says_how_to_continue(octavo, url, monkeypatch):
    """Ctrl-C ends with 130 and leaves a state that the same command takes up, and --restart forgets."""
    remember = Moved.count

    def interrupting(self, records, progress, total):
        remember(self, records, progress, total)
        if self.read >= 40:
            signal.raise_signal(signal.SIGINT)

    def interrupted():
        with monkeypatch.context() as patch:
            patch.setattr(Moved, "count", interrupting)
            stopped = octavo("copy", url, "sqlite:///new.db", "--batch", 10)
        assert stopped.exit_code == 130
        [noted] = re.findall(
            r"octavo: stopped after (\d+) records; run the same command again to continue\n$", stopped.stderr
        )
        assert (
            40 <= int(noted) < 100
        )  # small batches are written on the spot: some more may go before it is heard
        assert len(list(Path("state/octavo").iterdir())) == 1
        return int(noted)

    noted = interrupted()
    again = octavo("copy", url, "sqlite:///new.db", "--batch", 7)
    assert again.stderr == "octavo: continuing an interrupted copy; --restart begins again\n"
    # The batch that was on its way when the signal came may have been kept without having been noted.
    says = rf"copied {100 - noted} records \((10 already there, )?{noted} more by an earlier run\) in "
    assert re.match(says, again.stdout)
    assert list(Path("state/octavo").iterdir()) == []
    interrupted()
    afresh = octavo("copy", url, "sqlite:///new.db", "--restart")
    assert afresh.stdout.startswith("copied 100 records (100 already there) in ")
    assert afresh.stderr == ""


def test_a_copy_goes_on_without_a_place_for_its_state(octavo, url, monkeypatch):
    Path("occupied").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", "occupied")
    told = octavo("copy", url, "sqlite:///new.db")
    assert told.exit_code == 0
    assert "no folder for the state of this copy (see --state)" in told.stderr
    assert octavo("copy", url, "sqlite:///new.db", "--state", "here").stderr == ""


def test_doctor_tells_and_leaves_nothing(octavo, url):
    told = octavo("doctor", url, "--probe")
    assert told.exit_code == 0
    assert "100 records" in told.stdout
    assert "one record    write " in told.stdout
    document = json.loads(octavo("doctor", url, "--json").stdout)
    assert document["latency"] is None
    assert document["collections"] == {"messages": 100}
    assert {"name": "tenants", "value": "2", "warning": ""} in document["findings"]


def test_doctor_warns_and_strict_fails(octavo, monkeypatch):
    monkeypatch.setenv("OCTAVO_URL", "memory://")
    told = octavo("doctor")
    assert told.exit_code == 0
    assert "! everything is lost when the process ends; use sqlite:///path.db to keep it" in told.stdout
    assert told.stdout.endswith("1 warning\n")
    assert octavo("doctor", "--strict").exit_code == 1
    assert json.loads(octavo("doctor", "--strict", "--json").stdout)["ok"] is False
    assert octavo("doctor", "--quiet").stdout == ""


def test_doctor_fails_a_store_that_alters_what_it_keeps(octavo, monkeypatch):
    class Forgetful(MemoryStore):
        async def find(self, query):
            return []

        async def describe(self):
            return [Finding("store", "forgetful of sesame")]

    monkeypatch.setattr("octavo.cli.doctor.open_store", lambda url: Forgetful())
    told = octavo("doctor", "memory://me:sesame@here", "--probe")
    assert told.exit_code == 1
    assert "forgetful of …" in told.stdout
    assert "did not come back as it was written; do not use this store" in told.stdout


def test_stores_lists_every_scheme(octavo, monkeypatch):
    told = json.loads(octavo("stores", "--json").stdout)
    from octavo.stores import SCHEMES

    assert {name for each in told["stores"] for name in each["schemes"]} >= set(SCHEMES)
    assert "sqlite:///octavo.db" in octavo("stores").stdout
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'octavo[postgres]'" in octavo("stores").stdout


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("copy", "wat://x", "memory://"), "unknown store scheme 'wat'; known: file, "),
        (
            ("copy", "octavo.db", "memory://"),
            "'octavo.db' is not the URL of a store; try sqlite:///octavo.db",
        ),
        (
            ("copy", "sqlite:///no.db", "memory://"),
            "there is no store at no.db; check the path in sqlite:///no.db",
        ),
        (("export", "file:///no/where"), "there is no store at /no/where"),
        (("doctor", "sqlite:////no/where.db"), "there is no store at /no/where.db"),
        (("doctor",), "there is no store at octavo.db; check the path in sqlite:///octavo.db"),
        (("export",), "there is no store at octavo.db"),
        (
            ("export", "all.jsonl"),
            "'all.jsonl' is not the URL of a store; name one before a FILE: octavo export sqlite:///octavo.db FILE",
        ),
    ],
)
def test_mistakes_are_one_sentence_and_status_2(octavo, args, sentence):
    told = octavo(*args)
    assert told.exit_code == 2
    assert told.stderr.startswith(f"octavo: {sentence}")
    assert told.stderr.count("\n") == 1
    assert told.stdout == ""
    assert not Path("no.db").exists()


def test_a_failure_is_json_too_and_debug_shows_the_traceback(octavo, monkeypatch):
    told = octavo("doctor", "wat://x", "--json")
    assert json.loads(told.stdout)["kind"] == "ConfigError"
    assert "Traceback" in octavo("doctor", "wat://x", "--debug").stderr
    monkeypatch.setenv("OCTAVO_DEBUG", "1")
    assert "Traceback" in octavo("doctor", "wat://x").stderr


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "redis"])
def test_a_server_that_is_not_there_is_one_sentence_without_the_password(octavo, url, scheme):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take the port meanwhile
        where = f"{scheme}://bob:se%40same@127.0.0.1:{unused.getsockname()[1]}/0"
        told = octavo("copy", url, where, "--debug")
        plain = octavo("doctor", where)
    assert (told.exit_code, plain.exit_code) == (1, 1)
    assert plain.stderr.startswith("octavo: ")
    assert plain.stderr.count("\n") == 1
    for secret in ("se%40same", "se@same"):
        assert secret not in told.output + plain.output


def test_a_directory_or_a_missing_file_cannot_be_imported(octavo):
    assert octavo("import", ".", "memory://").exit_code == 2
    assert octavo("import", "no.jsonl", "memory://").exit_code == 2


def test_a_file_that_cannot_be_written_is_one_sentence(octavo, url):
    told = octavo("export", url, "no/such/folder/a.jsonl")
    assert told.exit_code == 2
    assert told.stderr.startswith(f"octavo: there is no folder {Path('no/such/folder').resolve()} to write")
    Path("taken").write_text("")
    octavo("add", "I row.", "--user", "lin")
    page = octavo("export", url, "a.jsonl", "--user", "lin", "--page", "taken/a.md")
    assert (page.exit_code, page.stderr) == (1, "octavo: Not a directory: taken/a.md\n")


def test_a_file_that_is_no_database_is_named(octavo):
    Path("notes.txt").write_text("hello, I am no database" * 100)
    Path("folder").mkdir()
    assert octavo("list", "--store", "sqlite:///notes.txt").stderr == (
        "octavo: SQLite: file is not a database: notes.txt\n"
    )
    # No question whether it is running, which a file never is.
    assert octavo("list", "--store", "sqlite:///folder").stderr == (
        "octavo: SQLite: unable to open database file: folder (that is a folder; name a file in it)\n"
    )


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(octavo, url, monkeypatch):
    monkeypatch.setattr("octavo.cli.command.LINE_SECONDS", 0.0)
    told = octavo("copy", url, "memory://", "--batch", 20)
    lines = told.stderr.splitlines()
    assert lines[0] == "copied 20 of 100 records"
    assert lines[-1].startswith("copied 100 of 100 records, ")
    assert octavo("copy", url, "memory://", "--quiet").output == ""


def test_progress_is_one_line_that_goes_on_a_terminal(url):
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "octavo.cli", "copy", url, "memory://", "--json"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
            timeout=60,
            check=True,
        )
        drawn = os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert drawn.startswith(b"\r\x1b[Kcopied 50 of 100 records")
    assert drawn.endswith(b"\r\x1b[K")
    assert json.loads(done.stdout)["read"] == 100


def test_a_missing_extra_is_one_sentence():
    code = "import sys; sys.modules['click'] = None; from octavo.cli import main; main(['stores'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "octavo: the command needs click: pip install 'octavo[cli]'\n"


def test_lists_import_no_command_and_commands_no_driver():
    """--version, --help and the completion of a command's name need none of what the commands are made of."""
    code = (
        "import sys\n"
        "from click.shell_completion import BashComplete\n"
        "from click.testing import CliRunner\n"
        "from octavo.cli.commands import import_commands, octavo\n"
        "for asked in ('--version', '--help'):\n"
        "    assert CliRunner().invoke(octavo, [asked]).exit_code == 0\n"
        "[found] = BashComplete(octavo, {}, 'octavo', '_OCTAVO_COMPLETE').get_completions([], 'sea')\n"
        "assert found.value == 'search'\n"
        "print(sorted(name for name in sys.modules if name.startswith('octavo.')))\n"
        "import_commands()\n"
        "print(sorted({'asyncpg', 'asyncmy', 'redis', 'sqlalchemy', 'apsw'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert (
        done.stdout == "['octavo.cli', 'octavo.cli.commands', 'octavo.util', 'octavo.util.importing']\n[]\n"
    )


def test_adding_and_searching_import_no_other_face():
    """Neither the service, nor agents, nor conversations, nor what erases and copies, nor an index of vectors."""
    code = (
        "import sys, octavo.cli.memory\n"
        "with octavo.Memory('sqlite:///light.db') as memory:\n"
        "    memory.add('I live in Berlin.')\n"
        "    assert memory.search('Where do I live?')\n"
        "others = 'agent conversation erasing.forgetting events service transfer wraps.vectors'.split()\n"
        "print(sorted({f'octavo.{name}' for name in others} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_a_reader_that_goes_away_is_no_traceback(url):
    pipe = f"'{sys.executable}' -m octavo.cli export {url} --quiet | head -c 10"
    done = subprocess.run(pipe, shell=True, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == '{"octavo_e'
    assert done.stderr == ""


def test_the_installed_program_is_this_command():
    done = program("--version")
    assert done.stdout == f"octavo {package.__version__}\n"
    assert done.returncode == 0


def test_a_named_pipe_can_be_exported_to(octavo, url):
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        assert octavo("export", url, "pipe").exit_code == 0
        assert reader.communicate(timeout=60)[0].count(b"\n") == 102
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)


async def test_the_probe_leaves_no_tenant_behind(url):
    from octavo.stores.doctor import examine

    async with open_store(url) as store:
        await examine(store)
        assert await store.tenants() == ["", "acme"]
