"""docs/configuration.md, config/memory.example.yaml and the settings say the same, and every block of the page runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from octavo.config import Settings, load_settings, template
from octavo.config.settings import SECTIONS, every_setting, spell_yaml
from warm import programs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text()
FILE = ROOT / "config" / "memory.example.yaml"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run(folder, *command):
    env = {name: value for name, value in os.environ.items() if not name.startswith("OCTAVO__")}
    done = subprocess.run(
        command, cwd=folder, env={**env, "PYTHONIOENCODING": "utf-8"}, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_file_says_every_default_and_why():
    """It is what `python -m octavo.config` prints, and read back it changes nothing."""
    assert FILE.read_text() == template()
    assert load_settings(FILE, environ={}) == Settings()


def test_the_file_names_every_setting():
    """Each one, under its section, after at least one line of why, with its default."""
    lines = FILE.read_text().splitlines()
    for setting in every_setting():
        at = lines.index(
            f"  {setting.name}: {spell_yaml(setting.default)}", lines.index(f"{setting.section}:")
        )
        assert lines[at - 1].startswith("  # ")
        assert setting.why.endswith(".")
    assert [line[:-1] for line in lines if re.match(r"\w+:$", line)] == list(SECTIONS)


def test_the_page_has_every_setting_with_its_default_and_why():
    """One row for each, in the order of the file, and none that is not there."""
    rows = re.findall(r"^\| `(\w+\.\w+)` \| `(.*?)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [(setting.key, spell_yaml(setting.default), setting.why) for setting in every_setting()]


def test_every_block_runs_and_prints_what_it_shows(tmp_path):
    """In one folder, in the order of the page."""
    ran, printed = [], ""
    for kind, block in BLOCKS:
        ran.append(kind)
        if kind == "yaml":
            (tmp_path / "shown.yaml").write_text(block)
            settings = load_settings(tmp_path / "shown.yaml", environ={"DB_PASSWORD": "p@ss"})
            assert settings.database.dsn == "mysql+pymysql://octavo:p%40ss@db.example:3306/memory"
        elif kind == "console":
            assert block == "$ python -m octavo.config > memory.yaml\n"
            (tmp_path / "memory.yaml").write_text(run(tmp_path, sys.executable, "-m", "octavo.config"))
            assert (tmp_path / "memory.yaml").read_text() == FILE.read_text()
        elif kind == "python":
            printed = run(tmp_path, f"{programs()}/python", "-W", "error", "-c", block)
        elif kind == "text":
            assert what_decided(tmp_path) == block
        else:
            assert (kind, printed) == ("output", block)
    assert ran == ["yaml", "console", *["python", "output"] * 2, "text", "python", "output"]


def what_decided(folder):
    """What `--verbose` says of a file and a variable."""
    (folder / "config").mkdir()
    (folder / "config" / "memory.yaml").write_text("database:\n  dsn: memory://\nservice:\n  tenant: acme\n")
    told = subprocess.run(
        [f"{programs()}/octavo", "doctor", "--verbose"], cwd=folder, capture_output=True, text=True,
        check=False, timeout=120, env={**os.environ, "OCTAVO_URL": "sqlite:///agent.db"},
    )  # fmt: skip
    *said, refused = told.stderr.splitlines(keepends=True)
    assert "there is no store at agent.db" in refused
    return "".join(said)


def test_every_link():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


@pytest.mark.parametrize("name", re.findall(r"`(OCTAVO__\w+__\w+)`", PAGE))
def test_every_variable_on_the_page_is_one(name):
    known = {setting.variable for setting in every_setting()} | {"OCTAVO__SECTION__KEY"}
    assert name in known
