"""A client of the real OpenAI SDK with a memory, against a server on loopback: every form of call, blocking and async."""

import asyncio
import inspect
from types import SimpleNamespace
from unittest.mock import AsyncMock, MagicMock, Mock

import openai
import pytest

from octavo import AsyncMemory, ChatMemory, ConfigError, InvalidQuery, Memory, StoreClosed, with_memory
from openai_endpoint import CUT, openai_endpoint

FORMS = ["chat", "chat streamed", "chat helper", "responses", "responses streamed", "responses helper"]


@pytest.fixture(scope="module")
def serving():
    with openai_endpoint() as running:
        yield running


@pytest.fixture
def server(serving):
    serving.script.clear()
    serving.requests.clear()
    serving.otherwise = "Noted."
    return serving


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/m.db"


@pytest.fixture(params=["blocking", "async"])
async def opened(request, server, url):
    """`opened(user_id="lin")` is a client with memory of that kind, closed after the test."""
    clients = []

    def wrapped(memory=url, **options):
        kind = openai.OpenAI if request.param == "blocking" else openai.AsyncOpenAI
        client = kind(base_url=server.url, api_key="k", max_retries=0, timeout=20)
        clients.append(with_memory(client, memory=memory, **{"timeout_seconds": 20, **options}))
        return clients[-1]

    yield wrapped
    for client in clients:
        await done(client.close)


async def done(method, *args, **kwargs):
    """What a method answers that blocks or is to be awaited; one that blocks runs beside this loop."""
    answer = await asyncio.to_thread(method, *args, **kwargs)
    return await answer if inspect.isawaitable(answer) else answer


async def read(stream):
    """All events of a stream of either kind."""
    if hasattr(stream, "__anext__"):
        return [event async for event in stream]
    return await asyncio.to_thread(list, stream)


def is_async(client):
    return isinstance(client, openai.AsyncOpenAI)


async def ask(client, form, messages, **more):
    """What the model answers to messages, asked in one of the forms."""
    api, _, way = form.partition(" ")
    given = {"messages": messages} if api == "chat" else {"input": messages}
    given |= {"model": "m"} | more
    resource = client.chat.completions if api == "chat" else client.responses
    if way == "helper":
        return await (_helper if is_async(client) else _blocking_helper)(resource.stream, api, given)
    if way == "streamed":
        events = await read(await done(resource.create, stream=True, **given))
        if api == "chat":
            return "".join(event.choices[0].delta.content or "" for event in events)
        return "".join(event.delta for event in events if event.type == "response.output_text.delta")
    answer = await done(resource.create, **given)
    return answer.choices[0].message.content if api == "chat" else answer.output_text


async def _helper(method, api, given):
    async with method(**given) as stream:
        if api == "chat":
            return (await stream.get_final_completion()).choices[0].message.content
        return (await stream.get_final_response()).output_text


async def _blocking_helper(method, api, given):
    def call():
        with method(**given) as stream:
            if api == "chat":
                return stream.get_final_completion().choices[0].message.content
            return stream.get_final_response().output_text

    return await asyncio.to_thread(call)


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


async def kept(client, user_id="lin", session_id="default_session"):
    """The messages that are kept, by role, when all are."""
    messages = await kept_messages(client, user_id, session_id)
    return [(message.role, message.get_text_content()) for message in messages]


async def kept_messages(client, user_id="lin", session_id="default_session"):
    assert await done(client.flush)
    chat = ChatMemory(client.memory.behind.store, user_id, session_id)
    return await client.memory.portal.acall(chat.get_memory())


# --- what a call is told, and what is kept of it


@pytest.mark.parametrize("form", FORMS)
async def test_every_form(form, opened, server):
    """The first conversation is kept as it was said, and the second, of another process, is told of it."""
    client = opened(user_id="lin")
    server.script.append("Nice to meet you, Lin.")
    assert await ask(client, form, [user("I live in Berlin, and I am allergic to peanuts.")]) == (
        "Nice to meet you, Lin."
    )
    assert server.context() == ""
    await done(client.close)

    client = opened(user_id="lin", session_id="tuesday")
    server.script.append("Rice.")
    assert await ask(client, form, [user("What shall I cook tonight, and where do I live?")]) == "Rice."
    assert "Berlin" in server.context()
    assert "peanuts" in server.context()
    assert "octavo" not in server.requests[-1]
    assert await kept(client) == [
        ("user", "I live in Berlin, and I am allergic to peanuts."),
        ("assistant", "Nice to meet you, Lin."),
    ]
    assert await kept(client, session_id="tuesday") == [
        ("user", "What shall I cook tonight, and where do I live?"),
        ("assistant", "Rice."),
    ]


