"""docs/mcp.md: its commands and programs run, its lines are those that `--install` writes, its tables name what there is."""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import get_args

from pages import ROOT, Reader, agrees, blocks, commands

from octavo.mcp import ToolCaller, Toolset
from octavo.mcp.install import CLIENTS, ServerEntry, plan
from octavo.mcp.server import new_server

PAGE = ROOT / "docs" / "mcp.md"
PASTED = ServerEntry("octavo", ["mcp", "--store", "sqlite:////home/lin/octavo.db", "--user", "lin"])


def test_the_page(tmp_path):
    """From top to bottom, in one folder, with a server that wants a key."""
    home = tmp_path / "home"
    home.mkdir()
    own = {"/home/lin": str(home), "/usr/local/bin/octavo": str(Path(sys.executable).with_name("octavo"))}
    somebody = Reader(tmp_path, own)
    somebody.env["HOME"] = str(home)
    ran = []
    try:
        for block in blocks(PAGE):
            ran.append(block.kind)
            if block.kind == "console":
                for command, shown in commands(block):
                    somebody._do(command, shown, command)
            elif block.kind == "yaml":
                (tmp_path / "server.yaml").write_text(block.text)
            elif block.kind == "python":
                printed = somebody._run(
                    ["python", "-c", somebody._addressed(block.text)], f"line {block.line}"
                )
            elif block.kind == "output":
                assert agrees(printed, block.text), printed
    finally:
        ends = somebody.close()
    assert [code for code, _ in ends] == [0], ends
    assert ran == [
        "console",
        "json",
        "json",
        "json",
        "toml",
        "python",
        "output",
        "yaml",
        "console",
        "python",
        "output",
    ]
    assert (home / ".cursor" / "mcp.json").exists()


def test_the_lines_to_paste_are_those_that_are_written(tmp_path, monkeypatch):
    """One block for each way in which a program that has no settings yet wants them."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "APPDATA", "XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    shown = [json.loads(block.text) for block in blocks(PAGE) if block.kind == "json"]
    [table] = [tomllib.loads(block.text) for block in blocks(PAGE) if block.kind == "toml"]
    text = PAGE.read_text(encoding="utf-8")
    for name, client in CLIENTS.items():
        assert client.title in text
        written = plan(name, PASTED).after
        assert (tomllib.loads(written) == table) if name == "codex" else (json.loads(written) in shown)


def test_its_tables_name_what_there_is():
    text = PAGE.read_text(encoding="utf-8")

    def tools(toolset):
        server = new_server(lambda _: ToolCaller(memory=None, user_id="lin"), toolset)
        return server, [each.name for each in server._tool_manager.list_tools()]

    server, names = tools("memory")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == names
    uris = [*map(str, server._resource_manager._resources), *map(str, server._resource_manager._templates)]
    assert re.findall(r"^\| `(octavo://.*?)` \|", text, re.MULTILINE) == uris
    for toolset in get_args(Toolset):
        assert toolset == "memory" or f"--toolset {toolset}" in text
        for name in tools(toolset)[1]:
            assert f"`{name}`" in text
    for prompt in server._prompt_manager.list_prompts():
        assert f"`{prompt.name}`" in text
