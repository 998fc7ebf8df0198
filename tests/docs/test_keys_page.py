"""Everything docs/keys.md shows is run, and what it prints is compared; what it says about access is the server's rule."""

import re

from pages import ROOT, reader

from octavo.keys import ACCESS
from octavo.server.access import OPEN, needed_access

PAGE = ROOT / "docs" / "keys.md"


def test_the_page(tmp_path):
    """From top to bottom, in one folder, with a server that wants a key."""
    with reader(tmp_path) as somebody:
        somebody.read(PAGE)
    assert somebody.ran == ["console", "yaml", "console", "console", "console", "python", "output"]


def test_the_table_of_access():
    """Each route stands in the row of the access it needs, and those without a key below the table."""
    text = PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(read|write|admin)` \| (.*) \|$", text, re.MULTILINE))
    assert tuple(rows) == ACCESS
    for access, row in rows.items():
        for method, path in re.findall(r"`(GET|POST) (/[\w/]+)`", row):
            assert needed_access(method, path) == access
    assert set(re.findall(r"`GET (/\S+)`", text.partition("need no key")[0].rpartition("\n\n")[2])) == OPEN