@pytest.mark.parametrize("form", ["chat", "chat streamed", "responses", "responses streamed"])
async def test_nothing_is_kept_twice(form, opened, server):
    """Five turns of a list that grows, with the same words in several of them."""
    client = opened(user_id="lin", session_id="s")
    talk, told = [], []
    for turn, words in enumerate(["我住在杭州。", "yes", "yes", "我对花生过敏。", "yes"]):
        server.script.append(answer := f"好的，第{turn // 2}次。")
        talk.append(user(words))
        assert await ask(client, form, talk) == answer
        talk.append(assistant(answer))
        told += [("user", words), ("assistant", answer)]
        assert await kept(client, session_id="s") == told
    assert server.context() == ""  # the prompt holds it all, in other words
    hits = await done(client.memory.search, "对什么过敏？", user_id="lin")
    assert "花生" in hits[0].text


async def test_one_message_at_a_time(opened, server):
    """An application that sends only what is new: every call is something said."""
    client = opened(user_id="lin")
    for _ in range(2):
        await ask(client, "responses", "yes")
    await ask(client, "chat", [user("yes")])
    assert await kept(client) == [("user", "yes"), ("assistant", "Noted.")] * 3
    assert "user: yes" not in server.context()
    for number in range(5):  # each is told of the one before it, which is being kept meanwhile
        await ask(client, "responses", f"number {number}")
        assert f"user: number {number - 1}" in server.context() or number == 0


async def test_tools(opened, server):
    """Calls of tools and their results are kept, whole and streamed, in both forms."""
    call = ("call_1", "weather", '{"city": "杭州"}')
    client = opened(user_id="lin")
    for form in ("chat", "chat streamed", "responses", "responses streamed"):
        api, _, streamed = form.partition(" ")
        server.script += [[call], "Sunny."]
        talk = [user("How is the weather?")]
        whose = {"octavo": {"session_id": form}}
        if api == "chat":
            method = client.chat.completions.create
            answer = await done(method, model="m", messages=talk, stream=bool(streamed), **whose)
            calls = [{"id": call[0], "type": "function", "function": {"name": call[1], "arguments": call[2]}}]
            talk.append({"role": "assistant", "content": None, "tool_calls": calls})
            if streamed:
                await read(answer)
            else:
                talk[-1] = answer.choices[0].message  # as the SDK's own examples do
            talk.append({"role": "tool", "tool_call_id": "call_1", "content": "sunny, 20 degrees"})
        else:
            method = client.responses.create
            answer = await done(method, model="m", input=talk, stream=bool(streamed), **whose)
            if streamed:
                await read(answer)
            asked = {"type": "function_call", "call_id": call[0], "name": call[1], "arguments": call[2]}
            talk += [asked] if streamed else answer.output
            output = "sunny, 20 degrees"
            talk.append({"type": "function_call_output", "call_id": "call_1", "output": output})
        assert await ask(client, form, talk, **whose) == "Sunny."
        said = await kept_messages(client, session_id=form)
        assert [message.role for message in said] == ["user", "assistant", "system", "assistant"], form
        assert said[1].get_content_blocks("tool_use") == [
            {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "杭州"}}
        ]
        assert said[2].get_content_blocks("tool_result")[0]["output"] == "sunny, 20 degrees"


async def test_where_it_is_put(opened, server):
    """After the caller's own instructions, which stay; the caller's list stays too."""
    client = opened(user_id="lin")
    await ask(client, "chat", [user("I play the cello.")])
    await done(client.flush)
    given = [{"role": "developer", "content": "Be brief."}, user("What do I play?")]
    await ask(client, "chat", given)
    assert len(given) == 2
    assert [role for role, _ in server.sent()] == ["developer", "developer", "user"]
    assert server.sent()[0][1] == "Be brief."
    assert "cello" in server.sent()[1][1]
    await ask(client, "chat", iter([user("What do I play, I ask?")]))
    assert [role for role, _ in server.sent()] == ["system", "user"]
    await ask(client, "responses", "What do I play again?", instructions="Be brief.")
    assert server.requests[-1]["instructions"].startswith("Be brief.\n\n```memory\n")
    assert server.requests[-1]["input"] == "What do I play again?"
    roles = {role for role, _ in await kept(client)}
    assert roles == {"user", "assistant"}  # instructions are not something said


