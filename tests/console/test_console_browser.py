"""The console in a real browser: Debian's chromium, driven by Playwright in an environment of its own."""

import asyncio
import json
import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from browsing import HOSTILE

from integrations.environment import prepared, ran
from octavo.config import Database, FailureQueue, Server, Settings, Vault
from octavo.events import AgentEvent
from octavo.events.records import to_record
from octavo.kernel.model import Add, Record
from octavo.keys import Keys
from octavo.memory import AsyncMemory
from octavo.service.vault import Vault as Documents
from octavo.wraps.journal import Spool, Waiting
from sampled import FULL, sampled
from server.conftest import Running
from servers.binaries import locate
from servers.debian import install_program

IMAGES = Path(__file__).parents[2] / "docs" / "images"
REQUIREMENTS = ("playwright==1.65.0", "axe-playwright-python==0.1.8")
RUN = Path(__file__).with_name("browser_run.py")
#: Of the pages, one in so many is checked for barriers.
SHARE = 1 if FULL else 4
SHOTS = ("overview", "person", "memory", "search", "context", "session")
SAID = (
    "My name is Lin, and I live in Berlin.",
    "I am allergic to peanuts.",
    "I work as a nurse at the Charité.",
    "I love green tea and hate coffee.",
    "I moved to Hamburg last week.",
    "I speak German and Mandarin.",
    "Yesterday I had a meeting with Dr. Weber about the night shifts.",
)


async def fill(url, folder):
    """Something to look at, and things that must do no harm; the id of a memory that changed, and a key."""
    async with AsyncMemory(url) as memory:
        await memory.layers.remember(HOSTILE, user_id="<script>", layer="profile", reason=HOSTILE)
        await memory.layers.remember("alert " + "x" * 1_000_000, user_id="<script>")
        await memory.layers.remember(HOSTILE, agent_id="<b>cook", layer="profile", reason=HOSTILE)
        for text in SAID:
            await memory.add(text, user_id="lin", session_id="monday")
        facts = await memory.get_all(user_id="lin")
        home = next(fact for fact in facts if "Hamburg" in fact.content and fact.layer == "profile")
        await memory.update(
            home.id, "Lives in Hamburg, near the harbour", reason="she told it in more detail"
        )
        named = {"agent_name": "cook", "session_id": "kitchen", "user_id": "lin"}
        call, failed = {"metadata": {"tool_call_id": "1"}}, {"metadata": {"tool_call_id": "2"}}
        at = AgentEvent().timestamp
        steps = [
            ("user_message", {"text": "What can I bake for Lin?"}, {}),
            ("tool_call_start", {"tool_name": "search", "arguments": {"q": "allergies of Lin"}}, call),
            ("tool_call_success", {"tool_name": "search", "result": "allergic to peanuts"}, call),
            ("tool_call_start", {"tool_name": "oven", "arguments": {"degrees": 180}}, failed),
            ("tool_call_error", {"tool_name": "oven", "error": "the door is open"}, failed),
            (
                "model_response",
                {"text": "An apple cake without nuts; but close the door of the oven first."},
                {},
            ),
        ]
        events = [
            AgentEvent(
                event_type=kind, data=data, timestamp=at + timedelta(milliseconds=700 * n), **named, **more
            )
            for n, (kind, data, more) in enumerate(steps)
        ]
        for day in range(1, 30):
            events += [
                AgentEvent(session_id=f"day{day}", timestamp=at - timedelta(days=day), data={"n": n})
                for n in range((day * 37) % 23)
            ]
        events.append(AgentEvent(session_id="<script>", event_type="custom", data={"text": HOSTILE}))
        await memory.store.apply([Add([to_record(event) for event in events])])
        vault = Documents(folder / "vault", memory.store)
        await vault.put("users/lin", "# Lin\n\nLikes **green** tea.")
        await vault.put("users/lin", f"# Lin\n\nLikes **black** tea.\n\n{HOSTILE.replace(chr(27), '')}")
        await vault.close()
        key = (await Keys(memory.store).create("admin", access="admin")).key
    letters = [
        Waiting(id=f"q_{n}", ops=[Add([Record(collection="messages", text="hello")])]) for n in range(8)
    ]
    with Spool(folder / "queue") as spool:
        spool.put(letters)
        spool.head(len(letters))
        spool.bury([each.id for each in letters], f"it did not fit {HOSTILE}")
    return home.id, key


