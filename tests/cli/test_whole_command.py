"""The command as one thing: the same words mean the same everywhere, and each command says how it is used."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import octavo as package
from octavo.cli.commands import _COMMANDS, import_commands
from warm import programs

root = import_commands()


def every_command(command=root, path=("octavo",)):
    """Each command that does something, by the words that call it."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from every_command(each, (*path, name))
    else:
        yield path, command


COMMANDS = dict(every_command())
named = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


@named
def test_every_command_speaks_to_people_and_to_programs(path):
    """`--json`, `--quiet` and `--debug` are everywhere, and mean what they mean elsewhere."""
    options = {option: each for each in COMMANDS[path].params for option in each.opts}
    assert {"--json", "--quiet", "-q", "--debug"} <= set(options)
    assert options["--json"].help == "Print one JSON document, for programs."


@named
def test_every_command_shows_an_example_of_itself(path, octavo):
    """`--help` and `-h` end with a line that could be typed, and every option says what it is for."""
    help_ = octavo(*path[1:], "--help")
    assert help_.exit_code == 0
    assert help_.output == octavo(*path[1:], "-h").output
    assert f"Example: {' '.join(path)}" in help_.output
    assert [
        each.name for each in COMMANDS[path].params if isinstance(each, click.Option) and not each.help
    ] == []


def test_what_is_listed_is_what_each_command_says():
    """Lists are made without the commands, so that their sentences stand twice."""
    assert list(root.commands) == list(_COMMANDS)
    for name, (module, sentence) in _COMMANDS.items():
        assert root.commands[name].get_short_help_str(1000) == sentence
        assert type(root.commands[name]) in (click.Command, click.Group), f"octavo.cli.{module} has no {name}"


@pytest.mark.parametrize("option", ["--limit", "--store", "--config", "--tenant", "--yes", "--follow"])
def test_an_option_is_spelled_alike_everywhere(option):
    """One name has one short form and takes one kind of value, whatever the command."""
    found = [
        (tuple(each.opts), each.type.name, each.is_flag)
        for command in COMMANDS.values()
        for each in command.params
        if isinstance(each, click.Option) and option in each.opts
    ]
    assert len(set(found)) == 1, found


@named
def test_a_mistake_is_told_with_its_cure(path, octavo):
    """An option that is not there is named, with status 2, and nothing is done."""
    result = octavo(*path[1:], "--no-such-option")
    assert result.exit_code == 2
    assert "--no-such-option" in result.stderr
    assert "--help" in result.stderr


def test_a_misspelt_command_is_named(octavo):
    """With status 2 and the way to help."""
    result = octavo("stroes")
    assert result.exit_code == 2
    assert "stroes" in result.stderr
    assert "--help" in result.stderr


def test_a_character_that_the_output_cannot_show(tmp_path):
    """In a locale without Chinese what was done is still told; and JSON is UTF-8, as JSON is."""

    def call(*words):
        command = [f"{programs()}/octavo", *words, "--store", f"sqlite:///{tmp_path}/o.db"]
        locale = {**os.environ, "PYTHONIOENCODING": "latin-1"}
        done = subprocess.run(command, capture_output=True, env=locale, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    assert b"remembered in the event layer" in call("add", "林 🐝", "--no-infer", "--user", "林")
    assert rb"\u6797 \U0001f41d" in call("list", "--user", "林")
    assert '"content": "林 🐝"'.encode() in call("list", "--user", "林", "--json")


def test_the_version(octavo):
    """Of the package, and nothing else."""
    assert octavo("--version").output == f"octavo {package.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(octavo, shell):
    """For each shell, with the name of the command in it."""
    result = octavo("completion", shell)
    assert result.exit_code == 0
    assert "_OCTAVO_COMPLETE" in result.output


def test_bash_completes(tmp_path):
    """A real bash, given the script, completes commands and options."""
    bash = shutil.which("bash")
    assert bash, "bash is part of every machine these tests run on"
    octavo = Path(sys.executable).with_name("octavo")
    asked = """
        eval "$(octavo completion bash)"
        COMP_WORDS=(octavo que); COMP_CWORD=1; _octavo_completion octavo; echo "${COMPREPLY[*]}"
        COMPREPLY=(); COMP_WORDS=(octavo stores --j); COMP_CWORD=2; _octavo_completion octavo; echo "${COMPREPLY[*]}"
    """
    done = subprocess.run(
        [bash, "--norc", "-c", asked], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path,
        env={**os.environ, "PATH": f"{octavo.parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.stdout.split("\n")[:2] == ["queue", "--json"], done.stderr


@named
def test_a_mistake_is_one_document_for_programs(path, octavo):
    """What is refused before a command begins, too."""
    for words in ((*path[1:], "--no-such-option", "--json"), (*path[1:-1], "--json", "no-such-command")):
        result = octavo(*words)
        assert result.exit_code == 2
        told = json.loads(result.stdout)
        assert (told["ok"], told["kind"]) == (False, "UsageError")
        assert told["error"] in result.stderr


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["people", "programs"])
@pytest.mark.parametrize("words", ["list", "export"])
def test_a_result_that_cannot_be_printed_is_a_failure(tmp_path, words, as_json):
    """Of a full disk it is said that stdout is on it; and closed is not as good as printed."""
    url = f"sqlite:///{tmp_path}/o.db"
    call = [sys.executable, "-m", "octavo.cli"]  # one that is warm has its own stdout
    subprocess.run([*call, "add", "I row.", "--store", url], check=True, capture_output=True, timeout=60)
    given = ("--store", url) if words == "list" else (url,)
    for where, sentence in (
        ("/dev/full", "octavo: No space left on device: stdout\n"),
        ("&-", "octavo: stdout is closed\n"),
    ):
        line = shlex.join([*call, words, *given, *(as_json if words == "list" else ())])
        done = subprocess.run(
            f"{line} >{where}", shell=True, capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence)


@pytest.mark.parametrize("words", ["add -", "import -"])
def test_a_closed_stdin_is_told(tmp_path, words):
    line = f"{shlex.quote(sys.executable)} -m octavo.cli {words} --store sqlite:///{tmp_path}/o.db <&-"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("octavo: stdin is closed; ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("search", ""), "it is empty; ask something"),
        (("search", " \n", "--everyone"), "it is empty; ask something"),
        (("context", ""), "it is empty; ask something"),
        (("search", "tea", "--limit", "0"), "0 is not in the range x>=1"),
        (("events", "search", "tea", "--everyone", "--limit", "0"), "0 is not in the range x>=1"),
    ],
)
def test_nothing_is_claimed_where_nothing_was_asked(octavo, words, sentence):
    """As over HTTP and MCP: whoever asks nothing must not read that memory holds no answer."""
    octavo("add", "I drink tea.")
    done = octavo(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert "holds no answer" not in done.stderr


@pytest.mark.parametrize("command", ["doctor", "reindex"])
def test_a_store_is_named_in_its_place_or_by_an_option(octavo, command):
    octavo("add", "I drink tea.")
    url = "sqlite:///octavo.db"
    told = octavo(command, "--store", url, "--json")
    assert (told.exit_code, json.loads(told.stdout)["url"]) == (0, url)
    both = octavo(command, url, "--store", url)
    assert both.exit_code == 2
    assert "--store and URL name the same thing; give one of them" in both.stderr
