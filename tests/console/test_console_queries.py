"""A page asks the store a small and fixed number of questions, however much there is, and is light."""

import asyncio
import gzip

import pytest
from bench import console

from octavo import open_store
from octavo.events import AgentEvent
from octavo.events.records import to_record
from octavo.kernel.model import Add
from octavo.memory import AsyncMemory
from octavo.wraps import Wrap

ASKED = ("find", "tally", "heads", "names", "search", "describe", "lag", "unindexed")
#: How many questions each page may ask.
PAGES = {
    "": 25,
    "/people": 8,
    "/people/user00": 12,
    "/agents": 8,
    "/agents/cook": 8,
    "/memories/{memory}": 12,
    "/search?q=what+does+she+like&user=user00": 25,
    "/context?q=what+does+she+like&user=user00": 30,
    "/log": 3,
    "/sessions": 4,
    "/sessions/long": 10,
    "/reliability": 3,
    "/vault": 1,
    "/access": 1,
    "/people/user00/forget": 60,
}
STATIC = ("console.css", "console.js", "icon.svg")
MOST_BYTES = 60_000  # as a proxy sends them


class Counting(Wrap):
    """A store that counts what it is asked."""

    def __init__(self, store):
        super().__init__(store)
        self.asked = 0
        for name in ASKED:
            if hasattr(store, name):
                self.__dict__[name] = self._counted(getattr(store, name))

    def _counted(self, verb):
        async def ask(*args, **named):
            self.asked += 1
            return await verb(*args, **named)

        return ask


async def fill(url, users, each):
    """So many users, each with so many memories; a session with as many events. The id of a memory."""
    async with AsyncMemory(url) as memory:
        for user in range(users):
            for number in range(each):
                text = f"She likes number {number} and tea"
                made = await memory.layers.remember(
                    text, user_id=f"user{user:02}", layer="profile" if number % 2 else "event"
                )
        events = [AgentEvent(session_id="long", user_id="user00", data={"n": n}) for n in range(users * each)]
        await memory.store.apply([Add([to_record(event) for event in events])])
    return made.id


def counted(browser, store, pages):
    """How many questions each page asks the store."""
    found = {}
    for page in pages:
        before = store.asked
        browser.page(page)
        found[page] = store.asked - before
    return found


@pytest.fixture
def counting(settings_of, serving, browse, monkeypatch):
    """`counting(url)`: a browser at a server, and its store, which counts."""
    opened = []
    monkeypatch.setattr(
        "octavo.assemble.open_store", lambda url: opened.append(Counting(open_store(url))) or opened[-1]
    )
    return lambda url: (browse(serving(settings_of(url))), opened[0])


@pytest.mark.torture
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_with_much_in_the_store(kind, store_url, counting, size):
    """However much there is, a page asks as many questions as `python -m bench --console` shows it to with little."""
    most = console.FULL._replace(memories=size(400, 100_000), events=size(4000, 1_000_000))
    url = store_url(kind)
    few = console.pages(asyncio.run(console.fill(url, console.QUICK)))
    browser, store = counting(url)
    # Days and users are counted now and then, whoever looks.
    asked = {name: page for name, page in few.items() if name not in ("overview", "chart", "vault")}
    before = counted(browser, store, asked.values())
    asyncio.run(console.fill(url, most))
    after = counted(browser, store, asked.values())
    # A search reads its hits from three collections, where there are any.
    assert {page: (before[page], after[page]) for page in before if after[page] > before[page] + 4} == {}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_number_of_questions_does_not_grow(kind, store_url, counting):
    url = store_url(kind)
    browser, store = counting(url)

    def count(memory):
        found = counted(browser, store, [page.format(memory=memory) for page in PAGES])
        return dict(zip(PAGES, found.values(), strict=True))

    few = count(asyncio.run(fill(url, 2, 3)))
    many = count(asyncio.run(fill(url, 30, 10)))
    # What is asked for the sake of health comes now and then, whoever looks.
    grown = {page: (few[page], many[page]) for page in PAGES if many[page] > few[page] + 2}
    assert grown == {}
    assert {page: many[page] for page, most in PAGES.items() if many[page] > most} == {}
    sent = sum(len(gzip.compress(browser.get(f"/console/static/{name}").content)) for name in STATIC)
    for page in PAGES:
        told = browser.get(f"/console{page.format(memory='x')}").content
        assert sent + len(gzip.compress(told)) < MOST_BYTES, page
