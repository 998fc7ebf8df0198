"""A memory folder: what is written is read again as it was, whatever the facts say."""

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo import ConfigError, Query, Scope, open_store
from octavo.importers.markdown import read_memory_folder, write_memory_folder
from octavo.importers.sources import ImportSource
from octavo.importers.values import DefaultOwner, bring
from octavo.layers import LayeredMemory
from octavo.service.vault.documents import parse

LIN = Scope(user="lin")
NASTY = [
    "Likes tea",
    "two\nlines",
    "a\n\n  gap",
    "- a bullet",
    "# a heading",
    "```\ncode\n```",
    "``` never closed",
    "a <!-- comment --> inside",
    "ends with a space ",
    "[a link](preference.md)",
    "我对花生过敏 🥜",
    "---",
    "<!--",
    "1. one\n2. two",
    "tab\tand \r return",
]


async def facts_of(store):
    found = []
    for collection in ("profile", "episodes"):
        found += await store.find(Query(collection=collection, scope=LIN))
    return {
        (r.id, r.collection, r.kind, r.text, r.created_at, r.updated_at, r.expires_at, r.data["is_permanent"], str(r.metadata))
        for r in found
    }  # fmt: skip


async def round_trip(texts, folder):
    async with open_store("memory://") as store, open_store("memory://") as other:
        layers = LayeredMemory(store)
        for number, text in enumerate(texts):
            layer = "event" if number % 3 == 2 else "profile"
            ends = datetime(2099, 1, 1, tzinfo=UTC) if number % 5 == 4 else None
            await layers.remember(
                text, user_id="lin", layer=layer, metadata={"n": number, "-->": "<b>"}, expiry_date=ends
            )
        await layers.remember("Somebody else's", user_id="bob")
        pages = await write_memory_folder(store, folder, LIN)
        assert sum(pages.values()) == len(texts)
        source = ImportSource(path=folder)

        def read():
            return read_memory_folder(source, DefaultOwner(user="lin"))

        told = await bring(read, other, "run")
        assert (told.bad, told.read) == (0, 2 * len(texts))
        assert await facts_of(other) == await facts_of(store)
        assert (await bring(read, store, "run")).added == 0  # they are known where they came from


async def test_what_is_written_is_read_again(tmp_path):
    await round_trip(NASTY, tmp_path / "memory")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip),
        min_size=1,
        max_size=4,
    )
)
async def test_whatever_the_facts_say(tmp_path_factory, texts):
    await round_trip(texts, tmp_path_factory.mktemp("memory") / "m")


async def test_its_shape(tmp_path):
    async with open_store("memory://") as store:
        await LayeredMemory(store).remember(
            "Likes tea", user_id="lin", layer="profile", category="preference"
        )
        await write_memory_folder(store, tmp_path, LIN)
        index = (tmp_path / "MEMORY.md").read_text()
        assert "- [Preference](preference.md) — 1 fact, such as: Likes tea\n" in index
        page = parse((tmp_path / "preference.md").read_text())
        assert page.front | {"description": ""} == {
            "name": "preference", "description": "", "type": "user", "layer": "profile", "category": "preference",
            "source": "octavo",
        }  # fmt: skip
        assert page.body.strip().startswith("# Preference\n\n- Likes tea <!-- {")


async def test_an_edited_line_is_a_new_fact(tmp_path):
    async with open_store("memory://") as store:
        layers = LayeredMemory(store)
        await layers.remember("Likes tea", user_id="lin", layer="profile")
        await write_memory_folder(store, tmp_path, LIN)
        path = tmp_path / "preference.md"
        path.write_text(path.read_text().replace("- Likes tea", "- Likes green tea"))
        source = ImportSource(path=tmp_path)
        await bring(lambda: read_memory_folder(source, DefaultOwner(user="lin")), store, "run")
        assert {fact.content for fact in await layers.profile(user_id="lin")} == {
            "Likes tea",
            "Likes green tea",
        }


async def test_it_writes_over_nothing_of_others(tmp_path):
    async with open_store("memory://") as store:
        layers = LayeredMemory(store)
        tea = await layers.remember("Likes tea", user_id="lin", layer="profile", category="preference")
        (tmp_path / "own.md").write_text("mine")
        await write_memory_folder(store, tmp_path, LIN)
        await layers.forget(tea.id)
        assert await write_memory_folder(store, tmp_path, LIN) == {}
        assert sorted(path.name for path in tmp_path.iterdir()) == ["MEMORY.md", "own.md"]
        (tmp_path / "MEMORY.md").write_text("# Mine\n")
        with pytest.raises(ConfigError, match="was not written by this command"):
            await write_memory_folder(store, tmp_path, LIN)
