"""The page at /docs: every route for people to read, and nothing from elsewhere."""

import base64
import hashlib
import html
import re
import subprocess
from html.parser import HTMLParser

import pytest


class Tags(HTMLParser):
    """What a browser would load, run or follow."""

    def __init__(self, text):
        super().__init__()
        self.names, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "action", "style")]
        assert not [name for name, _ in attrs if name.startswith("on")]


@pytest.mark.parametrize("auth", ["off", "on"])
def test_it_loads_nothing_and_shows_every_route(sqlite_server, auth):
    """So it works without the internet, and no program of somebody else's sees a key."""
    with sqlite_server(auth=auth).client() as client:
        shown, document = client.get("/docs"), client.get("/openapi.json").json()
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    tags = Tags(shown.text)
    assert not tags.names & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert tags.links == ["openapi.json"]
    policy = shown.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    [style] = re.findall(r"<style>(.*?)</style>", shown.text, re.DOTALL)
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy
    text = html.unescape(shown.text)
    for path, verbs in document["paths"].items():
        for verb, told in verbs.items():
            assert text.count(f"<b>{verb.upper()}</b><code>{path}</code>") == 1
            assert told["summary"] in text
    assert "Answers query, count, memories, left_out, probably_absent." in re.sub("<.*?>", "", text)
    assert ("Bearer $OCTAVO_API_KEY" in text) == (auth == "on")


def test_its_lines_can_be_tried(sqlite_server):
    server = sqlite_server()
    with server.client() as client:
        text = html.unescape(client.get("/docs").text)
    lines = re.findall(r"<pre>(curl .*?)</pre>", text, re.DOTALL)
    assert len(lines) == 30
    for line in lines:
        tried = line.replace("curl ", "curl -sS -o /dev/null -w %{http_code} ", 1)
        done = subprocess.run(
            ["sh", "-ec", tried],
            env={"OCTAVO_SERVER": server.url},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == (
            "404" if "_ID" in line and '/logs"' not in line and "USER_ID" not in line else "200"
        ), line