async def test_parsed_answers(opened, server):
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    client = opened(user_id="lin")
    server.script += ['{"name": "Oslo"}'] * 4
    asked = {"model": "m", "messages": [user("Where was I born? In Oslo.")], "response_format": City}
    answer = await done(client.chat.completions.parse, **asked)
    assert answer.choices[0].message.parsed == City(name="Oslo")
    talk = [*asked["messages"], assistant(answer.choices[0].message.content), user("Once more.")]
    await done(client.beta.chat.completions.parse, **asked | {"messages": talk})
    answer = await done(client.responses.parse, model="m", input="And again.", text_format=City)
    assert answer.output_parsed == City(name="Oslo")
    await done(client.beta.responses.create, model="m", input="Once again.")
    said = ["Where was I born? In Oslo.", "Once more.", "And again.", "Once again."]
    assert await kept(client) == [
        pair for text in said for pair in (("user", text), ("assistant", '{"name": "Oslo"}'))
    ]


async def test_pictures(opened):
    """Links are kept, what is sent inside a message is not; the words are."""
    client = opened(user_id="lin")
    parts = [
        {"type": "text", "text": "Two cats."},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 3_000_000}},
    ]
    await ask(client, "chat", [{"role": "user", "content": parts}])
    [said, _] = await kept_messages(client)
    assert [block["type"] for block in said.content] == ["text", "image"]


# --- who it is about


async def test_many_users(opened, server):
    client = opened(user_id="lin")
    ann = client.for_user("ann", session_id="s2")
    await ask(client, "chat", [user("I am a welder.")])
    await ask(ann, "chat", [user("I am a painter.")])
    await ask(client, "chat", [user("I am a diver.")], octavo={"user_id": "bob", "session_id": "s3"})
    await ask(client, "responses", "Make a title of: I am a spy.", octavo=False)
    assert (await kept(ann, "ann", "s2"))[0] == ("user", "I am a painter.")
    assert (await kept(ann, "bob", "s3"))[0] == ("user", "I am a diver.")
    for name, job in {"lin": "welder", "ann": "painter", "bob": "diver"}.items():
        await ask(client.for_user(name), "chat", [user("Am I a welder, a painter, a diver or a spy?")])
        assert job in server.context()
        assert [word for word in ("welder", "painter", "diver", "spy") if word in server.context()] == [job]
    await done(ann.close)  # it shares the client, which stays open
    await ask(client, "chat", [user("Still there?")])


async def test_agents(opened, server):
    """Without a user it is the agent's own memory: what the agent said."""
    client = opened(agent_id="cook")
    server.script.append("I always roast the spices first.")
    await ask(client, "chat", [user("How?")])
    await done(client.flush)
    hits = await done(client.memory.search, "spices", agent_id="cook")
    assert "roast" in hits[0].text
    assert await done(client.memory.search, "spices", user_id="cook") == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"usr_id": "x"}, "user_id, agent_id, session_id, max_tokens, timeout_seconds, or False"),
        ("ann", "or False for no memory; got 'ann'"),
    ],
)
async def test_wrong_words(wrong, says, opened, server):
    client = opened()
    with pytest.raises(TypeError, match=says):
        await ask(client, "chat", [user("x")], octavo=wrong)
    with pytest.raises(InvalidQuery, match="user_id must be a name; got 7"):
        client.for_user(7)
    assert server.requests == []


def test_wrong_options(server, url):
    with openai.OpenAI(base_url=server.url, api_key="k") as client:
        with pytest.raises(InvalidQuery, match="max_tokens must be a number"):
            with_memory(client, memory=url, max_tokens=-1)
        for wrong in (0, float("inf"), float("nan"), "2"):
            with pytest.raises(InvalidQuery, match="timeout_seconds must be more than 0"):
                with_memory(client, memory=url, timeout_seconds=wrong)
        with pytest.raises(ConfigError, match="give a Memory or the URL"):
            with_memory(client, memory=AsyncMemory("memory://"))


