"""A server with a console, and browsers at it."""

import pytest
from browsing import Browser

# Servers and keys are made as for the server's own tests.
from server.conftest import new_key, serving, settings_of, store_url  # noqa: F401 - fixtures


@pytest.fixture
def browse():
    """`browse(server)` is a browser at that server, in English unless told otherwise."""
    opened = []

    def made(server, language="en"):
        headers = {"accept-language": language}
        opened.append(Browser(base_url=server.url, headers=headers, timeout=30, trust_env=False))
        return opened[-1]

    yield made
    for each in opened:
        each.close()
