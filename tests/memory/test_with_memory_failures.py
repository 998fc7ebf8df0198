"""Whatever becomes of the memory, the call is made: in time, with its own answer and its own errors."""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import threading
import time

import openai
import pytest

from octavo import ChatMemory, Memory, StoreUnavailable, open_store, with_memory
from octavo.chat import Msg
from octavo.memory import keeping
from octavo.memory.keeping import count_kept, key_of
from openai_endpoint import openai_endpoint
from serving import Faulty

MARGIN = 2.0  # seconds that a busy machine may take beside what is waited for


@pytest.fixture
def server():
    with openai_endpoint() as running:
        yield running


@pytest.fixture
def faulty():
    """A store that misbehaves when told to, the memory over it, and the messages in it."""
    store = Faulty(open_store("memory://"))
    with Memory(store) as memory:
        yield store, memory
        store.mode = "up"


def blocking(server, memory, **options):
    client = openai.OpenAI(base_url=server.url, api_key="k", max_retries=0)
    return with_memory(client, memory=memory, **{"user_id": "lin", "timeout_seconds": 0.3, **options})


def awaited(server, memory, **options):
    client = openai.AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0)
    return with_memory(client, memory=memory, **{"user_id": "lin", "timeout_seconds": 0.3, **options})


def say(client, *texts):
    """Send a talk: the user's words, and the answers of the server in between."""
    talk = [{"role": "user", "content": texts[0]}]
    for text in texts[1:]:
        talk += [{"role": "assistant", "content": "Noted."}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="m", messages=talk)


def kept(memory, session="default_session"):
    said = memory.portal.call(ChatMemory(memory.behind.store, "lin", session).get_memory())
    return [message.get_text_content() for message in said]


@pytest.mark.parametrize("mode", ["hangs", "down"])
def test_a_store_that_fails(mode, server, faulty, caplog):
    """The call is made within the stated time, without memory; the log says so once; what was missed is kept afterwards."""
    store, memory = faulty
    with blocking(server, memory) as client:
        say(client, "one")
        assert client.flush()
        store.mode = mode
        for texts in (("one", "two"), ("one", "two", "three")):
            began = time.perf_counter()
            assert say(client, *texts).choices[0].message.content == "Noted."
            assert time.perf_counter() - began < 0.3 + MARGIN
        store.mode = "up"
        assert client.flush()
        warned = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
        assert len([text for text in warned if "without memory" in text]) == 1
        assert len([text for text in warned if "is not kept" in text]) <= 1
        say(client, "one", "two", "three", "four")
        assert client.flush()
        assert kept(memory) == [word for text in ("one", "two", "three", "four") for word in (text, "Noted.")]


async def test_a_store_that_hangs_awaited(server, faulty):
    store, memory = faulty

    async def talk():
        began = time.perf_counter()
        answer = await client.responses.create(model="m", input="I like tea.")
        assert answer.output_text == "Noted."
        async with client.responses.stream(model="m", input="I like coffee.") as stream:
            assert (await stream.get_final_response()).output_text == "Noted."
        return time.perf_counter() - began

    async with awaited(server, memory) as client:
        await talk()  # the SDK loads much of itself with the first call
        store.mode = "hangs"
        assert await talk() < 2 * 0.3 + MARGIN
        store.mode = "up"


@pytest.mark.parametrize("method", ["context", "add"])
def test_a_memory_with_a_bug(method, server, faulty, monkeypatch):
    """One that raises anything, and one whose loop is busy: what matters is the clock of the caller."""
    _, memory = faulty

    async def broken(*args, **kwargs):
        time.sleep(0.8)  # that is the bug
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(memory.behind, method, broken)
    with blocking(server, memory) as client:
        began = time.perf_counter()
        assert say(client, "hello").choices[0].message.content == "Noted."
        assert time.perf_counter() - began < 0.3 + MARGIN
        client.flush()


def test_a_memory_that_was_closed(server):
    memory = Memory("memory://")
    memory.close()
    with blocking(server, memory) as client:
        assert say(client, "hello").choices[0].message.content == "Noted."


def test_keeping_does_not_delay_the_answer(server, faulty):
    store, memory = faulty
    with blocking(server, memory) as client:
        say(client, "hello")
        assert client.flush()
        slow = threading.Event()

        async def wait(ops):
            while not slow.is_set():
                await asyncio.sleep(0.01)
            return await store.inner.apply(ops)

        store.apply = wait
        for text in ("one", "two", "three"):
            client.responses.create(model="m", input=text)
        assert kept(memory) == ["hello", "Noted."]
        slow.set()
        assert client.flush()
        assert kept(memory)[2:] == ["one", "Noted.", "two", "Noted.", "three", "Noted."]


