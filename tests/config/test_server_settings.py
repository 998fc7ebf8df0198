"""Who may call a server is decided by its settings, and an open door to others is refused."""

import pytest

from octavo import ConfigError
from octavo.config import Server


@pytest.mark.parametrize(
    ("host", "auth", "needs_key"),
    [
        ("127.0.0.1", "auto", False), ("::1", "auto", False), ("localhost", "auto", False), ("127.0.0.1", "on", True),
        ("0.0.0.0", "auto", True), ("memory.example", "auto", True), ("10.0.0.1", "on", True), ("localhost", "off", False),
    ],
)  # fmt: skip
def test_keys_are_needed_wherever_others_can_call(host, auth, needs_key):
    """`auto` is on, except on loopback."""
    assert Server(host=host, auth=auth).needs_key is needs_key


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "memory.example", "127.0.0.1.example"])
def test_an_open_server_for_others_is_refused(host):
    """The error names the value and both cures."""
    with pytest.raises(
        ConfigError, match=r"server\.auth is off.*listen on 127\.0\.0\.1, or leave auth on"
    ) as caught:
        Server(host=host, auth="off")
    assert repr(host) in str(caught.value)