@pytest.mark.parametrize("wrong", [None, object(), openai.OpenAI, SimpleNamespace(messages=None)])
def test_what_has_no_calls_to_remember_is_refused(wrong, url):
    """A client of another SDK would be used, and nothing would be remembered."""
    with pytest.raises(TypeError, match=r"with chat\.completions or responses; got "):
        with_memory(wrong, memory=url)


# --- the client is the client


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_client_that_cannot_be_closed(awaited, url):
    """Any object of their shape will do; the memory that was opened for it is closed all the same."""
    shape = type("Shape", (), {"chat": None, **({"__aenter__": None} if awaited else {})})
    client = with_memory(shape(), memory=url)
    closing = client.close()
    if awaited:
        await closing
    with pytest.raises(StoreClosed):
        client.memory.search("x")


@pytest.mark.parametrize("path", ["chat.completions", "responses"])
@pytest.mark.parametrize("mock", [None, Mock, MagicMock, AsyncMock])
async def test_a_fake_is_awaited_where_its_calls_are(mock, path, url):
    async def create(**_):
        return None

    if mock is None:
        fake = SimpleNamespace(create=create)
        for name in reversed(path.split(".")):
            fake = SimpleNamespace(**{name: fake})
    else:
        fake = mock()
    client = with_memory(fake, memory=url)
    flushed = client.flush()
    assert inspect.isawaitable(flushed) is (mock in (None, AsyncMock))
    assert (await flushed if inspect.isawaitable(flushed) else flushed) is True
    client.memory.close()


async def test_used_like_the_client(opened, server, url):
    client = opened(user_id="lin")
    inner = client._inner
    assert isinstance(client, type(inner))
    assert client.base_url == inner.base_url
    assert client.embeddings is inner.embeddings
    assert "embeddings" in dir(client)
    assert "with memory" in repr(client)
    assert type(inner.chat.completions).__name__ in ("Completions", "AsyncCompletions")
    client.api_key = "another"
    assert inner.api_key == "another"
    other = client.with_options(timeout=3).copy(max_retries=2)
    assert (other.timeout, other.max_retries, client.max_retries) == (3, 2, 0)
    await ask(other, "chat", [user("I keep bees.")])
    assert ("user", "I keep bees.") in await kept(client)
    await ask(inner, "chat", [user("I keep cows.")])  # the one that was given has no memory
    assert len(await kept(client)) == 2
    again = with_memory(client, user_id="lin", memory=client.memory, timeout_seconds=20)
    await ask(again, "chat", [user("What do I keep?")])  # not two memories, one in the other
    assert [role for role, _ in server.sent()] == ["system", "user"]
    assert len(await kept(again)) == 4


async def test_it_is_never_sent_twice(opened, server):
    """An application that puts the context in itself, or sends what it was sent, in whatever role."""
    client = opened(user_id="lin")
    await ask(client, "chat", [user("I collect stamps.")])
    await done(client.flush)
    block = (await done(client.memory.context, "What do I collect?", user_id="lin")).text
    for form in ("chat", "responses"):
        await ask(client, form, [{"role": "system", "content": block}, user(f"What do I collect, {form}?")])
        assert sum("stamps" in str(text) for _, text in server.sent()) == 1
    await ask(client, "responses", "What do I collect?", instructions=f"Be kind.\n{block}")
    assert server.requests[-1]["instructions"] == f"Be kind.\n{block}"
    await ask(client, "chat", [user(f"{block}\nWhat do I collect, pray?")])
    assert len(server.sent()) == 1
    said = await kept(client)
    assert not [text for _, text in said if "memory" in text]
    assert ("user", "What do I collect, pray?") in said


async def test_with_blocks(server, url):
    """At the end of a block the client is closed, and a memory that was opened for it; one of yours is not."""
    with with_memory(openai.OpenAI(base_url=server.url, api_key="k"), memory=url, user_id="lin") as client:
        client.chat.completions.create(model="m", messages=[user("I ride a tandem.")])
    assert client.is_closed()
    with Memory(url) as memory:
        assert "tandem" in memory.search("tandem", user_id="lin")[0].text
        inner = openai.AsyncOpenAI(base_url=server.url, api_key="k")
        async with with_memory(inner, memory=memory, user_id="lin") as client:
            await client.chat.completions.create(model="m", messages=[user("I own a canoe.")])
        assert inner.is_closed()
        assert "canoe" in memory.search("canoe", user_id="lin")[0].text


