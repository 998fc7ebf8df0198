"""Values as literals of a statement: what was given comes back, under whatever rules of quoting the server has."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo import open_store
from octavo.stores.sql.statements import Do, Fetch
from octavo.testing.texts import NEEDLES

HOSTILE = (
    "'", "''", "\\", "\\'", "'\\", "\\\\'", '"', "%", "%s", "%%", "\n\r\t\b\x1a\x7f", "' OR 1=1 -- ", "\\' OR 1=1 -- ",
    "'; DROP TABLE x; --", "/*", "`", "�’＇ʼ", "𐐀'", "\u00bf'", "",
    *(part for needle, written, _ in NEEDLES for part in (needle, written)),
)  # fmt: skip
EITHER = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    st.text("'\\\"%s -"),
)


@pytest.fixture(params=["", "NO_BACKSLASH_ESCAPES"], ids=["backslashes", "none"])
async def answered(request, fresh_mysql):
    """Sends values to the server and answers with what it took them for."""
    async with open_store(fresh_mysql) as store, store._driver.connection() as connection:
        await store._driver.send(connection, Do(f"SET SESSION sql_mode = '{request.param}'"))

        async def ask(values):
            picks = ", ".join(["%s"] * len(values))
            return (await store._driver.send(connection, Fetch(f"SELECT {picks}", values)))[0]

        yield ask


async def test_every_hostile_text(answered):
    for text in HOSTILE:
        assert await answered([text, 1, None, text]) == (text, 1, None, text)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(EITHER, min_size=1, max_size=5))
async def test_any_texts_beside_each_other(answered, texts):
    """None of them reaches into the next."""
    assert await answered(texts) == tuple(texts)