def test_an_outage_behind_a_journal(server, tmp_path, monkeypatch):
    """What is said while the database is down waits on disk: nothing is lost, and nothing is kept twice."""
    stores = []

    def opening(url):
        stores.append(Faulty(open_store(url)))
        return stores[-1]

    monkeypatch.setattr("octavo.assemble.open_store", opening)
    monkeypatch.chdir(tmp_path)
    with blocking(server, f"sqlite:///{tmp_path}/m.db", timeout_seconds=1) as client:
        say(client, "one")
        assert client.flush()
        stores[-1].mode = "down"
        say(client, "one", "two")
        say(client, "one", "two", "three")
        assert client.flush()
        stores[-1].mode = "up"
        say(client, "one", "two", "three", "four")
        assert client.flush()
        told, deadline = [], time.monotonic() + 20
        while len(told) < 8 and time.monotonic() < deadline:
            with contextlib.suppress(StoreUnavailable):
                told = kept(client.memory)
            time.sleep(0.05)
        assert told == [word for text in ("one", "two", "three", "four") for word in (text, "Noted.")]


def test_an_outage_from_the_start(server, tmp_path, monkeypatch):
    """When nothing is known of a session, what follows the last answer is new."""
    monkeypatch.setattr("octavo.assemble.open_store", lambda url: Faulty(open_store(url), "down"))
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/m.db"
    with blocking(server, url) as client:
        say(client, "one", "two")
        say(client, "one", "two", "three")
        assert client.flush()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    with Memory(url) as memory:
        told, deadline = [], time.monotonic() + 20
        while len(told) < 4 and time.monotonic() < deadline:
            with contextlib.suppress(StoreUnavailable):
                told = kept(memory)
            time.sleep(0.05)
        assert told == ["two", "Noted.", "three", "Noted."]


def test_too_much_at_once(server, faulty, monkeypatch, caplog):
    """What waits is bounded; what is not kept for it is told."""
    store, memory = faulty
    monkeypatch.setattr(keeping, "_MOST_WAITING", 2)
    with blocking(server, memory, timeout_seconds=0.05) as client:
        store.mode = "hangs"
        for number in range(5):
            client.responses.create(model="m", input=f"number {number}")
        assert len(client._keeper._waiting) == 2
        assert caplog.text.count("calls wait") == 1
        store.mode = "up"
        client.flush()


def test_what_cannot_be_kept(server, faulty):
    """A message that no store takes does not take the others with it."""
    _, memory = faulty
    with blocking(server, memory) as client:
        say(client, "x" * 20_000_000, "I like tea.")
        assert client.flush()
        assert kept(memory) == ["Noted.", "I like tea.", "Noted."]


def test_an_answer_of_another_shape(server, faulty, caplog):
    """A server, or a client, that answers what nobody knows: it is the caller's, and the log tells of it once."""
    _, memory = faulty

    class Completions:
        def create(self, **kwargs):
            return {"not": "a completion"}

    class Client:
        class chat:  # noqa: N801 - as the SDK spells it
            completions = Completions()

        def close(self):
            pass

    with with_memory(Client(), memory=memory, user_id="lin") as client:
        for text in ("one", "two"):
            assert client.chat.completions.create(messages=[{"role": "user", "content": text}]) == {
                "not": "a completion"
            }
        client.chat.completions.create(messages=7)
        assert client.flush()
    assert caplog.text.count("an answer was not understood") == 1
    assert kept(memory) == ["one", "two"]


