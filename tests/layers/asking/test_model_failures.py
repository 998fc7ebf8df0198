"""Models and servers that fail: what is asked again, when the rules decide, and that no answer does harm."""

import asyncio
import json
import logging
import sys
import traceback

import pytest
from asking_kit import ENGINEER, KEY, NOON, PARTY, TEXT, UNAUTHORISED, Rules, decide, fact, found, ruled
from hypothesis import given
from hypothesis import strategies as st

from agent.chat_endpoint import (
    BROKEN,
    GARBAGE,
    HUNG_UP,
    NO_CHOICES,
    NOT_JSON,
    OTHER_JSON,
    REFUSED,
    TOO_BUSY,
    answered,
    http,
    never,
    said,
)
from octavo import ConfigError, ModelError
from octavo.layers.llm_extractor import DecisionMaker, ModelExtractor
from octavo.layers.llm_messages import facts_of
from octavo.layers.values import CATEGORIES

UNUSED = ("no JSON at all", '{"facts": [{"content": 5}]}', '{"facts": [{"reason": "x"}]}', "", "{'facts': []", '"facts"', "[1, 2]", "I found nothing: []")  # fmt: skip

#: Answers that would keep a careless reader busy for hours.
HOSTILE = (
    "[" * 300_000, "{" * 300_000, '{"a":[' * 50_000, None, "x" * 500_000, "<think>" * 50_000, "```\n" + "\n" * 300_000,
    '"\\' * 150_000, '{"' + ",\n" * 100_000, "```json\n" * 40_000,
)  # fmt: skip


# --- answers of no use ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", UNUSED)
async def test_it_is_asked_again_with_what_was_wrong(server, rules, extractor, answer):
    server.script += [said(answer), found(fact())]
    [decision] = await decide(extractor)
    assert decision.content == "用户是一名厨师"
    first, second = server.requests
    assert second["messages"][:2] == first["messages"]
    assert second["messages"][2] == {"role": "assistant", "content": answer or "…"}
    assert second["messages"][3]["role"] == "user"
    assert second["messages"][3]["content"].startswith("这个回答无法使用：")
    assert rules.asked == []


@pytest.mark.parametrize("answer", [*UNUSED, *HOSTILE])
async def test_the_rules_decide_after_the_last_attempt(server, rules, extractor, caplog, answer):
    server.script += [said(answer)] * 5
    assert await decide(extractor, known=[ENGINEER]) == [ruled()]
    assert len(server.requests) == 2
    assert rules.asked == [(TEXT, [ENGINEER.id], "user", NOON)]
    [record] = caplog.records
    assert (record.name, record.levelno) == ("octavo.layers", logging.WARNING)
    assert "the rules decide" in record.message
    assert TEXT not in caplog.text


async def test_as_many_attempts_as_are_asked_for(server, rules):
    server.script += [said("no")] * 9
    extractor = ModelExtractor("m", base_url=server.url, attempts=4, fallback=rules)
    assert await decide(extractor) == [ruled()]
    assert len(server.requests) == 4
    await extractor.close()


async def test_half_an_answer_is_not_taken_for_a_whole(server, rules, extractor):
    """Facts after the cut would be lost without a word."""
    whole = json.dumps({"facts": [fact(content=f"fact {n}") for n in range(3)]})
    server.script += [said(whole[:-40]), found(fact())]
    assert [each.content for each in await decide(extractor)] == ["用户是一名厨师"]
    body = {"choices": [{"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": whole}}]}  # fmt: skip
    server.script += [http("200 OK", json.dumps(body).encode())] * 2
    assert await decide(extractor) == [ruled()]
    assert "say less" in server.requests[-1]["messages"][-1]["content"]


