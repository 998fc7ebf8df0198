"""One word, one meaning: no two classes of the package have the same name."""

import ast
from collections import defaultdict
from pathlib import Path

import octavo

SOURCE = Path(octavo.__file__).parent
#: Folders whose classes are called what a framework, a protocol or an HTTP schema calls them.
FIXED = ("integrations", "mcp", "client", "config", "server/requests.py", "server/routes")
#: Names of two documents.
TWICE = {"Document", "Problem"}


def test_no_class_name_twice():
    """Names that somebody else has fixed are left out; of private ones a file may have its own."""
    places = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith(FIXED):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(place)
    assert len(places) > 300
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert twice.keys() <= TWICE, twice