async def test_a_call_that_is_cancelled(server, faulty):
    """What the user said is kept."""
    _, memory = faulty
    async with awaited(server, memory) as client:
        client.chat.completions._inner._post = never
        call = asyncio.create_task(
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "I like tea."}])
        )
        await asyncio.sleep(0.5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await client.flush()
        assert kept(memory) == ["I like tea."]


async def never(*args, **kwargs):
    await asyncio.get_running_loop().create_future()


def test_a_program_that_forgets_to_close(server, tmp_path):
    """What was said last is kept before it ends, by a client that blocks and by one that does not."""
    program = f"""
import asyncio, openai
from octavo import AsyncMemory, with_memory
add = AsyncMemory.add
async def slow(*args, **kwargs):
    await asyncio.sleep(0.5)
    return await add(*args, **kwargs)
AsyncMemory.add = slow
here = {{"base_url": {server.url!r}, "api_key": "k"}}
client = with_memory(openai.OpenAI(**here), user_id="lin", memory="sqlite:///m.db", timeout_seconds=20)
client.responses.create(model="m", input="I like tea.")
async def main():
    async with openai.AsyncOpenAI(**here) as inner:
        other = with_memory(inner, user_id="lin", memory=client.memory, timeout_seconds=20)
        await other.responses.create(model="m", input="And rice.")
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with Memory(f"sqlite:///{tmp_path}/m.db") as memory:
        assert sorted(kept(memory)) == ["And rice.", "I like tea.", "Noted.", "Noted."]


def test_a_program_that_ends_too_soon_says_so(server, faulty, monkeypatch, caplog):
    _, memory = faulty
    monkeypatch.setattr(keeping.Keeper, "flush", lambda self: False)
    client = blocking(server, memory)
    keeping._flush_all()
    assert "what was said last may not be kept: it took longer than 10 seconds" in caplog.text
    assert client.memory is memory


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork(server, faulty):
    """The child does not wait for what its parent is keeping, and its calls are made."""
    store, memory = faulty
    with blocking(server, memory) as client:
        say(client, "one")
        assert client.flush()
        store.mode = "hangs"
        say(client, "one", "two")
        child = os.fork()
        if child == 0:
            try:
                fine = client.flush() and say(client, "two").choices[0].message.content == "Noted."
            finally:
                os._exit(0 if fine else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        store.mode = "up"
        client.flush()


# --- what is new in a list of messages


def keys(talk):
    """A talk as it is compared: a word in capitals is an answer."""
    return [key_of(Msg("x", word, "assistant" if word.isupper() else "user")) for word in talk.split()]


@pytest.mark.parametrize(
    ("said", "kept_before", "new"),
    [
        ("a", "", "a"),
        ("a A b", "", "a A b"),  # a talk from before there was a memory
        ("a A b", "a A", "b"),
        ("a A b B c", "a A b B", "c"),
        ("b B c", "a A b B", "c"),  # only the last part is sent
        ("a A b", "a A b", ""),  # tried again after an error
        ("a A b", "a A b B", ""),  # asked again for another answer
        ("a A c", "a A b B", "c"),  # the talk takes another turn
        ("a A a A a", "a A a A", "a"),  # the same words again
        ("a A a", "a A a A a A", ""),
        ("a", "a A", "a"),  # only what is new is sent
        ("a", "a", ""),
        ("a X b Y c", "a A b B", "c"),  # answers were edited
        ("a X b Y c", "z a A b B", "c"),
        ("X b B c", "a A b B", "c"),
        ("sum b B c C d", "a A b B c C", "d"),  # the first messages were summed up
        ("sum a", "a A", "sum a"),
        ("y Y a A b", "a A", "b"),
        ("y Y a A b", "z Z", "y Y a A b"),
        ("a A b B", "a A b B", ""),
    ],
)
def test_what_is_new(said, kept_before, new):
    assert said.split()[count_kept(keys(said), keys(kept_before)) :] == new.split()


def test_what_is_new_of_a_long_talk():
    """Its beginning is before what is read of the session."""
    talk = " ".join(f"word{number} ANSWER{number}" for number in range(500)) + " new"
    began = time.perf_counter()
    assert count_kept(keys(talk), keys(talk)[900:1000]) == 1000
    assert count_kept(keys("yes OK " * 500 + "yes"), keys("yes OK " * 50)) == 1000
    assert time.perf_counter() - began < 2


def test_spaces_do_not_matter():
    assert key_of(Msg("x", "two  words\n", "user")) == key_of(Msg("y", "two words", "user"))
    assert key_of(Msg("x", "a", "user")) != key_of(Msg("x", "a", "assistant"))


@pytest.mark.parametrize(("wrong", "as_kept"), [("half \ud83d", "half ?"), ("nul \0", "nul \ufffd")])
def test_what_no_store_keeps_takes_nothing_with_it(wrong, as_kept):
    """The talk is sent again with each call: what is wrong with one message must not cost what comes after it."""
    with Memory("memory://") as memory:
        keeper = keeping.Keeper(memory)
        whose = keeping.Options(user_id="lin")
        talk = [{"role": "user", "content": wrong}]
        for said, answer in ((None, "What?"), ("I am a nurse.", "Noted."), ("Bye", "Bye!")):
            talk += [] if said is None else [{"role": "user", "content": said}]
            keeper.keep(list(talk), [{"role": "assistant", "content": answer}], whose)
            assert keeper.flush()
            talk.append({"role": "assistant", "content": answer})
        assert kept(memory) == [as_kept, "What?", "I am a nurse.", "Noted.", "Bye", "Bye!"]
