"""`octavo mcp --install`: what is written into other programs' settings, what stays there, and what is refused."""

import json
import stat
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from octavo.cli.commands import octavo as command
from octavo.mcp.install import CLIENTS, ServerEntry, plan

ENTRY = ServerEntry("octavo", ["mcp", "--store", "sqlite:////m.db"])


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Call the command in a home of its own."""
    for name in ("OCTAVO_URL", "XDG_CONFIG_HOME", "CODEX_HOME", "OCTAVO_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)

    def call(client, *args, **more):
        return CliRunner().invoke(command, ["mcp", "--install", client, *args], prog_name="octavo", **more)

    return call


def entry_of(client, path):
    text = path.read_text()
    held = (
        tomllib.loads(text)["mcp_servers"]
        if path.suffix == ".toml"
        else json.loads(text)[CLIENTS[client].section]
    )
    return held["octavo"]


@pytest.mark.parametrize("client", CLIENTS)
def test_it_writes_the_lines_once(install, tmp_path, client):
    done = install(client, "--yes", "--user", "林", "--toolset", "graph", "--tenant", "acme")
    assert done.exit_code == 0, done.output
    path = CLIENTS[client].path()
    entry = entry_of(client, path)
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-9:] == [
        "mcp", "--store", f"sqlite:///{tmp_path}/octavo.db", "--user", "林", "--tenant", "acme", "--toolset", "graph",
    ]  # fmt: skip
    assert entry.get("type") == ("stdio" if CLIENTS[client].typed else None)
    assert str(path) in done.output
    assert "林" in done.output
    before = path.read_bytes()
    again = install(client, "--yes", "--user", "林", "--toolset", "graph", "--tenant", "acme")
    assert "already" in again.output
    assert path.read_bytes() == before
    assert not [each for each in path.parent.iterdir() if each.suffix == ".bak"]
    changed = json.loads(install(client, "--yes", "--json", "--user", "bob").stdout)
    assert Path(changed["copy"]).read_bytes() == before
    assert entry_of(client, path)["args"][-1] == "bob"
    assert path.read_text().count('"--user"') == 1


@pytest.mark.parametrize("client", CLIENTS)
def test_everything_else_stays(install, tmp_path, client):
    path = CLIENTS[client].path()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".toml":
        old = '# mine\nmodel = "x"\n\n[mcp_servers.octavo]\ncommand = "old"\n\n[mcp_servers.octavo.env]\nA = "1"\n\n[mcp_servers.other]\ncommand = "b"\n'
    else:
        old = json.dumps(
            {
                "theme": "暗",
                CLIENTS[client].section: {"other": {"command": "b"}, "octavo": {"env": {"A": "1"}}},
            }
        )
    path.write_text(old)
    path.chmod(0o640)
    done = install(client, "--yes")
    assert done.exit_code == 0, done.output
    entry = entry_of(client, path)
    assert entry["env"] == {"A": "1"}
    assert "mcp" in entry["args"]
    text = path.read_text()
    assert ("# mine" in text and 'model = "x"' in text) if path.suffix == ".toml" else "暗" in text
    assert '"b"' in text
    [copy] = [each for each in path.parent.iterdir() if each.suffix == ".bak"]
    assert copy.read_text() == old
    assert {stat.S_IMODE(each.stat().st_mode) for each in (path, copy)} == {0o640}


def test_a_folder_is_named_from_the_root(install, tmp_path):
    """A program that starts it elsewhere finds the same files."""
    assert install("cursor", "--yes", "--store", "file://./notes?sync=fsync").exit_code == 0
    assert f"file://{tmp_path}/notes?sync=fsync" in entry_of("cursor", CLIENTS["cursor"].path())["args"]


def test_it_asks_first(install):
    path = CLIENTS["cursor"].path()
    refused = install("cursor", input="n\n")
    assert (refused.exit_code, path.exists()) == (1, False)
    assert '+      "command"' in refused.output
    assert install("cursor", "--json").exit_code == 2  # there is nobody to ask
    assert install("cursor", input="y\n").exit_code == 0
    assert path.exists()


@pytest.mark.parametrize(
    ("client", "text", "sentence"),
    [
        ("vscode", '// mine\n{"servers": {}}', "by hand"),
        ("cursor", "[]", "by hand"),
        ("cursor", '{"mcpServers": 5}', "by hand"),
        ("codex", "not = toml =", "cannot be read as TOML"),
        ("codex", 'mcp_servers = {octavo = {command = "x"}}\n', "by hand"),
        ("codex", '["mcp_servers"."octavo"]\ncommand = "x"\n', "by hand"),
    ],
)
def test_what_it_cannot_read_it_leaves_alone(install, client, text, sentence):
    path = CLIENTS[client].path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    done = install(client, "--yes")
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert path.read_text() == text
    assert [*path.parent.iterdir()] == [path]


def test_no_password_is_written(install, tmp_path):
    done = install("cursor", "--yes", "--store", "postgresql://lin:geheim@db/x")
    assert done.exit_code == 2
    assert "--config" in done.stderr
    assert "geheim" not in done.output
    assert not CLIENTS["cursor"].path().exists()
    assert install("cursor", "--yes", "--store", "memory://").exit_code == 2
    Path("own.yaml").write_text("mcp:\n  user: wang\ndatabase:\n  dsn: postgresql://lin@db/x\n")
    assert install("cursor", "--yes", "--config", "own.yaml").exit_code == 0
    args = entry_of("cursor", CLIENTS["cursor"].path())["args"]
    assert args[args.index("--config") + 1] == str(tmp_path / "own.yaml")
    assert args[args.index("--user") + 1] == "wang"


def test_a_link_stays_a_link(install, tmp_path):
    path = CLIENTS["cursor"].path()
    path.parent.mkdir(parents=True)
    (tmp_path / "real.json").write_text("{}")
    path.symlink_to(tmp_path / "real.json")
    assert install("cursor", "--yes").exit_code == 0
    assert path.is_symlink()
    assert "octavo" in (tmp_path / "real.json").read_text()


def test_where_the_settings_of_claude_desktop_are(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("APPDATA", str(tmp_path / "roaming"))
    for platform, folder in (
        ("linux", ".config"),
        ("darwin", "Library/Application Support"),
        ("win32", "roaming"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        assert (
            plan("claude-desktop", ENTRY).path == tmp_path / folder / "Claude" / "claude_desktop_config.json"
        )