# --- servers that fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        BROKEN, TOO_BUSY, UNAUTHORISED, GARBAGE, NOT_JSON, OTHER_JSON, NO_CHOICES, HUNG_UP,
        http("404 Not Found", b"{}"), http("200 OK", b""), http("200 OK", b"null"),
        answered({"content": None, "refusal": "I cannot help with that."}),
        http("200 OK", b'{"choices": [{"index": 0, "finish_reason": "content_filter", "message": {"content": ""}}]}'),
    ],
)  # fmt: skip
async def test_a_server_that_fails_is_not_asked_twice(server, rules, extractor, caplog, answer):
    caplog.set_level(logging.DEBUG)
    server.script += [answer, found(fact())]
    assert await decide(extractor, known=[ENGINEER]) == [ruled()]
    assert len(server.requests) == 1
    assert rules.asked == [(TEXT, [ENGINEER.id], "user", NOON)]
    assert "the rules decide" in caplog.text
    assert KEY not in caplog.text
    server.script.clear()
    server.script.append(found(fact()))
    assert [each.content for each in await decide(extractor)] == [
        "用户是一名厨师"
    ]  # and it is asked next time


async def test_nobody_listens(rules, caplog):
    extractor = ModelExtractor("m", base_url="http://u:hunter2@127.0.0.1:1/v1", api_key=KEY, fallback=rules)
    assert await decide(extractor) == [ruled()]
    assert "http://127.0.0.1:1/v1" in caplog.text
    assert "hunter2" not in caplog.text
    await extractor.close()


async def test_a_model_that_takes_too_long(server, rules, caplog):
    extractor = ModelExtractor("m", base_url=server.url, timeout_seconds=0.2, fallback=rules)
    server.script.append(never)
    assert await decide(extractor) == [ruled()]
    assert "the rules decide" in caplog.text
    await extractor.close()


async def test_the_time_is_for_all_attempts_together(server, rules, caplog, monkeypatch):
    limits = []

    def timeout(seconds, real=asyncio.timeout):
        limits.append((seconds, real(seconds)))
        return limits[-1][1]

    async def until_it_is_up(endpoint):
        limits[0][1].reschedule(asyncio.get_running_loop().time())
        return await never(endpoint)

    monkeypatch.setattr("octavo.layers.llm_extractor.asyncio.timeout", timeout)
    extractor = ModelExtractor("m", base_url=server.url, timeout_seconds=30, attempts=10, fallback=rules)
    server.script += [said("no"), until_it_is_up]
    assert await decide(extractor) == [ruled()]
    assert len(server.requests) == 2
    assert [seconds for seconds, _ in limits].count(30) == 1
    assert "took longer than 30 s; the rules decide" in caplog.text
    await extractor.close()


async def test_a_caller_that_leaves(server, rules, extractor):
    """Being cancelled is not the model's fault: the rules are not asked."""
    server.script.append(never)
    waiting = asyncio.create_task(decide(extractor))
    while not server.requests:
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert rules.asked == []


@pytest.mark.parametrize("status", ["400 Bad Request", "422 Unprocessable Entity"])
async def test_a_server_that_knows_no_schema(server, rules, extractor, status):
    """It is asked for an object, then for text; and from then on no more for what it refuses."""
    refused = http(status, b'{"error": {"message": "response_format: unknown"}}')
    server.script += [refused, found(fact()), found(fact())]
    for _ in range(2):
        [decision] = await decide(extractor)
        assert decision.content == "用户是一名厨师"
    server.script += [refused, found(fact()), found(fact())]
    for _ in range(2):
        [decision] = await decide(extractor)
        assert decision.content == "用户是一名厨师"
    formats = [request.get("response_format", {}).get("type") for request in server.requests]
    assert formats == ["json_schema", "json_object", "json_object", "json_object", None, None]
    assert rules.asked == []


async def test_a_server_that_refuses_every_form(server, rules, extractor, caplog):
    """Then it is the text that it refuses; the next is asked for by schema again."""
    server.script += [REFUSED] * 5
    assert await decide(extractor) == [ruled()]
    assert len(server.requests) == 5
    assert "too long" in caplog.text
    server.script.append(found(fact()))
    await decide(extractor)
    assert server.requests[-1]["response_format"]["type"] == "json_schema"


# --- anything at all ---------------------------------------------------------------------------------------------------


