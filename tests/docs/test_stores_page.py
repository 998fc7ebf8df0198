"""docs/stores.md: every URL opens and every option is one that its stores take."""

import re
from pathlib import Path

import pytest

from octavo import ConfigError, open_store
from octavo.kernel.codec import MAX_DEPTH, MAX_NAME_BYTES, MAX_RECORD_BYTES, MAX_TENANT_BYTES
from octavo.stores import SCHEMES

PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
URLS = {
    "SQLite": "sqlite:///a.db",
    "PostgreSQL": "postgresql://u@h/d",
    "MySQL": "mysql://u@h/d",
    "Redis": "redis://h/0",
    "file": "file:///tmp/f",
}
OPTIONS = re.findall(r"^\| `(\w+)` \| ([\w ,]+) \| (?:`(\w+)`)? ?\| ", PAGE, re.MULTILINE)
EXAMPLES = {"unix_socket": "/run/mysqld.sock", "prefix": "mem_", "ttl": "60"}


@pytest.mark.parametrize(("name", "stores", "default"), OPTIONS)
def test_every_option(name, stores, default):
    """Each option of the table is taken by each store it names, with its default or an example."""
    listed = URLS if stores == "SQL stores" else stores.split(", ")
    for store in listed:
        if stores != "SQL stores" or store in ("SQLite", "PostgreSQL", "MySQL"):
            open_store(f"{URLS[store]}?{name}={default or EXAMPLES[name]}")


def test_every_scheme():
    """Each URL on the page opens; each built-in scheme but the synonyms is on it; a misspelt option is refused."""
    shown = set(re.findall(r"`(\w+)(?:\+\w+)?://", PAGE))
    assert shown | {"mariadb", "postgres", "rediss", "unix"} == set(SCHEMES)
    for url in re.findall(r"`(\w[\w+]*://[^`…]*)`", PAGE):
        open_store(url)
    for url in URLS.values():
        if not url.startswith("postgresql"):  # where it would be one of the server's own settings
            with pytest.raises(ConfigError):
                open_store(f"{url}?no_such_option=1")


def test_the_limits():
    """The limits shown are the limits kept."""
    assert f"{MAX_NAME_BYTES} bytes of UTF-8; a tenant {MAX_TENANT_BYTES}" in PAGE
    assert f"{MAX_RECORD_BYTES // 2**20} MiB" in PAGE
    assert f"{MAX_DEPTH} levels" in PAGE
    assert len(OPTIONS) == 11
