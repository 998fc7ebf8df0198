"""docs/console.md: what it starts serves the console, and it tells of every page there is."""

import re
from pathlib import Path

import httpx

from octavo.server.console import site
from running_server import octavo_serves

PAGE = (Path(__file__).parents[2] / "docs" / "console.md").read_text(encoding="utf-8")
#: What is no page of its own: parts of others, files, and what is sent in return.
PARTS = {
    "/", "/console/activity.svg", "/console/language", "/console/sign-in", "/console/static/{name}", "/console/{rest}",
    "/console/log/export", "/console/people/{user}/export", "/console/people/{user}/forget",
    "/console/sessions/{session}/tail",
}  # fmt: skip


def test_the_page_runs(tmp_path):
    [block] = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    assert block.startswith("$ octavo serve --sample\n")
    with (
        octavo_serves(f"sqlite:///{tmp_path / 'octavo.db'}", tmp_path, "--sample") as url,
        httpx.Client(base_url=url, trust_env=False, follow_redirects=True) as client,
    ):
        assert "<h1>Overview</h1>" in client.get("/").text
        assert "user123" in client.get("/console/people").text
    with octavo_serves("memory://", tmp_path, "--no-console") as url:
        assert httpx.get(f"{url}/console", trust_env=False).status_code == 404


def test_it_tells_of_every_page():
    told = set(re.findall(r"^\| [^|]+ \| `(/console[^`]*)` \|", PAGE, re.MULTILINE))
    pages = {re.sub(":[a-z]+}", "}", route.path) for route in site.routes() if "GET" in route.methods}
    assert told == pages - PARTS