@pytest.fixture(scope="module")
def seen(tmp_path_factory, pytestconfig):
    """What the browser saw, in one run over all pages and forms."""
    folder = tmp_path_factory.mktemp("browser")
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with (
        capture.global_and_fixture_disabled()
    ):  # an installation takes a minute, and is seen while it happens
        chromium = locate("chromium", package="chromium")
        if os.environ.get("OCTAVO_SCREENSHOTS"):
            install_program("fonts-droid-fallback")  # or Chinese would be boxes
    python = prepared("playwright", REQUIREMENTS)
    url = f"sqlite:///{folder / 'octavo.db'}"
    memory, key = asyncio.run(fill(url, folder))

    def settings(auth):
        return Settings(
            database=Database(dsn=url),
            failure_queue=FailureQueue(directory=str(folder / "queue")),
            vault=Vault(root_path=str(folder / "vault")),
            server=Server(auth=auth, stop_seconds=2),
        )

    with Running(settings("off")) as unlocked, Running(settings("on")) as keyed:
        told = ran(python, RUN, chromium, unlocked.url, keyed.url, key, memory, folder, SHARE)
    for name in SHOTS if os.environ.get("OCTAVO_SCREENSHOTS") else ():
        shutil.copy(folder / f"console-{name}.png", IMAGES)
    return {**json.loads(told), "folder": folder}


def test_no_request_leaves_the_host(seen):
    assert seen["hosts"] == ["127.0.0.1"]


def test_nothing_goes_wrong_and_nothing_breaks_the_policy(seen):
    """No script of a memory runs, no error is told, and the browser refuses nothing."""
    assert seen["wrong"] == []
    assert seen["refused"] == []


@pytest.mark.torture
def test_no_page_has_a_serious_barrier(seen):
    """As axe finds them, in light and in dark, on one page in four, and at full length on all."""
    assert {page: found for page, found in seen["axe"].items() if found} == {}
    assert len(seen["axe"]) == 40 // SHARE


FORMS = [
    "Added.",
    "Saved.",
    ["cello", "violin"],
    "Undone.",
    "Rejected: it is not learnt again.",
    True,
    "oct_",
    "Revoked.",
    "Put back into the queue.",
    "Discarded.",
    "Tried.",
]


@sampled("how", ["forms", "forms without programs"], share=2)
def test_every_form_works(seen, how):
    """Without programs they are sent by the tests that need no browser."""
    assert seen[how] == FORMS


def test_the_keyboard_is_enough(seen):
    assert seen["keyboard"] == ["/console/sign-in", "main", "/console/sign-in", True]


def test_two_languages(seen):
    assert seen["chinese"] == ["zh-CN", "用户"]
    assert seen["switched"] == ["en", "People"]


def test_labels_of_a_form_stand_on_one_line(seen):
    """A list or a date is no higher than a text; of seven fields the last has a line of its own."""
    assert seen["lines of labels"] <= 2


def test_light_and_dark(seen):
    assert seen["background light"] == "rgb(255, 255, 255)"
    assert seen["background dark"] == "rgb(21, 24, 27)"


def test_live_views(seen):
    """An open session shows what comes; the block of a context goes to the clipboard."""
    assert seen["live"] == [1, True]


@pytest.mark.parametrize("name", SHOTS)
def test_the_pictures_are_there_and_small(seen, name):
    """Those of the documentation, which `make screenshots` makes as this test does."""
    assert 5_000 < (IMAGES / f"console-{name}.png").stat().st_size < 100_000
    assert (
        5_000 < (seen["folder"] / f"console-{name}.png").stat().st_size < 200_000
    )  # fonts differ between machines