words = st.sampled_from(["用户是经理", "用户是一名软件工程师", "x", " ", "", "insert", "update", "ignore", "delete", "profile", "event", "career", "meeting", "animals", ENGINEER.id, PARTY.id, "nobody", "2026-03-01", "\ud800\0"])  # fmt: skip
names = st.sampled_from([*fact(), "type", "fact", "facts", "memory_id"])
anything = st.recursive(
    words | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=7),
    max_leaves=20,
)
alike = st.fixed_dictionaries(
    {"content": words}, optional=dict.fromkeys(sorted(fact().keys() - {"content"}), words | anything)
)


@given(
    st.one_of(anything, st.lists(alike, max_size=60), alike.map(lambda one: {"facts": [one] * 3})),
    st.randoms(),
)
async def test_whatever_is_answered(answer, random):
    """Every answer is of no use, or every decision made of it can be carried out."""
    spelled = json.dumps(answer)
    cut = spelled[: random.randrange(len(spelled) + 1)] if random.random() < 0.3 else spelled
    try:
        facts, _ = facts_of(cut, NOON)
    except ModelError:
        return
    known = [ENGINEER, PARTY]
    rules = Rules(x=[ruled(action="update", layer="profile", category="career", target=ENGINEER.id)])
    decisions = await DecisionMaker(rules, TEXT, known, known[:1], "user", NOON).decisions(facts)
    assert len(decisions) <= 50
    layers = {each.id: each.layer for each in known}
    for each in decisions:
        assert each.category in CATEGORIES[each.layer]
        assert each.content.strip()
        assert each.reason.strip()
        assert each.content.encode()
        assert layers[each.target] == each.layer if each.action != "insert" else each.target is None
    changed = [each.target for each in decisions if each.action == "update"]
    assert len(changed) == len(set(changed))


# --- opening and closing ----------------------------------------------------------------------------------------------


async def test_the_key_is_never_shown(server, rules):
    extractor = ModelExtractor("m", base_url=server.url, api_key=KEY, fallback=rules)
    assert repr(extractor) == f"ModelExtractor('m' at {server.url})"
    server.script.append(UNAUTHORISED)
    with pytest.raises(ModelError, match="AuthenticationError") as raised:
        await extractor._completion([{"role": "user", "content": "x"}], {})
    assert KEY not in "".join(traceback.format_exception(raised.value))
    await extractor.close()


async def test_closing(server, rules, caplog):
    """A closed extractor leaves it to the rules; what was handed in stays open."""
    extractor = ModelExtractor("m", base_url=server.url, fallback=rules)
    server.script.append(found())
    await decide(extractor)
    await extractor.close()
    await extractor.close()
    assert await decide(extractor) == [ruled()]
    assert not rules.closed

    import openai

    async with openai.AsyncOpenAI(api_key=KEY, base_url=server.url, max_retries=0) as client:
        handed = ModelExtractor("m", fallback=rules, client=client)
        server.script.append(found())
        assert await decide(handed) == []
        server.script.append(UNAUTHORISED)  # which repeats the key
        assert await decide(handed) == [ruled()]
        await handed.close()
        assert not client.is_closed()
    assert "Incorrect key: …" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"model": " "}, "model must name a model"),
        ({"timeout_seconds": 0}, "timeout_seconds must be more than 0"),
        ({"attempts": 0}, "attempts must be 1 or more"),
        ({"known_memories": -1}, "known_memories must be 0 or more"),
        ({"base_url": None}, "OPENAI_API_KEY"),
        ({"api_key": "schlüssel"}, "not shown here"),
    ],
)
def test_settings_that_cannot_work(rules, wrong, said):
    with pytest.raises(ConfigError, match=said):
        ModelExtractor(**{"model": "m", "base_url": "http://127.0.0.1:1/v1", "fallback": rules, **wrong})


def test_without_the_package(rules, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"pip install 'octavo\[openai\]'"):
        ModelExtractor("m", base_url="http://127.0.0.1:1/v1", fallback=rules)
