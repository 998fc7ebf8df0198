"""docs/operating.md: its commands name what the Dockerfile, compose.yaml and the command have, and its defaults are the real ones.

tests/deploy/test_container_run.py runs the image itself.
"""

import inspect
import re
import shlex

import click
from containers import ROOT
from test_container_files import COMPOSE, KUBERNETES, PROJECT, lines

from octavo.cli.commands import import_commands
from octavo.client import Client
from octavo.config import Settings
from octavo.config.settings import every_setting

octavo = import_commands()

PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]
DEFAULTS = {
    setting.key: getattr(getattr(Settings(), setting.section), setting.name) for setting in every_setting()
}


def commands(*words):
    """The commands of the page that begin with these words."""
    found = [command[len(words) :] for command in COMMANDS if command[: len(words)] == [*words]]
    assert found, words
    return found


def values(words, option):
    return [words[number + 1] for number, word in enumerate(words) if word == option]


def test_nothing_else():
    """Every line in a block is one of those below."""
    begun = {command[0] for command in COMMANDS}
    assert begun == {"docker", "kubectl", "echo"}
    assert re.findall(r"^```(\w+)", PAGE, re.MULTILINE) == ["bash"] * 3


def test_the_image_is_built_and_run_as_it_is():
    image = f"octavo:{PROJECT['version']}"
    assert commands("docker", "build") == [["-t", image, "."]]
    [words] = commands("docker", "run")
    assert words[-1] == image
    [port] = values(words, "-p")
    assert port == f"127.0.0.1:8000:{lines('EXPOSE')[0]}"
    assert values(words, "-v") == [f"octavo:{lines('VOLUME')[0]}"]
    stop = DEFAULTS["server.drain_seconds"] + DEFAULTS["server.stop_seconds"]
    assert int(values(words, "--stop-timeout")[0]) > stop


def test_the_commands_inside():
    """Each is one of `octavo`, with options that it has, in a container that there is."""
    inside = {
        "docker exec octavo": values(commands("docker", "run")[0], "--name")[0],
        "docker compose exec octavo": next(iter(COMPOSE["services"])),
        "kubectl exec deploy/octavo --": KUBERNETES["Deployment"]["metadata"]["name"],
    }
    for begun, name in inside.items():
        assert name in re.split(r"[ /]", begun)
        [[program, *words]] = commands(*begun.split())
        assert [program] == [*PROJECT["scripts"]]
        at = octavo
        while isinstance(at, click.Group):
            at, words = at.commands[words[0]], words[1:]
        at.make_context("octavo", words)  # or it refuses them


def test_the_password_is_the_one_that_compose_asks_for():
    [[variable]] = [[word.partition("=")[0] for word in words[:1]] for words in commands("echo")]
    assert f"${{{variable}:?" in COMPOSE["services"]["db"]["environment"]["POSTGRES_PASSWORD"]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert values(commands("echo")[0], ">") == [".env"]
    assert ".env" in ignored


def test_the_time_outs_are_the_defaults():
    rows = re.findall(r"\| `([\w.]+_seconds)` \| (\d+) s \|", PAGE)
    assert len(rows) == 5
    assert {key: float(seconds) for key, seconds in rows} == {key: DEFAULTS[key] for key, _ in rows}
    [(timeout, retries)] = re.findall(r"`timeout` of `Client` \| (\d+) s, and `retries`, (\d+)", PAGE)
    taken = inspect.signature(Client).parameters
    assert (int(timeout), int(retries)) == (taken["timeout"].default, taken["retries"].default)
    [proxy] = re.findall(r"`proxy_read_timeout` of nginx \| (\d+) s", PAGE)
    shown = (ROOT / "docs" / "behind-a-proxy.md").read_text(encoding="utf-8")
    assert f"proxy_read_timeout {proxy}s;" in shown


def test_the_other_numbers_are_the_defaults():
    told = re.findall(r"`([a-z_]+\.[a-z_]+)` \((\d+)(?: MiB)?\)", PAGE)
    assert len(told) == 3
    for key, number in told:
        assert DEFAULTS[key] in (int(number), int(number) * 2**20)
    [(size, overflow)] = re.findall(r"`database.max_overflow` connections \((\d+) \+ (\d+)\)", PAGE)
    assert (int(size), int(overflow)) == (DEFAULTS["database.pool_size"], DEFAULTS["database.max_overflow"])
    assert 3 * 2 * (int(size) + int(overflow)) == 90  # three servers of two workers
    assert "Three servers of two workers are 90;" in PAGE


def test_the_files_are_where_they_are_kept():
    rows = re.findall(r"^\| `(octavo[\w./-]*)`", PAGE, re.MULTILINE)
    kept = [DEFAULTS["failure_queue.directory"], DEFAULTS["vault.root_path"]]
    assert DEFAULTS["database.dsn"] == f"sqlite:///{rows[0]}"
    assert [rows[1], rows[3]] == kept
