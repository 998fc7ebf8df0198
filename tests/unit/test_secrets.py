"""Passwords are never shown."""

import pytest

from octavo.util.secrets import mask_passwords, mask_url


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql://bob:sesame@db.example/app", "postgresql://bob:…@db.example/app"),
        ("postgresql+asyncpg://bob:a@b:c/d@db:5432/app", "postgresql+asyncpg://bob:…@db:5432/app"),
        ("redis://:sesame@cache/0", "redis://:…@cache/0"),
        ("mysql://bob@db/app?password=sesame&ssl=1", "mysql://bob@db/app?password=…&ssl=1"),
        ("redis://h/0?auth_token=abc", "redis://h/0?auth_token=…"),
        ("sqlite:///octavo.db", "sqlite:///octavo.db"),
        ("memory://", "memory://"),
        ("not a url", "not a url"),
    ],
)
def test_a_url_is_shown_without_its_password(url, seen):
    assert mask_url(url) == seen


def test_a_sentence_is_shown_without_the_passwords_of_its_urls():
    """As they were written, as they were decoded, and as part of the whole URL."""
    url = "postgresql://bob:se%40same@db/app?sslpassword=other"
    said = (
        "cannot reach postgresql://bob:se%40same@db/app?sslpassword=other with se@same or se%40same or other"
    )
    assert (
        mask_passwords(said, [url]) == "cannot reach postgresql://bob:…@db/app?sslpassword=… with … or … or …"
    )
    assert mask_passwords("a be it", ["redis://:a@h"]) == "a be it"