async def test_every_store(server, memory, store, tenant):
    """Two turns, the second with the whole talk, and a third in another session."""
    inner = openai.AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0)
    async with with_memory(inner, memory=memory, user_id="lin", timeout_seconds=20) as client:
        talk = [user("I own a canoe.")]
        await client.responses.create(model="m", input=talk, octavo={"session_id": "s"})
        talk += [assistant("Noted."), user("我住在杭州。")]
        await client.responses.create(model="m", input=talk, octavo={"session_id": "s"})
        assert await client.flush()
        await client.responses.create(model="m", input="我住在哪里？ And my canoe?")
        assert "canoe" in server.context()
        assert "杭州" in server.context()
    said = await ChatMemory(store, "lin", "s", tenant=tenant).get_memory()
    assert [message.get_text_content() for message in said] == [
        "I own a canoe.", "Noted.", "我住在杭州。", "Noted.",
    ]  # fmt: skip


async def test_an_async_memory(server, url):
    """It is used on the loop that it lives on."""
    async with AsyncMemory(url) as memory:
        inner = openai.AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0)
        async with with_memory(inner, memory=memory, user_id="lin", timeout_seconds=20) as client:
            stream = await client.chat.completions.create(
                model="m", messages=[user("I own a canoe.")], stream=True
            )
            assert [chunk async for chunk in stream]
            assert await client.flush()
            await client.responses.create(model="m", input="What do I own?")
            assert "canoe" in server.context()
        said = await ChatMemory(memory.store, "lin", "default_session").get_memory()
        assert [message.get_text_content() for message in said] == [
            "I own a canoe.", "Noted.", "What do I own?", "Noted.",
        ]  # fmt: skip


async def test_azure(server, url):
    inner = openai.AzureOpenAI(
        azure_endpoint=server.url.removesuffix("/v1"), api_key="k", api_version="2024-10-21", max_retries=0
    )
    with with_memory(inner, memory=url, user_id="lin") as client:
        await asyncio.to_thread(client.chat.completions.create, model="m", messages=[user("I breed cats.")])
        assert ("user", "I breed cats.") in await kept(client)


# --- answers that end early


@pytest.mark.parametrize("form", ["chat", "responses"])
async def test_errors_of_the_api(form, opened, server):
    """They are raised as they are, and what the user said is kept; not twice, when it is tried again."""
    client = opened(user_id="lin")
    server.script += [400, 400]
    for _ in range(2):
        with pytest.raises(openai.BadRequestError):
            await ask(client, form, [user("I am a beekeeper.")])
    with pytest.raises(TypeError, match="model"):
        await done(client.chat.completions.create, messages=[user("I am a beekeeper.")])
    assert await kept(client) == [("user", "I am a beekeeper.")]
    await ask(client, form, [user("I am a beekeeper.")])
    assert await kept(client) == [("user", "I am a beekeeper."), ("assistant", "Noted.")]
    assert "beekeeper" not in server.context()  # it is what the user just said


@pytest.mark.parametrize("way", ["cut", "closed", "left"])
@pytest.mark.parametrize("form", ["chat", "responses"])
async def test_a_stream_that_breaks_off(form, way, opened, server):
    """What was received is kept."""
    client = opened(user_id="lin")
    server.script.append(("An answer of many words, one after the other.", CUT if way == "cut" else None))
    method = client.chat.completions.create if form == "chat" else client.responses.create
    given = {"messages": [user("Tell me.")]} if form == "chat" else {"input": "Tell me."}
    stream = await done(method, model="m", stream=True, **given)
    heard = ""
    try:
        for at in range(50):
            event = await (anext(stream) if is_async(client) else asyncio.to_thread(next, stream))
            if form == "chat":
                heard += event.choices[0].delta.content or ""
            elif event.type == "response.output_text.delta":
                heard += event.delta
            if way != "cut" and at == 6:
                break
    except openai.APIConnectionError:
        assert way == "cut"
    if way == "left":
        await done(stream._inner.close)
        turn = stream._turn
        del stream
        async with asyncio.timeout(10):  # the thread that read the last piece lets go of it in a moment
            while not turn._kept:
                await asyncio.sleep(0.01)
    else:
        await done(stream.aclose if is_async(client) else stream.close)
    assert heard
    assert await kept(client) == [("user", "Tell me."), ("assistant", heard.strip())]
