"""The lines that let a program start `octavo mcp`, written into its own settings: shown first, with a copy of what was there."""

import difflib
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from octavo.config import Settings, local_path
from octavo.errors import ConfigError
from octavo.kernel.ids import now
from octavo.util.disk import make_folder, stage_file
from octavo.util.secrets import mask_url

NAME = "octavo"  # under which programs know it
_TABLE = f"mcp_servers.{NAME}"


class ServerEntry(msgspec.Struct, frozen=True):
    """How `octavo mcp` is started, from whatever folder."""

    command: str
    args: list[str]

    @classmethod
    def of(cls, settings: Settings, config: str | None) -> "ServerEntry":
        """The command for these settings: every path in it is absolute, and no password is."""
        url = settings.database.dsn
        if mask_url(url) != url:
            raise ConfigError(
                f"{mask_url(url)} holds a password, which would stand in another program's settings; "
                "put the URL into a settings file as database.dsn, and give that file by --config"
            )
        args = ["mcp"]
        if config is not None:
            args += ["--config", str(Path(config).absolute())]
        if (path := local_path(url)) == "":
            raise ConfigError(
                f"{url} forgets everything with the program that started it; name another --store"
            )
        if path is not None and not Path(path).is_absolute():
            parts = urlsplit(url)
            slashes = "//" if parts.scheme == "file" else "///"
            url = f"{parts.scheme}:{slashes}{quote(str(Path(path).absolute()))}{parts.query and '?'}{parts.query}"
        args += ["--store", url, "--user", settings.mcp.user]
        if settings.service.tenant:
            args += ["--tenant", settings.service.tenant]
        if settings.mcp.toolset != "memory":
            args += ["--toolset", settings.mcp.toolset]
        # Of this installation, before any other that is on the path.
        beside = Path(sys.executable).with_name(NAME)
        command = str(beside) if beside.exists() else shutil.which(NAME)
        if command is None:
            return cls(sys.executable, ["-m", "octavo", *args])
        return cls(str(Path(command).absolute()), args)


class McpClient(msgspec.Struct, frozen=True):
    """A program that speaks MCP: where its settings are, and under which name it lists servers."""

    title: str
    path: Callable[[], Path]
    section: str = "mcpServers"
    typed: bool = False  # whether it wants to be told that this is stdio


class SettingsChange(msgspec.Struct, frozen=True):
    """A settings file as it is and as it would be."""

    path: Path
    before: str | None  # None where there is no file
    after: str

    @property
    def changes(self) -> bool:
        """Whether anything differs."""
        return self.before != self.after

    @property
    def shown(self) -> str:
        """What differs, line by line."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(), self.after.splitlines(), lineterm="", n=2
        )
        return "\n".join([*lines][2:])

    def write(self) -> Path | None:
        """Write it in one go; answer where a copy of what was there is."""
        # What a link leads to is the file: replaced, the link would be gone.
        path = self.path.resolve()
        make_folder(path.parent)
        copy = None
        if self.before is not None:
            copy = path.with_name(f"{path.name}.{now():%Y%m%d-%H%M%S}.bak")
            stage_file(copy, [self.before.encode()], path)
        fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
        stage_file(fresh, [self.after.encode()], path)
        fresh.replace(path)
        return copy


def _desktop() -> Path:
    if sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    elif sys.platform == "win32":
        folder = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    else:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "Claude" / "claude_desktop_config.json"


CLIENTS = {
    "claude-desktop": McpClient("Claude Desktop", _desktop),
    "claude-code": McpClient("Claude Code", lambda: Path.cwd() / ".mcp.json", typed=True),
    "cursor": McpClient("Cursor", lambda: Path.home() / ".cursor" / "mcp.json"),
    "vscode": McpClient(
        "VS Code", lambda: Path.cwd() / ".vscode" / "mcp.json", section="servers", typed=True
    ),
    "codex": McpClient(
        "Codex", lambda: Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"
    ),
}


def plan(client: str, entry: ServerEntry) -> SettingsChange:
    """What has to change in a program's settings so that it starts this entry; everything else in them stays."""
    known = CLIENTS[client]
    path = known.path()
    try:
        before = path.read_bytes().decode() if path.exists() else None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error}") from None
    if path.suffix == ".toml":
        return SettingsChange(path, before, _with_table(path, before or "", entry))
    return SettingsChange(path, before, _with_server(path, before, known, entry))


def _with_server(path: Path, before: str | None, known: McpClient, entry: ServerEntry) -> str:
    server = {"command": entry.command, "args": entry.args}
    if known.typed:
        server = {"type": "stdio", **server}
    try:
        held = json.loads(before) if before and before.strip() else {}
        servers = held.setdefault(known.section, {})
        kept = servers.get(NAME, {})
        if {**kept, **server} == kept:
            return before or ""
        servers[NAME] = {**kept, **server}  # what else was set for it, such as its environment, stays
    except (ValueError, AttributeError, TypeError) as error:
        # JSON with comments, too: written again, they would be lost.
        told = json.dumps({known.section: {NAME: server}}, indent=2)
        raise ConfigError(
            f"{path} cannot be read as JSON ({error}); add these lines to it by hand: {told}"
        ) from None
    return json.dumps(held, indent=2, ensure_ascii=False) + "\n"


def _with_table(path: Path, before: str, entry: ServerEntry) -> str:
    wanted = {"command": entry.command, "args": entry.args}
    try:
        held = tomllib.loads(before)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} cannot be read as TOML ({error}); repair it first") from None
    servers: dict[str, Any] = held.setdefault("mcp_servers", {})
    if servers.get(NAME) == wanted:
        return before
    rest = re.sub(rf"(?ms)^\[{re.escape(_TABLE)}\][^\n]*\n.*?(?=^\[|\Z)", "", before).rstrip("\n")
    after = f"{rest}\n\n{_table(entry)}" if rest else _table(entry)
    servers[NAME] = {**{k: v for k, v in servers.get(NAME, {}).items() if isinstance(v, dict)}, **wanted}
    try:
        right = tomllib.loads(after) == held
    except tomllib.TOMLDecodeError:
        right = False
    if not right:  # it is spelled in a way that was not foreseen: a person can change it, and nothing is lost
        raise ConfigError(
            f"{path} has other lines for {NAME}; put these in their place by hand: {_table(entry)}"
        )
    return after


def _table(entry: ServerEntry) -> str:
    # A string of JSON is one of TOML too.
    args = ", ".join(json.dumps(arg, ensure_ascii=False) for arg in entry.args)
    return f"[{_TABLE}]\ncommand = {json.dumps(entry.command, ensure_ascii=False)}\nargs = [{args}]\n"
