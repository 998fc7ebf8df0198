"""docs/behind-a-proxy.md: what it tells other programs fits what the server does; tests/server runs its settings and commands."""

import configparser
import re
import shlex

from pages import ROOT, blocks

from octavo.cli.commands import octavo
from octavo.config import load_settings

PAGE = ROOT / "docs" / "behind-a-proxy.md"


def shown(kind):
    [found] = [block.text for block in blocks(PAGE) if block.kind == kind]
    return found


def server(tmp_path):
    (tmp_path / "memory.yaml").write_text(shown("yaml"))
    return load_settings(tmp_path / "memory.yaml", environ={"DB_PASSWORD": "p"}).server


def test_the_proxies_lead_to_the_server(tmp_path):
    """Both to the address of the settings, without a path behind it."""
    settings = server(tmp_path)
    address = f"{settings.host}:{settings.port}"
    assert f"reverse_proxy {address}\n" in shown("caddyfile")
    assert f"proxy_pass http://{address};\n" in shown("nginx")
    assert all(shown(kind).count("{") == shown(kind).count("}") for kind in ("nginx", "caddyfile"))


def test_nginx_leaves_the_last_word_to_the_server(tmp_path):
    """It takes what the server takes, and waits longer than the server does."""
    settings = server(tmp_path)
    [mebibytes] = re.findall(r"client_max_body_size (\d+)m;", shown("nginx"))
    [seconds] = re.findall(r"proxy_read_timeout (\d+)s;", shown("nginx"))
    assert int(mebibytes) * 2**20 >= settings.max_body_bytes
    assert int(seconds) > settings.request_seconds


def test_the_unit(tmp_path):
    """Its command is one, and systemd waits longer than the server takes to stop."""
    unit = configparser.ConfigParser()
    unit.optionxform = str
    unit.read_string(shown("ini"))
    program, command, *rest = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/octavo")
    octavo.commands[command].make_context(command, rest)
    assert float(unit["Service"]["TimeoutStopSec"]) > server(tmp_path).stop_seconds


def test_nothing_else():
    """Every kind of block on the page is looked at, here or in tests/server/test_server_page.py."""
    assert sorted(block.kind for block in blocks(PAGE)) == ["bash", "caddyfile", "ini", "nginx", "yaml"]
